/* SPDX-License-Identifier: MIT */
/*
 * The bucket cache: a client's copies of slots, so that a GET of a key it has seen takes one READ.
 * Slots come from all buckets that are READ, and from responses to PUTs. A cached slot is a hint:
 * the item it leads to proves by its sum and its key that it is the right one. The cache never
 * proves that a key does not exist.
 *
 * The cache is an array of lines of the CPU's cache, with eight slots each. The line of a key is
 * chosen by the low bits of its hash and, because one bucket's keys need more than one line, by
 * some bits of its tag. Both are known for each slot of a bucket: the low bits are the bucket's
 * number. So a lookup touches one line, wherever in a chain the slot is, and the slots of a bucket
 * that is split stay in place.
 *
 * With 3 bits of the tag a line gets 1.1 to 2.3 slots if the cache is large enough. Keys that also
 * agree in the other 13 bits, one in some 5,000, share one slot: it has the one that was found
 * last. In a smaller cache lines are fuller; the share of keys that find no place (Poisson) is 0.1
 * % at 20 bytes of cache for each key, and 0.8 % at 16.
 *
 * The handles of a process share the lines of a server, and read and write them without locks. A
 * slot is one word, so no thread sees half of one. Two threads that write at the same time may lose
 * a slot, keep one that another thread has just dropped, or store one tag in two slots, of which
 * only the first is found: each costs a READ, or a place, until the next write. A lookup may find a
 * slot of another tag, which was stored after the tags were compared: it leads to another key's
 * item, as a slot of the same tag may. No answer depends on the cache.
 */
#ifndef KVD_CLIENT_LIBKVD_BCACHE_H
#define KVD_CLIENT_LIBKVD_BCACHE_H

#include "common/barrier.h"
#include "common/layout.h"
#include "common/slot_match.h"
#include "common/util/prefetch.h"

struct bcache_line {
	uint64_t slots[LINE_SLOTS]; /* 0: empty; no two have the same tag, except as above */
};
static_assert(sizeof(struct bcache_line) == 64, "a line of the CPU's cache");

/* A handle's view: the lines are shared, all else is the handle's. */
struct bcache {
	struct bcache_line *lines; /* NULL: off */
	uint64_t low_mask;	   /* the hash's low bits that choose the line */
	uint64_t tag_mask;	   /* the tag's bits, the lowest of the line's number */
	uint8_t tag_bits;
	uint8_t bits;	/* 2^bits lines */
	uint8_t victim; /* slot to replace in the next full line */
};

#define BCACHE_TAG_BITS 3

/* Takes at most @bytes. 0 or -ENOMEM. Call bcache_level() next. */
int bcache_init(struct bcache *cache, size_t bytes);
void bcache_release(struct bcache *cache);
size_t bcache_bytes(const struct bcache *cache);

/*
 * Every bucket has at least this level: that many low bits of its keys' hashes are known. If more
 * lines are used from now on, lookups no longer find half of the slots.
 */
void bcache_level(struct bcache *cache, uint32_t level);

/*
 * Stores the slots of a verified bucket in the chain of the home bucket with this number. Those
 * with @tag replace others in a full line; the rest are stored only where there is room.
 */
void bcache_store(struct bcache *cache, uint64_t number, const struct bucket *bucket, uint16_t tag);

/* Stores @slot, which now leads to a key with this hash. */
void bcache_learn(struct bcache *cache, uint64_t hash, uint64_t slot);

/* Removes a slot that no longer led to the key with this hash. */
void bcache_drop(struct bcache *cache, uint64_t hash, uint64_t slot);

/* The only line in which a slot may be. @low: low bits of the hash. */
static inline struct bcache_line *bcache_line(const struct bcache *cache, uint64_t low,
					      uint16_t tag)
{
	return &cache->lines[(low & cache->low_mask) << cache->tag_bits | (tag & cache->tag_mask)];
}

/* line_match() of slots that other threads may be writing. */
static inline unsigned int bcache_match(const struct bcache_line *line, uint16_t tag)
{
#ifdef __SANITIZE_THREAD__
	uint64_t slots[LINE_SLOTS];
	unsigned int i;

	for (i = 0; i < LINE_SLOTS; i++)
		slots[i] = slot_load(&line->slots[i]);
	return line_match(slots, tag);
#else
	return line_match(line->slots, tag);
#endif
}

/* The slot with the tag of @hash, or 0. Inline: each GET does it. */
static inline uint64_t bcache_lookup(const struct bcache *cache, uint64_t hash)
{
	const struct bcache_line *line;
	unsigned int matches;
	uint64_t slot;

	if (!cache->lines)
		return 0;
	line = bcache_line(cache, hash, hash_tag(hash));
	/* More than one only if they are empty and the tag is 0. */
	for (matches = bcache_match(line, hash_tag(hash)); matches; matches &= matches - 1) {
		slot = slot_load(&line->slots[__builtin_ctz(matches)]);
		if (slot)
			return slot;
	}
	return 0;
}

static inline void bcache_prefetch(const struct bcache *cache, uint64_t hash)
{
	if (cache->lines)
		prefetch_line(bcache_line(cache, hash, hash_tag(hash)));
}

#endif /* KVD_CLIENT_LIBKVD_BCACHE_H */
