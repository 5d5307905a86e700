/* SPDX-License-Identifier: MIT */
/* Looks who is absent, places shards without a present owner, and makes a bounded plan of that. */
#include "server/fleet/controller.h"

#include <stdio.h>
#include <string.h>

#include "server/fleet/map_edit.h"
#include "server/fleet/moves.h"
#include "server/fleet/placement.h"

/* The part of a lease that it waits after its election. */
#define ELECTED_SHARE 5
#define NS_PER_DS 100000000u /* of a tenth of a second */

/* A fleet at a look, in numbers. */
struct census {
	uint32_t orphans; /* shards whose owner is not present, or that have none */
	uint32_t unowned; /* that have none */
	uint32_t losses;  /* CONTROLLER-4 */
	uint32_t members;
	uint32_t targets;  /* present, with a weight */
	uint32_t unmarked; /* absent, and the map does not say so */
	bool drained_only; /* all targets are drained */
	bool balances;
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

static bool has_flag(const struct controller_input *in, uint32_t member, uint32_t flag)
{
	return in->map->members[member]->flags & flag;
}

/* CONTROLLER-4. One that was drained, and has left without a shard, is none. */
static bool is_loss(const struct controller_input *in, uint32_t member, bool has_rows)
{
	if (is_present(in, member))
		return lost_lately(in, in->map->members[member]);
	return has_rows || (lost_lately(in, in->map->members[member]) &&
			    !has_flag(in, member, FLEET_MEMBER_DRAINED));
}

static bool is_target(const struct controller_input *in, uint32_t member, bool drained_too)
{
	return is_present(in, member) && in->map->members[member]->weight &&
	       (drained_too || !has_flag(in, member, FLEET_MEMBER_DRAINED));
}

static void census_add(const struct controller_input *in, uint32_t member, bool has_rows,
		       struct census *census)
{
	const bool present = is_present(in, member), lost = is_loss(in, member, has_rows);

	census->losses += lost;
	census->members += present || lost;
	census->targets += is_target(in, member, true);
	census->drained_only &= !is_target(in, member, false);
	census->unmarked += !present && !has_flag(in, member, FLEET_MEMBER_AWAY);
	census->balances |= has_flag(in, member, FLEET_MEMBER_BALANCES);
}

static struct census census_take(const struct controller_input *in)
{
	const struct fleet_head *head = in->map->head;
	bool has_rows[FLEET_MEMBERS_MAX] = { false };
	struct census census = { .drained_only = true };

	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint32_t owner = fleet_row_owner(in->map->rows[i]);

		census.orphans += !is_present(in, owner);
		census.unowned += owner == FLEET_NO_OWNER;
		if (owner < head->members)
			has_rows[owner] = true;
	}
	for (uint32_t i = 0; i < head->members; i++)
		census_add(in, i, has_rows[i], &census);
	return census;
}

static uint32_t losses_max(const struct census *census)
{
	return census->members < 3 ? 1 : census->members / 3;
}

/* Whether @until_ns is not reached; then says so. */
static bool waits(const struct controller_input *in, uint64_t until_ns, const char *after,
		  char *why)
{
	uint64_t left;

	if (in->now_ns >= until_ns)
		return false;
	left = (until_ns - in->now_ns + NS_PER_DS - 1) / NS_PER_DS;
	snprintf(why, CONTROLLER_WHY_MAX, "waits %u.%u s after %s", (unsigned int)(left / 10),
		 (unsigned int)(left % 10), after);
	return true;
}

/* CONTROLLER-3 */
static bool waits_at_first(const struct controller_input *in, char *why)
{
	return waits(in, in->answered_ns + 2 * in->lease_ns, "etcd was not there", why) ||
	       waits(in, in->elected_ns + in->lease_ns / ELECTED_SHARE, "its election", why);
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

/* Notes that @loser loses rows, or is away. False: the plan would have too many members. */
static bool loser_note(struct sides *sides, uint32_t loser)
{
	const uint32_t at = compare_find(sides->losers, sides->loser_count, loser);

	if (at == CONTROLLER_LOSERS_MAX)
		return false;
	if (at == sides->loser_count)
		sides->losers[sides->loser_count++] = (struct controller_compare){ loser, 0 };
	return true;
}

/* Notes that @owner loses a row to @target. False: the plan would have too many members. */
static bool sides_note(const struct controller_input *in, struct sides *sides, uint32_t owner,
		       uint32_t target)
{
	const uint32_t gets = compare_find(sides->targets, sides->target_count, target);

	if (gets == CONTROLLER_TARGETS_MAX)
		return false;
	if (owner != FLEET_NO_OWNER && !loser_note(sides, owner))
		return false;
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
static void owners_place(const struct controller_input *in, const struct census *census,
			 bool losses_too, uint16_t owners[FLEET_SHARDS])
{
	uint32_t weights[FLEET_MEMBERS_MAX];

	for (uint32_t i = 0; i < in->map->head->members; i++)
		weights[i] = is_target(in, i, census->drained_only) ? in->map->members[i]->weight :
								      0;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint32_t owner = fleet_row_owner(in->map->rows[i]);

		owners[i] = is_free(in, owner, losses_too) ? PLACEMENT_NONE : (uint16_t)owner;
	}
	placement_fill(weights, in->map->head->members, owners);
}

/* Gives rows that are free; @losses_too: those of absent members, too. */
static void rows_give(const struct controller_input *in, const struct census *census,
		      bool losses_too, struct map_edit *edit, struct sides *sides,
		      struct controller_plan *plan)
{
	uint16_t owners[FLEET_SHARDS];

	owners_place(in, census, losses_too, owners);
	for (uint32_t i = 0; i < FLEET_SHARDS && plan->rows < CONTROLLER_ROWS_MAX; i++) {
		const uint64_t row = in->map->rows[i];
		const uint32_t owner = fleet_row_owner(row);
		const bool unused = row == fleet_row(FLEET_NO_OWNER, false, MAP_EDIT_EPOCH_FIRST);

		if (!is_free(in, owner, losses_too) || !sides_note(in, sides, owner, owners[i]))
			continue;
		map_edit_row(edit, i, owners[i], unused ? FLEET_GIVEN : 0);
		plan->rows++;
	}
	for (uint32_t i = 0; i < sides->loser_count; i++)
		map_edit_lost(edit, sides->losers[i].member, in->time_s ? in->time_s : 1);
}

/* Marks members as away: those that lose rows here, and others that are absent. */
static void away_mark(const struct controller_input *in, struct map_edit *edit, struct sides *sides)
{
	for (uint32_t i = 0; i < in->map->head->members; i++)
		if (!is_present(in, i) && !has_flag(in, i, FLEET_MEMBER_AWAY) &&
		    loser_note(sides, i))
			map_edit_flags(edit, i, in->map->members[i]->flags | FLEET_MEMBER_AWAY);
}

static void balances_clear(const struct controller_input *in, struct map_edit *edit)
{
	for (uint32_t i = 0; i < in->map->head->members; i++)
		if (has_flag(in, i, FLEET_MEMBER_BALANCES))
			map_edit_flags(edit, i,
				       in->map->members[i]->flags & ~FLEET_MEMBER_BALANCES);
}

/* Makes the new map; @gives: shards without an owner, and @losses_too those of absent members. */
static void plan_make(const struct controller_input *in, const struct census *census, bool gives,
		      bool losses_too, struct controller_plan *plan)
{
	struct map_edit *edit = map_edit_create(in->map);
	struct sides sides = { .loser_count = 0 };
	const char *error;

	if (gives)
		rows_give(in, census, losses_too, edit, &sides, plan);
	if (losses_too)
		away_mark(in, edit, &sides);
	if (!plan->rows && !sides.loser_count)
		balances_clear(in, edit);
	for (uint32_t i = 0; i < sides.loser_count; i++)
		plan->compares[plan->compare_count++] = sides.losers[i];
	for (uint32_t i = 0; i < sides.target_count; i++)
		plan->compares[plan->compare_count++] = sides.targets[i];
	error = map_edit_finish(edit, &plan->map);
	if (!error)
		return;
	plan->rows = plan->compare_count = 0;
	snprintf(plan->why, sizeof(plan->why), "can't make the next map: %s", error);
}

/* All shards have the owners that the balance wants, and these are present. */
static bool is_balanced(const struct controller_input *in, const struct census *census)
{
	return census->balances && !census->orphans && !census->unmarked &&
	       !moves_left(in->map, UINT32_MAX);
}

void controller_plan(const struct controller_input *in, struct controller_plan *plan)
{
	struct census census;
	bool too_many, gives, marks, balanced;

	memset(plan, 0, sizeof(*plan));
	census = census_take(in);
	balanced = is_balanced(in, &census);
	if ((!census.orphans && !census.unmarked && !balanced) || waits_at_first(in, plan->why))
		return;
	too_many = census.losses > losses_max(&census);
	if (census.orphans && !census.targets)
		strcpy(plan->why, "no member with a weight is present");
	else if (too_many)
		snprintf(plan->why, sizeof(plan->why),
			 "%u of %u members are absent or were lost in the last 10 minutes: at most "
			 "%u may be",
			 census.losses, census.members, losses_max(&census));
	gives = census.targets && (too_many ? census.unowned : census.orphans);
	marks = census.unmarked && !too_many;
	if (gives || marks || balanced)
		plan_make(in, &census, gives, !too_many, plan);
}
