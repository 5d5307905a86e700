/* SPDX-License-Identifier: MIT */
/* Admits large values as long as there is memory for them, in two classes; queues the others. */
#include "server/net/budget.h"

#include "server/net/deferred.h"

void budget_init(struct budget *budget, uint64_t bytes_max)
{
	*budget = (struct budget){ .bytes_max = bytes_max };
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++)
		TAILQ_INIT(&budget->waiting[i]);
}

static uint64_t held(const struct budget *budget)
{
	return budget->held[BUDGET_UNPROVEN] + budget->held[BUDGET_PROVEN];
}

static bool is_oversize(const struct budget *budget, uint64_t bytes)
{
	return bytes > budget->bytes_max / 2;
}

/* B1 and B2. */
static bool fits(const struct budget *budget, enum budget_class class, uint64_t bytes)
{
	bool shared = class == BUDGET_UNPROVEN || !TAILQ_EMPTY(&budget->waiting[BUDGET_UNPROVEN]);
	uint64_t class_max = shared ? budget->bytes_max / 2 : budget->bytes_max;

	if (!held(budget))
		return true;
	if (held(budget) + bytes > budget->bytes_max)
		return false;
	return is_oversize(budget, bytes) ? !budget->held[class] :
					    budget->held[class] + bytes <= class_max;
}

/*
 * B3: whether a value of more than half of the share is next in the other class, and came earlier.
 * It needs no one else to hold any, so if the others did not wait for it, it might wait for ever.
 */
static bool is_stopped(const struct budget *budget, const struct budget_hold *hold)
{
	const struct budget_hold *other = TAILQ_FIRST(&budget->waiting[!hold->class]);

	return other && is_oversize(budget, other->wanted) &&
	       (!hold->wanted || other->arrival < hold->arrival);
}

/* Wakes the first of each class, if there is room for it now. */
static void wake(struct budget *budget)
{
	for (int class = BUDGET_PROVEN; class >= 0; class --) {
		struct budget_hold *hold = TAILQ_FIRST(&budget->waiting[class]);

		if (hold && fits(budget, (enum budget_class) class, hold->wanted))
			deferred_wake(hold->conn);
	}
}

static void wait_begin(struct budget *budget, struct budget_hold *hold, uint64_t bytes, bool first)
{
	hold->wanted = bytes;
	budget->waiting_count++;
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
	TAILQ_REMOVE(&budget->waiting[hold->class], hold, entry);
	budget->waiting_count--;
	hold->wanted = 0;
	wake(budget);
}

enum budget_admission budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	struct budget_hold *first = TAILQ_FIRST(&budget->waiting[hold->class]);
	bool held_some = hold->bytes;

	budget->held[hold->class] -= hold->bytes;
	hold->bytes = 0;
	if ((!first || first == hold || held_some) && fits(budget, hold->class, bytes) &&
	    (held_some || !is_stopped(budget, hold))) {
		budget->held[hold->class] += bytes;
		hold->bytes = bytes;
		budget_leave(budget, hold);
		return BUDGET_ADMITTED;
	}
	if (hold->wanted)
		return BUDGET_WAITS;
	if (budget->waiting_count == BUDGET_WAITING_MAX) {
		wake(budget);
		return BUDGET_REFUSED;
	}
	wait_begin(budget, hold, bytes, held_some);
	return BUDGET_WAITS;
}

void budget_give(struct budget *budget, struct budget_hold *hold, bool arrived)
{
	if (!hold->bytes)
		return;
	budget->held[hold->class] -= hold->bytes;
	hold->bytes = 0;
	hold->class = arrived ? BUDGET_PROVEN : BUDGET_UNPROVEN;
	wake(budget);
}
