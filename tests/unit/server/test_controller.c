/* SPDX-License-Identifier: MIT */
/* Tests of what the controller of a fleet does (server/fleet/controller.h). */
#include "server/fleet/controller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/heap.h"
#include "server/fleet/map_edit.h"

#define W UINT64_C(2000000000)
#define T0 UINT64_C(50000000000)
#define TODAY UINT64_C(1800000000)

static const char fleet_name[FLEET_NAME_MAX] = "blue";

/* A fleet as the controller sees it: it was elected long ago. */
static struct fleet_map *map;
static int64_t present[FLEET_MEMBERS_MAX];
static struct controller_input in;
static struct controller_plan plan;
static bool heap_is_full;

static void *full_alloc(void *user, size_t bytes)
{
	(void)user;
	return heap_is_full ? NULL : malloc(bytes);
}

static void *full_realloc(void *user, void *memory, size_t bytes)
{
	(void)user;
	return heap_is_full ? NULL : realloc(memory, bytes);
}

static void full_free(void *user, void *memory)
{
	(void)user;
	free(memory);
}

static int group_setup(void **state)
{
	static const struct heap_functions functions = { full_alloc, full_realloc, full_free,
							 NULL };

	(void)state;
	return heap_set(&functions);
}

static int teardown(void **state)
{
	(void)state;
	fleet_map_free(map);
	map = NULL;
	return 0;
}

static void map_replace(struct map_edit *edit)
{
	struct fleet_map *next;

	assert_null(map_edit_finish(edit, &next));
	fleet_map_free(map);
	in.map = map = next;
}

/* Member @number registers: its key has another create_revision than any had before. */
static void member_set(uint32_t number, uint32_t weight)
{
	static int64_t revision = 100;
	struct map_member member = { .session = 1, .weight = weight, .urls = "x" };
	struct map_edit *edit = map_edit_create(map);

	snprintf(member.id, sizeof(member.id), "m%u", number);
	if (number < map->head->members)
		member.lost_s = map->members[number]->lost_s;
	assert_int_equal(map_edit_member(edit, &member), number);
	map_replace(edit);
	present[number] = revision++;
}

/* A new fleet of @members of weight 1, all present, and without a shard. */
static void fleet_start(uint32_t members)
{
	struct map_member member = { .session = 1, .weight = 1, .urls = "x" };
	struct map_edit *edit;

	memset(present, 0, sizeof(present));
	in = (struct controller_input){
		.present = present,
		.now_ns = T0,
		.answered_ns = 1,
		.lease_ns = W,
		.time_s = TODAY,
	};
	map_replace(map_edit_create_first(fleet_name, 7, 9, 5));
	edit = map_edit_create(map);
	for (uint32_t i = 0; i < members; i++) {
		snprintf(member.id, sizeof(member.id), "m%u", i);
		assert_int_equal(map_edit_member(edit, &member), i);
		present[i] = i + 1;
	}
	map_replace(edit);
}

static uint32_t flags_of(uint32_t number)
{
	return map->members[number]->flags;
}

static void flags_set(uint32_t number, uint32_t flags)
{
	struct map_edit *edit = map_edit_create(map);

	map_edit_flags(edit, number, flags);
	map_replace(edit);
}

/* The one compare of @member: its revision; -1: there is none. */
static int64_t compared(uint32_t member)
{
	int64_t revision = -1;

	for (uint32_t i = 0; i < plan.compare_count; i++)
		if (plan.compares[i].member == member) {
			assert_true(revision == -1);
			revision = plan.compares[i].revision;
		}
	return revision;
}

/* A row of a member that is not present has changed, as CONTROLLER-1 says. */
static void assert_row_given(uint64_t old, uint64_t new)
{
	const uint32_t loser = fleet_row_owner(old), target = fleet_row_owner(new);
	const bool unused = loser == FLEET_NO_OWNER && fleet_row_since(old) == 1;

	assert_true(loser == FLEET_NO_OWNER || (!present[loser] && compared(loser) == 0));
	assert_true(target < map->head->members && map->members[target]->weight);
	assert_true(present[target] && compared(target) == present[target]);
	assert_true(fleet_row_since(new) == map->head->epoch + 1);
	assert_false(new &FLEET_OPEN);
	assert_int_equal(!(new &FLEET_GIVEN), !unused);
}

/* Whether @member loses a row. */
static bool loses(uint32_t member)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (plan.map->rows[i] != map->rows[i] && fleet_row_owner(map->rows[i]) == member)
			return true;
	return false;
}

/* When members that lost rows were lost, that members are away, and the end of a balance. */
static void assert_members(bool balance_ends)
{
	for (uint32_t i = 0; i < map->head->members; i++) {
		struct fleet_member member = *plan.map->members[i];
		uint32_t flags = map->members[i]->flags;

		if (compared(i) == 0) {
			assert_int_equal(present[i], 0);
			assert_true(loses(i) || !(flags & FLEET_MEMBER_AWAY));
			flags |= FLEET_MEMBER_AWAY;
		}
		if (balance_ends)
			flags &= ~FLEET_MEMBER_BALANCES;
		assert_int_equal(member.flags, flags);
		assert_true(member.lost_s ==
			    (compared(i) == 0 && loses(i) ? in.time_s : map->members[i]->lost_s));
		member.lost_s = map->members[i]->lost_s;
		member.flags = map->members[i]->flags;
		assert_memory_equal(&member, map->members[i], sizeof(member));
	}
}

/* All that holds for each plan. */
static void assert_plan(void)
{
	uint32_t changed = 0, losers = 0;

	assert_true(plan.map->head->epoch == map->head->epoch + 1);
	assert_true(plan.map->head->generation == map->head->generation);
	assert_int_equal(plan.map->head->members, map->head->members);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (plan.map->rows[i] != map->rows[i]) {
			assert_row_given(map->rows[i], plan.map->rows[i]);
			changed++;
		}
	assert_in_range(changed, 0, 2048);
	assert_int_equal(plan.rows, changed);
	for (uint32_t i = 0; i < plan.compare_count; i++)
		losers += !plan.compares[i].revision;
	assert_in_range(losers, 0, 40);
	assert_in_range(plan.compare_count - losers, changed ? 1 : 0, changed ? 64 : 0);
	assert_members(!plan.compare_count);
}

/* Looks once, and writes what is planned. Returns the rows that changed. */
static uint32_t look(void)
{
	controller_plan(&in, &plan);
	if (!plan.map) {
		assert_int_equal(plan.rows, 0);
		assert_int_equal(plan.compare_count, 0);
		return 0;
	}
	assert_plan();
	fleet_map_free(map);
	in.map = map = plan.map;
	return plan.rows;
}

/* Looks until there is nothing to do any more. Returns how often there was. */
static uint32_t settle(void)
{
	uint32_t looks = 0;

	while (look())
		looks++;
	return looks;
}

static uint32_t owned(uint32_t member)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		count += fleet_row_owner(map->rows[i]) == member;
	return count;
}

/* Present members have the same number of shards, or one more, and together all of them. */
static void assert_balanced(uint32_t first, uint32_t members)
{
	uint32_t counts[FLEET_MEMBERS_MAX] = { 0 };

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		counts[fleet_row_owner(map->rows[i])]++;
	for (uint32_t i = first; i < first + members; i++)
		assert_in_range(counts[i], FLEET_SHARDS / members,
				(FLEET_SHARDS + members - 1) / members);
}

static void assert_waits(const char *why)
{
	assert_int_equal(look(), 0);
	assert_string_equal(plan.why, why);
}

/* From the first fleet to one of 1,000; each plan is as large as the bounds allow. */
static void shards_that_have_no_owner(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 7, 63, 64, 65, 100, 129, 1000 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint32_t members = sizes[i], each = FLEET_SHARDS / members;
		const uint32_t by_targets = (members + 63) / 64;

		fleet_start(members);
		assert_int_equal(settle(), by_targets > 8 ? by_targets : 8);
		assert_string_equal(plan.why, "");
		assert_balanced(0, members);
		assert_in_range(owned(members - 1), each, each + 1);
		for (uint32_t shard = 0; shard < FLEET_SHARDS; shard++)
			assert_true(map->rows[shard] & FLEET_GIVEN);
	}
}

static void nobody_is_absent(void **state)
{
	(void)state;
	fleet_start(3);
	settle();
	/* There is nothing to wait for. */
	in.answered_ns = in.now_ns;
	assert_waits("");
}

/* Two leases, to the nanosecond. */
static void it_waits_at_first(void **state)
{
	(void)state;
	fleet_start(3);
	in.answered_ns = T0;
	assert_waits("waits 4.0 s after etcd was not there");
	in.now_ns = T0 + 1;
	assert_waits("waits 4.0 s after etcd was not there");
	in.now_ns = T0 + 2800000000;
	assert_waits("waits 1.2 s after etcd was not there");
	in.now_ns = T0 + 2 * W - 1;
	assert_waits("waits 0.1 s after etcd was not there");
	in.now_ns = T0 + 2 * W;
	in.elected_ns = in.now_ns - W / 5 + 1;
	assert_waits("waits 0.1 s after its election");
	in.elected_ns--;
	assert_int_equal(look(), 2048);

	in.answered_ns = in.now_ns;
	in.now_ns += 2 * W - 1;
	assert_waits("waits 0.1 s after etcd was not there");
	in.now_ns++;
	assert_int_equal(look(), 2048);
	assert_string_equal(plan.why, "");
	in.lease_ns = 2 * W;
	assert_waits("waits 4.0 s after etcd was not there");
}

/* What the others have stays where it is, and they share what the lost one had. */
static void a_member_is_lost(void **state)
{
	uint64_t before[FLEET_SHARDS];

	(void)state;
	fleet_start(3);
	settle();
	memcpy(before, map->rows, sizeof(before));
	present[1] = 0;
	in.time_s += 5000;
	assert_int_equal(look(), 2048);
	assert_int_equal(plan.compare_count, 2);
	assert_int_equal(compared(1), 0);
	assert_true(map->members[1]->lost_s == TODAY + 5000);
	in.time_s++;
	assert_int_equal(settle(), 2);
	assert_string_equal(plan.why, "");
	assert_true(map->members[1]->lost_s == TODAY + 5001);
	assert_int_equal(owned(1), 0);
	assert_int_equal(owned(0), FLEET_SHARDS / 2);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (fleet_row_owner(before[i]) != 1)
			assert_true(map->rows[i] == before[i]);
		else
			assert_false(map->rows[i] & FLEET_GIVEN);
}

/* One of 1,000: its 16 shards go to 16 others. */
static void one_of_many_is_lost(void **state)
{
	(void)state;
	fleet_start(1000);
	settle();
	present[500] = 0;
	assert_in_range(look(), 16, 17);
	assert_int_equal(plan.compare_count, plan.rows + 1);
	assert_int_equal(look(), 0);
	assert_int_equal(owned(500), 0);
}

/* A third of the members, or one; the number of all counts those that are absent, too. */
static void as_many_as_may_be_lost(void **state)
{
	static const uint32_t fleets[][2] = { { 2, 1 }, { 3, 1 },  { 4, 1 },  { 5, 1 },	 { 6, 2 },
					      { 9, 3 }, { 11, 3 }, { 12, 4 }, { 30, 10 } };
	char why[CONTROLLER_WHY_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(fleets) / sizeof(fleets[0]); i++) {
		const uint32_t members = fleets[i][0], most = fleets[i][1];

		fleet_start(members);
		settle();
		for (uint32_t m = 0; m <= most && m < members - 1; m++)
			present[m] = 0;
		snprintf(why, sizeof(why),
			 "%u of %u members are absent or were lost in the last 10 minutes: at most "
			 "%u may be",
			 most + 1, members, most);
		if (most + 1 < members)
			assert_waits(why);
		/* One is back, with all that it had. */
		present[most] = 1000;
		assert_true(settle());
		assert_string_equal(plan.why, "");
		assert_balanced(most, members - most);
	}
}

/* Losses that follow one another are counted, whether the member is back or not. */
static void losses_are_remembered(void **state)
{
	static const char why[] = "2 of 3 members are absent or were lost in the last 10 minutes: "
				  "at most 1 may be";

	(void)state;
	fleet_start(3);
	settle();
	present[0] = 0;
	settle();
	member_set(0, 1);
	assert_true(map->members[0]->lost_s == TODAY);
	present[1] = 0;
	in.time_s = TODAY + CONTROLLER_LOST_S - 1;
	assert_waits(why);
	/* Clocks of controllers differ: as long before it counts, too. */
	in.time_s = TODAY - CONTROLLER_LOST_S + 1;
	assert_waits(why);
	in.time_s = TODAY - CONTROLLER_LOST_S;
	assert_int_equal(look(), 2048);
	fleet_start(3);
	settle();
	present[0] = 0;
	settle();
	present[1] = 0;
	in.time_s = TODAY + CONTROLLER_LOST_S - 1;
	assert_waits(why);
	in.time_s = TODAY + CONTROLLER_LOST_S;
	assert_true(settle());
	assert_int_equal(owned(2), FLEET_SHARDS);
	/* A clock that was never set has lost nobody "never". */
	fleet_start(3);
	settle();
	present[0] = 0;
	in.time_s = 0;
	controller_plan(&in, &plan);
	assert_true(plan.map->members[0]->lost_s == 1);
	fleet_map_free(plan.map);
}

/* Members that went long ago neither are losses nor make others' losses look few. */
static void members_of_long_ago(void **state)
{
	(void)state;
	fleet_start(12);
	for (uint32_t i = 3; i < 12; i++)
		present[i] = 0;
	settle();
	assert_string_equal(plan.why, "");
	assert_balanced(0, 3);
	present[0] = 0;
	settle();
	assert_string_equal(plan.why, "");
	present[1] = 0;
	assert_waits("2 of 3 members are absent or were lost in the last 10 minutes: at most 1 "
		     "may be");
}

/* Shards without an owner are given while losses are too many. */
static void no_owner_is_no_loss(void **state)
{
	uint32_t absent = 0, rows;

	(void)state;
	fleet_start(4);
	look();
	look();
	assert_int_equal(owned(0), 4096);
	fleet_start(4);
	present[3] = 0;
	look();
	look();
	look();
	present[0] = present[1] = 0;
	present[3] = 4;
	absent = owned(0) + owned(1);
	assert_int_equal(absent, 6144);
	while ((rows = look())) {
		assert_int_equal(rows, 2048);
		assert_string_equal(plan.why, "2 of 4 members are absent or were lost in the last "
					      "10 minutes: at most 1 may be");
	}
	assert_true(*plan.why);
	assert_int_equal(owned(0) + owned(1), absent);
	assert_int_equal(owned(2), 5120);
	assert_int_equal(owned(3), 5120);
	present[1] = 2;
	settle();
	assert_string_equal(plan.why, "");
	assert_int_equal(owned(0), 0);
	assert_balanced(1, 3);
}

static void nobody_to_give_to(void **state)
{
	(void)state;
	fleet_start(0);
	assert_waits("no member with a weight is present");
	fleet_start(2);
	member_set(0, 0);
	present[1] = 0;
	assert_waits("no member with a weight is present");
	member_set(1, 1);
	settle();
	assert_int_equal(owned(1), FLEET_SHARDS);
	/* A member keeps what it has when it has no weight any more. */
	member_set(1, 0);
	member_set(0, 1);
	assert_waits("");
	/* One without a weight is present: its loss counts, and it gets nothing. */
	present[1] = 0;
	settle();
	assert_int_equal(owned(0), FLEET_SHARDS);
}

static void weights_are_shares(void **state)
{
	(void)state;
	fleet_start(4);
	member_set(0, 3);
	member_set(2, 0);
	member_set(3, 4);
	settle();
	assert_int_equal(owned(0), FLEET_SHARDS / 8 * 3);
	assert_int_equal(owned(1), FLEET_SHARDS / 8);
	assert_int_equal(owned(2), 0);
	assert_int_equal(owned(3), FLEET_SHARDS / 2);
	present[3] = 0;
	settle();
	assert_int_equal(owned(0), FLEET_SHARDS / 4 * 3);
	assert_int_equal(owned(1), FLEET_SHARDS / 4);
}

/* New members have nothing: what others lose goes to them alone, in equal parts. */
static void members_that_have_little(void **state)
{
	(void)state;
	fleet_start(2);
	settle();
	member_set(2, 1);
	member_set(3, 1);
	assert_waits("");
	present[1] = 0;
	settle();
	assert_int_equal(owned(0), FLEET_SHARDS / 2);
	assert_int_equal(owned(2), FLEET_SHARDS / 4);
	assert_int_equal(owned(3), FLEET_SHARDS / 4);
}

/* More than a transaction can compare; and as many are new. */
static void many_are_lost(void **state)
{
	uint32_t losers = 0;

	(void)state;
	fleet_start(1024);
	settle();
	for (uint32_t i = 0; i < 60; i++) {
		member_set(1024 + i, 1);
		present[i * 3] = 0;
	}
	assert_int_equal(look(), 640);
	for (uint32_t i = 0; i < plan.compare_count; i++)
		losers += !plan.compares[i].revision;
	assert_int_equal(losers, 40);
	assert_int_equal(settle(), 1);
	assert_string_equal(plan.why, "");
	for (uint32_t i = 0; i < 1084; i++)
		assert_int_equal(owned(i), present[i] ? 16 : 0);
}

/* Only what kvd --fleet-init wrote was never served. */
static void what_was_given(void **state)
{
	struct map_edit *edit;

	(void)state;
	fleet_start(2);
	settle();
	assert_true(map->rows[0] & FLEET_GIVEN);
	/* Lost before it opened anything: it may have served by request. */
	present[0] = 0;
	settle();
	assert_int_equal(fleet_row_owner(map->rows[0]), 1);
	assert_false(map->rows[0] & FLEET_GIVEN);
	/* Adopted: whoever had these shards in what etcd has lost may serve them still. */
	fleet_start(2);
	edit = map_edit_create(map);
	map_edit_adopt(edit, 8, 10);
	map_replace(edit);
	assert_true(look());
	assert_false(map->rows[0] & FLEET_GIVEN);
}

static void no_next_map(void **state)
{
	struct map_edit *edit;

	(void)state;
	fleet_start(2);
	heap_is_full = true;
	controller_plan(&in, &plan);
	heap_is_full = false;
	assert_null(plan.map);
	assert_int_equal(plan.rows + plan.compare_count, 0);
	assert_string_equal(plan.why, "can't make the next map: out of memory");
	edit = map_edit_create(map);
	map_edit_adopt(edit, 8, FLEET_EPOCH_MAX - map->head->epoch);
	map_replace(edit);
	assert_waits("can't make the next map: a map with an impossible epoch");
}

/* A drained member gets nothing, unless there is no other. */
static void drained_members_get_nothing(void **state)
{
	(void)state;
	fleet_start(3);
	flags_set(1, FLEET_MEMBER_DRAINED);
	settle();
	assert_int_equal(owned(1), 0);
	assert_int_equal(owned(0), FLEET_SHARDS / 2);
	/* What it had before stays: its own moves are not the controller's. */
	flags_set(2, FLEET_MEMBER_DRAINED);
	assert_waits("");
	present[0] = 0;
	settle();
	assert_string_equal(plan.why, "");
	assert_int_equal(owned(0), 0);
	assert_int_equal(owned(1), FLEET_SHARDS / 2);
	assert_int_equal(owned(2), FLEET_SHARDS / 2);
}

/* One that was drained leaves without a shard: the next member that is lost is the first one. */
static void a_drained_member_that_leaves_is_no_loss(void **state)
{
	(void)state;
	for (uint32_t drained = 0; drained < 2; drained++) {
		fleet_start(3);
		settle();
		present[0] = 0;
		settle();
		member_set(0, 1);
		/* The member has lost its shards lately, is back, and leaves again. */
		flags_set(0, drained ? FLEET_MEMBER_DRAINED : 0);
		present[0] = 0;
		present[1] = 0;
		if (drained)
			assert_int_equal(look(), 2048);
		else
			assert_waits("2 of 3 members are absent or were lost in the last 10 "
				     "minutes: at most 1 may be");
	}
	/* With shards it is a loss like any other. */
	fleet_start(3);
	settle();
	flags_set(0, FLEET_MEMBER_DRAINED);
	present[0] = present[1] = 0;
	assert_waits("2 of 3 members are absent or were lost in the last 10 minutes: at most 1 "
		     "may be");
}

/* Also those without a shard are marked, once, and only if their key is absent still. */
static void absent_members_are_marked(void **state)
{
	const uint32_t kept = FLEET_MEMBER_DRAINED;

	(void)state;
	fleet_start(3);
	settle();
	member_set(3, 1);
	flags_set(3, kept);
	present[3] = 0;
	in.elected_ns = in.now_ns;
	assert_waits("waits 0.4 s after its election");
	assert_int_equal(flags_of(3), kept);
	in.elected_ns = 1;
	in.answered_ns = in.now_ns;
	assert_waits("waits 4.0 s after etcd was not there");
	assert_int_equal(flags_of(3), kept);
	in.answered_ns = 1;
	assert_int_equal(look(), 0);
	assert_int_equal(plan.compare_count, 1);
	assert_int_equal(compared(3), 0);
	assert_int_equal(flags_of(3), kept | FLEET_MEMBER_AWAY);
	assert_true(map->members[3]->lost_s == 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(flags_of(i), 0);
	/* Nothing is left to do, and nothing waited for. */
	in.elected_ns = in.now_ns;
	assert_waits("");
	assert_null(plan.map);
}

/* None is marked while losses are too many; and not more than a plan may compare. */
static void few_members_are_marked(void **state)
{
	uint32_t marked = 0;

	(void)state;
	fleet_start(3);
	settle();
	present[0] = present[1] = 0;
	assert_waits("2 of 3 members are absent or were lost in the last 10 minutes: at most 1 "
		     "may be");
	assert_null(plan.map);
	assert_int_equal(flags_of(0) | flags_of(1), 0);
	/* Shards without an owner are given all the same. */
	fleet_start(4);
	look();
	look();
	look();
	present[0] = present[1] = 0;
	assert_int_equal(look(), 2048);
	assert_int_equal(flags_of(0) | flags_of(1), 0);

	fleet_start(1);
	settle();
	for (uint32_t i = 1; i <= 60; i++) {
		member_set(i, 1);
		present[i] = 0;
	}
	look();
	assert_int_equal(plan.compare_count, CONTROLLER_LOSERS_MAX);
	look();
	assert_int_equal(plan.compare_count, 60 - CONTROLLER_LOSERS_MAX);
	for (uint32_t i = 1; i <= 60; i++)
		marked += flags_of(i) == FLEET_MEMBER_AWAY;
	assert_int_equal(marked, 60);
	assert_int_equal(flags_of(0), 0);
}

/* Gives @count shards of member 0 to member 1, as their moves do. */
static void shards_move(uint32_t count)
{
	struct map_edit *edit = map_edit_create(map);

	for (uint32_t i = 0; i < FLEET_SHARDS && count; i++)
		if (fleet_row_owner(map->rows[i]) == 0) {
			map_edit_row(edit, i, 1, FLEET_OPEN | FLEET_GIVEN);
			count--;
		}
	map_replace(edit);
}

/* Until each shard is where the balance wants it, and its owner is present. */
static void a_balance_ends(void **state)
{
	const uint32_t all = FLEET_MEMBER_DRAINED | FLEET_MEMBER_BALANCES;

	(void)state;
	fleet_start(1);
	settle();
	member_set(1, 1);
	flags_set(0, FLEET_MEMBER_BALANCES);
	flags_set(1, FLEET_MEMBER_BALANCES);
	shards_move(FLEET_SHARDS / 2 - 1);
	assert_waits("");
	assert_null(plan.map);
	shards_move(1);
	in.elected_ns = in.now_ns;
	assert_waits("waits 0.4 s after its election");
	assert_int_equal(flags_of(0), FLEET_MEMBER_BALANCES);
	in.elected_ns = 1;
	assert_waits("");
	assert_non_null(plan.map);
	assert_int_equal(plan.compare_count, 0);
	assert_int_equal(flags_of(0) | flags_of(1), 0);
	/* Other flags stay. One is enough to go on, of a member that is not marked as away yet. */
	member_set(2, 1);
	flags_set(2, all);
	present[2] = 0;
	assert_waits("");
	assert_int_equal(compared(2), 0);
	assert_int_equal(flags_of(2), all | FLEET_MEMBER_AWAY);
	assert_waits("");
	assert_int_equal(plan.compare_count, 0);
	assert_int_equal(flags_of(2), FLEET_MEMBER_DRAINED | FLEET_MEMBER_AWAY);
	/* An owner that is absent: its shards are given first. */
	flags_set(0, FLEET_MEMBER_BALANCES);
	present[1] = 0;
	in.time_s += CONTROLLER_LOST_S;
	assert_int_equal(settle(), 4);
	assert_int_equal(owned(0), FLEET_SHARDS);
	assert_int_equal(flags_of(0), 0);
	/* Or wait until it is back, if losses are too many. */
	fleet_start(3);
	settle();
	flags_set(0, FLEET_MEMBER_AWAY);
	flags_set(1, FLEET_MEMBER_AWAY);
	flags_set(2, FLEET_MEMBER_BALANCES);
	present[0] = present[1] = 0;
	look();
	assert_null(plan.map);
	assert_int_equal(flags_of(2), FLEET_MEMBER_BALANCES);
}

/* Members come, go and return at random: each plan is right, and no loss stays for ever. */
static void any_history(void **state)
{
	uint32_t members = 3;

	(void)state;
	srand(1);
	fleet_start(members);
	for (unsigned int i = 0; i < 300; i++) {
		const uint32_t member = (uint32_t)rand() % members;

		if (rand() % 4 == 0 && members < 50)
			member_set(members++, (uint32_t)rand() % 5);
		else if (rand() % 2 && member)
			present[member] = 0;
		else
			member_set(member, member ? (uint32_t)rand() % 5 : 1);
		in.time_s += (uint64_t)rand() % 400;
		look();
	}
	in.time_s += CONTROLLER_LOST_S;
	for (uint32_t i = 0; i < members; i++)
		if (!present[i])
			member_set(i, 1);
	settle();
	assert_string_equal(plan.why, "");
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		assert_true(present[fleet_row_owner(map->rows[i])]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(shards_that_have_no_owner, teardown),
		cmocka_unit_test_teardown(nobody_is_absent, teardown),
		cmocka_unit_test_teardown(it_waits_at_first, teardown),
		cmocka_unit_test_teardown(a_member_is_lost, teardown),
		cmocka_unit_test_teardown(one_of_many_is_lost, teardown),
		cmocka_unit_test_teardown(as_many_as_may_be_lost, teardown),
		cmocka_unit_test_teardown(losses_are_remembered, teardown),
		cmocka_unit_test_teardown(members_of_long_ago, teardown),
		cmocka_unit_test_teardown(no_owner_is_no_loss, teardown),
		cmocka_unit_test_teardown(nobody_to_give_to, teardown),
		cmocka_unit_test_teardown(weights_are_shares, teardown),
		cmocka_unit_test_teardown(members_that_have_little, teardown),
		cmocka_unit_test_teardown(many_are_lost, teardown),
		cmocka_unit_test_teardown(what_was_given, teardown),
		cmocka_unit_test_teardown(no_next_map, teardown),
		cmocka_unit_test_teardown(drained_members_get_nothing, teardown),
		cmocka_unit_test_teardown(a_drained_member_that_leaves_is_no_loss, teardown),
		cmocka_unit_test_teardown(absent_members_are_marked, teardown),
		cmocka_unit_test_teardown(few_members_are_marked, teardown),
		cmocka_unit_test_teardown(a_balance_ends, teardown),
		cmocka_unit_test_teardown(any_history, teardown),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
