/* SPDX-License-Identifier: MIT */
/*
 * Deferred requests: those that do not fit a worker's turn are executed piece by piece, one piece
 * in each turn, after the requests that do fit.
 *
 *   DEFERRED-1. A turn runs one piece, of PIECE_NS. So other requests wait for one piece
 *	 at most, however many are deferred.
 *   DEFERRED-2. Connections take turns: a client that defers a whole window of requests gets no
 *	 more pieces than one that defers a single request. A connection whose piece gets nowhere,
 *	 because it waits for what others hold, leaves the rest of the piece to the next.
 *   DEFERRED-3. The requests of one connection are executed in order: while it has a deferred one,
 *	 later ones are deferred, too.
 *   DEFERRED-4. A deferred request keeps its receive buffer, so what its pointers lead to stays. It
 *	 is outstanding: it counts in the client's window until just before its response is posted,
 *	 and the sum of the windows is at most the number of receives (WORKER-4 in
 *	 server/worker/worker.h).
 *   DEFERRED-5. Between two pieces the worker polls, reads its mail and passes a quiescent state: a
 *	 step must not use what it found without a lock in the piece before.
 *   DEFERRED-6. When its connection fails or ends, a deferred request is cancelled, and its buffer
 *	 posted again; if its value is being READ, only once the queue pair is destroyed.
 *
 * Without room for its response (response_room()) a request waits until a response of its
 * connection completes, unless it has reserved a place; a request that holds what others wait for
 * has. A step that waits for something else returns PIECE_WAIT. Either costs nothing until
 * deferred_wake(), which may come for another reason. All functions are the worker's.
 */
#ifndef KVD_SERVER_WORKER_DEFERRED_H
#define KVD_SERVER_WORKER_DEFERRED_H

#include "server/worker/conn.h"
#include "server/worker/execution.h"
#include "server/worker/response.h"

struct deferred;

/* A kind of deferred request: how it is executed. */
struct deferred_kind {
	/*
	 * Executes a piece, inside an RCU read lock, when there is room for its response; with a
	 * reserved place it gives that back first and takes it again if it is not done. It should
	 * end soon after @until_ns of clock_ns(), and must make progress however late it is called.
	 */
	enum piece_next (*step)(struct deferred *deferred, struct response_list *responses,
				uint64_t until_ns);
	/* Instead of a step: there is no room, so it waits for its own client. NULL: nothing. */
	void (*no_room)(struct deferred *deferred);
	/*
	 * Releases what the state holds when the request is cancelled. False: it can't before the
	 * queue pair is destroyed, and is called again then. NULL: it holds nothing.
	 */
	bool (*cancel)(struct deferred *deferred);
	/* Steps are due without room for a response: it reserves a place before it needs one. */
	bool needs_no_room;
};

/* What was decided about a message when it arrived. */
struct verdict {
	uint8_t status;	   /* enum wire_status; other than WIRE_OK: it is refused with that */
	uint32_t repeated; /* its first numbered operations, sent before */
};

/* How far the operations of a message have been executed: server/worker/operation.h. */
struct operations {
	struct verdict verdict;
	uint32_t buffer; /* of the response, kept from turn to turn, or BUFFER_NONE */
	/* For a BATCH. */
	uint32_t at;	   /* where its next operation begins, bytes */
	uint32_t left;	   /* operations from there on */
	uint32_t used;	   /* bytes of results before it */
	uint32_t numbered; /* numbered operations before it */
	bool paid;	   /* the message's header is charged to the client's limits */
	bool admitted;	   /* the next operation may be executed, in as many pieces as it takes */
	struct execution execution; /* of the next operation */
};

/* A PUT whose value is pulled: server/worker/pull.h. */
struct pull {
	bool asked;		  /* for memory, as the first request of its connection */
	bool now;		  /* its steps READ the value by themselves: PULL-5 */
	bool awaits;		  /* PULL-6: awaits the client's answer to a probe */
	bool looks;		  /* PULL-6: the answer came: see what the client has filled */
	uint32_t waits;		  /* PULL-6: how often it did */
	uint64_t late_ns;	  /* PULL-6: when the next part is late; 0: it is not */
	uint64_t probes;	  /* PULL-6: probes answered before */
	struct room room;	  /* of one that asked, before its value is READ */
	uint64_t addr;		  /* of the next READ, in the client's memory */
	uint8_t *to;		  /* where the next READ puts its bytes */
	uint32_t left;		  /* bytes for which no READ was posted yet */
	uint32_t arrived;	  /* bytes whose READs completed */
	uint64_t summed;	  /* of `arrived` */
	struct large steps;	  /* sums what has arrived, and commits it; the item is in them */
	struct budget_hold build; /* memory for the result of an append */
};

/* The request in a receive buffer, while it is deferred. */
struct deferred {
	TAILQ_ENTRY(deferred) entry; /* in conn->deferred */
	const struct deferred_kind *kind;
	struct conn *conn;
	uint32_t buffer;	/* that it keeps */
	struct request request; /* its pointers point into the buffer */
	uint64_t hash;		/* of the key, if there is one */
	uint64_t arrived_ns;	/* by the server's clock */
	bool reserved;		/* there is a place for its response: response_reserve() */
	bool pulls;		/* its value is being READ, or has been */
	/* The state between two pieces; all zero before the first. The kind decides which. */
	union {
		struct {
			uint64_t busy_since_ns; /* when a chain was first found changing, or 0 */
		} scan;
		struct {
			bool asked;
		} query; /* HELLO, STATS, CLIENTS, KILL, REVOKE */
		struct operations operations;
		struct pull pull;
	};
};

/* Allocates one for each receive buffer of the poller. 0 or -ENOMEM. */
int deferred_init(struct poller *poller);
void deferred_release(struct poller *poller);

/*
 * Defers the request in receive buffer @buffer, after those of its connection that are deferred
 * already. The caller does not post the buffer again. It can't fail.
 */
void deferred_start(struct conn *conn, const struct deferred_kind *kind,
		    const struct request *request, uint64_t hash, uint32_t buffer);

/*
 * Ends the wait of the connection's first deferred request: its step is called again. Nothing
 * happens if there is none, or if it does not wait.
 */
void deferred_wake(struct conn *conn);
/* What wakes a client that is a connection. */
void deferred_wake_client(struct client *client);

/* Runs one piece and sends its response. False: there was nothing to run. */
bool deferred_run(struct worker *worker);

/*
 * Cancels all deferred requests of a connection, but for those that wait until the queue pair is
 * destroyed: conn->qp_destroyed says that it is.
 */
void deferred_cancel(struct conn *conn);

/* Whether a request of the connection has to be deferred, because one before it is (DEFERRED-3). */
static inline bool deferred_pending(const struct conn *conn)
{
	return !TAILQ_EMPTY(&conn->deferred);
}

#endif /* KVD_SERVER_WORKER_DEFERRED_H */
