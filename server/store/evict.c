/* SPDX-License-Identifier: MIT */
/*
 * Eviction: draws items at random and chooses the coldest; empties spans by moving and evicting
 * what is in them.
 */
#include "server/store/evict.h"

#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/store/access_time.h"
#include "server/store/chain.h"
#include "server/store/lookup.h"

/* Candidates drawn of a class, and of all. Redis draws 5; 10 come close to exact LRU there. */
#define SAMPLES 16
#define SAMPLES_ANY 12
/* Candidates for eviction, drawn to move another item of their class. */
#define SAMPLES_MOVE 4

/*
 * Evictions, one after another, to make room for moving an item that must not be evicted. If that
 * is not enough the item stays in its place, and its span does not get empty this time.
 */
#define STAY_MOVE_TRIES 8

/* Blocks that are moved or evicted between two quiescent states: some 50 us. */
#define STEPS_PER_QUIESCE 64
/* Bytes of a large item that are moved in one step: less than 20 us. */
#define MOVE_STEP_BYTES (64u << 10)

/* How often a block without a valid item is read: a thread may be about to make the item valid. */
#define SNAPSHOT_TRIES_MAX 64

/* Chooses the coldest valid item of @blocks, which may hold anything by now. */
static void candidate_choose(const struct store_thread *thread, struct candidate *best,
			     void **blocks, unsigned int count)
{
	unsigned int i;

	best->coldness = 0;
	for (i = 0; i < count; i++)
		__builtin_prefetch(blocks[i]);
	for (i = 0; i < count; i++) {
		uint64_t cold = access_time_coldness(thread, blocks[i]);

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

void evict_candidate_of_class(struct store_thread *thread, struct candidate *best,
			      unsigned int class_id)
{
	candidate_of_class(thread, best, class_id, SAMPLES);
}

void evict_candidate_of_any(struct store_thread *thread, struct candidate *best)
{
	void *blocks[SAMPLES_ANY];

	candidate_choose(thread, best, blocks,
			 mem_sample_any(thread->table->memory, &thread->random, blocks,
					SAMPLES_ANY));
}

bool evict_candidate(struct store_thread *thread, const struct candidate *candidate)
{
	return table_remove_block(thread, candidate->hash, candidate->block, REMOVAL_EVICTED);
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

/* Moves the item; a large one in later steps. False: there is no block for it. */
static bool item_move(struct store_thread *thread, struct emptying *emptying, uint64_t hash,
		      const struct mem_block *block)
{
	enum wire_status status = table_move_begin(&emptying->move, thread, hash, block->p);

	emptying->moving = status == WIRE_BUSY;
	return status != WIRE_NO_SPACE;
}

/*
 * Moves the item; if there is no block for it, evicts a colder one of its class and tries again, or
 * evicts it.
 */
static void item_move_or_evict(struct store_thread *thread, struct emptying *emptying,
			       const struct mem_block *block, uint64_t hash, uint64_t cold)
{
	struct candidate other;

	if (item_move(thread, emptying, hash, block))
		return;
	candidate_of_class(thread, &other, mem_class(block->bytes), SAMPLES_MOVE);
	if (other.coldness > cold && other.block != block->p && evict_candidate(thread, &other) &&
	    item_move(thread, emptying, hash, block))
		return;
	if (emptying->make_room && coldness_kind(cold) == COLDNESS_IS_YOUNG &&
	    emptying->make_room(thread, block->bytes) && item_move(thread, emptying, hash, block))
		return;
	table_remove_block(thread, hash, block->p, REMOVAL_EVICTED);
}

/* Moves an item that must not be evicted; others of its class are evicted for it. */
static void item_move_staying(struct store_thread *thread, struct emptying *emptying,
			      const struct mem_block *block, uint64_t hash)
{
	unsigned int class_id = mem_class(block->bytes), tries;
	struct candidate other;

	for (tries = 0; !item_move(thread, emptying, hash, block); tries++) {
		if (tries == STAY_MOVE_TRIES) {
			/* The class may have nothing that can be evicted. */
			if (emptying->make_room && emptying->make_room(thread, block->bytes) &&
			    item_move(thread, emptying, hash, block))
				return;
			emptying->left++;
			emptying->stays = emptying->spares;
			return;
		}
		candidate_of_class(thread, &other, class_id, SAMPLES);
		if (other.coldness >= (emptying->spares ? COLDNESS_OLD : 1))
			evict_candidate(thread, &other);
		/* The memory of a large item is free only after a grace period. */
		if (class_id == MEM_CLASS_LARGE)
			limbo_empty(&thread->limbo, &thread->cache);
	}
}

/* Replaces the overflow bucket at @block in its chain by another one. */
static void bucket_replace(struct store_thread *thread, struct emptying *emptying,
			   const struct mem_block *block)
{
	struct bucket *spare = mem_alloc_bucket(&thread->cache, block->home);
	struct table *table = thread->table;
	struct retired retired = { .count = 0 };
	struct bucket *home, *bucket;
	bool done = false;

	if (!spare && emptying->make_room && emptying->make_room(thread, 0))
		spare = mem_alloc_bucket(&thread->cache, block->home);
	if (!spare) {
		emptying->left++;
		return;
	}
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

void emptying_begin(struct store_thread *thread, struct emptying *emptying, bool evict)
{
	emptying->evict = evict;
	emptying->moving = emptying->stays = false;
	emptying->left = 0;
	stat_add(&thread->stats.evacuations, 1);
}

/* With eviction off. */
static void item_move_or_stay(struct store_thread *thread, struct emptying *emptying,
			      const struct mem_block *block, uint64_t hash)
{
	if (item_move(thread, emptying, hash, block))
		return;
	if (!emptying->make_room || !emptying->make_room(thread, block->bytes) ||
	    !item_move(thread, emptying, hash, block))
		emptying->left++;
}

static void block_empty(struct store_thread *thread, struct emptying *emptying,
			const struct mem_block *block)
{
	uint64_t hash, cold;

	if (block->kind == MEM_BUCKET) {
		bucket_replace(thread, emptying, block);
		return;
	}
	if (!block_hash(thread->table, block->p, &hash))
		return;
	cold = access_time_coldness(thread, block->p);
	if (!emptying->evict)
		item_move_or_stay(thread, emptying, block, hash);
	else if (!cold || (emptying->spares && coldness_kind(cold) == COLDNESS_IS_YOUNG))
		item_move_staying(thread, emptying, block, hash);
	else if (cold >= emptying->warm)
		table_remove_block(thread, hash, block->p, REMOVAL_EVICTED);
	else
		item_move_or_evict(thread, emptying, block, hash, cold);
}

bool emptying_step(struct store_thread *thread, struct emptying *emptying)
{
	struct mem_block block;

	if (emptying->moving)
		emptying->moving = table_move_step(&emptying->move, MOVE_STEP_BYTES) == WIRE_BUSY;
	else if (!emptying->stays && mem_evacuation_next(&emptying->evacuation, &block))
		block_empty(thread, emptying, &block);
	else
		return false;
	return true;
}

void emptying_cancel(struct emptying *emptying)
{
	if (emptying->moving)
		table_move_cancel(&emptying->move);
	emptying->moving = false;
}

void evict_evacuate(struct store_thread *thread, struct emptying *emptying, bool evict)
{
	unsigned int n = 0;

	emptying->warm = UINT64_MAX;
	emptying->spares = false;
	emptying_begin(thread, emptying, evict);
	while (emptying_step(thread, emptying))
		/* The grace periods of other threads don't wait until all is empty. */
		if (emptying->moving || ++n % STEPS_PER_QUIESCE == 0)
			rcu_quiescent_state();
	limbo_empty(&thread->limbo, &thread->cache);
}

bool evict_compact(struct store_thread *thread)
{
	struct emptying emptying;
	bool empty;

	if (!mem_evacuation_begin_sparse(&emptying.evacuation, thread->table->memory, NULL))
		return false;
	emptying.make_room = NULL;
	evict_evacuate(thread, &emptying, false);
	empty = mem_evacuation_end(&emptying.evacuation);
	stat_add(&thread->stats.evacuations_failed, !empty);
	return empty;
}

/* Slots of a full chain that are drawn at most, until one is not pinned. */
#define CHAIN_DRAWS 4u

/* Overflow bucket number @n of the chain, or the last one. */
static struct bucket *overflow_bucket(const struct table *table, struct bucket *home,
				      unsigned int n)
{
	struct bucket *bucket, *at = home;

	chain_for_each(table, bucket, home) {
		at = bucket;
		if (chain_hops > n)
			break;
	}
	return at;
}

uint64_t *evict_choose_slot(struct store_thread *thread, struct bucket *home, struct bucket **in)
{
	const struct table *table = thread->table;
	uint64_t *slot = NULL, random;

	if (table->eviction == EVICTION_NONE)
		return NULL;
	for (unsigned int i = 0; i < CHAIN_DRAWS; i++) {
		random = store_thread_random(thread);
		*in = overflow_bucket(table, home, (unsigned int)(random % CHAIN_MAX));
		slot = &(*in)->slots[(random >> 32) % BUCKET_SLOTS];
		if (access_time_coldness(thread, slot_item(table, *slot)))
			break;
	}
	return slot;
}
