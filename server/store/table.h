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
/* The maintenance thread's; the others number themselves from 0 on. */
#define MAINTENANCE_THREAD_ID (STORE_THREADS_MAX - 1)

/* New keys a thread counts for itself before the table's count learns of them. */
#define ITEMS_UNREPORTED_MAX 8

struct table {
	struct region *region;
	struct memory *memory;
	uint32_t fill; /* percent of the slots in use at which the index grows */
	enum eviction_policy eviction;
	uint64_t clock_base; /* of the server's clock: what clock_ns() lacks of the time since 1970 */

	/* server/store/index.h */
	_Atomic uint64_t index_size;  /* level and split, in one word */
	_Atomic uint64_t buckets_max; /* buckets there is index memory for */
	_Atomic int64_t items;	      /* about: see ITEMS_UNREPORTED_MAX */
	_Atomic uint32_t growing;
	_Atomic bool room_wanted; /* growth waits for the maintenance thread to make room */
	_Atomic uint64_t chain_moves_s, chain_moves; /* chains that were shortened in this second */

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
	uint64_t room_failed_freed, room_failed_ns; /* server/store/evict.c */
	uint8_t id;
	struct table_stats stats;
};

/*
 * Region and memory stay the caller's and outlive the table. Before threads start.
 */
void table_init(struct table *table, struct region *region, struct memory *memory,
		const struct store_options *options);

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
static inline bool is_expired(uint32_t expires, uint64_t now_ns)
{
	return expires && (uint64_t)expires * 1000000000u <= now_ns;
}

/* When something with @ttl seconds to live ends: not before, and less than a second after. */
static inline uint32_t expires_after(uint64_t now_ns, uint32_t ttl)
{
	uint64_t s = (now_ns + 999999999u) / 1000000000u + ttl;

	return !ttl ? 0 : s > UINT32_MAX ? UINT32_MAX : (uint32_t)s;
}

/* Why an item goes. */
enum removal { REMOVAL_EVICTED, REMOVAL_FLUSHED };

/* For what changes items. */

/* The slot that leads to the item; its sum, of which @body is item_body_sum(). */
uint64_t slot_for(const struct table *table, uint64_t hash, const struct item *item);
uint64_t item_seal_sum(const struct table *table, const struct item *item, uint64_t body);

/* A version above that of the item that is replaced and above all others of this thread. */
uint64_t next_version(struct store_thread *thread, const struct item *old);

/* The item's part in the statistics comes or goes. */
void item_count(struct store_thread *thread, const struct item *item);
void item_uncount(struct store_thread *thread, const struct item *item);
/* A removed item's reason is counted, and the table told, now and then, how many keys came or went. */
void count_removal(struct store_thread *thread, enum removal why);
void count_keys(struct store_thread *thread, int64_t n);

/* Gives back an item that readers in the server may still copy. No lock held: it may wait. */
void item_free(struct store_thread *thread, struct item *item);

/* Wakes the maintenance, if there is one: server/store/maintenance.c. */
void table_wake_maintenance(const struct table *table);

#endif /* KVD_SERVER_STORE_TABLE_H */
