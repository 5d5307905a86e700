/* SPDX-License-Identifier: MIT */
/* Checks the map of a fleet. */
#include "common/fleet/map.h"

#include <stdlib.h>
#include <string.h>

#include "common/sum.h"
#include "common/util/heap.h"

uint64_t fleet_map_sum(const struct fleet_head *head, size_t bytes)
{
	struct fleet_head first = *head;
	XXH3_state_t state;

	first.sum = 0;
	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, &first, sizeof(first));
	XXH3_64bits_update(&state, head + 1, bytes - sizeof(first));
	return XXH3_64bits_digest(&state);
}

static const char *head_check(const struct fleet_head *head, size_t bytes)
{
	const size_t rows = FLEET_SHARDS * sizeof(uint64_t);

	if (head->magic != FLEET_MAP_MAGIC)
		return "no map of a fleet";
	if (!head->generation || !head->epoch || head->epoch > FLEET_EPOCH_MAX)
		return "a map with an impossible epoch";
	if (!wire_tenant_length(head->name))
		return "a map with an impossible name of the fleet";
	if (head->lease_ns > FLEET_LEASE_NS_MAX)
		return "a map with an impossible lease";
	if (head->members > FLEET_MEMBERS_MAX)
		return "a map with an impossible number of members";
	if (head->member_bytes % 8 || bytes - rows - sizeof(*head) != head->member_bytes)
		return "a map of a wrong length";
	if (fleet_map_sum(head, bytes) != head->sum)
		return "a map with a wrong sum";
	return NULL;
}

/* Whether a whole member is in the @left bytes at @member. */
static bool member_is_whole(const struct fleet_member *member, size_t left)
{
	return left >= sizeof(*member) && !(member->flags & ~FLEET_MEMBER_FLAGS) &&
	       member->urls_len && member->urls_len <= FLEET_URLS_MAX &&
	       left >= fleet_member_bytes(member) &&
	       !memchr(member->urls, '\0', member->urls_len) && wire_tenant_length(member->id);
}

static const char *members_check(struct fleet_map *map)
{
	const struct fleet_head *head = map->head;
	const uint8_t *at = (const uint8_t *)(head + 1), *end = at + head->member_bytes;
	const struct fleet_member *member;
	uint32_t i;

	for (i = 0; i < head->members; i++) {
		member = (const struct fleet_member *)(const void *)at;
		if (!member_is_whole(member, (size_t)(end - at)))
			return "a map with a malformed member";
		map->members[i] = member;
		at += fleet_member_bytes(member);
	}
	return at == end ? NULL : "a map with something after its members";
}

static int id_compare(const void *a, const void *b)
{
	return memcmp(*(const struct fleet_member *const *)a,
		      *(const struct fleet_member *const *)b, FLEET_NAME_MAX);
}

/* An ID leads to one member: fleet_map_find(). */
static const char *ids_check(const struct fleet_map *map)
{
	uint32_t i, count = map->head->members;
	const struct fleet_member **sorted = heap_alloc(count * sizeof(sorted[0]));
	const char *error = NULL;

	if (!sorted)
		return "out of memory";
	memcpy(sorted, map->members, count * sizeof(sorted[0]));
	qsort(sorted, count, sizeof(sorted[0]), id_compare);
	for (i = 1; i < count; i++)
		if (!id_compare(&sorted[i - 1], &sorted[i]))
			error = "a map with two members of one ID";
	heap_free(sorted);
	return error;
}

static bool row_is_valid(const struct fleet_head *head, uint64_t row)
{
	uint32_t owner = fleet_row_owner(row);

	return fleet_row_since(row) <= head->epoch &&
	       (owner < head->members || (owner == FLEET_NO_OWNER && !(row & FLEET_OPEN)));
}

static const char *rows_check(const struct fleet_map *map)
{
	uint32_t i;

	for (i = 0; i < FLEET_SHARDS; i++)
		if (!row_is_valid(map->head, map->rows[i]))
			return "a map with an impossible row";
	return NULL;
}

const char *fleet_map_make(struct fleet_map **out, const void *from, size_t bytes)
{
	const size_t least = sizeof(struct fleet_head) + FLEET_SHARDS * sizeof(uint64_t);
	struct fleet_head head;
	struct fleet_map *map;
	const char *error;
	size_t front;

	*out = NULL;
	if (bytes < least || bytes > FLEET_MAP_BYTES_MAX)
		return "a map of a wrong length";
	memcpy(&head, from, sizeof(head));
	if (head.members > FLEET_MEMBERS_MAX)
		return "a map with an impossible number of members";
	front = sizeof(*map) + head.members * sizeof(map->members[0]);
	map = heap_alloc(front + bytes);
	if (!map)
		return "out of memory";
	map->head = (struct fleet_head *)(void *)((uint8_t *)map + front);
	map->bytes = bytes;
	memcpy(map->head, from, bytes);
	map->rows = (const uint64_t *)(const void *)((uint8_t *)map->head + bytes) - FLEET_SHARDS;
	error = head_check(map->head, bytes);
	if (!error)
		error = members_check(map);
	if (!error)
		error = ids_check(map);
	if (!error)
		error = rows_check(map);
	if (error)
		fleet_map_free(map);
	else
		*out = map;
	return error;
}

void fleet_map_free(struct fleet_map *map)
{
	heap_free(map);
}

uint32_t fleet_map_find(const struct fleet_map *map, const char id[FLEET_NAME_MAX])
{
	uint32_t i;

	for (i = 0; i < map->head->members; i++)
		if (!memcmp(map->members[i]->id, id, FLEET_NAME_MAX))
			break;
	return i;
}
