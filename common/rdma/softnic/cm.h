/* SPDX-License-Identifier: MIT */
/* Connection management: what its two files share. cm.c: the calls; handshake.c: what peers say. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_CM_H
#define KVD_COMMON_RDMA_SOFTNIC_CM_H

#include "common/rdma/softnic/softnic.h"

enum sn_id_state {
	SN_ID_NEW, /* ours, to be connected */
	SN_ID_LISTENING,
	SN_ID_HALF_OPEN, /* a peer is there and has not said what it wants; nobody knows of it */
	SN_ID_REQUESTED, /* the owner is to accept or reject */
	SN_ID_ACCEPTED,	 /* the peer is to say that it is ready */
	SN_ID_CALLING,	 /* the listener's queue is full; to be tried again */
	SN_ID_WAITING,	 /* the peer is to accept or reject */
	SN_ID_ESTABLISHED,
	SN_ID_DONE, /* over, whatever the reason */
};

struct sn_id {
	struct cm_id cm;
	struct sn_context *ctx;
	TAILQ_ENTRY(sn_id) in_channel;
	TAILQ_ENTRY(sn_id) in_ready;
	enum sn_id_state state;
	int sock;
	bool known;	      /* its owner has been told of it, or made it */
	bool watched;	      /* in the channel's epoll */
	uint32_t pending;     /* events to deliver: 1 << enum cm_event_type, lowest first */
	int status;	      /* of UNREACHABLE */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	uint64_t retry_ns;    /* CALLING: when to try again; LISTENING: when to accept again */
	struct link_message message; /* what was last received in the handshake, or is to be sent */
	uint8_t responder_resources; /* as reported by events */
	uint8_t initiator_depth;
	uint8_t rnr_retry; /* CALLING, WAITING: what connect() was told */
	uint8_t min_rnr_timer;
};

TAILQ_HEAD(sn_id_list, sn_id);

struct sn_cm_channel {
	struct cm_channel cm; /* its fd: an epoll of all that follows and of the ids' sockets */
	struct sn_context *ctx;
	TAILQ_ENTRY(sn_cm_channel) in_context;
	int kick_fd;
	int timer_fd;
	pthread_mutex_t lock;
	struct sn_id_list ids;
	struct sn_id_list ready;
	unsigned int half_open;
	unsigned int unknown; /* ids that nobody was told of, the half-open ones included */
	uint64_t timer_ns;    /* when the timer fires; 0: not set */
	bool removed_told;    /* DEVICE_REMOVED was delivered to all ids */
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

/* All with the channel's lock held. */
struct sn_id *do_sn_id_create(struct sn_cm_channel *channel, enum sn_id_state state);
void do_sn_id_free(struct sn_id *id);
void do_sn_id_event(struct sn_id *id, enum cm_event_type type);
int do_sn_id_watch(struct sn_id *id, uint32_t events);
void do_sn_id_unwatch(struct sn_id *id);
void do_sn_id_set_timer(struct sn_id *id, uint64_t *when, uint64_t delay_ms);
/* The connection is over, or never came to be. */
void do_sn_id_end(struct sn_id *id, enum cm_event_type type, int status);

/* handshake.c */
void do_sn_handshake(struct sn_id *id, uint32_t events);
/* The id's deadline or retry is due. */
void do_sn_handshake_due(struct sn_id *id, uint64_t now);
void do_sn_handshake_call(struct sn_id *id);

#endif /* KVD_COMMON_RDMA_SOFTNIC_CM_H */
