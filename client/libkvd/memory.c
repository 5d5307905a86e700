/* SPDX-License-Identifier: MIT */
/*
 * Registered memory: allocates, registers, resizes and frees the library's buffers; finds,
 * registers and deregisters the caller's memory.
 */
#include "client/libkvd/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util/clock.h"
#include "common/util/heap.h"
#include "common/util/large_page.h"
#include "common/util/log.h"

/* The device writes values to the caller's memory, the server READs them. */
#define MEMORY_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
/* Where a registration ends, if not at the end of a large page. */
#define PAGE_BYTES ((size_t)4096)

/*
 * Maps a new buffer. A child after fork(2) does not get it: a fork would leave device and parent
 * with different copies of pinned pages, or copy them all at once (ibv_fork_init(3)).
 */
static int reg_buf_map(struct reg_buf *buf, size_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (base == MAP_FAILED)
		return -errno;
	if (madvise(base, bytes, MADV_DONTFORK)) {
		err = -errno;
		munmap(base, bytes);
		return err;
	}
	*buf = (struct reg_buf){ .base = base, .bytes = bytes };
	return 0;
}

/*
 * The mapping keeps its content, as far as it fits, and its madvise(). ThreadSanitizer does not
 * know mremap(2), and reports a race when it moves addresses from one thread's buffer to another's:
 * there the content is copied.
 */
static int reg_buf_remap(struct reg_buf *buf, size_t bytes)
{
#ifdef __SANITIZE_THREAD__
	const struct reg_buf old = *buf;
	int err = reg_buf_map(buf, bytes);

	if (err)
		return err;
	memcpy(buf->base, old.base, bytes < old.bytes ? bytes : old.bytes);
	munmap(old.base, old.bytes);
	return 0;
#else
	void *base = mremap(buf->base, buf->bytes, bytes, MREMAP_MAYMOVE);

	if (base == MAP_FAILED)
		return -errno;
	buf->base = base;
	buf->bytes = bytes;
	return 0;
#endif
}

int mr_register(struct device *dev, struct ibv_pd *pd, const struct device_mem *mem, int access,
		struct ibv_mr **mr)
{
	uint64_t start_ns = log_enabled(LOG_DEBUG) ? clock_ns() : 0;
	int err = dev->ops->reg_mr(pd, mem, access, mr);

	if (!err && start_ns)
		log_debug("registered %zu bytes in %llu us", mem->length,
			  (unsigned long long)(clock_ns() - start_ns) / 1000);
	return err;
}

const char *mr_failed_why(const struct device *dev, int err, char text[MEMLOCK_WHY_BYTES])
{
	text[0] = '\0';
	return device_kind_is_rdma(dev->kind) && (err == -ENOMEM || err == -EAGAIN) ?
		       memlock_why(text) :
		       text;
}

static int reg_buf_register(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, int access)
{
	const struct device_mem mem = { .addr = buf->base, .length = buf->bytes, .fd = -1 };
	int err = mr_register(dev, pd, &mem, access, &buf->mr);

	if (err)
		buf->mr = NULL;
	return err;
}

/*
 * Deregisters first: holding the old and the new pages would need the sum of both, of locked memory
 * as well. If the new size fails, the old one is registered again: the mapping shrinks in place,
 * which needs no memory.
 */
int reg_buf_resize(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, size_t bytes,
		   int access)
{
	size_t old = buf->bytes, length = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	int err;

	if (length == old)
		return 0;
	if (buf->mr)
		dev->ops->dereg_mr(buf->mr);
	buf->mr = NULL;
	err = old ? reg_buf_remap(buf, length) : reg_buf_map(buf, length);
	if (!err) {
		err = reg_buf_register(buf, dev, pd, access);
		if (!err)
			return 0;
	}
	if (!old || (buf->bytes > old && reg_buf_remap(buf, old)) ||
	    reg_buf_register(buf, dev, pd, access))
		reg_buf_release(buf, dev);
	return err;
}

void reg_buf_release(struct reg_buf *buf, struct device *dev)
{
	if (!buf->base)
		return;
	if (buf->mr)
		dev->ops->dereg_mr(buf->mr);
	munmap(buf->base, buf->bytes);
	*buf = (struct reg_buf){ 0 };
}

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

/* Checks twice: the place may be another memory's until it is taken. */
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

/* A place that is not open yet has its range, too, so that overlaps are noticed. */
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

/* Bytes of each registration: as many as the device takes, in whole pages. */
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
