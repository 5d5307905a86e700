/* SPDX-License-Identifier: MIT */
/* The table of registered memory: finds, registers and deregisters it. */
#include "client/libkvd/memory.h"

#include <errno.h>

#include "client/libkvd/reg_buf.h"
#include "common/util/heap.h"
#include "common/util/large_page.h"

/* The device writes values to it, the server READs them. */
#define MEMORY_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
/* Where a registration ends, if not at the border of a large page. */
#define PAGE_BYTES ((size_t)4096)

bool memory_holds(const struct kvd_mem *mem, const void *buffer, size_t bytes)
{
	uintptr_t at = (uintptr_t)buffer;
	uintptr_t begin = atomic_load_explicit(&mem->begin, memory_order_relaxed);
	size_t length = atomic_load_explicit(&mem->bytes, memory_order_relaxed);

	return at >= begin && at - begin <= length && bytes <= length - (at - begin);
}

/* False: it is closed. */
static bool mem_take(struct kvd_mem *mem)
{
	uint64_t use = atomic_load_explicit(&mem->use, memory_order_relaxed);

	while (use & MEMORY_OPEN)
		if (atomic_compare_exchange_weak_explicit(
			    &mem->use, &use, use + 1, memory_order_acquire, memory_order_relaxed))
			return true;
	return false;
}

/* The place may be another memory's when it is taken: only then it stays what it is. */
struct kvd_mem *memory_get(struct memory_table *table, const void *buffer, size_t bytes)
{
	struct kvd_mem *mem;
	unsigned int used;

	if (!table)
		return NULL;
	used = atomic_load_explicit(&table->used, memory_order_acquire);
	for (mem = table->mems; mem < table->mems + used; mem++) {
		if (!memory_holds(mem, buffer, bytes) || !mem_take(mem))
			continue;
		if (memory_holds(mem, buffer, bytes))
			return mem;
		memory_put(mem);
	}
	return NULL;
}

struct memory_table *memory_table_create(void)
{
	struct memory_table *table = heap_calloc(1, sizeof(*table));

	if (table)
		pthread_mutex_init(&table->lock, NULL);
	return table;
}

void memory_table_destroy(struct memory_table *table)
{
	if (!table)
		return;
	pthread_mutex_destroy(&table->lock);
	heap_free(table);
}

/* One that is not open yet has its range, too, so that it is seen here. */
int memory_place_take(struct memory_table *table, uintptr_t begin, size_t bytes,
		      struct kvd_mem **out)
{
	struct kvd_mem *mem, *place = NULL;
	uintptr_t other;
	int err = 0;

	pthread_mutex_lock(&table->lock);
	for (mem = table->mems; mem < table->mems + MEMORIES_MAX && !err; mem++) {
		other = atomic_load_explicit(&mem->begin, memory_order_relaxed);
		if (!mem->taken)
			place = place ? place : mem;
		else if (begin < other + atomic_load_explicit(&mem->bytes, memory_order_relaxed) &&
			 other < begin + bytes)
			err = -EEXIST;
	}
	if (!err && !place)
		err = -ENOSPC;
	if (!err) {
		place->taken = true;
		atomic_store_explicit(&place->begin, begin, memory_order_relaxed);
		atomic_store_explicit(&place->bytes, bytes, memory_order_relaxed);
		if (place - table->mems >= (ptrdiff_t)atomic_load(&table->used))
			atomic_store(&table->used, (unsigned int)(place - table->mems) + 1);
		*out = place;
	}
	pthread_mutex_unlock(&table->lock);
	return err;
}

void memory_place_leave(struct memory_table *table, struct kvd_mem *mem)
{
	pthread_mutex_lock(&table->lock);
	atomic_store_explicit(&mem->bytes, 0, memory_order_relaxed);
	mem->taken = false;
	pthread_mutex_unlock(&table->lock);
}

void memory_deregister(struct kvd_mem *mem, struct device *dev)
{
	while (mem->count)
		dev->ops->dereg_mr(mem->mrs[--mem->count]);
	heap_free(mem->mrs);
	mem->mrs = NULL;
}

/* Bytes of each registration: the most that the device takes, whole pages. */
static int piece_find(struct device *dev, size_t bytes, size_t *piece)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	int err = dev->ops->query(dev, &attr, &port);

	if (err)
		return err;
	*piece = attr.max_mr_size < SIZE_MAX ? (size_t)attr.max_mr_size : SIZE_MAX;
	if (*piece >= bytes)
		*piece = bytes;
	else if (*piece >= LARGE_PAGE_BYTES)
		*piece -= *piece % LARGE_PAGE_BYTES;
	else
		*piece -= *piece % PAGE_BYTES;
	return *piece ? 0 : -EINVAL;
}

int memory_register(struct kvd_mem *mem, struct device *dev, struct ibv_pd *pd,
		    const struct device_mem *memory, size_t bytes)
{
	struct device_mem part = *memory;
	size_t at;
	int err;

	mem->count = 0;
	err = piece_find(dev, bytes, &mem->piece);
	if (err)
		return err;
	mem->mrs = heap_calloc((bytes - 1) / mem->piece + 1, sizeof(*mem->mrs));
	if (!mem->mrs)
		return -ENOMEM;
	for (at = 0; at < bytes; at += mem->piece) {
		part.addr = (uint8_t *)memory->addr + at;
		part.fd_offset = memory->fd_offset + at;
		part.length = bytes - at < mem->piece ? bytes - at : mem->piece;
		err = mr_register(dev, pd, &part, MEMORY_ACCESS, &mem->mrs[mem->count]);
		if (err) {
			memory_deregister(mem, dev);
			return err;
		}
		mem->count++;
	}
	return 0;
}
