/* SPDX-License-Identifier: MIT */
/*
 * What the files of the verbs device share; librdmacm makes its connections: open.c (addresses),
 * qp.c (queue pairs), cm.c and event.c (connections), verbs.c (the table). objects.h has the
 * objects of libibverbs. Its ibv_context is not the one that librdmacm opens once for a process.
 */
#ifndef KVD_COMMON_RDMA_VERBS_VERBS_H
#define KVD_COMMON_RDMA_VERBS_VERBS_H

#include <pthread.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>

#include "common/rdma/verbs/objects.h"

struct verbs_device {
	struct verbs_port port;
	enum device_role role;
	struct sockaddr_storage addr; /* bound (LISTEN) or resolved (CONNECT) */
	int timeout_ms;		      /* for resolving the address again */

	/*
	 * The id that open() bound or resolved, on its own channel, whose events are never taken.
	 * The first listen() or create_id() takes it.
	 */
	struct rdma_event_channel *open_channel;
	_Atomic(struct rdma_cm_id *) open_id;
	/* CONNECT: how a queue pair enters INIT, for ids that are not resolved yet. */
	struct ibv_qp_attr init_attr;
	int init_mask;
};

enum verbs_id_state {
	VERBS_ID_RESOLVING,  /* address or route; connect() takes effect after it */
	VERBS_ID_READY,	     /* resolved, or a request that waits for accept() or reject() */
	VERBS_ID_CONNECTING, /* connect() or accept() was called, no response yet */
	VERBS_ID_CONNECTED,
	VERBS_ID_CLOSED, /* not resolved, refused, or disconnected by either end */
};

/*
 * The lock guards the few control calls that two threads may make on one connection: a worker
 * disconnects or destroys it while the control thread takes an event. It is never held in
 * rdma_destroy_id(), which waits until events are acknowledged.
 */
struct verbs_id {
	struct cm_id id; /* id.qp changes under the lock */
	struct rdma_cm_id *rdma;
	bool passive;

	pthread_mutex_t lock; /* guards the fields below */
	enum verbs_id_state state;
	bool connect_wanted; /* connect() was called while RESOLVING */
	int resolve_error;
	struct cm_param param; /* its private_data is the array below */
	uint8_t private_data[CM_PRIVATE_MAX_CONNECT];
	uint8_t responder_resources; /* negotiated */
	uint8_t initiator_depth;
};

struct verbs_channel {
	struct cm_channel channel;
	struct rdma_event_channel *rdma;
};

static inline struct verbs_id *verbs_id_of(struct cm_id *id)
{
	return (struct verbs_id *)id;
}

static inline struct verbs_channel *verbs_channel_of(struct cm_channel *channel)
{
	return (struct verbs_channel *)channel;
}

static inline struct verbs_device *verbs_device_of(struct device *dev)
{
	return (struct verbs_device *)dev;
}

/* open.c */
int verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
	       int timeout_ms);
void verbs_close(struct device *dev);

/* qp.c */
int verbs_create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access);
void verbs_destroy_qp(struct cm_id *id);
/* Moves the queue pair from INIT to RTR to RTS, with the negotiated values. @vid's lock is held. */
int verbs_qp_connect(struct verbs_id *vid);
/* Moves the queue pair, if there is one, to the error state. The lock is held. */
int verbs_qp_error(struct verbs_id *vid);

/* cm.c */
int verbs_create_cm_channel(struct device *dev, struct cm_channel **channel);
void verbs_destroy_cm_channel(struct cm_channel *channel);
int verbs_listen(struct cm_channel *channel, int backlog, struct cm_id **id);
int verbs_create_id(struct cm_channel *channel, struct cm_id **id);
int verbs_connect(struct cm_id *id, const struct cm_param *param);
int verbs_accept(struct cm_id *id, const struct cm_param *param);
int verbs_reject(struct cm_id *id, const void *private_data, uint8_t private_len);
int verbs_query_peer(struct cm_id *id, struct cm_peer *peer);
int verbs_disconnect(struct cm_id *id);
void verbs_destroy_id(struct cm_id *id);
/* Allocates an id (0 or -ENOMEM), and attaches librdmacm's id to it. */
int verbs_id_alloc(struct cm_channel *channel, struct verbs_id **vid);
void verbs_id_attach(struct verbs_id *vid, struct rdma_cm_id *rdma);
/* Starts the requested connect. The id is READY and its lock held. */
int verbs_id_connect(struct verbs_id *vid);

/* event.c */
int verbs_cm_get_event(struct cm_channel *channel, struct cm_event *event);

#endif /* KVD_COMMON_RDMA_VERBS_VERBS_H */
