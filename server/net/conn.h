/* SPDX-License-Identifier: MIT */
/*
 * A connection: one client, one queue pair, one worker, for life.
 *
 *	CONNECT_REQUEST   control makes the queue pair, enters it in the worker's table, accepts
 *	first message     worker: must be HELLO; remote read is granted, rkey and geometry are told
 *	requests          worker: answered in the order in which they came, large PUTs excepted
 *	the end           whoever sees it first: DISCONNECTED, a deadline, or a worker's NOTE_FAILED
 *	  disconnect	  control: queue pair to the error state, everything posted is flushed
 *	  NOTE_QUIESCE	  worker posts nothing any more
 *	  NOTE_QUIESCED	  control destroys the queue pair: from now on nothing moves data
 *	  NOTE_RELEASE	  worker takes back buffers and memory, removes it from its table
 *	  NOTE_RELEASED	  control returns the credits and frees it after a grace period
 *
 * Each field says whose it is. What belongs to the worker is touched by the control thread only
 * before the queue pair is connected and after NOTE_RELEASED; the notes order the two.
 */
#ifndef KVD_SERVER_NET_CONN_H
#define KVD_SERVER_NET_CONN_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <urcu-qsbr.h>
#include <urcu/rculfhash.h>

#include "common/rdma/device.h"
#include "common/wire.h"
#include "server/net/mailbox.h"

struct poller;
struct item;

/* READs one pull has under way. */
#define PULL_DEPTH 4

/* A value on its way from the client's memory into an item. One at a time for a connection. */
struct pull {
	struct item *item; /* NULL: none under way */
	uint64_t hash;
	uint64_t addr; /* next byte of the client's to ask for */
	uint8_t *to;   /* where it goes */
	uint32_t left; /* bytes not asked for yet */
	uint32_t rkey;
	uint32_t id; /* of the request, as what follows */
	uint32_t ttl;
	uint64_t version;
	uint8_t mode;
	unsigned int out; /* READs under way */
};

struct conn {
	/* Fixed when the connection is made. */
	struct cds_lfht_node node; /* in poller->conns, by qp_num */
	uint32_t qp_num;
	uint32_t serial; /* tells completions of this connection from an older one's */
	uint32_t window;
	struct cm_id *id;
	struct ibv_qp *qp;
	struct poller *poller;
	_Atomic bool published; /* set last: orders all above before what conn_lookup() returns */

	/* The worker's. */
	bool open;			/* HELLO was answered */
	bool stopped;			/* failed or quiesced: nothing is to be posted */
	uint32_t response_bytes;	/* longest message the client takes */
	uint32_t sq_used;		/* work requests posted and not known to be done */
	uint32_t sq_unsignaled;		/* of those, posted since the last signaled one */
	uint32_t batch_requests;	/* in the batch being worked on */
	uint32_t sent_first, sent_last; /* response buffers under way, oldest first */
	uint32_t buffers;		/* response buffers held */
	struct ibv_send_wr *chain_first, *chain_last; /* of the batch being worked on */
	struct pull pull;
	TAILQ_ENTRY(conn) copy_entry; /* in worker->copies, if there is one */
	struct item *copy;	      /* of the last GET whose value did not fit a response */
	uint64_t copy_ns;	      /* when it was made, by the server's clock */

	/* Written by the worker, read by the control thread. */
	_Atomic bool greeted;
	_Atomic uint64_t pull_since_ns; /* 0: no pull under way */

	/* The control thread's. */
	struct conn *prev, *next;
	enum { CONN_LIVE, CONN_FLUSHING, CONN_QUIESCING, CONN_RELEASING } stage;
	uint64_t deadline_ns; /* LIVE: for HELLO; FLUSHING: for the last flushed receive */

	struct note notes[NOTE_TYPES];
};

/* Requests a connection's send queue holds beside those of pulls. */
static inline uint32_t conn_sq_depth(uint32_t window, uint32_t signal_every)
{
	/* An honest client has at most `window` responses unseen; completions may lag behind. */
	return 4 * window + signal_every + PULL_DEPTH;
}

/* The name of a connection in the log. */
#define CONN_FMT "connection %s/0x%06x"
#define CONN_ARG(conn) conn_device_name(conn), (conn)->qp_num

const char *conn_device_name(const struct conn *conn);

/*
 * Makes the connection that @id asks for on @poller with its queue pair and enters it in the
 * poller's table. The caller accepts. Control thread. 0 or a negative errno.
 */
int conn_create(struct conn **conn, struct poller *poller, struct cm_id *id, uint32_t serial,
		uint32_t window);

/* Frees a connection that is in no table; its queue pair, if there is still one, with it. */
void conn_destroy(struct conn *conn);

/* The worker: looks up a completion's connection, NULL if there is none. RCU read side. */
struct conn *conn_lookup(struct poller *poller, uint32_t qp_num);
/* Removes it from the poller's table. RCU read side. */
void conn_remove(struct conn *conn);

/*
 * The worker: this connection is to end, because of @why. Logged once; what comes from it afterwards
 * is dropped. The control thread does the rest.
 */
void conn_fail(struct conn *conn, const char *why);

#endif /* KVD_SERVER_NET_CONN_H */
