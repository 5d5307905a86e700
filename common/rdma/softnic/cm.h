/* SPDX-License-Identifier: MIT */
/*
 * What the two files of connection management share: cm.c has the calls and events, handshake.c the
 * messages between two ends.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_CM_H
#define KVD_COMMON_RDMA_SOFTNIC_CM_H

#include "common/rdma/softnic/softnic.h"
#include "common/rdma/softnic/timer.h"

enum sn_id_state {
	SN_ID_NEW, /* created, not connecting yet */
	SN_ID_LISTENING,
	SN_ID_HALF_OPEN, /* waits for a peer's connect request; no event has reported it */
	SN_ID_REQUESTED, /* waits for accept() or reject() */
	SN_ID_ACCEPTED,	 /* waits for the peer's READY */
	SN_ID_RETRYING,	 /* the listener's queue was full: connects again at retry_ns */
	SN_ID_WAITING,	 /* waits for the peer's ACCEPT or REJECT */
	SN_ID_ESTABLISHED,
	SN_ID_DONE, /* ended, for whatever reason */
};

struct sn_id {
	struct cm_id cm;
	struct sn_context *ctx;
	TAILQ_ENTRY(sn_id) in_channel;
	TAILQ_ENTRY(sn_id) in_ready;
	TAILQ_ENTRY(sn_id) in_half_open;
	enum sn_id_state state;
	int sock;
	bool reported;	  /* the caller knows it: from an event, or because it created it */
	bool watched;	  /* in the channel's epoll */
	uint32_t pending; /* events to deliver: 1 << enum cm_event_type, lowest first */
	int status;	  /* of UNREACHABLE */
	struct sn_timer deadline;
	struct sn_timer retry;	     /* RETRYING: to connect again; LISTENING: to accept again */
	struct link_message message; /* the handshake's last message, received or to be sent */
	uint8_t responder_resources; /* as events report it */
	uint8_t initiator_depth;
	uint8_t rnr_retry; /* RETRYING, WAITING: connect()'s parameter */
	uint8_t min_rnr_timer;
};

TAILQ_HEAD(sn_id_list, sn_id);

struct sn_cm_channel {
	struct cm_channel cm; /* its fd: an epoll of all that follows and of the ids' sockets */
	struct sn_context *ctx;
	struct sn_channel *pair; /* the completion channel whose epoll it is: pair.c; or NULL */
	TAILQ_ENTRY(sn_cm_channel) in_context;
	int kick_fd;  /* -1 with a pair */
	int timer_fd; /* with a pair: -1 while no timer is set */
	pthread_mutex_t lock;
	struct sn_id_list ids;
	struct sn_id_list ready;
	struct sn_id_list half_open; /* the oldest first */
	unsigned int half_open_count;
	struct sn_timers timers;
	unsigned int unreported; /* ids that are not reported, with the half-open ones */
	uint64_t timer_ns;	 /* when timer_fd fires; 0: not set */
	bool removed_reported;	 /* DEVICE_REMOVED was delivered to all ids */
};

static inline struct sn_id *to_sn_id(struct cm_id *id)
{
	return sn_container(id, struct sn_id, cm);
}

static inline struct sn_cm_channel *to_sn_cm_channel(struct cm_channel *channel)
{
	return sn_container(channel, struct sn_cm_channel, cm);
}

static inline struct sn_cm_channel *sn_id_channel(const struct sn_id *id)
{
	return to_sn_cm_channel(id->cm.channel);
}

/* All are called with the channel's lock held. */
struct sn_id *do_sn_id_create(struct sn_cm_channel *channel, enum sn_id_state state);
void do_sn_id_free(struct sn_id *id);
void do_sn_id_event(struct sn_id *id, enum cm_event_type type);
int do_sn_id_watch(struct sn_id *id, uint32_t events);
void do_sn_id_unwatch(struct sn_id *id);
/* The state after HALF_OPEN; the id was in that. */
void do_sn_id_opened(struct sn_id *id, enum sn_id_state state);
void do_sn_id_set_timer(struct sn_id *id, struct sn_timer *timer, enum sn_delay delay);
void do_sn_id_cancel_timer(struct sn_id *id, struct sn_timer *timer);
/* Ends a connection, or an attempt to connect, with an event. */
void do_sn_id_end(struct sn_id *id, enum cm_event_type type, int status);

/* handshake.c */
void do_sn_handshake(struct sn_id *id, uint32_t events);
/* The id's deadline or retry is due, and not set any more. May free the id. */
void do_sn_handshake_due(struct sn_id *id);
void do_sn_handshake_connect(struct sn_id *id);

#endif /* KVD_COMMON_RDMA_SOFTNIC_CM_H */
