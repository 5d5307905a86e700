/* SPDX-License-Identifier: MIT */
/* Admits large values as long as there is memory for them, in two classes; queues the others. */
#include "server/net/budget.h"

#include "common/util/clock.h"
#include "server/net/deferred.h"

void budget_init(struct budget *budget, uint64_t bytes_max)
{
	*budget = (struct budget){ .bytes_max = bytes_max };
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++)
		TAILQ_INIT(&budget->waiting[i]);
}

static uint64_t held(const struct budget *budget)
{
	uint64_t bytes = 0;

	for (int class = 0; class < BUDGET_CLASSES; class ++)
		bytes += budget->held[class];
	return bytes;
}

static bool waits(const struct budget *budget, enum budget_class class)
{
	return !TAILQ_EMPTY(&budget->waiting[class]);
}

static bool is_oversize(const struct budget *budget, uint64_t bytes)
{
	return bytes > budget->bytes_max / 2;
}

/* What the connections of a class may hold: B2 and B6. */
static uint64_t class_max(const struct budget *budget, enum budget_class class)
{
	if (class == BUDGET_LATE)
		return budget->bytes_max / BUDGET_LATE_PART;
	return class == BUDGET_UNPROVEN || waits(budget, BUDGET_UNPROVEN) ? budget->bytes_max / 2 :
									    budget->bytes_max;
}

/* Whether those that are not late hold nothing, and @use was long ago: B6. */
static bool is_over(const struct budget *budget, const struct budget_hold *hold,
		    const struct budget_use *use)
{
	return !budget->held[BUDGET_PROVEN] && !budget->held[BUDGET_UNPROVEN] &&
	       clock_ns() - use->at_ns >= hold->conn->poller->worker->limits.pull_stall_ns;
}

/* Whether other principals than the hold's pause. */
static bool others_pause(const struct budget *budget, const struct budget_hold *hold)
{
	return is_over(
		budget, hold,
		&budget->used[principal_is(&budget->used[0].principal, &hold->conn->principal)]);
}

/* Notes that @hold held some, or asks for @bytes. */
static void use_note(struct budget *budget, const struct budget_hold *hold, uint64_t bytes)
{
	if (hold->class == BUDGET_LATE)
		return;
	if (is_over(budget, hold, &budget->used[0]))
		budget->used_bytes = 0;
	if (bytes > budget->used_bytes)
		budget->used_bytes = bytes;
	if (!principal_is(&budget->used[0].principal, &hold->conn->principal)) {
		budget->used[1] = budget->used[0];
		budget->used[0].principal = hold->conn->principal;
	}
	budget->used[0].at_ns = clock_ns();
}

/* B6: between two values of a client that stores one after the other, nobody waits. */
static bool late_fits(const struct budget *budget, const struct budget_hold *hold, uint64_t bytes)
{
	if (waits(budget, BUDGET_UNPROVEN) || waits(budget, BUDGET_PROVEN))
		return false;
	if (others_pause(budget, hold))
		return !held(budget) ||
		       budget->held[BUDGET_LATE] + bytes <= class_max(budget, BUDGET_LATE);
	bytes += budget->held[BUDGET_LATE];
	return bytes <= class_max(budget, BUDGET_LATE) &&
	       bytes + budget->used_bytes <= budget->bytes_max &&
	       bytes + budget->held[BUDGET_PROVEN] + budget->held[BUDGET_UNPROVEN] <=
		       budget->bytes_max;
}

/* B1, B2 and B6. */
static bool fits(const struct budget *budget, const struct budget_hold *hold, uint64_t bytes)
{
	if (hold->class == BUDGET_LATE)
		return late_fits(budget, hold, bytes);
	if (!held(budget))
		return true;
	if (held(budget) + bytes > budget->bytes_max)
		return false;
	if (is_oversize(budget, bytes))
		return !budget->held[hold->class];
	return budget->held[hold->class] + bytes <= class_max(budget, hold->class);
}

bool budget_fits(const struct budget *budget, const struct budget_hold *hold)
{
	return fits(budget, hold, hold->wanted);
}

/*
 * B3: whether a value of more than half of the share is next in the other class, and came earlier.
 * It needs no one else to hold any, so if the others did not wait for it, it might wait for ever.
 * Those that are late wait for all others at any rate.
 */
static bool is_stopped(const struct budget *budget, const struct budget_hold *hold)
{
	enum budget_class class = hold->class == BUDGET_PROVEN ? BUDGET_UNPROVEN : BUDGET_PROVEN;
	const struct budget_hold *other = TAILQ_FIRST(&budget->waiting[class]);

	return other && is_oversize(budget, other->wanted) &&
	       (!hold->wanted || other->arrival < hold->arrival);
}

/* Wakes the first of each class, if there is room for it now. */
static void wake(struct budget *budget)
{
	static const enum budget_class order[] = { BUDGET_PROVEN, BUDGET_UNPROVEN, BUDGET_LATE };

	for (unsigned int i = 0; i < BUDGET_CLASSES; i++) {
		struct budget_hold *hold = TAILQ_FIRST(&budget->waiting[order[i]]);

		if (hold && budget_fits(budget, hold))
			deferred_wake(hold->conn);
	}
}

static void wait_begin(struct budget *budget, struct budget_hold *hold, uint64_t bytes, bool first)
{
	hold->wanted = bytes;
	budget->waiting_count[hold->class]++;
	if (first) {
		TAILQ_INSERT_HEAD(&budget->waiting[hold->class], hold, entry);
	} else {
		hold->arrival = budget->arrivals++;
		TAILQ_INSERT_TAIL(&budget->waiting[hold->class], hold, entry);
	}
}

void budget_leave(struct budget *budget, struct budget_hold *hold)
{
	if (!hold->wanted)
		return;
	use_note(budget, hold, 0);
	TAILQ_REMOVE(&budget->waiting[hold->class], hold, entry);
	budget->waiting_count[hold->class]--;
	hold->wanted = 0;
	wake(budget);
}

enum budget_admission budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	struct budget_hold *first = TAILQ_FIRST(&budget->waiting[hold->class]);
	bool held_some = hold->bytes;

	use_note(budget, hold, bytes);
	budget->held[hold->class] -= hold->bytes;
	hold->bytes = 0;
	if ((!first || first == hold || held_some) && fits(budget, hold, bytes) &&
	    (held_some || !is_stopped(budget, hold))) {
		budget->held[hold->class] += bytes;
		hold->bytes = bytes;
		budget_leave(budget, hold);
		return BUDGET_ADMITTED;
	}
	if (hold->wanted)
		return BUDGET_WAITS;
	if (budget->waiting_count[hold->class] == BUDGET_WAITING_MAX) {
		wake(budget);
		return BUDGET_REFUSED;
	}
	wait_begin(budget, hold, bytes, held_some);
	return BUDGET_WAITS;
}

void budget_class_set(struct budget *budget, struct budget_hold *hold, enum budget_class class)
{
	if (hold->class == class || hold->bytes)
		return;
	budget_leave(budget, hold);
	hold->class = class;
}

void budget_give(struct budget *budget, struct budget_hold *hold, bool arrived)
{
	if (!hold->bytes)
		return;
	use_note(budget, hold, 0);
	budget->held[hold->class] -= hold->bytes;
	hold->bytes = 0;
	hold->class = arrived ? BUDGET_PROVEN : BUDGET_UNPROVEN;
	wake(budget);
}

bool budget_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	if (hold->class != BUDGET_PROVEN || hold->wanted || waits(budget, BUDGET_PROVEN) ||
	    waits(budget, BUDGET_UNPROVEN) || !fits(budget, hold, bytes) ||
	    (hold->bytes && hold->bytes + bytes > budget->bytes_max / BUDGET_MORE_PART))
		return false;
	use_note(budget, hold, bytes);
	budget->held[hold->class] += bytes;
	hold->bytes += bytes;
	return true;
}

void budget_give_part(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	if (bytes == hold->bytes) {
		budget_give(budget, hold, true);
		return;
	}
	use_note(budget, hold, 0);
	budget->held[hold->class] -= bytes;
	hold->bytes -= bytes;
	wake(budget);
}
