/* SPDX-License-Identifier: MIT */
/* Base64 (RFC 4648) as others send it. */
#ifndef KVD_COMMON_UTIL_BASE64_H
#define KVD_COMMON_UTIL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Decodes @len characters to @bytes, of which it may write @len / 4 * 3; *@count: those that mean
 * something. False: there are other characters than those of the alphabet, or too few.
 */
bool base64_decode(void *bytes, size_t *count, const char *text, size_t len);

#endif /* KVD_COMMON_UTIL_BASE64_H */
