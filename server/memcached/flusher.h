/* SPDX-License-Identifier: MIT */
/* The thread that flushes all members of the fleet for flush_all, one flush after another. */
#ifndef KVD_SERVER_MEMCACHED_FLUSHER_H
#define KVD_SERVER_MEMCACHED_FLUSHER_H

#include <pthread.h>

#include "server/memcached/forwarded.h"

struct flusher {
	struct fleet_identity identity;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	bool stops;
	struct forward_list waiting;
};

/* The caller has filled in the identity. 0, or a negative errno. */
int flusher_init(struct flusher *flusher);
void flusher_release(struct flusher *flusher);
/* 0, or a negative errno after logging. */
int flusher_start(struct flusher *flusher);
/* Sends back what waits: as forwarder_stop(). */
void flusher_stop(struct flusher *flusher);
/* False: it is stopped. Any thread. */
bool flusher_send(struct flusher *flusher, struct forward *forward);

#endif /* KVD_SERVER_MEMCACHED_FLUSHER_H */
