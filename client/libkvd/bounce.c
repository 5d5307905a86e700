/* SPDX-License-Identifier: MIT */
/* The pool of bounce memory: finds places in its chunks, makes and frees chunks. */
#include "client/libkvd/bounce.h"

#include <errno.h>

#include "client/libkvd/memory.h"
#include "common/util/heap.h"

/*
 * The server READs bounce memory. LOCAL_WRITE, since without it pages could be pinned that the next
 * write of this process replaces.
 */
#define BOUNCE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define UNITS_MAX 64u
#define UNIT_BYTES_MIN ((size_t)4096)

struct bounce_chunk {
	struct bounce_chunk *next; /* in a list of chunks to free */
	struct device_mem mem;
	struct ibv_mr *mr;
	size_t length; /* registered bytes */
	size_t unit;   /* bytes of a unit; the last one may be shorter */
	uint64_t all;  /* a bit for each unit */
	uint64_t used;
};

void bounce_pool_init(struct bounce_pool *pool, struct device *dev)
{
	*pool = (struct bounce_pool){ .dev = dev, .mr_max = SIZE_MAX };
	pthread_mutex_init(&pool->lock, NULL);
}

static void chunks_free(struct bounce_pool *pool, struct bounce_chunk *chunks)
{
	struct bounce_chunk *chunk;

	while ((chunk = chunks)) {
		chunks = chunk->next;
		pool->dev->ops->dereg_mr(chunk->mr);
		pool->dev->ops->free_mem(pool->dev, &chunk->mem);
		heap_free(chunk);
	}
}

static void do_take_out(struct bounce_pool *pool, unsigned int place, struct bounce_chunk **out)
{
	struct bounce_chunk *chunk = pool->chunks[place];

	pool->chunks[place] = NULL;
	pool->bytes -= chunk->length;
	chunk->next = *out;
	*out = chunk;
}

/* Moves unused chunks to *@out, to be freed without the lock, until @keep bytes are left. */
static void do_take_out_unused(struct bounce_pool *pool, size_t keep, struct bounce_chunk **out)
{
	unsigned int i;

	for (i = 0; i < pool->count && pool->bytes > keep; i++)
		if (pool->chunks[i] && !pool->chunks[i]->used)
			do_take_out(pool, i, out);
}

/* How many bytes may stay unused. */
static size_t do_keep_bytes(const struct bounce_pool *pool)
{
	size_t peak = pool->peak > pool->peak_before ? pool->peak : pool->peak_before;

	return peak > BOUNCE_BYTES_MAX ? peak : BOUNCE_BYTES_MAX;
}

/* Counts a value. Moves chunks that are not needed any more to *@out. */
static void do_peak_note(struct bounce_pool *pool, struct bounce_chunk **out)
{
	if (pool->busy > pool->peak)
		pool->peak = pool->busy;
	if (++pool->taken < BOUNCE_PEAK_VALUES)
		return;
	pool->taken = 0;
	pool->peak_before = pool->peak;
	pool->peak = pool->busy;
	do_take_out_unused(pool, do_keep_bytes(pool), out);
}

void bounce_pool_release(struct bounce_pool *pool)
{
	struct bounce_chunk *out = NULL;

	do_take_out_unused(pool, 0, &out);
	chunks_free(pool, out);
	pthread_mutex_destroy(&pool->lock);
}

void bounce_pool_hold(struct bounce_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->users++;
	pthread_mutex_unlock(&pool->lock);
}

void bounce_pool_leave(struct bounce_pool *pool)
{
	struct bounce_chunk *out = NULL;

	pthread_mutex_lock(&pool->lock);
	if (!--pool->users)
		do_take_out_unused(pool, 0, &out);
	pthread_mutex_unlock(&pool->lock);
	chunks_free(pool, out);
}

size_t bounce_pool_bytes(struct bounce_pool *pool)
{
	size_t bytes;

	pthread_mutex_lock(&pool->lock);
	bytes = pool->bytes;
	pthread_mutex_unlock(&pool->lock);
	return bytes;
}

static uint64_t units_mask(unsigned int first, unsigned int count)
{
	return (count == UNITS_MAX ? UINT64_MAX : (UINT64_C(1) << count) - 1) << first;
}

static unsigned int units_of(const struct bounce_chunk *chunk, size_t bytes)
{
	size_t units = (bytes + chunk->unit - 1) / chunk->unit;

	return units > UNITS_MAX ? UNITS_MAX + 1 : (unsigned int)units;
}

/* The first of the free units that @bytes fit in; UNITS_MAX: there are none. */
static unsigned int units_find(const struct bounce_chunk *chunk, size_t bytes)
{
	unsigned int have, step, first, count = units_of(chunk, bytes);
	uint64_t runs = chunk->all & ~chunk->used;

	if (count > UNITS_MAX)
		return UNITS_MAX;
	/* A bit of `runs` says that its unit and the next ones, `have` in all, are free. */
	for (have = 1; have < count && runs; have += step) {
		step = count - have < have ? count - have : have;
		runs &= runs >> step;
	}
	if (!runs)
		return UNITS_MAX;
	first = (unsigned int)__builtin_ctzll(runs);
	return first * chunk->unit + bytes <= chunk->length ? first : UNITS_MAX;
}

static void do_units_take(struct bounce_pool *pool, unsigned int place, unsigned int first,
			  size_t bytes, struct bounce *bounce)
{
	struct bounce_chunk *chunk = pool->chunks[place];
	unsigned int count = units_of(chunk, bytes);

	if (!chunk->used)
		pool->busy += chunk->length;
	chunk->used |= units_mask(first, count);
	*bounce = (struct bounce){ (uint16_t)place, (uint8_t)first, (uint8_t)count };
}

/*
 * Takes units of the chunk with the smallest ones: short values leave larger units to others. What
 * is beyond the bound needs @must: it is left to handles that hold nothing.
 */
static bool do_find(struct bounce_pool *pool, size_t bytes, bool must, struct bounce *bounce)
{
	unsigned int i, first, best = 0, best_first = UNITS_MAX;
	const struct bounce_chunk *chunk;

	for (i = 0; i < pool->count; i++) {
		chunk = pool->chunks[i];
		if (!chunk ||
		    (!must && pool->busy + (chunk->used ? 0 : chunk->length) > BOUNCE_BYTES_MAX) ||
		    (best_first != UNITS_MAX && pool->chunks[best]->unit <= chunk->unit))
			continue;
		first = units_find(chunk, bytes);
		if (first == UNITS_MAX)
			continue;
		best = i;
		best_first = first;
	}
	if (best_first != UNITS_MAX)
		do_units_take(pool, best, best_first, bytes, bounce);
	return best_first != UNITS_MAX;
}

/* The length of the next chunk, for a value of @bytes. */
static size_t do_chunk_bytes(const struct bounce_pool *pool, size_t bytes)
{
	size_t want = pool->bytes < BOUNCE_CHUNK_MIN ? BOUNCE_CHUNK_MIN : pool->bytes;

	if (want > BOUNCE_CHUNK_MAX)
		want = BOUNCE_CHUNK_MAX;
	if (want > pool->mr_max)
		want = pool->mr_max;
	if (pool->bytes + want > BOUNCE_BYTES_MAX)
		want = pool->bytes < BOUNCE_BYTES_MAX ? BOUNCE_BYTES_MAX - pool->bytes : 0;
	return want < bytes ? bytes : want;
}

static int chunk_make(struct bounce_pool *pool, size_t bytes, struct bounce_chunk **out)
{
	const struct device_ops *ops = pool->dev->ops;
	struct bounce_chunk *chunk = heap_calloc(1, sizeof(*chunk));
	const size_t wanted = (bytes + UNIT_BYTES_MIN - 1) & ~(UNIT_BYTES_MIN - 1);
	struct device_mem part;
	size_t unit;
	int err = -ENOMEM;

	if (!chunk)
		return err;
	err = ops->alloc_mem(pool->dev, bytes, &chunk->mem);
	if (err)
		goto free_chunk;
	part = chunk->mem;
	/* Large pages may give more, but chunks are counted by what is wanted. */
	if (part.length > wanted)
		part.length = wanted;
	if (part.length > pool->mr_max)
		part.length = pool->mr_max;
	err = mr_register(pool->dev, pool->pd, &part, BOUNCE_ACCESS, &chunk->mr);
	if (err)
		goto free_mem;
	unit = (part.length + UNITS_MAX - 1) / UNITS_MAX;
	chunk->unit = (unit + UNIT_BYTES_MIN - 1) & ~(UNIT_BYTES_MIN - 1);
	chunk->length = part.length;
	chunk->all = units_mask(0, units_of(chunk, part.length));
	*out = chunk;
	return 0;

free_mem:
	ops->free_mem(pool->dev, &chunk->mem);
free_chunk:
	heap_free(chunk);
	return err;
}

/* A place for a chunk, if need be that of an unused one, now in *@out; BOUNCE_CHUNKS_MAX: none. */
static unsigned int do_place_find(struct bounce_pool *pool, struct bounce_chunk **out)
{
	unsigned int i;

	for (i = 0; i < pool->count; i++)
		if (!pool->chunks[i])
			return i;
	if (pool->count < BOUNCE_CHUNKS_MAX)
		return pool->count++;
	for (i = 0; i < BOUNCE_CHUNKS_MAX && pool->chunks[i]->used; i++)
		;
	if (i < BOUNCE_CHUNKS_MAX)
		do_take_out(pool, i, out);
	return i;
}

/*
 * Adds a chunk of @wanted bytes, which are counted already, or, without memory for that, of @bytes.
 */
static int chunk_add(struct bounce_pool *pool, size_t wanted, size_t bytes, struct bounce *bounce)
{
	struct bounce_chunk *chunk = NULL, *out = NULL;
	int err = chunk_make(pool, wanted, &chunk);
	unsigned int place = BOUNCE_CHUNKS_MAX;

	if (err && wanted > bytes)
		err = chunk_make(pool, bytes, &chunk);
	pthread_mutex_lock(&pool->lock);
	pool->bytes -= wanted;
	if (!err)
		place = do_place_find(pool, &out);
	if (place != BOUNCE_CHUNKS_MAX) {
		pool->chunks[place] = chunk;
		pool->bytes += chunk->length;
		do_units_take(pool, place, 0, bytes, bounce);
		do_peak_note(pool, &out);
	}
	pthread_mutex_unlock(&pool->lock);
	chunks_free(pool, out);
	if (err || place != BOUNCE_CHUNKS_MAX)
		return err;
	chunks_free(pool, chunk);
	return -ENOMEM;
}

/*
 * Reserves a chunk for @bytes: moves unused chunks to *@out if need be, and counts the new one.
 * Returns its size; 0: it would exceed the bound.
 */
static size_t do_reserve(struct bounce_pool *pool, size_t bytes, bool must,
			 struct bounce_chunk **out)
{
	size_t wanted, keep = must ? do_keep_bytes(pool) : BOUNCE_BYTES_MAX;

	if (!must && pool->busy + bytes > BOUNCE_BYTES_MAX)
		return 0;
	if (pool->bytes + bytes > keep)
		do_take_out_unused(pool, bytes < keep ? keep - bytes : 0, out);
	if (!must && pool->bytes + bytes > BOUNCE_BYTES_MAX)
		return 0;
	wanted = do_chunk_bytes(pool, bytes);
	pool->bytes += wanted;
	return wanted;
}

int bounce_get(struct bounce_pool *pool, size_t bytes, bool must, struct bounce *bounce)
{
	struct bounce_chunk *out = NULL;
	size_t wanted = 0;
	bool found;
	int err;

	if (bytes > pool->mr_max)
		return -EFBIG;
	pthread_mutex_lock(&pool->lock);
	found = do_find(pool, bytes, must, bounce);
	if (found)
		do_peak_note(pool, &out);
	else
		wanted = do_reserve(pool, bytes, must, &out);
	pthread_mutex_unlock(&pool->lock);
	chunks_free(pool, out);
	if (found)
		return 0;
	if (!wanted)
		return -EAGAIN;
	err = chunk_add(pool, wanted, bytes, bounce);
	return err && !must ? -EAGAIN : err;
}

void bounce_put(struct bounce_pool *pool, struct bounce *bounce)
{
	struct bounce_chunk *chunk, *out = NULL;

	pthread_mutex_lock(&pool->lock);
	chunk = pool->chunks[bounce->chunk];
	chunk->used &= ~units_mask(bounce->first, bounce->count);
	if (!chunk->used) {
		pool->busy -= chunk->length;
		if (pool->bytes - chunk->length >= do_keep_bytes(pool))
			do_take_out(pool, bounce->chunk, &out);
	}
	pthread_mutex_unlock(&pool->lock);
	chunks_free(pool, out);
	*bounce = (struct bounce){ .count = 0 };
}

uint8_t *bounce_addr(struct bounce_pool *pool, const struct bounce *bounce, uint32_t *rkey)
{
	const struct bounce_chunk *chunk;

	pthread_mutex_lock(&pool->lock);
	chunk = pool->chunks[bounce->chunk];
	pthread_mutex_unlock(&pool->lock);
	*rkey = chunk->mr->rkey;
	return (uint8_t *)chunk->mem.addr + bounce->first * chunk->unit;
}
