/* SPDX-License-Identifier: MIT */
/*
 * Litmus test of store_load_barrier(), in the shape in which server/store/update.c needs it: one
 * thread makes an item invalid and then reads the clock; another one reads the clock and then the
 * item. If the second finds the item valid, it must have read its clock first. Without the barrier
 * it may read it later: the first thread's store was still in its core's store buffer. The test
 * sees that happen before it believes that the barrier prevents it; it is skipped on a machine that
 * does not show it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/barrier.h"
#include "common/util/clock.h"

#define ITEMS 50000u /* a round makes this many valid and invalid, one after another */
#define ROUNDS_MAX 40
/* With the barrier as many rounds are done, but at least these. */
#define ROUNDS_MIN 4

static struct {
	atomic_bool stop;
	/* Of each item, which is named by its sum: */
	uint64_t invalid_ns[ITEMS + 1]; /* the clock after it was made invalid */
	uint64_t valid_ns[ITEMS + 1];	/* the last clock after which it was read valid; 0: never */
	struct item item __attribute__((aligned(128)));
} shared;

/* The reader, as client/libkvd/lookup.c: the clock first, then the READ. */
static void *read_items(void *arg)
{
	while (!atomic_load_explicit(&shared.stop, memory_order_relaxed)) {
		uint64_t now_ns = clock_raw_ns(), sum;

		clock_load_barrier();
		sum = item_sum_first(&shared.item);
		if (sum != ITEM_SUM_INVALID)
			shared.valid_ns[sum] = now_ns;
	}
	return arg;
}

/* The writer, as do_hide_expiring(). */
static void change_items(bool barrier)
{
	uint64_t i, until_ns;

	for (i = 1; i <= ITEMS; i++) {
		item_publish(&shared.item, i);
		/* The reader's core gets the line, so the next store has to wait for it. */
		for (until_ns = clock_raw_ns() + 100 + i % 256; clock_raw_ns() < until_ns;)
			cpu_relax();
		item_invalidate(&shared.item);
		if (barrier)
			store_load_barrier();
		shared.invalid_ns[i] = clock_raw_ns();
	}
}

/* Returns how many items were read valid at a later time than they were made invalid. */
static unsigned int run_round(bool barrier)
{
	unsigned int i, late = 0;
	pthread_t reader;

	memset(shared.valid_ns, 0, sizeof(shared.valid_ns));
	atomic_store(&shared.stop, false);
	if (pthread_create(&reader, NULL, read_items, NULL)) {
		perror("pthread_create");
		exit(EXIT_FAILURE);
	}
	change_items(barrier);
	atomic_store(&shared.stop, true);
	pthread_join(reader, NULL);
	for (i = 1; i <= ITEMS; i++)
		late += shared.valid_ns[i] > shared.invalid_ns[i];
	return late;
}

int main(void)
{
	unsigned int rounds, late = 0, n;

	for (rounds = 0; !late && rounds < ROUNDS_MAX; rounds++)
		late = run_round(false);
	if (!late) {
		printf("no store stayed in a store buffer in %u rounds: nothing to compare with\n",
		       rounds);
		return 77;
	}
	printf("without the barrier: %u of %u items were read valid after the clock\n", late,
	       rounds * ITEMS);
	if (rounds < ROUNDS_MIN)
		rounds = ROUNDS_MIN;
	for (late = n = 0; n < rounds; n++)
		late += run_round(true);
	printf("with it: %u of %u\n", late, rounds * ITEMS);
	return late ? EXIT_FAILURE : EXIT_SUCCESS;
}
