/* SPDX-License-Identifier: MIT */
/*
 * Locked memory: memory registered with an RDMA device is locked, and the kernel bounds how much a
 * process may lock. Threads: any.
 */
#ifndef KVD_COMMON_UTIL_MEMLOCK_H
#define KVD_COMMON_UTIL_MEMLOCK_H

#include <stdbool.h>

#define MEMLOCK_WHY_BYTES 200

/* Whether RLIMIT_MEMLOCK does not apply to this process: it has CAP_IPC_LOCK. */
bool memlock_is_lifted(void);

/*
 * Writes the bound on the process's locked memory, and how to raise it, to follow the text of a
 * failure; "" if there is none. Returns @text.
 */
const char *memlock_why(char text[MEMLOCK_WHY_BYTES]);

#endif /* KVD_COMMON_UTIL_MEMLOCK_H */
