/* SPDX-License-Identifier: MIT */
/* Tests of files of pre-shared keys (common/tls/psk.c): what is taken, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/tls/tls.h"

#define HEX16 "000102030405060708090a0b0c0d0e0f"
#define HEX64 HEX16 HEX16 HEX16 HEX16

static void refused_of(const char *text, size_t length, const char *expected)
{
	char why[TLS_WHY_MAX] = "";
	struct tls_psks psks;

	assert_int_equal(tls_psks_parse(&psks, text, length, why), -EINVAL);
	assert_string_equal(why, expected);
	tls_psks_release(&psks);
	assert_null(psks.list);
}

static void refused(const char *text, const char *expected)
{
	refused_of(text, strlen(text), expected);
}

static void taken(struct tls_psks *psks, const char *text, size_t count)
{
	char why[TLS_WHY_MAX] = "";

	assert_int_equal(tls_psks_parse(psks, text, strlen(text), why), 0);
	assert_string_equal(why, "");
	assert_int_equal(psks->count, count);
}

static void takes(void **state)
{
	static const uint8_t bytes[] = { 0xfe, 0xDC, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10,
					 0,    1,    2,	   3,	 4,    5,    6,	   0xff };
	const struct tls_psk *psk;
	struct tls_psks psks;

	(void)state;
	/* The last line may end with the file. */
	taken(&psks,
	      "# users\n\nalice:" HEX16 "\nrack:7:bob:feDCba987654321000010203040506FF\n\n"
	      "#carol:" HEX16 "\nlong:" HEX64,
	      3);
	psk = tls_psks_find(&psks, "alice", 5);
	assert_ptr_equal(psk, &psks.list[0]);
	assert_string_equal(psk->name, "alice");
	assert_int_equal(psk->key_len, 16);
	psk = tls_psks_find(&psks, "rack:7:bob", 10);
	assert_int_equal(psk->key_len, sizeof(bytes));
	assert_memory_equal(psk->key, bytes, sizeof(bytes));
	assert_int_equal(tls_psks_find(&psks, "long", 4)->key_len, 64);
	assert_null(tls_psks_find(&psks, "carol", 5));
	assert_null(tls_psks_find(&psks, "alic", 4));
	assert_null(tls_psks_find(&psks, "alice\0", 6));
	assert_null(tls_psks_find(&psks, "", 0));
	tls_psks_release(&psks);
	tls_psks_release(&psks);
}

static void takes_nothing(void **state)
{
	struct tls_psks psks;

	(void)state;
	taken(&psks, "", 0);
	tls_psks_release(&psks);
	taken(&psks, "\n\n# nobody", 0);
	tls_psks_release(&psks);
	taken(&psks, "\xef\xbb\xbf# nobody", 0);
	tls_psks_release(&psks);
}

static void bad_lines(void **state)
{
	const char *digits = "the key must have 32 to 128 hexadecimal digits, two for each byte";
	const char *name = "the identity must have 1 to 64 bytes";
	char text[200], why[200];

	(void)state;
	refused("alice", "line 1: write identity:key, the key in hexadecimal digits");
	refused("\n#\nalice " HEX16, "line 3: write identity:key, the key in hexadecimal digits");
	snprintf(why, sizeof(why), "line 1: %s", name);
	refused(":" HEX16, why);
	snprintf(text, sizeof(text), "%065d:" HEX16, 0);
	refused(text, why);
	refused("a b:" HEX16, "line 1: the identity must be printable ASCII without spaces");
	refused("\303\244:" HEX16, "line 1: the identity must be printable ASCII without spaces");
	refused_of("a\0b:" HEX16, 4 + 32,
		   "line 1: the identity must be printable ASCII without spaces");
	snprintf(why, sizeof(why), "line 1: %s", digits);
	refused("alice:", why);
	refused("alice:" HEX16 "0", why);
	refused("alice:0102030405060708090a0b0c0d0e0f", why);
	refused("alice:" HEX64 "00", why);
	refused("alice:0001020304050607 8090a0b0c0d0e0f\n",
		"line 1: the key must consist of hexadecimal digits");
	refused("alice:0001020304050607g8090a0b0c0d0e0f\n",
		"line 1: the key must consist of hexadecimal digits");
	refused("alice:" HEX16 "\nbob:" HEX16 "\nalice:" HEX16 "\n",
		"line 3: the identity has another key above");
	/* A carriage return is no digit. */
	refused("alice:" HEX16 "\r\n", why);
}

static void longest_name(void **state)
{
	struct tls_psks psks;
	char text[200];

	(void)state;
	snprintf(text, sizeof(text), "%064d:" HEX16, 0);
	taken(&psks, text, 1);
	assert_int_equal(strlen(psks.list[0].name), 64);
	tls_psks_release(&psks);
}

static void too_many(void **state)
{
	const unsigned int most = 4096;
	size_t line = strlen("00000:" HEX16 "\n"), length = (most + 1) * line;
	char *text = malloc(length + 1), why[TLS_WHY_MAX];
	struct tls_psks psks;

	(void)state;
	for (unsigned int i = 0; i <= most; i++)
		snprintf(text + i * line, line + 1, "%05u:" HEX16 "\n", i);
	refused(text, "line 4097: there are too many keys: 4096 at most");
	assert_int_equal(tls_psks_parse(&psks, text, most * line, why), 0);
	assert_int_equal(psks.count, most);
	tls_psks_release(&psks);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes),     cmocka_unit_test(takes_nothing),
		cmocka_unit_test(bad_lines), cmocka_unit_test(longest_name),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
