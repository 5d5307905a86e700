/* SPDX-License-Identifier: MIT */
/*
 * The search is Wing and Gong's (J. M. Wing, C. Gong: "Testing and verifying concurrent objects",
 * Journal of Parallel and Distributed Computing 17, 1993) in the form of Lowe's just-in-time
 * linearization graph search (G. Lowe: "Testing for linearizability", Concurrency and Computation:
 * Practice and Experience 29(4), 2017).
 *
 * Calls and returns are taken in the order of time. A configuration is what the history so far may
 * have come to: the item's state, and which of the pending operations have already taken effect. It
 * is enough to let operations take effect just in time, when one returns: then every configuration
 * in which that one has not is extended by each sequence of pending operations that ends with it,
 * and the others go. When none is left, that return is the first that can't be explained, and all
 * before it could.
 *
 * All configurations are carried along instead of backtracking over Wing and Gong's list of events:
 * the pending operations (the "window") are all that is left of that list. Memory so does not
 * depend on the history's length. At a quiescent point, where nothing is pending, the
 * configurations are nothing but the set of possible states, so the history is cut there by itself;
 * operations with an unknown outcome stay in the window until they are in every configuration.
 *
 * Three things keep the configurations few. Each leaves out only what can't explain more than what
 * is kept:
 *
 * L1. Lowe's memory of (operations, state): no configuration is kept twice. Further, of two that
 *     differ in operations with unknown outcomes only, the one in which fewer have taken effect
 *     covers the other, as these never have to; and a version that is less known covers one that is
 *     known better.
 * L2. An operation that by its answer changed nothing takes effect as soon as the state allows it:
 *     moved there from any later place, it leaves all others as they were.
 * L3. Versions only grow in one life. A configuration whose version is above what a pending
 *     operation's answer allows is dropped if nothing that overlaps that operation can end the
 *     item's life. This looks ahead, at an answer that has not come yet, so it may end the search
 *     before the first return that can't be explained. A key that is wrong is searched once more
 *     without it, to tell the place.
 */
#include "tests/linearizability/lin_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGS_MIN 64
#define NONE UINT32_MAX

/* One key's history */

struct config {
	struct lin_state state;
	/* Which of the window have taken effect: of those with known outcomes, of those without. */
	uint64_t known, maybe;
	uint32_t next; /* in its chain of the table */
	bool covered;
};

struct window {
	const struct lin_op *ops[LIN_PENDING_MAX];
	uint64_t version_max[LIN_PENDING_MAX];	/* L3; UINT64_MAX: no limit */
	uint64_t pending;			/* the ops' bits */
	uint64_t lookers, life_enders, limited; /* those of them for which it matters */
};

struct configs {
	struct config *list;
	uint32_t count, room;
};

struct search {
	const struct lin_options *options;
	bool exact_place; /* without L3 */
	struct window known, maybe;
	struct configs now, next;
	/* Heads of the chains of @next, by hash; a power of two of them. */
	uint32_t *table;
	uint32_t table_size;
	uint32_t peak;
	uint64_t steps;
	const char *gave_up;
};

static bool can_vanish(const struct search *s, const struct lin_state *state)
{
	return state->present && (s->options->vanish || state->mortal);
}

static uint64_t config_hash(const struct config *c)
{
	uint64_t h = c->state.value.hash ^ (c->state.exact ? c->state.version << 7 : 0);

	h = (h ^ c->known) * UINT64_C(0x9e3779b97f4a7c15);
	h ^= h >> 32;
	h = (h ^ c->state.value.len ^ (uint64_t)c->state.mortal << 40) *
	    UINT64_C(0xbf58476d1ce4e5b9);
	return h ^ h >> 29;
}

/* L1: whether whatever @b can explain, @a can. */
static bool config_covers(const struct config *a, const struct config *b)
{
	const struct lin_state *s = &a->state, *t = &b->state;

	return a->known == b->known && !(a->maybe & ~b->maybe) && lin_same(&s->value, &t->value) &&
	       s->present == t->present && s->exact == t->exact && s->mortal == t->mortal &&
	       s->doubtful == t->doubtful && s->not_version == t->not_version &&
	       (s->exact ? s->version == t->version : s->version <= t->version);
}

/* L2. */
static void config_settle(const struct search *s, struct config *c)
{
	uint64_t left = s->known.lookers & ~c->known;
	struct lin_state state;
	unsigned int slot;

	for (; left; left &= left - 1) {
		slot = (unsigned int)__builtin_ctzll(left);
		state = c->state;
		if (lin_state_apply(&state, s->known.ops[slot]) && state.exact == c->state.exact &&
		    state.version == c->state.version &&
		    state.not_version == c->state.not_version &&
		    state.doubtful == c->state.doubtful)
			c->known |= UINT64_C(1) << slot;
	}
}

/* L3. */
static bool config_is_hopeless(const struct search *s, const struct config *c)
{
	uint64_t left = s->known.limited & ~c->known;

	if (!left || !c->state.present || can_vanish(s, &c->state) ||
	    (s->known.life_enders & ~c->known) || (s->maybe.life_enders & ~c->maybe))
		return false;
	for (; left; left &= left - 1)
		if (c->state.version > s->known.version_max[__builtin_ctzll(left)])
			return true;
	return false;
}

/* -ENOMEM, or -EOVERFLOW at the maximum. */
static int configs_reserve(struct configs *configs, uint32_t max)
{
	uint32_t room = configs->room ? configs->room * 2 : CONFIGS_MIN;
	struct config *list;

	if (configs->count < configs->room)
		return configs->count < max ? 0 : -EOVERFLOW;
	if (configs->count >= max)
		return -EOVERFLOW;
	list = reallocarray(configs->list, room, sizeof(*list));
	if (!list)
		return -ENOMEM;
	configs->list = list;
	configs->room = room;
	return 0;
}

static void table_clear(struct search *s, uint32_t size)
{
	s->table_size = size;
	memset(s->table, 0xff, size * sizeof(*s->table));
}

static void table_link(struct search *s, uint32_t index)
{
	struct config *c = &s->next.list[index];
	uint32_t *head = &s->table[config_hash(c) & (s->table_size - 1)];

	c->next = *head;
	*head = index;
}

/* As many chains as there is room for configurations. */
static int table_grow(struct search *s)
{
	uint32_t *table, i;

	table = reallocarray(s->table, s->next.room, sizeof(*table));
	if (!table)
		return -ENOMEM;
	s->table = table;
	table_clear(s, s->next.room);
	for (i = 0; i < s->next.count; i++)
		table_link(s, i);
	return 0;
}

/* Adds a copy of @c to the next configurations unless one of them covers it. */
static int next_add(struct search *s, const struct config *c)
{
	struct config *other;
	uint32_t i;
	int ret;

	for (i = s->table[config_hash(c) & (s->table_size - 1)]; i != NONE; i = other->next) {
		other = &s->next.list[i];
		if (!other->covered && config_covers(other, c))
			return 0;
		if (!other->covered && config_covers(c, other))
			other->covered = true;
	}
	ret = configs_reserve(&s->next, s->options->configs_max);
	if (ret == -EOVERFLOW)
		s->gave_up = "too many configurations at a time";
	if (ret)
		return ret;
	s->next.list[s->next.count] = *c;
	s->next.list[s->next.count].covered = false;
	s->next.count++;
	if (s->next.count > s->peak)
		s->peak = s->next.count;
	if (s->next.count > s->table_size)
		return table_grow(s);
	table_link(s, s->next.count - 1);
	return 0;
}

/* @from, then @op, whose bits are @known and @maybe, if that can be. */
static int try_op(struct search *s, const struct config *from, const struct lin_state *state,
		  const struct lin_op *op, uint64_t known, uint64_t maybe)
{
	struct config c = { .state = *state };

	if (++s->steps > s->options->steps_max) {
		s->gave_up = "too many steps";
		return -EOVERFLOW;
	}
	if (!lin_state_apply(&c.state, op))
		return 0;
	c.known = from->known | known;
	c.maybe = from->maybe | maybe;
	config_settle(s, &c);
	return config_is_hopeless(s, &c) ? 0 : next_add(s, &c);
}

/* Each operation of @window that is not in @done takes effect after @from. */
static int try_window(struct search *s, const struct config *from, const struct window *window,
		      uint64_t done)
{
	bool is_known = window == &s->known;
	struct lin_state gone = from->state;
	uint64_t left = window->pending & ~done, bit;
	const struct lin_op *op;
	int ret = 0;

	lin_state_vanish(&gone);
	for (; left && !ret; left &= left - 1) {
		bit = left & -left;
		op = window->ops[__builtin_ctzll(left)];
		ret = try_op(s, from, &from->state, op, is_known ? bit : 0, is_known ? 0 : bit);
		if (!ret && can_vanish(s, &from->state))
			ret = try_op(s, from, &gone, op, is_known ? bit : 0, is_known ? 0 : bit);
	}
	return ret;
}

/* Frees the slots of unknown outcomes that are in every configuration. */
static void maybe_forget(struct search *s)
{
	uint64_t everywhere = s->maybe.pending;
	uint32_t i;

	for (i = 0; i < s->now.count; i++)
		everywhere &= s->now.list[i].maybe;
	if (!everywhere)
		return;
	for (i = 0; i < s->now.count; i++)
		s->now.list[i].maybe &= ~everywhere;
	s->maybe.pending &= ~everywhere;
	s->maybe.life_enders &= ~everywhere;
}

/* What is left of @next when the operation @bit has returned becomes @now. */
static void next_take(struct search *s, uint64_t bit)
{
	uint32_t i, kept = 0;
	struct configs swap;

	for (i = 0; i < s->next.count; i++)
		if (!s->next.list[i].covered && (s->next.list[i].known & bit))
			s->next.list[kept++] = s->next.list[i];
	s->next.count = kept;
	swap = s->now;
	s->now = s->next;
	s->next = swap;
}

/*
 * Until @bit has taken effect in all configurations. 1, 0 if there is none left, or a negative
 * errno.
 */
static int search_until(struct search *s, uint64_t bit)
{
	struct config c;
	uint32_t i;
	int ret = 0;

	s->next.count = 0;
	table_clear(s, CONFIGS_MIN);
	for (i = 0; i < s->now.count && !ret; i++)
		ret = next_add(s, &s->now.list[i]);
	for (i = 0; i < s->next.count && !ret; i++) {
		c = s->next.list[i]; /* by value: the list may move */
		if (c.covered || (c.known & bit))
			continue;
		ret = try_window(s, &c, &s->known, c.known);
		if (!ret)
			ret = try_window(s, &c, &s->maybe, c.maybe);
	}
	if (ret)
		return ret;
	for (i = 0; i < s->next.count; i++)
		if (!s->next.list[i].covered && (s->next.list[i].known & bit))
			break;
	if (i == s->next.count)
		return 0; /* and @now is as it was, to be shown */
	next_take(s, bit);
	return 1;
}

/* As search_until(). */
static int search_return(struct search *s, const struct lin_op *op)
{
	uint64_t left = s->known.pending, bit;
	uint32_t i;
	int ret;

	while (s->known.ops[__builtin_ctzll(left)] != op)
		left &= left - 1;
	bit = left & -left;
	for (i = 0; i < s->now.count && (s->now.list[i].known & bit); i++)
		;
	if (i < s->now.count) {
		ret = search_until(s, bit);
		if (ret <= 0)
			return ret;
		maybe_forget(s);
	}
	for (i = 0; i < s->now.count; i++)
		s->now.list[i].known &= ~bit;
	s->known.pending &= ~bit;
	s->known.lookers &= ~bit;
	s->known.life_enders &= ~bit;
	s->known.limited &= ~bit;
	return 1;
}

/* @life_end_ns: when the next operation that may end the item's life is called, after this one. */
static int search_call(struct search *s, const struct lin_op *op, uint64_t life_end_ns)
{
	struct window *w = op->status == LIN_UNKNOWN ? &s->maybe : &s->known;
	unsigned int slot;
	uint64_t bit;
	uint32_t i;

	if (!~w->pending) {
		s->gave_up = "too many operations pending on one key";
		return -EOVERFLOW;
	}
	slot = (unsigned int)__builtin_ctzll(~w->pending);
	bit = UINT64_C(1) << slot;
	w->ops[slot] = op;
	w->pending |= bit;
	w->version_max[slot] = lin_op_version_max(op);
	if (lin_op_looks(op))
		w->lookers |= bit;
	if (lin_op_may_end_life(op))
		w->life_enders |= bit;
	if (w == &s->known && w->version_max[slot] != UINT64_MAX && life_end_ns > op->return_ns &&
	    !s->exact_place)
		w->limited |= bit;
	if (lin_op_looks(op))
		for (i = 0; i < s->now.count; i++)
			config_settle(s, &s->now.list[i]);
	return 1;
}

static void result_set_states(struct lin_result *result, const struct search *s)
{
	uint32_t i;

	result->states_count = s->now.count;
	result->states_kept = 0;
	for (i = 0; i < s->now.count && result->states_kept < LIN_STATES_MAX; i++)
		result->states[result->states_kept++] = s->now.list[i].state;
}

/*
 * What went wrong at @op, with @ret of search_call() or search_return(). The first wrong key stays.
 */
static int result_fail(struct lin_result *result, const struct search *s, const struct lin_op *op,
		       uint64_t returned, int ret)
{
	if (ret < 0 && ret != -EOVERFLOW)
		return ret;
	if (result->verdict != LIN_RIGHT && ret < 0)
		return 0;
	lin_result_set(result, ret < 0 ? LIN_UNDECIDED : LIN_WRONG,
		       ret < 0 ? s->gave_up : "no order of the operations explains this answer", op,
		       NULL);
	result->returned_before = returned;
	result_set_states(result, s);
	return 0;
}

/* Whether only such configurations are left as rest on a version that may have been ruled out. */
static bool search_is_doubtful(const struct search *s)
{
	uint32_t i;

	for (i = 0; i < s->now.count; i++)
		if (!s->now.list[i].state.exact || !s->now.list[i].state.doubtful)
			return false;
	return true;
}

static int search_start(struct search *s)
{
	int ret;

	s->known = (struct window){ .pending = 0 };
	s->maybe = (struct window){ .pending = 0 };
	s->steps = 0;
	s->now.count = s->next.count = 0;
	ret = configs_reserve(&s->now, 1);
	if (!ret)
		ret = configs_reserve(&s->next, 1);
	if (!ret)
		ret = table_grow(s);
	if (ret)
		return ret;
	s->now.list[0] = (struct config){ .state = { .exact = true } };
	s->now.count = 1;
	return 0;
}

/* One key's events, one at least. 0, with what is wrong in @result, or a negative errno. */
static int search_events(struct search *s, const struct lin_event *events, size_t count,
			 const struct lin_op *const *ops, struct lin_result *result)
{
	uint64_t returned = 0, life_end_ns;
	const struct lin_op *op = ops[events[0].op];
	size_t i, end = 0;
	int ret;

	ret = search_start(s);
	if (ret)
		return ret;
	for (i = 0; i < count; i++) {
		op = ops[events[i].op];
		if (end <= i)
			end = i + 1;
		while (end < count &&
		       (events[end].is_return || !lin_op_may_end_life(ops[events[end].op])))
			end++;
		life_end_ns = end < count ? events[end].time_ns : UINT64_MAX;
		ret = events[i].is_return ? search_return(s, op) : search_call(s, op, life_end_ns);
		if (ret <= 0)
			return result_fail(result, s, op, returned, ret);
		returned += events[i].is_return;
	}
	if (search_is_doubtful(s) && result->verdict == LIN_RIGHT) {
		lin_result_set(result, LIN_UNDECIDED,
			       "what a version is not was too much to remember", op, NULL);
		result->op = NULL;
		result->returned_before = returned;
		result_set_states(result, s);
	}
	return 0;
}

/* As search_events(), and a key that is wrong is so at the first return that can't be explained. */
static int search_key(struct search *s, const struct lin_event *events, size_t count,
		      const struct lin_op *const *ops, struct lin_result *result)
{
	struct lin_result exact = *result;
	int ret;

	s->exact_place = false;
	ret = search_events(s, events, count, ops, result);
	result->steps += s->steps;
	if (ret || result->verdict != LIN_WRONG)
		return ret;
	exact.verdict = LIN_RIGHT;
	exact.steps = result->steps;
	s->exact_place = true;
	ret = search_events(s, events, count, ops, &exact);
	exact.steps += s->steps;
	/* It may be too much to search without L3; the verdict stands all the same. */
	if (!ret && exact.verdict == LIN_WRONG)
		*result = exact;
	return ret;
}

/* All keys */

int lin_check(const struct lin_log *logs, size_t count, const struct lin_options *options,
	      struct lin_result *result)
{
	struct lin_options opts = options ? *options : (struct lin_options){ .vanish = false };
	struct search s = { .options = &opts };
	struct lin_history h;
	size_t i, end;
	int ret;

	opts.configs_max = opts.configs_max ? opts.configs_max : LIN_CONFIGS_MAX;
	opts.steps_max = opts.steps_max ? opts.steps_max : LIN_STEPS_MAX;
	lin_result_init(result, logs, count);
	ret = lin_history_init(&h, logs, count);
	for (i = 0; i < h.events_count && !ret && result->verdict != LIN_WRONG; i = end) {
		for (end = i; end < h.events_count && h.events[end].key == h.events[i].key; end++)
			;
		ret = search_key(&s, h.events + i, end - i, h.ops, result);
		result->keys++;
	}
	result->configs_peak = s.peak;
	free(s.now.list);
	free(s.next.list);
	free(s.table);
	lin_history_release(&h);
	return ret;
}
