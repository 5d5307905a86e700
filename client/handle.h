/* SPDX-License-Identifier: MIT */
/*
 * The handle: all that a connection to a server consists of, and how its calls begin, check their
 * arguments and fail. Internal to libkvd.
 */
#ifndef KVD_CLIENT_HANDLE_H
#define KVD_CLIENT_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client/access.h"
#include "client/bcache.h"
#include "client/clock.h"
#include "client/kvd.h"
#include "client/reg_buf.h"
#include "client/shared.h"
#include "common/layout.h"
#include "common/rdma/device.h"
#include "common/util/hist.h"
#include "common/util/spin.h"
#include "common/wire.h"

#define GETS_MAX 32 /* GETs that are done together: READs in one chain */
/*
 * Receive buffers. Two requests may be outstanding, a call's and an ACCESS message; a third buffer
 * has the last response, which the caller still uses; the fourth is margin.
 */
#define RECVS 4
#define RESPONSE_BYTES 4096u
/* Room for the longest message with the longest URL in it. */
#define ERROR_BYTES 512
/* Scratch is never smaller: room for the items of a batch of GETs. It grows for larger values. */
#define SCRATCH_BYTES_MIN (64u << 10)
/* Scratch shrinks after so many calls of which none needed more than a quarter of it. */
#define SCRATCH_CALLS 256
#define SCRATCH_SPARE 4
#define SENDS_MAX (2 * GETS_MAX) /* work requests in the send queue */
#define LATENCIES (KVD_OP_SCAN + 1)
/* The end of messages about what only a second user of the handle can cause. */
#define HANDLE_SHARED_HINT                                                                         \
	"a handle belongs to one thread at a time, and two threads, or processes after fork(2), "  \
	"may be using this one"
static_assert(ACCESS_BATCH_MAX >= GETS_MAX, "a batch's samples have room");

/*
 * What most calls use is together at the begin: a thread that uses a thousand handles in turn finds
 * none of it in its caches.
 */
struct kvd {
	struct kvd_options options;
	struct shared_device *shared_device; /* whose dev and pd these are */
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	struct cm_channel *cm_channel;
	struct cm_id *id;
	struct ibv_qp *qp;
	uint32_t inline_max;
	bool broken;	 /* the connection is closed */
	bool recv_ready; /* a response is in the buffer recv_index, recv_len bytes */
	uint32_t recv_index;
	uint32_t recv_len;
	uint32_t unsignaled; /* SENDs posted since the last signaled work request */
	uint32_t request_id;
	uint32_t read_chain;   /* number of the last chain of READs; the low half of its wr_id */
	uint64_t deadline_ns;  /* of the current call; 0: not set yet, see completion.c */
	uint64_t served_bytes; /* that the server READs for the current request */
	struct spin spin;

	/* From the server's welcome; the geometry as last READ. */
	struct geometry geometry;
	uint64_t geometry_ns; /* local time of that READ; 0: it is the welcome's */
	uint64_t region_addr;
	const uint8_t *region_source; /* device_ops.read_source(); NULL: not known, or none */
	uint32_t rkey;
	uint32_t request_bytes;
	uint32_t message_max; /* bytes of one READ: the device's */
	uint32_t window;      /* requests that may be outstanding: client/window.h */
	bool window_moves;    /* each response says it anew */
	uint64_t posted_ns;   /* when the last request was posted, by clock_raw_ns() */

	struct reg_buf messages;	/* RECVS response buffers, then one request */
	struct reg_buf access_messages; /* one, of access records alone */
	struct reg_buf buckets;		/* GETS_MAX buckets, or a geometry */
	struct reg_buf scratch;		/* items that are READ; a value that the server READs */
	size_t scratch_wanted; /* the most that was needed in the last scratch_calls calls, bytes */
	uint32_t scratch_calls;
	struct shared_server *server; /* NULL before the welcome */
	struct bcache cache;	      /* a view of the server's */
	struct server_clock clock;
	uint32_t access_id; /* of the ACCESS message that has no response yet; 0: none */

	/* To detect two users of one handle, in handle_fail(). */
	pid_t process;		      /* that opened it */
	uint32_t owner;		      /* what was then in *owner_page; another in a child */
	_Atomic uint32_t *owner_page; /* see handle_is_inherited() */
	pthread_t thread;	      /* that began the last call */
	bool shared;		      /* two threads' calls overlapped */

	struct kvd_stats stats;
	uint64_t timed_gets;
	struct access access;
	/* A chain of READs while it is put together: see client/read.h. */
	struct ibv_send_wr read_wrs[GETS_MAX];
	struct ibv_sge read_sges[GETS_MAX];
	struct hist latency[LATENCIES];
	char device_why[160];
	char error[ERROR_BYTES];
};

/* The window at @now_ns of clock_raw_ns(): client/window.h. */
static inline uint32_t handle_window(const struct kvd *handle, uint64_t now_ns)
{
	bool lapsed = handle->window_moves &&
		      now_ns - handle->posted_ns > WIRE_WINDOW_LAPSE_MS * 1000000ull;

	return lapsed ? WIRE_WINDOW_LAPSED : handle->window;
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
 * The same, and closes the connection if @status is one that does (see kvd.h). If it does, and
 * another thread began a call meanwhile or this is not the process that opened the handle, the text
 * says that instead: it is the cause of any other failure.
 */
enum kvd_status handle_fail(struct kvd *handle, enum kvd_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

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
 * Begins a call of the API. KVD_ERR_INVALID if @handle is NULL, KVD_ERR_DISCONNECTED if the
 * connection is closed or the parent's (fork), else KVD_OK.
 */
enum kvd_status call_begin(struct kvd *handle);

/* Say what is wrong with a key, or a buffer for a value; KVD_ERR_INVALID. */
enum kvd_status key_refuse(struct kvd *handle, const void *key, size_t key_len);
enum kvd_status buffer_refuse(struct kvd *handle, size_t value_size);

/* KVD_ERR_INVALID if it is NULL, empty or longer than KVD_KEY_MAX. */
static inline enum kvd_status key_check(struct kvd *handle, const void *key, size_t key_len)
{
	return key && key_len >= 1 && key_len <= KVD_KEY_MAX ? KVD_OK :
							       key_refuse(handle, key, key_len);
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
/* The same for scratch: the client's device writes to it, the server's may READ from it. */
enum kvd_status handle_scratch_resize(struct kvd *handle, size_t bytes);

#endif /* KVD_CLIENT_HANDLE_H */
