/* SPDX-License-Identifier: MIT */
/*
 * A connection: one client with one queue pair, which one worker serves from the first event to the
 * last.
 *
 *	CONNECT_REQUEST   control creates the queue pair, adds the connection to the poller's table,
 *			  allocates its memory window, and accepts it
 *	first message     worker: it must be HELLO; the worker defers it and sends NOTE_QUERY,
 *			  control grants remote read and sends NOTE_ANSWER, and the worker binds
 *			  the window and responds with its rkey and the geometry
 *	requests          worker: responses go out in the order of the requests
 *	the end           begins with DISCONNECTED, a deadline or a worker's NOTE_FAILED
 *	  disconnect	  control: queue pair to the error state, everything posted is flushed
 *	  NOTE_QUIESCE	  worker stops posting; when it has taken the last completion, it removes
 *			  the connection from the poller's table
 *	  NOTE_QUIESCED	  control destroys window and queue pair: from now on nothing moves data,
 *			  and its number may be another connection's
 *	  NOTE_RELEASE	  worker takes back buffers, memory and the window
 *	  NOTE_RELEASED	  control frees it after a grace period
 *
 * Each field says which thread owns it. The control thread touches the worker's fields only before
 * the queue pair is connected and after NOTE_RELEASED; the notes order the two.
 */
#ifndef KVD_SERVER_WORKER_CONN_H
#define KVD_SERVER_WORKER_CONN_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <urcu-qsbr.h>
#include <urcu/rculfhash.h>

#include "common/rdma/device.h"
#include "common/wire.h"
#include "server/store/store.h"
#include "server/worker/answers.h"
#include "server/worker/budget_gate.h"
#include "server/worker/client.h"
#include "server/worker/mailbox.h"
#include "server/worker/poller.h"
#include "server/worker/snapshot.h"
#include "server/worker/worker.h"

struct item;
struct deferred;
struct identity;
struct users;

/* The part of a HELLO that concerns its identity: server/control/identity.h. */
struct hello_query {
	uint8_t identity[WIRE_IDENTITY_BYTES]; /* all 0: none */
	uint64_t change_next;
	/* The answer. */
	struct answers *answers; /* NULL: none, or there is no room */
	bool known;		 /* an older connection had the identity */
};

/* A request of a connection that the control thread answers: server/worker/query.h. */
struct query {
	enum wire_op op;
	uint64_t arg; /* CLIENTS, REPORT, CONFIG get: the cursor; KILL: a connection's number */
	/*
	 * REVOKE, CONFIG set: the argument, `len` bytes; else for the response. Freed with the
	 * connection.
	 */
	char *text;
	uint32_t size;	/* of text */
	uint8_t mode;	/* of TENANT, REPORT and CONFIG: enum wire_tenant ... */
	uint32_t every; /* REPORT sample */
	/* TENANT: */
	char tenant[WIRE_TENANT_MAX + 1];
	/* The answer. */
	enum wire_status status;
	uint32_t len;	 /* bytes of text */
	uint64_t cursor; /* of the next page, 0: none */
	uint64_t closed; /* REVOKE: connections */
	bool granted;	 /* HELLO: the client has remote read, if its user may */
	bool by_request; /* HELLO: it may not, and GETs come as requests */
	char *process;	 /* REPORT of the process: kept until the last page. NULL: none */
	size_t process_bytes;
	struct hello_query hello;
	struct snapshot *stats; /* STATS: kept until the last page. NULL: none, or no memory */
	struct snapshot_place stats_place; /* of the page that comes next */
	bool answered;			   /* the worker's: NOTE_ANSWER came */
};

/* How far a connection's teardown has come, for the control thread. */
enum conn_stage { CONN_LIVE, CONN_FLUSHING, CONN_QUIESCING, CONN_RELEASING };

/* What the deadline of a connection is for: server/control/conn_timer.h. */
enum conn_timer {
	CONN_TIMER_HELLO,     /* its HELLO */
	CONN_TIMER_KEEPALIVE, /* something that arrives, or the answer to a probe */
	CONN_TIMER_FLUSH,     /* the last flushed completion */
	CONN_TIMER_KINDS,
};

struct conn {
	/* Fixed when the connection is made. */
	struct cds_lfht_node node; /* in poller->conns, by qp_num */
	uint32_t qp_num;
	uint32_t serial;   /* tells its completions from those of an older connection */
	uint32_t sq_depth; /* work requests that the send queue holds, beside the marker */
	struct cm_id *id;
	struct ibv_qp *qp;
	struct poller *poller;
	struct client client;
	/* The tenant's on the poller's device: of each extent of its region. */
	struct ibv_mr *const *mrs;
	/*
	 * Of each extent: server/worker/grant.h. NULL: the device has none, or none is left. Set by
	 * the control thread before it publishes the extent.
	 */
	struct ibv_mw *mws[EXTENTS_MAX];
	bool admin;		/* its slot and receive are those of administrators */
	_Atomic bool published; /* set last: a thread that finds it set sees all of the above */

	/* The worker's. The windows: server/worker/window.h. */
	uint32_t window;	  /* requests that the client may have outstanding, at most */
	uint32_t window_told;	  /* the window that the client knows, or will know soon */
	uint32_t window_next;	  /* what it knows, at most, with request window_known_at */
	uint64_t window_known_at; /* of client.requests; if window_next is less than window */
	bool window_active;	  /* in poller->windows.active, unless admin */
	uint64_t window_look_ns;  /* when to see whether it is still active, or later */
	TAILQ_ENTRY(conn) window_entry;
	uint64_t responses;	 /* sent */
	bool stopped;		 /* failed or quiesced: post nothing */
	const char *why;	 /* it failed: conn_ends(); or NULL */
	bool qp_destroyed;	 /* nothing moves data any more */
	uint32_t response_bytes; /* longest message that the client accepts */
	uint32_t extents;	 /* of which the client has keys: the first ones */
	uint32_t sq_used;	 /* work requests posted or about to be, not known to be done */
	uint32_t sq_unsignaled;	 /* work requests posted since the last signaled one */
	uint32_t batch_requests; /* in the current batch */
	bool probing;		 /* a keepalive probe is posted and not answered */
	uint32_t sent_first, sent_last; /* buffers of posted responses, oldest first */
	uint32_t buffers;		/* response buffers held */
	struct ibv_send_wr *chain_first, *chain_last; /* responses of the current batch */
	/* Large values: server/worker/pull.h. */
	uint32_t pulls;		    /* those that have memory: the first ones of `deferred` */
	uint32_t pulls_reading;	    /* pulls with memory that have not arrived */
	bool pull_tried;	    /* to begin the next; again when one with memory has ended */
	struct deferred *pull_next; /* the pull that posts the next READ; NULL: none */
	unsigned int reads_posted;  /* READs posted and not completed; at most PULL_DEPTH */
	unsigned int read_first;    /* index of the oldest in read_bytes */
	uint32_t read_bytes[PULL_DEPTH];
	uint64_t reads_bytes;		  /* of the posted READs */
	uint64_t pull_ahead;		  /* bytes of READs posted and not yet summed */
	TAILQ_ENTRY(conn) pull_entry;	  /* in worker->pulls if pull_since_ns is not 0 */
	uint64_t pull_since_ns;		  /* since when a value is due; 0: none */
	TAILQ_ENTRY(conn) progress_entry; /* in worker->pulls_by_progress, likewise */
	uint64_t progress_ns;		  /* when the last of its READs completed */
	struct budget_hold pull_hold;
	bool pull_arrived; /* a large value arrived: others may begin early */
	TAILQ_HEAD(deferred_list, deferred) deferred; /* requests, in the order of arrival */
	uint32_t deferred_count;
	bool deferred_runs;		  /* it is in worker->deferred_conns */
	TAILQ_ENTRY(conn) deferred_entry; /* in worker->deferred_conns */
	struct answers *answers;	  /* to its numbered changes; NULL: it has no identity */
	uint64_t change_admitted; /* the last number that arrived; server/worker/answers.h */
	uint64_t move_epoch;	  /* of its last BEGIN (OWNER-7); 0: its client copies nothing */
	uint64_t move_flushes;	  /* of its store at that BEGIN: table_no_flush() */

	/*
	 * The next part of a value, or of a range, that the client reads in parts; 0: none. Already
	 * paid for (RATE-2).
	 */
	uint64_t part_offset, part_hash;
	uint32_t part_length; /* what is left of the range; 0: it reads the value */

	bool marked;		       /* its marker is posted; else drained_at counts */
	uint64_t drained_at;	       /* of poller->taken */
	TAILQ_ENTRY(conn) drain_entry; /* in poller->marked or unmarked */

	/* Written by the worker, read by the control thread, too. */
	_Atomic bool hello_taken; /* a valid HELLO came in time; it may not be granted yet */
	_Atomic bool hello_done;  /* remote read is granted, and other requests are allowed */

	uint64_t window_shown;	  /* window */
	uint64_t probes_answered; /* of keepalive */
	_Atomic bool probe_noted; /* NOTE_PROBE is on its way; the control thread sets it */

	/* The control thread's. */
	struct conn *prev, *next;
	enum conn_stage stage;
	uint32_t extents_max;	       /* of which its client may have keys */
	bool access_refused;	       /* to its client, of which the device has told us */
	TAILQ_ENTRY(conn) timer_entry; /* in the list of its kind, if timer_due_ns is not 0 */
	enum conn_timer timer;
	uint64_t timer_due_ns;	      /* 0: no deadline */
	uint64_t arrived_before;      /* requests and answers, when keepalive looked last */
	unsigned int probe_intervals; /* since it sent a probe that was not answered */
	struct query_list *queries;   /* the one that its query waits in, or NULL */
	TAILQ_ENTRY(conn) query_entry;
	struct identity *identity; /* whose owner or heir it is, or NULL */

	/* The worker's and the control thread's in turn: NOTE_QUERY and NOTE_ANSWER pass it on. */
	struct query query;

	struct note notes[NOTE_KINDS];
};

/* The connection of a client that is no session. */
static inline struct conn *client_conn(struct client *client)
{
	return caa_container_of(client, struct conn, client);
}

/* The name of a connection in the log: device and queue pair. */
#define CONN_FMT "connection %s/0x%06x"
#define CONN_ARG(conn) conn_device_name(conn), (conn)->qp_num

/*
 * The most memory that all connections which the configuration allows take beside the workers'
 * buffers: their queue pairs and links, and struct conn.
 */
uint64_t conns_bytes(const struct config *config);

const char *conn_device_name(const struct conn *conn);

/*
 * Places for the completions of work requests. A connection may always have sq_share() work
 * requests outstanding, and more as long as its queue pair has room and others leave spare places:
 * so the completion queue can't overrun (server/worker/poller.h).
 */
static inline uint32_t sq_share(const struct conn *conn)
{
	return conn->window + SENDS_BESIDE_WINDOW;
}

static inline bool sq_room(const struct conn *conn)
{
	return conn->sq_used < sq_share(conn) ||
	       (conn->poller->spare_sends && conn->sq_used < conn->sq_depth);
}

/* Whether there is room for @count work requests. */
static inline bool sq_room_for(const struct conn *conn, uint32_t count)
{
	uint32_t share = sq_share(conn), used = conn->sq_used + count;
	uint32_t free = conn->sq_used > share ? conn->sq_used : share;

	return used <= share ||
	       (used - free <= conn->poller->spare_sends && used <= conn->sq_depth);
}

/* For a work request that is posted, or will be at the end of the batch. There is room. */
static inline void sq_take(struct conn *conn)
{
	if (conn->sq_used++ >= sq_share(conn))
		conn->poller->spare_sends--;
}

/* The @count oldest work requests are done. */
static inline void sq_put(struct conn *conn, uint32_t count)
{
	uint32_t share = sq_share(conn);
	uint32_t over = conn->sq_used > share ? conn->sq_used - share : 0;

	conn->sq_used -= count;
	conn->poller->spare_sends += over < count ? over : count;
}

/* The kind of a numbered request that has arrived. */
static inline enum change_kind conn_admit(struct conn *conn, uint32_t change)
{
	return conn->answers ? answers_admit(conn->answers, &conn->change_admitted, change) :
			       CHANGE_WRONG;
}

/* A request has got its response; if it is numbered, the answer is recorded. */
static inline void conn_record(struct conn *conn, uint32_t change, const struct wire_response *head)
{
	if (change)
		answers_record(conn->answers, change, head);
}

/* client_thread() of the connection's client. */
static inline struct store_thread *conn_thread(const struct conn *conn)
{
	return client_thread(&conn->client);
}

/*
 * Whether the client runs as root or as the server's own user, according to the kernel: so only on
 * the Unix socket.
 */
bool peer_is_admin(const struct cm_peer *peer);

/*
 * Creates the connection that @id requests, with its queue pair, and adds it to @poller's table.
 * It is in @tenant, which serves on the poller's device. Its window is 1, and may grow to
 * @window_max. The caller accepts it. Control thread, which is RCU-offline. 0 or a negative errno.
 */
int conn_create(struct conn **out, struct poller *poller, struct tenant *tenant, struct cm_id *id,
		uint32_t serial, uint32_t window_max);

/* Frees a connection that is in no table, with its queue pair if that still exists. */
void conn_destroy(struct conn *conn);

/* The worker: the connection of a completion, NULL if there is none. Inside of an RCU read lock. */
struct conn *conn_lookup(struct poller *poller, uint32_t qp_num);
/*
 * Adds the connection to the poller's table, once everything that the worker needs is set up. The
 * thread is RCU-online.
 */
void conn_table_add(struct conn *conn);
/* Removes the connection from the poller's table. The thread is RCU-online. */
void conn_table_remove(struct conn *conn);

/* The connection ends because of @why, a constant: for the audit log. Any thread. */
void conn_ends(struct conn *conn, const char *why);

/*
 * The worker: ends the connection because of @why, a constant, and logs it, once. Later messages of
 * the client are dropped. The control thread closes the connection.
 */
void conn_fail(struct conn *conn, const char *why);

#endif /* KVD_SERVER_WORKER_CONN_H */
