/* SPDX-License-Identifier: MIT */
/* Tests of the maps that are made from others (server/fleet/map_edit.h). */
#include "server/fleet/map_edit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/heap.h"

static const char fleet_name[FLEET_NAME_MAX] = "blue";

/* The heap refuses every allocation from this one on; 0: none. */
static unsigned int allocations, refused_from;

static void *scarce_alloc(void *user, size_t bytes)
{
	(void)user;
	return refused_from && ++allocations >= refused_from ? NULL : malloc(bytes);
}

static void *scarce_realloc(void *user, void *memory, size_t bytes)
{
	(void)user;
	return refused_from && ++allocations >= refused_from ? NULL : realloc(memory, bytes);
}

static void scarce_free(void *user, void *memory)
{
	(void)user;
	free(memory);
}

static int group_setup(void **state)
{
	static const struct heap_functions functions = { scarce_alloc, scarce_realloc, scarce_free,
							 NULL };

	(void)state;
	return heap_set(&functions);
}

static int setup(void **state)
{
	(void)state;
	allocations = refused_from = 0;
	return 0;
}

static struct map_member member_of(const char *id, const char *urls)
{
	struct map_member member = { .session = 1, .weight = 1, .urls = urls };

	snprintf(member.id, sizeof(member.id), "%s", id);
	return member;
}

/* The map that @edit makes, which replaces @old. */
static struct fleet_map *finish(struct fleet_map *old, struct map_edit *edit)
{
	struct fleet_map *map;

	assert_null(map_edit_finish(edit, &map));
	fleet_map_free(old);
	return map;
}

/* Two members, a and b, and rows of each kind, in epoch 2. */
static struct fleet_map *map_of_two(void)
{
	const struct map_member a = member_of("a", "softnic:///a"), b = member_of("b", "rdma://b");
	struct fleet_map *map = finish(NULL, map_edit_create_first(fleet_name, 7, 9, 5));
	struct map_edit *edit = map_edit_create(map);

	assert_int_equal(map_edit_member(edit, &a), 0);
	assert_int_equal(map_edit_member(edit, &b), 1);
	map_edit_row(edit, 0, 0, FLEET_OPEN);
	map_edit_row(edit, 1, 1, FLEET_GIVEN);
	map_edit_row(edit, 2, 1, FLEET_OPEN | FLEET_GIVEN);
	map_edit_row(edit, FLEET_SHARDS - 1, 1, 0);
	return finish(map, edit);
}

static void assert_row(const struct fleet_map *map, uint32_t shard, uint32_t owner, uint64_t since,
		       uint64_t flags)
{
	assert_true(map->rows[shard] == (fleet_row(owner, false, since) | flags));
}

static void the_first_map(void **state)
{
	struct fleet_map *map = finish(NULL, map_edit_create_first(fleet_name, 7, 9, 5));

	(void)state;
	assert_true(map->head->generation == 7);
	assert_true(map->head->hash_seed == 9);
	assert_true(map->head->epoch == MAP_EDIT_EPOCH_FIRST);
	assert_memory_equal(map->head->name, fleet_name, FLEET_NAME_MAX);
	assert_int_equal(map->head->members, 0);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		assert_row(map, i, FLEET_NO_OWNER, MAP_EDIT_EPOCH_FIRST, 0);
	fleet_map_free(map);
}

/* Only what was set differs, and the epoch. */
static void members_and_rows_are_set(void **state)
{
	struct fleet_map *map = map_of_two();

	(void)state;
	assert_true(map->head->epoch == 2);
	assert_true(map->head->generation == 7);
	assert_true(map->head->hash_seed == 9);
	assert_int_equal(map->head->members, 2);
	assert_string_equal(map->members[0]->id, "a");
	assert_int_equal(map->members[1]->session, 1);
	assert_int_equal(map->members[1]->weight, 1);
	assert_int_equal(map->members[1]->urls_len, strlen("rdma://b"));
	assert_memory_equal(map->members[1]->urls, "rdma://b", 8);
	assert_row(map, 0, 0, 2, FLEET_OPEN);
	assert_row(map, 1, 1, 2, FLEET_GIVEN);
	assert_row(map, 2, 1, 2, FLEET_OPEN | FLEET_GIVEN);
	assert_row(map, FLEET_SHARDS - 1, 1, 2, 0);
	for (uint32_t i = 3; i < FLEET_SHARDS - 1; i++)
		assert_row(map, i, FLEET_NO_OWNER, 1, 0);
	fleet_map_free(map);
}

/* A member keeps its number, others keep all, and URLs may get longer or shorter. */
static void a_member_is_replaced(void **state)
{
	struct map_member a = member_of("a", "softnic:///a/longer/path,rdma://a"),
			  c = member_of("c", "x"), b = member_of("b", "y");
	struct fleet_map *map = map_of_two();
	struct map_edit *edit = map_edit_create(map);

	(void)state;
	a.session = 2;
	a.weight = 8;
	a.lost_s = 77;
	assert_int_equal(map_edit_member(edit, &a), 0);
	assert_int_equal(map_edit_member(edit, &c), 2);
	/* Once more in the same edit: the last one counts. */
	a.session = 3;
	c.weight = 4;
	assert_int_equal(map_edit_member(edit, &a), 0);
	assert_int_equal(map_edit_member(edit, &c), 2);
	map = finish(map, edit);
	assert_true(map->head->epoch == 3);
	assert_int_equal(map->head->members, 3);
	assert_int_equal(map->members[0]->session, 3);
	assert_int_equal(map->members[0]->weight, 8);
	assert_true(map->members[0]->lost_s == 77);
	assert_memory_equal(map->members[0]->urls, a.urls, strlen(a.urls));
	assert_string_equal(map->members[1]->id, "b");
	assert_memory_equal(map->members[1]->urls, "rdma://b", 8);
	assert_int_equal(map->members[2]->weight, 4);
	assert_row(map, 2, 1, 2, FLEET_OPEN | FLEET_GIVEN);

	edit = map_edit_create(map);
	assert_int_equal(map_edit_member(edit, &b), 1);
	map = finish(map, edit);
	assert_int_equal(map->members[1]->urls_len, 1);
	assert_int_equal(map->members[0]->session, 3);
	fleet_map_free(map);
}

static void a_member_is_lost(void **state)
{
	struct fleet_map *map = map_of_two();
	struct map_edit *edit = map_edit_create(map);
	const struct map_member c = member_of("c", "x");

	(void)state;
	assert_int_equal(map_edit_member(edit, &c), 2);
	map_edit_lost(edit, 1, 1234);
	map_edit_lost(edit, 2, 1235);
	map_edit_lost(edit, 2, 1236);
	map = finish(map, edit);
	assert_true(map->members[0]->lost_s == 0);
	assert_true(map->members[1]->lost_s == 1234);
	assert_int_equal(map->members[1]->session, 1);
	assert_memory_equal(map->members[1]->urls, "rdma://b", 8);
	assert_true(map->members[2]->lost_s == 1236);
	fleet_map_free(map);
}

/* Another history: each row is closed and new, also those that have no owner. */
static void a_map_is_adopted(void **state)
{
	struct fleet_map *map = map_of_two();
	struct map_edit *edit = map_edit_create(map);

	(void)state;
	map_edit_adopt(edit, 8, 1u << 20);
	assert_true(map_edit_epoch(edit) == 2 + (1u << 20));
	map = finish(map, edit);
	assert_true(map->head->generation == 8);
	assert_true(map->head->epoch == 2 + (1u << 20));
	assert_true(map->head->hash_seed == 9);
	assert_int_equal(map->head->members, 2);
	assert_int_equal(map->members[1]->session, 1);
	assert_row(map, 0, 0, map->head->epoch, 0);
	assert_row(map, 1, 1, map->head->epoch, 0);
	assert_row(map, 2, 1, map->head->epoch, 0);
	assert_row(map, 3, FLEET_NO_OWNER, map->head->epoch, 0);
	fleet_map_free(map);
}

static void assert_refused(struct map_edit *edit, const char *why)
{
	struct fleet_map *map = (void *)&map;

	assert_string_equal(map_edit_finish(edit, &map), why);
	assert_null(map);
}

/* The epoch never wraps: a map whose epoch is the highest has no next one. */
static void the_last_epoch(void **state)
{
	struct fleet_map *map = map_of_two();
	struct map_edit *edit = map_edit_create(map);

	(void)state;
	map_edit_adopt(edit, 8, FLEET_EPOCH_MAX - 2);
	map = finish(map, edit);
	assert_true(map->head->epoch == FLEET_EPOCH_MAX);
	edit = map_edit_create(map);
	map_edit_row(edit, 0, 0, 0);
	assert_refused(edit, "a map with an impossible epoch");
	edit = map_edit_create(map);
	map_edit_adopt(edit, 8, UINT64_MAX);
	assert_refused(edit, "a map with an impossible epoch");
	fleet_map_free(map);
}

static void what_no_map_may_have(void **state)
{
	static char long_urls[FLEET_URLS_MAX + 2];
	struct map_member bad = member_of("a b", "x"), none = member_of("a", ""), full;
	struct fleet_map *map = finish(NULL, map_edit_create_first(fleet_name, 7, 9, 5));
	struct map_edit *edit = map_edit_create(map);

	(void)state;
	map_edit_member(edit, &bad);
	assert_refused(edit, "a map with a malformed member");
	edit = map_edit_create(map);
	map_edit_member(edit, &none);
	assert_refused(edit, "a map with a malformed member");
	memset(long_urls, 'x', FLEET_URLS_MAX + 1);
	full = member_of("a", long_urls);
	edit = map_edit_create(map);
	map_edit_member(edit, &full);
	assert_refused(edit, "a map with a malformed member");
	edit = map_edit_create(map);
	map_edit_row(edit, 5, FLEET_NO_OWNER, FLEET_OPEN);
	assert_refused(edit, "a map with an impossible row");
	assert_refused(map_edit_create_first(fleet_name, 0, 9, 5),
		       "a map with an impossible epoch");
	long_urls[FLEET_URLS_MAX] = '\0';
	edit = map_edit_create(map);
	map_edit_member(edit, &full);
	map = finish(map, edit);
	assert_int_equal(map->members[0]->urls_len, FLEET_URLS_MAX);
	fleet_map_free(map);
}

/* The error stays, whatever is edited after it; and a full map is as it was. */
static void too_many_members(void **state)
{
	struct fleet_map *map = finish(NULL, map_edit_create_first(fleet_name, 7, 9, 5));
	struct map_edit *edit = map_edit_create(map);
	struct map_member member;
	char id[FLEET_NAME_MAX];

	(void)state;
	for (uint32_t i = 0; i < FLEET_MEMBERS_MAX; i++) {
		snprintf(id, sizeof(id), "m%u", i);
		member = member_of(id, "x");
		assert_int_equal(map_edit_member(edit, &member), i);
	}
	map = finish(map, edit);
	edit = map_edit_create(map);
	member = member_of("m4095", "y");
	assert_int_equal(map_edit_member(edit, &member), 4095);
	assert_true(map_edit_epoch(edit) == 3);
	member = member_of("new", "y");
	assert_int_equal(map_edit_member(edit, &member), FLEET_NO_OWNER);
	assert_true(map_edit_epoch(edit) == 0);
	map_edit_row(edit, 0, 0, FLEET_OPEN);
	refused_from = 1;
	map_edit_lost(edit, 0, 1);
	refused_from = 0;
	assert_refused(edit, "the map has as many members as it can have");
	fleet_map_free(map);
}

/* Adds a member, loses another one and sets a row. */
static const char *edit_all(const struct fleet_map *old, struct fleet_map **map)
{
	struct map_edit *edit = map_edit_create(old);
	struct map_member c = member_of("c", "x");
	uint32_t number = map_edit_member(edit, &c);

	map_edit_lost(edit, 0, 5);
	map_edit_row(edit, 0, number, 0);
	return map_edit_finish(edit, map);
}

/* Whichever allocation fails, the edit does, and nothing leaks. */
static void no_memory(void **state)
{
	struct fleet_map *old = map_of_two(), *map;
	unsigned int failures = 0;
	const char *error;

	(void)state;
	do {
		allocations = 0;
		refused_from = ++failures;
		error = edit_all(old, &map);
		refused_from = 0;
		if (error)
			assert_string_equal(error, "out of memory");
		assert_int_equal(!map, error != NULL);
	} while (error);
	assert_in_range(failures, 5, 8);
	assert_int_equal(map->head->members, 3);
	fleet_map_free(map);
	refused_from = 1;
	assert_refused(map_edit_create_first(fleet_name, 7, 9, 5), "out of memory");
	map_edit_adopt(NULL, 8, 1);
	map_edit_destroy(NULL);
	refused_from = 0;
	map_edit_destroy(map_edit_create(old));
	fleet_map_free(old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_map, setup),
		cmocka_unit_test_setup(members_and_rows_are_set, setup),
		cmocka_unit_test_setup(a_member_is_replaced, setup),
		cmocka_unit_test_setup(a_member_is_lost, setup),
		cmocka_unit_test_setup(a_map_is_adopted, setup),
		cmocka_unit_test_setup(the_last_epoch, setup),
		cmocka_unit_test_setup(what_no_map_may_have, setup),
		cmocka_unit_test_setup(too_many_members, setup),
		cmocka_unit_test_setup(no_memory, setup),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
