/* SPDX-License-Identifier: MIT */
/*
 * Two ends of softnic in one process, for the unit tests of that device: each end has a device with
 * one object of each kind. The functions return the device's result, so that a test can make any of
 * them fail; end_release() also releases an end that is only partly set up.
 */
#ifndef KVD_TESTS_SUPPORT_SOFTNIC_PAIR_H
#define KVD_TESTS_SUPPORT_SOFTNIC_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"

#define PAIR_WAIT_MS 300000
#define PAIR_RECVS 64
#define PAIR_MEM_BYTES (256 * 1024)
#define PAIR_SEND_WR 64

/* The server end's private data: where the client end may READ. */
struct pair_hello {
	uint64_t addr;
	uint32_t rkey;
};

struct end {
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_cq *recv_cq; /* the same as cq, unless end_options.two_cqs is set */
	struct ibv_srq *srq;
	struct cm_channel *cm;
	struct cm_id *listener;
	struct cm_id *id; /* the first one */
	uint8_t *mem;	  /* the first half for SENDs and READs, the second for receives */
	int fd;
	struct ibv_mr *mr;
	struct pair_hello remote;
	unsigned int connected;
	unsigned int disconnected;
};

struct end_options {
	bool share;   /* the memory is a memfd */
	bool two_cqs; /* each with its own channel; end.comp is the one of recv_cq */
	bool paired;  /* create_channel_pair(): for a client with one connection */
	int access;   /* rights of the peer on the queue pairs */
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
};

extern const struct end_options END_DEFAULTS;

/* Returns a new path for a socket, in this process's folder; valid until the next call. */
const char *pair_path(void);
void pair_path_release(void);

int end_init(struct end *end, enum device_role role, const char *path,
	     const struct end_options *options);
/* Both ends of a new path, with END_DEFAULTS. */
int default_ends(struct end *server, struct end *client);
/* Aborts if an object of the device is left. */
void end_release(struct end *end);

int end_create_qp(struct end *end, struct cm_id *id, const struct end_options *options);
/* Creates an id with a queue pair and starts to connect it. */
int end_connect(struct end *end, struct cm_id **id, const struct end_options *options);
/*
 * Handles one connection event: accepts connect requests, counts, destroys ids whose peer has
 * disconnected. -EAGAIN if there is no event.
 */
int end_serve_cm(struct end *end, const struct end_options *options);
/* Connects @client to @server: handles the events of both until the connection is established. */
int ends_connect(struct end *server, struct end *client, struct cm_id **id,
		 const struct end_options *server_options,
		 const struct end_options *client_options);

int end_post_recv(struct end *end, unsigned int slot);
int end_post_send(struct end *end, struct ibv_qp *qp, uint32_t offset, uint32_t length,
		  unsigned int flags);
int end_post_read(struct end *end, struct ibv_qp *qp, uint32_t offset, uint32_t length,
		  uint64_t remote, uint32_t rkey);
uint8_t *end_recv_slot(const struct end *end, unsigned int slot);
uint32_t end_recv_bytes(void);

/*
 * Polls @end for one completion. Also polls @other, if not NULL, with room for none, so that its
 * device makes progress.
 */
int end_wait(struct end *end, struct end *other, struct ibv_wc *wc);

uint64_t pair_now_ms(void);

#endif /* KVD_TESTS_SUPPORT_SOFTNIC_PAIR_H */
