/* SPDX-License-Identifier: MIT */
/*
 * The variants of the sum of long data, XXH3-64, and of copies past the CPU's cache, for several
 * instruction sets. All do the same; common/sum.h calls the fastest one that this CPU has.
 */
#ifndef KVD_COMMON_SUM_VARIANT_H
#define KVD_COMMON_SUM_VARIANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"

/* @secret: SUM_KEY_BYTES, the key. */
typedef uint64_t sum_function(const void *data, size_t bytes, const void *secret);

/* Adds bytes to a sum in pieces, an XXH3_state_t. */
typedef void sum_add_function(void *state, const void *data, size_t bytes);

/* Lines of the CPU's cache. */
#define SUM_LINE_BYTES 64u

/*
 * Copies whole lines to line-aligned memory, past the cache if the CPU can do that. Later accesses
 * are ordered after the stores only by sum_lines_fence().
 *
 * Wider stores are better: each store that waits for memory takes a place in the CPU's store
 * buffer, and a line stored at once takes one instead of four. So the CPU sums the next bytes
 * meanwhile: 1 MiB that was copied out of a file, summed and moved took 85 to 102 us with stores of
 * 64 bytes, and 95 to 112 with stores of 16.
 */
typedef void sum_move_function(void *to, const void *from, size_t bytes);

struct sum_variant {
	const char *name;
	sum_function *sum;
	sum_add_function *add;
	sum_move_function *move;
};

/* Compiled for what the compiler assumes anyway: SSE2 on x86-64, NEON on arm64. */
uint64_t sum_base(const void *data, size_t bytes, const void *secret);
void sum_base_add(void *state, const void *data, size_t bytes);
void sum_base_move(void *to, const void *from, size_t bytes);
#ifdef __x86_64__
uint64_t sum_avx2(const void *data, size_t bytes, const void *secret);
void sum_avx2_add(void *state, const void *data, size_t bytes);
void sum_avx2_move(void *to, const void *from, size_t bytes);
uint64_t sum_avx512(const void *data, size_t bytes, const void *secret);
void sum_avx512_add(void *state, const void *data, size_t bytes);
void sum_avx512_move(void *to, const void *from, size_t bytes);
#endif

/* The fastest one of this CPU; set before main(), and sum_base() until then. */
extern sum_function *sum_long;
extern sum_add_function *sum_long_add;
extern sum_move_function *sum_lines_move;

/* Orders moved lines before later stores. */
void sum_lines_fence(void);

/* The @n-th variant that this CPU has, from the slowest to the fastest; false: there is none. */
bool sum_variant(unsigned int n, struct sum_variant *variant);

#endif /* KVD_COMMON_SUM_VARIANT_H */
