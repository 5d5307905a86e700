/* SPDX-License-Identifier: MIT */
/*
 * The hash of keys and the checksums of items, buckets and the geometry: XXH3-64 of xxHash 0.8,
 * header-only, so that short inputs are hashed inline. Longer ones go to the variant for this CPU.
 *
 * All sums but the geometry's are keyed: the store's key is XXH3's secret. So a client that may
 * store values, but does not know the key, can't put bytes into a value that a reader with a stale
 * place takes for an item. XXH3 is not a MAC: a client that sees sums might work out the key, and
 * one that knows the key can make sums. Neither matters here: a client that may READ the region,
 * where the sums are, gets the key anyway. All others can only guess: a sum has 64 bits, and each
 * guess takes a stored value and a reader that meets it. A MAC would be slower, and protect no
 * more.
 *
 * Why a 64-bit checksum and not versions around the data: the order in which a device reads host
 * memory inside one READ is not defined, and schemes that rely on it have returned corrupt data
 * (Ziegler et al., SIGMOD 2023). At a million torn READs a second a 32-bit sum misses one about
 * every 72 minutes, a 64-bit one about every 585,000 years.
 */
#ifndef KVD_COMMON_SUM_H
#define KVD_COMMON_SUM_H

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/layout.h"
#include "common/sum_variant.h"

/* Above this many bytes XXH3 works on stripes, where wider registers pay. */
#define SUM_INLINE_MAX 240u

static inline uint64_t sum_bytes(const struct sum_key *key, const void *data, size_t bytes)
{
	return bytes <= SUM_INLINE_MAX ?
		       XXH3_64bits_withSecret(data, bytes, key->secret, sizeof(key->secret)) :
		       sum_long(data, bytes, key->secret);
}

/* The hash of a key: its low bits choose the bucket, its top 16 bits are the tag. */
static inline uint64_t key_hash(const void *key, size_t key_len, uint64_t seed)
{
	return XXH3_64bits_withSeed(key, key_len, seed);
}

/* Stores the value sum of a long item; does nothing for a short one. */
static inline void item_value_sum_store(struct item *item, uint64_t sum)
{
	if (item_is_long(item))
		item_long(item)->value_sum = sum;
}

/* For an item with piece sums: makes them, and returns the value sum; whether both are right. */
uint64_t piece_sums_make(struct item *item, const struct sum_key *key);
bool piece_sums_verify(const struct item *item, const struct sum_key *key);

/* Stores the value sum, and the piece sums, of the value in the item. */
static inline void item_value_sum_make(struct item *item, const struct sum_key *key)
{
	uint32_t value_len = item_value_len(item);

	if (item_is_long(item))
		item_value_sum_store(item, has_piece_sums(value_len) ?
						   piece_sums_make(item, key) :
						   sum_bytes(key, item_value(item), value_len));
}

/*
 * Whether the value matches the value sum, and the piece sums, if it has them. A short item has
 * none: its sum covers the value.
 */
static inline bool item_value_verifies(const struct item *item, const struct sum_key *key)
{
	uint32_t value_len = item_value_len(item);

	if (!item_is_long(item))
		return true;
	if (has_piece_sums(value_len))
		return piece_sums_verify(item, key);
	return sum_bytes(key, item_value(item), value_len) == item_long(item)->value_sum;
}

/* The bytes of an item that its sum covers: in a long item all up to the value. */
static inline uint64_t item_covered_bytes(const struct item *item)
{
	return item_front_bytes(item) + item_key_len(item) +
	       (item_is_long(item) ? 0 : item_value_len(item));
}

/* The part of an item's sum that does not depend on its offset: the bytes after the header. */
static inline uint64_t item_body_sum(const struct item *item, const struct sum_key *key)
{
	return sum_bytes(key, item->tail, item_covered_bytes(item) - sizeof(*item));
}

/*
 * A value sum as the value comes: begin, add the value from the first byte to the last, end. The
 * struct must not move in between, since the states in it are aligned; the key must stay, too.
 *
 * How long the value is need not be known. A first piece that stays the only one is the value, and
 * its hash the value sum; else each piece's hash is added to that of all.
 */
#define VALUE_SUM_ALIGN 64u

struct value_sum {
	uint8_t states[2 * sizeof(XXH3_state_t) + VALUE_SUM_ALIGN - 1];
	const struct sum_key *key;
	/* Where the piece sums are written, one after another; NULL: nowhere. Set after begin. */
	uint8_t *piece_sums;
	uint32_t bytes; /* of the piece that is being hashed */
	bool pieces;	/* there was one before */
};

void value_sum_begin(struct value_sum *sum, const struct sum_key *key);
void value_sum_add(struct value_sum *sum, const void *bytes, size_t count);
uint64_t value_sum_end(struct value_sum *sum);

/*
 * Copies bytes and adds the copy to the sum, in one pass: the bytes at @from may change meanwhile,
 * and the sum is that of the bytes at @to.
 */
void value_sum_copy(struct value_sum *sum, void *to, const void *from, size_t count);

/*
 * Like value_sum_copy(), for bytes that do not change and a copy that is not used soon: it goes to
 * memory past the CPU's cache, where the CPU can do that, and the lines of @to are not read before
 * they are written.
 */
void value_sum_move(struct value_sum *sum, void *to, const void *from, size_t count);

/*
 * The sum of an item at @offset whose item_body_sum() is @body. It covers @seed, the incarnation or
 * that of a copy, and the offset, so a copy or an old version at another offset does not verify. It
 * does not cover the access time, which changes while readers read. Never ITEM_SUM_INVALID.
 */
static inline uint64_t item_sum_of(const struct item *item, uint64_t body,
				   const struct sum_key *key, uint64_t seed, uint64_t offset)
{
	const uint64_t head[5] = {
		seed, offset, item->version, (uint64_t)item->lengths << 32 | item->expires, body,
	};
	uint64_t sum = sum_bytes(key, head, sizeof(head));

	return sum == ITEM_SUM_INVALID ? 1 : sum;
}

/* The sum of an item that already has its value sum, if any. The value itself may be missing. */
static inline uint64_t item_sum(const struct item *item, const struct sum_key *key, uint64_t seed,
				uint64_t offset)
{
	return item_sum_of(item, item_body_sum(item, key), key, seed, offset);
}

/*
 * The sum of a bucket at @offset in the chain of the home bucket at @home: all fields but the sum
 * and the lock, which other threads of the server may be changing. It covers @home, so that a
 * bucket that moved to another chain between two READs does not verify as part of the old chain.
 */
static inline uint64_t bucket_sum(const struct bucket *bucket, const struct sum_key *key,
				  uint64_t incarnation, uint64_t offset, uint64_t home)
{
	uint64_t words[2 + BUCKET_SLOTS];

	words[0] = incarnation ^ (offset / BUCKET_BYTES | home / BUCKET_BYTES << 32);
	words[1] = (uint64_t)bucket->epoch << 48 | (uint64_t)bucket->level << 32 | bucket->overflow;
	memcpy(&words[2], bucket->slots, sizeof(bucket->slots));
	return sum_bytes(key, words, sizeof(words));
}

/* The sum of a member's word in the region of this incarnation. */
static inline uint64_t fleet_word_sum(const struct fleet_word *word, uint64_t incarnation)
{
	return XXH3_64bits_withSeed(word, offsetof(struct fleet_word, sum), incarnation);
}

static inline uint64_t geometry_sum(const struct geometry *g)
{
	return XXH3_64bits(g, offsetof(struct geometry, sum));
}

#endif /* KVD_COMMON_SUM_H */
