/* SPDX-License-Identifier: MIT */
/* Recovers a store whose process was killed: verifies its items and makes an index for them. */
#include "server/store/recover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/store/access_time.h"
#include "server/store/adopt.h"
#include "server/store/chain.h"
#include "server/store/growth.h"
#include "server/store/pieces.h"

/* Pages of a piece: 16 MiB. */
#define PIECE_PAGES 4096u
/* Items whose buckets are fetched together. */
#define BATCH_ITEMS 16u

/* What one thread found. */
struct found {
	uint64_t items, live_bytes, expiring, lost;
	uint64_t version; /* the highest counter */
	uint32_t page;	  /* the first page of the first span with an item */
	bool wider;
};

/* A thread of the recovery, and what it has found. */
struct finder {
	struct found found;
	struct store_thread thread; /* not one of the table's: it adds buckets to chains */
	uint64_t lost;		    /* offset of the last of these items */
	struct item *batch[BATCH_ITEMS];
	uint64_t hashes[BATCH_ITEMS];
	unsigned int count;
};

struct recovery {
	struct table *table;
	const struct store_options *options;
	uint64_t old, new; /* incarnations */
	uint64_t flushing; /* versions up to this counter are not kept */
	struct finder *finders;
};

static const struct region *region_of(const struct recovery *r)
{
	return r->table->region;
}

/* Whether an item at @offset, a header at least, can be there. */
static bool is_place(const struct region *region, uint64_t offset)
{
	return offset >= sizeof(struct superblock) && offset % ITEM_ALIGN == 0 &&
	       offset < region->bytes - REGION_PAD;
}

static void change_undo(const struct region *region, const struct keep_change *change)
{
	struct item *new, *old;

	if (!is_place(region, change->new_at) || !is_place(region, change->old_at) ||
	    change->bytes > sizeof(change->saved) ||
	    change->old_at + sizeof(old->sum) + change->bytes > region->bytes)
		return;
	new = region_at(region, change->new_at);
	old = region_at(region, change->old_at);
	if (new->sum != ITEM_SUM_INVALID)
		return;
	memcpy((uint8_t *)old + sizeof(old->sum), change->saved, change->bytes);
	old->sum = change->old_sum;
}

/* RECOVER-2. */
static void changes_undo(const struct region *region)
{
	for (unsigned int i = 0; i < KEEP_THREADS_MAX; i++) {
		struct keep_change *change = &region->keep.changes[i];

		if (change->new_at)
			change_undo(region, change);
		keep_change_end(change);
	}
}

/* RECOVER-3, RECOVER-5. */
static int incarnations_begin(struct recovery *r)
{
	struct region *region = r->table->region;
	int err = region_renew(region);

	r->old = region->keep.head->incarnation[0];
	r->new = region->geometry.incarnation;
	return err;
}

/* Whether the block has an item that is whole, by its lengths. */
static bool item_fits(const struct item *item, uint64_t bytes_max)
{
	uint32_t key_len;

	if (item->sum == ITEM_SUM_INVALID || bytes_max < sizeof(*item))
		return false;
	if (item_is_long(item) && bytes_max < sizeof(union item_front))
		return false;
	key_len = item_key_len(item);
	return key_len && key_len <= KEY_MAX && item_value_len(item) <= VALUE_MAX &&
	       item_bytes(item) <= bytes_max;
}

/* RECOVER-1. The sum becomes one of the new incarnation. */
static bool item_recover(const struct recovery *r, struct item *item, uint64_t bytes_max)
{
	const struct region *region = region_of(r);
	const struct sum_key *key = &region->sum_key;
	uint64_t offset = region_offset(region, item), body, sum;

	if (!item_fits(item, bytes_max) || item->version >> THREAD_ID_BITS <= r->flushing)
		return false;
	body = item_body_sum(item, key);
	sum = item_sum_of(item, body, key, r->new, offset);
	if ((item->sum != sum && item->sum != item_sum_of(item, body, key, r->old, offset)) ||
	    !item_value_verifies(item, key))
		return false;
	store_relaxed64(&item->sum, sum);
	return true;
}

/* An item that is kept is counted; what else a block has is made free (MEMORY-1). */
static bool block_recover(const struct recovery *r, struct found *found, struct item *item,
			  uint64_t bytes_max)
{
	uint64_t version;

	if (!item_recover(r, item, bytes_max)) {
		store_relaxed64(&item->sum, ITEM_SUM_INVALID);
		return false;
	}
	version = item->version >> THREAD_ID_BITS;
	found->items++;
	found->live_bytes += item_bytes(item);
	found->expiring += item->expires != 0;
	found->version = found->version < version ? version : found->version;
	found->wider |= mem_class_bytes(item_bytes(item)) != bytes_max;
	if (access_is_pin(item->access))
		pins_count(r->table->pins, item->access, mem_class_bytes(item_bytes(item)));
	return true;
}

/* Returns whether an item of the slab is kept. */
static bool slab_recover(const struct recovery *r, struct found *found, struct slab *slab)
{
	const struct memory *memory = r->table->memory;
	uint64_t bytes = memory->classes[slab->class_id].bytes;
	bool any = false;

	memset(slab->free_bits, 0, sizeof(slab->free_bits));
	for (uint32_t i = 0; i < slab->blocks; i++)
		if (block_recover(r, found, slab_block(memory, slab, i), bytes))
			any = true;
		else
			slab->free_bits[i / 64] |= 1ull << i % 64;
	return any;
}

static bool span_recover(const struct recovery *r, struct found *found, const struct span *span)
{
	struct memory *memory = r->table->memory;
	struct item *item = page_address(memory, span->page);
	uint64_t bytes = (uint64_t)span->pages * PAGE_BYTES;

	if (span->kind == PAGE_ITEMS)
		return slab_recover(r, found, &memory->slabs[span->slab]);
	if (span->kind != PAGE_LARGE || !item_fits(item, bytes) ||
	    mem_class_bytes(item_bytes(item)) != bytes)
		return false;
	return block_recover(r, found, item, bytes);
}

/* Spans that begin in this piece: each page is looked at by one thread. */
static int piece_verify(void *context, uint32_t thread, uint64_t at, uint64_t bytes)
{
	const struct recovery *r = context;
	struct memory *memory = r->table->memory;
	struct found *found = &r->finders[thread].found;
	uint32_t page = (uint32_t)(at / PAGE_BYTES), end = (uint32_t)((at + bytes) / PAGE_BYTES);
	struct span span;

	for (page = page < memory->heap.first ? memory->heap.first : page; page < end;) {
		if (!kept_span(memory, page, &span)) {
			page++;
			continue;
		}
		if (span_recover(r, found, &span))
			found->page = span.page < found->page ? span.page : found->page;
		else
			page_heap_forget(&memory->heap, page);
		page += span.pages;
	}
	return 0;
}

/*
 * The item can't be reached, and is freed when all threads have ended. Until then its version leads
 * to the item that was lost before.
 */
static void item_lose(const struct recovery *r, struct finder *finder, struct item *item)
{
	item_invalidate(item);
	item->version = finder->lost;
	finder->lost = region_offset(region_of(r), item);
}

static void lost_free(const struct recovery *r, struct finder *finder)
{
	while (finder->lost) {
		struct item *item = region_at(region_of(r), finder->lost);

		finder->lost = item->version;
		finder->found.items--;
		finder->found.live_bytes -= item_bytes(item);
		finder->found.expiring -= item->expires != 0;
		finder->found.lost++;
		item_unpin(&finder->thread, item);
		mem_free(&finder->thread.cache, item, item_bytes(item));
	}
}

/* Makes the item the key's; an older one of the key, which RECOVER-2 excludes, goes. */
static void item_index(struct recovery *r, struct finder *finder, struct item *item, uint64_t hash)
{
	struct table *table = r->table;
	uint64_t slot = slot_for(table, hash, item);
	struct bucket *home = index_lock_home(table, hash), *bucket;
	struct chain_pos pos;

	do_chain_find(&finder->thread, &pos, home, hash, item_key(item), item_key_len(item));
	if (pos.slot && pos.item->version < item->version) {
		item_lose(r, finder, pos.item);
		slot_store(pos.slot, slot);
		do_chain_seal(table, home, pos.bucket);
	} else if (pos.slot) {
		item_lose(r, finder, item);
	} else if (pos.free_in) {
		slot_store(pos.free_slot, slot);
		do_chain_seal(table, home, pos.free_in);
	} else {
		bucket = pos.length < CHAIN_MAX ? mem_alloc_bucket(&finder->thread.cache,
								   index_number(table, home)) :
						  NULL;
		if (bucket)
			do_chain_extend(&finder->thread, &pos, bucket, slot);
		else
			item_lose(r, finder, item);
	}
	bucket_unlock(home);
}

static void batch_index(struct recovery *r, struct finder *finder)
{
	for (unsigned int i = 0; i < finder->count; i++)
		item_index(r, finder, finder->batch[i], finder->hashes[i]);
	finder->count = 0;
}

static void batch_add(struct recovery *r, struct finder *finder, struct item *item)
{
	uint64_t hash = table_hash(r->table, item_key(item), item_key_len(item));

	table_prefetch_bucket(r->table, hash);
	finder->batch[finder->count] = item;
	finder->hashes[finder->count++] = hash;
	if (finder->count == BATCH_ITEMS)
		batch_index(r, finder);
}

static void slab_index(struct recovery *r, struct finder *finder, const struct slab *slab)
{
	for (uint32_t i = 0; i < slab->blocks; i++)
		if (!(slab->free_bits[i / 64] >> i % 64 & 1))
			batch_add(r, finder, slab_block(r->table->memory, slab, i));
}

static bool page_has_items(const struct memory *memory, uint32_t page)
{
	uint32_t kind = hint_load(&memory->heap.map[page].word) & PAGE_KIND;

	return kind == PAGE_ITEMS || kind == PAGE_LARGE;
}

static int piece_index(void *context, uint32_t thread, uint64_t at, uint64_t bytes)
{
	struct recovery *r = context;
	struct finder *finder = &r->finders[thread];
	const struct memory *memory = r->table->memory;
	uint32_t page = (uint32_t)(at / PAGE_BYTES), end = (uint32_t)((at + bytes) / PAGE_BYTES);
	struct span span;

	for (page = page < memory->heap.first ? memory->heap.first : page; page < end;
	     page += span.pages) {
		/*
		 * Slabs of buckets are made meanwhile, in pages that were free. The rest of a span
		 * that begins in the piece before is that one's.
		 */
		if (!page_has_items(memory, page) || !kept_span(memory, page, &span)) {
			span.pages = 1;
			continue;
		}
		if (span.kind == PAGE_LARGE)
			batch_add(r, finder, page_address(memory, page));
		else
			slab_index(r, finder, &memory->slabs[span.slab]);
	}
	batch_index(r, finder);
	return 0;
}

static int pieces_of(struct recovery *r, const char *done,
		     int (*run)(void *context, uint32_t thread, uint64_t at, uint64_t bytes))
{
	const struct pieces pieces = {
		.bytes = (uint64_t)r->table->memory->heap.end * PAGE_BYTES,
		.piece_bytes = (uint64_t)PIECE_PAGES * PAGE_BYTES,
		.cancel = r->options->cancel,
		.done = done,
		.run = run,
		.context = r,
	};

	return pieces_run(&pieces);
}

static struct found found_sum(const struct recovery *r)
{
	struct found sum = { .page = r->table->memory->heap.end };

	for (unsigned int i = 0; i < PIECES_THREADS_MAX; i++) {
		const struct found *f = &r->finders[i].found;

		sum.items += f->items;
		sum.live_bytes += f->live_bytes;
		sum.expiring += f->expiring;
		sum.lost += f->lost;
		sum.version = f->version > sum.version ? f->version : sum.version;
		sum.page = f->page < sum.page ? f->page : sum.page;
		sum.wider |= f->wider;
	}
	return sum;
}

/* RECOVER-4. The index is no longer than what is before the first item. Returns its end. */
static uint32_t index_make(struct table *table, const struct found *found)
{
	struct geometry *g = &table->region->geometry;
	uint64_t base = 1ull << g->level_base, buckets, steps, end;
	uint64_t room = (uint64_t)found->page * PAGE_BYTES - sizeof(struct superblock);

	buckets = found->items * 100 / (table->fill * BUCKET_SLOTS) + 1;
	if (buckets > room / BUCKET_BYTES)
		buckets = room / BUCKET_BYTES;
	if (buckets < base)
		buckets = base;
	g->level = 63 - (uint32_t)__builtin_clzll(buckets);
	g->split = buckets - (1ull << g->level);
	steps = (buckets - base + INDEX_STEP - 1) / INDEX_STEP;
	end = sizeof(struct superblock) + (base + steps * INDEX_STEP) * BUCKET_BYTES;
	/* A last step that does not fit is left out. */
	if (steps && end > (uint64_t)found->page * PAGE_BYTES) {
		steps--;
		buckets = base + steps * INDEX_STEP;
		g->level = 63 - (uint32_t)__builtin_clzll(buckets);
		g->split = buckets - (1ull << g->level);
		end = sizeof(struct superblock) + buckets * BUCKET_BYTES;
	}
	atomic_store(&table->buckets_max, base + steps * INDEX_STEP);
	return (uint32_t)((end + PAGE_BYTES - 1) / PAGE_BYTES);
}

static int finders_init(struct recovery *r)
{
	int err = 0;

	r->finders = calloc(PIECES_THREADS_MAX, sizeof(*r->finders));
	if (!r->finders)
		return -ENOMEM;
	for (unsigned int i = 0; !err && i < PIECES_THREADS_MAX; i++) {
		r->finders[i].found.page = r->table->memory->heap.end;
		r->finders[i].thread.table = r->table;
		r->finders[i].thread.now_ns = table_clock_ns(r->table);
		err = mem_cache_init(&r->finders[i].thread.cache, r->table->memory);
	}
	return err;
}

static uint64_t finders_release(struct recovery *r)
{
	uint64_t buckets = 0;

	for (unsigned int i = 0; r->finders && i < PIECES_THREADS_MAX; i++) {
		buckets += r->finders[i].thread.stats.overflow_buckets;
		mem_cache_release(&r->finders[i].thread.cache);
	}
	free(r->finders);
	r->finders = NULL;
	return buckets;
}

static int recover_items(struct recovery *r, struct found *found)
{
	struct table *table = r->table;
	int err;

	ticks_adopt(table);
	changes_undo(table->region);
	pins_recount(table->pins);
	err = incarnations_begin(r);
	if (!err)
		err = pieces_of(r, "verified", piece_verify);
	if (err)
		return err;
	*found = found_sum(r);
	memory_adopt(table->memory, index_make(table, found));
	table->memory->wider = found->wider;
	err = index_format(table, r->options->cancel);
	if (!err)
		err = pieces_of(r, "indexed", piece_index);
	for (unsigned int i = 0; i < PIECES_THREADS_MAX; i++)
		lost_free(r, &r->finders[i]);
	*found = found_sum(r);
	return err;
}

static void recover_end(struct recovery *r, const struct found *found, uint64_t buckets)
{
	struct table *table = r->table;
	struct keep_head *head = table->region->keep.head;

	table->items_kept = found->items;
	atomic_store(&table->items, (int64_t)table->items_kept);
	table->stats_kept.live_bytes = found->live_bytes;
	table->stats_kept.expiring = found->expiring;
	table->stats_kept.overflow_buckets = buckets;
	region_publish_geometry(table->region);
	table_raise_version_start(table, found->version);
	table->region->keep.flushed = r->flushing;
	atomic_store(&head->flushing, 0);
	head->incarnation[0] = r->new;
}

int recover_run(struct table *table, const struct store_options *options)
{
	struct recovery r = {
		.table = table,
		.options = options,
		.flushing = atomic_load(&table->region->keep.head->flushing),
	};
	uint64_t start = clock_ns(), buckets;
	struct found found;
	int err = finders_init(&r);

	if (!err)
		err = recover_items(&r, &found);
	buckets = finders_release(&r);
	if (err == -ENOMEM)
		log_error("store: no memory to recover what is in %s", options->file);
	if (err)
		return err;
	recover_end(&r, &found, buckets);
	log_notice("store: the last kvd did not stop cleanly: %" PRIu64
		   " items verified, and are kept; that took %" PRIu64 " ms",
		   table->items_kept, (clock_ns() - start) / 1000000u);
	if (found.lost)
		log_warn("store: %" PRIu64 " items are lost, since the index has no room for them: "
			 "raise memory.size",
			 found.lost);
	return 0;
}
