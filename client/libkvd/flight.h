/* SPDX-License-Identifier: MIT */
/*
 * A flight: what an operation needs from its start to its end, a lookup or a request. That of a
 * synchronous call is on the stack of the call; those of submitted operations are the handle's
 * slots. Each is moved on by its ops.
 */
#ifndef KVD_CLIENT_LIBKVD_FLIGHT_H
#define KVD_CLIENT_LIBKVD_FLIGHT_H

#include "client/kvd.h"
#include "client/libkvd/list.h"
#include "common/layout.h"
#include "common/wire.h"

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

struct kvd;
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

/* The flight that a lookup is part of. */
static inline const struct flight *flight_of(const struct lookup *lookup)
{
	return (const struct flight *)(const void *)((const char *)lookup -
						     offsetof(struct flight, lookup));
}

/* What FLIGHT_LOOKUP of a synchronous call needs and lookup_start() does not set. */
static inline void flight_init_lookup(struct flight *f, unsigned int *left,
				      struct kvd_get_request *request)
{
	f->left = left;
	f->kind = FLIGHT_LOOKUP;
	f->place = PLACE_NONE;
	f->phase = PHASE_PLAIN;
	f->counted = false;
	f->sent = false;
	f->touching = false;
	f->direct = false;
	f->has_transfer = false;
	f->reads = 0;
	f->lookup.request = request;
	f->lookup.exists = false;
	f->lookup.pieces = false;
}

#endif /* KVD_CLIENT_LIBKVD_FLIGHT_H */
