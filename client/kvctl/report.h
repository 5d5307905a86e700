/* SPDX-License-Identifier: MIT */
/* How kvctl reports failures, and the exit statuses for them (all are in client/kvctl/table.h). */
#ifndef KVD_CLIENT_KVCTL_REPORT_H
#define KVD_CLIENT_KVCTL_REPORT_H

#include <stdbool.h>

#include "client/kvd.h"

struct arguments;
struct key;

/* If the last call on @db failed, prints why. Returns the exit status. */
int report(const struct kvd *db, enum kvd_status status);

/* As report(), for a call on one of several things, such as a key, which @what names. */
int report_of(const struct kvd *db, const char *what, enum kvd_status status);

/*
 * As report(), for a change that prints nothing: prints OK after success if the standard output is
 * a terminal, but not in a script nor with --json.
 */
int report_change(const struct kvd *db, const struct arguments *arguments, enum kvd_status status);

/* Reports a failed connection attempt. @hint: the user may not know how to name a server. */
int report_open(enum kvd_status status, int hint);

/* Reports a lack of memory. Returns EX_OSERR. */
int report_memory(void);

/* For --json: a changed key with its new version and, unless @number is NULL, its new number. */
void change_json(const struct arguments *arguments, const struct key *key, uint64_t version,
		 const uint64_t *number);

/* Flushes the output. EX_OK, or EX_IOERR after printing why it could not be written. */
int output_flush(void);
/* Whether output_flush() has failed: a script then ends, as its later lines would print, too. */
bool output_is_lost(void);

#endif /* KVD_CLIENT_KVCTL_REPORT_H */
