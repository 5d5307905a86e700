/* SPDX-License-Identifier: MIT */
/*
 * Patterns of keys, as those of fnmatch(3) without flags, but of bytes: keys may have zeros in
 * them, which a string can't. Letters are bytes, whatever the locale.
 */
#ifndef KVD_CLIENT_KVCTL_GLOB_H
#define KVD_CLIENT_KVCTL_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether all of the key matches the pattern: `*` any bytes, `?` one byte, [abc], [a-z], [!a-z] one
 * of these or not; a backslash takes away the meaning of what follows. A [ without ] is a letter.
 * Takes at most as many steps as pattern and key have bytes, multiplied.
 */
bool glob_matches(const uint8_t *pattern, size_t pattern_len, const uint8_t *key, size_t key_len);

#endif /* KVD_CLIENT_KVCTL_GLOB_H */
