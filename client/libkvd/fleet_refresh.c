/* SPDX-License-Identifier: MIT */
/* Fetches the map of a fleet from its members. */
#include "client/libkvd/fleet_refresh.h"

#include <string.h>

#include "client/libkvd/flight.h"
#include "client/libkvd/reconnect.h"
#include "client/libkvd/rpc.h"
#include "common/util/clock.h"
#include "common/util/heap.h"

/* The longest time of a fetch: then another member is asked. */
#define FETCH_NS_MAX 1000000000ull
/* The pause after a round without a newer map while flights are refused: the first, and longest. */
#define REFUSED_NS_MIN 1000000u
#define REFUSED_NS_MAX 50000000u

static void fetch_forget(struct refresh *refresh)
{
	refresh->asked = NULL;
	heap_free(refresh->bytes);
	refresh->bytes = NULL;
	refresh->size = refresh->used = 0;
	refresh->epoch = 0;
}

static uint64_t pause_ns(const struct kvd *home, uint64_t now_ns)
{
	const struct refresh *refresh = &home->fleet->refresh;
	uint64_t random = now_ns ^ (uintptr_t)home;

	return home->fleet->holds ?
		       jitter_ns(REFUSED_NS_MIN, REFUSED_NS_MAX, refresh->refusals, random) :
		       reconnect_pause_ns(refresh->failures, random);
}

/* No newer map was found: pauses, and then goes on. */
static void round_fails(struct kvd *home, enum kvd_status status)
{
	struct refresh *refresh = &home->fleet->refresh;
	uint64_t now_ns = clock_ns();

	refresh->status = status;
	fetch_forget(refresh);
	refresh->state = REFRESH_PAUSE;
	refresh->next_ns = now_ns + pause_ns(home, now_ns);
	refresh->failures++;
}

/* The number in @next of each member of @map; UINT32_MAX: it leaves. NULL: no memory. */
static uint32_t *numbers_make(const struct fleet_map *map, const struct fleet_map *next)
{
	uint32_t i, *numbers = heap_calloc(map->head->members, sizeof(*numbers));

	for (i = 0; numbers && i < map->head->members; i++)
		numbers[i] = member_leaves(map, i, next) ?
				     UINT32_MAX :
				     fleet_map_find(next, map->members[i]->id);
	return numbers;
}

/*
 * Holds the shards that get another owner; with another seed, all of them, and without memory.
 * Nothing was sent for shards that had none.
 */
static void drain_begin(struct kvd *home)
{
	struct fleet *fleet = home->fleet;
	const struct fleet_map *map = fleet->map, *next = fleet->refresh.map;
	uint32_t i, owner, *numbers;

	fleet->refresh.state = REFRESH_DRAIN;
	if (!map || !next)
		return;
	numbers = map->head->hash_seed == next->head->hash_seed ? numbers_make(map, next) : NULL;
	for (i = 0; i < FLEET_SHARDS; i++) {
		owner = fleet_row_owner(map->rows[i]);
		if (owner != FLEET_NO_OWNER &&
		    (!numbers || numbers[owner] != fleet_row_owner(next->rows[i])))
			fleet_hold(fleet, i);
	}
	heap_free(numbers);
}

static void fetch_done(struct kvd *home, struct kvd *member)
{
	struct fleet *fleet = home->fleet;
	struct refresh *refresh = &fleet->refresh;
	struct fleet_map *map;
	const char *error = fleet_map_make(&map, refresh->bytes, refresh->size);

	if (error) {
		round_fails(home, handle_error_set(home, KVD_ERR_PROTOCOL, "%s sent %s",
						   member->dev->address, error));
		return;
	}
	if (memcmp(map->head->name, fleet->name, sizeof(fleet->name))) {
		handle_error_set(home, KVD_ERR_REFUSED,
				 "the server at %s is a member of the fleet %.*s, not of %.*s",
				 member->dev->address, (int)FLEET_NAME_MAX, map->head->name,
				 (int)FLEET_NAME_MAX, fleet->name);
		fleet_map_free(map);
		round_fails(home, KVD_ERR_REFUSED);
		return;
	}
	/* With such a map there is nobody to ask for the next one. */
	if (!map->head->members) {
		fleet_map_free(map);
		round_fails(home, handle_error_set(home, KVD_ERR_AWAY,
						   "the fleet %.*s has no member yet, says %s",
						   (int)FLEET_NAME_MAX, fleet->name,
						   member->dev->address));
		return;
	}
	if (fleet->map && map->head->epoch <= fleet->map->head->epoch) {
		fleet_map_free(map);
		round_fails(home, KVD_OK);
		return;
	}
	fetch_forget(refresh);
	refresh->status = KVD_OK;
	refresh->failures = 0;
	refresh->map = map;
	drain_begin(home);
}

static void fetch_ask(struct kvd *member, struct flight *f, uint64_t offset)
{
	f->kind = FLIGHT_OWN;
	f->rpc = (struct rpc){
		.on_loss = LOSS_FAILS,
		.head = { .op = WIRE_MAP, .offset = offset },
	};
	request_add(member, f);
}

/* NULL, or what is wrong with the part of the map. */
static const char *part_check(const struct refresh *refresh, const struct response *response)
{
	if (!refresh->size)
		return response->result < sizeof(struct fleet_head) ||
				       response->result > FLEET_MAP_BYTES_MAX ?
			       "a map of a wrong length" :
			       NULL;
	return response->result != refresh->size || response->epoch != refresh->epoch ?
		       "a map that changed while it was sent" :
		       NULL;
}

static void part_take(struct kvd *home, struct kvd *member, const struct response *response)
{
	const struct fleet *fleet = home->fleet;
	struct refresh *refresh = &home->fleet->refresh;
	const char *error = part_check(refresh, response);

	/* The first answer to a handle that has a map has the epoch alone. */
	if (!error && fleet->map && !refresh->epoch) {
		if (response->epoch <= fleet->map->head->epoch) {
			round_fails(home, KVD_OK);
			return;
		}
		refresh->epoch = response->epoch;
		fetch_ask(member, &refresh->flight, 0);
		return;
	}
	if (!error && !refresh->size) {
		refresh->bytes = heap_alloc(response->result);
		refresh->size = refresh->bytes ? response->result : 0;
		refresh->epoch = response->epoch;
		if (!refresh->bytes)
			error = "a map for which there is no memory";
	}
	if (!error && (!response->value_len || response->value_len > refresh->size - refresh->used))
		error = "a part of a map of a wrong length";
	if (error) {
		round_fails(home, handle_error_set(home, KVD_ERR_PROTOCOL, "%s sent %s",
						   member->dev->address, error));
		return;
	}
	memcpy(refresh->bytes + refresh->used, response->value, response->value_len);
	refresh->used += response->value_len;
	if (refresh->used == refresh->size)
		fetch_done(home, member);
	else
		fetch_ask(member, &refresh->flight, refresh->used);
}

static void fetch_response(struct kvd *member, struct flight *f, const struct response *response)
{
	struct kvd *home = member->member.home;
	enum kvd_status status;

	(void)f;
	if (!response->status) {
		part_take(home, member, response);
		return;
	}
	if (response->status == WIRE_NOT_FOUND) {
		status = handle_error_set(
			home, KVD_ERR_REFUSED,
			"the server at %s is not a member of a fleet (fleet.file)",
			member->dev->address);
	} else {
		status = member_failed(member, response_status(member, response));
	}
	round_fails(home, status);
}

static const struct flight_ops fetch_ops = { .response = fetch_response };

void fetch_begin(struct kvd *home, struct kvd *member)
{
	struct refresh *refresh = &home->fleet->refresh;

	fetch_forget(refresh);
	refresh->asked = member;
	refresh->state = REFRESH_FETCH;
	refresh->next_ns = clock_ns() + FETCH_NS_MAX;
	refresh->flight.ops = &fetch_ops;
	refresh->flight.place = PLACE_NONE;
	fetch_ask(member, &refresh->flight, home->fleet->map ? EPOCH_ONLY : 0);
}

void fetch_lost(struct kvd *member)
{
	struct kvd *home = member->member.home;
	struct refresh *refresh = &home->fleet->refresh;

	if (refresh->state != REFRESH_FETCH || refresh->asked != member)
		return;
	flight_detach(member, &refresh->flight);
	round_fails(home, member_failed(member, KVD_ERR_DISCONNECTED));
}

void refresh_want(struct kvd *home)
{
	home->fleet->refresh.wanted = home->fleet->busy = true;
}

/* A pause that began before may be long. */
void refresh_refused(struct kvd *home, const struct flight *f)
{
	struct refresh *refresh = &home->fleet->refresh;
	uint64_t now_ns = clock_ns(), next_ns;

	home->stats.moved++;
	fleet_hold(home->fleet, fleet_shard(f->lookup.hash));
	next_ns = now_ns + pause_ns(home, now_ns);
	if (refresh->state == REFRESH_PAUSE && refresh->next_ns > next_ns)
		refresh->next_ns = next_ns;
	refresh_want(home);
}

/* The largest epoch that the member has named. */
static uint64_t epoch_named(const struct kvd *handle)
{
	const struct member *member = &handle->member;

	return member->word.epoch > member->refused_epoch ? member->word.epoch :
							    member->refused_epoch;
}

/* A member that refused, or welcomed with a newer map, is asked before others, if it is up. */
static bool is_better(const struct kvd *handle, const struct kvd *best)
{
	if (!best || handle->up != best->up)
		return !best || handle->up;
	return epoch_named(handle) > epoch_named(best);
}

/*
 * The next member after those that failed in this row of rounds. Every second time the epochs do
 * not count: a member that promises a new map and does not send it must not keep others' away.
 */
static struct kvd *source_find(struct kvd *home)
{
	struct fleet *fleet = home->fleet;
	uint32_t i, number, count = fleet->map->head->members;
	uint32_t first = fleet->refresh.failures / 2 % count;
	bool by_epoch = fleet->refresh.failures % 2 == 0;
	struct kvd *best = NULL;

	for (i = 0; i < count; i++) {
		number = (first + i) % count;
		if (best && best->up && !by_epoch)
			break;
		if (fleet->links[number]->handle && !fleet->links[number]->handle->closed &&
		    is_better(fleet->links[number]->handle, best))
			best = fleet->links[number]->handle;
	}
	return best && best->up ? best : link_handle(home, fleet->links[first]);
}

static void round_begin(struct kvd *home)
{
	struct kvd *source = source_find(home);

	if (!source) {
		round_fails(home, KVD_ERR_DISCONNECTED);
		return;
	}
	link_activate(home->fleet, source->member.link);
	fetch_begin(home, source);
	/* Posts the request: the caller may be about to sleep. */
	home->attention = true;
}

static bool is_leaving(const struct fleet *fleet, const struct fleet_link *link)
{
	const struct fleet_map *next = fleet->refresh.map;

	return next && member_leaves(fleet->map, link->number, next);
}

/* Ends a flight whose shard goes to another member. */
static void flight_recall(struct kvd *member, struct flight *f)
{
	const struct fleet *fleet = member->member.home->fleet;

	if (f->at != member || !fleet_holds(fleet, f->lookup.hash))
		return;
	if (!flight_may_have_acted(f)) {
		flight_cut(member, f, KVD_ERR_MOVED);
		return;
	}
	member->stats.unknown++;
	flight_cut(member, f,
		   handle_error_set(member, KVD_ERR_UNKNOWN,
				    "the member at %s was lost before the response to a change "
				    "came, and others have its keys: read the key to learn what "
				    "the change did",
				    member->dev->address));
}

/*
 * Takes back, in order, what waits for members that are away and have lost the shards by the new
 * map. A change that such a member may have executed ends: the member may never come back, and
 * executes it no more if it does.
 */
static void away_recall(struct kvd *home)
{
	const struct fleet *fleet = home->fleet;
	struct kvd *member;
	uint32_t i;

	for (i = 0; i < fleet->map->head->members; i++) {
		member = fleet->links[i]->handle;
		if (!member || member->up)
			continue;
		each_waiting(member, &member->resends, flight_recall);
		each_waiting(member, &member->requests, flight_recall);
		each_waiting(member, &member->blocked, flight_recall);
	}
}

/* Whether the flight's change may still be executed, and be followed by others of its key. */
static bool holds_up(const struct fleet *fleet, const struct flight *f)
{
	return f->place != PLACE_ENDED && f->at && f->counted && fleet_holds(fleet, f->lookup.hash);
}

static bool drained(const struct kvd *home)
{
	const struct fleet *fleet = home->fleet;
	const struct fleet_link *link;
	uint32_t i;

	for (i = 0; i < home->call_count; i++)
		if (holds_up(fleet, &home->calls[i]))
			return false;
	for (i = 0; home->slot_memory && i < home->options.depth; i++)
		if (home->slot_memory[i].op && holds_up(fleet, &home->slot_memory[i]))
			return false;
	for (i = 0; i < fleet->map->head->members; i++) {
		link = fleet->links[i];
		if (link->handle && link->handle->member.flights && is_leaving(fleet, link))
			return false;
	}
	return true;
}

static bool round_ends(struct kvd *home)
{
	struct fleet *fleet = home->fleet;
	struct refresh *refresh = &fleet->refresh;
	struct fleet_map *map = refresh->map;

	if (map)
		away_recall(home);
	if (!drained(home))
		return false;
	refresh->refusals = map || !fleet->holds ? 0 : refresh->refusals + 1;
	fleet->holds = fleet->busy = false;
	memset(fleet->held, 0, sizeof(fleet->held));
	refresh->map = NULL;
	if (map) {
		memset(fleet->frozen, 0, sizeof(fleet->frozen));
		refresh->status = fleet_adopt(home, map, NULL);
	}
	refresh->state = REFRESH_IDLE;
	refresh->wanted = false;
	refresh->rounds++;
	return true;
}

bool refresh_progress(struct kvd *home)
{
	struct refresh *refresh = &home->fleet->refresh;

	switch (refresh->state) {
	case REFRESH_IDLE:
		if (refresh->wanted)
			round_begin(home);
		return false;
	case REFRESH_FETCH:
		if (clock_ns() < refresh->next_ns)
			return false;
		flight_detach(refresh->asked, &refresh->flight);
		round_fails(home, handle_error_set(home, KVD_ERR_TIMEOUT,
						   "no map from %s within a second",
						   refresh->asked->dev->address));
		return false;
	case REFRESH_PAUSE:
		if (clock_ns() < refresh->next_ns)
			return false;
		refresh->state = REFRESH_DRAIN;
		return round_ends(home);
	case REFRESH_DRAIN:
		return round_ends(home);
	}
	return false;
}

uint64_t refresh_next_ns(const struct fleet *fleet)
{
	const struct refresh *refresh = &fleet->refresh;

	if (refresh->state == REFRESH_FETCH || refresh->state == REFRESH_PAUSE)
		return refresh->next_ns;
	return UINT64_MAX;
}
