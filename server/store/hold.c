/* SPDX-License-Identifier: MIT */
#include "server/store/hold.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/page_heap.h"

void hold_begin(struct holds *holds, struct hold *hold, const void *bytes, size_t len)
{
	hold->copy = NULL;
	hold->len = len;
	atomic_store_explicit(&hold->bytes, bytes, memory_order_relaxed);
	mem_lock(&holds->lock);
	LIST_INSERT_HEAD(&holds->list, hold, entry);
	mem_unlock(&holds->lock);
	atomic_fetch_add_explicit(&holds->count, 1, memory_order_release);
}

void hold_end(struct holds *holds, struct hold *hold)
{
	mem_lock(&holds->lock);
	LIST_REMOVE(hold, entry);
	mem_unlock(&holds->lock);
	atomic_fetch_sub_explicit(&holds->count, 1, memory_order_release);
	free(hold->copy);
}

/* A value without a copy is lost: its item is about to go. */
static void value_copy(struct hold *hold, const void *bytes)
{
	hold->copy = malloc(hold->len);
	if (hold->copy)
		memcpy(hold->copy, bytes, hold->len);
	atomic_store_explicit(&hold->bytes, hold->copy, memory_order_release);
}

bool holds_copy(struct holds *holds, const void *memory, size_t bytes)
{
	const uint8_t *at, *begin = memory;
	struct hold *hold;
	bool any = false;

	if (!atomic_load_explicit(&holds->count, memory_order_acquire))
		return false;
	mem_lock(&holds->lock);
	LIST_FOREACH(hold, &holds->list, entry) {
		at = hold->copy ? NULL : hold_bytes(hold);
		if (!at || at < begin || at >= begin + bytes)
			continue;
		value_copy(hold, at);
		any = true;
	}
	mem_unlock(&holds->lock);
	return any;
}
