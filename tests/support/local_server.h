/* SPDX-License-Identifier: MIT */
/*
 * A complete server in this process, to which client handles connect over softnic; for race tests
 * and ThreadSanitizer. READs can be made to copy a few bytes at a time and to yield the CPU
 * sometimes: otherwise a copy takes too short a time for a writer to overlap it often. There is
 * one server at a time. Any failure exits the process.
 */
#ifndef KVD_TESTS_SUPPORT_LOCAL_SERVER_H
#define KVD_TESTS_SUPPORT_LOCAL_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"

/*
 * Initializes the log and blocks the signals that a server reads from a signalfd. Call it before
 * the first server and before other threads start, since every thread has to block them.
 */
void local_server_init(void);

/* Makes READs copy @bytes at a time (common/rdma/softnic/fault.h). */
void local_server_tear(unsigned int bytes);

/*
 * Makes the index of the servers that begin from now on grow at this percentage of its slots, not
 * at INDEX_FILL: sooner, so that a few keys split it, or later, so that it has chains.
 */
void local_server_set_fill(uint32_t percent);

/*
 * Starts a server with two workers and without hugepages in a folder of its own. @assignments are
 * options, "section.key=value" each, and end with NULL. Returns the server's URL, valid until the
 * next call.
 */
const char *local_server_begin(const char *const *assignments);

/* Stops the server with SIGTERM. Returns whether it ended without an error. */
bool local_server_end(void);

/*
 * Connects a handle to the server at @url; waits until that server listens. Without @options its
 * timeouts are minutes.
 */
struct kvd *local_server_open(const char *url, const struct kvd_options *options);

#endif /* KVD_TESTS_SUPPORT_LOCAL_SERVER_H */
