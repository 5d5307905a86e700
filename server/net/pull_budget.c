/* SPDX-License-Identifier: MIT */
/* Admits pulls as long as there is memory for them, in two classes, and queues the others. */
#include "server/net/pull_budget.h"

#include "server/net/deferred.h"

void pull_budget_init(struct pull_budget *budget, uint64_t bytes_max)
{
	*budget = (struct pull_budget){ .bytes_max = bytes_max };
	for (unsigned int i = 0; i < PULL_CLASSES; i++)
		TAILQ_INIT(&budget->waiting[i]);
}

static uint64_t held(const struct pull_budget *budget)
{
	return budget->held[PULL_UNPROVEN] + budget->held[PULL_PROVEN];
}

static bool is_oversize(const struct pull_budget *budget, uint64_t bytes)
{
	return bytes > budget->bytes_max / 2;
}

/* B1 and B2. */
static bool fits(const struct pull_budget *budget, enum pull_class class, uint64_t bytes)
{
	bool shared = class == PULL_UNPROVEN || !TAILQ_EMPTY(&budget->waiting[PULL_UNPROVEN]);
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
static bool is_stopped(const struct pull_budget *budget, const struct pull_hold *hold)
{
	const struct conn *other = TAILQ_FIRST(&budget->waiting[!hold->class]);

	return other && is_oversize(budget, other->pull_hold.wanted) &&
	       (!hold->wanted || other->pull_hold.arrival < hold->arrival);
}

/* Wakes the first of each class, if there is room for it now. */
static void wake(struct pull_budget *budget)
{
	for (int class = PULL_PROVEN; class >= 0; class --) {
		struct conn *conn = TAILQ_FIRST(&budget->waiting[class]);

		if (conn && fits(budget, (enum pull_class) class, conn->pull_hold.wanted))
			deferred_wake(conn);
	}
}

void pull_budget_leave(struct pull_budget *budget, struct conn *conn)
{
	struct pull_hold *hold = &conn->pull_hold;

	if (!hold->wanted)
		return;
	TAILQ_REMOVE(&budget->waiting[hold->class], conn, pull_hold.entry);
	budget->waiting_count--;
	hold->wanted = 0;
	wake(budget);
}

enum pull_admission pull_budget_take(struct pull_budget *budget, struct conn *conn, uint64_t bytes)
{
	struct pull_hold *hold = &conn->pull_hold;
	struct conn *first = TAILQ_FIRST(&budget->waiting[hold->class]);

	if ((!first || first == conn) && fits(budget, hold->class, bytes) &&
	    !is_stopped(budget, hold)) {
		budget->held[hold->class] += bytes;
		hold->bytes = bytes;
		pull_budget_leave(budget, conn);
		return PULL_ADMITTED;
	}
	if (hold->wanted)
		return PULL_WAITS;
	if (budget->waiting_count == PULLS_WAITING_MAX)
		return PULL_REFUSED;
	hold->wanted = bytes;
	hold->arrival = budget->arrivals++;
	budget->waiting_count++;
	TAILQ_INSERT_TAIL(&budget->waiting[hold->class], conn, pull_hold.entry);
	return PULL_WAITS;
}

void pull_budget_give(struct pull_budget *budget, struct conn *conn, bool arrived)
{
	struct pull_hold *hold = &conn->pull_hold;

	if (!hold->bytes)
		return;
	budget->held[hold->class] -= hold->bytes;
	hold->bytes = 0;
	hold->class = arrived ? PULL_PROVEN : PULL_UNPROVEN;
	wake(budget);
}
