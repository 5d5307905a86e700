/* SPDX-License-Identifier: MIT */
#include "server/users/password.h"

#include <crypt.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

static const char alphabet[] = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* Whether the rest of a hash is "SALT$SUM", with a sum of @sum_len characters. */
static bool salt_and_sum(const char *text, size_t salt_max, size_t sum_len)
{
	size_t salt = strspn(text, alphabet);
	const char *sum = text + salt + 1;

	return salt && salt <= salt_max && text[salt] == '$' && strlen(sum) == sum_len &&
	       strspn(sum, alphabet) == sum_len;
}

/*
 * "$y$jNR$SALT$SUM": N says how many blocks of memory the sum takes, 2^10 (7) to 2^14 (B), and R
 * that a block is of 1 KiB (5) or 4 KiB (T).
 */
static bool yescrypt_valid(const char *hash)
{
	return hash[3] == 'j' && hash[4] && strchr(PASSWORD_YESCRYPT_COSTS, hash[4]) && hash[5] &&
	       strchr("5T", hash[5]) && hash[6] == '$' && salt_and_sum(hash + 7, 64, 43);
}

/* "$6$SALT$SUM" or "$6$rounds=N$SALT$SUM". */
static bool sha512_valid(const char *hash)
{
	static const char rounds[] = "rounds=";
	const char *at = hash + 3;
	unsigned long number;
	char *end;

	if (!strncmp(at, rounds, sizeof(rounds) - 1)) {
		at += sizeof(rounds) - 1;
		/* As crypt(3) wants it: without a sign or zeros before it. */
		number = *at >= '1' && *at <= '9' ? strtoul(at, &end, 10) : 0;
		if (number < 1000 || number > PASSWORD_ROUNDS_MAX || *end != '$')
			return false;
		at = end + 1;
	}
	return salt_and_sum(at, 16, 86);
}

bool password_hash_valid(const char *hash)
{
	if (strlen(hash) >= PASSWORD_HASH_BYTES)
		return false;
	if (!strncmp(hash, "$y$", 3))
		return yescrypt_valid(hash);
	return !strncmp(hash, "$6$", 3) && sha512_valid(hash);
}

bool password_matches(const char *password, const char *hash, struct crypt_data *data)
{
	/* Not crypt_r(), of which sanitizers have one of their own. */
	const char *made = crypt_rn(password, hash, data, sizeof(*data));
	size_t length = strlen(hash);

	return made && strlen(made) == length && !CRYPTO_memcmp(made, hash, length);
}
