/* SPDX-License-Identifier: MIT */
/*
 * Queue pairs: their numbers (qp_number.c), states and errors (qp.c), how they move forward
 * (progress.c), and what they receive (recv.c).
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_QUEUE_PAIR_H
#define KVD_COMMON_RDMA_SOFTNIC_QUEUE_PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/receive_queue.h"
#include "common/rdma/softnic/ring.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/softnic.h"

#define SN_QP_MAX 65536
#define SN_WR_MAX 16384	 /* work requests of a send or receive queue */
#define SN_READS_MAX 128 /* READs of memory that is not mapped, outstanding in one direction */
#define SN_ARM_ROUNDS 4	 /* attempts to go to sleep while the peer keeps sending */
#define SN_DRAIN_MAX (LINK_GRANTS_MAX + 3) /* packets taken off a socket at once */
#define SN_WAKES_LATE 1		   /* wake-ups that can be on their way while none is asked for */
#define SN_RNR_SLEEP_NS 1000000ull /* least pause between checks for a receive while asleep */

/* The peer's READ that is being served; its request stays in the ring until all is served. */
struct sn_serving {
	bool active;
	uint64_t addr;
	uint32_t rkey;
	uint32_t left;
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
	uint64_t hold_until_ns; /* fault plan: the delay's end */
	uint64_t late_until_ns; /* fault plan: the oldest request completes then */
	uint64_t lost_until_ns; /* fault plan: a completion was lost; its request fails then */
	const _Atomic uint32_t *life; /* the peer's word; NULL: unknown, so we check the socket */
	struct sn_map *life_map;
	bool life_due;	     /* our word has not been passed to the peer yet */
	uint32_t life_reads; /* READs since we have the peer's word */
	uint64_t tick;	     /* when the socket was last checked */
	struct ring_out request_out;
	struct ring_in request_in;
	struct ring_out response_out;
	struct ring_in response_in;
	uint32_t acked; /* SENDs of the peer that we received */
	struct sn_send_queue sq;
	struct sn_recv_queue rq;
	struct sn_incoming incoming;
	struct sn_serving serving;
	struct sn_mw_list windows;	   /* bound to it: mw.c, under the locks of struct sn_mw */
	bool window_new;		   /* one of the windows has not been granted yet */
	uint32_t granted[LINK_GRANTS_MAX]; /* keys that the peer may read; under ctx->lock */
	uint32_t mr_changes;		   /* the context's count when granted[] was updated */
	struct sn_grant grants[LINK_GRANTS_MAX];
	uint32_t grant_last;
	uint32_t grants_open;	  /* grants that are files of a client's */
	uint64_t grants_count;	  /* GRANTs sent by the connecting side: do_sn_grant_allowed() */
	uint64_t sends_taken;	  /* its SENDs that the other side took, as far as we know */
	uint32_t copy_left;	  /* bytes of files that progress may still READ */
	bool copying;		  /* a READ of a file waits until copy_left is not 0 */
	struct sn_async last_wqe; /* its SRQ gives it no more receives */
	struct sn_async access_error;
};

static inline struct sn_qp *to_sn_qp(struct ibv_qp *qp)
{
	return sn_container(qp, struct sn_qp, verbs);
}

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
/* Call it when accept or ready was sent: from now on files are passed to the peer. */
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
/* The peer broke the protocol: logs @what, and disconnects it. */
void do_sn_qp_broken(struct sn_qp *qp, const char *what);

/* progress.c */
/* Does all work that the peer's published state allows, and publishes ours. */
void do_sn_qp_progress(struct sn_qp *qp);
/* Call it after requests were posted: progress, but only publishing if the peer did nothing. */
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

/* Whether the process of the peer's device has ended or closed it, as its life word says. */
static inline bool do_sn_life_ended(const struct sn_qp *qp)
{
	return qp->life && !(atomic_load_explicit(qp->life, memory_order_acquire) & LINK_LIFE_MASK);
}

/* recv.c */
int sn_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
/* Executes the peer's requests; -EPROTO if one is malformed. May put the queue pair in error. */
int do_sn_recv_requests(struct sn_qp *qp);
void do_sn_recv_flush(struct sn_qp *qp);

/* The send queue's slots: send_queue.h. */
static inline struct sn_send *sn_send_at(struct sn_qp *qp, uint32_t index)
{
	return &qp->sq.wrs[index & qp->sq.mask];
}

static inline struct ibv_sge *sn_send_sges(struct sn_qp *qp, uint32_t index)
{
	return &qp->sq.sges[(size_t)(index & qp->sq.mask) * qp->sq.stride];
}

#endif /* KVD_COMMON_RDMA_SOFTNIC_QUEUE_PAIR_H */
