/* SPDX-License-Identifier: MIT */
#include "server/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/barrier.h"
#include "common/log.h"
#include "common/sum.h"

#define HUGEPAGE_BYTES (2ull << 20)

/* Fill of the index when it holds the keys it was sized for, in percent; see common/layout.h. */
#define INDEX_FILL 65

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

uint32_t index_level(uint64_t keys)
{
	uint64_t buckets = keys * 100 / (INDEX_FILL * BUCKET_SLOTS) + 1;

	return buckets <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(buckets - 1);
}

/* Makes a file of memory and maps it. Pages are reserved (huge) or touched on first use (normal). */
static int region_map(struct region *region, uint64_t bytes, unsigned int memfd_flags)
{
	int err;

	region->fd = memfd_create("kvd-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_flags);
	if (region->fd < 0)
		return -errno;
	if (ftruncate(region->fd, (off_t)bytes)) {
		err = -errno;
		goto close_fd;
	}
	region->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	if (region->base == MAP_FAILED) {
		err = -errno;
		goto close_fd;
	}
	region->bytes = bytes;
	if (fcntl(region->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)) {
		err = -errno;
		goto unmap;
	}
	return 0;

unmap:
	munmap(region->base, bytes);
close_fd:
	close(region->fd);
	region->fd = -1;
	region->base = NULL;
	return err;
}

static int region_map_pages(struct region *region, uint64_t bytes, enum hugepages_mode hugepages)
{
	int err;

	if (hugepages != HUGEPAGES_OFF) {
		err = region_map(region, round_up(bytes, HUGEPAGE_BYTES), MFD_HUGETLB);
		if (!err) {
			region->page_bytes = HUGEPAGE_BYTES;
			return 0;
		}
		log_at(hugepages == HUGEPAGES_REQUIRE ? LOG_ERROR : LOG_WARN,
		       "region: no %llu hugepages of 2 MiB (%s); to have them: sysctl "
		       "vm.nr_hugepages=%llu%s",
		       (unsigned long long)(round_up(bytes, HUGEPAGE_BYTES) / HUGEPAGE_BYTES),
		       strerror(-err),
		       (unsigned long long)(round_up(bytes, HUGEPAGE_BYTES) / HUGEPAGE_BYTES),
		       hugepages == HUGEPAGES_REQUIRE ? "" : "; using normal pages");
		if (hugepages == HUGEPAGES_REQUIRE)
			return err;
	}
	region->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	err = region_map(region, round_up(bytes, region->page_bytes), 0);
	if (err)
		log_error("region: can't map %llu bytes: %s; lower memory.size",
			  (unsigned long long)bytes, strerror(-err));
	return err;
}

static int random_fill(void *p, size_t bytes)
{
	return getrandom(p, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}

static void index_format(struct region *region)
{
	struct geometry *g = &region->geometry;
	uint64_t i, n = geometry_buckets(g);

	for (i = 0; i < n; i++) {
		uint64_t offset = geometry_bucket_offset(g, i);
		struct bucket *bucket = region_at(region, offset);

		bucket->level = (uint8_t)g->level;
		bucket->sum = bucket_sum(bucket, g->incarnation, offset);
	}
}

static int region_format(struct region *region, uint32_t level, uint64_t value_max)
{
	struct superblock *super = region_superblock(region);
	struct geometry *g = &region->geometry;
	int err;

	memset(g, 0, sizeof(*g));
	err = random_fill(&g->incarnation, sizeof(g->incarnation));
	if (!err)
		err = random_fill(&g->hash_seed, sizeof(g->hash_seed));
	if (err) {
		log_error("region: getrandom failed: %m");
		return err;
	}
	g->region_bytes = region->bytes;
	g->value_max = value_max;
	g->level_base = level;
	g->level = level;
	g->segments[0] = sizeof(struct superblock);
	g->sum = geometry_sum(g);

	region->heap = round_up(g->segments[0] + index_bytes(level), 4096);
	index_format(region);
	super->abi = LAYOUT_ABI;
	super->geometry = *g;
	dma_wmb();
	store_relaxed64(&super->magic, LAYOUT_MAGIC);
	return 0;
}

int region_create(struct region *region, uint64_t bytes, enum hugepages_mode hugepages,
		  uint32_t level, uint64_t value_max)
{
	int err;

	*region = (struct region){ .fd = -1 };
	if (index_bytes(level) > bytes / 2) {
		log_error("region: an index of %llu bytes leaves too little of memory.size (%llu) "
			  "for items; lower index.keys or raise memory.size",
			  (unsigned long long)index_bytes(level), (unsigned long long)bytes);
		return -EINVAL;
	}
	err = region_map_pages(region, bytes, hugepages);
	if (err)
		return err;
	err = region_format(region, level, value_max);
	if (err)
		region_destroy(region);
	return err;
}

void region_destroy(struct region *region)
{
	if (!region->base)
		return;
	munmap(region->base, region->bytes);
	close(region->fd);
	region->base = NULL;
	region->fd = -1;
}

void region_tick(struct region *region, uint64_t clock_s, uint64_t items)
{
	struct superblock *super = region_superblock(region);

	store_relaxed64(&super->clock_s, clock_s);
	store_relaxed64(&super->items, items);
}
