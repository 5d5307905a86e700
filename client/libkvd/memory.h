/* SPDX-License-Identifier: MIT */
/*
 * Registered memory: the library's buffers, and memory that the caller registered, which values go
 * to and come from without a copy.
 *
 * Each device has a table of the caller's, in which operations find it by the address of their
 * buffer.
 *
 * Threads: registering takes the table's lock. Finding takes none. A place in the table stays where
 * it is and is used again; one word of it says whether it is open and how many operations use it.
 * A place whose number was raised stays open until memory_put(); it closes only at 0.
 */
#ifndef KVD_CLIENT_LIBKVD_MEMORY_H
#define KVD_CLIENT_LIBKVD_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/kvd.h"
#include "common/rdma/device.h"
#include "common/util/memlock.h"

/* Memories that one READ scatters to: the ring, and the caller's. */
#define READ_SGES_MAX 2
/* Registered at the same time with one device: a search looks at all. */
#define MEMORIES_MAX 64u

/*
 * A registered buffer: memory that the client's device may write to, and that the server may read
 * if @access says so. A child after fork(2) does not have it. Zeroed: no buffer yet.
 */
struct reg_buf {
	uint8_t *base;
	size_t bytes;
	struct ibv_mr *mr;
};

/*
 * Makes @buf @bytes bytes long, rounded up to pages, and keeps its content as far as it fits; base
 * and mr change. Old and new size are never registered at the same time. No device may be using the
 * buffer. @access: IBV_ACCESS_*. Returns 0 or a negative errno (verbs: -ENOMEM also means
 * RLIMIT_MEMLOCK). Then @buf has its old size, or is zeroed if that could not be registered again.
 */
int reg_buf_resize(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, size_t bytes,
		   int access);

/*
 * Registers @mem and logs the time that it took: the library registers all memory by this. 0 or a
 * negative errno.
 */
int mr_register(struct device *dev, struct ibv_pd *pd, const struct device_mem *mem, int access,
		struct ibv_mr **mr);

/*
 * The limit of registrations, to be appended to the text of a failure with @err that it may have
 * caused. Returns @text, which may be "".
 */
const char *mr_failed_why(const struct device *dev, int err, char text[MEMLOCK_WHY_BYTES]);

/* Deregisters and frees the buffer, if there is one. */
void reg_buf_release(struct reg_buf *buf, struct device *dev);

struct shared_device;
struct memory_group;

struct kvd_mem {
	_Atomic uint64_t use; /* MEMORY_OPEN and the operations that use it; 0: closed */
	_Atomic uintptr_t begin;
	_Atomic size_t bytes;
	/* What follows does not change while the place is open. */
	size_t piece;	    /* bytes of each registration; the last one may be shorter */
	unsigned int count; /* of registrations */
	struct ibv_mr **mrs;
	uint64_t register_ns;
	struct shared_device *device;
	struct memory_group *group; /* a fleet's: client/libkvd/register.c; or NULL */
	struct device_mem own;	    /* of kvd_alloc(); freed with the first part of a group */
	bool allocated;
	bool taken;    /* the place is in use; under the table's lock */
	pid_t process; /* that registered it */
};

struct memory_table {
	pthread_mutex_t lock;
	_Atomic unsigned int used; /* places from here on were never used */
	struct kvd_mem mems[MEMORIES_MAX];
};

#define MEMORY_OPEN (1ull << 63)

bool memory_holds(const struct kvd_mem *mem, const void *buffer, size_t bytes);
/* The memory that has all of the buffer, for memory_put(); NULL: none. @table may be NULL. */
struct kvd_mem *memory_get(struct memory_table *table, const void *buffer, size_t bytes);

static inline void memory_put(struct kvd_mem *mem)
{
	atomic_fetch_sub_explicit(&mem->use, 1, memory_order_release);
}

/* The registration that @at is in, and the bytes from there to its end. */
static inline const struct ibv_mr *memory_at(const struct kvd_mem *mem, const void *at,
					     size_t *left)
{
	size_t offset = (uintptr_t)at - atomic_load_explicit(&mem->begin, memory_order_relaxed);

	*left = mem->piece - offset % mem->piece;
	return mem->mrs[offset / mem->piece];
}

/*
 * Takes a place for memory at @begin. -EEXIST: some of it is registered; -ENOSPC: all places are
 * taken. It is not open yet: MEMORY_OPEN.
 */
int memory_place_take(struct memory_table *table, uintptr_t begin, size_t bytes,
		      struct kvd_mem **mem);
void memory_place_leave(struct memory_table *table, struct kvd_mem *mem);
/*
 * Registers @bytes of @memory, whose place is @mem, in several pieces if the device does not take
 * that many at once. 0 or a negative errno: then nothing is registered.
 */
int memory_register(struct kvd_mem *mem, struct device *dev, struct ibv_pd *pd,
		    const struct device_mem *memory, size_t bytes);
void memory_deregister(struct kvd_mem *mem, struct device *dev);

/* NULL: no memory. */
struct memory_table *memory_table_create(void);
/* Frees the table, in which nothing is registered. May be NULL. */
void memory_table_destroy(struct memory_table *table);

#endif /* KVD_CLIENT_LIBKVD_MEMORY_H */
