/* SPDX-License-Identifier: MIT */
/*
 * Locked memory: what is registered with an RDMA device is, and the kernel bounds how much of it a
 * process may have. Threads: any.
 */
#ifndef KVD_COMMON_UTIL_MEMLOCK_H
#define KVD_COMMON_UTIL_MEMLOCK_H

#include <stdbool.h>

#define MEMLOCK_WHY_BYTES 200

/* Whether RLIMIT_MEMLOCK is nothing to this process: it has CAP_IPC_LOCK. */
bool memlock_is_lifted(void);

/*
 * Writes what bounds the process's locked memory, and how to raise it, to go behind the text of a
 * failure; "" if nothing does. Returns @text.
 */
const char *memlock_why(char text[MEMLOCK_WHY_BYTES]);

#endif /* KVD_COMMON_UTIL_MEMLOCK_H */
