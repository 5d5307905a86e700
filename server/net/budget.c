/* SPDX-License-Identifier: MIT */
/* Admits large values as long as there is memory for them, in two classes; queues the others. */
#include "server/net/budget.h"

#include <assert.h>

#include "common/util/clock.h"
#include "server/net/deferred.h"
#include "server/store/store.h"

/* In which the first ones are woken. */
static const enum budget_class class_order[] = { BUDGET_PROVEN, BUDGET_UNPROVEN, BUDGET_LATE };

/* Whom the caller wakes when it has released the lock (B8): its own connections, and workers. */
struct wakes {
	struct worker *caller;
	struct conn *conns[BUDGET_CLASSES];
	struct worker *workers[BUDGET_CLASSES];
	unsigned int conn_count, worker_count;
};

void budget_init(struct budget *budget, uint64_t bytes_max, unsigned int workers)
{
	*budget = (struct budget){
		.bytes_max = bytes_max,
		.waiting_max = BUDGET_WAITING_MAX * workers,
	};
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++)
		TAILQ_INIT(&budget->waiting[i]);
}

static struct worker *worker_of(const struct budget_hold *hold)
{
	return hold->conn->poller->worker;
}

/* Takes the lock, with the time, which is read before: another worker may have seen a later one. */
static void enter(struct budget *budget, struct wakes *wakes, struct worker *caller)
{
	uint64_t now_ns = clock_ns();

	wakes->caller = caller;
	wakes->conn_count = wakes->worker_count = 0;
	mem_lock(&budget->lock);
	if (now_ns > budget->now_ns)
		budget->now_ns = now_ns;
}

/* Has the worker call budget_look(). If it was asked for that already, it has not looked yet. */
static void worker_wake(struct worker *worker)
{
	if (!atomic_exchange_explicit(&worker->budgets_look, true, memory_order_acq_rel))
		mailbox_wake(&worker->mailbox);
}

static void leave(struct budget *budget, const struct wakes *wakes)
{
	mem_unlock(&budget->lock);
	for (unsigned int i = 0; i < wakes->conn_count; i++)
		deferred_wake(wakes->conns[i]);
	for (unsigned int i = 0; i < wakes->worker_count; i++)
		worker_wake(wakes->workers[i]);
}

/* The rest is for those that have the lock. */

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
	       budget->now_ns - use->at_ns >= worker_of(hold)->limits.pull_stall_ns;
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
	budget->used[0].at_ns = budget->now_ns;
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
	if (held(budget) + bytes > budget->bytes_max)
		return false;
	if (is_oversize(budget, bytes))
		return !budget->held[hold->class];
	return budget->held[hold->class] + bytes <= class_max(budget, hold->class);
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
static void do_wake(const struct budget *budget, struct wakes *wakes)
{
	const struct budget_hold *hold;

	wakes->conn_count = wakes->worker_count = 0;
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++) {
		hold = TAILQ_FIRST(&budget->waiting[class_order[i]]);
		if (!hold || !fits(budget, hold, hold->wanted))
			continue;
		if (worker_of(hold) == wakes->caller)
			wakes->conns[wakes->conn_count++] = hold->conn;
		else
			wakes->workers[wakes->worker_count++] = worker_of(hold);
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

static void do_leave(struct budget *budget, struct budget_hold *hold, struct wakes *wakes)
{
	if (!hold->wanted)
		return;
	use_note(budget, hold, 0);
	TAILQ_REMOVE(&budget->waiting[hold->class], hold, entry);
	budget->waiting_count[hold->class]--;
	hold->wanted = 0;
	do_wake(budget, wakes);
}

static enum budget_admission do_take(struct budget *budget, struct budget_hold *hold,
				     uint64_t bytes, struct wakes *wakes)
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
		do_leave(budget, hold, wakes);
		return BUDGET_ADMITTED;
	}
	if (hold->wanted)
		return BUDGET_WAITS;
	if (budget->waiting_count[hold->class] >= budget->waiting_max) {
		do_wake(budget, wakes);
		return BUDGET_REFUSED;
	}
	wait_begin(budget, hold, bytes, held_some);
	return BUDGET_WAITS;
}

static void do_give(struct budget *budget, struct budget_hold *hold, uint64_t bytes,
		    struct wakes *wakes)
{
	use_note(budget, hold, 0);
	budget->held[hold->class] -= bytes;
	hold->bytes -= bytes;
	do_wake(budget, wakes);
}

static bool do_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	if (waits(budget, BUDGET_PROVEN) || waits(budget, BUDGET_UNPROVEN) ||
	    !fits(budget, hold, bytes) ||
	    (hold->bytes && hold->bytes + bytes > budget->bytes_max / BUDGET_MORE_PART))
		return false;
	use_note(budget, hold, bytes);
	budget->held[hold->class] += bytes;
	hold->bytes += bytes;
	return true;
}

/* Without the lock: what a hold has, its worker may read. */

void budget_leave(struct budget *budget, struct budget_hold *hold)
{
	struct wakes wakes;

	if (!hold->wanted)
		return;
	enter(budget, &wakes, worker_of(hold));
	do_leave(budget, hold, &wakes);
	leave(budget, &wakes);
}

enum budget_admission budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	enum budget_admission admission;
	struct wakes wakes;

	assert(bytes <= budget->bytes_max);
	enter(budget, &wakes, worker_of(hold));
	admission = do_take(budget, hold, bytes, &wakes);
	leave(budget, &wakes);
	return admission;
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
	struct wakes wakes;

	if (!hold->bytes)
		return;
	enter(budget, &wakes, worker_of(hold));
	do_give(budget, hold, hold->bytes, &wakes);
	hold->class = arrived ? BUDGET_PROVEN : BUDGET_UNPROVEN;
	leave(budget, &wakes);
}

bool budget_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	struct wakes wakes;
	bool taken;

	if (hold->class != BUDGET_PROVEN || hold->wanted)
		return false;
	enter(budget, &wakes, worker_of(hold));
	taken = do_take_more(budget, hold, bytes);
	leave(budget, &wakes);
	return taken;
}

void budget_give_part(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	struct wakes wakes;

	if (bytes == hold->bytes) {
		budget_give(budget, hold, true);
		return;
	}
	enter(budget, &wakes, worker_of(hold));
	do_give(budget, hold, bytes, &wakes);
	leave(budget, &wakes);
}

/* Whether the first of its class is to try again. */
static bool is_due(const struct budget *budget, const struct budget_hold *hold)
{
	struct late_principals *late = worker_of(hold)->env->late_principals;

	return fits(budget, hold, hold->wanted) ||
	       (hold->class == BUDGET_LATE &&
		!late_principals_have(late, &hold->conn->principal, budget->now_ns));
}

bool budget_look(struct budget *budget, struct worker *worker)
{
	const struct budget_hold *hold;
	struct wakes wakes;
	bool late;

	enter(budget, &wakes, worker);
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++) {
		hold = TAILQ_FIRST(&budget->waiting[class_order[i]]);
		if (hold && worker_of(hold) == worker && is_due(budget, hold))
			wakes.conns[wakes.conn_count++] = hold->conn;
	}
	late = waits(budget, BUDGET_LATE);
	leave(budget, &wakes);
	return late;
}

void budget_count(struct budget *budget, uint64_t *bytes, uint64_t *waits)
{
	mem_lock(&budget->lock);
	*bytes += held(budget);
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++)
		*waits += budget->waiting_count[i];
	mem_unlock(&budget->lock);
}
