/* SPDX-License-Identifier: MIT */
/* Completion queues (cq.c), and which of their queue pairs a poll looks at (scan.c). */
#ifndef KVD_COMMON_RDMA_SOFTNIC_COMPLETION_QUEUE_H
#define KVD_COMMON_RDMA_SOFTNIC_COMPLETION_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/softnic.h"

#define SN_CQ_MAX 1024
#define SN_CQE_MAX 262144
#define SN_SKIP_MAX 8	     /* polls in a row that may return completions without a scan */
#define SN_HOT_SCAN 1024     /* bells that one poll looks at: some microseconds */
#define SN_SCAN_ON 64	     /* bells that a scan looks at after one with work */
#define SN_WAITING_SCAN 16   /* queue pairs of the waiting list that one poll serves */
#define SN_COLD_SCAN 32	     /* cold queue pairs that are looked at per clock tick */
#define SN_COOL_MAX 32	     /* hot queue pairs that become cold per clock tick */
#define SN_COLD_AFTER_MS 200 /* without traffic */
#define SN_SERVE_AFTER 128   /* scans without work after which a poll serves the channel, too */
#define SN_SERVE_SOON 8	     /* SN_SERVE_AFTER, after the channel woke a cold queue pair */
#define SN_ARMED_SCANS 2     /* scans between arming and sleeping that leave the channel alone */
#define SN_HOT_COST 64	     /* looking at this many bells costs as much as a scan of one */
#define SN_BUSY_SCAN 2	     /* scans as which a scan with work counts: it takes longer */
#define SN_TICK_SCAN 4	     /* hot queue pairs whose socket is checked per clock tick */
#define SN_COPY_STEP 65536u  /* bytes of files that one queue pair READs in a scan */
#define SN_COPY_SCAN (2 * SN_COPY_STEP) /* bytes of files READ in a scan: 20 us */

/* A completion, and the slots of the send queue that polling it frees. */
struct sn_cqe {
	struct ibv_wc wc;
	struct sn_qp *qp;
	uint32_t sq_end;
	bool is_send;
	bool solicited;
};

/*
 * A queue pair's places in a CQ: among the hot or the cold queue pairs, and in the waiting list
 * while qp->attention is set.
 */
struct sn_member {
	struct sn_qp *qp;
	bool hot;	     /* in the CQ's hot array; under list_lock */
	_Atomic bool asleep; /* armed, so its peer wakes us up; written under list_lock */
	uint32_t index;	     /* in that array; under list_lock */
	TAILQ_ENTRY(sn_member) in_cold;	   /* under list_lock */
	TAILQ_ENTRY(sn_member) in_waiting; /* under the CQ's lock */
};

TAILQ_HEAD(sn_member_list, sn_member);

/* What a scan needs to know of a hot queue pair. */
struct sn_hot {
	const struct link_side *theirs; /* with the bell that is watched */
	uint32_t seen;			/* last bell seen here; other threads may have seen later */
	uint32_t active_ms;		/* the clock tick of the bell's last change */
	bool asleep;			/* the member's */
};

enum sn_notify { SN_NOTIFY_NONE, SN_NOTIFY_SOLICITED, SN_NOTIFY_ANY };

struct sn_cq {
	struct ibv_cq verbs;
	struct sn_context *ctx;
	struct sn_channel *channel; /* or NULL */
	bool dead_noticed;	    /* a scan has found the device dead; under list_lock */

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
	_Atomic uint32_t waiting_count; /* written under lock */

	struct sn_lock list_lock;
	struct sn_hot *hot;		/* hot_count entries, room for hot_max */
	struct sn_member **hot_members; /* the members of these entries */
	struct sn_member_list cold;	/* asleep */
	uint32_t hot_count;
	uint32_t hot_max;
	uint32_t reserved;     /* queue pairs for which there is room */
	uint32_t hot_next;     /* where the next scan begins */
	uint32_t cool_next;    /* where the next tick begins */
	uint32_t tick_ms;      /* the coarse clock's last tick */
	bool ticked;	       /* there was a tick whose work is not done yet */
	uint32_t unserved;     /* scans since the channel was served */
	uint32_t serve_after;  /* SN_SERVE_SOON to SN_SERVE_AFTER */
	uint32_t armed_scans;  /* scans since the CQ was armed */
	bool waits;	       /* the last scan found no work */
	uint32_t wait_tick_ms; /* the clock's tick at the first scan of this wait */
	uint32_t found_scans;  /* scans with work, since one of them did the work of a tick */
	uint32_t copy_left;    /* bytes of files that this scan may still READ */

	TAILQ_ENTRY(sn_cq) in_channel; /* under the channel's lock */
	TAILQ_ENTRY(sn_cq) in_ready;   /* under the channel's event_lock */
	uint32_t events;	       /* under the channel's event_lock */
};

static inline struct sn_cq *to_sn_cq(struct ibv_cq *cq)
{
	return sn_container(cq, struct sn_cq, verbs);
}

/* cq.c */
int sn_create_cq(struct device *dev, int cqe, void *cq_context, struct ibv_comp_channel *channel,
		 struct ibv_cq **cq);
void sn_destroy_cq(struct ibv_cq *cq);
int sn_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int sn_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* False if the CQ is full, which makes it dead. */
bool sn_cq_push(struct sn_cq *cq, const struct sn_cqe *cqe);
/* Drops the completions of a queue pair that were not polled. */
void sn_cq_forget(struct sn_cq *cq, struct sn_qp *qp);

/* scan.c */
/* Serves queue pairs that have work until there are @wanted completions, or all were looked at. */
void sn_cq_scan(struct sn_cq *cq, int wanted);
/* Completes all that is there, so that it causes no notification, and then asks for wake-ups. */
void do_sn_cq_arm_all(struct sn_cq *cq, int notify);
/* Makes room for one more queue pair, so that the data path allocates nothing. */
int sn_cq_reserve(struct sn_cq *cq);
void sn_cq_unreserve(struct sn_cq *cq);
void sn_cq_add(struct sn_cq *cq, struct sn_member *member);
/* Call it when a queue pair that is asleep has requests outstanding again. */
void sn_cq_warm(struct sn_cq *cq, struct sn_member *member);
void sn_cq_remove(struct sn_cq *cq, struct sn_member *member);
/* Serves one queue pair after its peer woke us. */
void sn_cq_serve(struct sn_cq *cq, struct sn_qp *qp);
/* Serves the queue pairs that wait for a point in time, after the timer fired. */
void sn_cq_serve_waiting(struct sn_cq *cq);
/* Says whether the queue pair has work that its peer's bell does not announce. */
void do_sn_qp_attend(struct sn_qp *qp, bool attention);

#endif /* KVD_COMMON_RDMA_SOFTNIC_COMPLETION_QUEUE_H */
