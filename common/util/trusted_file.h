/* SPDX-License-Identifier: MIT */
/* Checks and reads files that say what a server does: only their owner may write to them. */
#ifndef KVD_COMMON_UTIL_TRUSTED_FILE_H
#define KVD_COMMON_UTIL_TRUSTED_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define TRUSTED_FILE_WHY_MAX 80

/*
 * NULL, or what is wrong with an open file, valid until the thread's next call. It has to be a
 * regular file of root or the process's user, which no other user may write to. A secret's group
 * may read it, and all others may not.
 */
const char *trusted_file_check(int fd, bool is_secret);

/*
 * Reads the file at @path: *@text (of heap_alloc()) has *@length bytes and a zero after them.
 * Returns 0; or a negative errno, with the reason in @why (TRUSTED_FILE_WHY_MAX bytes). The file
 * has to be one of at most @max bytes that trusted_file_check() passes. *@is_secret: also as a
 * secret; @is_secret may be NULL.
 */
int trusted_file_read(char **text, size_t *length, const char *path, size_t max, bool *is_secret,
		      char *why);

#endif /* KVD_COMMON_UTIL_TRUSTED_FILE_H */
