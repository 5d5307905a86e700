/* SPDX-License-Identifier: MIT */
/* Text of peers, for a log or a terminal, which must not obey it. */
#ifndef KVD_COMMON_UTIL_TEXT_H
#define KVD_COMMON_UTIL_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The length of the UTF-8 character at @p, of @len bytes at most; 0: there is none. */
size_t utf8_len(const uint8_t *p, size_t len);

/*
 * The same of a character that is shown. 0 also for control characters: those of ASCII, and U+0080
 * to U+009F, which a terminal obeys as it does ESC and a letter.
 */
size_t plain_len(const uint8_t *p, size_t len);

/* Puts '?' in the place of each byte that belongs to no such character. */
void text_mask(char *text, size_t len);

#endif /* KVD_COMMON_UTIL_TEXT_H */
