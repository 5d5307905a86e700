/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of the parser of memcached's protocol (server/memcached/parser.c). The first byte
 * says how many bytes arrive at a time, the second the longest key: however the rest is cut, the
 * commands are the same.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/support/mc_feed.h"

#define INPUT_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *whole, *cut;
	uint32_t key_max;
	size_t step;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	step = data[0] + 1u;
	key_max = data[1] + 1u;
	data += 2;
	size -= 2;
	whole = mc_feed(data, size, size, 1, key_max);
	cut = mc_feed(data, size, 0, step, key_max);
	must(!strcmp(whole, cut));
	free(cut);
	free(whole);
	return 0;
}
