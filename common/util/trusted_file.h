/* SPDX-License-Identifier: MIT */
/* Reads a file that says what a server does, if only its owner may write to it. */
#ifndef KVD_COMMON_UTIL_TRUSTED_FILE_H
#define KVD_COMMON_UTIL_TRUSTED_FILE_H

#include <stddef.h>

#define TRUSTED_FILE_WHY_MAX 80

/*
 * Reads the file at @path: *@text (of heap_alloc()) has *@length bytes and a zero after them.
 * Returns 0; or a negative errno, with the reason in @why (TRUSTED_FILE_WHY_MAX bytes). The file
 * has to be a regular one of at most @max bytes, of root or the process's user, which no other user
 * may write to.
 */
int trusted_file_read(char **text, size_t *length, const char *path, size_t max, char *why);

#endif /* KVD_COMMON_UTIL_TRUSTED_FILE_H */
