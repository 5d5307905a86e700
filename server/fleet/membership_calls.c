/* SPDX-License-Identifier: MIT */
/* Describes the calls of a member of a fleet: what they compare, put and read. */
#include <inttypes.h>
#include <string.h>

#include "common/util/log.h"
#include "server/fleet/map_edit.h"
#include "server/fleet/membership_state.h"
#include "server/fleet/moves.h"

#define NS_PER_S 1000000000ull

static bool draft_finish(struct membership *m, struct map_edit *edit, uint64_t now_ns)
{
	const char *error = map_edit_finish(edit, &m->draft);

	if (!error)
		return true;
	log_ratelimited(LOG_ERROR, 1, "fleet: can't make the next map: %s", error);
	m->retry_ns = now_ns + m->options.lease_ns;
	return false;
}

/* FLEET-3. The member, and its rows: those that it does not serve can't be proven. */
static bool draft_register(struct membership *m, uint64_t now_ns)
{
	struct map_edit *edit = map_edit_create(m->map);
	struct map_member member = {
		.session = session_in(m, m->map) + 1,
		.weight = m->options.weight,
		.urls = m->options.urls,
	};
	uint32_t number;

	memcpy(member.id, m->options.id, sizeof(member.id));
	if (m->number != FLEET_NO_OWNER) {
		member.lost_s = m->map->members[m->number]->lost_s;
		/* A restart ends a drain, and nobody's registration what all members do. */
		member.flags = m->map->members[m->number]->flags & ~FLEET_MEMBER_AWAY;
		if (!m->registrations)
			member.flags &= ~FLEET_MEMBER_DRAINED;
	}
	number = map_edit_member(edit, &member);
	for (uint32_t i = 0; i < FLEET_SHARDS && m->number != FLEET_NO_OWNER; i++)
		if (fleet_row_owner(m->map->rows[i]) == number &&
		    !shard_set_has(&m->shards.served, i))
			map_edit_row(edit, i, number, 0);
	return draft_finish(m, edit, now_ns);
}

bool call_keeps_map(const struct membership *m)
{
	if (!m->registrations || m->number == FLEET_NO_OWNER ||
	    session_in(m, m->map) != m->session ||
	    m->map->members[m->number]->flags & FLEET_MEMBER_AWAY)
		return false;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (fleet_row_owner(m->map->rows[i]) == m->number &&
		    !shard_set_has(&m->shards.served, i))
			return false;
	return true;
}

static bool opens(const struct membership *m, uint32_t shard)
{
	return shard_set_has(&m->shards.served, shard) && !(m->map->rows[shard] & FLEET_OPEN) &&
	       !move_has(m, shard);
}

/* False: there is nothing to open, or it can't be done now. */
static bool draft_open(struct membership *m, uint64_t now_ns)
{
	struct map_edit *edit;
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		count += opens(m, i);
	if (!count) {
		m->may_open = false;
		return false;
	}
	edit = map_edit_create(m->map);
	m->shards.attempt_epoch = m->map->head->epoch + 1;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (opens(m, i)) {
			map_edit_row(edit, i, m->number,
				     FLEET_OPEN | (m->map->rows[i] & FLEET_GIVEN));
			shard_set_add(&m->shards.opening, i);
		}
	return draft_finish(m, edit, now_ns);
}

/* False: no shard should go to the target any more, or it can't be done now. */
static bool draft_close(struct membership *m, uint64_t now_ns)
{
	struct map_edit *edit;

	if (!move_choose(m))
		return false;
	edit = map_edit_create(m->map);
	m->shards.attempt_epoch = m->map->head->epoch + 1;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(&m->move.shards, i)) {
			map_edit_row(edit, i, m->number, 0);
			shard_set_add(&m->shards.closing, i);
		}
	return draft_finish(m, edit, now_ns);
}

static bool draft_give(struct membership *m, uint64_t now_ns)
{
	const uint32_t target = fleet_map_find(m->map, m->move.target);
	struct map_edit *edit;

	if (target == m->map->head->members) {
		move_not_given(m, "it is not in the map any more");
		return false;
	}
	edit = map_edit_create(m->map);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(&m->move.shards, i))
			map_edit_row(edit, i, target, FLEET_OPEN | FLEET_GIVEN);
	return draft_finish(m, edit, now_ns);
}

/* The flags of member @number as they are wanted. */
static uint32_t flags_wanted(const struct membership *m, uint32_t number)
{
	const struct fleet_member *member = m->map->members[number];
	const bool is_it = !memcmp(member->id, m->flags.id, FLEET_NAME_MAX);

	switch (m->flags.what) {
	case WIRE_FLEET_DRAIN:
		return member->flags | (is_it ? FLEET_MEMBER_DRAINED : 0);
	case WIRE_FLEET_UNDRAIN:
		return member->flags & ~(is_it ? FLEET_MEMBER_DRAINED : 0);
	case WIRE_FLEET_REBALANCE:
		return member->flags | FLEET_MEMBER_BALANCES;
	}
	return member->flags;
}

/* False: the flags are as they are wanted, or it can't be done now. */
static bool draft_flags(struct membership *m, uint64_t now_ns)
{
	struct map_edit *edit;
	bool differs = false;

	for (uint32_t i = 0; i < m->map->head->members; i++)
		differs |= flags_wanted(m, i) != m->map->members[i]->flags;
	if (!differs) {
		m->wants_flags = false;
		return false;
	}
	edit = map_edit_create(m->map);
	for (uint32_t i = 0; i < m->map->head->members; i++)
		if (flags_wanted(m, i) != m->map->members[i]->flags)
			map_edit_flags(edit, i, flags_wanted(m, i));
	return draft_finish(m, edit, now_ns);
}

static void compare(struct membership *m, struct registry_call *call, enum registry_key key,
		    const char id[FLEET_NAME_MAX], int64_t revision)
{
	struct registry_compare *next = &m->compares[call->compare_count++];

	*next = (struct registry_compare){ .key = key, .revision = revision };
	memcpy(next->id, id, FLEET_NAME_MAX);
}

static void compare_map(struct membership *m, struct registry_call *call)
{
	compare(m, call, REGISTRY_MAP, m->options.id, m->map_revision);
}

static void compare_own(struct membership *m, struct registry_call *call)
{
	compare(m, call, REGISTRY_MEMBER, m->options.id, m->own);
}

static void call_look(struct membership *m, struct registry_call *call)
{
	call->reads[true] = REGISTRY_READ_OWN;
	call->reads[false] = REGISTRY_READ_OWN | REGISTRY_READ_MAP;
	if (m->fenced)
		call->reads[true] = call->reads[false];
	else
		compare_map(m, call);
}

static void call_poll(struct membership *m, struct registry_call *call)
{
	compare_map(m, call);
	compare_own(m, call);
	call->reads[true] = REGISTRY_READ_CONTROLLER;
	call->reads[false] = REGISTRY_READ_MAP | REGISTRY_READ_OWN | REGISTRY_READ_CONTROLLER;
	if (!m->controller)
		return;
	call->reads[true] |= REGISTRY_READ_MEMBERS;
	call->reads[false] |= REGISTRY_READ_MEMBERS;
}

/* FLEET-2 */
static void call_assign(struct membership *m, struct registry_call *call)
{
	compare_map(m, call);
	compare(m, call, REGISTRY_CONTROLLER, m->options.id, m->controller);
	for (uint32_t i = 0; i < m->plan.compare_count; i++)
		compare(m, call, REGISTRY_MEMBER, m->map->members[m->plan.compares[i].member]->id,
			m->plan.compares[i].revision);
	m->draft = m->plan.map;
	m->plan.map = NULL;
	call->reads[false] = READ_ALL;
}

static void call_campaign(struct membership *m, struct registry_call *call)
{
	compare(m, call, REGISTRY_CONTROLLER, m->options.id, 0);
	compare_own(m, call);
	call->put_controller = true;
	call->reads[true] = call->reads[false] = REGISTRY_READ_CONTROLLER;
	m->campaigns = false;
}

/* FLEET-2, FLEET-8 */
static bool call_give(struct membership *m, uint64_t now_ns, struct registry_call *call)
{
	compare_map(m, call);
	compare_own(m, call);
	compare(m, call, REGISTRY_MEMBER, m->move.target, m->move.target_own);
	return draft_give(m, now_ns);
}

bool call_make(struct membership *m, enum call what, uint64_t now_ns, struct registry_call *call)
{
	*call = (struct registry_call){
		.kind = REGISTRY_TXN,
		.ttl_s = (int64_t)((m->options.lease_ns + NS_PER_S - 1) / NS_PER_S),
		.lease = m->lease,
		.incarnation = m->options.incarnation,
		.compares = m->compares,
		.reads[false] = REGISTRY_READ_MAP | REGISTRY_READ_OWN,
	};
	memcpy(call->id, m->options.id, sizeof(call->id));
	switch (what) {
	case CALL_GRANT:
		call->kind = REGISTRY_GRANT;
		break;
	case CALL_KEEPALIVE:
		call->kind = REGISTRY_KEEPALIVE;
		m->alive = false;
		break;
	case CALL_REVOKE:
		call->kind = REGISTRY_REVOKE;
		break;
	case CALL_LOOK:
		call_look(m, call);
		break;
	case CALL_POLL:
		call_poll(m, call);
		m->poll_is_due = m->look_is_wanted = false;
		m->polled_ns = now_ns;
		break;
	case CALL_REGISTER:
		compare_map(m, call);
		compare(m, call, REGISTRY_MEMBER, m->options.id, 0);
		call->put_member = true;
		call->reads[false] = REGISTRY_READ_OWN | REGISTRY_READ_MAP;
		if (!call_keeps_map(m) && !draft_register(m, now_ns))
			return false;
		break;
	case CALL_OPEN:
		compare_map(m, call);
		compare_own(m, call);
		if (!draft_open(m, now_ns))
			return false;
		break;
	case CALL_CLOSE:
		compare_map(m, call);
		compare_own(m, call);
		if (!draft_close(m, now_ns))
			return false;
		break;
	case CALL_GIVE:
		if (!call_give(m, now_ns, call))
			return false;
		break;
	case CALL_FLAGS:
		compare_map(m, call);
		compare_own(m, call);
		if (!draft_flags(m, now_ns))
			return false;
		break;
	case CALL_CAMPAIGN:
		call_campaign(m, call);
		break;
	case CALL_ASSIGN:
		call_assign(m, call);
		break;
	case CALL_NONE:
		return false;
	}
	call->put_map = m->draft;
	return true;
}
