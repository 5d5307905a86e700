/* SPDX-License-Identifier: MIT */
/* Moves shards of a member to others, one move at a time: which, and how far it is. */
#include "server/fleet/moves.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "server/fleet/membership_state.h"

/* After n moves in a row that failed: 2^n leases, up to this. */
#define BACKOFF_MAX(lease_ns) (32 * (lease_ns))

#define NAME(id) (int)strnlen(id, FLEET_NAME_MAX), id

bool move_has(const struct membership *m, uint32_t shard)
{
	return m->move.state >= MOVE_COPY && shard_set_has(&m->move.shards, shard);
}

/* The shards that were closed are opened again; nothing else has to be undone. */
static void end(struct membership *m)
{
	m->move.state = MOVE_NONE;
	m->move.copied = false;
	m->move.choose_ns = 0;
	m->may_open = true;
}

void move_end(struct membership *m, const char *why)
{
	struct move *move = &m->move;

	if (move->state == MOVE_NONE)
		return;
	move->failed++;
	snprintf(move->why, sizeof(move->why), "%s", why);
	end(m);
}

void move_forget(struct membership *m)
{
	memset(m->move.skip, 0, sizeof(m->move.skip));
	m->move.skip_ns = UINT64_MAX;
	m->move.backoff_ns = 0;
	m->move.choose_ns = 0;
}

/* The move has failed, perhaps by the target's fault. */
static void fail(struct membership *m, const char *why)
{
	const uint64_t lease_ns = m->options.lease_ns;
	const uint32_t target = fleet_map_find(m->map, m->move.target);
	struct move *move = &m->move;

	log_notice("fleet: the move of shards to %.*s has failed: %s", NAME(move->target), why);
	move_end(m, why);
	move->backoff_ns = !move->backoff_ns ? lease_ns : 2 * move->backoff_ns;
	if (move->backoff_ns > BACKOFF_MAX(lease_ns))
		move->backoff_ns = BACKOFF_MAX(lease_ns);
	if (target < m->map->head->members)
		move->skip[target] = true;
	move->skip_ns = m->now_ns + move->backoff_ns;
}

void move_not_given(struct membership *m, const char *why)
{
	if (m->move.state == MOVE_GIVE)
		fail(m, why);
}

bool move_choose(struct membership *m)
{
	const uint32_t target = fleet_map_find(m->map, m->move.target);
	bool skip[FLEET_MEMBERS_MAX];
	uint32_t chosen, count = 0;

	memset(skip, true, sizeof(skip));
	if (target < m->map->head->members) {
		skip[target] = false;
		count = moves_choose(m->map, m->number, &m->shards.served, skip, &chosen,
				     &m->move.shards);
	}
	if (!count)
		end(m);
	return count;
}

static void begin(struct membership *m, uint32_t target)
{
	const struct fleet_member *member = m->map->members[target];
	struct move *move = &m->move;

	move->id++;
	move->state = MOVE_ASK;
	memcpy(move->target, member->id, sizeof(move->target));
	memcpy(move->urls, member->urls, member->urls_len);
	move->urls[member->urls_len] = '\0';
}

/* Only what is served, and whose word lasts, can be moved; and one thing at a time. */
static bool may_begin(const struct membership *m)
{
	return m->own && !m->stops && !m->holds_word && m->end_ns > m->now_ns && m->move.left &&
	       shard_set_empty(&m->shards.frozen);
}

static void choose(struct membership *m)
{
	struct move *move = &m->move;
	uint32_t target;

	if (!may_begin(m) || m->now_ns < move->choose_ns)
		return;
	if (m->now_ns >= move->skip_ns) {
		memset(move->skip, 0, sizeof(move->skip));
		move->skip_ns = UINT64_MAX;
	}
	if (moves_choose(m->map, m->number, &m->shards.served, move->skip, &target, &move->shards))
		begin(m, target);
	else
		move->choose_ns = move->skip_ns;
}

void move_step(struct membership *m, uint64_t now_ns)
{
	struct move *move = &m->move;

	switch (move->state) {
	case MOVE_NONE:
		choose(m);
		break;
	case MOVE_ASK:
	case MOVE_CLOSE:
		break;
	case MOVE_COPY:
		if (!move->copied || now_ns <= move->last_end_ns)
			break;
		shards_freeze(&m->shards, &move->shards);
		move->frozen_ns = now_ns;
		move->state = MOVE_FROZEN;
		break;
	case MOVE_FROZEN:
		if (now_ns - move->frozen_ns > m->options.lease_ns)
			fail(m, "the last changes were not copied within a lease");
		break;
	case MOVE_GIVE:
		if (now_ns - move->frozen_ns > m->options.lease_ns)
			fail(m, "etcd does not answer");
		break;
	}
}

uint64_t move_next_ns(const struct membership *m)
{
	const struct move *move = &m->move;

	switch (move->state) {
	case MOVE_NONE:
		return may_begin(m) ? move->choose_ns : UINT64_MAX;
	case MOVE_COPY:
		return move->copied ? move->last_end_ns + 1 : UINT64_MAX;
	case MOVE_FROZEN:
	case MOVE_GIVE:
		return move->frozen_ns + m->options.lease_ns + 1;
	case MOVE_ASK:
	case MOVE_CLOSE:
		break;
	}
	return UINT64_MAX;
}

/* MEMBERSHIP-7. Whether the newest map shows that the shards, or some, were closed. */
static bool closed_take(struct membership *m)
{
	struct move *move = &m->move;
	struct shard_set closed = { 0 };

	move->epoch = 0;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		const uint64_t row = m->map->rows[i];

		if (!shard_set_has(&move->shards, i) || !shard_set_has(&m->shards.served, i) ||
		    row & FLEET_OPEN || (move->epoch && move->epoch != fleet_row_since(row)))
			continue;
		move->epoch = fleet_row_since(row);
		shard_set_add(&closed, i);
	}
	if (!move->epoch)
		return false;
	move->shards = closed;
	move->last_end_ns = m->last_end_ns;
	move->copied = false;
	move->state = MOVE_COPY;
	return true;
}

/* MEMBERSHIP-7. All words from now on have the new epoch; so may the last one. */
static void word_renew(struct membership *m)
{
	m->word_is_new |= !m->stops && !m->holds_word && m->end_ns > m->now_ns &&
			  !shards_open_unserved(&m->shards, m->map, m->number);
}

/* Whether all shards of the move are the member's still, and closed by it. */
static bool is_whole(const struct membership *m)
{
	const struct move *move = &m->move;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(&move->shards, i) &&
		    (!shard_set_has(&m->shards.served, i) ||
		     m->map->rows[i] != fleet_row(m->number, false, move->epoch)))
			return false;
	return true;
}

/* Whether some shard of the move should go to the target still. */
static bool is_wanted(const struct membership *m)
{
	const uint32_t target = fleet_map_find(m->map, m->move.target);
	uint16_t owners[FLEET_SHARDS];

	moves_targets(m->map, owners);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(&m->move.shards, i) && owners[i] == target)
			return true;
	return false;
}

static void given(struct membership *m, uint32_t count)
{
	struct move *move = &m->move;

	/* By a move of the process before: it has no name. */
	if (*move->target)
		log_notice("fleet: %" PRIu32 " shards were given to %.*s", count,
			   NAME(move->target));
	move->moved += count;
	move->backoff_ns = 0;
	move->why[0] = 0;
	end(m);
}

void move_follow(struct membership *m, uint32_t moved)
{
	struct move *move = &m->move;

	move->left = m->number == FLEET_NO_OWNER ? 0 : moves_left(m->map, m->number);
	move->choose_ns = 0;
	if (moved)
		given(m, moved);
	else if (move->state == MOVE_CLOSE && closed_take(m))
		word_renew(m);
	else if (move->state >= MOVE_COPY && !is_whole(m))
		fail(m, "its shards were changed");
	else if (move->state != MOVE_NONE && move->state < MOVE_FROZEN && !is_wanted(m))
		end(m);
	/* What etcd may have been asked for by an earlier map can't happen any more. */
	if (move->state < MOVE_FROZEN)
		shards_thaw(&m->shards);
}

void membership_move(const struct membership *m, struct membership_move *out)
{
	const struct move *move = &m->move;

	*out = (struct membership_move){ .state = move->state, .id = move->id };
	if (move->state == MOVE_NONE)
		return;
	memcpy(out->target, move->target, sizeof(out->target));
	out->urls = move->urls;
	out->shards = &move->shards;
	if (move->state < MOVE_COPY)
		return;
	out->generation = m->map->head->generation;
	out->epoch = move->epoch;
}

static bool is_now(const struct membership *m, uint64_t id, enum move_state state)
{
	return m->move.state == state && m->move.id == id;
}

void membership_asked(struct membership *m, uint64_t id)
{
	if (is_now(m, id, MOVE_ASK))
		m->move.state = MOVE_CLOSE;
}

void membership_copied(struct membership *m, uint64_t id)
{
	if (is_now(m, id, MOVE_COPY))
		m->move.copied = true;
}

void membership_confirmed(struct membership *m, uint64_t id, int64_t own)
{
	if (!is_now(m, id, MOVE_FROZEN))
		return;
	if (own <= 0) {
		fail(m, "it is not registered");
		return;
	}
	m->move.target_own = own;
	m->move.state = MOVE_GIVE;
	m->retry_ns = m->now_ns;
}

void membership_move_failed(struct membership *m, uint64_t id, const char *why)
{
	/* What was confirmed stays so. */
	if (m->move.state != MOVE_NONE && m->move.state != MOVE_GIVE && m->move.id == id)
		fail(m, why);
}

/* What the move waits for. */
static void waits(const struct membership *m, char *text)
{
	const struct move *move = &m->move;

	switch (move->state) {
	case MOVE_NONE:
		if (move->left && move->why[0])
			snprintf(text, MEMBERSHIP_WAITS_MAX, "the last move failed: %.120s",
				 move->why);
		break;
	case MOVE_ASK:
		snprintf(text, MEMBERSHIP_WAITS_MAX, "%.*s is asked to take shards",
			 NAME(move->target));
		break;
	case MOVE_COPY:
		if (move->copied)
			strcpy(text, "READs of shards that move still count");
		break;
	case MOVE_FROZEN:
	case MOVE_GIVE:
		snprintf(text, MEMBERSHIP_WAITS_MAX, "%.*s gets shards", NAME(move->target));
		break;
	case MOVE_CLOSE:
		break;
	}
}

void move_status(const struct membership *m, struct membership_status *status)
{
	static const char *const states[] = {
		[MOVE_NONE] = "idle",	[MOVE_ASK] = "asks",	  [MOVE_CLOSE] = "closes",
		[MOVE_COPY] = "copies", [MOVE_FROZEN] = "frozen", [MOVE_GIVE] = "gives",
	};
	const struct move *move = &m->move;

	status->moves_left = move->left;
	status->moved = move->moved;
	status->moves_failed = move->failed;
	status->move_state = states[move->state];
	if (move->state != MOVE_NONE)
		memcpy(status->move_to, move->target, sizeof(status->move_to));
	memcpy(status->move_why, move->why, sizeof(status->move_why));
	if (!status->waits[0])
		waits(m, status->waits);
}
