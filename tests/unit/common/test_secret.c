/* SPDX-License-Identifier: MIT */
/* Memory for secrets, and for OpenSSL: no core dump has it, and it is overwritten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/crypto.h>

#include "common/tls/tls.h"
#include "common/util/secret.h"
#include "tests/support/dumped.h"

#ifdef __SANITIZE_ADDRESS__
#define PROTECTED 0 /* OpenSSL has its own memory there */
#else
#define PROTECTED 1
#endif

static void not_dumped(void **state)
{
	static const size_t sizes[] = { 1, 4096, 4097, 1 << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *secret = secret_alloc(sizes[i]);

		assert_non_null(secret);
		assert_false(is_dumped(secret));
		assert_false(is_dumped(secret + sizes[i] - 1));
		for (size_t at = 0; at < sizes[i]; at++)
			assert_int_equal(secret[at], 0);
		memset(secret, 1, sizes[i]);
		secret_free(secret, sizes[i]);
	}
	secret_free(NULL, 17);
}

static void keys_are_not_dumped(void **state)
{
	static const char text[] = "alice:000102030405060708090a0b0c0d0e0f\n";
	struct tls_psks psks;
	char why[TLS_WHY_MAX];

	(void)state;
	assert_int_equal(tls_psks_parse(&psks, text, sizeof(text) - 1, why), 0);
	assert_false(is_dumped(psks.list));
	assert_false(is_dumped(psks.list[0].key));
	tls_psks_release(&psks);
}

/* Filled with @with as far as it was asked for. */
static uint8_t *filled(size_t bytes, int with)
{
	uint8_t *memory = OPENSSL_malloc(bytes);

	assert_non_null(memory);
	assert_true((uintptr_t)memory % 16 == 0);
	assert_true(is_dumped(memory) != PROTECTED);
	assert_true(is_dumped(memory + bytes - 1) != PROTECTED);
	memset(memory, with, bytes);
	return memory;
}

static void assert_all(const uint8_t *memory, size_t from, size_t to, int value)
{
	for (size_t at = from; at < to; at++)
		assert_int_equal(memory[at], value);
}

/* Two blocks of each size, beside the others: none has bytes of another. */
static void openssl_s(void **state)
{
	static const size_t sizes[] = { 1,     15,    16,    17,     48,     49,     1000,
					4096,  65519, 65520, 65521,  65536,  262144, 1000000,
					16400, 20000, 40000, 100000, 300000, 1 };
	enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
	uint8_t *memory[2][COUNT];

	(void)state;
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < COUNT; i++)
			memory[turn][i] = filled(sizes[i], 100 * turn + i + 1);
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < COUNT; i++) {
			assert_all(memory[turn][i], 0, sizes[i], 100 * turn + i + 1);
			OPENSSL_free(memory[turn][i]);
		}
	OPENSSL_free(NULL);
}

static void grows_and_shrinks(void **state)
{
	uint8_t *memory = filled(20, 7);

	(void)state;
	memory = OPENSSL_realloc(memory, 30000);
	assert_all(memory, 0, 20, 7);
	memset(memory, 8, 30000);
	memory = OPENSSL_realloc(memory, 200000);
	assert_all(memory, 0, 30000, 8);
	memory = OPENSSL_realloc(memory, 10);
	assert_all(memory, 0, 10, 8);
	assert_null(OPENSSL_realloc(memory, 0));
	memory = OPENSSL_realloc(NULL, 5);
	assert_non_null(memory);
	OPENSSL_free(memory);
	if (PROTECTED) /* a sanitizer's own malloc ends the process instead */
		assert_null(OPENSSL_malloc(SIZE_MAX - 1));
}

/* What is freed is overwritten at once, and given to the next; large memory goes back. */
static void overwritten(void **state)
{
	uint8_t *memory, *large, *again;

	(void)state;
	if (!PROTECTED)
		skip();
	memory = filled(1000, 0x5a);
	large = filled(1000000, 0x5a);
	OPENSSL_free(memory);
	OPENSSL_free(large);
	assert_false(is_mapped(large));
	assert_all(memory, 0, 1000, 0);
	again = OPENSSL_malloc(1000);
	assert_ptr_equal(again, memory);
	OPENSSL_free(again);
}

/* What OpenSSL's memory leaves as it grows is overwritten like what is freed. */
static void overwritten_when_moved(void **state)
{
	static const size_t sizes[] = { 1000, 40000, 300000 };
	uint8_t *memory, *moved;

	(void)state;
	if (!PROTECTED)
		skip();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memory = filled(sizes[i], 0x5a);
		moved = OPENSSL_realloc(memory, 2 * sizes[i]);
		assert_non_null(moved);
		assert_ptr_not_equal(moved, memory);
		assert_all(moved, 0, sizes[i], 0x5a);
		if (is_mapped(memory))
			assert_all(memory, 0, sizes[i], 0);
		OPENSSL_free(moved);
	}
}

/* So is the part that OpenSSL gave up when it made it shorter, at the latest with the rest. */
static void overwritten_when_shorter(void **state)
{
	uint8_t *memory, *shorter;

	(void)state;
	if (!PROTECTED)
		skip();
	memory = filled(1000, 0x5a);
	shorter = OPENSSL_realloc(memory, 10);
	assert_non_null(shorter);
	OPENSSL_free(shorter);
	assert_all(memory, 0, 1000, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_dumped),
		cmocka_unit_test(keys_are_not_dumped),
		cmocka_unit_test(openssl_s),
		cmocka_unit_test(grows_and_shrinks),
		cmocka_unit_test(overwritten),
		cmocka_unit_test(overwritten_when_moved),
		cmocka_unit_test(overwritten_when_shorter),
	};

	if (!tls_memory_protect())
		return 1;
	return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
