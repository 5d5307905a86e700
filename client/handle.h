/* SPDX-License-Identifier: MIT */
/* What a handle is made of. Internal to libkvd. */
#ifndef KVD_CLIENT_HANDLE_H
#define KVD_CLIENT_HANDLE_H

#include "client/access.h"
#include "client/bcache.h"
#include "client/clock.h"
#include "client/kvd.h"
#include "client/reg_buf.h"
#include "common/rdma/device.h"
#include "common/util/hist.h"
#include "common/wire.h"

#define GETS_MAX 32 /* GETs worked on together: READs in one chain */
/*
 * Receives posted. Two requests may be outstanding, a call's and one with access records, and a
 * third buffer is the caller's to look at; the rest is margin.
 */
#define RECVS 4
#define RESPONSE_BYTES 4096u
#define SENDS_MAX (2 * GETS_MAX) /* work requests in the send queue */
#define SIGNAL_EVERY 16		 /* requests for each signaled one */
#define SCRATCH_BYTES_MIN (64u << 10)
#define LATENCIES (KVD_OP_SCAN + 1)
/* One GET in this many is timed, the first included. */
#define TIMED_EVERY 16
static_assert(ACCESS_BATCH_MAX >= GETS_MAX, "a batch's samples have room");

struct kvd {
	struct kvd_options options;
	struct device *dev;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	struct cm_channel *cm_channel;
	struct cm_id *id;
	struct ibv_qp *qp;
	uint32_t inline_max;
	bool broken;	 /* the connection is gone for good */
	bool recv_ready; /* a response is in the buffer recv_index, recv_len bytes */
	uint32_t recv_index;
	uint32_t recv_len;
	uint32_t unsignaled;
	uint32_t request_id;
	uint64_t deadline_ns; /* of the call under way; 0: not needed yet, see client/completion.c */

	/* As the server said in its welcome; the geometry as last read. */
	struct geometry geometry;
	uint64_t geometry_ns; /* when that was: local time; 0: in the welcome */
	uint64_t region_addr;
	uint32_t rkey;
	uint32_t window;
	uint32_t request_bytes;

	struct reg_buf messages;	/* RECVS response buffers, then one request */
	struct reg_buf access_messages; /* one, of access records alone */
	struct reg_buf buckets;		/* GETS_MAX buckets, or a geometry */
	struct reg_buf scratch;		/* items that are read; a value that is pulled */
	struct bcache cache;
	struct server_clock clock;
	struct access access;
	uint32_t access_id; /* of the ACCESS message that is not answered yet; 0: none */

	struct kvd_stats stats;
	uint64_t timed_gets;
	struct hist latency[LATENCIES];
	char why[160];
	char error[256];
};

/* Sets up what needs no connection. @options may be NULL: the defaults. */
void handle_init(struct kvd *handle, const struct kvd_options *options);
/* Allocates what messages and READs need and posts the receives: the queue pair is there. */
enum kvd_status handle_memory(struct kvd *handle);
/* Checks the server's welcome, and takes from it what it says. */
enum kvd_status handle_welcome(struct kvd *handle, const struct wire_welcome *welcome);

/* Notes what went wrong, for kvd_error(), and returns @status. */
enum kvd_status kvd_note(struct kvd *handle, enum kvd_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Notes what went wrong, breaks the connection where @status says so, and returns @status. */
enum kvd_status kvd_fail(struct kvd *handle, enum kvd_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Begins a call of the API: KVD_OK if calls can be made at all on @handle. */
enum kvd_status call_begin(struct kvd *handle);

/* KVD_ERR_INVALID if it can't be a key. */
enum kvd_status key_check(struct kvd *handle, const void *key, size_t key_len);

/* KVD_ERR_INVALID if it is longer than KVD_TTL_MAX. */
enum kvd_status ttl_check(struct kvd *handle, uint32_t ttl_s);

/* reg_buf_resize() with the handle's device. KVD_ERR_NO_MEMORY if it fails. */
enum kvd_status handle_buf_resize(struct kvd *handle, struct reg_buf *buf, size_t bytes,
				  int access);

/* client/completion.c */

/* What a completion is of. */
enum wr_kind { WR_RECV, WR_SEND, WR_READ };

static inline uint64_t wr_id_make(enum wr_kind kind, uint32_t index)
{
	return (uint64_t)kind << 32 | index;
}

/*
 * Waits until the last READ of a chain, or a response, is there. Polls for spin_us, then sleeps.
 * KVD_ERR_TIMEOUT after handle->deadline_ns; else why the connection broke.
 */
enum kvd_status wait_read(struct kvd *handle);
enum kvd_status wait_response(struct kvd *handle);
/* Until no ACCESS message is outstanding. */
enum kvd_status wait_access(struct kvd *handle);
/* Posts receive buffer @index. */
enum kvd_status post_recv(struct kvd *handle, uint32_t index);

/* client/rpc.c */

struct rpc {
	struct wire_request head; /* id, key_len and access_count are filled in */
	const void *key;
	size_t key_len;
	const void *value; /* value_len bytes of it go with the message, unless it is to be pulled */
};

/*
 * Sends the request, with what access records wait, and waits for the response, which stands until
 * the next rpc_call() on the handle. Learns the server's clock.
 */
enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response);
/* The status of a response as the API has it. */
enum kvd_status rpc_status(struct kvd *handle, const struct response *response);
/* rpc_call(), then rpc_status(). */
enum kvd_status rpc_do(struct kvd *handle, struct rpc *rpc, struct response *response);

/*
 * Sends access records in a message of their own. Does not wait for its answer, but for that to the
 * one before.
 */
enum kvd_status access_send(struct kvd *handle);
/* Sends all that wait, and waits for the answers, for at most @wait_ms. */
void access_finish(struct kvd *handle, unsigned int wait_ms);

/* client/read.c */

/* A READ of @bytes at @offset of the region to @to, in scratch or buckets (@buf). */
struct read {
	uint64_t offset;
	uint8_t *to;
	const struct reg_buf *buf;
	uint32_t bytes;
};

/* Posts @count (1 to GETS_MAX) READs as one chain and waits for the last. */
enum kvd_status read_chain(struct kvd *handle, const struct read *reads, unsigned int count);
/* Reads what may be longer than a message to the start of scratch, which has room for it. */
enum kvd_status read_long(struct kvd *handle, uint64_t offset, uint64_t bytes);
/* Whether @bytes at @offset lie inside the region. */
bool region_holds(const struct kvd *handle, uint64_t offset, uint64_t bytes);

/* client/geometry.c: where buckets are, by a geometry that may be older than the index */

/* The level that bucket @number has at least. */
uint8_t bucket_level(const struct geometry *g, uint64_t number);
/* The place of bucket @number, which the geometry need not reach yet. False: it is not known. */
bool bucket_place(const struct kvd *handle, uint64_t number, uint64_t *offset);
/*
 * READs the geometry anew, to the buckets' buffer, unless that was done in the last millisecond or
 * what is read is being changed each time. Fails if the connection does.
 */
enum kvd_status geometry_refresh(struct kvd *handle);

/* The place of a key's home bucket. */
static inline uint64_t home_offset(const struct kvd *handle, uint64_t hash)
{
	return geometry_bucket_offset(&handle->geometry, geometry_home(&handle->geometry, hash));
}

/* client/get_rpc.c */

/*
 * Does the GET by request, with @flags and @ttl_s as in struct wire_request, and fills in its
 * status and item. Fails if the connection does.
 */
enum kvd_status ask_get(struct kvd *handle, struct kvd_get_request *request, uint16_t flags,
			uint32_t ttl_s);

/* client/admin.c */

/* PING. */
enum kvd_status ask_ping(struct kvd *handle);

#endif /* KVD_CLIENT_HANDLE_H */
