/* SPDX-License-Identifier: MIT */
/*
 * The region's layout: the bytes of the server's one remotely readable memory region, as server and
 * clients share it. common/PROTOCOL.md says the same in prose.
 *
 *	+------------+--------------------------------+-------------------------------+-----+
 *	| superblock | index: 128 B buckets, grows -> | items and overflow buckets    | pad |
 *	+------------+--------------------------------+-------------------------------+-----+
 *
 * All integers are little-endian. An offset counts bytes from the region's first byte. Any change
 * here that an older client would misread raises LAYOUT_ABI.
 */
#ifndef KVD_COMMON_LAYOUT_H
#define KVD_COMMON_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kvd's region and messages are little-endian; a big-endian port has to swap them"
#endif

#define LAYOUT_ABI 7
#define LAYOUT_MAGIC 0x316e6f6967657276ull /* "vregion1" */

#define KEY_MAX 1024u
#define VALUE_MAX (1u << 30) /* the most that limits.max_value can be */

#define REGION_BYTES_MAX (512ull << 30) /* what a 32-bit overflow reference can reach */
/*
 * Extents: equal parts of the region that are registered each on its own, and so have keys of their
 * own. The first ones exist, and their number changes as the server's memory does. Neither an item
 * nor an overflow bucket crosses from one to the next, nor does an item's length rounded up to
 * SLOT_UNIT.
 */
#define EXTENTS_MAX 16u

#define REGION_PAD                                                                                 \
	4096u /* readable tail, so that a READ rounded up to a slot's unit stays inside */

/*
 * The key of a store's sums, random per server start: XXH3's secret, of its usual length. It is not
 * in the region: the welcome has it, for clients that may READ. No other client learns it.
 */
#define SUM_KEY_BYTES 192u

struct sum_key {
	uint8_t secret[SUM_KEY_BYTES];
};
static_assert(sizeof(struct sum_key) == SUM_KEY_BYTES, "ABI");

/* The geometry of the index: where its buckets are. */
#define SEGMENTS_MAX 32u

struct geometry {
	uint64_t incarnation;  /* random; another one unless all of the region is kept */
	uint64_t region_bytes; /* superblock to pad, with all extents that it may get */
	uint64_t hash_seed;
	uint64_t value_max;
	uint32_t level_base; /* segment 0 holds 2^level_base buckets */
	uint32_t level;	     /* 2^level buckets, plus @split buckets of the next level */
	uint64_t split;
	/*
	 * Offsets; segment k > 0 holds 2^(level_base+k-1) buckets. 0: the region has no room for
	 * it. The server places them one after another; a client may not rely on that.
	 */
	uint64_t segments[SEGMENTS_MAX];
	uint64_t sum; /* XXH3-64 of all before it */
};
static_assert(sizeof(struct geometry) == 312, "ABI");
static_assert(offsetof(struct geometry, level_base) == 32, "ABI");
static_assert(offsetof(struct geometry, split) == 40, "ABI");
static_assert(offsetof(struct geometry, segments) == 48, "ABI");
static_assert(offsetof(struct geometry, sum) == 304, "ABI");

/*
 * The word of a member of a fleet: until when what is READ from this region counts (FLEET-5 in
 * common/fleet/DESIGN.md). Its end is rewritten several times a second.
 */
struct fleet_word {
	uint64_t generation; /* of the fleet's map; 0: the server is in no fleet */
	uint64_t epoch;
	uint64_t end_ns; /* by the server's clock; 0: no READ counts; UINT64_MAX: it does not end */
	uint64_t sum;	 /* fleet_word_sum() */
};
static_assert(sizeof(struct fleet_word) == 32, "ABI");
static_assert(offsetof(struct fleet_word, end_ns) == 16, "ABI");

struct superblock {
	uint64_t magic;
	uint32_t abi;
	uint32_t reserved;
	struct geometry geometry;
	uint64_t clock_s; /* the server's clock, seconds since 1970, written once a second */
	uint64_t items;	  /* items in the store, written once a second */
	struct fleet_word word;
	uint8_t zero[4096 - 376];
};
static_assert(sizeof(struct superblock) == 4096, "ABI");
static_assert(offsetof(struct superblock, geometry) == 16, "ABI");
static_assert(offsetof(struct superblock, clock_s) == 328, "ABI");
static_assert(offsetof(struct superblock, items) == 336, "ABI");
static_assert(offsetof(struct superblock, word) == 344, "ABI");

/*
 * A bucket: 14 slots in one READ.
 *
 * A key has one home bucket; the keys that do not fit there are in its chain of overflow buckets.
 * The wider the bucket, the fewer keys overflow. The share of keys in overflow buckets (Poisson) at
 * a fill of
 *				50 %	60 %	65 %	75 %
 *	 6 slots (64 B)		1.7	3.4	4.5	7.2	%
 *	14 slots (128 B)	0.14	0.57	1.0	2.5	%
 *	  half-way to a doubling 1.3	3.4	4.8	8.3	%
 *
 * The first two lines are for buckets of one level. While the index doubles, the buckets that were
 * not split yet hold twice as many keys as the others: the last line.
 * tests/unit/server/test_index.c measures the lower two lines.
 *
 * A PUT never moves another key's slot, as it could with cuckoo or hopscotch hashing; the
 * operations that move slots (growth, a chain that gets shorter) change the epoch.
 */
#define BUCKET_BYTES 128u
#define BUCKET_SLOTS 14u

/*
 * All buckets of a chain have the same level and epoch, and the offset of the home bucket is part
 * of each one's sum. An operation that moves slots inside a chain or out of it changes the epoch in
 * every bucket; a split changes the level too. So if the buckets that a reader read one after
 * another agree, together they held all slots of the chain.
 */
struct bucket {
	uint64_t sum;	   /* bucket_sum() of all but the sum and the lock */
	uint32_t overflow; /* offset / 128 of the next bucket of the chain; 0: none */
	uint8_t level;	/* the low `level` bits of its keys' hashes are the home bucket's number */
	uint8_t lock;	/* the server's; readers ignore it */
	uint16_t epoch; /* even; odd while slots are being moved */
	uint64_t slots[BUCKET_SLOTS];
};
static_assert(sizeof(struct bucket) == BUCKET_BYTES, "ABI");
static_assert(offsetof(struct bucket, overflow) == 8, "ABI");
static_assert(offsetof(struct bucket, level) == 12, "ABI");
static_assert(offsetof(struct bucket, lock) == 13, "ABI");
static_assert(offsetof(struct bucket, epoch) == 14, "ABI");
static_assert(offsetof(struct bucket, slots) == 16, "ABI");

/*
 * A slot: one aligned word, 0 = empty.
 *
 *	63      48 47            36 35                     0
 *	+---------+----------------+------------------------+
 *	|   tag   | length / 64 B  |     offset / 8 B       |
 *	+---------+----------------+------------------------+
 *
 * The tag is the hash's top 16 bits. The length is the item's, header included, rounded up;
 * SLOT_UNITS_MAX means "this length or more": such an item is read in two steps.
 */
#define SLOT_UNIT 64u
#define SLOT_UNITS_MAX 4095u
#define ITEM_ALIGN 8u

static inline uint16_t hash_tag(uint64_t hash)
{
	return (uint16_t)(hash >> 48);
}

static inline uint64_t slot_make(uint16_t tag, uint64_t offset, uint64_t item_bytes)
{
	uint64_t units = (item_bytes + SLOT_UNIT - 1) / SLOT_UNIT;

	if (units > SLOT_UNITS_MAX)
		units = SLOT_UNITS_MAX;
	return (uint64_t)tag << 48 | units << 36 | offset / ITEM_ALIGN;
}

static inline uint16_t slot_tag(uint64_t slot)
{
	return (uint16_t)(slot >> 48);
}

static inline uint64_t slot_offset(uint64_t slot)
{
	return (slot & ((1ull << 36) - 1)) * ITEM_ALIGN;
}

/* Bytes to read for the item, or for the first step of a long one. */
static inline uint32_t slot_bytes(uint64_t slot)
{
	return (uint32_t)(slot >> 36 & 0xfff) * SLOT_UNIT;
}

static inline bool slot_is_long(uint64_t slot)
{
	return (slot >> 36 & 0xfff) == SLOT_UNITS_MAX;
}

/*
 * An item, aligned to ITEM_ALIGN:
 *
 *	short	header | flags, unless they are 0 | key | value		the sum covers all of it
 *	long	header | struct item_long | key | value | piece sums	all up to the value
 *
 * So in a long item the bytes up to the key prove that the key exists, and how long the value is;
 * and the value is hashed alone, while it arrives, once for as long as it is stored. A short item,
 * of two cache lines at most, costs no more to read than header and key, and has no room to spare:
 * the 16 bytes are at most 16 % of a long one.
 *
 * A value longer than PIECE_BYTES is hashed in pieces of that length, of which the last may be
 * shorter. The hashes, the piece sums, follow it, 8 bytes each, in order and without padding. Its
 * value sum is their hash. So a range of the value is verified by its own pieces. A reader of the
 * whole value makes the same sums from what arrives, and needs no others. They follow the value, so
 * that where the value begins depends on the key alone.
 */
#define ITEM_SUM_INVALID 0ull
#define ITEM_SHORT_MAX 100u /* bytes of key and value */
#define ITEM_SHORT_BYTES_MAX 128u

struct item {
	uint64_t sum;	  /* item_sum(); ITEM_SUM_INVALID: readers must not use the item */
	uint64_t version; /* unique in the store, in a fleet for the key; increasing for a key */
	uint32_t expires; /* expired from this second since 1970 of the server's clock; 0: never */
	uint16_t access;  /* when and how often it was used: below; not in the sum */
	uint16_t lengths; /* below */
	uint8_t tail[];	  /* struct item_long or flags, if it has them; key; value */
};
static_assert(sizeof(struct item) == 24, "ABI");
static_assert(offsetof(struct item, version) == 8, "ABI");
static_assert(offsetof(struct item, expires) == 16, "ABI");
static_assert(offsetof(struct item, access) == 20, "ABI");
static_assert(offsetof(struct item, lengths) == 22, "ABI");
static_assert(offsetof(struct item, tail) == 24, "ABI");

/* What follows the header of a long item. */
struct item_long {
	uint32_t value_len;
	uint32_t flags;	    /* the client's */
	uint64_t value_sum; /* the hash of the value; of its piece sums, if it has them */
};
static_assert(sizeof(struct item_long) == 16, "ABI");
static_assert(offsetof(struct item_long, flags) == 4, "ABI");
static_assert(offsetof(struct item_long, value_sum) == 8, "ABI");

/* All that precedes the key, to copy it: no block is shorter. */
union item_front {
	struct item item;
	uint8_t bytes[sizeof(struct item) + sizeof(struct item_long)];
};
static_assert(sizeof(union item_front) == 40, "no padding");

/*
 * The lengths of an item. A long item has ITEM_LONG and the length of its key. In a short item the
 * low 7 bits are the length of its key, the next 7 that of its value.
 */
#define ITEM_LONG 0x8000u
#define ITEM_FLAGS 0x4000u /* a short one has 4 bytes of flags, which are the client's */
#define ITEM_VALUE_SHIFT 7
#define ITEM_SHORT_LEN 0x7fu
static_assert(ITEM_SHORT_MAX <= ITEM_SHORT_LEN && KEY_MAX < ITEM_FLAGS, "ABI");
static_assert(sizeof(struct item) + 4 + ITEM_SHORT_MAX == ITEM_SHORT_BYTES_MAX, "ABI");

/*
 * The access field of an item, where the server evicts. A normal item has uses and the low bits of
 * the tick at which it was used last, or stored; a pinned or low-priority item has the bits that
 * say so. Time is counted in ticks: each is one ACCESS_TICKS-th of the item memory added.
 */
#define ACCESS_LOW 0x8000u
#define ACCESS_PIN 0xc000u /* both bits */
#define ACCESS_PIN_LOW 0x2000u
#define ACCESS_USES_SHIFT 11
#define ACCESS_TIME 0x07ffu	/* of a normal item */
#define ACCESS_TIME_LOW 0x3fffu /* of one of low priority */
#define ACCESS_TICKS 128u

/*
 * The age up to which an item is young, in ticks: a quarter of the memory. The ticks of now and of
 * the last use are both rounded down, so an item less than a quarter old never has more.
 */
#define ACCESS_YOUNG_MAX (ACCESS_TICKS / 4)

/*
 * Whether a hit of the item would change little for the server: it was used, and is young. Uses of
 * a low-priority item do not count either. @tick may be late by a whole memory at most.
 */
static inline bool access_is_known(uint16_t access, uint16_t tick)
{
	if (access & ACCESS_LOW)
		return (access & ACCESS_PIN) != ACCESS_PIN;
	return access >> ACCESS_USES_SHIFT &&
	       ((tick - access + ACCESS_TICKS) & ACCESS_TIME) <= ACCESS_TICKS + ACCESS_YOUNG_MAX;
}

#define PIECE_BYTES (64u << 10)
#define PIECE_SUM_BYTES 8u

/* Most values have none. */
static inline bool has_piece_sums(uint64_t value_len)
{
	return __builtin_expect(value_len > PIECE_BYTES, 0);
}

/* Bytes of the piece sums of a value: 0 if it has none. */
static inline uint64_t piece_sums_bytes(uint64_t value_len)
{
	return has_piece_sums(value_len) ?
		       (value_len + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_SUM_BYTES :
		       0;
}

#define ITEM_BYTES_MAX                                                                             \
	(sizeof(union item_front) + KEY_MAX + VALUE_MAX + VALUE_MAX / PIECE_BYTES * PIECE_SUM_BYTES)

/* Whether an item with such lengths is long. */
static inline bool item_has_value_sum(size_t key_len, size_t value_len)
{
	return key_len + value_len > ITEM_SHORT_MAX;
}

/* Bytes before the key, and of the whole item, for an item to store. */
static inline size_t item_key_at(size_t key_len, size_t value_len, uint32_t flags)
{
	return sizeof(struct item) + (item_has_value_sum(key_len, value_len) ?
					      sizeof(struct item_long) :
				      flags ? sizeof(flags) :
					      0);
}

static inline uint64_t item_bytes_for(size_t key_len, size_t value_len, uint32_t flags)
{
	return item_key_at(key_len, value_len, flags) + key_len + value_len +
	       piece_sums_bytes(value_len);
}

/* The longest value whose item has at most @bytes, whatever its key. */
static inline uint64_t value_len_max(uint64_t bytes)
{
	const uint64_t whole = PIECE_BYTES + PIECE_SUM_BYTES;
	uint64_t left = sizeof(union item_front) + KEY_MAX, pieces;

	if (bytes <= left)
		return 0;
	left = bytes - left;
	/* One piece has no sum; of two and more the last may have no room beside its sum. */
	if (left <= PIECE_BYTES + 2 * PIECE_SUM_BYTES)
		return left < PIECE_BYTES ? left : PIECE_BYTES;
	pieces = (left + whole - 1) / whole;
	return left - pieces * PIECE_SUM_BYTES > (pieces - 1) * PIECE_BYTES ?
		       left - pieces * PIECE_SUM_BYTES :
		       (pieces - 1) * PIECE_BYTES;
}

/*
 * The fields of an item, from its header and, if it is long, struct item_long. For bytes that are
 * not known to be an item the results may be anything; item_front_bytes() and item_key_len() need
 * only the header.
 */
static inline bool item_is_long(const struct item *item)
{
	return item->lengths & ITEM_LONG;
}

static inline struct item_long *item_long(const struct item *item)
{
	return (struct item_long *)(uintptr_t)item->tail;
}

static inline uint32_t item_key_len(const struct item *item)
{
	return item->lengths & (item_is_long(item) ? ITEM_FLAGS - 1 : ITEM_SHORT_LEN);
}

static inline uint32_t item_value_len(const struct item *item)
{
	return item_is_long(item) ? item_long(item)->value_len :
				    item->lengths >> ITEM_VALUE_SHIFT & ITEM_SHORT_LEN;
}

static inline uint32_t item_flags(const struct item *item)
{
	uint32_t flags;

	if (item_is_long(item))
		return item_long(item)->flags;
	if (!(item->lengths & ITEM_FLAGS))
		return 0;
	__builtin_memcpy(&flags, item->tail, sizeof(flags));
	return flags;
}

/* Bytes before the key. */
static inline size_t item_front_bytes(const struct item *item)
{
	return sizeof(*item) + (item_is_long(item)	   ? sizeof(struct item_long) :
				item->lengths & ITEM_FLAGS ? sizeof(uint32_t) :
							     0);
}

static inline uint64_t item_bytes(const struct item *item)
{
	return item_front_bytes(item) + item_key_len(item) + item_value_len(item) +
	       piece_sums_bytes(item_value_len(item));
}

static inline uint8_t *item_key(const struct item *item)
{
	return (uint8_t *)(uintptr_t)item + item_front_bytes(item);
}

static inline uint8_t *item_value(const struct item *item)
{
	return item_key(item) + item_key_len(item);
}

/* NULL: it has none. They are not aligned. */
static inline uint8_t *item_piece_sums(const struct item *item)
{
	uint32_t value_len = item_value_len(item);

	return has_piece_sums(value_len) ? item_value(item) + value_len : NULL;
}

/* Writes lengths and flags; key and value can be written after that. */
static inline void item_set_lengths(struct item *item, uint32_t key_len, uint32_t value_len,
				    uint32_t flags)
{
	if (item_has_value_sum(key_len, value_len)) {
		item->lengths = (uint16_t)(ITEM_LONG | key_len);
		item_long(item)->value_len = value_len;
		item_long(item)->flags = flags;
		return;
	}
	item->lengths = (uint16_t)(value_len << ITEM_VALUE_SHIFT | key_len);
	if (!flags)
		return;
	item->lengths |= ITEM_FLAGS;
	__builtin_memcpy(item->tail, &flags, sizeof(flags));
}

/* The home bucket of @hash: linear hashing (Litwin, VLDB 1980). */
static inline uint64_t geometry_home(const struct geometry *g, uint64_t hash)
{
	uint64_t bucket = hash & ((1ull << g->level) - 1);

	return bucket < g->split ? hash & ((2ull << g->level) - 1) : bucket;
}

static inline uint64_t geometry_buckets(const struct geometry *g)
{
	return (1ull << g->level) + g->split;
}

/* The offset of bucket number @bucket, which is less than geometry_buckets(). */
static inline uint64_t geometry_bucket_offset(const struct geometry *g, uint64_t bucket)
{
	unsigned int top, segment;

	if (bucket < 1ull << g->level_base)
		return g->segments[0] + bucket * BUCKET_BYTES;
	top = 63 - (unsigned int)__builtin_clzll(bucket);
	segment = top - g->level_base + 1;
	return g->segments[segment] + (bucket - (1ull << top)) * BUCKET_BYTES;
}

#endif /* KVD_COMMON_LAYOUT_H */
