/* SPDX-License-Identifier: MIT */
/*
 * Evacuation: emptying spans of the item memory, so that what they are made of serves other sizes, a
 * large item, or the index.
 */
#ifndef KVD_SERVER_STORE_EVACUATE_H
#define KVD_SERVER_STORE_EVACUATE_H

#include <stdbool.h>

#include "server/store/memory.h"

/*
 * An evacuation: spans that are being emptied. From begin to end nothing is handed out from them, and what
 * is freed in them stays there. One thread's; evacuations do not overlap. Every one that was begun has to be
 * ended once; a begin that returns false leaves nothing to end, and nothing of use in the struct.
 */
struct mem_evacuation {
	struct memory *memory;
	uint32_t page, pages;	       /* whole spans */
	uint32_t target, target_pages; /* the pages among them that are wanted */
	uint32_t next_page;	       /* iterator: first page of a span, and a block in it */
	uint32_t next_block;
};

/* The span that holds @p. False: it is being evacuated already, or belongs to the index or to nothing. */
bool mem_evacuation_begin(struct mem_evacuation *evacuation, struct memory *memory, const void *p);
/*
 * The slab, of items or buckets, with the smallest share of blocks in use, if what is in it fits free
 * blocks of other slabs of its class; if it takes what is in magazines, they are emptied for it. False:
 * there is none: moving items can free nothing.
 */
bool mem_evacuation_begin_sparse(struct mem_evacuation *evacuation, struct memory *memory);
/*
 * Room for a large item of @bytes: of @tries places chosen at random the one with the fewest bytes in
 * use (and never a bucket slab). False: all of them were being evacuated, or larger than the memory.
 */
bool mem_evacuation_begin_large(struct mem_evacuation *evacuation, struct memory *memory,
				size_t bytes, uint64_t *random, unsigned int tries);
/* What lies behind the index, @bytes of it, a multiple of PAGE_BYTES. */
bool mem_evacuation_begin_index(struct mem_evacuation *evacuation, struct memory *memory,
				uint64_t bytes);

enum mem_kind { MEM_ITEM, MEM_BUCKET };

struct mem_block {
	void *p;
	size_t bytes; /* of its class or span */
	enum mem_kind kind;
	uint64_t home; /* of a bucket */
};

/*
 * The next block of the spans that is not free (now): it may not be written yet, or be freed any time.
 * False: that was the last; the next call starts over.
 */
bool mem_evacuation_next(struct mem_evacuation *evacuation, struct mem_block *block);

/*
 * Ends a evacuation. Spans that are empty become free pages, the others are as before. Returns whether all
 * of what it was begun for is free now. mem_evacuation_end_large() takes it in the same step: the large
 * block, or NULL. mem_evacuation_end_index() gives it to the index; memory_bytes() falls.
 */
bool mem_evacuation_end(struct mem_evacuation *evacuation);
void *mem_evacuation_end_large(struct mem_evacuation *evacuation, struct mem_cache *cache,
			       size_t bytes);
bool mem_evacuation_end_index(struct mem_evacuation *evacuation);

#endif /* KVD_SERVER_STORE_EVACUATE_H */
