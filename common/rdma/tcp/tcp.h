/* SPDX-License-Identifier: MIT */
/*
 * RDMA devices that set up their connections over TCP instead of rdma_cm: over a TCP connection
 * the two ends exchange the addresses of their queue pairs (message.h) and move them from RESET to
 * INIT, RTR and RTS themselves, as in clusters without rdma_cm or IPoIB. The TCP connection stays
 * open; when it ends, so does the RDMA connection. Over TLS each end also authenticates the other.
 *
 *	open.c	  devices and their addresses	gid.c	  which GID a queue pair has
 *	cm.c	  calls				setup.c	  messages and events
 *	qp.c	  queue pairs			socket.c  sockets
 *
 * Locks: a channel's lock guards its ids and all that is theirs, so that one thread may disconnect
 * or destroy an id while another takes the events of the channel. Nothing blocks under it.
 */
#ifndef KVD_COMMON_RDMA_TCP_TCP_H
#define KVD_COMMON_RDMA_TCP_TCP_H

#include <pthread.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/rdma/tcp/message.h"
#include "common/tls/tls.h"
#include "common/rdma/verbs/objects.h"
#include "common/util/setups.h"

struct tcp_device {
	struct verbs_port port;
	enum device_role role;
	struct sockaddr_storage addr; /* LISTEN: the device's own; CONNECT: the server's */
	/* LISTEN: the bound socket made by open(), until the first listen() takes it; then -1. */
	_Atomic int bound_fd;
	pthread_mutex_t tls_lock;
	struct tls_context *tls; /* under tls_lock; NULL: TCP alone */
};

enum tcp_state {
	TCP_IDLE,	/* connecting end: connect() was not called */
	TCP_CONNECTING, /* connecting end: TCP connects */
	TCP_REQUESTED,	/* connecting end: REQUEST is sent */
	TCP_ACCEPTED,	/* accepting end: ACCEPT is sent */
	TCP_UP,
	TCP_CLOSED,

	TCP_LISTENING,	/* a listener */
	TCP_SETTING_UP, /* accepting end: waits for REQUEST; the channel owns the id */
	TCP_ASKED,	/* accepting end: delivered, waits for accept() or reject() */
	TCP_LINGERING,	/* accepting end: refused, and about to learn it; else like SETTING_UP */
};

struct tcp_id {
	struct cm_id id;
	enum tcp_state state;
	bool passive;
	int fd;				 /* -1: none */
	struct tls *tls;		 /* NULL: TCP alone */
	char identity[TLS_IDENTITY_MAX]; /* of the peer, since tcp_query_peer() */
	bool shaking;			 /* in a TLS handshake: CONNECTING or SETTING_UP */
	struct tcp_message got;
	uint8_t in[TCP_MESSAGE_BYTES]; /* the next message, as far as it has arrived */
	unsigned int in_len;
	struct tcp_end mine;	   /* as told to the peer */
	uint32_t gid_index;	   /* of mine.gid */
	struct cm_param param;	   /* its private data is `told` */
	struct tcp_message told;   /* to send once TCP is connected */
	int error;		   /* why connect() failed, if it is in channel->failures; else 0 */
	struct setup setup;	   /* accepting end: in channel->setups, until it is set up */
	TAILQ_ENTRY(tcp_id) entry; /* in failures */
};

struct tcp_channel {
	struct cm_channel channel; /* its fd is an epoll instance */
	pthread_mutex_t lock;
	int timer_fd;
	int spare_fd;	      /* closed when there is no other descriptor to accept with */
	struct setups setups; /* of ids SETTING_UP or LINGERING */
	TAILQ_HEAD(tcp_failures, tcp_id) failures; /* ids whose connect() failed at once */
};

static inline struct tcp_id *tcp_id_of(struct cm_id *id)
{
	return (struct tcp_id *)id;
}

static inline struct tcp_id *tcp_id_of_setup(struct setup *setup)
{
	return (struct tcp_id *)((char *)setup - offsetof(struct tcp_id, setup));
}

static inline struct tcp_channel *tcp_channel_of(struct cm_channel *channel)
{
	return (struct tcp_channel *)channel;
}

static inline struct tcp_device *tcp_device_of(struct device *dev)
{
	return (struct tcp_device *)dev;
}

/* open.c */
/* Takes a reference to the device's TLS context; NULL: TCP alone. */
struct tls_context *tcp_tls_get(struct tcp_device *od);
int tcp_renew(struct device *dev, const struct tls_files *files, char *why);
int tcp_open(struct device **dev, const struct device_addr *addr, enum device_role role,
	     int timeout_ms);
void tcp_close(struct device *dev);

/* gid.c */
/*
 * Chooses the GID for a queue pair: one of RoCE v2 before one of RoCE v1, then the one of @local,
 * the address of the TCP connection, then any that is not link-local, then the first one. With
 * @peer, only GIDs of the same kind, RoCE version and address family. On InfiniBand it is GID index
 * 0. If the port's link sets an index, that one. 0; -EADDRNOTAVAIL: there is none, or the GID of
 * that index does not exist or reach @peer, after logging; or another negative errno.
 */
int tcp_gid_choose(const struct verbs_port *port, const struct sockaddr_storage *local,
		   const struct tcp_end *peer, struct ibv_gid_entry *entry);
/* Whether a port of @context has a GID of this address, and which port (@number). */
bool tcp_gid_find(struct ibv_context *context, const struct sockaddr_storage *addr,
		  uint8_t *number);

/* qp.c */
int tcp_create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access);
void tcp_destroy_qp(struct cm_id *id);
/*
 * Sets what the peer needs to know of the queue pair, and a GID for a TCP connection from @local,
 * to @peer if that is known: oid->mine but its READs, and oid->gid_index. Returns like
 * tcp_gid_choose().
 */
int tcp_end_describe(struct tcp_id *oid, const struct sockaddr_storage *local,
		     const struct tcp_end *peer);
/* Moves the queue pair from INIT to RTR to RTS, connected to id->got.end. The lock is held. */
int tcp_qp_connect(struct tcp_id *oid);
/* Moves the queue pair, if there is one, to the error state. The lock is held. */
int tcp_qp_error(struct tcp_id *oid);

/* setup.c; the lock is held but in tcp_cm_get_event(). */
/* Watches the id's socket, for writing before it is connected. 0 or a negative errno. */
int tcp_watch(struct tcp_id *oid, uint32_t events, int op);
/* Closes the socket and ends TLS, if there are any; no event comes from them any more. */
void tcp_hang_up(struct tcp_id *oid);
/* Sends the message; -EPIPE or another negative errno: the peer has gone. */
int tcp_send(struct tcp_id *oid, const struct tcp_message *message);
/* Connecting failed at once: the channel's next event says so. */
void tcp_failure(struct tcp_id *oid, int err);
void tcp_failure_forget(struct tcp_id *oid);
/* Closes and frees the set-ups. */
void tcp_setups_drop(struct tcp_channel *oc);
int tcp_cm_get_event(struct cm_channel *channel, struct cm_event *event);

/* cm.c */
int tcp_create_cm_channel(struct device *dev, struct cm_channel **channel);
void tcp_destroy_cm_channel(struct cm_channel *channel);
int tcp_listen(struct cm_channel *channel, int backlog, struct cm_id **id);
int tcp_create_id(struct cm_channel *channel, struct cm_id **id);
int tcp_connect(struct cm_id *id, const struct cm_param *param);
int tcp_accept(struct cm_id *id, const struct cm_param *param);
int tcp_reject(struct cm_id *id, const void *private_data, uint8_t private_len);
int tcp_query_peer(struct cm_id *id, struct cm_peer *peer);
int tcp_disconnect(struct cm_id *id);
void tcp_destroy_id(struct cm_id *id);
/* Allocates an id without a socket: 0 or -ENOMEM. */
int tcp_id_alloc(struct cm_channel *channel, enum tcp_state state, struct tcp_id **oid);
/* Frees the id, with its queue pair and its socket. The lock is held. */
void tcp_id_free(struct tcp_id *oid);

#endif /* KVD_COMMON_RDMA_TCP_TCP_H */
