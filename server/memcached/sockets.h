/* SPDX-License-Identifier: MIT */
/*
 * The sessions of a worker. They have a share of each of its turns:
 *
 *   SOCKET-1. A turn executes at most SOCKETS_COMMANDS commands of all sessions together, within
 *	 about PIECE_NS. What takes longer goes on in pieces. So the requests of a batch wait for
 *	 one share at most, however many sessions there are (guarantee F).
 *   SOCKET-2. Sessions with something to do take turns. One with many commands in its input goes to
 *	 the end of the line when the share is used up.
 *   SOCKET-3. All descriptors that a worker waits for, its mailbox's too, are in one set of
 *	 epoll(7), so it sleeps in one system call, beside its device's channel. They are level
 *	 triggered: what is not read wakes it again.
 */
#ifndef KVD_SERVER_MEMCACHED_SOCKETS_H
#define KVD_SERVER_MEMCACHED_SOCKETS_H

#include "server/memcached/session.h"

#define SOCKETS_COMMANDS 32u

/* What env->front of a server with URLs of memcached:// is. */
extern const struct front_ops sockets_front;

#endif /* KVD_SERVER_MEMCACHED_SOCKETS_H */
