/* SPDX-License-Identifier: MIT */
/* Text of peers, made safe for a log or a terminal. */
#ifndef KVD_COMMON_UTIL_TEXT_H
#define KVD_COMMON_UTIL_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The length of the UTF-8 character at @p, of @len bytes at most; 0: there is none. */
size_t utf8_len(const uint8_t *p, size_t len);

/*
 * The length of a printable character; 0 also for control characters: those of ASCII, and U+0080 to
 * U+009F, which a terminal obeys like ESC and a letter.
 */
size_t plain_len(const uint8_t *p, size_t len);

/* Replaces each byte that belongs to no printable character by '?'. */
void text_mask(char *text, size_t len);

#endif /* KVD_COMMON_UTIL_TEXT_H */
