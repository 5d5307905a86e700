/* SPDX-License-Identifier: MIT */
/* Tests of the map of a fleet as it is in etcd (server/fleet/map_gzip.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/heap.h"
#include "server/fleet/map_edit.h"
#include "server/fleet/map_gzip.h"

/* Without members. */
static struct fleet_map *map_new(void)
{
	static const char name[FLEET_NAME_MAX] = "demo";
	struct map_edit *edit = map_edit_create_first(name, 7, 9, 2000000000);
	struct fleet_map *map;

	assert_null(map_edit_finish(edit, &map));
	return map;
}

static void assert_wrong(const void *from, size_t bytes, const char *error)
{
	struct fleet_map *map = (void *)1;

	assert_string_equal(map_gunzip(&map, from, bytes), error);
	assert_null(map);
}

static void test_comes_back(void **state)
{
	struct fleet_map *map = map_new(), *back;
	size_t bytes;
	void *gzip = map_gzip(map, &bytes);

	(void)state;
	assert_non_null(gzip);
	assert_in_range(bytes, 1, map->bytes / 4);
	assert_null(map_gunzip(&back, gzip, bytes));
	assert_int_equal(back->bytes, map->bytes);
	assert_memory_equal(back->head, map->head, map->bytes);
	fleet_map_free(back);
	heap_free(gzip);
	fleet_map_free(map);
}

static void test_damaged(void **state)
{
	static const char damaged[] = "not compressed by gzip, or damaged";
	static const char strange[] = "not compressed by gzip, or longer than any map";
	struct fleet_map *map = map_new();
	size_t bytes, refused = 0;
	uint8_t *gzip = map_gzip(map, &bytes), *more = heap_calloc(1, bytes + 8);

	(void)state;
	assert_non_null(gzip);
	assert_non_null(more);
	assert_wrong(map->head, 0, strange);
	assert_wrong(map->head, 3, strange);
	assert_wrong(map->head, map->bytes, strange);
	for (size_t i = 0; i < bytes; i++) {
		struct fleet_map *back;

		/* Some bits do not matter: of gzip's head, and of codes that nothing uses. */
		gzip[i] ^= 1;
		if (map_gunzip(&back, gzip, bytes)) {
			assert_null(back);
			refused++;
		} else {
			assert_int_equal(back->bytes, map->bytes);
			assert_memory_equal(back->head, map->head, map->bytes);
			fleet_map_free(back);
		}
		gzip[i] ^= 1;
	}
	assert_in_range(refused, bytes / 4, bytes);
	/* Too short, too long, and of a length that no map has. */
	memcpy(more, gzip, bytes - 5);
	memcpy(more + bytes - 5, gzip + bytes - 4, 4);
	assert_wrong(more, bytes - 1, damaged);
	memcpy(more, gzip, bytes);
	memcpy(more + bytes, gzip + bytes - 4, 4);
	assert_wrong(more, bytes + 4, damaged);
	memset(gzip + bytes - 4, 0xff, 4);
	assert_wrong(gzip, bytes, strange);
	memcpy(gzip + bytes - 4, (uint8_t[]){ 1, 0, 0, 0 }, 4);
	assert_wrong(gzip, bytes, damaged);
	heap_free(more);
	heap_free(gzip);
	fleet_map_free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comes_back),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
