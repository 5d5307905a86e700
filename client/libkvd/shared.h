/* SPDX-License-Identifier: MIT */
/*
 * What the handles of a process share: a device for each URL, with its protection domain, and what
 * is known of each server: its index's geometry, its clock, and the bucket cache. Internal to
 * libkvd.
 *
 * Threads: each handle is one thread's, and these threads meet here. Opening and closing take the
 * process's lock; learning the geometry and the clock takes the server's. Both are rare. A GET
 * takes no lock: a handle has its own copies of the geometry and of the clock's interval, and the
 * cache's slots are read and written without locks (client/libkvd/bcache.h).
 *
 * What one handle learned and another one uses came from the same server: URL, incarnation and all
 * of the region that can't change are equal. A server that says different things of one incarnation
 * is refused.
 *
 * A child after fork(2) starts with nothing, and can't use its parent's handles.
 */
#ifndef KVD_CLIENT_LIBKVD_SHARED_H
#define KVD_CLIENT_LIBKVD_SHARED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "client/kvd.h"
#include "client/libkvd/bcache.h"
#include "client/libkvd/bounce.h"
#include "client/libkvd/clock.h"
#include "client/libkvd/memory.h"
#include "common/layout.h"
#include "common/rdma/device.h"
#include "common/tls/tls.h"

/*
 * Handles of one device. Further handles get another: softnic has 1,024 channels and 4,096 memory
 * registrations for each device.
 */
#define SHARED_DEVICE_USERS_MAX 512

/*
 * Credentials: names of the files that say who a client is and whom it trusts, from kvd_options or
 * the environment. All are set, or "". 0 or -ENOMEM.
 */
int credentials_take(struct tls_files *files, const struct kvd_options *options);
/* Copies of the names. 0 or -ENOMEM. */
int credentials_copy(struct tls_files *to, const struct tls_files *from);
bool credentials_same(const struct tls_files *a, const struct tls_files *b);
/* Frees what either made. Zeros are allowed. */
void credentials_release(struct tls_files *files);

/* A device in use that leads to the server at @url, with the credentials of its handles. */
struct shared_device {
	TAILQ_ENTRY(shared_device) entry;
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	uint32_t read_sges_max; /* memories that one READ may scatter to: READ_SGES_MAX at most */
	_Atomic(struct memory_table *) memory; /* NULL: none was registered yet */
	struct bounce_pool bounces;
	/* Under the process's lock: */
	unsigned int users;
	bool condemned; /* no further handle gets it */
	char why[160];	/* why this device, for kvd_info() */
	struct tls_files credentials;
	char url[];
};

/* What failed with a device that could be opened. */
struct shared_failure {
	const char *what; /* NULL: it could not be opened */
	char name[IBV_SYSFS_NAME_MAX];
};

/*
 * Gets the device of the handles with this URL, parsed as @addr, and the credentials in @addr;
 * opens one if there is none. Waits up to @timeout_ms. 0 or a negative errno, then with @failure.
 */
int shared_device_get(struct shared_device **out, const char *url, const struct device_addr *addr,
		      int timeout_ms, struct shared_failure *failure);
/*
 * Shares a device that the caller has opened, for the first handle; others get it by @url. 0 or
 * -ENOMEM.
 */
int shared_device_add(struct shared_device **out, const char *url, struct device *dev);
/* Adds a user to a device that has one. */
void shared_device_hold(struct shared_device *device);
/* Drops a user, which may have nothing left on the device; the last one closes it. May be NULL. */
void shared_device_put(struct shared_device *device);
/*
 * Keeps further handles off a device on which something failed that may succeed on a new one: the
 * name has another address, the device is back. Returns whether it was shared with other handles.
 */
bool shared_device_condemn(struct shared_device *device);

/* What is known of one incarnation of a server. */
struct shared_server {
	TAILQ_ENTRY(shared_server) entry;
	unsigned int users;    /* under the lock of the process */
	struct bcache cache;   /* likewise, except the slots */
	struct geometry first; /* what the first handle was told; never changes */
	pthread_mutex_t lock;  /* protects what follows */
	struct geometry geometry;
	struct server_clock clock;
	char url[];
};

/*
 * What is known of the server at @url with this @geometry, which was checked. 0, -ENOMEM, or
 * -EPROTO if the server described its region differently to another handle.
 */
int shared_server_get(struct shared_server **out, const char *url, const struct geometry *geometry);
/* May be NULL. */
void shared_server_put(struct shared_server *server);
/*
 * The cache of all handles with this server, of the size that the first handle with a cache asked
 * for. @cache is this handle's view of it; call bcache_level() next. 0 or -ENOMEM.
 */
int shared_server_cache(struct shared_server *server, size_t bytes, struct bcache *cache);

/*
 * The geometry with the most buckets that a handle READ. Put stores a checked one if it has more;
 * get replaces @geometry if that has fewer, and returns whether it did. An index only grows, so no
 * geometry that was READ is newer than the index.
 */
void shared_geometry_put(struct shared_server *server, const struct geometry *geometry);
bool shared_geometry_get(struct shared_server *server, struct geometry *geometry);

/*
 * The clock (client/libkvd/clock.h) as a handle last learned it from a PING. Get replaces @clock if
 * the shared interval is narrow enough to be used at @now_ns of clock_raw_ns(), and returns whether
 * it did.
 */
void shared_clock_put(struct shared_server *server, const struct server_clock *clock);
bool shared_clock_get(struct shared_server *server, struct server_clock *clock, uint64_t now_ns);

#endif /* KVD_CLIENT_LIBKVD_SHARED_H */
