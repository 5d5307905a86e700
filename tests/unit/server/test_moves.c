/* SPDX-License-Identifier: MIT */
/* Tests of which shards of a fleet move where (server/fleet/moves.h). */
#include "server/fleet/moves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/fleet/map_edit.h"

static const char fleet_name[FLEET_NAME_MAX] = "blue";

static struct fleet_map *map;
static struct shard_set all;

static void map_replace(struct map_edit *edit)
{
	struct fleet_map *next;

	assert_null(map_edit_finish(edit, &next));
	fleet_map_free(map);
	map = next;
}

/* A fleet of @members of weight 1, each with its share, in turn; @owners of them have shards. */
static void fleet_start(uint32_t members, uint32_t owners)
{
	struct map_member member = { .session = 1, .weight = 1, .urls = "x" };
	struct map_edit *edit;

	memset(&all, 0xff, sizeof(all));
	map_replace(map_edit_create_first(fleet_name, 7, 9, 5));
	edit = map_edit_create(map);
	for (uint32_t i = 0; i < members; i++) {
		snprintf(member.id, sizeof(member.id), "m%u", i);
		map_edit_member(edit, &member);
	}
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		map_edit_row(edit, i, i % owners, FLEET_OPEN);
	map_replace(edit);
}

static void flag(uint32_t member, uint32_t flags)
{
	struct map_edit *edit = map_edit_create(map);

	map_edit_flags(edit, member, flags);
	map_replace(edit);
}

static void weigh(uint32_t member, uint32_t weight)
{
	struct map_member as = { .session = 1, .weight = weight, .urls = "x" };
	struct map_edit *edit = map_edit_create(map);

	memcpy(as.id, map->members[member]->id, sizeof(as.id));
	as.flags = map->members[member]->flags;
	map_edit_member(edit, &as);
	map_replace(edit);
}

static uint32_t owned(uint32_t member)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		count += fleet_row_owner(map->rows[i]) == member;
	return count;
}

/* One move of @member, if it has one. How many shards moved. */
static uint32_t move_one(uint32_t member)
{
	uint16_t targets[FLEET_SHARDS];
	struct shard_set shards;
	uint32_t target, count = moves_choose(map, member, &all, NULL, &target, &shards);
	struct map_edit *edit;

	if (!count)
		return 0;
	assert_in_range(count, 1, MOVE_SHARDS_MAX);
	assert_int_equal(shard_set_count(&shards), count);
	moves_targets(map, targets);
	edit = map_edit_create(map);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(&shards, i)) {
			assert_int_equal(fleet_row_owner(map->rows[i]), member);
			assert_int_equal(targets[i], target);
			map_edit_row(edit, i, target, FLEET_OPEN | FLEET_GIVEN);
		}
	map_replace(edit);
	return count;
}

/* Members move in a random order, until nothing is left. How many shards moved in all. */
static uint32_t settle(void)
{
	uint32_t left = moves_left(map, UINT32_MAX), moved = 0;

	while (left) {
		uint32_t count = move_one((uint32_t)rand() % map->head->members);

		/* No move makes another one necessary. */
		assert_int_equal(moves_left(map, UINT32_MAX), left - count);
		left -= count;
		moved += count;
	}
	return moved;
}

/* In a balance each shard's target stays the same while others move. */
static uint32_t settle_exactly(void)
{
	uint16_t targets[FLEET_SHARDS];
	uint32_t moved;

	moves_targets(map, targets);
	moved = settle();
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		assert_int_equal(fleet_row_owner(map->rows[i]), targets[i]);
	return moved;
}

static int teardown(void **state)
{
	(void)state;
	fleet_map_free(map);
	map = NULL;
	return 0;
}

static void nothing_moves_unasked(void **state)
{
	(void)state;
	fleet_start(4, 3);
	assert_int_equal(settle(), 0);
	flag(1, FLEET_MEMBER_AWAY);
	assert_int_equal(settle(), 0);
	/* What is not open, or not served, can't be moved. */
	flag(0, FLEET_MEMBER_DRAINED);
	assert_int_equal(moves_left(map, 0), owned(0));
	all = (struct shard_set){ 0 };
	assert_int_equal(move_one(0), 0);
}

/* One of N joins: it gets 1/N, from all others in equal parts, and nothing else moves. */
static void a_member_joins(void **state)
{
	static const uint32_t sizes[] = { 2, 3, 5, 8, 31 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const uint32_t members = sizes[i];
		uint32_t moved;

		fleet_start(members, members - 1);
		flag(members / 2, FLEET_MEMBER_BALANCES);
		moved = settle_exactly();
		assert_int_equal(moved, owned(members - 1));
		assert_in_range(owned(members - 1), FLEET_SHARDS / members,
				FLEET_SHARDS / members + 1);
		for (uint32_t m = 0; m < members; m++)
			assert_in_range(owned(m), FLEET_SHARDS / members,
					FLEET_SHARDS / members + 1);
	}
}

/* A drained member gives all, and the others nothing, though they have different shares. */
static void a_member_is_drained(void **state)
{
	uint32_t had;

	(void)state;
	fleet_start(5, 4);
	weigh(2, 3);
	flag(1, FLEET_MEMBER_DRAINED);
	had = owned(1);
	assert_int_equal(moves_left(map, 1), had);
	assert_int_equal(moves_left(map, 0) + moves_left(map, 2), 0);
	assert_int_equal(settle(), had);
	assert_int_equal(owned(1), 0);
	assert_true(owned(0) >= FLEET_SHARDS / 4 && owned(2) > FLEET_SHARDS / 4);
	/* Two at once, while another one is away. */
	fleet_start(5, 5);
	flag(0, FLEET_MEMBER_DRAINED);
	flag(1, FLEET_MEMBER_DRAINED);
	flag(2, FLEET_MEMBER_AWAY);
	had = owned(0) + owned(1);
	assert_int_equal(settle(), had);
	assert_in_range(owned(2), FLEET_SHARDS / 5, FLEET_SHARDS / 5 + 1);
	assert_in_range(owned(3), FLEET_SHARDS * 2 / 5 - 1, FLEET_SHARDS * 2 / 5 + 2);
}

/* Shards of one that is away stay, and nobody moves what it would get back from these. */
static void one_is_away(void **state)
{
	(void)state;
	fleet_start(3, 3);
	flag(1, FLEET_MEMBER_AWAY | FLEET_MEMBER_BALANCES);
	assert_int_equal(settle_exactly(), 0);
	/* Drained and away: the controller's. */
	flag(1, FLEET_MEMBER_AWAY | FLEET_MEMBER_DRAINED);
	assert_int_equal(settle(), 0);
	/* One that joins takes what it lacks of both. */
	fleet_start(4, 3);
	flag(1, FLEET_MEMBER_AWAY | FLEET_MEMBER_BALANCES);
	settle_exactly();
	assert_in_range(owned(1), FLEET_SHARDS / 3, FLEET_SHARDS / 3 + 1);
	assert_true(owned(3) <= FLEET_SHARDS / 3 + 1);
}

static void nobody_takes_any(void **state)
{
	(void)state;
	fleet_start(3, 3);
	flag(0, FLEET_MEMBER_DRAINED);
	flag(1, FLEET_MEMBER_DRAINED | FLEET_MEMBER_BALANCES);
	flag(2, FLEET_MEMBER_AWAY);
	assert_int_equal(settle(), 0);
	flag(2, 0);
	weigh(2, 0);
	assert_int_equal(settle(), 0);
}

/* Members begin with different targets; one that fails is left out. */
static void targets_differ(void **state)
{
	bool skip[FLEET_MEMBERS_MAX] = { false }, first[5] = { false };
	struct shard_set shards;
	uint32_t target, other;

	(void)state;
	fleet_start(5, 2);
	flag(0, FLEET_MEMBER_BALANCES);
	assert_int_equal(moves_choose(map, 0, &all, NULL, &target, &shards), MOVE_SHARDS_MAX);
	skip[target] = true;
	assert_true(moves_choose(map, 0, &all, skip, &other, &shards));
	assert_int_not_equal(other, target);
	skip[2] = skip[3] = skip[4] = true;
	assert_int_equal(moves_choose(map, 0, &all, skip, &other, &shards), 0);
	for (int i = 0; i < 5; i++) {
		assert_true(moves_choose(map, 0, &all, NULL, &target, &shards));
		first[target] = true;
		flag(0, FLEET_MEMBER_BALANCES);
	}
	assert_true(first[2] && (first[3] || first[4]));
}

static void any_history(void **state)
{
	(void)state;
	srand(1);
	fleet_start(7, 4);
	for (int i = 0; i < 60; i++) {
		static const uint32_t flags[] = { 0, FLEET_MEMBER_AWAY, FLEET_MEMBER_DRAINED,
						  FLEET_MEMBER_BALANCES };
		const uint32_t member = (uint32_t)rand() % 7;

		flag(member, flags[rand() % 4]);
		weigh((uint32_t)rand() % 7, (uint32_t)rand() % 4);
		settle();
		for (uint32_t m = 0; m < 7; m++)
			if (map->members[m]->flags == FLEET_MEMBER_DRAINED)
				assert_int_equal(moves_left(map, m), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(nothing_moves_unasked, teardown),
		cmocka_unit_test_teardown(a_member_joins, teardown),
		cmocka_unit_test_teardown(a_member_is_drained, teardown),
		cmocka_unit_test_teardown(one_is_away, teardown),
		cmocka_unit_test_teardown(nobody_takes_any, teardown),
		cmocka_unit_test_teardown(targets_differ, teardown),
		cmocka_unit_test_teardown(any_history, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
