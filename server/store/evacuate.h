/* SPDX-License-Identifier: MIT */
/*
 * Evacuations: empty spans of the item memory, so that their pages can serve blocks of another
 * size, a large item or the index.
 *
 *	begin		closes the spans: nothing is allocated from them, freed blocks stay free
 *	next ...	lists the blocks in use; the caller moves or frees them
 *	end		opens the spans again; empty ones become free pages
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
 * One evacuation. After a begin that returned true, one of mem_evacuation_end*() must be called
 * once, and the struct must not be moved before that; after false there is nothing to end.
 */
struct mem_evacuation {
	struct memory *memory;
	uint32_t page, pages;	       /* whole spans, closed so far */
	uint32_t target, target_pages; /* the pages that are wanted */
	uint32_t next_page;	       /* iterator: first page of a span, and a block in it */
	uint32_t next_block;
	uint32_t opened;		   /* pages of @pages that are open again */
	bool taken;			   /* the target is allocated */
	bool lasts;			   /* no room waits for it (ROOM-3) */
	uint64_t number;		   /* in the order of begin */
	TAILQ_ENTRY(mem_evacuation) entry; /* in memory->evacuations_open */
};

/*
 * Begins an evacuation of the span of @p. False: it is being evacuated already, or @p is in the
 * index or in free pages.
 */
bool mem_evacuation_begin(struct mem_evacuation *evacuation, struct memory *memory, const void *p);
/* Slabs that did not get empty, which a block that is being written may cause. */
#define MEM_SKIP_MAX 4
struct mem_skip {
	uint32_t pages[MEM_SKIP_MAX]; /* the first of each */
	unsigned int count;
};

/*
 * Begins an evacuation of the slab, of items or buckets, with the smallest share of blocks in use,
 * if these fit free blocks of other slabs of its class. If that needs the free blocks in magazines,
 * the magazines are drained. Slabs in @skip, if not NULL, are not chosen. False: there is no such
 * slab, so moving items can free nothing.
 */
bool mem_evacuation_begin_sparse(struct mem_evacuation *evacuation, struct memory *memory,
				 const struct mem_skip *skip);
/*
 * Begins an evacuation of pages for a large item of @bytes: of @tries places chosen at random, the
 * one with the fewest bytes in use. False: all of them had bucket slabs or were being evacuated, or
 * the item is larger than the memory. @random is the caller's state.
 */
bool mem_evacuation_begin_large(struct mem_evacuation *evacuation, struct memory *memory,
				size_t bytes, uint64_t *random, unsigned int tries);
/*
 * Begins an evacuation of the @bytes after the index, a multiple of PAGE_BYTES. False: item memory
 * is not larger than that, or they are being evacuated.
 */
bool mem_evacuation_begin_index(struct mem_evacuation *evacuation, struct memory *memory,
				uint64_t bytes);

/*
 * An evacuation of all pages from @page to the end of the heap, which may be many: it ends with
 * mem_evacuation_open(). mem_evacuation_close_span() closes the next span or free pages;
 * MEM_CLOSE_FAILED: another evacuation has them, so try again later.
 */
void mem_evacuation_begin_from(struct mem_evacuation *evacuation, struct memory *memory,
			       uint32_t page);
/*
 * From now on the functions below are about these closed pages, whole spans; or about those from
 * @page on that a step looks at, up to @end: returns the page after them.
 */
void mem_evacuation_look(struct mem_evacuation *evacuation, uint32_t page, uint32_t pages);
uint32_t mem_evacuation_look_some(struct mem_evacuation *evacuation, uint32_t page, uint32_t end);

/* How many evacuations are under way. A hint. */
uint32_t mem_evacuations(const struct memory *memory);
/* The number of the last evacuation begun; and whether all up to @number have ended. */
uint64_t mem_evacuations_begun(const struct memory *memory);
bool mem_evacuations_ended(const struct memory *memory, uint64_t number);

enum mem_kind { MEM_ITEM, MEM_BUCKET };

struct mem_block {
	void *p;
	size_t bytes; /* of the block or, if it is a large item, of the span */
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
 * The cost of evicting what is in a block, or in the pages of a large item, of @bytes; of a slab it
 * is asked for some blocks. Called without the locks of the block's bucket and class, so the block
 * may hold anything; but with the page heap's, so the function must take no lock and be quick.
 */
typedef uint64_t (*mem_cost_fn)(const void *context, const void *block, size_t bytes);

/*
 * An evacuation in steps, for the pages of a large item, which may be many. A step takes some 10 us
 * at most, plus 1 to 3 ns for each free page. Other threads may use the memory between steps.
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
	uint32_t page, at;  /* the place being looked at, and how far; at 0: none */
	uint64_t cost;	    /* of that place so far */
	uint64_t best;	    /* the lowest cost; UINT64_MAX: no place was found */
	uint32_t best_page;
};

void mem_place_begin(struct mem_place *place, size_t bytes, unsigned int tries, mem_cost_fn cost_of,
		     const void *context);
/* Looks at more of the places. True: there is more to look at. */
bool mem_place_step(struct mem_place *place, struct memory *memory, uint64_t *random);

/* Begins an evacuation of the best place, which must exist. Nothing is closed yet. */
void mem_evacuation_begin_place(struct mem_evacuation *evacuation, struct memory *memory,
				const struct mem_place *place);

enum mem_close {
	MEM_CLOSED,	 /* all of the place is closed */
	MEM_CLOSE_AGAIN, /* there is more to close */
	MEM_CLOSE_FAILED /* something in it is being evacuated, or is a bucket slab */
};

enum mem_close mem_evacuation_close(struct mem_evacuation *evacuation);
enum mem_close mem_evacuation_close_span(struct mem_evacuation *evacuation);
/* Allocates the pages for a large item, as mem_evacuation_end_large(). */
void *mem_evacuation_take(struct mem_evacuation *evacuation, struct mem_cache *cache, size_t bytes);
/* Whether all pages that the evacuation was begun for are empty. */
bool mem_evacuation_is_empty(struct mem_evacuation *evacuation);
/* Opens more of the spans. True: there are more; false: the evacuation has ended. */
bool mem_evacuation_open(struct mem_evacuation *evacuation);

#endif /* KVD_SERVER_STORE_EVACUATE_H */
