/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share; each target is one libFuzzer program, built by `make fuzzers`. */
#ifndef KVD_TESTS_FUZZ_FUZZ_H
#define KVD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Aborts unless @condition holds, as it must for every input that a parser accepts. */
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/*
 * Copies the input to a heap block of exactly its size, so that a byte read too many is detected.
 */
static inline void *exact_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	must(copy);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

/* Reads every byte, so that a pointer out of bounds is detected here. */
static inline uint8_t touch(const uint8_t *p, size_t len)
{
	volatile uint8_t sum = 0;

	while (len--)
		sum ^= p[len];
	return sum;
}

#endif /* KVD_TESTS_FUZZ_FUZZ_H */
