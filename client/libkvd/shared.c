/* SPDX-License-Identifier: MIT */
/* What the handles of a process share: finds, opens, counts and closes it. */
#include "client/libkvd/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/heap.h"

TAILQ_HEAD(device_list, shared_device);
TAILQ_HEAD(server_list, shared_server);

static struct {
	pthread_mutex_t lock;
	struct device_list devices;
	struct server_list servers;
} process = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.devices = TAILQ_HEAD_INITIALIZER(process.devices),
	.servers = TAILQ_HEAD_INITIALIZER(process.servers),
};

/* In a child, where another thread of the parent's may have had the lock. */
static void process_forked(void)
{
	pthread_mutex_init(&process.lock, NULL);
	TAILQ_INIT(&process.devices);
	TAILQ_INIT(&process.servers);
}

static void process_init(void)
{
	pthread_atfork(NULL, NULL, process_forked);
}

static void process_lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, process_init);
	pthread_mutex_lock(&process.lock);
}

static void process_unlock(void)
{
	pthread_mutex_unlock(&process.lock);
}

/* X(member, option, variable) */
#define CREDENTIALS(X)                                                                             \
	X(ca, tls_ca, "KVD_TLS_CA")                                                                \
	X(certificate, tls_certificate, "KVD_TLS_CERTIFICATE")                                     \
	X(key, tls_key, "KVD_TLS_KEY")                                                             \
	X(psk, tls_psk, "KVD_TLS_PSK")

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

static const char *or_environment(const char *option, const char *variable)
{
	return option ? option : or_empty(secure_getenv(variable));
}

int credentials_copy(struct tls_files *to, const struct tls_files *from)
{
	size_t bytes = 0;
	char *at;

#define X(member, option, variable) bytes += strlen(or_empty(from->member)) + 1;
	CREDENTIALS(X)
#undef X
	*to = (struct tls_files){ 0 };
	at = heap_alloc(bytes);
	if (!at)
		return -ENOMEM;
		/* One allocation, which starts with the first name. */
#define X(member, option, variable)                                                                \
	to->member = at;                                                                           \
	at = stpcpy(at, or_empty(from->member)) + 1;
	CREDENTIALS(X)
#undef X
	return 0;
}

int credentials_take(struct tls_files *files, const struct kvd_options *options)
{
	const struct tls_files names = {
#define X(member, option, variable) .member = or_environment(options->option, variable),
		CREDENTIALS(X)
#undef X
	};

	return credentials_copy(files, &names);
}

bool credentials_same(const struct tls_files *a, const struct tls_files *b)
{
	bool same = true;

#define X(member, option, variable)                                                                \
	same = same && !strcmp(or_empty(a->member), or_empty(b->member));
	CREDENTIALS(X)
#undef X
	return same;
}

void credentials_release(struct tls_files *files)
{
	heap_free((void *)files->ca);
	*files = (struct tls_files){ 0 };
}

static bool do_device_takes(const struct shared_device *device, const char *url,
			    const struct tls_files *credentials)
{
	return !device->condemned && device->users < SHARED_DEVICE_USERS_MAX &&
	       !strcmp(device->url, url) && credentials_same(&device->credentials, credentials);
}

/* Adds a user to the device that a further handle gets; NULL if there is none. */
static struct shared_device *do_device_find(const char *url, const struct tls_files *credentials)
{
	struct shared_device *device;

	TAILQ_FOREACH(device, &process.devices, entry)
		if (do_device_takes(device, url, credentials)) {
			device->users++;
			return device;
		}
	return NULL;
}

static void device_free(struct shared_device *device)
{
	memory_table_destroy(atomic_load(&device->memory));
	bounce_pool_release(&device->bounces);
	if (device->pd)
		device->dev->ops->dealloc_pd(device->pd);
	device_close(device->dev);
	credentials_release(&device->credentials);
	heap_free(device);
}

static struct shared_device *device_make(const char *url, struct device *dev)
{
	struct shared_device *device = heap_calloc(1, sizeof(*device) + strlen(url) + 1);

	if (!device)
		return NULL;
	strcpy(device->url, url);
	snprintf(device->why, sizeof(device->why), "the address %s asks for it", url);
	device->dev = dev;
	device->users = 1;
	device->read_sges_max = READ_SGES_MAX;
	bounce_pool_init(&device->bounces, dev);
	return device;
}

static int device_open_for(struct shared_device **out, const char *url,
			   const struct device_addr *addr, int timeout_ms,
			   struct shared_failure *failure)
{
	struct shared_device *device;
	struct ibv_device_attr attr;
	struct device *dev;
	int err;

	*failure = (struct shared_failure){ .what = NULL };
	err = device_open(&dev, addr, DEVICE_CONNECT, timeout_ms);
	if (err)
		return err;
	device = device_make(url, dev);
	if (!device) {
		device_close(dev);
		return -ENOMEM;
	}
	err = credentials_copy(&device->credentials, &addr->tls);
	if (err)
		goto free_device;
	memcpy(failure->name, dev->name, sizeof(failure->name));
	failure->what = "can't be queried";
	err = dev->ops->query(dev, &attr, &device->port);
	if (err)
		goto free_device;
	if (attr.max_sge_rd < (int)device->read_sges_max)
		device->read_sges_max = 1;
	failure->what = "can't set up a protection domain";
	err = dev->ops->alloc_pd(dev, &device->pd);
	if (err)
		goto free_device;
	device->bounces.pd = device->pd;
	if (attr.max_mr_size < SIZE_MAX)
		device->bounces.mr_max = (size_t)attr.max_mr_size;
	*out = device;
	return 0;

free_device:
	device_free(device);
	return err;
}

int shared_device_add(struct shared_device **out, const char *url, struct device *dev)
{
	*out = device_make(url, dev);
	if (!*out)
		return -ENOMEM;
	process_lock();
	TAILQ_INSERT_HEAD(&process.devices, *out, entry);
	process_unlock();
	return 0;
}

/* A device is opened without the lock, since that may take seconds; so two threads may do it. */
int shared_device_get(struct shared_device **out, const char *url, const struct device_addr *addr,
		      int timeout_ms, struct shared_failure *failure)
{
	struct shared_device *made;
	int err;

	process_lock();
	*out = do_device_find(url, &addr->tls);
	process_unlock();
	if (*out)
		return 0;
	err = device_open_for(&made, url, addr, timeout_ms, failure);
	if (err)
		return err;
	process_lock();
	*out = do_device_find(url, &addr->tls);
	if (!*out) {
		TAILQ_INSERT_HEAD(&process.devices, made, entry);
		*out = made;
		made = NULL;
	}
	process_unlock();
	if (made)
		device_free(made);
	return 0;
}

void shared_device_hold(struct shared_device *device)
{
	process_lock();
	device->users++;
	process_unlock();
}

void shared_device_put(struct shared_device *device)
{
	bool last;

	if (!device)
		return;
	process_lock();
	last = !--device->users;
	if (last)
		TAILQ_REMOVE(&process.devices, device, entry);
	process_unlock();
	if (last)
		device_free(device);
}

bool shared_device_condemn(struct shared_device *device)
{
	bool others;

	process_lock();
	others = device->condemned || device->users > 1;
	device->condemned = true;
	process_unlock();
	return others;
}

/* Compares all that stays the same while a server runs. */
static bool same_region(const struct geometry *a, const struct geometry *b)
{
	return a->region_bytes == b->region_bytes && a->hash_seed == b->hash_seed &&
	       a->value_max == b->value_max && a->level_base == b->level_base;
}

/*
 * Handles that may not READ know no hash seed, and share nothing with those that may. One URL has
 * both if the rights of its user have changed.
 */
static struct shared_server *do_server_find(const char *url, const struct geometry *geometry)
{
	struct shared_server *server;

	TAILQ_FOREACH(server, &process.servers, entry)
		if (server->first.incarnation == geometry->incarnation &&
		    !server->first.hash_seed == !geometry->hash_seed && !strcmp(server->url, url))
			return server;
	return NULL;
}

static struct shared_server *server_make(const char *url, const struct geometry *geometry)
{
	struct shared_server *server = heap_calloc(1, sizeof(*server) + strlen(url) + 1);

	if (!server)
		return NULL;
	strcpy(server->url, url);
	server->first = server->geometry = *geometry;
	pthread_mutex_init(&server->lock, NULL);
	return server;
}

int shared_server_get(struct shared_server **out, const char *url, const struct geometry *geometry)
{
	struct shared_server *server;
	int err = 0;

	process_lock();
	server = do_server_find(url, geometry);
	if (server && !same_region(&server->first, geometry)) {
		err = -EPROTO;
	} else if (!server) {
		server = server_make(url, geometry);
		if (server)
			TAILQ_INSERT_HEAD(&process.servers, server, entry);
		else
			err = -ENOMEM;
	}
	if (!err) {
		server->users++;
		*out = server;
	}
	process_unlock();
	return err;
}

void shared_server_put(struct shared_server *server)
{
	bool last;

	if (!server)
		return;
	process_lock();
	last = !--server->users;
	if (last)
		TAILQ_REMOVE(&process.servers, server, entry);
	process_unlock();
	if (!last)
		return;
	bcache_release(&server->cache);
	pthread_mutex_destroy(&server->lock);
	heap_free(server);
}

int shared_server_cache(struct shared_server *server, size_t bytes, struct bcache *cache)
{
	int err = 0;

	*cache = (struct bcache){ 0 };
	if (!bytes)
		return 0;
	process_lock();
	if (!server->cache.lines)
		err = bcache_init(&server->cache, bytes);
	if (!err)
		*cache = server->cache;
	process_unlock();
	return err;
}

void shared_geometry_put(struct shared_server *server, const struct geometry *geometry)
{
	pthread_mutex_lock(&server->lock);
	if (geometry_buckets(geometry) > geometry_buckets(&server->geometry))
		server->geometry = *geometry;
	pthread_mutex_unlock(&server->lock);
}

bool shared_geometry_get(struct shared_server *server, struct geometry *geometry)
{
	bool newer;

	pthread_mutex_lock(&server->lock);
	newer = geometry_buckets(&server->geometry) > geometry_buckets(geometry);
	if (newer)
		*geometry = server->geometry;
	pthread_mutex_unlock(&server->lock);
	return newer;
}

void shared_clock_put(struct shared_server *server, const struct server_clock *clock)
{
	pthread_mutex_lock(&server->lock);
	server->clock = *clock;
	pthread_mutex_unlock(&server->lock);
}

/* clock_slept_ns() must be read after @now_ns. */
bool shared_clock_get(struct shared_server *server, struct server_clock *clock, uint64_t now_ns)
{
	struct server_clock known;

	pthread_mutex_lock(&server->lock);
	known = server->clock;
	pthread_mutex_unlock(&server->lock);
	if (server_clock_width(&known, now_ns) > CLOCK_WIDTH_NS_MAX ||
	    server_clock_slept(&known, clock_slept_ns()))
		return false;
	*clock = known;
	return true;
}
