/* SPDX-License-Identifier: MIT */
/*
 * What the handles of a process share: a device for each URL, with its protection domain, and what
 * is known of each server: its index's geometry, its clock, and the bucket cache. Internal to
 * libkvd.
 *
 * Threads: each handle is one thread's; they meet here. Opening and closing take the lock of the
 * process, learning the geometry and the clock takes the server's; both are rare. A GET takes none:
 * a handle has its own copies of the geometry and of the clock's interval, and the cache's slots
 * are read and written without locks (client/libkvd/bcache.h).
 *
 * What one handle learned and another one uses came from the same server: the URL is the same, and
 * so are the incarnation and all of the region that can't change. A server that says different
 * things of one incarnation is refused.
 *
 * A child after fork(2) shares nothing with its parent: it begins with nothing, and can't use the
 * parent's handles.
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
 * Handles of one device. Further ones get another: softnic has 1,024 channels and 4,096 memory
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

/* A device in use, that leads to the server at @url, with the credentials of its handles. */
struct shared_device {
	TAILQ_ENTRY(shared_device) entry;
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	uint32_t read_sges_max; /* memories that one READ goes to: READ_SGES_MAX at most */
	_Atomic(struct memory_table *) memory; /* NULL: none was registered yet */
	struct bounce_pool bounces;
	unsigned int users; /* under the lock of the process, like the next */
	bool condemned;	    /* no further handle gets it */
	char why[160];	    /* this device: for kvd_info() */
	struct tls_files credentials;
	char url[];
};

/* What could not be done with a device, if it could be opened. */
struct shared_failure {
	const char *what; /* NULL: it could not be opened */
	char name[IBV_SYSFS_NAME_MAX];
};

/*
 * The device of the handles with this URL, which is parsed as @addr, and the credentials in that;
 * opened if there is none. Waits up to @timeout_ms. 0 or a negative errno, then with @failure.
 */
int shared_device_get(struct shared_device **out, const char *url, const struct device_addr *addr,
		      int timeout_ms, struct shared_failure *failure);
/*
 * Shares a device that the caller has opened: the first handle's. The others get it by @url. 0 or
 * -ENOMEM.
 */
int shared_device_add(struct shared_device **out, const char *url, struct device *dev);
/* A user more of a device that has one. */
void shared_device_hold(struct shared_device *device);
/* Closes the device after its last handle, of which nothing may be left on it. May be NULL. */
void shared_device_put(struct shared_device *device);
/*
 * Something failed that a new device might do: another address of the name, a device that is back.
 * Returns whether other handles had it before.
 */
bool shared_device_condemn(struct shared_device *device);

/* What is known of one incarnation of a server. */
struct shared_server {
	TAILQ_ENTRY(shared_server) entry;
	unsigned int users;    /* under the lock of the process */
	struct bcache cache;   /* likewise, but for the slots */
	struct geometry first; /* what a handle was told first; never changes */
	pthread_mutex_t lock;  /* of what follows */
	struct geometry geometry;
	struct server_clock clock;
	char url[];
};

/*
 * What is known of the server at @url that says @geometry, which was checked. 0, -ENOMEM, or
 * -EPROTO if it says other things of its region than it said to another handle.
 */
int shared_server_get(struct shared_server **out, const char *url, const struct geometry *geometry);
/* May be NULL. */
void shared_server_put(struct shared_server *server);
/*
 * The cache of all handles with this server: it has the size that the first of them asked for that
 * asked for one. @cache is this handle's view of it; bcache_level() is next. 0 or -ENOMEM.
 */
int shared_server_cache(struct shared_server *server, size_t bytes, struct bcache *cache);

/*
 * The geometry with the most buckets that a handle READ. Put takes one in that was checked; get
 * replaces @geometry if it has fewer, and says whether it did. An index only grows, so whatever was
 * READ by any thread before is not newer than the index.
 */
void shared_geometry_put(struct shared_server *server, const struct geometry *geometry);
bool shared_geometry_get(struct shared_server *server, struct geometry *geometry);

/*
 * The clock as a handle learned it last, by a response that it had asked for. Get replaces @clock
 * at @now_ns of clock_raw_ns(), if the interval is narrow enough to be used, and says whether it
 * did: client/libkvd/clock.h.
 */
void shared_clock_put(struct shared_server *server, const struct server_clock *clock);
bool shared_clock_get(struct shared_server *server, struct server_clock *clock, uint64_t now_ns);

#endif /* KVD_CLIENT_LIBKVD_SHARED_H */
