/* SPDX-License-Identifier: MIT */
/* The region: what it holds when it is new, how large its index gets, and that it is sealed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/sum.h"
#include "common/wire.h"
#include "server/region.h"

#define BYTES ((uint64_t)4 << 20)

static struct region region;

static int setup(void **state)
{
	(void)state;
	return region_create(&region, BYTES, HUGEPAGES_OFF, 5, 1000);
}

static int teardown(void **state)
{
	(void)state;
	region_destroy(&region);
	return 0;
}

static void superblock(void **state)
{
	const struct superblock *super = region_superblock(&region);
	const uint8_t *byte = super->zero;

	(void)state;
	assert_true(super->magic == LAYOUT_MAGIC);
	assert_int_equal(super->abi, LAYOUT_ABI);
	assert_int_equal(super->reserved, 0);
	assert_memory_equal(&super->geometry, &region.geometry, sizeof(region.geometry));
	assert_null(geometry_check(&super->geometry));
	assert_true(super->geometry.region_bytes == BYTES);
	assert_true(super->geometry.value_max == 1000);
	assert_int_equal(super->geometry.level, 5);
	assert_int_equal(super->geometry.level_base, 5);
	assert_true(super->geometry.split == 0);
	assert_true(super->geometry.segments[0] == sizeof(*super));
	for (unsigned int i = 1; i < SEGMENTS_MAX; i++)
		assert_true(super->geometry.segments[i] == 0);
	assert_true(super->clock_s == 0 && super->items == 0);
	for (; byte < (const uint8_t *)(super + 1); byte++)
		assert_int_equal(*byte, 0);
	region_tick(&region, 1234567890123, 77);
	assert_true(super->clock_s == 1234567890123 && super->items == 77);
}

static void an_empty_index_verifies(void **state)
{
	const struct geometry *g = &region.geometry;
	const struct bucket *bucket;
	uint64_t i, j, offset = 0;

	(void)state;
	for (i = 0; i < geometry_buckets(g); i++) {
		offset = geometry_bucket_offset(g, i);
		bucket = region_at(&region, offset);
		assert_true(bucket->sum == bucket_sum(bucket, g->incarnation, offset));
		assert_int_equal(bucket->level, 5);
		assert_int_equal(bucket->overflow, 0);
		assert_int_equal(bucket->lock, 0);
		for (j = 0; j < BUCKET_SLOTS; j++)
			assert_true(bucket->slots[j] == 0);
	}
	assert_int_equal(i, 32);
	assert_true(region.heap >= offset + BUCKET_BYTES);
	assert_true(region.heap % 4096 == 0);
	assert_true(region.heap == 8192);
	for (offset = region.heap; offset < BYTES; offset++)
		assert_int_equal(region.base[offset], 0);
}

static void two_regions_differ(void **state)
{
	struct region other;

	(void)state;
	assert_int_equal(region_create(&other, BYTES, HUGEPAGES_OFF, 5, 1000), 0);
	assert_true(other.geometry.incarnation != region.geometry.incarnation);
	assert_true(other.geometry.hash_seed != region.geometry.hash_seed);
	region_destroy(&other);
}

/* Guarantee D on softnic: who has the file can read it and nothing more. */
static void sealed(void **state)
{
	uint8_t *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, region.fd, 0);
	char path[64];
	int fd;

	(void)state;
	assert_true(map != MAP_FAILED);
	assert_memory_equal(map, region.base, 4096);
	/* Read-only for good. */
	assert_int_equal(mprotect(map, BYTES, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(errno, EACCES);
	munmap(map, BYTES);
	assert_true(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0) ==
		    MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(pwrite(region.fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(region.fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(region.fd, 2 * BYTES), -1);
	assert_int_equal(fallocate(region.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
			 -1);
	/* Opened anew through /proc, it is the same file with the same seals. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", region.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		assert_true(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
			    MAP_FAILED);
		assert_int_equal(pwrite(fd, "x", 1, 0), -1);
		close(fd);
	}
	/* The server itself still writes. */
	region.base[4096] ^= 1;
	region.base[4096] ^= 1;
	assert_true(fcntl(region.fd, F_GETFD) & FD_CLOEXEC);
}

/* The least index that holds the keys at a fill of 65 %. */
static void index_levels(void **state)
{
	const uint64_t keys[] = { 1,	2,	 9,	    10,		100,	   1000,
				  4096, 1000000, 305000000, 1ull << 32, 1ull << 36 };
	uint64_t holds;
	uint32_t level;

	(void)state;
	assert_int_equal(index_level(0), 0);
	for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		level = index_level(keys[i]);
		holds = (1ull << level) * BUCKET_SLOTS * 65 / 100;
		assert_true(holds >= keys[i]);
		assert_true(!level || holds / 2 <= keys[i] + BUCKET_SLOTS);
	}
}

/* From 2^25 buckets on an index takes 4 GiB: no 32-bit number holds its size. */
static void large_indexes(void **state)
{
	(void)state;
	assert_true(index_bytes(0) == 128);
	assert_true(index_bytes(24) == 2ull << 30);
	assert_true(index_bytes(25) == 4ull << 30);
	assert_true(index_bytes(32) == 512ull << 30);
}

static void an_index_too_large(void **state)
{
	struct region other;

	(void)state;
	/* Half of the region is the most. */
	assert_int_equal(region_create(&other, 1 << 20, HUGEPAGES_OFF, 13, 0), -EINVAL);
	assert_null(other.base);
	assert_int_equal(other.fd, -1);
	region_destroy(&other);
	assert_int_equal(region_create(&other, 1 << 20, HUGEPAGES_OFF, 12, 0), 0);
	region_destroy(&other);
	region_destroy(&other);
}

static void odd_sizes_are_rounded_up(void **state)
{
	struct region other;

	(void)state;
	assert_int_equal(region_create(&other, (1 << 20) + 1, HUGEPAGES_OFF, 0, 0), 0);
	assert_true(other.bytes == (1 << 20) + (uint64_t)sysconf(_SC_PAGESIZE));
	assert_true(other.geometry.region_bytes == other.bytes);
	assert_true(other.page_bytes == (uint64_t)sysconf(_SC_PAGESIZE));
	region_destroy(&other);
}

/* More than any host has: required, they are an error; else normal pages do. */
static void hugepages(void **state)
{
	struct region other;
	int err;

	(void)state;
	err = region_create(&other, 64ull << 40, HUGEPAGES_REQUIRE, 0, 0);
	assert_int_equal(err, -ENOMEM);
	assert_null(other.base);
	err = region_create(&other, 4 << 20, HUGEPAGES_REQUIRE, 0, 0);
	if (!err) {
		assert_int_equal(other.page_bytes, 2 << 20);
		region_destroy(&other);
	} else {
		assert_int_equal(err, -ENOMEM);
	}
	assert_int_equal(region_create(&other, 3 << 20, HUGEPAGES_AUTO, 0, 0), 0);
	assert_true(other.bytes % other.page_bytes == 0);
	if (err)
		assert_true(other.page_bytes == (uint64_t)sysconf(_SC_PAGESIZE));
	region_destroy(&other);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(superblock),
		CASE(an_empty_index_verifies),
		CASE(two_regions_differ),
		CASE(sealed),
		cmocka_unit_test(index_levels),
		cmocka_unit_test(large_indexes),
		cmocka_unit_test(an_index_too_large),
		cmocka_unit_test(odd_sizes_are_rounded_up),
		cmocka_unit_test(hugepages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
