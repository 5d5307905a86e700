/* SPDX-License-Identifier: MIT */
/*
 * Memory for secrets: pages of their own that no core dump has, and that are overwritten before
 * they are given back. They are not of the heap that a program gave to libkvd (heap.h).
 *
 * Threads: any. There is no state between the calls, so a fork(2) at any moment does no harm.
 */
#ifndef KVD_COMMON_UTIL_SECRET_H
#define KVD_COMMON_UTIL_SECRET_H

#include <stddef.h>

/* @bytes, zeroed, from the beginning of a page on; or NULL: no memory. For few and long-lived. */
void *secret_alloc(size_t bytes);
/* Overwrites @bytes, as they were allocated, and gives them back. @secret may be NULL. */
void secret_free(void *secret, size_t bytes);

#endif /* KVD_COMMON_UTIL_SECRET_H */
