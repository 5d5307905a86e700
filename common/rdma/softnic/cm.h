/* SPDX-License-Identifier: MIT */
/*
 * Connection management: channels, ids and their events (cm.c), and the messages by which two ends
 * connect (handshake.c).
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_CM_H
#define KVD_COMMON_RDMA_SOFTNIC_CM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/rdma/softnic/timer.h"

#define SN_UNREPORTED_MAX 1024 /* incoming connections that no event has reported yet */
#define SN_ID_MAX (SN_QP_MAX + SN_UNREPORTED_MAX)
#define SN_HALF_OPEN_MAX 64 /* peers that connected and have not sent a connect request */

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
	bool reported;	  /* the caller knows the id: from an event, or because it created it */
	bool watched;	  /* in the channel's epoll */
	uint32_t pending; /* events to deliver: 1 << enum cm_event_type, lowest first */
	int status;	  /* of the event UNREACHABLE */
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
	struct cm_channel cm; /* its fd: an epoll of kick_fd, timer_fd and the ids' sockets */
	struct sn_context *ctx;
	struct sn_channel *pair; /* the completion channel whose epoll it is: pair.c; or NULL */
	TAILQ_ENTRY(sn_cm_channel) in_context;
	int kick_fd;  /* -1 with a pair */
	int timer_fd; /* with a pair: -1 while no timer is set */
	pthread_mutex_t lock;
	struct sn_id_list ids;
	struct sn_id_list ready;
	struct sn_id_list half_open; /* oldest first */
	unsigned int half_open_count;
	struct sn_timers timers;
	unsigned int unreported; /* ids that are not reported, the half-open ones included */
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

/* The channel's lock is held in all functions below. */
struct sn_id *do_sn_id_create(struct sn_cm_channel *channel, enum sn_id_state state);
void do_sn_id_free(struct sn_id *id);
void do_sn_id_event(struct sn_id *id, enum cm_event_type type);
int do_sn_id_watch(struct sn_id *id, uint32_t events);
void do_sn_id_unwatch(struct sn_id *id);
/* Moves an id from HALF_OPEN to @state. */
void do_sn_id_opened(struct sn_id *id, enum sn_id_state state);
void do_sn_id_set_timer(struct sn_id *id, struct sn_timer *timer, enum sn_delay delay);
void do_sn_id_cancel_timer(struct sn_id *id, struct sn_timer *timer);
/* Ends a connection, or an attempt to connect, with an event. */
void do_sn_id_end(struct sn_id *id, enum cm_event_type type, int status);

/* handshake.c */
void do_sn_handshake(struct sn_id *id, uint32_t events);
/* Call it when the id's deadline or retry is due and is not set any more. May free the id. */
void do_sn_handshake_due(struct sn_id *id);
void do_sn_handshake_connect(struct sn_id *id);

#endif /* KVD_COMMON_RDMA_SOFTNIC_CM_H */
