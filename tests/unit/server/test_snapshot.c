/* SPDX-License-Identifier: MIT */
/*
 * Tests of the text of the statistics (server/worker/snapshot.h): its pages, and that it lives as
 * long as one connection has it. AddressSanitizer sees a text that is freed too early, or never.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/worker/snapshot.h"
#include "server/worker/worker.h"

#define LINES 3000u /* more than the first attempt of snapshot_make() has room for */

static char whole[LINES * 16];
static uint32_t whole_bytes;
static unsigned int prints;

/* As stats_print(): lines that do not fit are left out. */
static uint32_t print(const struct stats_source *source, const struct tenant *tenant,
		      const struct principal *viewer, char *text, uint32_t size)
{
	(void)source;
	(void)tenant;
	(void)viewer;
	prints++;
	memcpy(text, whole, whole_bytes < size ? whole_bytes : size);
	return whole_bytes;
}

static const struct worker_env env = { .stats_print = print };

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	whole_bytes = prints = 0;
	for (i = 0; i < LINES; i++)
		whole_bytes += (uint32_t)sprintf(whole + whole_bytes, "line %u\n", i * i);
	return 0;
}

/* All pages of at most @size bytes, one after the other; returns how many. */
static unsigned int read_pages(const struct snapshot *snapshot, uint32_t size, char *text)
{
	struct snapshot_place place = { 0 };
	uint32_t bytes, line = 0, used = 0;
	unsigned int pages = 0;

	do {
		bytes = snapshot_page(snapshot, line, text + used, size, &place, &line);
		assert_true(bytes && bytes <= size);
		assert_int_equal(text[used + bytes - 1], '\n');
		used += bytes;
		assert_int_equal(place.offset, used);
		pages++;
	} while (line);
	assert_int_equal(used, whole_bytes);
	assert_memory_equal(text, whole, used);
	return pages;
}

static void pages_are_the_text(void **state)
{
	static char text[sizeof(whole)];
	struct snapshot *snapshot = snapshot_make(&env, NULL, NULL);

	(void)state;
	assert_non_null(snapshot);
	assert_int_equal(prints, 2); /* the first attempt was too small */
	assert_int_equal(read_pages(snapshot, sizeof(text), text), 1);
	assert_int_equal(read_pages(snapshot, whole_bytes, text), 1);
	assert_int_equal(read_pages(snapshot, whole_bytes - 1, text), 2);
	assert_true(read_pages(snapshot, 512, text) > whole_bytes / 512);
	snapshot_drop(snapshot);
}

static void pages_in_any_order(void **state)
{
	struct snapshot *snapshot = snapshot_make(&env, NULL, NULL);
	struct snapshot_place place = { 0 };
	char text[64];
	uint32_t next;

	(void)state;
	assert_int_equal(snapshot_page(snapshot, 5, text, 8, &place, &next), 8);
	assert_memory_equal(text, "line 25\n", 8);
	assert_int_equal(next, 6);
	assert_int_equal(snapshot_page(snapshot, 2, text, 8, &place, &next), 7);
	assert_memory_equal(text, "line 4\n", 7);
	assert_int_equal(next, 3);
	/* Past the end, as a client of another version might ask. */
	assert_int_equal(snapshot_page(snapshot, LINES, text, 64, &place, &next), 0);
	assert_int_equal(next, 0);
	assert_int_equal(snapshot_page(snapshot, UINT32_MAX, text, 64, &place, &next), 0);
	assert_int_equal(next, 0);
	assert_int_equal(snapshot_page(snapshot, 0, text, 7, &place, &next), 7);
	assert_memory_equal(text, "line 0\n", 7);
	snapshot_drop(snapshot);
}

/* A page is read from the place that the one before left, so the last one costs no more. */
static void a_page_begins_at_its_place(void **state)
{
	struct snapshot *snapshot = snapshot_make(&env, NULL, NULL);
	struct snapshot_place place = { .line = LINES - 1, .offset = 7 };
	char text[64];
	uint32_t next;

	(void)state;
	assert_int_equal(snapshot_page(snapshot, LINES - 1, text, 7, &place, &next), 7);
	assert_memory_equal(text, "line 1\n", 7);
	snapshot_drop(snapshot);
}

static void the_last_one_frees_it(void **state)
{
	struct snapshot *snapshot = snapshot_make(&env, NULL, NULL);
	struct snapshot *of[3];
	struct snapshot_place place = { 0 };
	char text[64];
	uint32_t next;
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++)
		of[i] = snapshot_share(snapshot);
	snapshot_drop(snapshot);
	for (i = 0; i < 3; i++) {
		assert_int_equal(snapshot_page(of[i], 0, text, 7, &place, &next), 7);
		assert_int_equal(atomic_load(&of[i]->references), 3 - i);
		snapshot_drop(of[i]);
	}
	assert_null(snapshot_share(NULL));
	snapshot_drop(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pages_are_the_text, setup),
		cmocka_unit_test_setup(pages_in_any_order, setup),
		cmocka_unit_test_setup(a_page_begins_at_its_place, setup),
		cmocka_unit_test_setup(the_last_one_frees_it, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
