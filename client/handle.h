/* SPDX-License-Identifier: MIT */
/* What a handle is made of. Internal to libkvd. */
#ifndef KVD_CLIENT_HANDLE_H
#define KVD_CLIENT_HANDLE_H

#include "client/bcache.h"
#include "client/kvd.h"
#include "common/device.h"
#include "common/hist.h"
#include "common/wire.h"

#define GETS_MAX 32 /* GETs worked on together: READs in one chain */
#define RECVS 4	    /* receives posted: one request is outstanding at a time, the rest is margin */
#define RESPONSE_BYTES 4096u
#define SENDS_MAX (2 * GETS_MAX) /* work requests in the send queue */
#define SIGNAL_EVERY 16		 /* requests for each signaled one */
#define SCRATCH_BYTES_MIN (64u << 10)

/* Memory the device can write to, and the server read from. */
struct memory {
	uint8_t *base;
	size_t bytes;
	struct ibv_mr *mr;
};

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
	uint64_t deadline_ns; /* of the call under way; 0: not needed yet, see client/wait.c */

	/* As the server said in its welcome. */
	struct geometry geometry;
	uint64_t region_addr;
	uint32_t rkey;
	uint32_t window;
	uint32_t request_bytes;

	struct memory messages; /* RECVS response buffers, then one request */
	struct memory buckets;	/* GETS_MAX buckets */
	struct memory scratch;	/* items that are read; a value that is pulled */
	struct bcache cache;

	struct kvd_stats stats;
	uint64_t timed_gets;
	struct hist latency[KVD_OP_DELETE + 1];
	char why[160];
	char error[256];
};

/* Notes what went wrong, breaks the connection where @status says so, and returns @status. */
enum kvd_status kvd_fail(struct kvd *handle, enum kvd_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Begins a call of the API: KVD_OK if calls can be made at all on @handle. */
enum kvd_status call_begin(struct kvd *handle);

/* KVD_ERR_INVALID if it can't be a key. */
enum kvd_status key_check(struct kvd *handle, const void *key, size_t key_len);

/* Registered memory. The old content is kept. */
enum kvd_status memory_resize(struct kvd *handle, struct memory *memory, size_t bytes, int access);
void memory_release(struct kvd *handle, struct memory *memory);

/* client/wait.c */

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
/* Posts receive buffer @index. */
enum kvd_status post_recv(struct kvd *handle, uint32_t index);

/* client/rpc.c */

struct rpc {
	struct wire_request head; /* id and key_len are filled in */
	const void *key;
	size_t key_len;
	const void *value; /* value_len bytes of it go with the message, unless it is to be pulled */
};

/*
 * Sends the request and waits for the response, which stands until the next rpc_call() on the
 * handle.
 */
enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response);
/* The status of a response as the API has it. */
enum kvd_status rpc_status(struct kvd *handle, const struct response *response);

/* client/read.c */

/* A READ of @bytes at @offset of the region to @to, in scratch or buckets (@memory). */
struct read {
	uint64_t offset;
	uint8_t *to;
	const struct memory *memory;
	uint32_t bytes;
};

/* Posts @count (1 to GETS_MAX) READs as one chain and waits for the last. */
enum kvd_status read_chain(struct kvd *handle, const struct read *reads, unsigned int count);
/* Reads what may be longer than a message to the start of scratch, which has room for it. */
enum kvd_status read_long(struct kvd *handle, uint64_t offset, uint64_t bytes);
/* Whether @bytes at @offset lie inside the region. */
bool region_holds(const struct kvd *handle, uint64_t offset, uint64_t bytes);

/* client/get.c */

/* The place of a key's home bucket. */
static inline uint64_t home_offset(const struct kvd *handle, uint64_t hash)
{
	return geometry_bucket_offset(&handle->geometry, geometry_home(&handle->geometry, hash));
}

#endif /* KVD_CLIENT_HANDLE_H */
