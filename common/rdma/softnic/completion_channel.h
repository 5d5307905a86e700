/* SPDX-License-Identifier: MIT */
/* Completion channels (channel.c), and pairs of one with a CM channel (pair.c). */
#ifndef KVD_COMMON_RDMA_SOFTNIC_COMPLETION_CHANNEL_H
#define KVD_COMMON_RDMA_SOFTNIC_COMPLETION_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/softnic.h"

#define SN_CHANNEL_MAX 1024 /* of either kind */
#define SN_WAKE_MAX 64	    /* sockets served by one ibv_get_cq_event() */

TAILQ_HEAD(sn_cq_list, sn_cq);

/*
 * A completion channel's part of a pair, which shares its epoll with a CM channel. All fields but
 * qp are under event_lock.
 */
struct sn_pair {
	int sock;	    /* the one connection's; -1: none */
	uint32_t cm_events; /* epoll events of the socket that connection management wants */
	uint32_t qp_events; /* epoll events of the socket that the queue pair wants */
	uint32_t watched;   /* epoll events that are watched; 0: the epoll has no socket */
	bool cm_kicked;	    /* the CM channel has something to do */
	struct sn_qp *qp;   /* the queue pair that is served; under the channel's lock */
};

struct sn_channel {
	struct ibv_comp_channel verbs; /* its fd: an epoll of the next three and of all sockets */
	struct sn_context *ctx;
	TAILQ_ENTRY(sn_channel) in_context;
	int kick_fd;  /* eventfd: there are notifications; of a pair: -1 unless it is needed */
	int timer_fd; /* for queue pairs that wait for a point in time; of a pair: -1 unless set */
	int also_fd;  /* the descriptor given to sleep(); -1: none */
	bool paired;  /* with a CM channel: pair.c */
	struct sn_pair pair;
	pthread_mutex_t lock;
	struct sn_cq_list cqs;
	uint32_t unwatched; /* count of sockets taken out of the epoll */

	pthread_mutex_t event_lock;
	struct sn_cq_list ready;
	bool taking; /* a thread serves and takes what is ready afterwards: no kick is needed */
	bool kicked; /* kick_fd is readable, or the pair's socket is watched for being writable */
};

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
/* Call it before the socket is closed. */
void sn_pair_forget(struct sn_channel *channel);
int sn_pair_watch_qp(struct sn_channel *channel, struct sn_qp *qp);
/* The channel's lock is held. @gone: the queue pair is about to be destroyed. */
void do_sn_pair_unwatch_qp(struct sn_channel *channel, bool gone);
void sn_pair_kick_cm(struct sn_channel *channel, bool kicked);
/* Whether connection management has something to do. The channel's lock is held. */
bool do_sn_pair_serve(struct sn_channel *channel, uint32_t events);

#endif /* KVD_COMMON_RDMA_SOFTNIC_COMPLETION_CHANNEL_H */
