/* SPDX-License-Identifier: MIT */
/* Admits large values as long as there is memory for them; queues the others at gates. */
#include "server/worker/budget.h"

#include <assert.h>

#include "common/util/stat.h"
#include "server/store/store.h"

void budget_init(struct budget *budget, uint64_t share)
{
	*budget = (struct budget){ .share = share };
	budget_gate_init(&budget->late);
	budget_gate_init(&budget->all);
}

static struct worker *worker_of(const struct budget_hold *hold)
{
	return hold->client->worker;
}

/* Functions from here to leave() expect the lock held. */

static struct budget_gate *gate_of(struct budget *budget, const struct budget_hold *hold,
				   enum budget_stage stage)
{
	return stage == BUDGET_OWN  ? hold->own :
	       stage == BUDGET_LATE ? &budget->late :
				      &budget->all;
}

static enum budget_stage stage_first(const struct budget_hold *hold)
{
	return hold->late ? BUDGET_LATE : BUDGET_OWN;
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
	for (enum budget_stage i = stage_first(hold); i < stage; i++)
		gate_of(budget, hold, i)->passed -= bytes;
}

static void wait_at(struct budget *budget, struct budget_hold *hold, enum budget_stage stage)
{
	struct budget_gate *gate = gate_of(budget, hold, stage);

	hold->stage = stage;
	budget->line += stage == BUDGET_ALL ? hold->wanted : 0;
	if (hold->again)
		TAILQ_INSERT_HEAD(&gate->waiting, hold, entry);
	else
		TAILQ_INSERT_TAIL(&gate->waiting, hold, entry);
}

static void wait_end(struct budget *budget, struct budget_hold *hold)
{
	TAILQ_REMOVE(&gate_of(budget, hold, hold->stage)->waiting, hold, entry);
	budget->line -= hold->stage == BUDGET_ALL ? hold->wanted : 0;
	hold->wanted = 0;
	hold->again = false;
	budget->waits--;
}

/* Moves the holds for which there is room at this gate to the next one, and on from there. */
static void gate_advance(struct budget *budget, struct budget_gate *gate)
{
	struct budget_hold *hold;

	for (unsigned int i = 0; i < BUDGET_MOVES_MAX; i++) {
		hold = TAILQ_FIRST(&gate->waiting);
		if (!hold || !has_room(budget, gate, hold->wanted))
			return;
		TAILQ_REMOVE(&gate->waiting, hold, entry);
		gate->passed += hold->wanted;
		wait_at(budget, hold, hold->stage + 1);
		if (hold->stage == BUDGET_OWN)
			gate_advance(budget, hold->own);
	}
}

/* Advances the gates before the last one, after a change at the gate of @hold's principal. */
static void advance(struct budget *budget, const struct budget_hold *hold)
{
	gate_advance(budget, &budget->late);
	gate_advance(budget, hold->own);
}

/* Whether all waiters at the last gate have their turn, and @bytes more fit. */
static bool all_fit(const struct budget *budget, uint64_t bytes)
{
	return has_room(budget, &budget->all, budget->line + bytes);
}

/*
 * The holds at the last gate that have their turn: the first ones that fit together,
 * BUDGET_MOVES_MAX at most. Returns their number.
 */
static unsigned int next(const struct budget *budget, struct budget_hold *holds[BUDGET_MOVES_MAX])
{
	struct budget_hold *hold;
	unsigned int count = 0;
	uint64_t bytes = 0;

	TAILQ_FOREACH(hold, &budget->all.waiting, entry) {
		bytes += hold->wanted;
		if (count == BUDGET_MOVES_MAX || !has_room(budget, &budget->all, bytes))
			break;
		holds[count++] = hold;
	}
	return count;
}

static bool has_turn(const struct budget *budget, const struct budget_hold *hold)
{
	struct budget_hold *holds[BUDGET_MOVES_MAX];
	unsigned int count;

	if (hold->stage != BUDGET_ALL)
		return false;
	if (all_fit(budget, 0))
		return true;
	count = next(budget, holds);
	while (count && holds[count - 1] != hold)
		count--;
	return count;
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
		wait_at(budget, hold, stage_first(hold));
	}
	advance(budget, hold);
	if (!has_turn(budget, hold))
		return false;
	wait_end(budget, hold);
	budget->all.passed += bytes;
	hold->bytes = bytes;
	return true;
}

static bool do_take_more(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	if (!TAILQ_EMPTY(&hold->own->waiting) || !has_room(budget, hold->own, bytes) ||
	    !all_fit(budget, bytes) ||
	    (hold->bytes && hold->bytes + bytes > budget->share / BUDGET_MORE_PART))
		return false;
	hold->own->passed += bytes;
	budget->all.passed += bytes;
	hold->bytes += bytes;
	return true;
}

/* What the caller wakes after it has released the lock: its own connections, and other workers. */
struct wakes {
	struct client *clients[BUDGET_MOVES_MAX];
	struct worker *workers[BUDGET_MOVES_MAX];
	unsigned int client_count, worker_count;
};

static void wakes_init(struct wakes *wakes, const struct budget *budget,
		       const struct worker *caller)
{
	struct budget_hold *holds[BUDGET_MOVES_MAX];
	unsigned int count = next(budget, holds), i;
	struct worker *worker;

	wakes->client_count = wakes->worker_count = 0;
	for (i = 0; i < count; i++) {
		worker = worker_of(holds[i]);
		if (worker == caller)
			wakes->clients[wakes->client_count++] = holds[i]->client;
		else
			wakes->workers[wakes->worker_count++] = worker;
	}
}

/* Releases the lock, and wakes the holds that have their turn (BUDGET-6). */
static void leave(struct budget *budget, const struct worker *caller)
{
	struct wakes wakes;
	unsigned int i;

	wakes_init(&wakes, budget, caller);
	mem_unlock(&budget->lock);
	for (i = 0; i < wakes.client_count; i++)
		wakes.clients[i]->wake(wakes.clients[i]);
	for (i = 0; i < wakes.worker_count; i++)
		/* A worker whose flag is set already has a wake-up on its way. */
		if (!atomic_exchange_explicit(&wakes.workers[i]->budgets_look, true,
					      memory_order_acq_rel))
			mailbox_wake(&wakes.workers[i]->mailbox);
}

void budget_leave(struct budget *budget, struct budget_hold *hold)
{
	if (!hold->wanted)
		return;
	mem_lock(&budget->lock);
	do_leave(budget, hold);
	leave(budget, worker_of(hold));
}

void budget_set_share(struct budget *budget, uint64_t share)
{
	mem_lock(&budget->lock);
	budget->share = share;
	mem_unlock(&budget->lock);
}

bool budget_take(struct budget *budget, struct budget_hold *hold, uint64_t bytes)
{
	bool taken;

	mem_lock(&budget->lock);
	assert(bytes <= budget->share);
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
	struct wakes wakes;

	mem_lock(&budget->lock);
	wakes_init(&wakes, budget, worker);
	mem_unlock(&budget->lock);
	for (unsigned int i = 0; i < wakes.client_count; i++)
		wakes.clients[i]->wake(wakes.clients[i]);
}

void budget_count(struct budget *budget, uint64_t *bytes, uint64_t *waits)
{
	mem_lock(&budget->lock);
	*bytes += budget->all.passed;
	*waits += budget->waits;
	mem_unlock(&budget->lock);
}

bool budget_take_build(struct client *client, struct budget_hold *hold, struct large *steps)
{
	size_t wants = large_wants(steps);
	uint64_t bytes = wants ? mem_class_bytes(wants) : 0;
	bool waited = hold->wanted;
	bool admitted;

	if (bytes <= hold->bytes)
		return true;
	if (!hold->client)
		*hold = (struct budget_hold){ .client = client, .own = &client->gates->builds };
	admitted = budget_take(&client->part->tenant->build_budget, hold, bytes);
	stat_add(&client->worker->stats.large_waited, !admitted && !waited);
	return admitted;
}

void budget_give_build(struct client *client, struct budget_hold *hold)
{
	struct budget *budget = &client->part->tenant->build_budget;

	budget_leave(budget, hold);
	budget_give(budget, hold, hold->bytes);
}
