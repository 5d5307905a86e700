/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share. Each target is one libFuzzer program: `make fuzzers` builds them. */
#ifndef KVD_TESTS_FUZZ_FUZZ_H
#define KVD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What must hold for every input that was let through. */
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/* The input in a block of exactly its size, so that a byte read too many is seen. Never NULL. */
static inline void *exact_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	must(copy);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

/* Reads every byte: a pointer out of bounds is seen here, not later. */
static inline uint8_t touch(const uint8_t *p, size_t len)
{
	volatile uint8_t sum = 0;

	while (len--)
		sum ^= p[len];
	return sum;
}

#endif /* KVD_TESTS_FUZZ_FUZZ_H */
