/* SPDX-License-Identifier: MIT */
/*
 * The region: the one mapping that clients may read; common/layout.h says what is in it.
 *
 * It consists of extents (server/store/extents.h), of which one is there for good. Each is a memfd,
 * so that softnic can pass it to clients of this host. As soon as the server has its own mapping,
 * the memfd is sealed against any other writable mapping (F_SEAL_FUTURE_WRITE) and any
 * change of size: so the MMU keeps guarantee D there. On verbs the MR's access flags keep it. With
 * memory.file it is a file that outlives the process (keep.h), which can't be sealed: only its
 * owner may write to it, and softnic passes a descriptor for reading.
 */
#ifndef KVD_SERVER_STORE_REGION_H
#define KVD_SERVER_STORE_REGION_H

#include <stdbool.h>

#include "common/layout.h"
#include "common/util/stat.h"
#include "server/store/hugepages.h"
#include "server/store/keep.h"
#include "server/store/numa.h"
#include "server/store/store_options.h"

/* log2 of the buckets of the smallest index: 64 of them. */
#define INDEX_LEVEL_MIN 6u

struct region {
	uint8_t *base; /* of @bytes_max addresses */
	/*
	 * In use. store_open_extents() raises it, the maintenance thread lowers it; so other
	 * threads read it with stat_read().
	 */
	uint64_t bytes;
	uint64_t bytes_max;
	uint64_t extent_bytes;
	/* Mapped, at least those in use. Changed by region_extend() and region_cut(). */
	uint32_t extent_count;
	struct extent extents[EXTENTS_MAX];
	uint64_t page_bytes;  /* of its pages: 4 KiB, 2 MiB or 1 GiB */
	uint64_t large_bytes; /* on transparent huge pages, if the pages are normal ones */
	uint32_t prefault_ms; /* time of allocating the pages; 0: they are allocated when used */
	struct keep keep;
	char numa[NUMA_TEXT_MAX]; /* the NUMA policy: "default", "nodes 0-1", ... */
	struct geometry geometry; /* changed by one thread at a time, which then publishes it */
	/* Secret: only here and in the welcomes of clients that may READ; never in the mapping. */
	struct sum_key sum_key;
};

/*
 * log2 of the buckets that hold @keys keys with 67 % of the slots in use; at least INDEX_LEVEL_MIN.
 */
uint32_t index_level(uint64_t keys);

/* Bytes of an index of 2^@level buckets. */
static inline uint64_t index_bytes(uint32_t level)
{
	return (uint64_t)BUCKET_BYTES << level;
}

/*
 * Checks, without any effect, that region_create() can succeed with these options. Returns and logs
 * the same errors.
 */
int region_check(const struct store_options *options);

/*
 * Maps the memory and writes the superblock and the geometry, with a place for every segment that
 * the index can grow to. The caller formats the buckets. Of a region that was kept, as keep.found
 * says, superblock and geometry are as they were, and so are the extents: then region->bytes may
 * differ from options->bytes. Returns 0, -ECANCELED or, after logging, another negative errno:
 * ENOMEM if memory, or huge pages that are required, are missing; EINVAL if the index leaves too
 * little room for items, the sizes do not make extents, or there is no such NUMA node; EOPNOTSUPP
 * if the kernel has no NUMA policies.
 */
int region_create(struct region *region, const struct store_options *options);
/* keep.clean: KEEP-2. */
void region_destroy(struct region *region);
/*
 * Maps further extents until there are @count, with their memory as @options say; nothing uses them
 * before store_open_extents(). May take seconds. Returns 0, -ECANCELED or, after logging, another
 * negative errno with nothing changed. One thread at a time calls these two; of region_extend() it
 * is no RCU reader, since it may wait for long.
 */
int region_extend(struct region *region, const struct store_options *options, unsigned int count);
/*
 * Unmaps the extents that are not in use, and gives back their memory. No thread uses them, by
 * EXTENT-4; the caller has ended what else may: registrations with devices.
 */
void region_cut(struct region *region);
/* The number of extents in use. */
static inline unsigned int region_extents(const struct region *region)
{
	return (unsigned int)(stat_read(&region->bytes) / region->extent_bytes);
}
/*
 * Gives a region that was kept another incarnation, or the one that a recovery before had begun to
 * give it, and says so in its state and the superblock. 0 or, after logging, a negative errno.
 */
int region_renew(struct region *region);

/*
 * Computes the sum of region->geometry and writes the geometry to the superblock. A client that
 * reads it half written finds that the sum does not match. One thread at a time.
 */
void region_publish_geometry(struct region *region);

/*
 * Writes how a region of @bytes with 2^@level buckets at the start is divided: one line, no
 * newline.
 */
void region_describe(uint64_t bytes, uint32_t level, char *text, size_t size);

/*
 * Writes the server's clock, in seconds, and the number of items to the superblock. One thread
 * only.
 */
void region_tick(struct region *region, uint64_t clock_s, uint64_t items);

/*
 * Writes the word of a fleet's member to the superblock, with the sum for this region. A client
 * that reads it half written finds that the sum does not match. One thread at a time.
 */
void region_publish_word(struct region *region, const struct fleet_word *word);
/* The word that was written last. False: it is half written. Any thread. */
bool region_word(const struct region *region, struct fleet_word *word);

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

#endif /* KVD_SERVER_STORE_REGION_H */
