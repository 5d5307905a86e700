/* SPDX-License-Identifier: MIT */
/* Looks who is absent, places shards without a present owner, and makes a bounded plan of that. */
#include "server/fleet/controller.h"

#include <stdio.h>
#include <string.h>

#include "server/fleet/map_edit.h"
#include "server/fleet/placement.h"

#define NS_PER_DS 100000000u /* of a tenth of a second */

/* A fleet at a look, in numbers. */
struct census {
	uint32_t orphans; /* shards whose owner is not present, or that have none */
	uint32_t unowned; /* that have none */
	uint32_t losses;  /* CONTROLLER-4 */
	uint32_t members;
	uint32_t targets; /* present, with a weight */
};

static bool is_present(const struct controller_input *in, uint32_t owner)
{
	return owner < in->map->head->members && in->present[owner];
}

/* By the time of day, which may differ between members, and jump: in either direction. */
static bool lost_lately(const struct controller_input *in, const struct fleet_member *member)
{
	const uint64_t lost = member->lost_s, now = in->time_s;

	return lost && (lost > now ? lost - now : now - lost) < CONTROLLER_LOST_S;
}

static struct census census_take(const struct controller_input *in)
{
	const struct fleet_head *head = in->map->head;
	bool has_rows[FLEET_MEMBERS_MAX] = { false };
	struct census census = { 0 };

	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint32_t owner = fleet_row_owner(in->map->rows[i]);

		census.orphans += !is_present(in, owner);
		census.unowned += owner == FLEET_NO_OWNER;
		if (owner < head->members)
			has_rows[owner] = true;
	}
	for (uint32_t i = 0; i < head->members; i++) {
		const bool present = is_present(in, i);
		const bool lost = lost_lately(in, in->map->members[i]) || (has_rows[i] && !present);

		census.losses += lost;
		census.members += present || lost;
		census.targets += present && in->map->members[i]->weight;
	}
	return census;
}

static uint32_t losses_max(const struct census *census)
{
	return census->members < 3 ? 1 : census->members / 3;
}

/* Whether two leases have not passed since @since_ns; then says so. */
static bool waits(const struct controller_input *in, uint64_t since_ns, const char *what, char *why)
{
	const uint64_t until_ns = since_ns + 2 * in->lease_ns;
	uint64_t left;

	if (in->now_ns >= until_ns)
		return false;
	left = (until_ns - in->now_ns + NS_PER_DS - 1) / NS_PER_DS;
	snprintf(why, CONTROLLER_WHY_MAX, "waits %u.%u s after %s", (unsigned int)(left / 10),
		 (unsigned int)(left % 10), what);
	return true;
}

/* The index of @member among the @count members from @first on; @count: it is none of them. */
static uint32_t compare_find(const struct controller_compare *first, uint32_t count,
			     uint32_t member)
{
	uint32_t i = 0;

	while (i < count && first[i].member != member)
		i++;
	return i;
}

/* What a plan names: members that lose rows, and that get some. */
struct sides {
	struct controller_compare losers[CONTROLLER_LOSERS_MAX];
	struct controller_compare targets[CONTROLLER_TARGETS_MAX];
	uint32_t loser_count, target_count;
};

/* Notes that @owner loses a row to @target. False: the plan would have too many members. */
static bool sides_note(const struct controller_input *in, struct sides *sides, uint32_t owner,
		       uint32_t target)
{
	const bool loses = owner != FLEET_NO_OWNER;
	const uint32_t loser = compare_find(sides->losers, sides->loser_count, owner);
	const uint32_t gets = compare_find(sides->targets, sides->target_count, target);

	if ((loses && loser == CONTROLLER_LOSERS_MAX) || gets == CONTROLLER_TARGETS_MAX)
		return false;
	if (loses && loser == sides->loser_count)
		sides->losers[sides->loser_count++] = (struct controller_compare){ owner, 0 };
	if (gets == sides->target_count)
		sides->targets[sides->target_count++] =
			(struct controller_compare){ target, in->present[target] };
	return true;
}

/* Whether a row may be given: it has no owner, or an absent one and @losses_too. */
static bool is_free(const struct controller_input *in, uint32_t owner, bool losses_too)
{
	return owner == FLEET_NO_OWNER || (losses_too && !is_present(in, owner));
}

/* Where the shards would be if all that are free were placed. */
static void owners_place(const struct controller_input *in, bool losses_too,
			 uint16_t owners[FLEET_SHARDS])
{
	uint32_t weights[FLEET_MEMBERS_MAX];

	for (uint32_t i = 0; i < in->map->head->members; i++)
		weights[i] = is_present(in, i) ? in->map->members[i]->weight : 0;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint32_t owner = fleet_row_owner(in->map->rows[i]);

		owners[i] = is_free(in, owner, losses_too) ? PLACEMENT_NONE : (uint16_t)owner;
	}
	placement_fill(weights, in->map->head->members, owners);
}

/* Makes the new map; @losses_too: rows of absent members change, too. */
static void plan_make(const struct controller_input *in, struct controller_plan *plan,
		      bool losses_too)
{
	struct map_edit *edit = map_edit_create(in->map);
	struct sides sides = { .loser_count = 0 };
	uint16_t owners[FLEET_SHARDS];
	const char *error;

	owners_place(in, losses_too, owners);
	for (uint32_t i = 0; i < FLEET_SHARDS && plan->rows < CONTROLLER_ROWS_MAX; i++) {
		const uint64_t row = in->map->rows[i];
		const uint32_t owner = fleet_row_owner(row);
		const bool unused = row == fleet_row(FLEET_NO_OWNER, false, MAP_EDIT_EPOCH_FIRST);

		if (!is_free(in, owner, losses_too) || !sides_note(in, &sides, owner, owners[i]))
			continue;
		map_edit_row(edit, i, owners[i], unused ? FLEET_GIVEN : 0);
		plan->rows++;
	}
	for (uint32_t i = 0; i < sides.loser_count; i++) {
		map_edit_lost(edit, sides.losers[i].member, in->time_s ? in->time_s : 1);
		plan->compares[plan->compare_count++] = sides.losers[i];
	}
	for (uint32_t i = 0; i < sides.target_count; i++)
		plan->compares[plan->compare_count++] = sides.targets[i];
	error = map_edit_finish(edit, &plan->map);
	if (!error)
		return;
	plan->rows = plan->compare_count = 0;
	snprintf(plan->why, sizeof(plan->why), "can't make the next map: %s", error);
}

void controller_plan(const struct controller_input *in, struct controller_plan *plan)
{
	struct census census;
	bool too_many;

	memset(plan, 0, sizeof(*plan));
	census = census_take(in);
	if (!census.orphans || waits(in, in->elected_ns, "its election", plan->why) ||
	    (in->answered_ns && waits(in, in->answered_ns, "an outage of etcd", plan->why)))
		return;
	if (!census.targets) {
		strcpy(plan->why, "no member with a weight is present");
		return;
	}
	too_many = census.losses > losses_max(&census);
	if (too_many)
		snprintf(plan->why, sizeof(plan->why),
			 "%u of %u members are absent or were lost in the last 10 minutes: at most "
			 "%u may be",
			 census.losses, census.members, losses_max(&census));
	if (!too_many || census.unowned)
		plan_make(in, plan, !too_many);
}
