/* SPDX-License-Identifier: MIT */
/*
 * Bounce memory: registered memory to which a value is copied that is too long for a message and
 * lies in memory of the caller's that is not registered; the server READs it from there. The
 * handles of a device share one pool of it.
 *
 * A pool has chunks, each registered once and divided into 64 units at most, of which a value takes
 * as many as it needs, one behind the other. The more there is, the longer the next chunk, so there
 * are few registrations. The pool has BOUNCE_BYTES_MAX at most, and beyond that what handles get
 * that have no other bounce memory: so each can always go on with one value, and none waits for
 * another handle, which could not wake it. Chunks that nobody uses stay while a handle has used the
 * pool within its last BOUNCE_CALLS calls; beyond BOUNCE_BYTES_MAX those that were in use at the
 * same time lately, since a chunk costs more to make than a value to send.
 *
 * Threads: any. A lock is held while a place is looked for, not while memory is registered.
 */
#ifndef KVD_CLIENT_LIBKVD_BOUNCE_H
#define KVD_CLIENT_LIBKVD_BOUNCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"

/* Of one device, unless its handles need more for one value each. */
#define BOUNCE_BYTES_MAX ((size_t)128 << 20)
/* The shortest chunk, and the longest one that is not for one value alone. */
#define BOUNCE_CHUNK_MIN ((size_t)256 << 10)
#define BOUNCE_CHUNK_MAX ((size_t)16 << 20)
/* A handle that has used none in so many calls does not keep the memory. */
#define BOUNCE_CALLS 256
/* What was in use at the same time is remembered for so many values, and at most twice as many. */
#define BOUNCE_PEAK_VALUES 256u

/*
 * Chunks: one for each handle of a device, and as many as the shortest ones that the pool's bytes
 * are enough for. Beyond that there is no memory.
 */
#define BOUNCE_CHUNKS_MAX 1024u

struct bounce_chunk;

struct bounce_pool {
	struct device *dev;
	/* Set before it is used: the protection domain, and the device's longest registration. */
	struct ibv_pd *pd;
	size_t mr_max;
	pthread_mutex_t lock;
	/* Under the lock: */
	struct bounce_chunk *chunks[BOUNCE_CHUNKS_MAX]; /* NULL: a free place */
	unsigned int count;				/* places from here on were never used */
	size_t bytes;	    /* of all chunks, and of those that are being made */
	size_t busy;	    /* of chunks of which somebody has a part */
	size_t peak;	    /* the most of `busy` in this period of BOUNCE_PEAK_VALUES, */
	size_t peak_before; /* and in the one before */
	unsigned int taken; /* values in this period */
	unsigned int users; /* handles that used it lately */
};

/* Units of a chunk; count 0: none. */
struct bounce {
	uint16_t chunk; /* its place */
	uint8_t first, count;
};

void bounce_pool_init(struct bounce_pool *pool, struct device *dev);
/* Frees all. Nobody has any of it. */
void bounce_pool_release(struct bounce_pool *pool);

/* A user more, or less: after the last one it frees all that nobody has. */
void bounce_pool_hold(struct bounce_pool *pool);
void bounce_pool_leave(struct bounce_pool *pool);
size_t bounce_pool_bytes(struct bounce_pool *pool);

/*
 * Takes memory for @bytes. @must: also beyond BOUNCE_BYTES_MAX. 0; -EAGAIN: the pool has no room;
 * -EFBIG: more than mr_max, so never; or why the device gives no memory, if there is @must.
 */
int bounce_get(struct bounce_pool *pool, size_t bytes, bool must, struct bounce *bounce);
/* Gives it back: no device READs it any more. */
void bounce_put(struct bounce_pool *pool, struct bounce *bounce);

/* Where it is, and the key for the server. */
uint8_t *bounce_addr(struct bounce_pool *pool, const struct bounce *bounce, uint32_t *rkey);

#endif /* KVD_CLIENT_LIBKVD_BOUNCE_H */
