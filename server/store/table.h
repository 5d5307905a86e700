/* SPDX-License-Identifier: MIT */
/*
 * The table: keys to items, read by clients with RDMA READs while the server's workers change it.
 *
 *   T1. An item is valid to readers while its sum is not ITEM_SUM_INVALID. It becomes valid only
 *	 after every older copy of its key is invalid and after its slot points at it. Storing its
 *	 sum is the linearization point of PUT, zeroing it that of DELETE.
 *   T2. A function that returns has sealed every bucket it changed, so a reader that starts later
 *	 finds buckets that verify, and in them what was changed.
 *   T3. While its key lives a slot stays where it is, unless its chain's epoch says that slots were
 *	 moved (server/store/index.h).
 *   T4. Whatever fails (memory, chain length, a condition) has changed nothing: the old value still
 *	 stands.
 *
 * Why T1 has that order: were the sum stored before the slot, a reader that cached the place of
 * recycled memory could see the new value while another, through the slot, still sees the old one,
 * and the first one's next read could take it back: new, then old.
 *
 * Threads: each uses a struct store_thread of its own and is an RCU reader (QSBR). Who changes takes
 * the lock of the key's home bucket for as long as it changes one item, and never two such locks at
 * once but for a split; do_* functions expect it held. Who only looks (server/store/lookup.h) takes none.
 */
#ifndef KVD_SERVER_STORE_TABLE_H
#define KVD_SERVER_STORE_TABLE_H

#include <stdatomic.h>

#include "common/sum.h"
#include "common/wire.h"
#include "server/store/limbo.h"
#include "server/store/memory.h"
#include "server/store/region.h"

/* Threads: the low bits of a version, so that versions of different threads differ. */
#define THREAD_ID_BITS 8
#define STORE_THREADS_MAX 80

/* New keys a thread counts for itself before the table's count learns of them. */
#define ITEMS_UNREPORTED_MAX 8

struct table_options {
	uint32_t fill;	   /* percent of the slots in use at which the index grows */
	uint32_t eviction; /* enum eviction_policy */
};

struct table {
	struct region *region;
	struct memory *memory;
	struct table_options options;
	uint64_t clock_base; /* of the server's clock: what clock_ns() lacks of the time since 1970 */

	/* server/store/index.h */
	_Atomic uint64_t index_size; /* level and split, in one word */
	_Atomic uint64_t room;	     /* buckets there is index memory for */
	_Atomic int64_t items;	     /* about: see ITEMS_UNREPORTED_MAX */
	_Atomic uint32_t growing;
	_Atomic bool room_wanted;	 /* growth waits for the maintenance thread to make room */
	_Atomic uint64_t moves_s, moves; /* chains that were shortened in this second */

	/* server/store/evict.h */
	_Atomic uint32_t tick; /* the time of item.access */
	_Atomic uint32_t tick_inserts;

	struct store_thread
		*threads[STORE_THREADS_MAX]; /* all of them; set up before threads start */
	unsigned int thread_count;

	/* server/store/maintenance.h */
	int wake_fd;			/* wakes the maintenance; -1: there is none */
	_Atomic uint64_t version_floor; /* new versions are above it */
};

/* X(name, help) */
#define TABLE_STATS(X)                                                                             \
	X(inserts, "keys added")                                                                   \
	X(replaces_in_place, "values rewritten where they were")                                   \
	X(replaces_elsewhere, "values written to other memory")                                    \
	X(removes, "keys removed, for whatever reason")                                            \
	X(expired, "of those, because their time was over")                                        \
	X(evictions, "of those, to make room")                                                     \
	X(flushed, "of those, by a flush")                                                         \
	X(moves, "items moved to empty what they were in")                                         \
	X(evacuations, "spans that were to be emptied: to make room, to compact, for the index")   \
	X(evacuations_failed, "of those, not emptied; the index's not counted")                    \
	X(expiring, "items that have an expiry time")                                              \
	X(live_bytes, "the same as item_memory_live_bytes")                                        \
	X(accesses, "GETs that clients told of")                                                   \
	X(splits, "buckets split")                                                                 \
	X(overflow_buckets, "overflow buckets in use")                                             \
	X(chains_shortened, "chains that gave back overflow buckets")                              \
	X(chain_full, "PUTs that failed because the chain of their bucket is full")                \
	X(lookup_retries, "times a reader in the server met a change and looked again")

struct table_stats {
#define X(name, help) uint64_t name;
	TABLE_STATS(X)
#undef X
};

struct store_thread {
	struct table *table;
	struct mem_cache cache;
	struct limbo limbo;
	uint64_t now_ns; /* the server's clock, as of the last store_thread_clock() */
	uint64_t clock;	 /* Lamport's: above every version this thread has seen */
	uint64_t floor;	 /* table.version_floor, as the change at hand has it */
	uint64_t random;
	int64_t items_unreported;
	uint64_t room_retry_freed, room_retry_ns; /* server/store/evict.c */
	uint8_t id;
	struct table_stats stats;
};

/* What one change of a key is to do, and what came of it. */
struct table_change {
	const void *key;
	uint32_t key_len;
	enum wire_put mode;
	const void *value;
	uint32_t value_len;
	uint32_t flags;
	uint32_t ttl;	  /* seconds, 0: for ever */
	uint64_t version; /* in: cas, delete; out: the item's */
	bool if_version;  /* delete */
	bool create;	  /* arith */
	bool decrement;	  /* arith */
	uint64_t delta;	  /* arith */
	uint64_t number;  /* arith, in: to create; out: the result */
	uint64_t slot;	  /* out: what leads to the item */
	uint32_t expires; /* out */
};

/*
 * Formats the index. Region and memory stay the caller's and outlive the table. Before threads start.
 */
void table_init(struct table *table, struct region *region, struct memory *memory,
		const struct table_options *options);

/* @id: unique, less than STORE_THREADS_MAX. Before threads start. 0 or a negative errno, logged. */
int store_thread_init(struct store_thread *thread, struct table *table, uint8_t id);
/* The thread is an RCU reader still, or never was one and nobody else is at work. */
void store_thread_release(struct store_thread *thread);
/* Takes the time. For each batch of requests, when they have come and before any is executed. */
void store_thread_clock(struct store_thread *thread);
/* The sum over all threads of the counter at @offset of struct store_thread. Any thread. */
uint64_t table_sum(const struct table *table, size_t offset);
/* Gives back what waits for a grace period; may wait for one. Holding nothing of the table. */
void store_thread_idle(struct store_thread *thread);

static inline uint64_t table_hash(const struct table *table, const void *key, uint32_t key_len)
{
	return key_hash(key, key_len, table->region->geometry.hash_seed);
}

/* Whether an item with this expiry time is gone at @now_ns. */
static inline bool expires_is_over(uint32_t expires, uint64_t now_ns)
{
	return expires && (uint64_t)expires * 1000000000u <= now_ns;
}

/* When something with @ttl seconds to live ends: not before, and less than a second after. */
static inline uint32_t expires_after(uint64_t now_ns, uint32_t ttl)
{
	uint64_t s = (now_ns + 999999999u) / 1000000000u + ttl;

	return !ttl ? 0 : s > UINT32_MAX ? UINT32_MAX : (uint32_t)s;
}

/* Brings the home bucket of @hash to the cache; then, once it is there, the item. */
void table_prefetch_bucket(const struct table *table, uint64_t hash);
void table_prefetch_item(const struct table *table, uint64_t hash);

/*
 * PUT in all its modes. WIRE_OK, WIRE_NO_SPACE, WIRE_NOT_FOUND, WIRE_EXISTS, WIRE_TOO_LARGE (append,
 * prepend).
 */
enum wire_status table_put(struct store_thread *thread, uint64_t hash, struct table_change *change);

/* Adds to or subtracts from a decimal number. As table_put(), and WIRE_NOT_A_NUMBER. */
enum wire_status table_arith(struct store_thread *thread, uint64_t hash,
			     struct table_change *change);

/* Sets the expiry time; value and version stay. WIRE_OK or WIRE_NOT_FOUND. */
enum wire_status table_touch(struct store_thread *thread, uint64_t hash,
			     struct table_change *change);

/* WIRE_OK, WIRE_NOT_FOUND or WIRE_EXISTS (another version). */
enum wire_status table_delete(struct store_thread *thread, uint64_t hash,
			      const struct table_change *change);

/*
 * A PUT whose value arrives later. table_reserve() gives an item that is not in the table, key and
 * header filled in, the value at table_reserved_value() to be filled; NULL: no space. It is the
 * caller's until table_commit() (which consumes it, also on failure) or table_abandon().
 */
struct item *table_reserve(struct store_thread *thread, const struct table_change *change);
/* As table_put(), of whose arguments key, value and their lengths are the item's. */
enum wire_status table_commit(struct store_thread *thread, uint64_t hash, struct item *item,
			      struct table_change *change);
void table_abandon(struct store_thread *thread, struct item *item);

static inline void *table_reserved_value(struct item *item)
{
	return item->data + item->key_len;
}

/* Why an item goes. */
enum removal { REMOVE_DELETED, REMOVE_EVICTED, REMOVE_FLUSHED };

/*
 * Removes the item at @block, if a slot of the chain of @hash leads there. Returns whether it did.
 */
bool table_remove_block(struct store_thread *thread, uint64_t hash, const void *block,
			enum removal why);
/* Moves it to other memory of its class, in the order of T1. WIRE_NO_SPACE, WIRE_NOT_FOUND. */
enum wire_status table_move_block(struct store_thread *thread, uint64_t hash, const void *block);

/* Removes what is over, or has a version of at most @version, from the chain of bucket @number. */
void table_sweep_bucket(struct store_thread *thread, uint64_t number, uint64_t version);

/* A GET of the key was heard of: notes its time for eviction. */
void table_access(struct store_thread *thread, uint64_t hash);

#endif /* KVD_SERVER_STORE_TABLE_H */
