/* SPDX-License-Identifier: MIT */
/*
 * Memory for secrets, and files of them: separate pages that no core dump contains, and that are
 * overwritten before they are freed. They do not come from the heap that a program gave to libkvd
 * (heap.h).
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

/* As many pre-shared keys as there may be, with comments. */
#define SECRET_FILE_MAX ((size_t)1 << 20)

/* A file's text, in such memory; no zero byte follows it. */
struct secret_file {
	char *text;
	size_t length;
};

/*
 * Reads a file of less than SECRET_FILE_MAX bytes that trusted_file_check() passes as a secret.
 * NULL: the caller releases the text; or what is wrong with the file, without a full stop, valid
 * until the thread's next call.
 */
const char *secret_file_read(struct secret_file *secret, const char *file);
void secret_file_release(struct secret_file *secret);

#endif /* KVD_COMMON_UTIL_SECRET_H */
