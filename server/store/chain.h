/* SPDX-License-Identifier: MIT */
/*
 * The place of a key or of an item in the table, and what the table's changes have in common. For
 * table.c, which changes keys, and block.c, which changes what lives in a block of memory.
 */
#ifndef KVD_SERVER_STORE_CHAIN_H
#define KVD_SERVER_STORE_CHAIN_H

#include "server/store/index.h"

/* Where a key is, or where one could be put. */
struct chain_pos {
	struct bucket *home;
	struct bucket *bucket; /* of the slot */
	uint64_t *slot;	       /* NULL: not there */
	struct item *item;
	bool live; /* there, and its time is not over */
	/* for an insert: */
	struct bucket *tail;	/* last of the chain */
	struct bucket *free_in; /* first bucket of the chain with an empty slot, or NULL */
	uint64_t *free_slot;
	unsigned int length; /* overflow buckets in the chain, as far as it was followed */
};

/* Looks for the key in the chain of @home, which is locked. */
void do_chain_find(const struct store_thread *thread, struct chain_pos *pos, struct bucket *home,
		   uint64_t hash, const void *key, uint32_t key_len);
/* Looks for the slot that leads to @block, whatever its key. */
bool do_chain_find_block(const struct table *table, struct chain_pos *pos, struct bucket *home,
			 const void *block);

/* Takes the item out of the table; the caller frees it, and what is added to @retired. */
void do_remove(struct store_thread *thread, struct chain_pos *pos, struct retired *retired);

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

#endif /* KVD_SERVER_STORE_CHAIN_H */
