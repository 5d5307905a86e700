/* SPDX-License-Identifier: MIT */
/*
 * The connection of a handle: its queue pair, the READs and requests in flight on it, and the
 * memory that they use. What outlives a connection is in client/libkvd/handle.h. Internal to
 * libkvd.
 *
 * READs. A queue pair completes READs in the order in which they were posted, so those in flight
 * are a FIFO, of which the last of each chain is signaled, and the memory they go to is a ring.
 * Positions in the FIFO count from the first READ on: tail <= posted <= head. Those from posted to
 * head are the chain that is being built.
 *
 * Requests. Each message has a buffer, which is free again when the response has come. Receive
 * buffers are not tied to messages: one is posted for each outstanding request. Buffers of both
 * kinds are made in chunks, when they are first needed.
 */
#ifndef KVD_CLIENT_LIBKVD_CONNECTION_H
#define KVD_CLIENT_LIBKVD_CONNECTION_H

#include "client/kvd.h"
#include "client/libkvd/bounce.h"
#include "client/libkvd/memory.h"
#include "common/rdma/device.h"
#include "common/wire.h"

#define GETS_MAX 32	       /* READs in one chain */
#define READS_IN_FLIGHT_MAX 64 /* READs in flight */
#define MESSAGES_MAX 32	       /* requests outstanding; also receive buffers */
#define MESSAGES_CHUNK 4
#define SENDS_MAX (READS_IN_FLIGHT_MAX + MESSAGES_MAX) /* work requests in the send queue */
#define RESPONSE_BYTES 4096u
/* One SEND in this many is signaled, so that the send queue's entries are freed. */
#define SIGNAL_EVERY 16
/*
 * Size of the ring: at first, and after a batch or an item needed more. client/libkvd/transfer.h
 * has longer items.
 */
#define RING_BYTES_MIN (16u << 10)
#define RING_BYTES_MAX (64u << 10)

struct batch;
struct flight;

/* A READ in flight. */
struct read {
	struct flight *flight; /* NULL: it has no owner */
	uint32_t end;	       /* of its memory, in the ring */
	uint32_t sent;	       /* conn.sq_posted with this READ */
};

/* A request that is outstanding. */
struct message {
	struct flight *flight; /* NULL: nobody waits for the response */
	uint32_t id;	       /* 0: none is outstanding */
	uint8_t op;
	bool batch;	      /* of the flights in conn.batches */
	uint32_t pulled;      /* bytes of the value if the server READs it, or 0 */
	struct bounce bounce; /* where that value is, unless in the caller's memory */
	uint32_t changes;     /* how many numbered changes it has */
	uint64_t change;      /* the number of the first */
	uint64_t sent_ns;     /* clock_raw_ns() */
};

struct connection {
	struct cm_id *id;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_comp_channel *comp_channel;
	struct cm_channel *cm_channel;
	char link[DEVICE_LINK_TEXT_MAX];
	uint32_t inline_max;
	uint32_t read_sges_max; /* memories that one READ may scatter to */
	bool broken; /* closed, or there is none; client/libkvd/reconnect.h says what follows */
	enum kvd_status lost;

	/* The send queue: work requests posted, and known to be complete. */
	uint32_t sq_posted, sq_done;
	uint32_t unsignaled; /* SENDs posted since the last signaled work request */

	uint32_t read_tail, read_posted, read_head;
	uint32_t chain_count; /* READs in the chain: read_head - read_posted */
	uint64_t chain_ns;    /* clock_raw_ns() before its first home bucket was added, or 0 */
	uint32_t chain_max;   /* room that is known; there may be more: chain_room() */
	uint32_t ring_head, ring_tail;
	bool ring_small; /* a READ did not fit: make it larger when it is empty */
	bool ring_stuck; /* there was no memory for that: what does not fit is READ in pieces */
	struct reg_buf ring;

	/* From the server's welcome. */
	uint64_t region_addr;
	uint64_t extent_bytes;
	uint64_t readable; /* bytes, from the region's first on: of the extents with a key */
	uint32_t extents;  /* that have a key */
	uint32_t sources_known;
	uint32_t rkeys[EXTENTS_MAX];
	/* device_ops.read_source() of the first sources_known extents */
	const uint8_t *sources[EXTENTS_MAX];
	bool by_request; /* the client may not READ: GETs are requests */
	uint32_t request_bytes;
	uint32_t window;    /* requests that may be outstanding: client/libkvd/rpc.h */
	uint64_t posted_ns; /* when the last request was posted, by clock_raw_ns() */

	uint32_t outstanding;	/* requests without a response */
	uint32_t receives;	/* receive buffers that are posted */
	uint32_t message_count; /* messages that have buffers */
	uint32_t message_bytes; /* of each message's buffer */
	uint32_t number;	/* of the last request: the high part of its id */
	uint32_t free_count, recv_free_count;
	uint32_t accesses;	 /* ACCESS messages outstanding */
	uint32_t response_index; /* receive buffer of the response being processed */
	uint64_t response_ns;	 /* clock_raw_ns() when it was taken from the device */
	uint64_t silent_ns;	 /* clock_raw_ns() when its server was found silent; 0: never */
	bool held; /* rpc_call() returned the response in receive buffer `held_index` */
	uint32_t held_index;
	uint8_t free[MESSAGES_MAX];
	uint8_t recv_free[MESSAGES_MAX];
	struct reg_buf recvs[MESSAGES_MAX / MESSAGES_CHUNK];
	struct reg_buf sends[MESSAGES_MAX / MESSAGES_CHUNK];
	struct batch *batches;	    /* one for each message; NULL: none are made */
	struct ibv_send_wr send_wr; /* of a request: what is the same in all */
	struct ibv_sge send_sge;
	struct message messages[MESSAGES_MAX];
	struct read reads[READS_IN_FLIGHT_MAX];
	struct ibv_send_wr read_wrs[GETS_MAX];
	struct ibv_sge read_sges[GETS_MAX][READ_SGES_MAX];
};
static_assert(MESSAGES_MAX <= 256 && !(READS_IN_FLIGHT_MAX & (READS_IN_FLIGHT_MAX - 1)),
	      "an index and a mask");

/* The extent that @offset, in the region, lies in. */
static inline unsigned int connection_extent(const struct connection *conn, uint64_t offset)
{
	return offset < conn->extent_bytes ? 0 : (unsigned int)(offset / conn->extent_bytes);
}

/* How many work requests can be posted. */
static inline uint32_t connection_room(const struct connection *conn)
{
	return SENDS_MAX - (conn->sq_posted - conn->sq_done) - conn->chain_count;
}

/*
 * Whether the server owes responses for too long (client/libkvd/flight.h): requests
 * end at once until one comes. READs go on.
 */
static inline bool connection_is_silent(const struct connection *conn)
{
	return conn->silent_ns > conn->response_ns;
}

/* Whether the connection did more than HELLO. */
static inline bool connection_worked(const struct connection *conn)
{
	return conn->read_tail || conn->number - conn->outstanding > 1;
}

/* Sets what is the same in every chain of READs and every request. @conn is zeroed. */
void connection_init(struct connection *conn);
/* Resets it to its start, but keeps its buffers. There is no queue pair. */
void connection_reset(struct connection *conn);

#endif /* KVD_CLIENT_LIBKVD_CONNECTION_H */
