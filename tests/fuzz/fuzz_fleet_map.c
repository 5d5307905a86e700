/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of fleet_map_make(), which checks what a server says is its fleet's map: all of an
 * accepted one is in bounds. The input is the head and the members, and rows, which repeat; the
 * target makes the sum right, since no random input would have it.
 */
#include "common/fleet/map.h"
#include "tests/fuzz/fuzz.h"

#define ROWS 4u /* in the input, after head and members */

static void check(const struct fleet_map *map)
{
	uint32_t i;

	must(map->head->members >= 1 && map->head->members <= FLEET_MEMBERS_MAX);
	must((const uint8_t *)(map->rows + FLEET_SHARDS) ==
	     (const uint8_t *)map->head + map->bytes);
	for (i = 0; i < map->head->members; i++) {
		const struct fleet_member *member = map->members[i];

		must((const uint8_t *)member + fleet_member_bytes(member) <=
		     (const uint8_t *)map->rows);
		must(member->urls_len >= 1 && member->urls_len <= FLEET_URLS_MAX);
		must(wire_tenant_length(member->id));
		touch((const uint8_t *)member->urls, member->urls_len);
		must(fleet_map_find(map, member->id) <= i);
	}
	for (i = 0; i < FLEET_SHARDS; i++)
		must(fleet_row_owner(map->rows[i]) < map->head->members &&
		     fleet_row_since(map->rows[i]) <= map->head->epoch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t rows_bytes = FLEET_SHARDS * sizeof(uint64_t);
	uint64_t rows[ROWS], sum;
	struct fleet_map *map;
	uint8_t *bytes;
	size_t front;

	if (size < sizeof(struct fleet_head) + sizeof(rows) || size > 1u << 16)
		return 0;
	front = size - sizeof(rows);
	memcpy(rows, data + front, sizeof(rows));
	bytes = malloc(front + rows_bytes);
	must(bytes);
	memcpy(bytes, data, front);
	for (size_t i = 0; i < FLEET_SHARDS; i++)
		memcpy(bytes + front + i * 8, &rows[i % ROWS], 8);
	fleet_map_make(&map, bytes, front + rows_bytes);
	fleet_map_free(map);
	sum = fleet_map_sum((const struct fleet_head *)bytes, front + rows_bytes);
	memcpy(bytes + offsetof(struct fleet_head, sum), &sum, sizeof(sum));
	if (!fleet_map_make(&map, bytes, front + rows_bytes))
		check(map);
	fleet_map_free(map);
	free(bytes);
	return 0;
}
