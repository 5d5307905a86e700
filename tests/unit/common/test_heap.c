/* SPDX-License-Identifier: MIT */
/*
 * Tests of the heap (common/util/heap.h): the functions of a program are called with what they
 * expect, and can't be exchanged after the first allocation. Each case has a process of its own,
 * since a heap is set once.
 */
#include "common/util/heap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 100

static unsigned int allocs, reallocs, frees;
static size_t last_bytes;

static void *count_alloc(void *user, size_t bytes)
{
	void *memory = malloc(bytes);

	if (user != &allocs)
		abort();
	allocs++;
	last_bytes = bytes;
	if (memory)
		memset(memory, 0xa5, bytes);
	return memory;
}

static void *count_realloc(void *user, void *memory, size_t bytes)
{
	if (user != &allocs)
		abort();
	reallocs++;
	last_bytes = bytes;
	return realloc(memory, bytes);
}

static void count_free(void *user, void *memory)
{
	if (user != &allocs || !memory)
		abort();
	frees++;
	free(memory);
}

static const struct heap_functions counting = { count_alloc, count_realloc, count_free, &allocs };

/* Runs @step in a child, which returns whether all was well. */
static void expect_in_a_child(bool (*step)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		_exit(step() ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static bool functions_are_called(void)
{
	static const uint8_t zeroes[3 * BYTES];
	uint8_t *a, *b;

	if (heap_set(&counting))
		return false;
	a = heap_alloc(BYTES);
	if (!a || allocs != 1 || last_bytes != BYTES)
		return false;
	a = heap_realloc(a, 2 * BYTES);
	if (!a || reallocs != 1 || last_bytes != 2 * BYTES || a[0] != 0xa5)
		return false;
	b = heap_calloc(3, BYTES);
	if (!b || allocs != 2 || last_bytes != 3 * BYTES || memcmp(b, zeroes, sizeof(zeroes)))
		return false;
	heap_free(a);
	heap_free(b);
	heap_free(NULL);
	return frees == 2;
}

/* Sanitizers end the process where malloc(3) fails. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

/* More than there are bytes is refused, and no small block comes instead. */
static bool too_much_is_refused(void)
{
	volatile size_t half = SIZE_MAX / 2 + 1;

	if (heap_calloc(half, 2) || heap_calloc(3, half) || heap_set(&counting) != -EBUSY)
		return false;
	return true;
}

static bool too_much_of_the_program_is_refused(void)
{
	volatile size_t half = SIZE_MAX / 2 + 1;

	return !heap_set(&counting) && !heap_calloc(half, 2) && !heap_calloc(2, half) && !allocs;
}

static bool not_after_alloc(void)
{
	void *memory = heap_alloc(BYTES);
	bool busy = heap_set(&counting) == -EBUSY;

	heap_free(memory);
	return memory && busy && !frees;
}

static bool not_after_calloc(void)
{
	void *memory = heap_calloc(1, BYTES);
	bool busy = heap_set(&counting) == -EBUSY;

	heap_free(memory);
	return memory && busy && !frees;
}

static bool not_after_realloc(void)
{
	void *memory = heap_realloc(NULL, BYTES);
	bool busy = heap_set(&counting) == -EBUSY;

	heap_free(memory);
	return memory && busy && !frees;
}

static bool twice_before_the_first(void)
{
	const struct heap_functions none = { NULL, NULL, NULL, NULL };

	return !heap_set(&none) && !heap_set(&counting) && functions_are_called();
}

static void functions_of_the_program(void **state)
{
	(void)state;
	expect_in_a_child(functions_are_called);
	expect_in_a_child(too_much_is_refused);
	expect_in_a_child(too_much_of_the_program_is_refused);
}

static void none_after_the_first_allocation(void **state)
{
	(void)state;
	expect_in_a_child(not_after_alloc);
	expect_in_a_child(not_after_calloc);
	expect_in_a_child(not_after_realloc);
	expect_in_a_child(twice_before_the_first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_of_the_program),
		cmocka_unit_test(none_after_the_first_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
