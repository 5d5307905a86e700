/* SPDX-License-Identifier: MIT */
/* Tests of client/lookup.h: the comparison of keys, whose short ones are compared word by word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/lookup.h"

#define BYTES_MAX (2 * KEY_INLINE_MAX)

/* Neither ends where a word ends, and what follows the keys differs. */
static void keys_differ_in_any_byte(void **state)
{
	uint8_t a[1 + BYTES_MAX + 8], b[3 + BYTES_MAX + 8];
	size_t bytes, at;

	(void)state;
	for (bytes = 1; bytes <= BYTES_MAX; bytes++) {
		memset(a, 0x11, sizeof(a));
		memset(b, 0x22, sizeof(b));
		for (at = 0; at < bytes; at++)
			a[1 + at] = b[3 + at] = (uint8_t)(at * 37 + bytes);
		assert_true(keys_equal(a + 1, b + 3, bytes));
		for (at = 0; at < bytes; at++) {
			b[3 + at] ^= (uint8_t)(1u << at % 8);
			assert_false(keys_equal(a + 1, b + 3, bytes));
			b[3 + at] ^= (uint8_t)(1u << at % 8);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_differ_in_any_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
