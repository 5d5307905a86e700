/* SPDX-License-Identifier: MIT */
/* Makes a fleet as a file with its map does. */
#include "tests/support/fleet_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/fleet/static_map.h"

struct fleet test_fleet;

void test_fleet_create(unsigned int members)
{
	static const char head[] =
		"[fleet]\nname=f\nseed=0x77\nepoch=7\n[member a]\nurl=softnic:///a\n";
	char text[256], why[STATIC_MAP_WHY_MAX];
	struct fleet_map *map;

	strcpy(text, head);
	if (members == 2)
		strcat(text, "[member b]\nurl=softnic:///b\n");
	assert_int_equal(static_map_parse(&map, text, strlen(text), why), 0);
	memset(&test_fleet, 0, sizeof(test_fleet));
	assert_int_equal(fleet_fix(&test_fleet, map,
				   (const char[FLEET_NAME_MAX]){ members == 2 ? 'b' : 'a' }),
			 0);
}

void test_fleet_destroy(void)
{
	fleet_close(&test_fleet);
}

void test_fleet_serve(uint64_t hash, bool serves)
{
	uint32_t shard = fleet_shard(hash);

	if (serves)
		fleet_view_serve(test_fleet.view, shard);
	else
		test_fleet.view->served[shard / 64] &= ~(1ull << shard % 64);
}
