/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of static_map_parse(), which reads the file of a fleet: what it takes is a map in
 * which members with a weight have shards; what it does not take gets a text with a line.
 */
#include "server/fleet/static_map.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct fleet_map *map)
{
	uint32_t owned[FLEET_MEMBERS_MAX] = { 0 };

	must(map->head->generation && map->head->epoch && map->head->hash_seed);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		owned[fleet_row_owner(map->rows[i])]++;
	for (uint32_t i = 0; i < map->head->members; i++)
		must(map->members[i]->weight || !owned[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[STATIC_MAP_WHY_MAX] = "", *text = malloc(size + 1);
	struct fleet_map *map;

	must(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (static_map_parse(&map, text, size, why))
		must(!strncmp(why, "line ", 5) && strlen(why) < sizeof(why) - 1);
	else
		check(map);
	fleet_map_free(map);
	free(text);
	return 0;
}
