/* SPDX-License-Identifier: MIT */
#include "server/store/hold.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/page_heap.h"

void hold_begin(struct holds *holds, struct hold *hold, const void *bytes, size_t len)
{
	hold->copy = NULL;
	hold->copying = false;
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
	while (hold->copying) {
		mem_unlock(&holds->lock);
		sched_yield();
		mem_lock(&holds->lock);
	}
	LIST_REMOVE(hold, entry);
	mem_unlock(&holds->lock);
	atomic_fetch_sub_explicit(&holds->count, 1, memory_order_release);
	free(hold->copy);
}

/* A hold of a value in this memory that has no copy yet; NULL: there is none. */
static struct hold *find(const struct holds *holds, const uint8_t *begin, size_t bytes)
{
	const uint8_t *at;
	struct hold *hold;

	LIST_FOREACH(hold, &holds->list, entry) {
		at = hold_bytes(hold);
		if (!hold->copying && at >= begin && at < begin + bytes)
			return hold;
	}
	return NULL;
}

static void *value_copy(const struct hold *hold)
{
	void *copy = hold->len <= HOLD_COPY_MAX ? malloc(hold->len) : NULL;

	return copy ? memcpy(copy, hold_bytes(hold), hold->len) : NULL;
}

bool holds_copy(struct holds *holds, const void *memory, size_t bytes)
{
	struct hold *hold;
	bool any = false;

	if (!atomic_load_explicit(&holds->count, memory_order_acquire))
		return false;
	mem_lock(&holds->lock);
	while ((hold = find(holds, memory, bytes))) {
		hold->copying = any = true;
		mem_unlock(&holds->lock);
		hold->copy = value_copy(hold);
		mem_lock(&holds->lock);
		atomic_store_explicit(&hold->bytes, hold->copy, memory_order_release);
		hold->copying = false;
	}
	mem_unlock(&holds->lock);
	return any;
}
