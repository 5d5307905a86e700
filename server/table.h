/* SPDX-License-Identifier: MIT */
/*
 * The table: keys to items, read by clients with RDMA READs while the server's workers change it.
 *
 *   T1. An item is valid to readers while its sum is not ITEM_SUM_INVALID. It becomes valid only
 *	 after every older copy of its key is invalid and after its slot points at it. Storing its
 *	 sum is the linearization point of PUT, zeroing it that of DELETE.
 *   T2. A function that returns has sealed every bucket it changed, so a reader that starts later
 *	 finds buckets that verify, and in them what was changed.
 *   T3. A slot never moves while its key lives. An overflow bucket, once linked, stays linked.
 *   T4. Whatever fails (memory, chain length) has changed nothing: the old value still stands.
 *
 * Why T1 has that order: were the sum stored before the slot, a reader that cached the place of
 * recycled memory could see the new value while another, through the slot, still sees the old one,
 * and the first one's next read could take it back: new, then old.
 *
 * Threads: each uses a struct table_writer of its own. Functions take the lock of the key's home
 * bucket for as long as they change or copy one item; do_* functions expect it held.
 */
#ifndef KVD_SERVER_TABLE_H
#define KVD_SERVER_TABLE_H

#include "common/wire.h"
#include "server/memory.h"
#include "server/region.h"

/*
 * Buckets in one chain beside the home bucket. At the fill the index is sized for, the longest of a
 * million chains has 2; the limit is for a client that picks keys of one bucket, and for an index
 * that was sized much too small: a PUT into a full chain fails.
 */
#define CHAIN_MAX 16

/* Writers: the low bits of a version, so that versions of different writers differ. */
#define WRITER_BITS 8

struct table {
	struct region *region;
};

/* X(name, help) */
#define TABLE_STATS(X)                                                                             \
	X(inserts, "keys added")                                                                   \
	X(replaces_in_place, "values rewritten where they were")                                   \
	X(replaces_elsewhere, "values written to other memory")                                    \
	X(removes, "keys removed")                                                                 \
	X(overflow_buckets, "overflow buckets in use")                                             \
	X(chain_full, "PUTs that failed because the chain of their bucket is full")

struct table_stats {
#define X(name, help) uint64_t name;
	TABLE_STATS(X)
#undef X
};

struct table_writer {
	struct table *table;
	struct mem_cache cache;
	uint64_t clock; /* Lamport's: above every version this writer has seen */
	uint8_t id;
	struct table_stats stats;
};

/* What a PUT stores, and where it went. */
struct table_put {
	const void *key;
	uint32_t key_len;
	const void *value;
	uint32_t value_len;
	uint32_t flags;
	/* out */
	uint64_t slot;
	uint64_t version;
};

struct table_value {
	uint64_t version;
	uint32_t value_len;
	uint32_t flags;
};

int table_writer_init(struct table_writer *writer, struct table *table, struct memory *memory,
		      uint8_t id);
void table_writer_release(struct table_writer *writer);

static inline uint64_t table_hash(const struct table *table, const void *key, uint32_t key_len);

/* Brings the home bucket of @hash to the cache; then, once it is there, the item. */
void table_prefetch_bucket(const struct table *table, uint64_t hash);
void table_prefetch_item(const struct table *table, uint64_t hash);

/* WIRE_OK or WIRE_NO_SPACE. */
enum wire_status table_put(struct table_writer *writer, uint64_t hash, struct table_put *put);

/*
 * A PUT whose value arrives later. table_reserve() gives an item that is not in the table, key and
 * header filled in, the value at table_reserved_value() to be filled; NULL: no space. It is the
 * caller's until table_commit() (which consumes it, also on failure) or table_abandon().
 */
struct item *table_reserve(struct table_writer *writer, const struct table_put *put);
enum wire_status table_commit(struct table_writer *writer, uint64_t hash, struct item *item,
			      struct table_put *put);
void table_abandon(struct table_writer *writer, struct item *item);

static inline void *table_reserved_value(struct item *item)
{
	return item->data + item->key_len;
}

/* WIRE_OK or WIRE_NOT_FOUND. */
enum wire_status table_delete(struct table_writer *writer, uint64_t hash, const void *key,
			      uint32_t key_len);

/*
 * Copies the value to @buffer if it has at most @size bytes. WIRE_OK (value->value_len tells whether
 * it was copied) or WIRE_NOT_FOUND.
 */
enum wire_status table_get(struct table_writer *writer, uint64_t hash, const void *key,
			   uint32_t key_len, void *buffer, size_t size, struct table_value *value);

/*
 * Sets aside a copy of the item for one reader: valid to who knows @seed, and in no bucket. The
 * caller frees it with table_abandon(). WIRE_OK, WIRE_NOT_FOUND or WIRE_BUSY (no space for a copy).
 */
enum wire_status table_copy(struct table_writer *writer, uint64_t hash, const void *key,
			    uint32_t key_len, uint64_t seed, struct item **copy);

#include "common/sum.h"

static inline uint64_t table_hash(const struct table *table, const void *key, uint32_t key_len)
{
	return key_hash(key, key_len, table->region->geometry.hash_seed);
}

#endif /* KVD_SERVER_TABLE_H */
