/* SPDX-License-Identifier: MIT */
/*
 * The objects of the software device, and the functions that its files call of each other.
 * context.c says how the device works and what it guarantees, link.h what two peers share.
 *
 * Locks, in the order in which they are taken:
 *
 *	sn_cm_channel.lock	ids and events of connection management
 *	sn_context.lock		lists of the device, registrations, grants
 *	sn_channel.lock		the CQs of a completion channel, and serving its events
 *	sn_cq.list_lock		the lists of the queue pairs that a CQ polls
 *	sn_qp.lock		all of a queue pair
 *	sn_srq.lock, sn_context.mr_lock, sn_context.file_lock, sn_context.map_lock
 *	sn_cq.lock		completions
 *	sn_channel.event_lock
 *	sn_context.async_lock
 *
 * A function called do_x() expects the lock of its object to be held.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_SOFTNIC_H
#define KVD_COMMON_RDMA_SOFTNIC_SOFTNIC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"

#define SN_QP_MAX 65536
#define SN_WR_MAX 16384 /* of a send or receive queue */
#define SN_SGE_MAX 16
#define SN_INLINE_MAX 512
#define SN_CQ_MAX 1024
#define SN_CQE_MAX 262144
#define SN_SRQ_MAX 1024
#define SN_SRQ_WR_MAX 65536
#define SN_PD_MAX 256
#define SN_CHANNEL_MAX 1024 /* of either kind */
#define SN_ID_MAX (SN_QP_MAX + SN_UNREPORTED_MAX)
#define SN_UNREPORTED_MAX 1024 /* incoming connections that no event has reported yet */
#define SN_MR_MAX 4096
#define SN_MW_MAX 65536
#define SN_READS_MAX 128 /* READs of memory that is not mapped, outstanding in one direction */
#define SN_MESSAGE_MAX (1u << 30)
#define SN_HALF_OPEN_MAX 64   /* peers that connected and have not sent a connect request */
#define SN_HANDSHAKE_MS 60000 /* for each step of connecting that waits for the peer */
#define SN_RETRY_MS 10	      /* between attempts at a listener whose queue is full */
#define SN_HOT_SCAN 1024      /* bells that one poll looks at: some microseconds */
#define SN_SCAN_ON 64	      /* of these, after one with work was found */
#define SN_WAITING_SCAN 16    /* queue pairs of the waiting list that one poll serves */
#define SN_COLD_SCAN 32	      /* cold queue pairs that are looked at per clock tick */
#define SN_COOL_MAX 32	      /* hot ones that become cold per clock tick */
#define SN_COLD_AFTER_MS 200  /* without traffic */
#define SN_SERVE_AFTER 128    /* scans without work after which one serves the channel, too */
#define SN_SERVE_SOON 8	      /* the same after the channel woke a cold queue pair */
#define SN_ARMED_SCANS 2      /* scans between arming and sleeping that leave the channel alone */
#define SN_HOT_COST 64	      /* looking at this many bells costs as much as a scan of one */
#define SN_BUSY_SCAN 2	      /* what a scan with work counts as: it takes longer */
#define SN_SKIP_MAX 8	      /* polls in a row that may return completions without a scan */
#define SN_TICK_SCAN 4	 /* hot queue pairs whose peer is checked for being alive per clock tick */
#define SN_ARM_ROUNDS 4	 /* attempts to go to sleep while the peer keeps sending */
#define SN_LIFE_READS 64 /* after so many with a life word the socket is looked at, too */
#define SN_DRAIN_MAX (LINK_GRANTS_MAX + 3) /* packets taken off a socket at once */
#define SN_WAKE_MAX 64			   /* sockets served by one ibv_get_cq_event() */
#define SN_WAKES_LATE 1		   /* wake-ups that can be on their way while none is asked for */
#define SN_RNR_SLEEP_NS 1000000ull /* least pause between checks for a receive while asleep */
#define SN_FILES_MAX 1024	   /* of peers, open at once; file.c says when fewer */
#define SN_BARRED_MAX 16u	   /* users whose files are refused: the last ones */
#define SN_GRANTS_QUEUED 16384	   /* bytes on the way to the peer; no GRANT beyond */
#define SN_COPY_STEP 65536u	   /* bytes that one queue pair READs of files in a scan */
#define SN_COPY_SCAN (2 * SN_COPY_STEP) /* bytes that all of them READ in a scan: 20 us */
#define SN_QUEUE_FIRST 4 /* entries of a queue that grows, at first: those of a channel pair */
#define SN_LINE 64
#define SN_NOW_BYTES 65536u /* of a file, by one system call: stays in the CPU's second cache */
#define SN_COPY_LINES 4	    /* lines that are copied without a call */

#define sn_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct sn_qp;
struct sn_file;
struct sn_cm_channel;
struct sn_channel;
struct sn_cq;

TAILQ_HEAD(sn_qp_list, sn_qp);
TAILQ_HEAD(sn_cm_channel_list, sn_cm_channel);
TAILQ_HEAD(sn_channel_list, sn_channel);
TAILQ_HEAD(sn_cq_list, sn_cq);

/* The objects that a context counts, to bound them and to report at close those not destroyed. */
enum sn_object {
	SN_OBJECT_PD,
	SN_OBJECT_MR,
	SN_OBJECT_MW,
	SN_OBJECT_COMP_CHANNEL,
	SN_OBJECT_CQ,
	SN_OBJECT_SRQ,
	SN_OBJECT_QP,
	SN_OBJECT_CM_CHANNEL,
	SN_OBJECT_ID,
	SN_OBJECT_COUNT,
};

struct sn_mr {
	struct ibv_mr verbs;
	int access;
	int fd; /* our descriptor of its file, if peers may have it; else -1 */
	uint64_t fd_offset;
	bool is_fixed; /* the file's length is sealed: servers may have it, too */
};

/* A memory window: mw.c. */
struct sn_mw {
	struct ibv_mw verbs;
	/*
	 * Under mr_lock. It is bound under its queue pair's lock, too, and ends under ctx->lock,
	 * so who holds both may read it.
	 */
	struct sn_qp *qp; /* it is bound to; NULL: none */
	struct sn_mr *mr;
	uint32_t rkey;
	uint64_t addr;
	uint64_t length;
	LIST_ENTRY(sn_mw) in_qp;
};

LIST_HEAD(sn_mw_list, sn_mw);

/* An asynchronous event that an object can cause. */
struct sn_async {
	struct device_async_event event;
	bool pending; /* in the context's list; under its async_lock */
	TAILQ_ENTRY(sn_async) entry;
};

TAILQ_HEAD(sn_async_list, sn_async);

LIST_HEAD(sn_qp_bucket, sn_qp);
LIST_HEAD(sn_file_list, sn_file);

/* The numbers of queue pairs that are in use. */
struct sn_qp_numbers {
	struct sn_qp_bucket *buckets;
	uint32_t bucket_count; /* a power of two, or 0 */
	uint32_t count;
	uint32_t next; /* to be given, if it is free */
};

/* A file of a server's that connections of a device have mapped. */
struct sn_map {
	TAILQ_ENTRY(sn_map) in_context; /* under the context's map_lock, like users */
	unsigned int users;
	int fd;
	ino_t ino; /* as a hint: another number is another file */
	uint64_t start;
	size_t length;
	void *base;
};

TAILQ_HEAD(sn_map_list, sn_map);

/* A listening device's word that says that its process is alive: life.c. */
struct sn_life {
	union life_page *page;
	int fd; /* of the page; -1: there is none */
};

#define SN_LIFE_NONE ((struct sn_life){ .fd = -1 })

struct sn_context {
	struct device dev;
	struct ibv_context verbs;
	struct ibv_device device;
	struct device_addr addr;
	enum device_role role;
	_Atomic bool dead;
	_Atomic int objects[SN_OBJECT_COUNT]; /* alive */
	int listen_fd;			      /* a server's; else -1 */
	dev_t listen_dev;		      /* the socket's file, so that we remove no other */
	ino_t listen_ino;

	pthread_mutex_t lock;
	struct sn_qp_list qps;
	struct sn_cm_channel_list cm_channels;
	struct sn_channel_list channels;
	struct sn_qp_numbers qp_numbers;
	uint32_t mr_next;
	uint32_t mr_tag;
	uint8_t *mw_slots; /* SN_MW_MAX: mw.c; NULL: there was no window */
	uint32_t mw_next;

	pthread_mutex_t mr_lock; /* held while a peer's READ is served, so that its MR stays */
	_Atomic(struct sn_mr *) mrs[SN_MR_MAX];
	_Atomic uint32_t mr_changes; /* of memory with a file; under lock, and read without */

	pthread_mutex_t file_lock;
	struct sn_file_list files; /* of the peers, that are read with preadv() */
	uint32_t file_count;
	uid_t barred[SN_BARRED_MAX]; /* users whose files are refused: sn_file_bar() */
	uint64_t barred_count;	     /* since the start */

	pthread_mutex_t map_lock;
	struct sn_map_list maps;

	struct sn_life life; /* a server's */

	pthread_mutex_t async_lock;
	struct sn_async_list async; /* the pending ones */
	struct sn_async fatal;
};

/* A completion, and the slots of the send queue that polling it frees. */
struct sn_cqe {
	struct ibv_wc wc;
	struct sn_qp *qp;
	uint32_t sq_end;
	bool is_send;
	bool solicited;
};

/* A queue pair's places in a CQ: in the hot ones or the cold ones, and in the waiting ones. */
struct sn_member {
	struct sn_qp *qp;
	_Atomic bool hot; /* changed under the CQ's list_lock, like the next two */
	uint32_t index;	  /* of the hot ones */
	TAILQ_ENTRY(sn_member) in_cold;
	TAILQ_ENTRY(sn_member) in_waiting; /* while qp->attention is set; under the CQ's lock */
};

/* What a scan needs to know of a hot queue pair. */
struct sn_hot {
	const struct link_side *theirs; /* with the bell that is watched */
	uint32_t seen;			/* what it was; other threads may have seen a later one */
	uint32_t active_ms;		/* the clock tick of its last change */
};

TAILQ_HEAD(sn_member_list, sn_member);

enum sn_notify { SN_NOTIFY_NONE, SN_NOTIFY_SOLICITED, SN_NOTIFY_ANY };

struct sn_cq {
	struct ibv_cq verbs;
	struct sn_context *ctx;
	struct sn_channel *channel; /* or NULL */
	bool dead_noticed;	    /* that the device is dead; under list_lock */

	struct sn_lock lock;
	struct sn_cqe *cqes;
	uint32_t mask; /* entries that there is memory for, less 1; grows up to verbs.cqe */
	uint32_t head;
	uint32_t tail;
	uint32_t skipped;   /* polls since the last scan */
	_Atomic int notify; /* enum sn_notify; written under lock */
	bool dead;	    /* it overflowed */
	struct sn_async error;

	struct sn_member_list waiting;
	_Atomic uint32_t waiting_count; /* changed under lock */

	struct sn_lock list_lock;
	struct sn_hot *hot;		/* hot_count entries, room for hot_max */
	struct sn_member **hot_members; /* the same ones */
	struct sn_member_list cold;	/* armed: their peers wake us up */
	uint32_t hot_count;
	uint32_t hot_max;
	uint32_t reserved;     /* queue pairs for which there is room */
	uint32_t hot_next;     /* where the next scan begins */
	uint32_t cool_next;    /* where the next tick begins */
	uint32_t tick_ms;      /* the coarse clock's last tick */
	bool ticked;	       /* since the last one whose work was done */
	uint32_t unserved;     /* scans since the channel was served */
	uint32_t serve_after;  /* SN_SERVE_SOON to SN_SERVE_AFTER */
	uint32_t armed_scans;  /* scans since the CQ was armed */
	bool waits;	       /* the last scan found nothing */
	uint32_t wait_tick_ms; /* the clock's tick at the first scan that did not */
	uint32_t found_scans;  /* scans that did, since one of them did the work of a tick */
	uint32_t copy_left;    /* bytes that this scan may still READ of files */

	TAILQ_ENTRY(sn_cq) in_channel; /* under the channel's lock */
	TAILQ_ENTRY(sn_cq) in_ready;   /* under the channel's event_lock, like the next */
	uint32_t events;
};

/* Of a completion channel that shares its epoll with a CM channel. Under event_lock, but for qp. */
struct sn_pair {
	int sock;	    /* of the one connection; -1: none */
	uint32_t cm_events; /* what connection management watches it for */
	uint32_t qp_events; /* what the queue pair does */
	uint32_t watched;   /* what the epoll does; 0: it does not have it */
	bool cm_kicked;	    /* the CM channel has something to do */
	struct sn_qp *qp;   /* that is served; under the channel's lock */
};

struct sn_channel {
	struct ibv_comp_channel verbs; /* its fd: an epoll of these three and of all sockets */
	struct sn_context *ctx;
	TAILQ_ENTRY(sn_channel) in_context;
	int kick_fd;  /* eventfd: there are notifications; of a pair: -1 unless it is needed */
	int timer_fd; /* a queue pair waits for a point in time, not for its peer; likewise */
	int also_fd;  /* what sleep() waits for besides; -1: nothing */
	bool paired;  /* with a CM channel: pair.c */
	struct sn_pair pair;
	pthread_mutex_t lock;
	struct sn_cq_list cqs;
	uint32_t unwatched; /* sockets that were taken out of the epoll, as a count */

	pthread_mutex_t event_lock;
	struct sn_cq_list ready;
	bool taking; /* a thread is serving and takes what is ready afterwards: no kick is needed */
	bool kicked; /* kick_fd is readable, or the pair's socket is watched for being writable */
};

/* A posted receive of an SRQ or of one queue pair. */
struct sn_recv {
	uint64_t wr_id;
	uint32_t num_sge;
};

struct sn_recv_queue {
	struct sn_recv *wrs;
	struct ibv_sge *sges;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t mask;
	uint32_t head;
	uint32_t tail;
};

struct sn_srq {
	struct ibv_srq verbs;
	struct sn_context *ctx;
	pthread_mutex_t lock;
	struct sn_recv_queue queue;
	uint32_t limit; /* 0: not armed */
	struct sn_async limit_reached;
};

enum sn_send_state {
	SN_SEND_QUEUED,
	SN_SEND_FAULTY,	 /* names local memory that it may not use: fails in its turn */
	SN_SEND_WAITING, /* in the ring: waits for the peer's acknowledgement or response */
	SN_SEND_DONE,
};

struct sn_send {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t length;
	uint32_t moved;	 /* bytes written to the ring (SEND) or received (READ) */
	uint32_t number; /* SEND: acknowledged when this many SENDs are */
	uint8_t opcode;	 /* enum ibv_wr_opcode */
	uint8_t state;
	uint8_t num_sge;
	bool signaled;
	bool fence;
	bool solicited;
	bool is_inline;
};

/*
 * The send queue. Counts of work requests, in the order
 * freed <= done <= pushed <= posted <= freed + max_wr.
 */
struct sn_send_queue {
	struct sn_send *wrs;
	struct ibv_sge *sges;
	uint8_t *inline_data; /* of those that had to wait; NULL: none had */
	uint32_t stride;      /* sges of one work request */
	uint32_t mask;	      /* requests that there is memory for, less 1 */
	uint32_t posted;
	uint32_t pushed;	/* in the ring, or read */
	uint32_t done;		/* complete */
	_Atomic uint32_t freed; /* its completion, or a later one's, was polled */
	uint32_t sends;		/* SENDs that are completely in the ring */
	uint32_t acked;		/* SENDs that the peer acknowledged */
	uint32_t reads;		/* READs that wait for the peer's response */
};

/* The receive into which an incoming message is being written. */
struct sn_incoming {
	bool active;
	bool waiting; /* there is a message and no receive */
	uint64_t waiting_since_ns;
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t total;
	uint32_t moved;
	struct ibv_sge sges[SN_SGE_MAX];
};

/* The peer's READ that is being served; its request stays in the ring until all is served. */
struct sn_serving {
	bool active;
	uint64_t addr;
	uint32_t rkey;
	uint32_t left;
};

/* A file of the peer's that we may read: a server's is mapped, a client's is open. */
struct sn_grant {
	uint32_t rkey; /* 0: none */
	uint64_t addr;
	uint64_t length;
	const uint8_t *memory; /* where we mapped addr; NULL: it is not mapped */
	struct sn_map *map;
	struct sn_file *file;
	uint64_t file_offset; /* of addr */
};

struct sn_qp {
	struct ibv_qp verbs;
	struct sn_context *ctx;
	struct sn_cq *send_cq;
	struct sn_cq *recv_cq;
	struct sn_srq *srq;
	TAILQ_ENTRY(sn_qp) in_context;
	LIST_ENTRY(sn_qp) in_numbers; /* under the context's lock */
	struct sn_member members[2];
	unsigned int member_count; /* 2 if there are two CQs */
	struct ibv_qp_cap cap;
	bool signal_all;

	/* Read without the lock. */
	struct link_side *_Atomic theirs;
	_Atomic uint32_t seen_bell;
	_Atomic bool attention; /* has work that the peer's bell does not announce; under lock */

	struct sn_lock lock;
	int access;
	struct link_shared *shared;
	struct link_side *mine;
	int sock; /* the id's; -1 before there is a connection */
	bool is_active;
	bool attached;	  /* in the lists of its CQs */
	bool announced;	  /* accept or ready was sent: files may be passed to the peer */
	bool established; /* the socket carries wake-ups and grants now */
	uint32_t bell;
	uint32_t changed; /* enum link_wake: changes since the last do_sn_qp_publish() */
	uint32_t armed;	  /* enum link_wake: what the peer wakes us up for */
	bool filling;	  /* fill() said that memory is not there yet: no READ is served */
	bool rearm;	  /* the socket was drained, maybe of a wake-up: arm again */
	uint32_t wakes;	  /* wake-ups that the peer may still send: progress.c */
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t reads_max;
	uint64_t hold_until_ns;	      /* fault plan: the delay's end */
	uint64_t late_until_ns;	      /* fault plan: the oldest request completes then */
	uint64_t lost_until_ns;	      /* fault plan: a completion was lost; it fails then */
	const _Atomic uint32_t *life; /* the peer's; NULL: not known, so its socket is looked at */
	struct sn_map *life_map;
	bool life_due;	     /* the peer is to be passed ours */
	uint32_t life_reads; /* READs since there is its word */
	uint64_t tick;	     /* when its socket was last looked at */
	struct ring_out request_out;
	struct ring_in request_in;
	struct ring_out response_out;
	struct ring_in response_in;
	uint32_t acked; /* the peer's SENDs that we received */
	struct sn_send_queue sq;
	struct sn_recv_queue rq;
	struct sn_incoming incoming;
	struct sn_serving serving;
	struct sn_mw_list windows;	   /* bound to it: mw.c, under the locks of struct sn_mw */
	bool window_new;		   /* of those, one has not been granted yet */
	uint32_t granted[LINK_GRANTS_MAX]; /* what the peer may read; under ctx->lock */
	uint32_t mr_changes;		   /* of the context, when that was updated */
	struct sn_grant grants[LINK_GRANTS_MAX];
	uint32_t grant_last;
	uint32_t grants_open;  /* of the grants: those that are files of a client's */
	uint64_t grants_count; /* GRANTs that the connecting side has sent: do_sn_grant_allowed() */
	uint64_t sends_taken;  /* SENDs of its that the other side has taken, as far as we know */
	uint32_t copy_left;    /* bytes that progress may still READ of files */
	bool copying;	       /* a READ of a file waits for that */
	struct sn_async last_wqe; /* its SRQ gives it no more receives */
	struct sn_async access_error;
};

static inline struct sn_context *to_sn_context(struct ibv_context *verbs)
{
	return sn_container(verbs, struct sn_context, verbs);
}

static inline struct sn_context *dev_to_sn_context(struct device *dev)
{
	return sn_container(dev, struct sn_context, dev);
}

static inline struct sn_qp *to_sn_qp(struct ibv_qp *qp)
{
	return sn_container(qp, struct sn_qp, verbs);
}

static inline struct sn_cq *to_sn_cq(struct ibv_cq *cq)
{
	return sn_container(cq, struct sn_cq, verbs);
}

static inline struct sn_srq *to_sn_srq(struct ibv_srq *srq)
{
	return sn_container(srq, struct sn_srq, verbs);
}

static inline uint64_t sn_now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* The smallest power of two that is not less than @count. */
static inline uint32_t sn_round_up(uint32_t count)
{
	return count <= 1 ? 1 : 1u << (32 - __builtin_clz(count - 1));
}

/* context.c */
/* Counts a new object: 0, or -ENOMEM at the object's limit. */
int sn_object_add(struct sn_context *ctx, enum sn_object object);
void sn_object_remove(struct sn_context *ctx, enum sn_object object);

/* async.c */
void sn_async_push(struct sn_context *ctx, struct sn_async *async);
/* Before the object that causes it is freed. */
void sn_async_forget(struct sn_context *ctx, struct sn_async *async);
int sn_get_async_event(struct device *dev, struct device_async_event *event);

/* mr.c */
int sn_reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr);
void sn_dereg_mr(struct ibv_mr *mr);
/* The offset of an address in front of it wraps around, and is too large. */
static inline bool sn_mr_covers(const struct sn_mr *mr, uint64_t addr, uint64_t length)
{
	uint64_t offset = addr - (uintptr_t)mr->verbs.addr;

	return offset <= mr->verbs.length && length <= mr->verbs.length - offset;
}

/* The registration with this key if it covers the range, is of this PD and allows @access. */
static inline struct sn_mr *sn_mr_find(struct sn_context *ctx, const struct ibv_pd *pd,
				       uint32_t key, uint64_t addr, uint64_t length, int access)
{
	struct sn_mr *mr = atomic_load_explicit(&ctx->mrs[key % SN_MR_MAX], memory_order_acquire);

	if (!mr || mr->verbs.lkey != key || mr->verbs.pd != pd || (mr->access & access) != access)
		return NULL;
	return sn_mr_covers(mr, addr, length) ? mr : NULL;
}

bool sn_sges_valid(struct sn_qp *qp, const struct ibv_sge *sges, uint32_t count, int access);

/* mw.c */
int sn_alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw);
void sn_dealloc_mw(struct ibv_mw *mw);
/*
 * Binds what the work request says to the queue pair, whose lock is held: false if that is not
 * allowed. Then the caller calls sn_grants_update().
 */
bool do_sn_mw_bind(struct sn_qp *qp, const struct ibv_send_wr *wr);
/*
 * The queue pair's window with this key, or NULL. mr_lock is held, or ctx->lock and the queue
 * pair's lock.
 */
struct sn_mw *do_sn_mw_find(const struct sn_qp *qp, uint32_t rkey);
/* Ends the windows of memory that is gone. ctx->lock is held. */
void do_sn_mw_lose_mr(struct sn_context *ctx, const struct sn_mr *mr);
/* Ends those of a queue pair that is in no list any more. */
void sn_mw_lose_qp(struct sn_qp *qp);

static inline bool sn_mw_covers(const struct sn_mw *mw, uint64_t addr, uint64_t length)
{
	uint64_t offset = addr - mw->addr;

	return offset <= mw->length && length <= mw->length - offset;
}

/* sge.c */
uint64_t sn_sges_length(const struct ibv_sge *sges, uint32_t count);
/* Copy between a ring and the list's memory, from byte @offset of it on. */
void sn_sges_to_ring(struct ring_out *ring, uint32_t at, const struct ibv_sge *sges, uint32_t count,
		     uint32_t offset, uint32_t length);
void sn_sges_from_ring(const struct ring_in *ring, uint32_t at, const struct ibv_sge *sges,
		       uint32_t count, uint32_t offset, uint32_t length);
/* The list's memory from byte @offset on, for at most @length bytes: returns how many pieces. */
unsigned int sn_sges_iovecs(const struct ibv_sge *sges, uint32_t count, uint32_t offset,
			    uint32_t length, struct iovec iovs[SN_SGE_MAX]);
/* Copies @length bytes, which the peer may be changing, to the list's memory. */
void sn_sges_read(const struct ibv_sge *sges, uint32_t count, const uint8_t *from, uint32_t length);

/* channel.c */
int sn_channel_create(struct sn_context *ctx, bool paired, struct sn_channel **channel);
/* Makes the channel's fd readable while there is something to do. event_lock is held. */
void do_sn_channel_kick(struct sn_channel *channel);
int sn_create_comp_channel(struct device *dev, struct ibv_comp_channel **channel);
void sn_destroy_comp_channel(struct ibv_comp_channel *channel);
int sn_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq);
int sn_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms);
void sn_channel_event(struct sn_channel *channel, struct sn_cq *cq);
void sn_channel_add(struct sn_channel *channel, struct sn_cq *cq);
void sn_channel_remove(struct sn_channel *channel, struct sn_cq *cq);
/* Wakes the channel after @delay_ns at the latest, to serve the queue pairs of its CQs. */
void sn_channel_timer(struct sn_channel *channel, uint64_t delay_ns);
/* Serves the peers that woke us, unless another thread is doing that. */
void sn_channel_serve(struct sn_channel *channel);
/* Takes what woke the queue pair, and does what it asks for. The channel's lock is held. */
void do_sn_channel_serve_qp(struct sn_channel *channel, struct sn_qp *qp, uint32_t events);
int sn_channel_watch(struct sn_channel *channel, struct sn_qp *qp, int sock);
void sn_channel_unwatch(struct sn_channel *channel, int sock);

/* pair.c */
int sn_create_channel_pair(struct device *dev, struct ibv_comp_channel **comp,
			   struct cm_channel **cm);
void sn_pair_init(struct sn_pair *pair);
/* Brings the epoll in line with what the pair says. event_lock is held. */
int do_sn_pair_update(struct sn_channel *channel);
int sn_pair_watch_cm(struct sn_channel *channel, int sock, uint32_t events);
void sn_pair_unwatch_cm(struct sn_channel *channel);
/* Before the socket is closed. */
void sn_pair_forget(struct sn_channel *channel);
int sn_pair_watch_qp(struct sn_channel *channel, struct sn_qp *qp);
/* The channel's lock is held. @gone: the queue pair is about to be destroyed. */
void do_sn_pair_unwatch_qp(struct sn_channel *channel, bool gone);
void sn_pair_kick_cm(struct sn_channel *channel, bool kicked);
/* Whether connection management has something to do. The channel's lock is held. */
bool do_sn_pair_serve(struct sn_channel *channel, uint32_t events);

/* cq.c */
int sn_create_cq(struct device *dev, int cqe, void *cq_context, struct ibv_comp_channel *channel,
		 struct ibv_cq **cq);
void sn_destroy_cq(struct ibv_cq *cq);
int sn_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int sn_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* False if the CQ is full, which makes it dead. */
bool sn_cq_push(struct sn_cq *cq, const struct sn_cqe *cqe);
bool do_sn_cq_push(struct sn_cq *cq, const struct sn_cqe *cqe);
/* Drops the completions of a queue pair that were not polled. */
void sn_cq_forget(struct sn_cq *cq, struct sn_qp *qp);

/* scan.c */
/* Serves queue pairs that have work until there are @wanted completions, or all were looked at. */
void sn_cq_scan(struct sn_cq *cq, int wanted);
/* Completes what is there, so that it causes no notification, and then asks all for wake-ups. */
void do_sn_cq_arm_all(struct sn_cq *cq, int notify);
/* Makes room for one more queue pair, so that the data path allocates nothing. */
int sn_cq_reserve(struct sn_cq *cq);
void sn_cq_unreserve(struct sn_cq *cq);
void sn_cq_add(struct sn_cq *cq, struct sn_member *member);
/* Call when a cold queue pair has requests outstanding again. */
void sn_cq_warm(struct sn_cq *cq, struct sn_member *member);
void sn_cq_remove(struct sn_cq *cq, struct sn_member *member);
/* Serves one queue pair after its peer woke us. */
void sn_cq_serve(struct sn_cq *cq, struct sn_qp *qp);
/* Serves the queue pairs that wait for a point in time, after the timer fired. */
void sn_cq_serve_waiting(struct sn_cq *cq);
/* Says whether the queue pair has work that its peer's bell does not announce. */
void do_sn_qp_attend(struct sn_qp *qp, bool attention);

/* srq.c */
int sn_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **srq);
int sn_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
void sn_destroy_srq(struct ibv_srq *srq);
int sn_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
bool sn_srq_take(struct sn_srq *srq, struct sn_incoming *in);
/* @grows: it begins with memory for a few. */
int sn_recv_queue_init(struct sn_recv_queue *queue, uint32_t max_wr, uint32_t max_sge, bool grows);
void sn_recv_queue_release(struct sn_recv_queue *queue);
int sn_recv_queue_post(struct sn_recv_queue *queue, const struct ibv_recv_wr *wr);
bool sn_recv_queue_take(struct sn_recv_queue *queue, struct sn_incoming *in);

/* qp_number.c */
/* Gives @qp a number. ctx->lock is held. 0 or -ENOMEM. */
int do_sn_qp_number_take(struct sn_qp_numbers *numbers, struct sn_qp *qp);
void do_sn_qp_number_put(struct sn_qp_numbers *numbers, struct sn_qp *qp);
void sn_qp_numbers_release(struct sn_qp_numbers *numbers);

/* qp.c */
uint64_t sn_conn_bytes(const struct ibv_qp_cap *cap);
int sn_create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access);
int sn_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int sn_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
void sn_qp_destroy(struct sn_qp *qp);

struct sn_attach {
	struct link_shared *shared;
	unsigned int line; /* of its sides */
	int sock;
	bool is_active;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t reads_max;
};

/* Connects the queue pair to its peer: RTS. From then on the queue pair owns the shared memory. */
int sn_qp_attach(struct sn_qp *qp, const struct sn_attach *attach);
/* Call when accept or ready was sent: from now on files are passed to the peer. */
void sn_qp_announce(struct sn_qp *qp);
/* The socket carries wake-ups and grants from now on. */
int sn_qp_establish(struct sn_qp *qp);
/* Tells the peer that we disconnected, and flushes all requests. */
void sn_qp_disconnect(struct sn_qp *qp);
/* Flushes all requests, because the peer is gone. */
void sn_qp_lost(struct sn_qp *qp);
void do_sn_qp_lost(struct sn_qp *qp);
bool sn_qp_in_error(struct sn_qp *qp);
/* Fault plan: loses the connection. */
void sn_qp_drop(struct sn_qp *qp);
/* Fault plan: whether this completion is lost, and with it the queue pair. */
bool do_sn_qp_loses(struct sn_qp *qp);
/* To the error state: the oldest request gets @status, the others are flushed. */
void do_sn_qp_error(struct sn_qp *qp, enum ibv_wc_status status, enum link_error why);
/* The peer broke the protocol: logs @what it did, and disconnects it. */
void do_sn_qp_broken(struct sn_qp *qp, const char *what);

/* progress.c */
/* Does all work that the peer's published state allows, and publishes ours. */
void do_sn_qp_progress(struct sn_qp *qp);
/* The same after requests were posted: if the peer did nothing since, they are only published. */
void do_sn_qp_posted(struct sn_qp *qp);
void do_sn_qp_publish(struct sn_qp *qp);
/* Asks the peer for wake-ups, after all it did before was seen. False: it keeps us busy. */
bool do_sn_qp_arm(struct sn_qp *qp);
void do_sn_qp_disarm(struct sn_qp *qp);
/* enum link_wake: the progress of the peer that we are waiting for. */
uint32_t do_sn_qp_wanted(const struct sn_qp *qp);
/* Takes packets off the socket: up to a wake-up, or all of them. May put the qp in error. */
void do_sn_qp_drain(struct sn_qp *qp, bool all);
uint64_t sn_rnr_timer_ns(uint8_t code);
uint64_t do_sn_qp_timer_ns(const struct sn_qp *qp);

static inline bool sn_qp_has_work(struct sn_qp *qp)
{
	struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_acquire);

	return theirs &&
	       (side_bell(theirs) != atomic_load_explicit(&qp->seen_bell, memory_order_relaxed) ||
		atomic_load_explicit(&qp->attention, memory_order_relaxed));
}

/* send.c */
int sn_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int sn_send_queue_init(struct sn_qp *qp);
void sn_send_queue_release(struct sn_send_queue *sq);
void do_sn_send_push(struct sn_qp *qp);
void do_sn_send_complete(struct sn_qp *qp);
void do_sn_send_flush(struct sn_qp *qp, enum ibv_wc_status first);
int do_sn_send_acked(struct sn_qp *qp, uint32_t acked);
int do_sn_send_responses(struct sn_qp *qp);

static inline struct sn_send *sn_send_at(struct sn_qp *qp, uint32_t index)
{
	return &qp->sq.wrs[index & qp->sq.mask];
}

static inline struct ibv_sge *sn_send_sges(struct sn_qp *qp, uint32_t index)
{
	return &qp->sq.sges[(size_t)(index & qp->sq.mask) * qp->sq.stride];
}

/* recv.c */
int sn_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
/* Executes the peer's requests; -EPROTO if one is malformed. May put the queue pair in error. */
int do_sn_recv_requests(struct sn_qp *qp);
void do_sn_recv_flush(struct sn_qp *qp);

/* file.c */
/*
 * Whether the user at the other end of @sock may pass files: not if one of its processes has passed
 * what no kvd passes, which sn_file_bar() notes until SN_BARRED_MAX others did.
 */
bool sn_file_allowed(struct sn_context *ctx, int sock);
void sn_file_bar(struct sn_context *ctx, int sock);
/*
 * Takes a file that a peer passed; @fd stays the caller's. @is_first: the connection has no other
 * one. -EBADF: it is no memory; -EPERM: its length is not sealed; -EMFILE: there are enough.
 */
int sn_file_get(struct sn_context *ctx, int fd, bool is_first, struct sn_file **file);
void sn_file_put(struct sn_context *ctx, struct sn_file *file);
uint64_t sn_file_bytes(const struct sn_file *file);
/* Bytes that were read, at least 1 and maybe fewer than wanted, or a negative errno. */
int64_t sn_file_read(struct sn_context *ctx, const struct sn_file *file, uint64_t offset,
		     const struct iovec *to, unsigned int count);

/* read.c */
enum sn_read_path {
	SN_READ_MAPPED,	 /* source.memory is there */
	SN_READ_FILE,	 /* source.file is */
	SN_READ_SERVED,	 /* the peer has to serve it */
	SN_READ_REFUSED, /* the peer does not allow it */
	SN_READ_LOST,	 /* the queue pair is in error now */
};

struct sn_source {
	const uint8_t *memory;
	const struct sn_file *file;
	uint64_t offset;
};

enum sn_read_path do_sn_read_resolve(struct sn_qp *qp, uint32_t rkey, uint64_t addr,
				     uint32_t length, struct sn_source *source);
/*
 * Whether the memory of that key could still be READ just now, so that all that was copied of it
 * before is what the peer had registered. It writes to the memory again only after it has
 * deregistered it or closed its end.
 */
bool do_sn_read_stands(struct sn_qp *qp, uint32_t rkey);
/*
 * Executes the READs at the head of a chain that only need copying; *@wr is then the first one that
 * was not executed. Returns how many were.
 */
unsigned int do_sn_read_chain(struct sn_qp *qp, struct ibv_send_wr **wr);
int do_sn_grant_take(struct sn_qp *qp, const struct link_message *message, int fd);
/* The same for the side that accepts. -EPROTO: the peer broke the protocol. */
int do_sn_grant_open(struct sn_qp *qp, const struct link_message *message, int fd);
/* Gives back the files whose grants the peer has revoked. */
void do_sn_grants_review(struct sn_qp *qp);
void do_sn_grants_release(struct sn_qp *qp);
const uint8_t *sn_read_source(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, uint64_t length);
bool sn_fill(struct ibv_qp *qp, uint64_t addr, uint32_t left);
int64_t sn_read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
		    struct value_sum *sum);
void sn_read_copy(void *to, const uint8_t *from, size_t length);

/* map.c */
struct stat;
/*
 * The mapping of @length bytes of a file from @start on, both multiples of its page size, which is
 * @st's st_blksize; with the other connections of this device that have it. 0 or a negative errno.
 */
int sn_map_get(struct sn_context *ctx, int fd, const struct stat *st, uint64_t start, size_t length,
	       struct sn_map **out);
void sn_map_put(struct sn_context *ctx, struct sn_map *map);

/* life.c */
/*
 * Says that this process is alive for as long as the calling thread is, or until sn_life_end(),
 * which the same thread calls. After a failure, which is logged, there is none.
 */
void sn_life_begin(struct sn_life *life);
void sn_life_end(struct sn_life *life);
/* Passes it to the peer, once. */
void do_sn_life_send(struct sn_qp *qp);
/* Takes the peer's; the file stays the caller's. */
int do_sn_life_take(struct sn_qp *qp, int fd);
void do_sn_life_release(struct sn_qp *qp);

/* Whether, as its word says, the process of the peer's device has ended or has closed it. */
static inline bool do_sn_life_ended(const struct sn_qp *qp)
{
	return qp->life && !(atomic_load_explicit(qp->life, memory_order_acquire) & LINK_LIFE_MASK);
}

/* grant.c */
/* Grants the peer the files that it may map, and revokes the others. ctx->lock is held. */
void do_sn_grants_update(struct sn_qp *qp);
/* One key's, for a queue pair of any thread. ctx->lock is held. */
void do_sn_grant_revoke(struct sn_qp *qp, uint32_t rkey);
/*
 * Whether the side that connects may send another GRANT: LINK_GRANTS_MAX, and one for each SEND of
 * its that was taken. Both sides count: each GRANT costs the other side some system calls.
 */
bool do_sn_grant_allowed(const struct sn_qp *qp);
void sn_grants_update(struct sn_qp *qp);

/* address.c */
int sn_address_bind(struct sn_context *ctx);
/* 0 if there is a socket, -ECONNREFUSED, -EACCES. */
int sn_address_find(const struct device_addr *addr);
void sn_address_release(struct sn_context *ctx);
/* -EAGAIN: the listener's queue is full; try again. */
int sn_address_connect(const struct device_addr *addr, int *sock);

/* cm.c */
void sn_destroy_qp(struct cm_id *id);
int sn_id_set_qp(struct cm_id *id, struct sn_qp *qp);
int sn_create_cm_channel(struct device *dev, struct cm_channel **channel);
void sn_destroy_cm_channel(struct cm_channel *channel);
int sn_cm_get_event(struct cm_channel *channel, struct cm_event *event);
int sn_listen(struct cm_channel *channel, int backlog, struct cm_id **id);
int sn_create_id(struct cm_channel *channel, struct cm_id **id);
int sn_connect(struct cm_id *id, const struct cm_param *param);
int sn_accept(struct cm_id *id, const struct cm_param *param);
int sn_reject(struct cm_id *id, const void *private_data, uint8_t private_len);
int sn_query_peer(struct cm_id *id, struct cm_peer *peer);
int sn_disconnect(struct cm_id *id);
void sn_destroy_id(struct cm_id *id);
int sn_cm_channel_create(struct sn_context *ctx, struct sn_channel *pair,
			 struct cm_channel **channel);
void sn_cm_channel_kick(struct sn_cm_channel *channel);

#endif /* KVD_COMMON_RDMA_SOFTNIC_SOFTNIC_H */
