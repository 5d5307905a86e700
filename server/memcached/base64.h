/* SPDX-License-Identifier: MIT */
/* Keys in base64 (RFC 4648), as meta commands send those that are no text. */
#ifndef KVD_SERVER_MEMCACHED_BASE64_H
#define KVD_SERVER_MEMCACHED_BASE64_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes @len / 4 * 3 bytes at most, and returns how many; 0: it is no base64, or empty. Stricter
 * than memcached, which skips what is not of the alphabet, so that one key would have many names.
 */
size_t base64_decode(uint8_t *bytes, const uint8_t *text, size_t len);

#endif /* KVD_SERVER_MEMCACHED_BASE64_H */
