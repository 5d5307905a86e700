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
#include "client/libkvd/member.h"
#include "client/libkvd/memory.h"
#include "client/libkvd/shared.h"
#include "common/layout.h"
#include "common/rdma/device.h"
#include "common/util/hist.h"
#include "common/util/spin.h"
#include "common/wire.h"

/* Room for the longest message with the longest URL in it. */
#define ERROR_BYTES 512
/* The part of such a text that another text can quote. */
#define WHY_BYTES 300
/* Transfers of one handle at the same time; more wait. */
#define TRANSFERS_MAX 16u
#define LATENCIES (KVD_OP_SCAN + 1)
/* One GET in this many is timed, starting with the first. */
#define TIMED_EVERY 16
/* Bits of the hash by which a GET finds that a change of its key may be outstanding. */
#define CHANGE_FILTER_BITS 8
/* Bits of the hash by which a change finds that a GET and touch of its key may be under way. */
#define TOUCH_FILTER_BITS 4
/* The end of messages about what only a second user of the handle can cause. */
#define HANDLE_SHARED_HINT                                                                         \
	"a handle belongs to one process, and one after fork(2) may be using this one"
/* For parts of every GET or PUT: compiled anew at each use. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

static_assert(ACCESS_BATCH_MAX >= GETS_MAX, "a batch's samples have room");

/* What a lookup has to do next; client/libkvd/lookup.h. */
enum step {
	STEP_BUCKET, /* READ the bucket at bucket_offset */
	STEP_ITEM,   /* READ the item of slots[slot] */
	STEP_MOVED,  /* the bucket was split: find the key's new one, by lookup_moved() */
	STEP_CLOCK,  /* narrow the server's clock, then READ the item again */
	STEP_WORD,   /* the member's word has ended: READ it, then start again */
	STEP_RPC,    /* send a request: the server does the GET */
	STEP_DONE,
};

/* What a lookup wants of the value. */
enum lookup_part {
	PART_WHOLE,
	PART_NONE,  /* only whether the key exists */
	PART_RANGE, /* from range_at on, as far as the buffer reaches: client/libkvd/range.c */
};

/* What every GET uses comes first, and next to it what lookup_start() zeroes. */
struct lookup {
	struct kvd_get_request *request;
	uint64_t hash;
	uint64_t number;       /* of the home bucket, as far as the client knows */
	uint64_t home;	       /* offset of the home bucket */
	const uint8_t *buffer; /* where the current READ goes */
	enum step step;
	uint32_t bytes;	    /* of the current READ */
	uint32_t judgement; /* the member's, when the lookup started (MEMBER-1) */
	uint64_t since_ns;  /* clock_raw_ns(); the item was READ after it; 0: unknown */
	unsigned int slot, slot_count;
	unsigned int tries, hops, moves;
	uint8_t level_min; /* the least level that the home bucket may have */
	bool cached;	   /* slots are from the bucket cache */
	uint8_t others;	   /* items that had the key's tag, but another key */
	bool backoff;	   /* to retry: pause first */
	bool clock_refreshed;
	uint8_t part;	/* enum lookup_part */
	bool pieces;	/* the value goes to the operation's pieces (client/libkvd/pieces.h) */
	bool whole_key; /* no value is wanted, the item's key is longer: READ all of it */
	uint8_t level;	/* of the home bucket; STEP_MOVED: the least level of the key's new one */
	uint16_t epoch; /* of the home bucket */
	uint64_t slots[BUCKET_SLOTS]; /* slots of one bucket that have the key's tag */
	uint64_t bucket_offset;
	uint64_t chain_ns; /* clock_raw_ns(); the home bucket's READ was posted then or later */
	uint32_t overflow; /* of the bucket that was READ last */
	uint64_t range_at; /* PART_RANGE: the first byte of the value that is wanted */
};

/* What becomes of a request that was sent and not answered when the connection is lost. */
enum loss {
	LOSS_UNKNOWN, /* it ends with KVD_ERR_UNKNOWN: it may have changed something */
	LOSS_REPEATS, /* it is sent again: it changes nothing */
	LOSS_FAILS,   /* it ends with KVD_ERR_DISCONNECTED: it is about this connection */
	LOSS_SERVER,  /* LOSS_FAILS if it was sent, else it goes to the same server only */
};

struct rpc {
	enum loss on_loss;
	bool alone;	 /* GET: its value does not fit the response to a batch */
	uint64_t change; /* its number: client/libkvd/changes.h; 0: none yet */
	/*
	 * FLIGHT_GET: only the item of this version counts, since a part of it has come or it was
	 * touched; 0: any version counts.
	 */
	uint64_t version;
	struct wire_request head; /* request_post() sets id, key_len and access_count */
	const void *key;
	size_t key_len;
	const void *value;	     /* head.value_len bytes */
	const struct kvd_op *pieces; /* not NULL: the value is in its pieces */
};

enum flight_kind {
	FLIGHT_LOOKUP, /* a GET by READs; by a request where they lead to no result */
	FLIGHT_GET,    /* a GET by request, or a GET and touch */
	FLIGHT_CHANGE, /* a request with a result of fixed size; PING too */
	FLIGHT_RAW,    /* a request whose response the caller reads: rpc_call() */
	FLIGHT_OWN,    /* the handle's */
};

struct flight;
struct transfer;

/* What is called when a flight goes on; NULL where that can't happen to it. */
struct flight_ops {
	/* No change that it must see is outstanding any more. */
	void (*begin)(struct kvd *handle, struct flight *flight);
	/* What the flight waited for has come: room for a READ, a buffer, the geometry. */
	void (*ready)(struct kvd *handle, struct flight *flight);
	/* The flight's READs have completed. */
	void (*read_done)(struct kvd *handle, struct flight *flight);
	/* The response to the flight's request, valid during the call. */
	void (*response)(struct kvd *handle, struct flight *flight,
			 const struct response *response);
	/* The flight ends early: stores its status where its owner finds it. */
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
	struct kvd *at;	  /* of a fleet's handle: the member's handle; NULL: with none */
	const struct flight_ops *ops;
	struct kvd_op *op;  /* NULL: a synchronous GET's, FLIGHT_RAW or FLIGHT_OWN */
	unsigned int *left; /* not NULL: a synchronous call's count of what has not ended */
	/* Called when it has ended; NULL: a synchronous call's, or FLIGHT_OWN. */
	void (*ended)(struct kvd *handle, struct flight *flight);
	/* Adjacent, so that one store initializes them. */
	uint8_t kind;  /* enum flight_kind */
	uint8_t place; /* enum flight_place */
	uint8_t phase; /* enum flight_phase */
	bool counted;  /* in the handle's filter of changes */
	bool sent;     /* the server may have executed its request */
	bool touching; /* GET and touch: it was sent, and later changes of the key wait for it */
	bool direct;   /* it uses `mem`, which has all of its value, until it ends */
	bool has_transfer;
	/* For client/libkvd/observe.h: READs, posted or in the chain, and requests. */
	uint32_t reads, messages;
	struct lookup lookup; /* a change uses its request and hash */

	/* clock_ns(), or clock_raw_ns() in a synchronous call that is not observed; 0: not timed */
	uint64_t start_ns;
	uint64_t answered_ns; /* clock_raw_ns() of a change's response; 0: none yet */
	uint64_t posted_ns; /* clock_ns() of the first READ or request; 0: not observed, or none */
	uint64_t retry_ns;  /* clock_ns() at the end of its pause */
	uint64_t large_bytes;	   /* of the large item, at most; 0: its header says how many */
	uint64_t large_offset;	   /* in the region */
	struct kvd_mem *mem;	   /* if `direct` */
	struct transfer *transfer; /* if `has_transfer` */
	uint32_t message;	   /* PLACE_SENT: its index */
	enum kvd_status status;	   /* FLIGHT_RAW, and HELLO: how it ended */
	struct rpc rpc;
	struct response response; /* FLIGHT_RAW: in the buffer that rpc_call() keeps */
};

/* What the engine asks of submitted operations: client/libkvd/async.c. */
struct submitted_ops {
	/* Begins those that wait while slots are free. */
	void (*start)(struct kvd *handle);
	/* Ends those whose deadline has passed. @now_ns: clock_ns(). */
	void (*expire)(struct kvd *handle, uint64_t now_ns);
	/* Calls @visit for those that have begun; of a member's handle, those that are there. */
	void (*each)(struct kvd *handle, void (*visit)(struct kvd *handle, struct flight *f));
	/* Ends those that have not begun, with @status. */
	void (*close)(struct kvd *handle, enum kvd_status status);
};

/* Bound of the numbers from the first unanswered one on; a power of two. */
#define CHANGES_MAX 128u

/* The changes that were sent: client/libkvd/changes.h. */
struct changes {
	uint8_t identity[WIRE_IDENTITY_BYTES];
	uint64_t first;	  /* the first without an answer; `next`: none */
	uint64_t next;	  /* the first that was never sent */
	uint64_t resend;  /* the next to be sent again; `next`: none */
	uint64_t resumed; /* the last one with WIRE_F_RESUME; 0: none */
	bool moved;	  /* one was answered MOVED since */
	uint32_t limit;	  /* of numbers without an answer; 0: changes are not numbered */
	uint64_t answered[CHANGES_MAX / 64]; /* a bit for each number; only of those sent */
};

enum reconnect_state { RECONNECT_PAUSE, RECONNECT_CONNECTING, RECONNECT_HELLO };

/* On the way to the next connection: client/libkvd/reconnect.h. */
struct reconnect {
	enum reconnect_state state;
	bool opening;		/* in kvd_open() */
	bool device_died;	/* or serves the route no more: the next try opens another */
	bool away;		/* what needs a connection ends at once: reconnect.h */
	unsigned int tries;	/* failed ones since the connection was lost */
	unsigned int failures;	/* they set the next pause: reconnect_pause_ns() */
	enum kvd_status status; /* of the loss, or of the last try */
	uint64_t random;
	uint64_t incarnation; /* of the server that was lost */
	uint64_t since_ns;    /* clock_ns() when the connection was lost */
	uint64_t next_ns;     /* the end of the pause, or the deadline of the try */
	char why[WHY_BYTES];  /* the text of `status` */
};

struct observer;

/*
 * What most calls use is together at the start: a thread that uses a thousand handles in turn finds
 * none of it in its caches.
 */
struct kvd {
	struct kvd_options options;
	struct tls_files credentials;	     /* for rdma+tls:// */
	char tenant[WIRE_TENANT_MAX + 1];    /* "": the server decides */
	struct shared_device *shared_device; /* dev and pd are its */
	struct device *dev;
	struct ibv_pd *pd;
	_Atomic uintptr_t user; /* the thread whose call is under way; 0: none */
	bool in_callback;	/* kvd_poll() runs one, which may submit and cancel */
	bool up;		/* there is a connection, and the server has welcomed it */
	bool closed;		/* there will be no other connection */
	bool attention;		/* engine_attend() has something to do */
	uint32_t changes;	/* that have begun and not ended */
	uint64_t deadline_ns;  /* of the current call; 0: not set yet, see client/libkvd/engine.c */
	uint64_t served_bytes; /* of values that the server READs for outstanding requests */
	struct flight *calls;  /* the flights of the synchronous call */
	unsigned int call_count; /* their number */
	struct observer
		*observing; /* client/libkvd/observe.h; NULL: neither times nor traces are on */
	/* Of a fleet's handle, which has no connection of its own; else NULL. */
	const struct fleet_ops *fleet_ops;
	struct fleet *fleet;
	struct member member; /* of the handle of one member */
	struct spin spin;

	struct connection conn;
	struct reconnect reconnect;
	struct changes sent;
	struct list resends;  /* flights with a number that wait to be sent again */
	uint32_t message_max; /* bytes of one READ: the device's limit */

	struct geometry geometry; /* as last READ */
	struct sum_key sum_key;	  /* of the connection's store: secret */
	uint64_t geometry_ns;	  /* local time of that READ; 0: it is the welcome's */
	unsigned int geometry_tries;
	uint64_t extents_ns;	      /* local time of the last EXTENTS; 0: none */
	struct shared_server *server; /* NULL before the welcome */
	struct bcache cache;	      /* a view of the server's */
	struct server_clock clock;

	/*
	 * Flights that wait: for room to READ, to be sent, for the end of a pause, for a change of
	 * their key, for the server's clock, the geometry, the member's word, a transfer.
	 */
	struct list ready, requests, paused, blocked, clock_waiters, geometry_waiters;
	struct list word_waiters, large_waiters;
	struct flight clock_flight; /* until the welcome it is HELLO's */
	struct flight geometry_flight, extents_flight;
	struct flight word_flight; /* client/libkvd/word.h */
	struct list transfers;	   /* that are free: client/libkvd/transfer.h */
	struct transfer *transfer_memory[TRANSFERS_MAX];
	uint32_t transfer_count; /* that were made */
	uint32_t directs;	 /* flights that use registered memory of the caller */
	uint32_t bounces;	 /* values in bounce memory: client/libkvd/bounce.h */
	uint32_t bounce_calls;	 /* calls since; at BOUNCE_CALLS it leaves the pool */
	bool bounce_user;
	uint16_t change_filter[1 << CHANGE_FILTER_BITS];
	uint16_t touch_filter[1 << TOUCH_FILTER_BITS]; /* of flights that are `touching` */
	uint32_t touches;			       /* their number */

	/* Submitted operations. */
	const struct submitted_ops *submitted; /* NULL until the first */
	struct list waiting;		       /* that have no slot yet, in order */
	struct list done, called_back; /* to hand back: in kvd_poll()'s array, or by a callback */
	struct list slots;	       /* that are free */
	struct flight *slot_memory;    /* options.depth; NULL until the first is needed */
	size_t outstanding;	       /* submitted, and not handed back */
	size_t ended;		       /* of `outstanding`, in `done` or `called_back` */
	enum kvd_status copied;	       /* of the first copy that failed: client/libkvd/copy.h */
	uint64_t next_deadline_ns;     /* no operation's deadline is earlier; 0: none is set */
	uint64_t tick_ns;	       /* clock_ns() of the engine's last tick */
	uint64_t events_ns;	       /* a tick from then on looks at the connection's events */
	unsigned int tick_left;	       /* completions before the next tick */
	int epoll_fd, timer_fd;	       /* kvd_fd(); -1: not made */
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

/* The handle that has the slots and the calls: a member's fleet, or the handle itself. */
static inline struct kvd *handle_home(struct kvd *handle)
{
	return handle->member.home ? handle->member.home : handle;
}

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
 * handle_error_set() that also closes the connection if @status is KVD_ERR_DISCONNECTED,
 * KVD_ERR_DEVICE or KVD_ERR_PROTOCOL: client/libkvd/reconnect.h says what becomes of the operations
 * in flight. If this is not the process that opened the handle, the text says that instead: it is
 * the cause of any other failure.
 */
enum kvd_status handle_fail(struct kvd *handle, enum kvd_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Closes the connection, which was lost; @how says how that was noticed. */
void connection_lost(struct kvd *handle, const char *how);
/* Checks whether the connection was closed: while nothing is posted, only an event says so. */
void events_poll(struct kvd *handle);

/* Keeps the text as the reason of the loss: calls that fail meanwhile set other texts. */
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
 * call_begin() for calls that are about one server: KVD_ERR_INVALID for a fleet's handle.
 */
enum kvd_status call_begin_server(struct kvd *handle);

/*
 * call_begin() for calls that also work on a closed handle. If @nested is not NULL, a callback may
 * make the call: then *@nested is set, and call_end() must not follow.
 */
enum kvd_status call_enter(struct kvd *handle, bool *nested);

/* Ends a call. Returns @status. */
static inline enum kvd_status call_end(struct kvd *handle, enum kvd_status status)
{
	atomic_store_explicit(&handle->user, 0, memory_order_release);
	return status;
}

/* Forgets the server's clock if this host was suspended since: after the time that it judges. */
void handle_clock_check(struct kvd *handle);

/* What kvd_info() says of the connection. */
const char *connection_text(const struct kvd *handle);

/* Adds a latency to those of @op. */
void handle_latency(struct kvd *handle, enum kvd_opcode op, uint64_t ns);

/* Say what is wrong with a key, or a buffer for a value; KVD_ERR_INVALID. */
enum kvd_status key_refuse(struct kvd *handle, const void *key, size_t key_len);
enum kvd_status buffer_refuse(struct kvd *handle, size_t value_size);

/* KVD_ERR_INVALID if the key is NULL, empty or longer than KVD_KEY_MAX. */
static inline enum kvd_status key_check(struct kvd *handle, const void *key, size_t key_len)
{
	return key && key_len - 1 < KVD_KEY_MAX ? KVD_OK : key_refuse(handle, key, key_len);
}

/* KVD_ERR_INVALID if a buffer for a value is NULL, but has a size. */
static inline enum kvd_status buffer_check(struct kvd *handle, const void *value, size_t value_size)
{
	return value || !value_size ? KVD_OK : buffer_refuse(handle, value_size);
}

/* KVD_ERR_INVALID if @ttl_s is longer than KVD_TTL_MAX. */
enum kvd_status ttl_check(struct kvd *handle, uint32_t ttl_s);

/*
 * Makes room for @bytes in @buf, at least twice what there was, so that growing is rare. If it
 * fails (KVD_ERR_NO_MEMORY, KVD_ERR_DEVICE), a later call tries again.
 */
enum kvd_status handle_buf_resize(struct kvd *handle, struct reg_buf *buf, size_t bytes,
				  int access);
/* Counts a call: after BOUNCE_CALLS without bounce memory the handle leaves the pool. */
void handle_bounce_age(struct kvd *handle);

/*
 * Says why there is no bounce memory for a value of @bytes: KVD_ERR_TOO_LARGE if the device never
 * has any for such a value; else KVD_ERR_NO_MEMORY or KVD_ERR_DEVICE.
 */
enum kvd_status handle_bounce_failed(struct kvd *handle, size_t bytes, int err);

#endif /* KVD_CLIENT_LIBKVD_HANDLE_H */
