/* SPDX-License-Identifier: MIT */
/* Tests of the file of a fleet: the map that it makes, and the error for each mistake. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/fleet/static_map.h"

#define HEAD "[fleet]\nname = demo\nseed = 0x1234567890abcdef\nepoch = 7\n"
#define A "[member a]\nurl = softnic:///run/a.sock\n"
#define B "[member b]\nurl = rdma://10.0.0.2:7471\n"

static char why[STATIC_MAP_WHY_MAX];

/* NULL: it has an error, which `why` says. */
static struct fleet_map *parse(const char *text)
{
	struct fleet_map *map;
	char *copy = strdup(text);
	int err;

	assert_non_null(copy);
	strcpy(why, "");
	err = static_map_parse(&map, copy, strlen(text), why);
	free(copy);
	assert_int_equal(err, map ? 0 : -EINVAL);
	return map;
}

static uint32_t owned(const struct fleet_map *map, uint32_t member)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		count += fleet_row_owner(map->rows[i]) == member;
	return count;
}

static void a_map(void **state)
{
	struct fleet_map *map = parse("# three\n" HEAD "\n[member a] \r\n"
				      "url = softnic:///run/a.sock ; where clients are\n"
				      "[member b.c-d_E]\n"
				      "weight = 2;not a comment"
				      "\n");

	(void)state;
	assert_null(map);
	assert_non_null(strstr(why, "weight takes one value"));
	map = parse("\xef\xbb\xbf# three\n" HEAD "\n  [ member  a ]\r\n"
		    "url = softnic:///run/a.sock ; where clients are\n"
		    "[member b.c-d_E]\n"
		    "\tweight=2\t; twice\n"
		    "url=rdma://[fd00::1]:7471?traffic_class=106 ,rdma+tcp://b\n"
		    "[member c]\nweight = 0\nurl = rdma+tls://c");
	assert_non_null(map);
	assert_true(map->head->epoch == 7);
	assert_true(map->head->hash_seed == 0x1234567890abcdef);
	assert_true(map->head->generation);
	assert_string_equal(map->head->name, "demo");
	assert_int_equal(map->head->members, 3);
	assert_string_equal(map->members[0]->id, "a");
	assert_string_equal(map->members[1]->id, "b.c-d_E");
	assert_int_equal(map->members[0]->weight, 1);
	assert_int_equal(map->members[1]->weight, 2);
	assert_int_equal(map->members[2]->weight, 0);
	assert_int_equal(map->members[0]->urls_len, 21);
	assert_memory_equal(map->members[0]->urls, "softnic:///run/a.sock", 21);
	assert_int_equal(map->members[1]->urls_len, 52);
	assert_memory_equal(map->members[1]->urls,
			    "rdma://[fd00::1]:7471?traffic_class=106,rdma+tcp://b", 52);
	assert_int_equal(owned(map, 0), 5461);
	assert_int_equal(owned(map, 1), 10923);
	assert_int_equal(owned(map, 2), 0);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		assert_true(map->rows[i] & FLEET_OPEN);
		assert_true(fleet_row_since(map->rows[i]) == 7);
	}
	fleet_map_free(map);
}

/* Members that read the same file make the same map; another file is another generation. */
static void generations(void **state)
{
	struct fleet_map *map = parse(HEAD A B), *same = parse(HEAD A "\n# b\n" B), *other;

	(void)state;
	assert_int_equal(map->bytes, same->bytes);
	assert_memory_equal(map->head, same->head, map->bytes);
	fleet_map_free(same);
	other = parse("[fleet]\nname=demo\nseed=0x2\nepoch=7\n" A B);
	assert_true(other->head->generation != map->head->generation);
	fleet_map_free(other);
	other = parse("[fleet]\nname=demo2\nseed=0x1234567890abcdef\nepoch=7\n" A B);
	assert_true(other->head->generation != map->head->generation);
	fleet_map_free(other);
	other = parse(HEAD A);
	assert_true(other->head->generation != map->head->generation);
	fleet_map_free(other);
	fleet_map_free(map);
}

static const struct {
	const char *text, *why;
} mistakes[] = {
	{ "", "line 1: there is no section [fleet]" },
	{ A, "line 1: there is no section [fleet]" },
	{ HEAD, "line 1: the fleet has no member: write [member NAME]" },
	{ "\n[fleet]\nseed = 0x1\nepoch = 1\n" A, "line 2: the fleet has no name: write name" },
	{ "[fleet]\nname = x\nepoch = 1\n" A, "line 1: the fleet has no seed: write a random one" },
	{ "[fleet]\nname = x\nseed = 0x1\n" A, "line 1: the fleet has no epoch: write epoch = 1" },
	{ "name = x\n", "line 1: 'name' is in no section" },
	{ "[fleet]\nname = a/b\n", "line 2: 'a/b' can't be a name: use 1 to 24" },
	{ "[fleet]\nname = 1234567890123456789012345\n", "can't be a name" },
	{ "[fleet]\nname =\n", "line 2: name has no value" },
	{ "[fleet]\nname = ; none\n", "line 2: name has no value" },
	{ "[fleet]\nname = a b\n", "line 2: name takes one value: remove 'b'" },
	{ "[fleet]\nname = a\nname = a\n", "line 3: name is repeated: remove one" },
	{ "[fleet]\nseed = 1234\n", "line 2: seed '1234' is not 0x and" },
	{ "[fleet]\nseed = 0x\n", "line 2: seed '0x' is not 0x and" },
	{ "[fleet]\nseed = 0x12345678901234567\n", "is not 0x and" },
	{ "[fleet]\nseed = 0x12g\n", "is not 0x and" },
	{ "[fleet]\nseed = 0x-1\n", "is not 0x and" },
	{ "[fleet]\nseed = 0x0\n", "line 2: seed 0 is no seed" },
	{ "[fleet]\nepoch = 0\n", "line 2: epoch: " },
	{ "[fleet]\nepoch = 140737488355328\n", "line 2: epoch: " },
	{ "[fleet]\nepoch = -1\n", "line 2: epoch: " },
	{ "[fleet]\nlease = 2s\n",
	  "line 2: unknown key 'lease': [fleet] has name, seed and epoch" },
	{ HEAD A "port = 1\n", "line 7: unknown key 'port': a member has url and weight" },
	{ HEAD "[fleet]\n", "line 5: section [fleet] is repeated: it began on line 1" },
	{ HEAD "[servers]\n", "line 5: unknown section: write [fleet] or [member NAME]" },
	{ HEAD "[fleet x]\n", "line 5: unknown section" },
	{ HEAD "[member]\n", "line 5: unknown section" },
	{ HEAD "[member a b]\n", "line 5: unknown section" },
	{ HEAD "[]\n", "line 5: unknown section" },
	{ HEAD "[member a\n", "line 5: write [fleet] or [member NAME] on a line of its own" },
	{ HEAD "[member a] url = x\n", "line 5: write [fleet] or [member NAME] on a line" },
	{ HEAD "[member a:b]\n", "line 5: 'a:b' can't be a name" },
	{ HEAD A B A, "line 9: member 'a' is there already, on line 5" },
	{ HEAD "[member a]\n" B, "line 5: member 'a' has no url" },
	{ HEAD B "[member a]\nweight = 1\n", "line 7: member 'a' has no url" },
	{ HEAD "[member a]\nurl = tcp://x\n", "line 6: tcp://x: " },
	{ HEAD "[member a]\nurl = softnic://a\n", "line 6: softnic://a: " },
	{ HEAD "[member a]\nurl = rdma://\n", "line 6: rdma://: " },
	{ HEAD "[member a]\nurl = rdma://a,\n",
	  "line 6: a URL is empty: remove one of the commas" },
	{ HEAD "[member a]\nurl = ,rdma://a\n", "line 6: a URL is empty" },
	{ HEAD "[member a]\nurl = rdma://a rdma://b\n", "two URLs after 'rdma://a': put a comma" },
	{ HEAD A "url = rdma://b\n", "line 7: url is repeated" },
	{ HEAD A "weight = -1\n", "line 7: weight: " },
	{ HEAD A "weight = 1000000001\n", "line 7: weight: " },
	{ HEAD A "weight = 0\n", "line 1: the weights of all members are 0" },
	{ HEAD A "weight\n", "line 7: write key = value" },
	{ HEAD A "# \x1b[2J\n", "line 7: a control character is in the line" },
	{ HEAD A "[member b]\nurl = softnic:///run/a.sock\n",
	  "line 8: a URL of member 'b' is on line 6 already" },
	/* The same port, said or not. */
	{ HEAD "[member x]\nurl = rdma://10.0.0.2\n" B,
	  "line 8: a URL of member 'b' is on line 6" },
	{ HEAD "[member x]\nurl = rdma://c,rdma://c:7471?retry_count=3\n",
	  "line 6: a URL of member 'x' is on line 6 already" },
};

static void each_mistake_has_its_error(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		assert_null(parse(mistakes[i].text));
		if (!strstr(why, mistakes[i].why))
			fail_msg("'%s' does not say '%s'", why, mistakes[i].why);
	}
}

/* The seed that an error proposes is good, and another one each time. */
static void a_seed_is_proposed(void **state)
{
	char text[256], first[64];
	struct fleet_map *map;

	(void)state;
	assert_null(parse("[fleet]\nname = x\nepoch = 1\n" A));
	snprintf(first, sizeof(first), "%s", strstr(why, "seed = 0x"));
	snprintf(text, sizeof(text), "[fleet]\nname = x\nepoch = 1\n%s\n" A, first);
	map = parse(text);
	assert_non_null(map);
	fleet_map_free(map);
	assert_null(parse("[fleet]\nname = x\nepoch = 1\n" A));
	assert_string_not_equal(first, strstr(why, "seed = 0x"));
}

/* As many members, and bytes of URLs, as a map can have; and one more. */
static void limits(void **state)
{
	size_t size = 64u * (FLEET_MEMBERS_MAX + 8), used;
	char *text = malloc(size);
	struct fleet_map *map;

	(void)state;
	assert_non_null(text);
	for (uint32_t more = 0; more < 2; more++) {
		used = (size_t)snprintf(text, size, HEAD);
		for (uint32_t i = 0; i < FLEET_MEMBERS_MAX + more; i++)
			used += (size_t)snprintf(text + used, size - used,
						 "[member m%u]\nurl = softnic:///%u\n", i, i);
		map = parse(text);
		assert_int_equal(!map, more);
		if (map)
			assert_int_equal(map->head->members, FLEET_MEMBERS_MAX);
		fleet_map_free(map);
	}
	assert_non_null(strstr(why, "there are too many members: 4096 at most"));
	for (int more = 0; more < 2; more++) {
		/* 7 of 64 bytes with commas after them, and one of 64 or 65 bytes. */
		used = (size_t)snprintf(text, size, HEAD "[member a]\nurl = ");
		for (int i = 0; i < 8; i++)
			used += (size_t)snprintf(text + used, size - used, "%srdma://%0*d",
						 i ? "," : "", (i < 7 ? 56 : 57) + more * (i == 7),
						 i);
		map = parse(text);
		assert_int_equal(!map, more);
		if (map)
			assert_int_equal(map->members[0]->urls_len, FLEET_URLS_MAX);
		fleet_map_free(map);
	}
	assert_non_null(strstr(why, "the URLs of a member have more than 512 bytes"));
	free(text);
}

/* Whoever can write the file decides where all keys are. */
static void a_file(void **state)
{
	char path[] = "/tmp/kvd-test-fleet-XXXXXX", message[64];
	int fd = mkstemp(path);
	struct fleet_map *map;

	(void)state;
	assert_true(fd >= 0);
	assert_true(write(fd, HEAD A, strlen(HEAD A)) == (ssize_t)strlen(HEAD A));
	assert_int_equal(static_map_load(&map, path, why), 0);
	fleet_map_free(map);
	assert_int_equal(fchmod(fd, 0622), 0);
	assert_int_equal(static_map_load(&map, path, why), -EINVAL);
	assert_null(map);
	assert_non_null(strstr(why, "chmod go-w"));
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_true(write(fd, "x\n", 2) == 2);
	assert_int_equal(static_map_load(&map, path, why), -EINVAL);
	snprintf(message, sizeof(message), "%s: line 7: write key = value", path);
	assert_string_equal(why, message);
	assert_int_equal(ftruncate(fd, STATIC_MAP_FILE_MAX + 1), 0);
	assert_int_equal(static_map_load(&map, path, why), -EINVAL);
	assert_non_null(strstr(why, "it is longer than 4 MiB"));
	close(fd);
	unlink(path);
	assert_int_equal(static_map_load(&map, path, why), -ENOENT);
	assert_non_null(strstr(why, "No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_map),
		cmocka_unit_test(generations),
		cmocka_unit_test(each_mistake_has_its_error),
		cmocka_unit_test(a_seed_is_proposed),
		cmocka_unit_test(limits),
		cmocka_unit_test(a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
