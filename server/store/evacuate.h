/* SPDX-License-Identifier: MIT */
/*
 * Evacuations: empty spans of the item memory, so that their pages can serve blocks of another
 * size, a large item or the index.
 *
 *	begin		closes the spans: nothing is allocated from them, what is freed stays free
 *	next ...	tells what is in them; the caller moves or frees it
 *	end		opens the spans again; those that are empty become free pages
 *
 * Threads: any; one evacuation belongs to one thread, and two never share a span. The functions
 * take the locks of server/store/memory.h, in its order, and hold none when they return.
 */
#ifndef KVD_SERVER_STORE_EVACUATE_H
#define KVD_SERVER_STORE_EVACUATE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "server/store/memory.h"

/*
 * One evacuation. After a begin that returned true, one of the mem_evacuation_end*() has to be
 * called once, and the struct must not be moved before that; after false, there is nothing to end
 * and it holds nothing of use.
 */
struct mem_evacuation {
	struct memory *memory;
	uint32_t page, pages;	       /* whole spans, closed so far */
	uint32_t target, target_pages; /* the pages among them that are wanted */
	uint32_t next_page;	       /* iterator: first page of a span, and a block in it */
	uint32_t next_block;
	uint32_t opened;		   /* of @pages */
	bool taken;			   /* the target is allocated */
	uint64_t number;		   /* in the order of begin */
	TAILQ_ENTRY(mem_evacuation) entry; /* in memory->evacuations_open */
};

/*
 * Begins an evacuation of the span that @p is in. False: it is being evacuated already, or @p is in
 * the index or in free pages.
 */
bool mem_evacuation_begin(struct mem_evacuation *evacuation, struct memory *memory, const void *p);
/* Slabs that did not get empty: a block that is being written keeps one from that. */
#define MEM_SKIP_MAX 4
struct mem_skip {
	uint32_t pages[MEM_SKIP_MAX]; /* their first */
	unsigned int count;
};

/*
 * The same for the slab, of items or buckets, with the smallest share of blocks in use, provided
 * these fit free blocks of other slabs of its class. Where it takes the blocks in magazines for
 * that, the magazines are drained. Slabs in @skip, if not NULL, are not chosen. False: there is no
 * such slab, so moving items can free nothing.
 */
bool mem_evacuation_begin_sparse(struct mem_evacuation *evacuation, struct memory *memory,
				 const struct mem_skip *skip);
/*
 * The same for pages for a large item of @bytes: of @tries places chosen at random, the one with
 * the fewest bytes in use, without bucket slabs. False: there was no such place that is not
 * being evacuated, or the item is larger than the memory. @random is the caller's state.
 */
bool mem_evacuation_begin_large(struct mem_evacuation *evacuation, struct memory *memory,
				size_t bytes, uint64_t *random, unsigned int tries);
/*
 * The same for the @bytes behind the index, a multiple of PAGE_BYTES. False: item memory is not
 * larger than that, or they are being evacuated.
 */
bool mem_evacuation_begin_index(struct mem_evacuation *evacuation, struct memory *memory,
				uint64_t bytes);

/* How many are under way. A hint. */
uint32_t mem_evacuations(const struct memory *memory);
/* The number of the last one that was begun; and whether all up to @number have ended. */
uint64_t mem_evacuations_begun(const struct memory *memory);
bool mem_evacuations_ended(const struct memory *memory, uint64_t number);

enum mem_kind { MEM_ITEM, MEM_BUCKET };

struct mem_block {
	void *p;
	size_t bytes; /* of a block of its class, or of the span */
	enum mem_kind kind;
	uint64_t home; /* of a bucket: the number of its home bucket */
};

/*
 * The next block in the spans that is not free. It may not be written yet, or be freed at any time
 * by another thread. False: there are no more; the next call starts over.
 */
bool mem_evacuation_next(struct mem_evacuation *evacuation, struct mem_block *block);

/*
 * End the evacuation. Empty spans become free pages; the others are as before. mem_evacuation_end()
 * returns whether all pages that it was begun for were empty. mem_evacuation_end_large() allocates
 * them for a large item in the same step, and mem_evacuation_end_index() gives them to the index,
 * which lowers memory_bytes(); if not all were empty they return NULL or false.
 */
bool mem_evacuation_end(struct mem_evacuation *evacuation);
void *mem_evacuation_end_large(struct mem_evacuation *evacuation, struct mem_cache *cache,
			       size_t bytes);
bool mem_evacuation_end_index(struct mem_evacuation *evacuation);

/*
 * What it would cost to evict what is in a block, or in the pages of a large item, of @bytes; for a
 * slab some of its blocks are asked for. Without the locks of the block's bucket and class, so it
 * may be anything by then; but with the page heap's, so it must take none and be quick.
 */
typedef uint64_t (*mem_cost_fn)(const void *context, const void *block, size_t bytes);

/*
 * The same in steps, for pages of a large item, which may be many: each takes some 10 us at most,
 * beside 1 to 3 ns for each free page. Others may use the memory in between.
 *
 *	mem_place_begin(), mem_place_step() ...		chooses the pages
 *	mem_evacuation_begin_place(), mem_evacuation_close() ...
 *	mem_evacuation_next() ...
 *	mem_evacuation_take() or mem_evacuation_is_empty(), or neither
 *	mem_evacuation_open() ...			at any time after begin: ends it
 */
struct mem_place {
	uint32_t pages;
	mem_cost_fn cost_of; /* NULL: the bytes in use count */
	const void *context;
	unsigned int tries; /* left */
	uint32_t page, at;  /* that is being looked at, and how far; at 0: none is */
	uint64_t cost;	    /* of it so far */
	uint64_t best;	    /* the lowest cost; UINT64_MAX: no place was found */
	uint32_t best_page;
};

void mem_place_begin(struct mem_place *place, size_t bytes, unsigned int tries, mem_cost_fn cost_of,
		     const void *context);
/* Looks on. True: there is more to look at. */
bool mem_place_step(struct mem_place *place, struct memory *memory, uint64_t *random);

/* Begins an evacuation of the best place, of which nothing is closed yet. There is one. */
void mem_evacuation_begin_place(struct mem_evacuation *evacuation, struct memory *memory,
				const struct mem_place *place);

enum mem_close {
	MEM_CLOSED,	 /* all of it is */
	MEM_CLOSE_AGAIN, /* there is more to be closed */
	MEM_CLOSE_FAILED /* something in it is being evacuated, or is a bucket slab */
};

enum mem_close mem_evacuation_close(struct mem_evacuation *evacuation);
/* Allocates the pages for a large item, as mem_evacuation_end_large(). */
void *mem_evacuation_take(struct mem_evacuation *evacuation, struct mem_cache *cache, size_t bytes);
/* Whether all pages that it was begun for are empty. */
bool mem_evacuation_is_empty(struct mem_evacuation *evacuation);
/* Opens more of the spans. True: there are more; false: the evacuation has ended. */
bool mem_evacuation_open(struct mem_evacuation *evacuation);

#endif /* KVD_SERVER_STORE_EVACUATE_H */
