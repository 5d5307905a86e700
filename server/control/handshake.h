/* SPDX-License-Identifier: MIT */
/*
 * Handshakes of TLS with clients of memcached's protocol: a thread of its own accepts connections
 * at the memcached+tls:// URLs of server.listen, and gives the control thread those whose clients
 * have proven who they are, and those that failed.
 *
 *   HANDSHAKE-1. A handshake takes a CPU about a millisecond: no worker makes one (F), nor does the
 *	 control thread.
 *   HANDSHAKE-2. At most server.max_connections handshakes, and HANDSHAKES_MAX, are under way, each
 *	 for server.handshake_timeout; one more replaces another: setups_to_drop(). No step of one
 *	 waits for its client. A client that has sent nothing takes a descriptor, but no memory of
 *	 OpenSSL.
 *   HANDSHAKE-3. At most HANDSHAKES_ENDED_MAX that have ended wait for the control thread;
 *	 meanwhile further connections wait in the listeners' queues.
 */
#ifndef KVD_SERVER_CONTROL_HANDSHAKE_H
#define KVD_SERVER_CONTROL_HANDSHAKE_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/util/setups.h"
#include "server/control/listener.h"
#include "server/worker/mailbox.h"

/* As many clients connect at once when their server starts; each takes some 50 KiB. */
#define HANDSHAKES_MAX 1024
#define HANDSHAKES_ENDED_MAX 256

/* What the thread waits for. */
enum handshake_source { HANDSHAKE_STOP, HANDSHAKE_LISTENER, HANDSHAKE_CLIENT };

struct handshake {
	enum handshake_source source; /* HANDSHAKE_CLIENT */
	const struct listener *listener;
	struct tls *tls;     /* from its first byte on */
	struct cm_peer peer; /* its identity once it is done */
	int err;	     /* 0: done; -ETIMEDOUT, or another negative errno: @why */
	char why[TLS_WHY_MAX];

	/* The thread's. */
	bool lingers;	    /* refused, and about to learn it */
	struct setup setup; /* its fd: -1: the socket was taken */

	STAILQ_ENTRY(handshake) entry; /* in handshakes->ended */
};

STAILQ_HEAD(handshake_list, handshake);

/* A listener that the thread watches. */
struct handshake_listener {
	enum handshake_source source; /* HANDSHAKE_LISTENER */
	const struct listener *listener;
};

struct handshakes {
	/* Fixed before the thread starts. */
	struct mailbox *control;
	uint64_t timeout_ns;
	unsigned int max; /* HANDSHAKE-2 */
	int epoll_fd, stop_fd;
	pthread_t thread;
	bool opened, started;
	enum handshake_source stop_source;
	struct handshake_listener listeners[LISTEN_MAX];

	pthread_mutex_t lock;
	pthread_cond_t taken;	     /* handshakes_take() was called, or `stops` is set */
	struct tls_context *context; /* of the next handshakes */
	struct handshake_list ended;
	unsigned int ended_count;
	bool stops;
	bool told; /* @note was sent, and `ended` not taken since */
	struct note note;

	/* The thread's. */
	struct setups setups;
	int spare_fd; /* closed to refuse a connection when no descriptor is left */
};

/*
 * Reads the files of [tls], if server.listen has memcached+tls:// URLs; @handshakes is all zero. 0,
 * or a negative errno after logging.
 */
int handshakes_open(struct handshakes *handshakes, const struct config *config);
/* Checks that handshakes_open() would succeed, without keeping anything. Likewise. */
int handshakes_check(const struct config *config);
/* After handshakes_open() that failed, or was not called, too; not while the thread runs. */
void handshakes_close(struct handshakes *handshakes);

/*
 * Starts the thread, if there is a listener for it, when all listen. Notes go to @control:
 * NOTE_HANDSHAKES. 0, or a negative errno after logging.
 */
int handshakes_start(struct handshakes *handshakes, const struct listeners *listeners,
		     struct mailbox *control);
/* Ends the thread, and the handshakes that the control thread has not taken. */
void handshakes_stop(struct handshakes *handshakes);

/* Takes all handshakes that have ended; handshake_free() them. */
void handshakes_take(struct handshakes *handshakes, struct handshake_list *ended);
/* The caller takes the socket and its TLS, of a handshake that is done. */
struct tls *handshake_take_stream(struct handshake *handshake, int *fd);
/* Ends TLS and closes the socket, unless they were taken. */
void handshake_free(struct handshake *handshake);

/*
 * Reads the files of [tls] again, for the next handshakes, and logs that; if they can't be used,
 * logs why and keeps the old ones.
 */
void handshakes_renew(struct handshakes *handshakes, const struct config *config);

#endif /* KVD_SERVER_CONTROL_HANDSHAKE_H */
