/* SPDX-License-Identifier: MIT */
/* The server as a whole. */
#ifndef KVD_SERVER_SERVER_H
#define KVD_SERVER_SERVER_H

#include "server/config/config.h"
#include "server/net/mailbox.h"
#include "server/net/nic.h"
#include "server/net/worker.h"
#include "server/store/store.h"

/* X(name, help): counted by the control thread. */
#define CONTROL_STATS(X)                                                                           \
	X(connections, "connections open")                                                         \
	X(connections_total, "connections accepted since the start")                               \
	X(connections_rejected, "connections refused")                                             \
	X(connections_expired, "connections closed at a deadline")                                 \
	X(srq_limits, "times receives ran low on a shared receive queue")                          \
	X(async_errors, "asynchronous errors reported by a device")

struct control_stats {
#define X(name, help) uint64_t name;
	CONTROL_STATS(X)
#undef X
};

struct server {
	struct config config;
	struct store store;
	struct nic nics[NIC_MAX];
	unsigned int nic_count;
	struct worker *workers;
	unsigned int worker_count;
	struct mailbox mailbox; /* notes to the control thread */
	uint64_t started_ns;

	/* The control thread's. */
	struct control_stats stats; /* others may read */
	struct conn *conns;	    /* all, by next and prev */
	uint32_t serial;	    /* of the next connection */
	uint64_t drain_until_ns;    /* 0: not stopping */
	uint64_t answer_until_ns;   /* stopping: requests are answered until then */
	uint64_t force_until_ns;    /* 0: connections are not being closed yet */
	bool events_left;	    /* a device may have more events than were taken at once */
	bool failed;		    /* stopping because a device failed */
};

/* Sets up everything in order; logs what fails. server->config is filled in by the caller. */
int server_init(struct server *server);
/* In reverse; takes what server_init() left half done. */
void server_release(struct server *server);

/*
 * Serves until SIGTERM or SIGINT (which the caller has blocked) or until a device fails, drains, and
 * returns 0 or a negative errno. server/control_loop.c
 */
int server_run(struct server *server);

#endif /* KVD_SERVER_SERVER_H */
