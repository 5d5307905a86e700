/* SPDX-License-Identifier: MIT */
/*
 * Patterns of keys, as those of fnmatch(3) without flags, but matched byte by byte in any locale:
 * keys may contain zeros.
 */
#ifndef KVD_CLIENT_KVCTL_GLOB_H
#define KVD_CLIENT_KVCTL_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether the whole key matches the pattern: `*` any bytes, `?` one byte, [abc], [a-z] one of
 * these, [!a-z] one byte but these; a backslash makes the next byte literal, and so is a [ without
 * ]. The number of steps is at most the product of the lengths of pattern and key.
 */
bool glob_matches(const uint8_t *pattern, size_t pattern_len, const uint8_t *key, size_t key_len);

#endif /* KVD_CLIENT_KVCTL_GLOB_H */
