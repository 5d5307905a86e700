/* SPDX-License-Identifier: MIT */
/*
 * Memory for secrets: separate pages that no core dump contains, and that are overwritten before
 * they are freed. They do not come from the heap that a program gave to libkvd (heap.h).
 *
 * Threads: any. There is no state between the calls, so a fork(2) at any moment does no harm.
 */
#ifndef KVD_COMMON_UTIL_SECRET_H
#define KVD_COMMON_UTIL_SECRET_H

#include <stddef.h>

/* Allocates @bytes, zeroed and page-aligned, for few and long-lived secrets; NULL: no memory. */
void *secret_alloc(size_t bytes);
/* Overwrites and frees @bytes, as allocated. @secret may be NULL. */
void secret_free(void *secret, size_t bytes);

#endif /* KVD_COMMON_UTIL_SECRET_H */
