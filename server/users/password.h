/* SPDX-License-Identifier: MIT */
/*
 * Passwords of users: as hashes of crypt(5), by yescrypt or SHA-512. A check takes milliseconds of
 * a CPU, and yescrypt's takes megabytes too, so both are bounded.
 */
#ifndef KVD_SERVER_USERS_PASSWORD_H
#define KVD_SERVER_USERS_PASSWORD_H

#include <stdbool.h>

/* Bytes of a hash, at most, with a zero. */
#define PASSWORD_HASH_BYTES 160
/* The highest cost: rounds of SHA-512 (5,000 by default); 64 MiB of yescrypt (16 by default). */
#define PASSWORD_ROUNDS_MAX 500000
#define PASSWORD_YESCRYPT_COSTS "789AB"

struct crypt_data;

/* Whether the text is the hash of a password, at a cost that a server bears. */
bool password_hash_valid(const char *hash);

/*
 * Whether @password has the hash @hash, a valid one. Takes as long for every password of the same
 * length, and up to a fraction of a second. @data is all zero the first time, and holds traces of
 * the password after the call.
 */
bool password_matches(const char *password, const char *hash, struct crypt_data *data);

#endif /* KVD_SERVER_USERS_PASSWORD_H */
