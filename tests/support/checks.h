/* SPDX-License-Identifier: MIT */
/*
 * What the clients of the system tests share: `ok` and `FAIL` lines as tests/system/lib.sh prints
 * them, and a handle for a server that may be slow. Threads: none.
 */
#ifndef KVD_TESTS_SUPPORT_CHECKS_H
#define KVD_TESTS_SUPPORT_CHECKS_H

#include <stdbool.h>

#include "client/kvd.h"

#define SYS_TIMEOUT_MS 300000 /* of a call, and of connecting */

/* Prints a line that says whether it was @good. */
void check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The exit status: whether all checks were good. */
int check_status(void);

/* Ends the program with a line that begins with FAIL. */
_Noreturn void die(const char *what, const char *why);

/* Opens a handle with SYS_TIMEOUT_MS, or ends the program. */
struct kvd *must_open(const char *url);

/*
 * Closes all connections to the server of @db, its own too, which has to connect again for the next
 * call. Returns how many.
 */
unsigned int connections_kill(struct kvd *db);

#endif /* KVD_TESTS_SUPPORT_CHECKS_H */
