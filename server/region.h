/* SPDX-License-Identifier: MIT */
/*
 * The region: the one mapping that clients may read (common/layout.h says what is in it).
 *
 * It is a memfd, so that softnic can hand it to clients of this host, sealed against any further
 * writable mapping (F_SEAL_FUTURE_WRITE) and any change of size as soon as the server has its own:
 * the MMU keeps guarantee D there. On verbs the MR's access flags do.
 */
#ifndef KVD_SERVER_REGION_H
#define KVD_SERVER_REGION_H

#include "common/device.h"
#include "common/layout.h"
#include "server/options.h"

struct region {
	uint8_t *base;
	uint64_t bytes;
	uint64_t page_bytes; /* of the pages it got: 4 KiB or 2 MiB */
	int fd;
	uint64_t heap; /* offset where items begin; they end REGION_PAD before the region does */
	struct geometry geometry;
};

/* log2 of the buckets that hold @keys keys at the fill the index is sized for, 65 %. */
uint32_t index_level(uint64_t keys);

/* What an index of 2^@level buckets takes. */
static inline uint64_t index_bytes(uint32_t level)
{
	return (uint64_t)BUCKET_BYTES << level;
}

/*
 * Maps @bytes of memory and writes superblock and empty index with 2^@level buckets. Returns 0 or a
 * negative errno after logging: ENOMEM when memory, or hugepages that are required, are not there;
 * EINVAL when the index leaves no room for items.
 */
int region_create(struct region *region, uint64_t bytes, enum hugepages_mode hugepages,
		  uint32_t level, uint64_t value_max);
void region_destroy(struct region *region);

/* Writes what a reader may want to know of the time and the store. One thread only. */
void region_tick(struct region *region, uint64_t clock_s, uint64_t items);

static inline struct superblock *region_superblock(const struct region *region)
{
	return (struct superblock *)region->base;
}

static inline void *region_at(const struct region *region, uint64_t offset)
{
	return region->base + offset;
}

static inline uint64_t region_offset(const struct region *region, const void *p)
{
	return (uint64_t)((const uint8_t *)p - region->base);
}

#endif /* KVD_SERVER_REGION_H */
