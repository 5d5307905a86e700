/* SPDX-License-Identifier: MIT */
/* A session's turn: it receives, executes commands and sends their answers. */
#ifndef KVD_SERVER_MEMCACHED_SERVE_H
#define KVD_SERVER_MEMCACHED_SERVE_H

#include "server/memcached/session.h"

/* What a session does after a turn. */
enum serve_next {
	SERVE_SOCKET, /* waits for its socket */
	SERVE_AGAIN,  /* has more to do */
	SERVE_WAIT,   /* waits to be woken */
	SERVE_END,    /* ends */
};

/*
 * The session's turn. It ends soon after @until_ns of clock_ns(), or when the session has executed
 * *@commands, which it counts down. Called inside an RCU read lock. Never blocks.
 */
enum serve_next serve(struct session *session, uint64_t until_ns, unsigned int *commands);

/* Frees what the session has between two turns. */
void serve_release(struct session *session);

#endif /* KVD_SERVER_MEMCACHED_SERVE_H */
