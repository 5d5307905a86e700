/* SPDX-License-Identifier: MIT */
/*
 * Bounce memory: registered memory to which a value is copied that is too long for a message, if
 * the caller's memory is not registered; the server READs the value from there. The handles of a
 * device share one pool.
 *
 * A pool has chunks, each registered once and divided into at most 64 units, of which a value takes
 * adjacent ones. The larger the pool, the longer the next chunk, so registrations are few. The pool
 * has at most BOUNCE_BYTES_MAX, but a handle that holds none of it may exceed that: so each can
 * always go on with one value, and none waits for another handle, which could not wake it. Unused
 * chunks stay while a handle has used the pool within its last BOUNCE_CALLS calls; beyond
 * BOUNCE_BYTES_MAX only as many as were lately in use at the same time, since a chunk costs more to
 * make than a value to send.
 *
 * Threads: any. A lock is held while a place is searched, not while memory is registered.
 */
#ifndef KVD_CLIENT_LIBKVD_BOUNCE_H
#define KVD_CLIENT_LIBKVD_BOUNCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"

/* The pool of one device, unless its handles need more for one value each. */
#define BOUNCE_BYTES_MAX ((size_t)128 << 20)
/* The shortest chunk, and the longest one that is not for one value alone. */
#define BOUNCE_CHUNK_MIN ((size_t)256 << 10)
#define BOUNCE_CHUNK_MAX ((size_t)16 << 20)
/* A handle that used no bounce memory in this many calls leaves the pool. */
#define BOUNCE_CALLS 256
/* The peak of use is remembered for this many values, and at most twice as many. */
#define BOUNCE_PEAK_VALUES 256u

/*
 * Chunks at most: one for each handle of a device, and as many of the shortest ones as the pool's
 * bytes allow.
 */
#define BOUNCE_CHUNKS_MAX 1024u

struct bounce_chunk;

struct bounce_pool {
	struct device *dev;
	/* Set before the pool is used: the protection domain and the longest registration. */
	struct ibv_pd *pd;
	size_t mr_max;
	pthread_mutex_t lock;
	/* Under the lock: */
	struct bounce_chunk *chunks[BOUNCE_CHUNKS_MAX]; /* NULL: a free place */
	unsigned int count;				/* places from here on were never used */
	size_t bytes;	    /* of all chunks, also of those being made */
	size_t busy;	    /* of chunks that are in use, also in part */
	size_t peak;	    /* maximum of `busy` in this period of BOUNCE_PEAK_VALUES */
	size_t peak_before; /* its value in the previous period */
	unsigned int taken; /* values in this period */
	unsigned int users; /* handles that used the pool lately */
};

/* Units of a chunk; count 0: none. */
struct bounce {
	uint16_t chunk; /* its place */
	uint8_t first, count;
};

void bounce_pool_init(struct bounce_pool *pool, struct device *dev);
/* Frees all chunks, of which none is in use. */
void bounce_pool_release(struct bounce_pool *pool);

/* Counts a user, or ends one: after the last one unused chunks are freed. */
void bounce_pool_hold(struct bounce_pool *pool);
void bounce_pool_leave(struct bounce_pool *pool);
size_t bounce_pool_bytes(struct bounce_pool *pool);

/*
 * Takes memory for @bytes. @must: also beyond BOUNCE_BYTES_MAX. 0; -EAGAIN: the pool has no room
 * now; -EFBIG: longer than mr_max; or, with @must, why the device gives no memory.
 */
int bounce_get(struct bounce_pool *pool, size_t bytes, bool must, struct bounce *bounce);
/* Gives it back: no device READs it any more. */
void bounce_put(struct bounce_pool *pool, struct bounce *bounce);

/* The address of the memory, and the key for the server. */
uint8_t *bounce_addr(struct bounce_pool *pool, const struct bounce *bounce, uint32_t *rkey);

#endif /* KVD_CLIENT_LIBKVD_BOUNCE_H */
