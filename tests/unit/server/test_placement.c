/* SPDX-License-Identifier: MIT */
/* Tests of which member of a fleet owns which shard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/fleet/placement.h"

struct fleet_draft {
	uint32_t weights[FLEET_MEMBERS_MAX];
	uint32_t members;
	uint16_t owners[FLEET_SHARDS];
};

static struct fleet_draft now, before;

static void fleet_start(uint32_t members)
{
	now.members = members;
	for (uint32_t i = 0; i < members; i++)
		now.weights[i] = 1;
	memset(now.owners, 0xff, sizeof(now.owners));
}

static void fleet_place(void)
{
	before = now;
	placement_make(now.weights, now.members, now.owners);
}

/* What each member owns. */
static const uint32_t *owned_all(const struct fleet_draft *fleet)
{
	static uint32_t counts[FLEET_MEMBERS_MAX];

	memset(counts, 0, sizeof(counts));
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (fleet->owners[i] < fleet->members)
			counts[fleet->owners[i]]++;
	return counts;
}

static uint32_t owned(const struct fleet_draft *fleet, uint32_t member)
{
	return owned_all(fleet)[member];
}

static uint32_t moved(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		count += now.owners[i] != before.owners[i];
	return count;
}

/* Each member has its exact share, rounded down or up; and all shards have an owner. */
static void assert_shares(void)
{
	const uint32_t *has = owned_all(&now);
	uint64_t sum = 0, exact;
	uint32_t all = 0;

	for (uint32_t i = 0; i < now.members; i++)
		sum += now.weights[i];
	for (uint32_t i = 0; i < now.members; i++) {
		exact = (uint64_t)FLEET_SHARDS * now.weights[i];
		assert_in_range(has[i], exact / sum, (exact + sum - 1) / sum);
		all += has[i];
	}
	assert_int_equal(all, FLEET_SHARDS);
}

/* As few shards moved as the shares allow: as many as members have less than before. */
static void assert_moves_least(void)
{
	uint32_t had[FLEET_MEMBERS_MAX], least = 0;
	const uint32_t *has;

	memcpy(had, owned_all(&before), sizeof(had));
	has = owned_all(&now);
	for (uint32_t i = 0; i < now.members; i++)
		least += has[i] > had[i] ? has[i] - had[i] : 0;
	assert_int_equal(moved(), least);
}

/* Nothing moves where nothing changed. */
static void assert_settled(void)
{
	fleet_place();
	assert_int_equal(moved(), 0);
}

/* The member is gone: those after it have numbers one lower, as in a map without it. */
static void fleet_remove(uint32_t member)
{
	memmove(&now.weights[member], &now.weights[member + 1],
		(now.members - member - 1) * sizeof(now.weights[0]));
	now.members--;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (now.owners[i] == member)
			now.owners[i] = PLACEMENT_NONE;
		else if (now.owners[i] > member && now.owners[i] != PLACEMENT_NONE)
			now.owners[i]--;
}

static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 7, 10, 16, 63, 100, 128, 333, 999 };

/* One of N equal members joins: 1/N of all shards move, and all of them to it. */
static void a_member_joins(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fleet_start(sizes[i]);
		fleet_place();
		assert_shares();
		now.weights[now.members++] = 1;
		fleet_place();
		assert_shares();
		assert_int_equal(moved(), owned(&now, sizes[i]));
		assert_in_range(moved(), FLEET_SHARDS / now.members,
				FLEET_SHARDS / now.members + 1);
		assert_settled();
	}
}

/* Where it is in the list makes no difference: those that stay keep what rounding gave them. */
static void a_member_joins_in_front(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fleet_start(sizes[i]);
		fleet_place();
		now.weights[now.members++] = 1;
		for (uint32_t shard = 0; shard < FLEET_SHARDS; shard++)
			now.owners[shard]++;
		fleet_place();
		assert_shares();
		assert_int_equal(owned(&now, 0), FLEET_SHARDS / now.members);
		assert_int_equal(moved(), owned(&now, 0));
	}
}

/* A member leaves: only its shards move. */
static void a_member_leaves(void **state)
{
	(void)state;
	for (size_t i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (uint32_t which = 0; which < 3; which++) {
			uint32_t member = which * (sizes[i] - 1) / 2, had;

			fleet_start(sizes[i]);
			fleet_place();
			had = owned(&now, member);
			fleet_remove(member);
			fleet_place();
			assert_shares();
			assert_int_equal(moved(), had);
			assert_settled();
		}
	}
}

/* As many members as a map can have, each with a few shards. */
static void as_many_as_can_be(void **state)
{
	(void)state;
	fleet_start(FLEET_MEMBERS_MAX);
	fleet_place();
	assert_shares();
	assert_settled();
}

static void weights_are_shares(void **state)
{
	(void)state;
	fleet_start(4);
	now.weights[0] = 3;
	now.weights[1] = 1;
	now.weights[2] = 0;
	now.weights[3] = 4;
	fleet_place();
	assert_int_equal(owned(&now, 0), FLEET_SHARDS / 8 * 3);
	assert_int_equal(owned(&now, 1), FLEET_SHARDS / 8);
	assert_int_equal(owned(&now, 2), 0);
	assert_int_equal(owned(&now, 3), FLEET_SHARDS / 2);
	/* One is drained: what it had goes to the others. */
	now.weights[3] = 0;
	fleet_place();
	assert_int_equal(owned(&now, 3), 0);
	assert_shares();
	assert_moves_least();
	/* The largest weights there are. */
	fleet_start(FLEET_MEMBERS_MAX);
	for (uint32_t i = 0; i < FLEET_MEMBERS_MAX; i++)
		now.weights[i] = UINT32_MAX - i % 2;
	fleet_place();
	assert_shares();
}

/* From nothing, what is left after rounding down goes to the largest remainders. */
static void remainders_decide(void **state)
{
	(void)state;
	fleet_start(3);
	/* 16,384 * 1/6 = 2,730.67; 2/6: 5,461.33; 3/6: 8,192. */
	now.weights[0] = 2;
	now.weights[1] = 1;
	now.weights[2] = 3;
	fleet_place();
	assert_int_equal(owned(&now, 0), 5461);
	assert_int_equal(owned(&now, 1), 2731);
	assert_int_equal(owned(&now, 2), 8192);
}

/* Members come, go and change their weights at random. */
static void any_history(void **state)
{
	(void)state;
	srand(1);
	fleet_start(3);
	fleet_place();
	for (unsigned int i = 0; i < 100; i++) {
		uint32_t member = (uint32_t)rand() % now.members;

		if (rand() % 2 && now.members < 40)
			now.weights[now.members++] = 1 + (uint32_t)rand() % 100;
		else if (rand() % 2 && now.members > 1)
			fleet_remove(member);
		else
			now.weights[member] = 1 + (uint32_t)rand() % 100;
		fleet_place();
		assert_shares();
		assert_moves_least();
		assert_settled();
	}
}

static void fleet_fill(void)
{
	before = now;
	placement_fill(now.weights, now.members, now.owners);
}

/* Nobody has lost a shard, and each has an owner. */
static void assert_filled(void)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		assert_in_range(now.owners[i], 0, now.members - 1);
		if (before.owners[i] < now.members)
			assert_int_equal(now.owners[i], before.owners[i]);
	}
}

/* Where nobody has too much, it makes no difference that nobody may lose a shard. */
static void what_is_missing_is_filled(void **state)
{
	struct fleet_draft filled;

	(void)state;
	for (size_t i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fleet_start(sizes[i]);
		now.weights[0] = 3;
		fleet_fill();
		assert_shares();
		fleet_remove(sizes[i] / 2);
		/* The number of no member is no owner, either. */
		now.owners[0] = (uint16_t)now.members;
		fleet_fill();
		assert_filled();
		filled = now;
		now = before;
		fleet_place();
		assert_memory_equal(filled.owners, now.owners, sizeof(now.owners));
	}
}

/* Members with more than their share keep it, and the others share what is left. */
static void nobody_loses_a_shard(void **state)
{
	(void)state;
	fleet_start(5);
	now.weights[3] = 2;
	now.weights[4] = 0;
	for (uint32_t i = 0; i < 9384; i++)
		now.owners[i] = i < 8000 ? 0 : i < 9300 ? 1 : 4;
	fleet_fill();
	assert_filled();
	/* 8,300 for 1, 2 and 3, by 1 : 1 : 2. */
	assert_int_equal(owned(&now, 0), 8000);
	assert_int_equal(owned(&now, 1), 2075);
	assert_int_equal(owned(&now, 2), 2075);
	assert_int_equal(owned(&now, 3), 4150);
	assert_int_equal(owned(&now, 4), 84);
	/* One has more than its share only because another one has: 4,096 at first, then 3,461. */
	fleet_start(4);
	for (uint32_t i = 0; i < 10000; i++)
		now.owners[i] = i < 6000 ? 0 : 1;
	fleet_fill();
	assert_filled();
	assert_int_equal(owned(&now, 1), 4000);
	assert_int_equal(owned(&now, 2), 3192);
	assert_int_equal(owned(&now, 3), 3192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_joins_in_front),
		cmocka_unit_test(a_member_joins),
		cmocka_unit_test(a_member_leaves),
		cmocka_unit_test(as_many_as_can_be),
		cmocka_unit_test(weights_are_shares),
		cmocka_unit_test(remainders_decide),
		cmocka_unit_test(any_history),
		cmocka_unit_test(what_is_missing_is_filled),
		cmocka_unit_test(nobody_loses_a_shard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
