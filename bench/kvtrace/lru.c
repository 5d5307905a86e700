/* SPDX-License-Identifier: MIT */
/*
 * Implements exact LRU: see lru.h. A hash table with chains, and a list in order of use; both link
 * items by their numbers in one array.
 */
#include "bench/kvtrace/lru.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/splitmix.h"

#define LRU_NONE UINT32_MAX
#define LRU_SIZE_MIN 1024u

struct lru_item {
	uint64_t key;
	uint32_t size;
	uint32_t chain;
	uint32_t newer, older;
};

void lru_init(struct lru *lru, const struct lru_limits *limits)
{
	memset(lru, 0, sizeof(*lru));
	lru->limits = *limits;
	if (!lru->limits.items || lru->limits.items > LRU_ITEMS_MAX)
		lru->limits.items = LRU_ITEMS_MAX;
	lru->free = LRU_NONE;
	lru->newest = LRU_NONE;
	lru->oldest = LRU_NONE;
}

void lru_release(struct lru *lru)
{
	free(lru->items);
	free(lru->heads);
	memset(lru, 0, sizeof(*lru));
}

static uint32_t *head_of(const struct lru *lru, uint64_t key)
{
	return &lru->heads[splitmix_next(&key) & (lru->head_size - 1)];
}

/* Doubles the hash table: one chain for each item at least. */
static int heads_grow(struct lru *lru)
{
	const uint32_t size = lru->head_size ? lru->head_size * 2 : LRU_SIZE_MIN;
	uint32_t *heads, *head, i;

	if (lru->count < lru->head_size || lru->head_size == UINT32_C(1) << 31)
		return 0;
	heads = malloc(size * sizeof(*heads));
	if (!heads)
		return -ENOMEM;
	memset(heads, 0xff, size * sizeof(*heads)); /* LRU_NONE */
	free(lru->heads);
	lru->heads = heads;
	lru->head_size = size;
	for (i = lru->newest; i != LRU_NONE; i = lru->items[i].older) {
		head = head_of(lru, lru->items[i].key);
		lru->items[i].chain = *head;
		*head = i;
	}
	return 0;
}

static int items_grow(struct lru *lru)
{
	const uint64_t want = lru->item_size ? (uint64_t)lru->item_size * 2 : LRU_SIZE_MIN;
	const uint32_t size = want > LRU_ITEMS_MAX ? LRU_ITEMS_MAX : (uint32_t)want;
	struct lru_item *items;

	if (lru->free != LRU_NONE || lru->item_next < lru->item_size)
		return 0;
	items = realloc(lru->items, size * sizeof(*items));
	if (!items)
		return -ENOMEM;
	lru->items = items;
	lru->item_size = size;
	return 0;
}

static uint32_t find(const struct lru *lru, uint64_t key)
{
	uint32_t i;

	if (!lru->head_size)
		return LRU_NONE;
	for (i = *head_of(lru, key); i != LRU_NONE && lru->items[i].key != key;)
		i = lru->items[i].chain;
	return i;
}

static void list_remove(struct lru *lru, uint32_t i)
{
	const struct lru_item *item = &lru->items[i];

	*(item->newer != LRU_NONE ? &lru->items[item->newer].older : &lru->newest) = item->older;
	*(item->older != LRU_NONE ? &lru->items[item->older].newer : &lru->oldest) = item->newer;
}

static void list_add(struct lru *lru, uint32_t i)
{
	struct lru_item *item = &lru->items[i];

	item->newer = LRU_NONE;
	item->older = lru->newest;
	*(lru->newest != LRU_NONE ? &lru->items[lru->newest].newer : &lru->oldest) = i;
	lru->newest = i;
}

static void evict(struct lru *lru, uint32_t i)
{
	struct lru_item *item = &lru->items[i];
	uint32_t *link = head_of(lru, item->key);

	while (*link != i)
		link = &lru->items[*link].chain;
	*link = item->chain;
	list_remove(lru, i);
	lru->count--;
	lru->bytes -= item->size + lru->limits.item_overhead;
	item->chain = lru->free;
	lru->free = i;
}

static int add(struct lru *lru, uint64_t key, uint32_t size)
{
	uint32_t i, *head;

	if (items_grow(lru) || heads_grow(lru))
		return -ENOMEM;
	i = lru->free;
	if (i != LRU_NONE)
		lru->free = lru->items[i].chain;
	else
		i = lru->item_next++;
	head = head_of(lru, key);
	lru->items[i].key = key;
	lru->items[i].size = size;
	lru->items[i].chain = *head;
	*head = i;
	list_add(lru, i);
	lru->count++;
	lru->bytes += size + lru->limits.item_overhead;
	return 0;
}

int lru_access(struct lru *lru, uint64_t key, uint32_t size)
{
	const uint64_t bytes = size + lru->limits.item_overhead;
	const uint64_t limit = lru->limits.bytes ? lru->limits.bytes : UINT64_MAX;
	const uint32_t i = find(lru, key);

	if (i != LRU_NONE) {
		list_remove(lru, i);
		list_add(lru, i);
		return 1;
	}
	if (bytes > limit)
		return 0;
	while (lru->count && (lru->count >= lru->limits.items || lru->bytes > limit - bytes))
		evict(lru, lru->oldest);
	return add(lru, key, size);
}
