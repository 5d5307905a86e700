/* SPDX-License-Identifier: MIT */
/*
 * A whole server in this process, that handles connect to over softnic; and READs that copy a few
 * bytes at a time and yield the CPU in between now and then, since a whole copy is over too soon for a
 * writer to meet it often. One server at a time. What fails ends the process.
 */
#ifndef KVD_TESTS_SUPPORT_LOCAL_SERVER_H
#define KVD_TESTS_SUPPORT_LOCAL_SERVER_H

#include <stdbool.h>

#include "client/kvd.h"

/*
 * Before the first server, and before other threads: the log, and the signals that a server takes from
 * a signalfd, so that every thread has to block them.
 */
void local_server_init(void);

/* The device's fault plan: @bytes of a READ at a time. */
void local_server_tear(unsigned int bytes);

/*
 * Starts a server of two workers without hugepages in a folder of its own. @assignments: "section.key=value"
 * each, NULL behind the last. Returns its address, which is good until the next is started.
 */
const char *local_server_begin(const char *const *assignments);

/* Ends it as SIGTERM does. Returns whether it ended well. */
bool local_server_end(void);

/* A handle on the server at @url, which may not listen yet. */
struct kvd *local_server_open(const char *url, const struct kvd_options *options);

#endif /* KVD_TESTS_SUPPORT_LOCAL_SERVER_H */
