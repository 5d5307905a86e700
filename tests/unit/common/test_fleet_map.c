/* SPDX-License-Identifier: MIT */
/*
 * Tests of the map of a fleet (common/fleet/map.h): a client checks what it gets from a server,
 * which may lie, before it uses it. Each part is broken in turn, with a right sum and without.
 */
#include "common/fleet/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 3u
#define EPOCH 9u
#define ROWS_BYTES (FLEET_SHARDS * sizeof(uint64_t))

/* The bytes of a map, in a block of exactly their size. */
static uint8_t *bytes;
static size_t size;

static struct fleet_head *head(void)
{
	return (struct fleet_head *)(void *)bytes;
}

static struct fleet_member *member_at(uint32_t i)
{
	uint8_t *at = bytes + sizeof(struct fleet_head);

	while (i--)
		at += fleet_member_bytes((const struct fleet_member *)(const void *)at);
	return (struct fleet_member *)(void *)at;
}

static uint64_t *rows(void)
{
	return (uint64_t *)(void *)(bytes + size - ROWS_BYTES);
}

static void seal(void)
{
	head()->sum = fleet_map_sum(head(), size);
}

static int setup(void **state)
{
	static const char *const urls[MEMBERS] = { "x", "softnic:///run/kvd/kvd.sock",
						   "rdma://10.0.0.1:7471,rdma+tcp://10.0.0.1" };
	uint32_t i, member_bytes = 0;
	struct fleet_member *member;

	(void)state;
	for (i = 0; i < MEMBERS; i++)
		member_bytes += 48 + ((uint32_t)strlen(urls[i]) + 7) / 8 * 8;
	size = sizeof(struct fleet_head) + member_bytes + ROWS_BYTES;
	bytes = calloc(1, size);
	if (!bytes)
		return -1;
	*head() = (struct fleet_head){
		.magic = FLEET_MAP_MAGIC,
		.generation = 5,
		.epoch = EPOCH,
		.hash_seed = 6,
		.name = "fleet",
		.members = MEMBERS,
		.member_bytes = member_bytes,
	};
	for (i = 0; i < MEMBERS; i++) {
		member = member_at(i);
		member->id[0] = (char)('a' + i);
		member->weight = i;
		member->urls_len = (uint32_t)strlen(urls[i]);
		memcpy(member->urls, urls[i], member->urls_len);
	}
	for (i = 0; i < FLEET_SHARDS; i++)
		rows()[i] = fleet_row(i % MEMBERS, i % 2, i % (EPOCH + 1));
	seal();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(bytes);
	return 0;
}

/* NULL: it is a map. It is checked at an address that is not aligned, and right before the end. */
static const char *check(size_t length)
{
	uint8_t *odd = malloc(length + 1);
	struct fleet_map *map;
	const char *error;

	assert_non_null(odd);
	memcpy(odd + 1, bytes, length);
	error = fleet_map_make(&map, odd + 1, length);
	free(odd);
	assert_int_equal(!map, error != NULL);
	fleet_map_free(map);
	return error;
}

static void assert_bad(const char *why)
{
	const char *error = check(size);

	if (!error || !strstr(error, why))
		fail_msg("'%s' does not say '%s'", error ? error : "nothing", why);
}

/* A change of the map, which has a right sum. */
#define BAD(what, value, why)                                                                      \
	do {                                                                                       \
		const typeof(what) before = (what);                                                \
		(what) = (value);                                                                  \
		seal();                                                                            \
		assert_bad(why);                                                                   \
		(what) = before;                                                                   \
		seal();                                                                            \
		assert_null(check(size));                                                          \
	} while (0)

static void a_good_map(void **state)
{
	static const char absent[FLEET_NAME_MAX] = "d", b[FLEET_NAME_MAX] = "b";
	struct fleet_map *map;

	(void)state;
	assert_null(fleet_map_make(&map, bytes, size));
	assert_int_equal(map->bytes, size);
	assert_memory_equal(map->head, bytes, size);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		assert_int_equal(map->members[i]->weight, i);
		assert_int_equal(map->members[i]->id[0], 'a' + i);
		assert_true((uintptr_t)map->members[i] % 8 == 0);
	}
	assert_memory_equal(map->members[1]->urls, "softnic:///run/kvd/kvd.sock", 27);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		assert_int_equal(fleet_row_owner(map->rows[i]), i % MEMBERS);
		assert_int_equal(!(map->rows[i] & FLEET_OPEN), !(i % 2));
		assert_true(fleet_row_since(map->rows[i]) == i % (EPOCH + 1));
	}
	assert_int_equal(fleet_map_find(map, b), 1);
	assert_int_equal(fleet_map_find(map, absent), MEMBERS);
	fleet_map_free(map);
	fleet_map_free(NULL);
}

/* The shard's bits are neither the index's nor the tag's. */
static void shards_of_hashes(void **state)
{
	(void)state;
	for (unsigned int bit = 0; bit < 64; bit++)
		assert_int_equal(fleet_shard(1ull << bit),
				 bit >= 34 && bit < 48 ? 1u << (bit - 34) : 0);
	assert_int_equal(fleet_shard(UINT64_MAX), FLEET_SHARDS - 1);
}

static void a_row_holds_its_parts(void **state)
{
	const uint64_t most = fleet_row(FLEET_MEMBERS_MAX - 1, true, FLEET_EPOCH_MAX);

	(void)state;
	assert_int_equal(fleet_row_owner(most), FLEET_MEMBERS_MAX - 1);
	assert_true(fleet_row_since(most) == FLEET_EPOCH_MAX);
	assert_true(most & FLEET_OPEN);
	assert_false(most & FLEET_GIVEN);
	assert_int_equal(fleet_row_owner(most | FLEET_GIVEN), FLEET_MEMBERS_MAX - 1);
	assert_true(fleet_row_since(most | FLEET_GIVEN) == FLEET_EPOCH_MAX);
	assert_false(fleet_row(FLEET_MEMBERS_MAX - 1, false, FLEET_EPOCH_MAX) & FLEET_OPEN);
}

/* Whatever bit differs, the sum is another one, or a check before it finds it. */
static void every_bit_counts(void **state)
{
	(void)state;
	for (size_t at = 0; at < sizeof(struct fleet_head) + head()->member_bytes; at++)
		for (unsigned int bit = 0; bit < 8; bit++) {
			bytes[at] ^= (uint8_t)(1u << bit);
			assert_non_null(check(size));
			bytes[at] ^= (uint8_t)(1u << bit);
		}
	for (size_t at = size - ROWS_BYTES; at < size; at += 997) {
		bytes[at] ^= 1;
		assert_bad("wrong sum");
		bytes[at] ^= 1;
	}
	assert_null(check(size));
}

static void other_lengths(void **state)
{
	uint8_t *more = calloc(1, FLEET_MAP_BYTES_MAX + 8);
	struct fleet_map *map;

	(void)state;
	assert_non_null(more);
	memcpy(more, bytes, size);
	for (size_t n = 0; n < size; n += n < 200 ? 1 : 991)
		assert_non_null(check(n));
	assert_non_null(check(size - 8));
	assert_non_null(check(size - 1));
	for (size_t n = size + 1; n <= size + 16; n++)
		assert_string_equal(fleet_map_make(&map, more, n), "a map of a wrong length");
	assert_string_equal(fleet_map_make(&map, more, FLEET_MAP_BYTES_MAX + 8),
			    "a map of a wrong length");
	assert_null(map);
	free(more);
}

static void a_bad_head(void **state)
{
	(void)state;
	BAD(head()->magic, FLEET_MAP_MAGIC + 1, "no map of a fleet");
	BAD(head()->generation, 0, "impossible epoch");
	BAD(head()->epoch, 0, "impossible epoch");
	BAD(head()->epoch, FLEET_EPOCH_MAX + 1, "impossible epoch");
	BAD(head()->name[0], 0, "impossible name of the fleet");
	BAD(head()->name[2], '/', "impossible name of the fleet");
	BAD(head()->name[FLEET_NAME_MAX - 1], 'x', "impossible name of the fleet");
	BAD(head()->lease_ns, FLEET_LEASE_NS_MAX + 1, "impossible lease");
	BAD(head()->members, 0, "something after its members");
	BAD(head()->members, FLEET_MEMBERS_MAX + 1, "impossible number of members");
	BAD(head()->members, UINT32_MAX, "impossible number of members");
	BAD(head()->members, MEMBERS + 1, "malformed member");
	BAD(head()->members, FLEET_MEMBERS_MAX, "malformed member");
	BAD(head()->members, MEMBERS - 1, "something after its members");
	BAD(head()->member_bytes, head()->member_bytes - 8, "wrong length");
	BAD(head()->member_bytes, head()->member_bytes + 8, "wrong length");
	BAD(head()->member_bytes, 0, "wrong length");
	BAD(head()->member_bytes, UINT32_MAX, "wrong length");
}

static void bad_members(void **state)
{
	struct fleet_member *first = member_at(0), *last = member_at(MEMBERS - 1);

	(void)state;
	BAD(first->id[0], 0, "malformed member");
	BAD(first->id[1], ' ', "malformed member");
	BAD(last->id[FLEET_NAME_MAX - 1], 'x', "malformed member");
	BAD(first->urls_len, 0, "malformed member");
	BAD(last->urls_len, 0, "malformed member");
	BAD(last->urls_len, FLEET_URLS_MAX, "malformed member");
	BAD(last->urls_len, FLEET_URLS_MAX + 1, "malformed member");
	BAD(last->urls_len, UINT32_MAX, "malformed member");
	/* Of the same padded length, and of more and less. */
	BAD(last->urls_len, last->urls_len - 8, "something after its members");
	BAD(last->urls_len, last->urls_len + 8, "malformed member");
	BAD(last->urls[3], 0, "malformed member");
	BAD(last->flags, FLEET_MEMBER_FLAGS + 1, "malformed member");
	BAD(last->flags, 1u << 31 | FLEET_MEMBER_AWAY, "malformed member");
	BAD(last->id[0], first->id[0], "two members of one ID");
}

/* Each flag of a member, and all of them. */
static void flags_of_members(void **state)
{
	struct fleet_member *last = member_at(MEMBERS - 1);

	(void)state;
	for (uint32_t flags = 0; flags <= FLEET_MEMBER_FLAGS; flags++) {
		last->flags = flags;
		seal();
		assert_null(check(size));
	}
}

static void bad_rows(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < FLEET_SHARDS; i += FLEET_SHARDS - 1) {
		BAD(rows()[i], fleet_row(MEMBERS, true, 1), "impossible row");
		BAD(rows()[i], fleet_row(FLEET_NO_OWNER, true, 1), "impossible row");
		BAD(rows()[i], fleet_row(0, false, EPOCH + 1), "impossible row");
		BAD(rows()[i], UINT64_MAX, "impossible row");
	}
	rows()[3] = fleet_row(FLEET_NO_OWNER, false, 1);
	seal();
	assert_null(check(size));
	/* A newer epoch of the map makes room for newer rows. */
	rows()[7] = fleet_row(1, true, EPOCH + 1);
	head()->epoch = EPOCH + 1;
	seal();
	assert_null(check(size));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_good_map),	CASE(shards_of_hashes), CASE(a_row_holds_its_parts),
		CASE(every_bit_counts), CASE(other_lengths),	CASE(a_bad_head),
		CASE(bad_members),	CASE(flags_of_members), CASE(bad_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
