/* SPDX-License-Identifier: MIT */
/*
 * The linearizability checker's search for an order of the operations of each key. It is Wing and
 * Gong's (J. M. Wing, C. Gong: "Testing and verifying concurrent objects", Journal of Parallel and
 * Distributed Computing 17, 1993) in the form of Lowe's just-in-time linearization graph search
 * (G. Lowe: "Testing for linearizability", Concurrency and Computation: Practice and Experience
 * 29(4), 2017).
 *
 * The search takes calls and returns in the order of time. A configuration is one possible outcome
 * of the history so far: the item's state, and the set of pending operations that have already
 * taken effect. It is enough to let operations take effect just in time, when one returns: then
 * each configuration in which that operation has not taken effect is replaced by those that result
 * from each sequence of pending operations which ends with it. When none is left, that return is
 * the first one that no order explains.
 *
 * The search keeps all configurations instead of backtracking over Wing and Gong's list of events,
 * of which only the pending operations are needed then. So memory does not depend on the history's
 * length. While nothing is pending, the configurations are just the set of possible states.
 * Operations with an unknown result stay pending until they have taken effect in every
 * configuration.
 *
 * Three rules keep the number of configurations small. Each drops only configurations that can't
 * explain more than those that stay:
 *
 *   SEARCH-1. Lowe's memory of (operations, state): no configuration is kept twice. Also, of two
 *	 that differ only in operations with unknown results, the one in which fewer have taken
 *	 effect covers the other, since such operations need not take effect; and a version that is
 *	 known less exactly covers one that is known better.
 *   SEARCH-2. An operation whose result says that it changed nothing takes effect as soon as the
 *	 state allows it: moving it there from any later place does not affect the others.
 *   SEARCH-3. Versions grow until the item is removed. A configuration is dropped if its version is
 *	 above the highest one that the result of a pending operation allows, and nothing that
 *	 overlaps that operation can remove the item. This uses a result that is recorded for a
 *	 later time, so the search may fail before the first return that no order explains. A wrong
 *	 key is therefore searched again without SEARCH-3, to report the right place.
 */
#include "tests/linearizability/lin_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGS_MIN 64
#define NONE UINT32_MAX

/* One key's history */

struct config {
	struct lin_state state;
	/* The pending operations that have taken effect: with known results, and with unknown. */
	uint64_t known, unknown;
	uint32_t next; /* in its chain of the hash table */
	bool covered;
};

/* Pending operations; each has a slot, and sets of them are bits by slot. */
struct pending_ops {
	const struct lin_op *ops[LIN_PENDING_MAX];
	uint64_t version_max[LIN_PENDING_MAX];	/* SEARCH-3; UINT64_MAX: no limit */
	uint64_t pending;			/* slots in use */
	uint64_t readers, life_enders, limited; /* subsets for SEARCH-2 and SEARCH-3 */
};

struct configs {
	struct config *list;
	uint32_t count, room;
};

struct search {
	const struct lin_options *options;
	bool without_lookahead; /* search without SEARCH-3 */
	struct pending_ops known, unknown;
	struct configs now, next;
	/* Hash table of @next: heads of chains; the size is a power of two. */
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

/* SEARCH-1: whether @a can explain everything that @b can. */
static bool config_covers(const struct config *a, const struct config *b)
{
	const struct lin_state *s = &a->state, *t = &b->state;

	return a->known == b->known && !(a->unknown & ~b->unknown) &&
	       lin_same(&s->value, &t->value) && s->present == t->present && s->exact == t->exact &&
	       s->mortal == t->mortal && s->doubtful == t->doubtful &&
	       s->not_version == t->not_version &&
	       (s->exact ? s->version == t->version : s->version <= t->version);
}

/* SEARCH-2: applies the pending operations that changed nothing, where the state allows it. */
static void config_apply_readers(const struct search *s, struct config *c)
{
	uint64_t left = s->known.readers & ~c->known;
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

/* SEARCH-3: whether the version is too high for the result of a pending operation. */
static bool config_is_hopeless(const struct search *s, const struct config *c)
{
	uint64_t left = s->known.limited & ~c->known;

	if (!left || !c->state.present || can_vanish(s, &c->state) ||
	    (s->known.life_enders & ~c->known) || (s->unknown.life_enders & ~c->unknown))
		return false;
	for (; left; left &= left - 1)
		if (c->state.version > s->known.version_max[__builtin_ctzll(left)])
			return true;
	return false;
}

/* Makes room for one more. -ENOMEM, or -EOVERFLOW if there are @max. */
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

/* Makes as many chains as there is room for configurations. */
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
		s->gave_up = "too many configurations at the same time";
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

/*
 * Adds the configuration that @op makes from @from with the item in @state, if @op can have its
 * result there. @known and @unknown are the bit of @op.
 */
static int try_op(struct search *s, const struct config *from, const struct lin_state *state,
		  const struct lin_op *op, uint64_t known, uint64_t unknown)
{
	struct config c = { .state = *state };

	if (++s->steps > s->options->steps_max) {
		s->gave_up = "too many steps";
		return -EOVERFLOW;
	}
	if (!lin_state_apply(&c.state, op))
		return 0;
	c.known = from->known | known;
	c.unknown = from->unknown | unknown;
	config_apply_readers(s, &c);
	return config_is_hopeless(s, &c) ? 0 : next_add(s, &c);
}

/* Tries each operation of @set that has not taken effect in @from, which those in @done have. */
static int try_pending(struct search *s, const struct config *from, const struct pending_ops *set,
		       uint64_t done)
{
	bool is_known = set == &s->known;
	struct lin_state gone = from->state;
	uint64_t left = set->pending & ~done, bit;
	const struct lin_op *op;
	int ret = 0;

	lin_state_vanish(&gone);
	for (; left && !ret; left &= left - 1) {
		bit = left & -left;
		op = set->ops[__builtin_ctzll(left)];
		ret = try_op(s, from, &from->state, op, is_known ? bit : 0, is_known ? 0 : bit);
		if (!ret && can_vanish(s, &from->state))
			ret = try_op(s, from, &gone, op, is_known ? bit : 0, is_known ? 0 : bit);
	}
	return ret;
}

/* Frees the slots of operations with unknown results that took effect in every configuration. */
static void unknown_forget(struct search *s)
{
	uint64_t everywhere = s->unknown.pending;
	uint32_t i;

	for (i = 0; i < s->now.count; i++)
		everywhere &= s->now.list[i].unknown;
	if (!everywhere)
		return;
	for (i = 0; i < s->now.count; i++)
		s->now.list[i].unknown &= ~everywhere;
	s->unknown.pending &= ~everywhere;
	s->unknown.life_enders &= ~everywhere;
}

/* Makes those of @next in which operation @bit has taken effect the new @now. */
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
 * Extends the configurations until operation @bit has taken effect in all. Returns 1; 0 if none is
 * left; or a negative errno.
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
		ret = try_pending(s, &c, &s->known, c.known);
		if (!ret)
			ret = try_pending(s, &c, &s->unknown, c.unknown);
	}
	if (ret)
		return ret;
	for (i = 0; i < s->next.count; i++)
		if (!s->next.list[i].covered && (s->next.list[i].known & bit))
			break;
	if (i == s->next.count)
		return 0; /* @now is unchanged, for the result */
	next_take(s, bit);
	return 1;
}

/* Handles the return of @op. Returns as search_until(). */
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
		unknown_forget(s);
	}
	for (i = 0; i < s->now.count; i++)
		s->now.list[i].known &= ~bit;
	s->known.pending &= ~bit;
	s->known.readers &= ~bit;
	s->known.life_enders &= ~bit;
	s->known.limited &= ~bit;
	return 1;
}

/*
 * Handles the call of @op. @life_end_ns: when the next operation that may remove the item is
 * called. Returns as search_until().
 */
static int search_call(struct search *s, const struct lin_op *op, uint64_t life_end_ns)
{
	struct pending_ops *set = op->status == LIN_UNKNOWN ? &s->unknown : &s->known;
	unsigned int slot;
	uint64_t bit;
	uint32_t i;

	if (!~set->pending) {
		s->gave_up = "too many operations pending on one key";
		return -EOVERFLOW;
	}
	slot = (unsigned int)__builtin_ctzll(~set->pending);
	bit = UINT64_C(1) << slot;
	set->ops[slot] = op;
	set->pending |= bit;
	set->version_max[slot] = lin_op_version_max(op);
	if (lin_op_only_reads(op))
		set->readers |= bit;
	if (lin_op_may_end_life(op))
		set->life_enders |= bit;
	if (set == &s->known && set->version_max[slot] != UINT64_MAX &&
	    life_end_ns > op->return_ns && !s->without_lookahead)
		set->limited |= bit;
	if (lin_op_only_reads(op))
		for (i = 0; i < s->now.count; i++)
			config_apply_readers(s, &s->now.list[i]);
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
 * Records that the search failed at @op with @ret of search_call() or search_return(). An undecided
 * key does not replace an earlier one.
 */
static int result_fail(struct lin_result *result, const struct search *s, const struct lin_op *op,
		       uint64_t returned, int ret)
{
	if (ret < 0 && ret != -EOVERFLOW)
		return ret;
	if (result->verdict != LIN_RIGHT && ret < 0)
		return 0;
	lin_result_set(result, ret < 0 ? LIN_UNDECIDED : LIN_WRONG,
		       ret < 0 ? s->gave_up : "no order of the operations explains this response",
		       op, NULL);
	result->returned_before = returned;
	result_set_states(result, s);
	return 0;
}

/* Whether each configuration has a version that may have been ruled out before. */
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

	s->known = (struct pending_ops){ .pending = 0 };
	s->unknown = (struct pending_ops){ .pending = 0 };
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

/* Searches one key's events, at least one. Returns 0 and sets @result, or a negative errno. */
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
			       "too many versions were ruled out to keep them all", op, NULL);
		result->op = NULL;
		result->returned_before = returned;
		result_set_states(result, s);
	}
	return 0;
}

/* As search_events(); for a wrong key @result has the first return that no order explains. */
static int search_key(struct search *s, const struct lin_event *events, size_t count,
		      const struct lin_op *const *ops, struct lin_result *result)
{
	struct lin_result exact = *result;
	int ret;

	s->without_lookahead = false;
	ret = search_events(s, events, count, ops, result);
	result->steps += s->steps;
	if (ret || result->verdict != LIN_WRONG)
		return ret;
	exact.verdict = LIN_RIGHT;
	exact.steps = result->steps;
	s->without_lookahead = true;
	ret = search_events(s, events, count, ops, &exact);
	exact.steps += s->steps;
	/* Without SEARCH-3 the search may exceed a limit; the verdict is valid all the same. */
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
