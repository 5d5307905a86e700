/* SPDX-License-Identifier: MIT */
/* What a fleet's handle knows of the fleet, for programs that list it. */
#include <string.h>

#include "client/libkvd/fleet.h"
#include "client/libkvd/fleet_links.h"
#include "common/sum.h"

static_assert(sizeof(((struct kvd_fleet_info *)0)->name) > FLEET_NAME_MAX &&
		      sizeof(((struct kvd_fleet_member *)0)->id) > FLEET_NAME_MAX &&
		      sizeof(((struct kvd_fleet_member *)0)->urls) > FLEET_URLS_MAX,
	      "texts end with a zero byte");
static_assert(KVD_FLEET_MEMBER_AWAY == FLEET_MEMBER_AWAY &&
		      KVD_FLEET_MEMBER_DRAINED == FLEET_MEMBER_DRAINED &&
		      KVD_FLEET_MEMBER_BALANCES == FLEET_MEMBER_BALANCES,
	      "flags are those of the map");

enum kvd_status fleet_check(struct kvd *handle)
{
	return handle->fleet ? KVD_OK :
			       handle_error_set(handle, KVD_ERR_INVALID,
						"the handle is for one server, not for a fleet");
}

/* Begins a call about a fleet that writes to @to. It works on a closed handle, too. */
static enum kvd_status info_begin(struct kvd *handle, const void *to)
{
	enum kvd_status status = call_enter(handle, NULL);

	if (status)
		return status;
	status = fleet_check(handle);
	if (!status && !to)
		status = handle_error_set(handle, KVD_ERR_INVALID, "the pointer is NULL");
	return status ? call_end(handle, status) : KVD_OK;
}

/* Ends it: copies what the library has to what the caller has. */
static enum kvd_status info_end(struct kvd *handle, void *to, size_t size, const void *from,
				size_t bytes)
{
	memset(to, 0, size);
	memcpy(to, from, size < bytes ? size : bytes);
	return call_end(handle, KVD_OK);
}

/* The rows of the owner @number; *@open: those that are open. */
static uint32_t rows_count(const struct fleet_map *map, uint32_t number, uint32_t *open)
{
	uint32_t i, count = 0;

	*open = 0;
	for (i = 0; i < FLEET_SHARDS; i++) {
		if (fleet_row_owner(map->rows[i]) != number)
			continue;
		count++;
		*open += (map->rows[i] & FLEET_OPEN) != 0;
	}
	return count;
}

enum kvd_status kvd_fleet_info(struct kvd *handle, struct kvd_fleet_info *info, size_t size)
{
	enum kvd_status status = info_begin(handle, info);
	struct kvd_fleet_info known = { .shards = FLEET_SHARDS };
	const struct fleet_map *map;
	uint32_t open;

	if (status)
		return status;
	map = handle->fleet->map;
	memcpy(known.name, map->head->name, FLEET_NAME_MAX);
	known.epoch = map->head->epoch;
	known.generation = map->head->generation;
	known.members = map->head->members;
	known.unowned = rows_count(map, FLEET_NO_OWNER, &open);
	return info_end(handle, info, size, &known, sizeof(known));
}

static const char *link_text(const struct fleet_link *link)
{
	if (link->handle)
		return connection_text(link->handle);
	return link->failures ? "away" : "unused";
}

void fleet_states_count(const struct kvd *handle, struct fleet_states *states)
{
	const struct fleet_map *map = handle->fleet->map;
	uint32_t i;

	*states = (struct fleet_states){ .epoch = map->head->epoch };
	for (i = 0; i < FLEET_SHARDS; i++) {
		if (fleet_row_owner(map->rows[i]) == FLEET_NO_OWNER)
			states->shards.unowned++;
		else if (map->rows[i] & FLEET_OPEN)
			states->shards.open++;
		else
			states->shards.closed++;
	}
	for (i = 0; i < map->head->members; i++) {
		const char *text = link_text(handle->fleet->links[i]);

#define X(state) states->members.state += !strcmp(text, #state);
		FLEET_MEMBER_STATES(X)
#undef X
	}
}

enum kvd_status kvd_fleet_member(struct kvd *handle, uint32_t number,
				 struct kvd_fleet_member *member, size_t size)
{
	enum kvd_status status = info_begin(handle, member);
	struct kvd_fleet_member known = { 0 };
	const struct fleet_member *of;
	const struct fleet_link *link;

	if (status)
		return status;
	if (number >= fleet_members(handle))
		return call_end(handle, KVD_NOT_FOUND);
	of = handle->fleet->map->members[number];
	link = handle->fleet->links[number];
	memcpy(known.id, of->id, FLEET_NAME_MAX);
	memcpy(known.urls, of->urls, of->urls_len);
	known.connection = link_text(link);
	known.weight = of->weight;
	known.flags = of->flags;
	known.shards = rows_count(handle->fleet->map, number, &known.open);
	return info_end(handle, member, size, &known, sizeof(known));
}

enum kvd_status kvd_fleet_shard(struct kvd *handle, uint32_t number, struct kvd_fleet_shard *shard,
				size_t size)
{
	enum kvd_status status = info_begin(handle, shard);
	struct kvd_fleet_shard known;
	uint64_t row;

	if (status)
		return status;
	if (number >= FLEET_SHARDS)
		return call_end(handle, KVD_NOT_FOUND);
	row = handle->fleet->map->rows[number];
	known.member = fleet_row_owner(row);
	if (known.member == FLEET_NO_OWNER)
		known.member = KVD_FLEET_NO_MEMBER;
	known.open = (row & FLEET_OPEN) != 0;
	known.since = fleet_row_since(row);
	return info_end(handle, shard, size, &known, sizeof(known));
}

enum kvd_status kvd_fleet_key(struct kvd *handle, const void *key, size_t key_len, uint32_t *number)
{
	enum kvd_status status = info_begin(handle, number);

	if (status)
		return status;
	status = key_check(handle, key, key_len);
	if (!status)
		*number = fleet_shard(key_hash(key, key_len, handle->geometry.hash_seed));
	return call_end(handle, status);
}
