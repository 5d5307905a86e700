/* SPDX-License-Identifier: MIT */
/* How kvctl says what failed, and with which exit status (client/kvctl/table.h has all). */
#ifndef KVD_CLIENT_KVCTL_REPORT_H
#define KVD_CLIENT_KVCTL_REPORT_H

#include <stdbool.h>

#include "client/kvd.h"

struct arguments;
struct key;

/* Of the last call on @db. Prints why it failed, if it did. Returns the exit status. */
int report(const struct kvd *db, enum kvd_status status);

/* The same, of a call that concerned only a part, as one of several keys: @what, a string. */
int report_of(const struct kvd *db, const char *what, enum kvd_status status);

/*
 * Likewise of a change that prints nothing. To somebody who typed it, with the standard output on a
 * terminal, it says OK; not in a script, nor with --json.
 */
int report_change(const struct kvd *db, const struct arguments *arguments, enum kvd_status status);

/* Of a connection that could not be opened. @hint: the user may not know how to name a server. */
int report_open(enum kvd_status status, int hint);

/* Prints that there is no memory. Returns EX_OSERR. */
int report_memory(void);

/* For --json: what a change made of a key, its new version and, unless it is NULL, its number. */
void change_json(const struct arguments *arguments, const struct key *key, uint64_t version,
		 const uint64_t *number);

/* What was printed so far is written. EX_IOERR after printing why it could not be. */
int output_flush(void);
/* Whether it has failed: a script ends there, since its later lines would print, too. */
bool output_is_lost(void);

#endif /* KVD_CLIENT_KVCTL_REPORT_H */
