/* SPDX-License-Identifier: MIT */
/*
 * The table: maps keys to items; clients read it with RDMA READs while the server's threads change
 * it.
 *
 *   TABLE-1. An item is valid to readers while its sum is not ITEM_SUM_INVALID. It becomes valid
 *	 only after the rest of it, the value sum included, was stored, every older copy of its key
 *	 is invalid, and its slot points at it. Storing its sum is the linearization
 *	 point of PUT, zeroing it that of DELETE.
 *   TABLE-2. A function that changed buckets has sealed all of them when it returns, so a reader
 *	 that starts later finds buckets that verify and that have the change.
 *   TABLE-3. A slot stays where it is while its key lives, unless the epoch of its chain says that
 *	 slots were moved (server/store/index.h).
 *   TABLE-4. An operation that fails (memory, chain length, a condition) has changed nothing: the
 *	 old value is still the key's.
 *
 * Why TABLE-1 has that order: if the sum were stored before the slot, a client that has cached this
 * memory's place from an earlier item could read the new value while another client, through the
 * slot, still reads the old one; and the first client's next GET, through the slot, could return
 * the old value again: new, then old.
 *
 * Threads: each uses a struct store_thread of its own and is an RCU reader (QSBR). A thread that
 * changes an item holds the lock of the key's home bucket for that one item, and never two such
 * locks at once, except in a split; do_* functions expect the lock held. Readers
 * (server/store/lookup.h) take none.
 */
#ifndef KVD_SERVER_STORE_TABLE_H
#define KVD_SERVER_STORE_TABLE_H

#include <stdatomic.h>

#include "common/sum.h"
#include "server/store/limbo.h"
#include "server/store/memory.h"
#include "server/store/pins.h"
#include "server/store/region.h"
#include "server/store/version_clock.h"

#define STORE_THREADS_MAX 80
static_assert(STORE_THREADS_MAX <= KEEP_THREADS_MAX, "each has a place for its change");
/* The number of the maintenance thread; other threads count from 0. */
#define MAINTENANCE_THREAD_ID (STORE_THREADS_MAX - 1)

/* Keys added or removed that a thread counts for itself before it adds them to table.items. */
#define ITEMS_UNREPORTED_MAX 8

/*
 * An item of at least this many bytes is large: it is copied and summed in steps, without a
 * bucket's lock. One pass over a smaller item takes some 20 us at most. Large items are freed after
 * a grace period and never rewritten in place (LOOKUP-3 in lookup.h); the steps rely on that.
 */
#define LARGE_BYTES (128u << 10)
static_assert(LARGE_BYTES >= LIMBO_ITEM_BYTES, "LOOKUP-3");

/* The ticks that a normal item's access field can tell from each other. */
#define TICKS_TOLD (ACCESS_TIME + 1)

struct moving;

/* server/store/evicted.h */
#define EVICTED_PERIODS 3 /* the previous, the present and the next period */

struct evicted {
	_Atomic uint32_t youngest_s[EVICTED_PERIODS]; /* age of the youngest item of a period */
	uint64_t period;			      /* only for evicted_tick(), as @small */
	bool small; /* whether an item was evicted young in the period before */
};

/* What each thread counts: X(name, help) */
#define TABLE_STATS(X)                                                                             \
	X(inserts, "keys added")                                                                   \
	X(replaces_in_place, "values rewritten in place")                                          \
	X(replaces_elsewhere, "values written to other memory")                                    \
	X(removes, "keys removed, for any reason")                                                 \
	X(expired, "keys removed because they had expired")                                        \
	X(evictions, "keys evicted to make room")                                                  \
	X(evictions_low, "evictions of items of low priority")                                     \
	X(evictions_large, "evictions of items of more than 32 KiB, which have no size class")     \
	X(evictions_1m, "evictions of normal-priority items less than 1 minute after their last "  \
			"use")                                                                     \
	X(evictions_10m,                                                                           \
	  "evictions of normal-priority items 1 to 10 minutes after their last use")               \
	X(evictions_1h,                                                                            \
	  "evictions of normal-priority items 10 to 60 minutes after their last use")              \
	X(evictions_1d, "evictions of normal-priority items 1 to 24 hours after their last use")   \
	X(flushed, "keys removed by a flush")                                                      \
	X(dropped, "keys removed because their shard is not this server's any more")               \
	X(large_changes, "changes of large items that were made in steps")                         \
	X(large_restarts,                                                                          \
	  "changes of large items begun again because the key was changed meanwhile")              \
	X(gathered_bytes, "free blocks taken back from idle threads instead of evicting items")    \
	X(pins_refused, "PUTs with a pin, and changes of pinned items, that memory.pin_share "     \
			"refused")                                                                 \
	X(rooms, "times room was made in steps because evicting an item was not enough")           \
	X(rooms_failed, "times no room could be made")                                             \
	X(moves, "items moved to empty slabs or pages")                                            \
	X(evacuations, "evacuations begun: to make room, to compact, for the index")               \
	X(evacuations_failed,                                                                      \
	  "evacuations that did not empty the memory, except those for the index")                 \
	X(expiring, "items that have an expiry time")                                              \
	X(live_bytes, "bytes of all items, as item_memory_live_bytes")                             \
	X(gets, "GETs by request and by READ; clients report GETs by READ with other requests, "   \
		"with access records and when they close")                                         \
	X(get_hits, "GETs, by request and by READ, that found their key")                          \
	X(get_misses, "GETs, by request and by READ, that did not find their key")                 \
	X(gets_reported, "GETs by READ, as clients report them")                                   \
	X(accesses, "access records: hits by READ that change what is evicted, or a sample")       \
	X(splits, "buckets split")                                                                 \
	X(overflow_buckets, "overflow buckets in use")                                             \
	X(chains_shortened, "chains that were shortened and freed overflow buckets")               \
	X(chain_full, "PUTs that failed because the chain of their bucket was full")               \
	X(chain_evictions, "PUTs that evicted another key of their bucket, whose chain was full")  \
	X(lookup_retries, "times a lookup in the server met a change and was retried")

struct table_stats {
#define X(name, help) uint64_t name;
	TABLE_STATS(X)
#undef X
};

struct table {
	struct holds holds; /* of large values that are being sent */
	struct region *region;
	struct memory *memory;
	uint32_t fill; /* percent of the slots in use at which the index grows */
	enum eviction_policy eviction;
	uint64_t clock_base;	  /* ns: see table_clock_ns() */
	struct host_sleep *sleep; /* store_options.sleep */
	uint64_t version_start;	  /* all versions are above it: server/store/version_clock.h */

	/* server/store/index.h */
	_Atomic uint64_t index_size;	/* level and split, in one word */
	_Atomic uint64_t buckets_max;	/* home buckets that the index has memory for */
	_Atomic int64_t items;		/* roughly: see ITEMS_UNREPORTED_MAX */
	uint64_t items_kept;		/* that an earlier process stored */
	struct table_stats stats_kept;	/* live_bytes, expiring, overflow_buckets of kept items */
	_Atomic uint32_t growing;	/* a lock: 1 while a thread splits or adds index memory */
	_Atomic bool room_wanted;	/* growth waits for the maintenance thread to make room */
	_Atomic uint64_t chain_moves_s; /* a second of the server's clock */
	_Atomic uint64_t chain_moves;	/* chains shortened in that second (INDEX-4) */

	/* server/store/access_time.h */
	struct pins *pins;	     /* the store's */
	uint32_t pin_share;	     /* percent of the item memory that may be pinned */
	uint32_t pin_time_max;	     /* the longest pin, in seconds */
	_Atomic uint32_t tick;	     /* the clock of item.access */
	_Atomic uint64_t tick_bytes; /* added since the last tick */
	_Atomic uint32_t tick_began_s[TICKS_TOLD]; /* by the server's clock */
	struct evicted evicted;
	struct curve *curve; /* the store's; NULL: none */

	/* All threads, those that rest included: their counters are part of the sums. */
	struct store_thread *threads[STORE_THREADS_MAX];
	unsigned int thread_count;

	/* server/store/maintenance.h */
	int wake_fd;			/* eventfd that wakes the maintenance thread; -1: none */
	_Atomic uint64_t version_floor; /* new versions are above it; only rises */
	_Atomic uint64_t flushing;	/* a flush removes versions up to this counter; 0: none */
	_Atomic uint64_t flushes;	/* that have begun; raised after `flushing` is set */

	_Atomic(struct moving *) moving; /* server/store/moving.h; NULL: nothing moves */
};

/* The state of a thread that works on the store. Only that thread uses it, except statistics. */
struct store_thread {
	struct table *table;
	struct mem_cache cache;
	struct limbo limbo;
	uint64_t now_ns; /* the server's clock, as of the last store_thread_clock() */
	uint64_t clock;	 /* Lamport's: above every version that this thread has seen */
	uint64_t floor;	 /* table.version_floor as read by the change under way, or higher */
	uint64_t random;
	int64_t items_unreported;
	struct keep_change *change; /* under way; NULL: the store is not kept */
	/* server/store/room.c: when making room failed last, and cache.freed_bytes + 1 then. */
	uint64_t room_failed_freed, room_failed_ns;
	uint64_t rooms;		/* how often the thread evicted to make room */
	uint32_t no_old;	/* room.c: the tick at which the thread found nothing old, plus 1 */
	uint32_t rooms_open[2]; /* open evacuations of its rooms: slab-sized, and larger */
	uint8_t id;		/* the low bits of its versions */
	struct table_stats stats;
	uint64_t evicted[MEM_CLASSES_MAX]; /* items of each size class */
};

/* Xorshift on the thread's own state. */
static inline uint64_t store_thread_random(struct store_thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random;
}

/* Region, memory and pins remain the caller's and must outlive the table. Before threads start. */
void table_init(struct table *table, struct region *region, struct memory *memory,
		struct pins *pins, const struct store_options *options);

/*
 * The server's clock, in nanoseconds since 1970: clock_raw_ns(), clock_base and, if it counts, how
 * long the host slept, which is read last: so the sum is never ahead. Any thread.
 */
uint64_t table_clock_ns(const struct table *table);

/* Sets clock_base, for the next process, too. Before threads start. */
void table_set_clock(struct table *table, uint64_t clock_base);

/* The highest counter of the versions that were made, or that new ones are above. Any thread. */
uint64_t table_clock_max(const struct table *table);

/* Before threads start: all versions are above @counter, too. */
void table_raise_version_start(struct table *table, uint64_t counter);

/*
 * @id: unique, less than STORE_THREADS_MAX. Other threads may work on the store meanwhile, but one
 * at a time is set up. Returns 0, or -ENOMEM after logging, if there are STORE_THREADS_MAX already.
 */
int store_thread_init(struct store_thread *thread, struct table *table, uint8_t id);
/*
 * Frees what the thread holds, but keeps its state and its counters: it may go on later. May wait
 * for a grace period. Called by any thread while the thread itself does not run.
 */
void store_thread_rest(struct store_thread *thread);
/*
 * Frees what the thread holds; may wait for a grace period. Called by the thread while it is still
 * an RCU reader; or by another one if the thread never was a reader and no thread uses the store.
 */
void store_thread_release(struct store_thread *thread);
/*
 * Reads the clock into now_ns. Once for each batch of requests: after receiving, before executing.
 */
void store_thread_clock(struct store_thread *thread);
/* The sum over all threads of the uint64_t at @offset of struct store_thread. Any thread. */
uint64_t table_sum(const struct table *table, size_t offset);
/* Frees memory in limbo; may wait for a grace period. No lock held, no item or bucket in use. */
void store_thread_idle(struct store_thread *thread);

/*
 * The keys have 2^14 parts, by the bits 34 to 47 of their hash, which choose no bucket and are not
 * in the tag. A fleet calls them shards.
 */
#define KEY_PARTS (1u << 14)
#define KEY_PART_SHIFT 34u

#define KEY_PARTS_WORDS (KEY_PARTS / 64)

/* Whether the part of @hash is in a set: bit n % 64 of word n / 64 stands for part n. */
static inline bool key_parts_have(const uint64_t parts[KEY_PARTS_WORDS], uint64_t hash)
{
	uint32_t part = (uint32_t)(hash >> KEY_PART_SHIFT) & (KEY_PARTS - 1);

	return parts[part / 64] >> part % 64 & 1;
}

static inline uint64_t table_hash(const struct table *table, const void *key, uint32_t key_len)
{
	return key_hash(key, key_len, table->region->geometry.hash_seed);
}

/* Whether an item with this expiry time has expired at @now_ns. */
static inline bool is_expired(uint32_t expires, uint64_t now_ns)
{
	return expires && (uint64_t)expires * 1000000000u <= now_ns;
}

/*
 * The expiry time of an item that lives @ttl seconds: whole seconds, so it expires up to a second
 * later than asked, but never earlier. 0 if @ttl is 0: never.
 */
static inline uint32_t expires_after(uint64_t now_ns, uint32_t ttl)
{
	uint64_t s = (now_ns + 999999999u) / 1000000000u + ttl;

	return !ttl ? 0 : s > UINT32_MAX ? UINT32_MAX : (uint32_t)s;
}

/* Why an item is removed. */
enum removal { REMOVAL_EVICTED, REMOVAL_FLUSHED };

/* For operations that change items. */

/* The slot that leads to the item; and the item's sum, from @body, its item_body_sum(). */
uint64_t slot_for(const struct table *table, uint64_t hash, const struct item *item);
uint64_t item_seal_sum(const struct table *table, const struct item *item, uint64_t body);

/*
 * A version above that of @old, unless NULL, above all others of this thread and above its floor.
 */
uint64_t next_version(struct store_thread *thread, const struct item *old);

/* Bytes of the block, or of the pages, that the item takes. Its bucket is locked. */
static inline size_t item_class_bytes(const struct item *item)
{
	return mem_class_bytes(item_bytes(item));
}

/* Adds the item to live_bytes and expiring, or subtracts it. */
void item_count(struct store_thread *thread, const struct item *item);
void item_uncount(struct store_thread *thread, const struct item *item);
/* Ends the item's pin, if it has one, before the item is removed, replaced or unpinned. */
void item_unpin(struct store_thread *thread, const struct item *item);
/*
 * Count a removed key and the reason; and @n keys added. Both report to table.items in steps.
 */
void count_removal(struct store_thread *thread, enum removal why);
void count_keys(struct store_thread *thread, int64_t n);

/*
 * Frees an item that is not in the table any more but may still be read inside the server. No lock
 * held: a large one goes through the limbo, which may wait for a grace period.
 */
void item_free(struct store_thread *thread, struct item *item);

/* Wakes the maintenance thread, if there is one. Any thread; does not block. */
void table_wake_maintenance(const struct table *table);

#endif /* KVD_SERVER_STORE_TABLE_H */
