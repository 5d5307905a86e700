/* SPDX-License-Identifier: MIT */
/* Admits large values as long as there is memory for them; queues the others at gates. */
#include "server/net/budget.h"

#include <assert.h>

#include "server/net/deferred.h"
#include "server/store/store.h"

void budget_init(struct budget *budget, uint64_t share)
{
	*budget = (struct budget){ .share = share };
	budget_gate_init(&budget->late);
	budget_gate_init(&budget->all);
}

static struct worker *worker_of(const struct budget_hold *hold)
{
	return hold->conn->poller->worker;
}

/* What follows, up to leave(), is for those that have the lock. */

static struct budget_gate *gate_of(struct budget *budget, const struct budget_hold *hold,
				   enum budget_stage stage)
{
	return stage == BUDGET_OWN  ? hold->own :
	       stage == BUDGET_LATE ? &budget->late :
				      &budget->all;
}

static enum budget_stage stage_next(const struct budget_hold *hold, enum budget_stage stage)
{
	return stage == BUDGET_OWN && hold->late ? BUDGET_LATE : BUDGET_ALL;
}

static bool has_room(const struct budget *budget, const struct budget_gate *gate, uint64_t bytes)
{
	uint64_t shares = gate == &budget->all ? BUDGET_SHARES : 1;

	return gate->passed + bytes <= shares * budget->share;
}

/* Takes @bytes back from the gates that the hold has passed, those before @stage. */
static void unpass(struct budget *budget, struct budget_hold *hold, uint64_t bytes,
		   enum budget_stage stage)
{
	enum budget_stage i = BUDGET_OWN;

	for (; i < stage; i = i == BUDGET_ALL ? BUDGET_STAGES : stage_next(hold, i))
		gate_of(budget, hold, i)->passed -= bytes;
}

static void wait_at(struct budget *budget, struct budget_hold *hold, enum budget_stage stage)
{
	struct budget_gate *gate = gate_of(budget, hold, stage);

	hold->stage = stage;
	if (hold->again)
		TAILQ_INSERT_HEAD(&gate->waiting, hold, entry);
	else
		TAILQ_INSERT_TAIL(&gate->waiting, hold, entry);
}

static void wait_end(struct budget *budget, struct budget_hold *hold)
{
	TAILQ_REMOVE(&gate_of(budget, hold, hold->stage)->waiting, hold, entry);
	hold->wanted = 0;
	hold->again = false;
	budget->waits--;
}

/* Those for which there is room at this gate come to the next one. */
static void gate_advance(struct budget *budget, struct budget_gate *gate)
{
	struct budget_hold *hold;

	for (unsigned int i = 0; i < BUDGET_MOVES_MAX; i++) {
		hold = TAILQ_FIRST(&gate->waiting);
		if (!hold || !has_room(budget, gate, hold->wanted))
			return;
		TAILQ_REMOVE(&gate->waiting, hold, entry);
		gate->passed += hold->wanted;
		wait_at(budget, hold, stage_next(hold, hold->stage));
	}
}

/* At the gates before the last one, after something has changed at that of @hold's principal. */
static void advance(struct budget *budget, const struct budget_hold *hold)
{
	gate_advance(budget, hold->own);
	gate_advance(budget, &budget->late);
}

/* Whose turn it is; NULL: nobody's. */
static const struct budget_hold *next(const struct budget *budget)
{
	const struct budget_hold *hold = TAILQ_FIRST(&budget->all.waiting);

	return hold && has_room(budget, &budget->all, hold->wanted) ? hold : NULL;
}

static void do_leave(struct budget *budget, struct budget_hold *hold)
{
	unpass(budget, hold, hold->wanted, hold->stage);
	wait_end(budget, hold);
	advance(budget, hold);
}

static bool do_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	if (hold->wanted && hold->wanted != bytes)
		do_leave(budget, hold);
	if (hold->bytes) {
		unpass(budget, hold, hold->bytes, BUDGET_STAGES);
		hold->bytes = 0;
		hold->again = true;
	}
	if (!hold->wanted) {
		hold->wanted = bytes;
		budget->waits++;
		wait_at(budget, hold, BUDGET_OWN);
	}
	advance(budget, hold);
	if (hold != next(budget))
		return false;
	wait_end(budget, hold);
	budget->all.passed += bytes;
	hold->bytes = bytes;
	return true;
}

static bool do_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	if (!TAILQ_EMPTY(&hold->own->waiting) || !TAILQ_EMPTY(&budget->all.waiting) ||
	    !has_room(budget, hold->own, bytes) || !has_room(budget, &budget->all, bytes) ||
	    (hold->bytes && hold->bytes + bytes > budget->share / BUDGET_MORE_PART))
		return false;
	hold->own->passed += bytes;
	budget->all.passed += bytes;
	hold->bytes += bytes;
	return true;
}

/* Releases the lock, and wakes whose turn it is (B6). */
static void leave(struct budget *budget, const struct worker *caller)
{
	const struct budget_hold *hold = next(budget);
	struct worker *worker = hold ? worker_of(hold) : NULL;
	struct conn *conn = hold ? hold->conn : NULL;

	mem_unlock(&budget->lock);
	if (!worker)
		return;
	if (worker == caller)
		deferred_wake(conn);
	/* If it was asked to look already, it has not looked yet. */
	else if (!atomic_exchange_explicit(&worker->budgets_look, true, memory_order_acq_rel))
		mailbox_wake(&worker->mailbox);
}

void budget_leave(struct budget *budget, struct budget_hold *hold)
{
	if (!hold->wanted)
		return;
	mem_lock(&budget->lock);
	do_leave(budget, hold);
	leave(budget, worker_of(hold));
}

bool budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	bool taken;

	assert(bytes <= budget->share);
	mem_lock(&budget->lock);
	taken = do_take(budget, hold, bytes);
	leave(budget, worker_of(hold));
	return taken;
}

bool budget_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	bool taken;

	if (hold->late || hold->wanted)
		return false;
	mem_lock(&budget->lock);
	taken = do_take_more(budget, hold, bytes);
	leave(budget, worker_of(hold));
	return taken;
}

void budget_give(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	if (!bytes)
		return;
	mem_lock(&budget->lock);
	unpass(budget, hold, bytes, BUDGET_STAGES);
	hold->bytes -= bytes;
	advance(budget, hold);
	leave(budget, worker_of(hold));
}

void budget_set_late(struct budget *budget, struct budget_hold *hold, bool late)
{
	if (hold->late == late || hold->bytes)
		return;
	budget_leave(budget, hold);
	hold->late = late;
}

void budget_look(struct budget *budget, struct worker *worker)
{
	const struct budget_hold *hold;
	struct conn *conn = NULL;

	mem_lock(&budget->lock);
	hold = next(budget);
	if (hold && worker_of(hold) == worker)
		conn = hold->conn;
	mem_unlock(&budget->lock);
	if (conn)
		deferred_wake(conn);
}

void budget_count(struct budget *budget, uint64_t *bytes, uint64_t *waits)
{
	mem_lock(&budget->lock);
	*bytes += budget->all.passed;
	*waits += budget->waits;
	mem_unlock(&budget->lock);
}
