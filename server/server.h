/* SPDX-License-Identifier: MIT */
/* The server as a whole. */
#ifndef KVD_SERVER_SERVER_H
#define KVD_SERVER_SERVER_H

#include "server/config/config.h"
#include "server/net/net.h"
#include "server/store/store.h"

struct server {
	struct config config;
	struct store store;
	struct net net;
	uint64_t started_ns;

	/* The control thread's: server/control_loop.c. */
	uint64_t drain_until_ns;  /* 0: not stopping */
	uint64_t answer_until_ns; /* stopping: requests are answered until then */
	uint64_t force_until_ns;  /* 0: connections are not being closed yet */
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
