/* SPDX-License-Identifier: MIT */
/*
 * Tests of the region: what a new one holds, how large its index may get, that it is sealed, and
 * that its memory is what the options ask for, or the log says why not. As root, huge pages are
 * configured for the duration of a case where the kernel provides them; then the old number is
 * restored.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <numaif.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/sum.h"
#include "common/util/large_page.h"
#include "common/util/log.h"
#include "common/wire.h"
#include "server/store/hugepages.h"
#include "server/store/prefault.h"
#include "server/store/region.h"
#include "server/worker/nic.h"
#include "tests/support/dumped.h"
#include "tests/support/log_fixture.h"

/* Linux 5.14 and 6.1; libcs are older. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define BYTES ((uint64_t)4 << 20)

static struct region region;

/* A region without NUMA policy and huge pages, with 2^level buckets. */
static int create(struct region *r, uint64_t bytes, uint32_t level, uint64_t value_max)
{
	const struct store_options options = {
		.bytes = bytes, .level = level, .value_max = value_max, .hugepages = HUGEPAGES_OFF
	};

	return region_create(r, &options);
}

static int setup(void **state)
{
	(void)state;
	return create(&region, BYTES, 5, 1000);
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
	assert_true(super->clock_s == 0 && super->items == 0);
	for (; byte < (const uint8_t *)(super + 1); byte++)
		assert_int_equal(*byte, 0);
	region_tick(&region, 1234567890123, 77);
	assert_true(super->clock_s == 1234567890123 && super->items == 77);
}

/* Segments follow each other as long as they fit; the buckets are not touched. */
static void segments(void **state)
{
	const struct geometry *g = &region.geometry;
	struct geometry grown = *g;
	uint64_t end = sizeof(struct superblock) + (32u << 7);
	unsigned int k;

	(void)state;
	for (k = 1; k < SEGMENTS_MAX && 2 * end - sizeof(struct superblock) + REGION_PAD <= BYTES;
	     k++) {
		assert_true(g->segments[k] == end);
		end = 2 * end - sizeof(struct superblock);
	}
	/* 2 MiB of index fit into 4 MiB beside the superblock, 4 MiB do not. */
	assert_true(end == sizeof(struct superblock) + (2 << 20));
	for (; k < SEGMENTS_MAX; k++)
		assert_true(g->segments[k] == 0);
	/* At its largest, the geometry is still valid to a client, and contiguous. */
	grown.level = 14;
	grown.sum = geometry_sum(&grown);
	assert_null(geometry_check(&grown));
	for (uint64_t i = 0; i < geometry_buckets(&grown); i++)
		assert_true(geometry_bucket_offset(&grown, i) ==
			    sizeof(struct superblock) + i * BUCKET_BYTES);
	grown.level = 15;
	grown.sum = geometry_sum(&grown);
	assert_non_null(geometry_check(&grown));
	for (uint64_t at = sizeof(struct superblock); at < BYTES; at++)
		assert_int_equal(region.base[at], 0);
}

#define EXTENT ((uint64_t)2 << 20)

static const struct store_options extents_options = {
	.bytes = 2 * EXTENT,
	.bytes_max = EXTENTS_MAX * EXTENT,
	.level = 5,
	.value_max = 1000,
	.hugepages = HUGEPAGES_OFF,
	.prefault = true,
};

/* Whether the byte at this address can be read. */
static bool can_read(const void *p)
{
	int fds[2];
	bool mapped;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	mapped = write(fds[1], p, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return mapped;
}

/* Only the first extents are mapped and in use; each has a sealed file of its own. */
static void assert_extents(const struct region *r, unsigned int mapped, unsigned int used)
{
	struct stat st, first;

	assert_int_equal(r->extent_count, mapped);
	assert_int_equal(region_extents(r), used);
	assert_int_equal(fstat(r->extents[0].fd, &first), 0);
	for (unsigned int k = 0; k < EXTENTS_MAX; k++) {
		const struct extent *extent = &r->extents[k];

		assert_int_equal(can_read(r->base + k * EXTENT), k < mapped);
		assert_int_equal(can_read(r->base + (k + 1) * EXTENT - 1), k < mapped);
		if (k >= mapped)
			continue;
		assert_true(extent->offset == 0);
		assert_int_equal(fstat(extent->fd, &st), 0);
		assert_true(st.st_size == (off_t)EXTENT && st.st_blocks * 512 == (off_t)EXTENT);
		assert_true(!k || st.st_ino != first.st_ino);
		assert_int_equal(pwrite(extent->fd, "x", 1, 0), -1);
		assert_int_equal(errno, EPERM);
	}
}

static void extents(void **state)
{
	struct store_options more = extents_options;
	_Atomic bool cancel = true;
	struct region other;
	int fd;

	(void)state;
	assert_int_equal(region_create(&other, &extents_options), 0);
	assert_true(other.geometry.region_bytes == EXTENTS_MAX * EXTENT);
	assert_null(geometry_check(&other.geometry));
	assert_extents(&other, 2, 2);
	assert_int_equal(region_extend(&other, &extents_options, 5), 0);
	assert_extents(&other, 5, 2);
	/* What fails changes nothing. */
	more.cancel = &cancel;
	assert_int_equal(region_extend(&other, &more, 9), -ECANCELED);
	assert_extents(&other, 5, 2);
	other.bytes = 4 * EXTENT;
	fd = other.extents[4].fd;
	region_cut(&other);
	assert_extents(&other, 4, 4);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(region_extend(&other, &extents_options, EXTENTS_MAX), 0);
	assert_extents(&other, EXTENTS_MAX, 4);
	region_destroy(&other);
}

static void sizes_of_extents(void **state)
{
	static const struct {
		uint64_t bytes, bytes_max;
		const char *says;
	} cases[] = {
		{ 2 << 20, 40 << 20,
		  "memory.max (40 MiB) must be a multiple of 16 large pages (32 MiB): "
		  "choose 32 MiB or 64 MiB" },
		{ 2 << 20, 1 << 20, "choose 32 MiB or 64 MiB" },
		{ 5 << 20, 32 << 20,
		  "memory.size (5 MiB) must be a multiple of memory.max / 16 (2 MiB): "
		  "choose 4 MiB or 6 MiB" },
		{ 1 << 20, 32 << 20, "choose 2 MiB or 4 MiB" },
		{ 64 << 20, 32 << 20,
		  "memory.size (64 MiB) is above memory.max (32 MiB): lower memory.size or raise "
		  "memory.max" },
		{ 32ull << 30, 1ull << 40,
		  "memory.max (1 TiB) is above 512 GiB, the most that a region can have" },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct store_options options = extents_options;
		struct region other;

		options.bytes = cases[i].bytes;
		options.bytes_max = cases[i].bytes_max;
		log_release();
		assert_int_equal(test_log_begin(), 0);
		assert_int_equal(region_check(&options), -EINVAL);
		assert_logged(cases[i].says);
		assert_int_equal(region_create(&other, &options), -EINVAL);
	}
	assert_int_equal(region_check(&extents_options), 0);
}

static void geometry_is_published(void **state)
{
	const struct superblock *super = region_superblock(&region);

	(void)state;
	region.geometry.split = 3;
	region.geometry.level = 6;
	assert_int_equal(super->geometry.level, 5);
	region_publish_geometry(&region);
	assert_memory_equal(&super->geometry, &region.geometry, sizeof(region.geometry));
	assert_true(super->geometry.split == 3);
	assert_null(geometry_check(&super->geometry));
}

static void described(void **state)
{
	char text[256];

	(void)state;
	region_describe(BYTES, 6, text, sizeof(text));
	assert_string_equal(text, "region 4 MiB = superblock 4 KiB + index (grows from 8 KiB to at "
				  "most 2 MiB) + items + pad 4 KiB");
	/* Room for exactly 4 MiB of index, and for one byte less */
	region_describe(BYTES + 8192, 7, text, sizeof(text));
	assert_non_null(strstr(text, "(grows from 16 KiB to at most 4 MiB)"));
	region_describe(BYTES + 8191, 7, text, sizeof(text));
	assert_non_null(strstr(text, "(grows from 16 KiB to at most 2 MiB)"));
}

static void two_regions_differ(void **state)
{
	static const struct sum_key none;
	struct region other;

	(void)state;
	assert_int_equal(create(&other, BYTES, 5, 1000), 0);
	assert_true(other.geometry.incarnation != region.geometry.incarnation);
	assert_true(other.geometry.hash_seed != region.geometry.hash_seed);
	assert_memory_not_equal(&other.sum_key, &region.sum_key, sizeof(other.sum_key));
	/* All of it is random, and nothing of it stays behind. */
	for (size_t at = 0; at < SUM_KEY_BYTES; at += 16)
		assert_memory_not_equal(region.sum_key.secret + at, none.secret, 16);
	region_destroy(&other);
	assert_memory_equal(&other.sum_key, &none, sizeof(none));
}

/* OWNER-4: members hash keys alike. */
static void a_seed_that_is_given(void **state)
{
	const struct store_options options = {
		.bytes = BYTES,
		.level = 5,
		.value_max = 1000,
		.hugepages = HUGEPAGES_OFF,
		.hash_seed = 0x1234567890abcdef,
	};
	struct region other;

	(void)state;
	assert_int_equal(region_create(&other, &options), 0);
	assert_true(other.geometry.hash_seed == options.hash_seed);
	assert_null(geometry_check(&other.geometry));
	region_destroy(&other);
}

/* Guarantee D on softnic: a process that has the file can only read it. */
static void sealed(void **state)
{
	uint8_t *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, region.extents[0].fd, 0);
	char path[64];
	int fd;

	(void)state;
	assert_true(map != MAP_FAILED);
	assert_memory_equal(map, region.base, 4096);
	/* The mapping can't be made writable. */
	assert_int_equal(mprotect(map, BYTES, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(errno, EACCES);
	munmap(map, BYTES);
	assert_true(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, region.extents[0].fd,
			 0) == MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(pwrite(region.extents[0].fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(region.extents[0].fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(region.extents[0].fd, 2 * BYTES), -1);
	assert_int_equal(fallocate(region.extents[0].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   0, 4096),
			 -1);
	/* Opened again through /proc, the file has the same seals. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", region.extents[0].fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		assert_true(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
			    MAP_FAILED);
		assert_int_equal(pwrite(fd, "x", 1, 0), -1);
		close(fd);
	}
	/* The server's own mapping is still writable. */
	region.base[4096] ^= 1;
	region.base[4096] ^= 1;
	assert_true(fcntl(region.extents[0].fd, F_GETFD) & FD_CLOEXEC);
}

/* The smallest index that holds the keys at a fill of 67 %. */
static void index_levels(void **state)
{
	const uint64_t keys[] = { 1,	   600,	      601,	  1000,	     4096,
				  1000000, 314000000, 1ull << 32, 1ull << 36 };
	uint64_t holds;
	uint32_t level;

	(void)state;
	assert_int_equal(index_level(0), INDEX_LEVEL_MIN);
	assert_int_equal(index_level(1), 6);
	assert_int_equal(index_level(100), 6);
	assert_int_equal(index_level(1000), 7);
	for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		level = index_level(keys[i]);
		holds = (1ull << level) * BUCKET_SLOTS * 67 / 100;
		assert_true(holds >= keys[i]);
		assert_true(level == INDEX_LEVEL_MIN || holds / 2 <= keys[i] + BUCKET_SLOTS);
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
	/* The index may begin with half of the region. */
	assert_int_equal(create(&other, 1 << 20, 13, 0), -EINVAL);
	assert_null(other.base);
	assert_int_equal(other.extent_count, 0);
	region_destroy(&other);
	assert_int_equal(create(&other, 1 << 20, 12, 0), 0);
	region_destroy(&other);
	region_destroy(&other);
}

static void odd_sizes_are_rounded_up(void **state)
{
	struct region other;

	(void)state;
	assert_int_equal(create(&other, (1 << 20) + 1, 0, 0), 0);
	assert_true(other.bytes == (1 << 20) + (uint64_t)sysconf(_SC_PAGESIZE));
	assert_true(other.geometry.region_bytes == other.bytes);
	assert_true(other.page_bytes == (uint64_t)sysconf(_SC_PAGESIZE));
	region_destroy(&other);
}

#define POOL_2M "/sys/kernel/mm/hugepages/hugepages-2048kB"
#define POOL_1G "/sys/kernel/mm/hugepages/hugepages-1048576kB"

static int log_setup(void **state)
{
	(void)state;
	return test_log_begin();
}

static uint64_t pool_read(const char *pool, const char *name)
{
	char path[128];
	uint64_t count = 0;
	FILE *in;

	snprintf(path, sizeof(path), "%s/%s", pool, name);
	in = fopen(path, "re");
	if (in && fscanf(in, "%" SCNu64, &count) != 1)
		count = 0;
	if (in)
		fclose(in);
	return count;
}

/*
 * The host's pool of hugepages, changed for a case. All tests that change it take turns by a lock
 * on the file of 2 MiB pages.
 */
static struct pool {
	const char *folder;
	uint64_t before;
	int lock; /* -1: not begun */
} pool = { .lock = -1 };

static bool pool_set(uint64_t count)
{
	char path[128];
	FILE *out;

	snprintf(path, sizeof(path), "%s/nr_hugepages", pool.folder);
	out = fopen(path, "we");
	if (!out)
		return false;
	fprintf(out, "%" PRIu64, count);
	return fclose(out) == 0 && pool_read(pool.folder, "nr_hugepages") == count;
}

/*
 * Makes the pool have exactly @count pages, all free, until the case ends. Skips the case if it
 * can't.
 */
static void pool_begin(const char *folder, uint64_t count)
{
	int lock = open(POOL_2M "/nr_hugepages", O_RDONLY | O_CLOEXEC);
	uint64_t before;

	if (lock < 0 || flock(lock, LOCK_EX)) {
		print_message("skipped: " POOL_2M ": %s\n", strerror(errno));
		skip();
	}
	before = pool_read(folder, "nr_hugepages");
	pool = (struct pool){ folder, before, lock };
	if (pool_read(folder, "free_hugepages") != before || !pool_set(count)) {
		print_message("skipped: the kernel does not give %" PRIu64 " pages in %s\n", count,
			      folder);
		skip();
	}
}

/* Restores the pool, also after a case that failed. */
static int pool_end(void)
{
	bool ok = pool.lock < 0 || pool_read(pool.folder, "nr_hugepages") == pool.before ||
		  pool_set(pool.before);

	if (pool.lock >= 0)
		close(pool.lock);
	pool.lock = -1;
	return ok ? 0 : -1;
}

static int log_teardown(void **state)
{
	(void)state;
	log_release();
	return pool_end();
}

static int create_pages(struct region *r, uint64_t bytes, enum hugepages_mode mode,
			const char *numa)
{
	const struct store_options options = {
		.bytes = bytes, .hugepages = mode, .numa = numa, .level = 6
	};

	return region_create(r, &options);
}

/* Pages of the mapping that are allocated, of @pages. */
static uint64_t resident(const struct region *r, uint64_t pages)
{
	unsigned char *in_memory = malloc(pages);
	uint64_t count = 0;

	assert_non_null(in_memory);
	assert_int_equal(mincore(r->base, r->bytes, in_memory), 0);
	for (uint64_t i = 0; i < pages; i++)
		count += in_memory[i] & 1;
	free(in_memory);
	return count;
}

static void create_prefaulted(struct region *r, uint64_t bytes, enum hugepages_mode mode,
			      const char *numa)
{
	const struct store_options options = {
		.bytes = bytes, .hugepages = mode, .numa = numa, .level = 6, .prefault = true
	};

	assert_int_equal(region_create(r, &options), 0);
}

/* Values are in core dumps only where the administrator wants that. */
static void dumped(void **state)
{
	static const enum hugepages_mode modes[] = { HUGEPAGES_OFF, HUGEPAGES_AUTO };
	struct region other;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		const struct store_options options = {
			.bytes = 8 << 20, .hugepages = modes[i & 1], .level = 6, .dump = i & 2
		};

		assert_int_equal(region_create(&other, &options), 0);
		assert_true(is_dumped(other.base) == options.dump);
		assert_true(is_dumped(other.base + options.bytes - 1) == options.dump);
		region_destroy(&other);
	}
}

/* All is allocated, and still zero; a client's mapping is aligned for large pages. */
static void prefaulted(void **state)
{
	static const enum hugepages_mode modes[] = { HUGEPAGES_OFF, HUGEPAGES_AUTO };
	const uint64_t bytes = ((uint64_t)8 << 20) + 4096, pages = bytes / 4096;
	struct region other;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		create_prefaulted(&other, bytes, modes[i], NULL);
		assert_int_equal(other.page_bytes, 4096);
		assert_true(resident(&other, pages) == pages);
		assert_true((uintptr_t)other.base % LARGE_PAGE_BYTES == 0);
		for (uint64_t at = sizeof(struct superblock); at < bytes; at++)
			assert_int_equal(other.base[at], 0);
		/* The last page is no whole large one. */
		assert_true(other.large_bytes <= bytes - 4096);
		if (modes[i] == HUGEPAGES_OFF)
			assert_true(other.large_bytes == 0);
		else if (other.large_bytes < bytes - 4096)
			/* This kernel can't: then it is said. */
			assert_logged(" (the kernel makes no large ones: ");
		else
			assert_int_equal(test_log_lines(), 0);
		region_destroy(&other);
	}
	assert_int_equal(create_pages(&other, bytes, HUGEPAGES_AUTO, NULL), 0);
	assert_true(resident(&other, pages) < pages);
	assert_true(other.large_bytes == 0);
	region_destroy(&other);
}

/* A job that allocates the first @bytes of a region. */
static struct prefault prefault_of(const struct region *r, uint64_t bytes, uint32_t threads)
{
	return (struct prefault){
		.base = r->base,
		.bytes = bytes,
		.page_bytes = r->page_bytes,
		.fd = r->extents[0].fd,
		.nodes = 1,
		.threads = threads,
	};
}

/* Several threads, chunks of which the last is short, and a kernel without MADV_POPULATE_WRITE. */
static void prefault_ways(void **state)
{
	const uint64_t bytes = ((uint64_t)257 << 20) + 8192;
	struct region other;
	struct stat file;

	(void)state;
	for (uint32_t way = 0; way < 4; way++) {
		assert_int_equal(create_pages(&other, bytes, HUGEPAGES_OFF, NULL), 0);
		struct prefault prefault = prefault_of(&other, way < 2 ? bytes : 4096 * 100,
						       way % 2 ? 1 : 3);

		prefault.no_populate = way >= 2;
		assert_int_equal(prefault_run(&prefault), 0);
		/* Not mincore(2), for which pages are not there until they are used. */
		assert_int_equal(fstat(other.extents[0].fd, &file), 0);
		assert_true((uint64_t)file.st_blocks * 512 >= prefault.bytes);
		region_destroy(&other);
	}
}

/* Threads that can still be started; -1: any number. */
static int threads_left = -1;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __real_madvise(void *addr, size_t length, int advice);
int __wrap_madvise(void *addr, size_t length, int advice);

/* The second of two threads with a part each ends last, whatever the scheduler does. */
static struct {
	uint8_t *first, *second; /* NULL: off */
	void *(*run)(void *);
	bool not_large; /* the first part */
	atomic_bool begun;
	atomic_uint ended;
} parts;

static void *part_run(void *arg)
{
	void *result = parts.run(arg);

	atomic_fetch_add(&parts.ended, 1);
	return result;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	if (!threads_left)
		return EAGAIN;
	threads_left -= threads_left > 0;
	if (!parts.run) /* the first one may be running */
		parts.run = run;
	return __real_pthread_create(thread, attr, parts.first ? part_run : run, arg);
}

int __wrap_madvise(void *addr, size_t length, int advice)
{
	bool populates = advice == MADV_POPULATE_WRITE;

	if (populates && parts.first && addr == parts.first)
		while (!atomic_load(&parts.begun))
			sched_yield();
	if (populates && parts.second && addr == parts.second) {
		atomic_store(&parts.begun, true);
		while (!atomic_load(&parts.ended))
			sched_yield();
	}
	if (parts.not_large && advice == MADV_COLLAPSE && addr == parts.first) {
		errno = ENOMEM;
		return -1;
	}
	return __real_madvise(addr, length, advice);
}

static int prefault_in_order(struct prefault *prefault)
{
	int result;

	prefault->threads = 2;
	parts.first = prefault->base;
	parts.second = prefault->base + prefault->bytes / 2;
	parts.run = NULL;
	parts.begun = false;
	parts.ended = 0;
	result = prefault_run(prefault);
	parts.first = parts.second = NULL;
	return result;
}

/* The threads that could be started, or this one, do the work of those that could not. */
static void prefault_with_fewer_threads(void **state)
{
	const uint64_t bytes = 16 * BYTES;
	struct region other;
	struct stat file;

	(void)state;
	for (int started = 0; started <= 2; started++) {
		assert_int_equal(create_pages(&other, bytes, HUGEPAGES_OFF, NULL), 0);
		struct prefault prefault = prefault_of(&other, bytes, 3);

		threads_left = started;
		assert_int_equal(prefault_run(&prefault), 0);
		assert_int_equal(threads_left, 0);
		threads_left = -1;
		assert_int_equal(fstat(other.extents[0].fd, &file), 0);
		assert_true((uint64_t)file.st_blocks * 512 >= bytes);
		region_destroy(&other);
	}
}

/*
 * A page that can't be had in the first of two parts: that the other can be allocated later does
 * not make up for it. Not a hole, which another mapping could fill.
 */
static void prefault_fails_in_part(void **state)
{
	int nothing = memfd_create("nothing", MFD_CLOEXEC);
	struct prefault prefault;
	struct region other;

	(void)state;
	assert_true(nothing >= 0);
	assert_int_equal(create_pages(&other, 4 * BYTES, HUGEPAGES_OFF, NULL), 0);
	prefault = prefault_of(&other, 4 * BYTES, 2);
	assert_true(mmap(other.base, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, nothing, 0) == other.base);
	assert_int_equal(prefault_in_order(&prefault), -ENOMEM);
	region_destroy(&other);
	close(nothing);
}

/* A part with large pages does not hide why another part has none. */
static void large_in_part(void **state)
{
	const uint64_t bytes = 32 * BYTES; /* two pieces */
	struct prefault prefault;
	struct region other;

	(void)state;
	assert_int_equal(create_pages(&other, bytes, HUGEPAGES_OFF, NULL), 0);
	prefault = prefault_of(&other, bytes, 2);
	prefault.large = parts.not_large = true;
	assert_int_equal(prefault_in_order(&prefault), 0);
	parts.not_large = false;
	assert_int_equal(prefault.large_err, -ENOMEM);
	region_destroy(&other);
}

/* Memory that is not there is an error, not a signal. */
static void prefault_fails(void **state)
{
	struct region other;

	(void)state;
	assert_int_equal(create_pages(&other, BYTES, HUGEPAGES_OFF, NULL), 0);
	for (int way = 0; way < 2; way++) {
		/* Past the end of the file. */
		struct prefault prefault = {
			.base = other.base,
			.bytes = 2 * BYTES,
			.fd = other.extents[0].fd,
			.nodes = 1,
			.no_populate = way,
		};
		assert_true(prefault_run(&prefault) < 0);
	}
	region_destroy(&other);
}

/* Interleaved: large pages take turns, as normal pages do. */
static void large_pages_take_turns(void **state)
{
	const uint32_t pages = (uint32_t)(LARGE_PAGE_BYTES / (uint64_t)sysconf(_SC_PAGESIZE));

	(void)state;
	for (uint32_t nodes = 1; nodes <= 8; nodes++)
		for (uint64_t large = 0; large < 64; large++) {
			uint32_t first = prefault_first_page(large, nodes);

			assert_true(first < nodes && first < pages);
			assert_int_equal((large * pages + first) % nodes, large % nodes);
		}
}

/* Before anything is done, the check finds what would fail. */
static void checked(void **state)
{
	struct store_options options = { .bytes = BYTES, .level = 6, .prefault = true };

	(void)state;
	assert_int_equal(region_check(&options), 0);
	assert_int_equal(test_log_lines(), 0);
	options.bytes = 512ull << 30;
	assert_int_equal(region_check(&options), -ENOMEM);
	assert_logged(" error memory.size: kvd needs 528384 MiB, 524288 MiB of region and about "
		      "4096 MiB beside it, and can have ");
	options.bytes_beside = 3ull << 30;
	assert_int_equal(region_check(&options), -ENOMEM);
	assert_logged(" and about 7168 MiB beside it, and can have ");
	options.hugepages = HUGEPAGES_REQUIRE;
	assert_int_equal(region_check(&options), -ENOMEM);
	assert_logged(" error region: memory.hugepages = require: too few huge pages: ");
	options = (struct store_options){ .bytes = BYTES, .level = 20 };
	assert_int_equal(region_check(&options), -EINVAL);
	options = (struct store_options){ .bytes = BYTES, .level = 6, .numa = "999" };
	assert_true(region_check(&options) < 0);
	assert_int_equal(test_log_lines(), 5);
	/* Nor is a region created that can't be had. */
	options = (struct store_options){ .bytes = 512ull << 30, .level = 6 };
	struct region other;
	assert_int_equal(region_create(&other, &options), -ENOMEM);
	assert_null(other.base);
}

/* Too few huge pages are an error if they are required. */
/* The lowest descriptor that is not in use. */
static int free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static void more_than_any_host_has(void **state)
{
	int fd = free_fd();
	struct region other;

	(void)state;
	assert_int_equal(create_pages(&other, 64ull << 40, HUGEPAGES_REQUIRE, NULL), -ENOMEM);
	assert_null(other.base);
	assert_int_equal(other.extent_count, 0);
	assert_int_equal(free_fd(), fd);
	assert_int_equal(test_log_lines(), 1);
	assert_logged(" error region: memory.hugepages = require: too few huge pages: "
		      "33554432 x 2 MiB needed (");
	assert_logged("; they are required; ");
}

static void hugepages_off(void **state)
{
	struct region other;

	(void)state;
	assert_int_equal(create_pages(&other, 4 << 20, HUGEPAGES_OFF, "default"), 0);
	assert_true(other.page_bytes == (uint64_t)sysconf(_SC_PAGESIZE));
	assert_string_equal(other.numa, "default");
	region_destroy(&other);
	assert_int_equal(test_log_lines(), 0);
}

static void pages_are_counted(void **state)
{
	(void)state;
	assert_true(hugepages_to_configure(0, 0, 512) == 512);
	assert_true(hugepages_to_configure(64, 10, 512) == 566);
	assert_true(hugepages_to_configure(64, 64, 512) == 512);
	/* Enough are free, but not on the right nodes. */
	assert_true(hugepages_to_configure(64, 64, 64) == 128);
}

/* As with normal pages: sealed, readable through another mapping, rounded up to whole pages. */
static void assert_of_2m(struct region *other, uint64_t pages)
{
	uint8_t *map;

	assert_int_equal(other->page_bytes, 2 << 20);
	assert_true(other->bytes == pages << 21);
	assert_true(other->geometry.region_bytes == other->bytes);
	assert_int_equal(
		pool_read(POOL_2M, "free_hugepages") + pool_read(POOL_2M, "surplus_hugepages"), 7);
	other->base[other->bytes - 1] = 77;
	map = mmap(NULL, other->bytes, PROT_READ, MAP_SHARED, other->extents[0].fd, 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(map[other->bytes - 1], 77);
	munmap(map, other->bytes);
	assert_true(mmap(NULL, other->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			 other->extents[0].fd, 0) == MAP_FAILED);
	assert_int_equal(ftruncate(other->extents[0].fd, 2 << 20), -1);
	region_destroy(other);
	assert_int_equal(test_log_lines(), 0);
}

static void pages_of_2m(void **state)
{
	static const enum hugepages_mode modes[] = { HUGEPAGES_AUTO, HUGEPAGES_2M,
						     HUGEPAGES_REQUIRE };
	struct region other;

	(void)state;
	pool_begin(POOL_2M, 8);
	for (unsigned int i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(create_pages(&other, (15 << 20) + 1, modes[i], NULL), 0);
		assert_of_2m(&other, 8);
	}
	/* A region that is no multiple of 1 GiB has those with 1g, too, and nothing is missing. */
	assert_int_equal(create_pages(&other, 4 << 20, HUGEPAGES_1G, NULL), 0);
	assert_int_equal(other.page_bytes, 2 << 20);
	assert_int_equal(other.bytes, 4 << 20);
	region_destroy(&other);
	assert_int_equal(test_log_lines(), 0);
}

/* One line says how many pages are free and which command provides the missing ones. */
static void no_pages_of_2m(void **state)
{
	struct region other;
	char text[256];

	(void)state;
	pool_begin(POOL_2M, 3);
	assert_int_equal(create_pages(&other, 16 << 20, HUGEPAGES_AUTO, NULL), 0);
	assert_true(other.page_bytes == (uint64_t)sysconf(_SC_PAGESIZE));
	region_destroy(&other);
	assert_int_equal(test_log_lines(), 1);
	snprintf(text, sizeof(text),
		 " notice region: memory.hugepages = auto: too few huge pages: 8 x 2 MiB needed "
		 "(Cannot allocate memory; 3 of 3 pages are free); using %ld KiB pages; optional: "
		 "memory.prefault = yes, or sysctl vm.nr_hugepages=8\n",
		 sysconf(_SC_PAGESIZE) / 1024);
	assert_logged(text);
	assert_int_equal(create_pages(&other, 16 << 20, HUGEPAGES_REQUIRE, NULL), -ENOMEM);
	assert_int_equal(test_log_lines(), 2);
	assert_logged(
		" error region: memory.hugepages = require: too few huge pages: 8 x 2 MiB needed "
		"(Cannot allocate memory; 3 of 3 pages are free); they are required; to get them: "
		"sysctl vm.nr_hugepages=8\n");
	/* Bound to a node: only that node's pages count, and all are allocated at once. */
	if (!create_pages(&other, 16 << 20, HUGEPAGES_2M, "0")) {
		region_destroy(&other);
		snprintf(text, sizeof(text),
			 "; 3 of 3 pages are free on the node); using %ld KiB pages; to get them: "
			 "echo 8 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/"
			 "nr_hugepages\n",
			 sysconf(_SC_PAGESIZE) / 1024);
		assert_logged(text);
		assert_logged(
			" warn region: memory.hugepages = 2m: too few huge pages: 8 x 2 MiB ");
		assert_int_equal(create_pages(&other, 6 << 20, HUGEPAGES_2M, "0"), 0);
		assert_int_equal(other.page_bytes, 2 << 20);
		assert_int_equal(pool_read(POOL_2M, "free_hugepages"), 0);
		region_destroy(&other);
	}
}

static void pages_of_1g(void **state)
{
	struct region other;

	(void)state;
	pool_begin(POOL_1G, 1);
	assert_int_equal(create_pages(&other, 1 << 30, HUGEPAGES_AUTO, NULL), 0);
	assert_int_equal(other.page_bytes, 1 << 30);
	assert_int_equal(pool_read(POOL_1G, "free_hugepages"), 0);
	region_destroy(&other);
	assert_int_equal(create_pages(&other, 1 << 30, HUGEPAGES_REQUIRE, NULL), 0);
	assert_int_equal(other.page_bytes, 1 << 30);
	region_destroy(&other);
	assert_int_equal(create_pages(&other, 1 << 30, HUGEPAGES_1G, NULL), 0);
	assert_int_equal(other.page_bytes, 1 << 30);
	region_destroy(&other);
	assert_int_equal(test_log_lines(), 0);
	/* No smaller region is rounded up to one. */
	assert_int_equal(create_pages(&other, 16 << 20, HUGEPAGES_AUTO, NULL), 0);
	assert_true(other.page_bytes < 1 << 30);
	region_destroy(&other);
	assert_int_equal(create_pages(&other, 2ull << 30, HUGEPAGES_1G, NULL), 0);
	assert_true(other.page_bytes < 1 << 30);
	region_destroy(&other);
	assert_logged(
		" warn region: memory.hugepages = 1g: too few huge pages: 2 x 1 GiB needed (Cannot "
		"allocate memory; 1 of 1 pages are free); using ");
	assert_logged("; to get them: echo 2 > " POOL_1G
		      "/nr_hugepages, or boot with hugepagesz=1G hugepages=2\n");
}

/* The mapping's policy, as the kernel says. */
static int policy_of(const struct region *r)
{
	int mode = -1;

	if (get_mempolicy(&mode, NULL, 0, r->base, MPOL_F_ADDR))
		return -1;
	return mode;
}

static void placed(void **state)
{
	static const struct {
		const char *option, *text;
		int mode;
	} cases[] = {
		{ "default", "default", MPOL_DEFAULT },
		{ "0", "nodes 0", MPOL_BIND },
		{ "0-0,0", "nodes 0", MPOL_BIND },
		{ "local", "local, node ", MPOL_BIND },
		{ "interleave", "interleave, nodes ", MPOL_INTERLEAVE },
	};
	struct region other;

	(void)state;
	if (get_mempolicy(NULL, NULL, 0, NULL, 0)) {
		print_message("skipped: get_mempolicy: %s\n", strerror(errno));
		skip();
	}
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(create_pages(&other, BYTES, HUGEPAGES_OFF, cases[i].option), 0);
		if (strncmp(other.numa, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("memory.numa = %s is '%s'", cases[i].option, other.numa);
		assert_int_equal(policy_of(&other), cases[i].mode);
		region_destroy(&other);
	}
	assert_int_equal(test_log_lines(), 0);
}

static void no_such_node(void **state)
{
	static const char *const options[] = { "999", "0,999", "0-999", "99999999999999999999" };
	struct region other;

	(void)state;
	if (get_mempolicy(NULL, NULL, 0, NULL, 0)) {
		assert_int_equal(create_pages(&other, BYTES, HUGEPAGES_OFF, "0"), -EOPNOTSUPP);
		assert_logged(" error memory.numa = 0: this kernel has no NUMA policies");
		return;
	}
	for (unsigned int i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		assert_int_equal(create_pages(&other, BYTES, HUGEPAGES_OFF, options[i]), -EINVAL);
		assert_null(other.base);
		assert_int_equal(test_log_lines(), i + 1);
		assert_logged(options[i]);
	}
	assert_logged(" error memory.numa = 999: this process can't use all of these nodes; the "
		      "nodes it may use are: ");
}

/* In sysfs: a number; -1 for a device without a node; for some devices, no file. */
static void nodes_of_devices(void **state)
{
	static const struct {
		const char *text;
		int node;
	} cases[] = { { "1\n", 1 }, { "0\n", 0 }, { "-1\n", -1 }, { "", -1 } };
	char path[256];

	(void)state;
	assert_int_equal(nic_numa_node(test_log_dir, "mlx5_0"), -1);
	snprintf(path, sizeof(path), "%s/mlx5_0", test_log_dir);
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/device");
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/numa_node");
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FILE *out = fopen(path, "we");

		assert_non_null(out);
		fputs(cases[i].text, out);
		fclose(out);
		assert_int_equal(nic_numa_node(test_log_dir, "mlx5_0"), cases[i].node);
	}
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

#define LOG_CASE(f) cmocka_unit_test_setup_teardown(f, log_setup, log_teardown)
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(superblock),
		CASE(segments),
		CASE(geometry_is_published),
		cmocka_unit_test(described),
		cmocka_unit_test(extents),
		LOG_CASE(sizes_of_extents),
		CASE(two_regions_differ),
		CASE(a_seed_that_is_given),
		CASE(sealed),
		cmocka_unit_test(index_levels),
		cmocka_unit_test(large_indexes),
		cmocka_unit_test(an_index_too_large),
		cmocka_unit_test(odd_sizes_are_rounded_up),
		LOG_CASE(more_than_any_host_has),
		LOG_CASE(hugepages_off),
		LOG_CASE(dumped),
		LOG_CASE(prefaulted),
		LOG_CASE(prefault_ways),
		LOG_CASE(prefault_with_fewer_threads),
		LOG_CASE(prefault_fails),
		LOG_CASE(prefault_fails_in_part),
		LOG_CASE(large_in_part),
		cmocka_unit_test(large_pages_take_turns),
		LOG_CASE(checked),
		cmocka_unit_test(pages_are_counted),
		LOG_CASE(pages_of_2m),
		LOG_CASE(no_pages_of_2m),
		LOG_CASE(pages_of_1g),
		LOG_CASE(placed),
		LOG_CASE(no_such_node),
		cmocka_unit_test(nodes_of_devices),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
