/* SPDX-License-Identifier: MIT */
/*
 * Eviction: chooses cold items at random, evicts them, and empties slabs and places for large items
 * by moving and evicting what is in them.
 */
#include "server/store/evict.h"

#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/store/access_time.h"
#include "server/store/chain.h"
#include "server/store/lookup.h"
#include "server/store/table_maintain.h"

/* Candidates drawn; Redis draws 5 by default, and 10 come close to exact LRU there. */
#define SAMPLES 16
/* The same, to find a colder item that can be evicted for one that is to be moved. */
#define SAMPLES_MOVE 4

/* A slab is emptied for another class if its candidate is this many times colder. */
#define COLDER_TIMES 2

/* Steps in which one allocation makes room; each evicts some items or empties a span. */
#define ROOM_STEPS_MAX 64
/*
 * Large items evicted in one step, which waits for a grace period; 1 if they are as large as that.
 */
#define LARGE_AT_ONCE 4
#define LARGE_AT_ONCE_BYTES (256u << 10)
/* Blocks that an evacuation moves or evicts between two quiescent states: some 50 us. */
#define BLOCKS_PER_QUIESCE 64
/* Places drawn for a large item. */
#define PLACES 8
/* What was emptied may be too short: every so many steps a place of the right length is emptied. */
#define STEPS_PER_PLACE 4
/* Blocks up to this size fit a slab of SLAB_BYTES_MIN without much waste. */
#define SLAB_SMALL_ITEM_BYTES 8192u

/* How often a block without a valid item is read: a thread may be about to make the item valid. */
#define SNAPSHOT_TRIES_MAX 64

/* Pause after moving items made no room, unless the thread frees something earlier. */
#define ROOM_RETRY_NS 10000000ull

/*
 * Every so many times that a thread is about to evict, the first included, it takes back what idle
 * threads have in their magazines: that goes through all caches, and a thread counts as idle if it
 * did nothing in between.
 */
#define ROOMS_PER_GATHER 64

/* The coldest of some items that were drawn. */
struct candidate {
	void *block;
	uint64_t hash;
	uint32_t coldness; /* 0: there is none */
};

/* Chooses the coldest valid item of @blocks, which may hold anything by now. */
static void candidate_choose(const struct store_thread *thread, struct candidate *best,
			     void **blocks, unsigned int count)
{
	unsigned int i;

	best->coldness = 0;
	for (i = 0; i < count; i++)
		__builtin_prefetch(blocks[i]);
	for (i = 0; i < count; i++) {
		uint32_t cold = access_time_coldness(thread, blocks[i]);

		/* Only the winner's key is read. */
		if (cold > best->coldness && item_sum_first(blocks[i]) != ITEM_SUM_INVALID) {
			best->coldness = cold;
			best->block = blocks[i];
		}
	}
	if (best->coldness && !lookup_block_hash(thread->table, best->block, &best->hash))
		best->coldness = 0;
}

static void candidate_of_class(struct store_thread *thread, struct candidate *best,
			       unsigned int class_id, unsigned int samples)
{
	void *blocks[SAMPLES];

	candidate_choose(thread, best, blocks,
			 mem_sample(thread->table->memory, class_id, &thread->random, blocks,
				    samples));
}

static void candidate_of_any(struct store_thread *thread, struct candidate *best)
{
	void *blocks[SAMPLES];

	candidate_choose(thread, best, blocks,
			 mem_sample_any(thread->table->memory, &thread->random, blocks, SAMPLES));
}

/* The hash of the item at @block. Waits a little if a thread is writing it. */
static bool block_hash(const struct table *table, const void *block, uint64_t *hash)
{
	unsigned int tries;

	for (tries = 0; tries < SNAPSHOT_TRIES_MAX; tries++) {
		if (lookup_block_hash(table, block, hash))
			return true;
		cpu_relax();
	}
	return false;
}

/*
 * Moves the item; if there is no block for it, evicts a colder one of its class and tries again, or
 * evicts it.
 */
static void item_move_or_evict(struct store_thread *thread, const struct mem_block *block,
			       uint64_t hash, uint32_t cold)
{
	struct candidate other;

	if (table_move_block(thread, hash, block->p) != WIRE_NO_SPACE)
		return;
	candidate_of_class(thread, &other, mem_class(block->bytes), SAMPLES_MOVE);
	if (other.coldness > cold && other.block != block->p &&
	    table_remove_block(thread, other.hash, other.block, REMOVAL_EVICTED) &&
	    table_move_block(thread, hash, block->p) != WIRE_NO_SPACE)
		return;
	table_remove_block(thread, hash, block->p, REMOVAL_EVICTED);
}

/* Replaces the overflow bucket at @block in its chain by another one. */
static void bucket_replace(struct store_thread *thread, const struct mem_block *block)
{
	struct bucket *spare = mem_alloc_bucket(&thread->cache, block->home);
	struct table *table = thread->table;
	struct retired retired = { .count = 0 };
	struct bucket *home, *bucket;
	bool done = false;

	if (!spare)
		return;
	/* block->home may be outdated: the chain says whether the bucket is still in it. */
	home = index_lock_number(table, block->home);
	chain_for_each(table, bucket, home)
		if (bucket == block->p) {
			done = do_chain_shorten(thread, home, bucket, spare, &retired);
			break;
		}
	bucket_unlock(home);
	if (!done)
		mem_free_bucket(&thread->cache, spare);
	retired_free(thread, &retired);
}

/* @warm: with @evict, items that are at least as cold as this are evicted and not moved. */
static void evacuation_run(struct store_thread *thread, struct mem_evacuation *evacuation,
			   bool evict, uint32_t warm)
{
	struct mem_block block;
	unsigned int n = 0;
	uint64_t hash;
	uint32_t cold;

	stat_add(&thread->stats.evacuations, 1);
	while (mem_evacuation_next(evacuation, &block)) {
		/* The grace periods of others don't wait until all of it is empty. */
		if (++n % BLOCKS_PER_QUIESCE == 0)
			rcu_quiescent_state();
		if (block.kind == MEM_BUCKET) {
			bucket_replace(thread, &block);
			continue;
		}
		if (!block_hash(thread->table, block.p, &hash))
			continue;
		cold = access_time_coldness(thread, block.p);
		if (!evict)
			table_move_block(thread, hash, block.p);
		else if (cold >= warm)
			table_remove_block(thread, hash, block.p, REMOVAL_EVICTED);
		else
			item_move_or_evict(thread, &block, hash, cold);
	}
	/* Items and buckets that wait for a grace period would keep the spans from being empty. */
	limbo_empty(&thread->limbo, &thread->cache);
}

void evict_evacuate(struct store_thread *thread, struct mem_evacuation *evacuation, bool evict)
{
	evacuation_run(thread, evacuation, evict, UINT32_MAX);
}

/* Ends it. Returns whether the spans are empty. */
static bool evacuation_done(struct store_thread *thread, struct mem_evacuation *evacuation)
{
	bool empty = mem_evacuation_end(evacuation);

	stat_add(&thread->stats.evacuations_failed, !empty);
	return empty;
}

bool evict_compact(struct store_thread *thread)
{
	struct mem_evacuation evacuation;

	if (!mem_evacuation_begin_sparse(&evacuation, thread->table->memory))
		return false;
	evacuation_run(thread, &evacuation, false, 0);
	return evacuation_done(thread, &evacuation);
}

/* Empties the span that the candidate is in. */
static bool empty_span_of(struct store_thread *thread, const struct candidate *candidate,
			  uint32_t warm)
{
	struct mem_evacuation evacuation;

	if (!mem_evacuation_begin(&evacuation, thread->table->memory, candidate->block))
		return false;
	evacuation_run(thread, &evacuation, true, warm);
	return evacuation_done(thread, &evacuation);
}

/* Empties a place for a slab, where large items leave only runs that are too short for one. */
static bool empty_slab_place(struct store_thread *thread, size_t bytes, uint32_t warm)
{
	struct mem_evacuation evacuation;

	if (!mem_evacuation_begin_large(&evacuation, thread->table->memory,
					bytes > SLAB_SMALL_ITEM_BYTES ? SLAB_BYTES_MAX :
									SLAB_BYTES_MIN,
					&thread->random, PLACES))
		return false;
	evacuation_run(thread, &evacuation, true, warm);
	return evacuation_done(thread, &evacuation);
}

/* One step for a small item: evicts an item of the class, or empties a span with a colder one. */
static bool room_in_slabs(struct store_thread *thread, unsigned int class_id, size_t bytes,
			  unsigned int step)
{
	struct candidate own, any;

	candidate_of_class(thread, &own, class_id, SAMPLES);
	candidate_of_any(thread, &any);
	if (step % STEPS_PER_PLACE == STEPS_PER_PLACE - 1)
		return empty_slab_place(thread, bytes, any.coldness / COLDER_TIMES);
	/* Also if the class has no candidate: then there are no items of this size to evict. */
	if (any.coldness > (uint64_t)own.coldness * COLDER_TIMES)
		return empty_span_of(thread, &any,
				     own.coldness ? own.coldness : any.coldness / COLDER_TIMES);
	return own.coldness && table_remove_block(thread, own.hash, own.block, REMOVAL_EVICTED);
}

/*
 * One step for a large item: evicts large items, which may leave enough room, or empties a place of
 * the size. Returns the block in the latter case, if it became empty.
 */
static void *room_for_large(struct store_thread *thread, size_t bytes, unsigned int step)
{
	unsigned int i, n = bytes < LARGE_AT_ONCE_BYTES ? LARGE_AT_ONCE : 1;
	struct candidate own, any;
	struct mem_evacuation evacuation;
	void *block;

	candidate_of_class(thread, &own, MEM_CLASS_LARGE, SAMPLES);
	candidate_of_any(thread, &any);
	if (own.coldness && any.coldness <= (uint64_t)own.coldness * COLDER_TIMES &&
	    step % STEPS_PER_PLACE) {
		for (i = 0; i < n && own.coldness; i++) {
			table_remove_block(thread, own.hash, own.block, REMOVAL_EVICTED);
			candidate_of_class(thread, &own, MEM_CLASS_LARGE, SAMPLES);
		}
		return NULL;
	}
	if (!mem_evacuation_begin_large(&evacuation, thread->table->memory, bytes, &thread->random,
					PLACES))
		return NULL;
	evacuation_run(thread, &evacuation, true, any.coldness / COLDER_TIMES);
	block = mem_evacuation_end_large(&evacuation, &thread->cache, bytes);
	stat_add(&thread->stats.evacuations_failed, !block);
	return block;
}

/*
 * One step without eviction: moves items together, and where that gains nothing, empties a place
 * for a large item by moving. Returns the block in the latter case.
 */
static void *room_by_moving(struct store_thread *thread, size_t bytes, bool *gained)
{
	struct mem_evacuation evacuation;
	void *block;

	*gained = evict_compact(thread);
	if (*gained || mem_class(bytes) != MEM_CLASS_LARGE)
		return NULL;
	if (!mem_evacuation_begin_large(&evacuation, thread->table->memory, bytes, &thread->random,
					PLACES))
		return NULL;
	evacuation_run(thread, &evacuation, false, 0);
	block = mem_evacuation_end_large(&evacuation, &thread->cache, bytes);
	stat_add(&thread->stats.evacuations_failed, !block);
	return block;
}

/* Whether moving made no room just now, and this thread has freed nothing since. */
static bool room_failed_just_now(const struct store_thread *thread)
{
	return thread->room_failed_freed == thread->cache.freed_bytes + 1 &&
	       thread->now_ns - thread->room_failed_ns < ROOM_RETRY_NS;
}

/* evict_make_room() without eviction. */
static void *make_room_moving(struct store_thread *thread, size_t bytes)
{
	unsigned int step;
	bool gained = true;
	void *block;

	if (room_failed_just_now(thread))
		return NULL;
	/* Other threads' magazines may have what is needed. */
	memory_gather(thread->table->memory);
	for (step = 0; gained && step < ROOM_STEPS_MAX; step++) {
		block = mem_alloc(&thread->cache, bytes);
		if (!block)
			block = room_by_moving(thread, bytes, &gained);
		if (block)
			return block;
	}
	thread->room_failed_freed = thread->cache.freed_bytes + 1;
	thread->room_failed_ns = thread->now_ns;
	return NULL;
}

/* Before evicting: frees what waits in this thread's limbo, and what idle threads have cached. */
static void gather_before_evicting(struct store_thread *thread)
{
	limbo_empty(&thread->limbo, &thread->cache);
	if (thread->table->eviction != EVICTION_NONE && thread->rooms++ % ROOMS_PER_GATHER == 0)
		stat_add(&thread->stats.gathered_bytes,
			 memory_gather_idle(thread->table->memory, &thread->cache));
}

void *evict_make_room(struct store_thread *thread, size_t bytes)
{
	unsigned int class_id = mem_class(bytes), step;
	void *block = NULL;

	if (bytes > memory_bytes(thread->table->memory))
		return NULL;
	/* That may be enough. */
	gather_before_evicting(thread);
	if (thread->table->eviction == EVICTION_NONE)
		return make_room_moving(thread, bytes);
	for (step = 0; !block && step < ROOM_STEPS_MAX; step++) {
		block = mem_alloc(&thread->cache, bytes);
		if (block)
			break;
		if (class_id == MEM_CLASS_LARGE)
			block = room_for_large(thread, bytes, step);
		else
			room_in_slabs(thread, class_id, bytes, step);
		limbo_empty(&thread->limbo, &thread->cache);
	}
	return block ? block : mem_alloc(&thread->cache, bytes);
}

uint64_t *evict_choose_slot(const struct store_thread *thread, struct bucket *bucket)
{
	uint32_t cold, coldest = 0;
	uint64_t *chosen = NULL;
	unsigned int i;

	if (thread->table->eviction == EVICTION_NONE)
		return NULL;
	for (i = 0; i < BUCKET_SLOTS; i++) {
		cold = bucket->slots[i] ?
			       access_time_coldness(thread,
						    slot_item(thread->table, bucket->slots[i])) :
			       0;
		if (cold > coldest) {
			coldest = cold;
			chosen = &bucket->slots[i];
		}
	}
	return chosen;
}

struct bucket *evict_make_bucket(struct store_thread *thread)
{
	bool evict = thread->table->eviction != EVICTION_NONE;
	struct bucket *bucket = NULL;
	struct candidate any;
	unsigned int step;

	gather_before_evicting(thread);
	for (step = 0; !bucket && step < ROOM_STEPS_MAX; step++) {
		bucket = mem_alloc_bucket(&thread->cache, 0);
		if (bucket)
			break;
		candidate_of_any(thread, &any);
		if (evict && any.coldness)
			empty_span_of(thread, &any, any.coldness / COLDER_TIMES);
		else if (!evict && !evict_compact(thread))
			break;
	}
	return bucket;
}
