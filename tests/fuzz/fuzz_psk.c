/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of tls_psks_parse(), which reads files of keys: what it takes has names and keys in
 * their ranges, each name once, and is found again; what it does not take gets a text with a line.
 */
#include "common/tls/tls.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct tls_psks *psks)
{
	for (size_t i = 0; i < psks->count; i++) {
		const struct tls_psk *psk = &psks->list[i];
		size_t length = strnlen(psk->name, sizeof(psk->name));

		must(length >= 1 && length <= TLS_PSK_NAME_MAX);
		must(psk->key_len >= TLS_PSK_KEY_MIN && psk->key_len <= TLS_PSK_KEY_MAX);
		for (size_t j = 0; j < length; j++)
			must(psk->name[j] > ' ' && psk->name[j] <= '~');
		must(tls_psks_find(psks, psk->name, length) == psk);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[TLS_WHY_MAX] = "", *text = exact_copy(data, size);
	struct tls_psks psks;

	if (tls_psks_parse(&psks, text, size, why))
		must(!strncmp(why, "line ", 5) && strlen(why) < sizeof(why) - 1);
	else
		check(&psks);
	tls_psks_release(&psks);
	free(text);
	return 0;
}
