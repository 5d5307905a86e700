/* SPDX-License-Identifier: MIT */
/*
 * The handle: all that a connection to a server consists of, with the flights of its operations;
 * how its calls begin, check their arguments and fail, and how the loss of its connection is seen.
 * Internal to libkvd.
 */
#ifndef KVD_CLIENT_LIBKVD_HANDLE_H
#define KVD_CLIENT_LIBKVD_HANDLE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "client/kvd.h"
#include "client/libkvd/access.h"
#include "client/libkvd/bcache.h"
#include "client/libkvd/clock.h"
#include "client/libkvd/connection.h"
#include "client/libkvd/list.h"
#include "client/libkvd/memory.h"
#include "client/libkvd/shared.h"
#include "common/layout.h"
#include "common/rdma/device.h"
#include "common/util/hist.h"
#include "common/util/spin.h"
#include "common/wire.h"

/* Room for the longest message with the longest URL in it. */
#define ERROR_BYTES 512
/* As much of such a text as another one has room for. */
#define WHY_BYTES 300
/* Transfers at the same time, of one handle; more wait. */
#define TRANSFERS_MAX 16u
#define LATENCIES (KVD_OP_SCAN + 1)
/* One GET in so many is timed, beginning with the first. */
#define TIMED_EVERY 16
/* Bits of the hash by which a GET finds that a change of its key may be outstanding, */
#define CHANGE_FILTER_BITS 8
/* and a change that a GET and touch of its key may. */
#define TOUCH_FILTER_BITS 4
/* The end of messages about what only a second user of the handle can cause. */
#define HANDLE_SHARED_HINT                                                                         \
	"a handle belongs to one process, and one after fork(2) may be using this one"
/* Parts of what each GET or PUT does: they are compiled anew where they are used. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

static_assert(ACCESS_BATCH_MAX >= GETS_MAX, "a batch's samples have room");

/* What a lookup has to do next; client/libkvd/lookup.h. */
enum step {
	STEP_BUCKET, /* READ the bucket at bucket_offset */
	STEP_ITEM,   /* READ the item of slots[slot] */
	STEP_MOVED,  /* the bucket was split: find the key's new one, by lookup_moved() */
	STEP_CLOCK,  /* narrow the server's clock, then READ the item again */
	STEP_RPC,    /* send a request: the server does the GET */
	STEP_DONE,
};

/* What every GET uses comes first, and next to it what lookup_start() zeroes. */
struct lookup {
	struct kvd_get_request *request;
	uint64_t hash;
	uint64_t number;       /* of the home bucket, as far as the client knows */
	uint64_t home;	       /* its offset */
	const uint8_t *buffer; /* to which the current READ goes */
	enum step step;
	uint32_t bytes;	   /* of the current READ */
	uint64_t since_ns; /* clock_raw_ns(); the item was READ after it; 0: unknown */
	unsigned int slot, slot_count;
	unsigned int tries, hops, moves;
	uint8_t level_min; /* the least level that the home bucket may have */
	bool cached;	   /* slots are from the bucket cache */
	uint8_t others;	   /* items that had the key's tag, but another key */
	bool backoff;	   /* to retry: pause first */
	bool clock_refreshed;
	bool exists;	/* no value is wanted */
	bool pieces;	/* the value goes to the operation's pieces (client/libkvd/pieces.h) */
	bool whole_key; /* the same, and the item has a longer key: READ all of that */
	uint8_t level;	/* of the home bucket; STEP_MOVED: the least level of the key's new one */
	uint16_t epoch; /* of the home bucket */
	uint64_t slots[BUCKET_SLOTS]; /* slots of one bucket that have the key's tag */
	uint64_t bucket_offset;
	uint64_t chain_ns; /* clock_raw_ns(); the home bucket's READ was posted then or later */
	uint32_t overflow; /* of the bucket that was READ last */
};

/* What becomes of a request that was sent and not answered when the connection is lost. */
enum loss {
	LOSS_UNKNOWN, /* it ends with KVD_ERR_UNKNOWN: it may have changed something */
	LOSS_REPEATS, /* it is sent again: it changes nothing */
	LOSS_FAILS,   /* it ends with KVD_ERR_DISCONNECTED: it is about this connection */
	LOSS_SERVER,  /* the same if it was sent, else it goes to the same server only */
};

struct rpc {
	enum loss on_loss;
	bool alone;	 /* GET: its value does not fit the response to a batch */
	uint64_t change; /* its number: client/libkvd/changes.h; 0: none yet */
	/*
	 * FLIGHT_GET: only the item of this version counts, of which a part has come, or which was
	 * touched; 0: any does.
	 */
	uint64_t version;
	struct wire_request head; /* request_post() sets id, key_len and access_count */
	const void *key;
	size_t key_len;
	const void *value;	     /* head.value_len bytes */
	const struct kvd_op *pieces; /* not NULL: its pieces have them instead */
};

enum flight_kind {
	FLIGHT_LOOKUP, /* a GET by READs; by a request where they lead to no result */
	FLIGHT_GET,    /* a GET by request, or a GET and touch */
	FLIGHT_CHANGE, /* a request with a result of fixed size; PING too */
	FLIGHT_RAW,    /* a request whose response the caller reads himself: rpc_call() */
	FLIGHT_OWN,    /* the handle's */
};

struct flight;
struct transfer;

/* What the parts of a flight's way call when it goes on; those that can't happen to it are NULL. */
struct flight_ops {
	/* No change that it has to see is outstanding any more. */
	void (*begin)(struct kvd *handle, struct flight *flight);
	/* What it waited for has come: room for a READ, a buffer, the geometry. */
	void (*ready)(struct kvd *handle, struct flight *flight);
	/* Its READs have completed. */
	void (*read_done)(struct kvd *handle, struct flight *flight);
	/* The response to its request, valid during the call. */
	void (*response)(struct kvd *handle, struct flight *flight,
			 const struct response *response);
	/* Writes the status of one that ends early to where its owner finds it. */
	void (*fail)(struct flight *flight, enum kvd_status status);
};

enum flight_place {
	PLACE_NONE, /* not started, or being moved on */
	PLACE_ENDED,
	PLACE_QUEUED,  /* in a list of the handle */
	PLACE_READING, /* READs are posted or in the chain; the last one's entry leads here */
	PLACE_SENT,    /* its request is outstanding */
};

/* What the READ under way is for. */
enum flight_phase {
	PHASE_PLAIN, /* a bucket or an item that fits the ring */
	PHASE_LARGE, /* an item, in pieces: client/libkvd/transfer.h */
};

/*
 * A flight: what an operation needs from its start to its end, a lookup or a request. That of a
 * synchronous call is on the stack of the call; those of submitted operations are the handle's
 * slots. Each is moved on by its ops. client/libkvd/flight.h says how it ends.
 */
struct flight {
	struct list link; /* of the list it is in, if PLACE_QUEUED; of the free slots */
	const struct flight_ops *ops;
	struct kvd_op *op;  /* NULL: of a synchronous GET, a RAW, or the handle's own */
	unsigned int *left; /* not NULL: a synchronous call's count of what has not ended */
	/* It has ended; NULL: a synchronous call's, or the handle's own. */
	void (*ended)(struct kvd *handle, struct flight *flight);
	/* Side by side: they are initialized by one store. */
	uint8_t kind;  /* enum flight_kind */
	uint8_t place; /* enum flight_place */
	uint8_t phase; /* enum flight_phase */
	bool counted;  /* in the handle's filter of changes */
	bool sent;     /* the server may have executed its request */
	bool touching; /* GET and touch: it was sent, and later changes of the key wait for it */
	bool direct;   /* it uses `mem`, which has all of its value, until it ends */
	bool has_transfer;
	uint32_t reads;	      /* READs, posted or in the chain, */
	uint32_t messages;    /* and requests: for client/libkvd/observe.h */
	struct lookup lookup; /* of changes the hash is used */

	/* clock_ns(); of a synchronous call's that is not observed clock_raw_ns(); 0: not timed */
	uint64_t start_ns;
	uint64_t answered_ns; /* of a change: clock_raw_ns() of the response; 0: there is none */
	uint64_t posted_ns; /* clock_ns() of the first READ or request; 0: not observed, or none */
	uint64_t retry_ns;  /* in the list of those that pause: until then */
	uint64_t large_bytes;	   /* of the item that is READ, at most; 0: its header says it */
	uint64_t large_offset;	   /* in the region */
	struct kvd_mem *mem;	   /* if `direct` */
	struct transfer *transfer; /* if `has_transfer` */
	uint32_t message;	   /* PLACE_SENT: its index */
	enum kvd_status status;	   /* RAW, and of a change: how it ended */
	struct rpc rpc;
	struct response response; /* RAW: the response, in the buffer that rpc_call() keeps */
};

/* What the engine asks of those that were submitted: client/libkvd/async.c. */
struct submitted_ops {
	/* Begins those that wait, as far as slots are free. */
	void (*start)(struct kvd *handle);
	/* Ends those whose deadline has passed. @now_ns: clock_ns(). */
	void (*expire)(struct kvd *handle, uint64_t now_ns);
	/* Calls @visit for those that have begun. */
	void (*each)(struct kvd *handle, void (*visit)(struct kvd *handle, struct flight *f));
	/* Ends those that have not, with @status. */
	void (*close)(struct kvd *handle, enum kvd_status status);
};

/* Numbers from the first one without an answer on; a power of two. */
#define CHANGES_MAX 128u

/* The changes that were sent: client/libkvd/changes.h. */
struct changes {
	uint8_t identity[WIRE_IDENTITY_BYTES];
	uint64_t first;	 /* the first without an answer, or next */
	uint64_t next;	 /* the first that was never sent */
	uint64_t resend; /* the next to be sent again; `next`: none */
	uint32_t limit;	 /* of numbers without an answer; 0: changes are not numbered */
	uint64_t answered[CHANGES_MAX / 64]; /* a bit for each number; only of those sent */
};

enum reconnect_state { RECONNECT_PAUSE, RECONNECT_CONNECTING, RECONNECT_HELLO };

/* On the way to the next connection: client/libkvd/reconnect.h. */
struct reconnect {
	enum reconnect_state state;
	bool opening;		/* in kvd_open() */
	bool device_died;	/* the last try says so: the next one begins with another */
	unsigned int tries;	/* that failed since the connection was lost */
	unsigned int failures;	/* of which the length of the next pause depends */
	enum kvd_status status; /* of the loss, or of the last try */
	uint64_t random;
	uint64_t incarnation; /* of the server that was lost */
	uint64_t since_ns;    /* clock_ns() when the connection was lost */
	uint64_t next_ns;     /* the end of the pause, or the deadline of the try */
	char why[WHY_BYTES];  /* the text of `status` */
};

struct observer;

/*
 * What most calls use is together at the begin: a thread that uses a thousand handles in turn finds
 * none of it in its caches.
 */
struct kvd {
	struct kvd_options options;
	struct tls_files credentials;	     /* for rdma+tls:// */
	char tenant[WIRE_TENANT_MAX + 1];    /* "": the server decides */
	struct shared_device *shared_device; /* whose dev and pd these are */
	struct device *dev;
	struct ibv_pd *pd;
	_Atomic uintptr_t user; /* the thread whose call is under way; 0: none */
	bool in_callback;	/* of kvd_poll(): that thread may submit and cancel */
	bool up;		/* there is a connection, and the server has welcomed it */
	bool closed;		/* there will be no other one */
	bool attention;		/* engine_attend() has something to do */
	uint32_t changes;	/* that have begun and not ended */
	uint64_t deadline_ns;  /* of the current call; 0: not set yet, see client/libkvd/engine.c */
	uint64_t served_bytes; /* that the server READs for requests outstanding */
	struct flight *calls;  /* the flights of a synchronous call, */
	unsigned int call_count; /* so many */
	struct observer
		*observing; /* client/libkvd/observe.h; NULL: neither times nor traces are on */
	struct spin spin;

	struct connection conn;
	struct reconnect reconnect;
	struct changes sent;
	struct list resends;  /* flights with a number that wait to be sent again */
	uint32_t message_max; /* bytes of one READ: the device's */

	struct geometry geometry; /* as last READ */
	struct sum_key sum_key;	  /* of the connection's store: secret */
	uint64_t geometry_ns;	  /* local time of that READ; 0: it is the welcome's */
	unsigned int geometry_tries;
	struct shared_server *server; /* NULL before the welcome */
	struct bcache cache;	      /* a view of the server's */
	struct server_clock clock;

	/* Flights that wait: for room to READ, to send, for their pause to end, for others. */
	struct list ready, requests, paused, blocked, clock_waiters, geometry_waiters;
	struct list large_waiters;
	struct flight clock_flight; /* until the welcome it is HELLO's */
	struct flight geometry_flight;
	struct list transfers; /* that are free: client/libkvd/transfer.h */
	struct transfer *transfer_memory[TRANSFERS_MAX];
	uint32_t transfer_count; /* that were made */
	uint32_t directs;	 /* flights that use memory of the caller's */
	uint32_t bounces;	 /* values in bounce memory: client/libkvd/bounce.h */
	uint32_t bounce_calls;	 /* since one was, so many; then it is no user of it any more */
	bool bounce_user;
	uint16_t change_filter[1 << CHANGE_FILTER_BITS];
	uint16_t touch_filter[1 << TOUCH_FILTER_BITS]; /* of flights that are `touching`, */
	uint32_t touches;			       /* so many */

	/* Submitted operations. */
	const struct submitted_ops *submitted; /* NULL until the first */
	struct list waiting;		       /* that have no slot yet, in order */
	struct list done, called_back; /* to be handed back: by kvd_poll()'s array, or by a call */
	struct list slots;	       /* that are free */
	struct flight *slot_memory;    /* options.depth; NULL until the first is needed */
	size_t outstanding;	       /* submitted, and not handed back */
	size_t ended;		       /* of these, in `done` or `called_back` */
	uint64_t next_deadline_ns;     /* no operation's deadline is earlier; 0: none is set */
	uint64_t tick_ns;	       /* clock_ns() of the engine's last tick */
	uint64_t events_ns;	/* the connection's events are looked at by a tick from then on */
	unsigned int tick_left; /* completions before the next tick */
	int epoll_fd, timer_fd; /* kvd_fd(); -1: not made */
	bool armed;

	/* To detect a use in another process, in handle_fail(). */
	pid_t process;		      /* that opened it */
	uint32_t owner;		      /* what was then in *owner_page; another in a child */
	_Atomic uint32_t *owner_page; /* see handle_is_inherited() */

	struct kvd_stats stats;
	uint64_t timed_gets;
	struct observer *observer; /* NULL: `observing` has never been on */
	struct access access;
	struct hist_sparse *latency[LATENCIES]; /* NULL: none recorded yet */
	char error[ERROR_BYTES];
};

/* The window at @now_ns of clock_raw_ns(): client/libkvd/rpc.h. */
static inline uint32_t connection_window(const struct connection *conn, uint64_t now_ns)
{
	bool lapsed = now_ns - conn->posted_ns > WIRE_WINDOW_LAPSE_MS * 1000000ull;

	return lapsed ? WIRE_WINDOW_LAPSED : conn->window;
}

/* Sets up what needs no connection. @options may be NULL: the defaults. @handle is zeroed. */
void handle_init(struct kvd *handle, const struct kvd_options *options);

/*
 * Sets the text for kvd_error() and returns @status. @handle may be NULL: the thread's text, for
 * calls without a handle.
 */
enum kvd_status handle_error_set(struct kvd *handle, enum kvd_status status, const char *format,
				 ...) __attribute__((format(printf, 3, 4)));

/*
 * The same, and closes the connection if @status is KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE or
 * KVD_ERR_PROTOCOL: client/libkvd/reconnect.h says what becomes of the operations in flight. If
 * this is not the process that opened the handle, the text says that instead: it is the cause of
 * any other failure.
 */
enum kvd_status handle_fail(struct kvd *handle, enum kvd_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Closes the connection; @how says by which sign its loss was seen. */
void connection_lost(struct kvd *handle, const char *how);
/* Looks whether the connection was closed: without a SEND or READ posted that is an event only. */
void events_poll(struct kvd *handle);

/* Keeps the text, as why there is no connection: calls that fail meanwhile have texts, too. */
void handle_why_keep(struct kvd *handle);

/* KVD_ERR_DISCONNECTED for a handle that is closed, and why it is. */
enum kvd_status handle_closed(struct kvd *handle);

/*
 * Whether this process got the handle by fork(2). Its buffers are not there then, and the
 * connection is the parent's.
 */
static inline bool handle_is_inherited(const struct kvd *handle)
{
	return handle->owner_page &&
	       atomic_load_explicit(handle->owner_page, memory_order_relaxed) != handle->owner;
}

/*
 * Begins a call of the API, of this thread alone. KVD_ERR_INVALID if @handle is NULL, another
 * thread's call is under way, or it is called from a callback of kvd_poll(); KVD_ERR_DISCONNECTED
 * if the handle is closed or the parent's (fork); else KVD_OK, and call_end() has to follow.
 */
enum kvd_status call_begin(struct kvd *handle);

/*
 * The same for calls that work on a lost connection, too. If @nested is not NULL, a callback may
 * make them: then *@nested is set.
 */
enum kvd_status call_enter(struct kvd *handle, bool *nested);

/* Ends it. Returns @status. */
static inline enum kvd_status call_end(struct kvd *handle, enum kvd_status status)
{
	atomic_store_explicit(&handle->user, 0, memory_order_release);
	return status;
}

/* Adds a latency to those of @op. */
void handle_latency(struct kvd *handle, enum kvd_opcode op, uint64_t ns);

/* Say what is wrong with a key, or a buffer for a value; KVD_ERR_INVALID. */
enum kvd_status key_refuse(struct kvd *handle, const void *key, size_t key_len);
enum kvd_status buffer_refuse(struct kvd *handle, size_t value_size);

/* KVD_ERR_INVALID if it is NULL, empty or longer than KVD_KEY_MAX. */
static inline enum kvd_status key_check(struct kvd *handle, const void *key, size_t key_len)
{
	return key && key_len - 1 < KVD_KEY_MAX ? KVD_OK : key_refuse(handle, key, key_len);
}

/* KVD_ERR_INVALID if a buffer for a value is NULL, but has a size. */
static inline enum kvd_status buffer_check(struct kvd *handle, const void *value, size_t value_size)
{
	return value || !value_size ? KVD_OK : buffer_refuse(handle, value_size);
}

/* KVD_ERR_INVALID if it is longer than KVD_TTL_MAX. */
enum kvd_status ttl_check(struct kvd *handle, uint32_t ttl_s);

/*
 * Makes room for @bytes in @buf; to twice what there was, so that growing is rare.
 * KVD_ERR_NO_MEMORY if it fails: the handle stays usable, and a later call tries again.
 */
enum kvd_status handle_buf_resize(struct kvd *handle, struct reg_buf *buf, size_t bytes,
				  int access);
/* Counts a call: after some that used no bounce memory the handle leaves the pool. */
void handle_bounce_age(struct kvd *handle);

/*
 * Why there is no bounce memory for a value of @bytes: KVD_ERR_TOO_LARGE, if the device never has
 * any for such a value; else KVD_ERR_NO_MEMORY.
 */
enum kvd_status handle_bounce_failed(struct kvd *handle, size_t bytes, int err);

#endif /* KVD_CLIENT_LIBKVD_HANDLE_H */
