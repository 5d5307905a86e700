/* SPDX-License-Identifier: MIT */
/*
 * Two ends of softnic in one process, for the unit tests of the device: each has a device with one of
 * everything. Functions return what the device returned, so that tests can make any of them fail;
 * release takes what was made so far.
 */
#ifndef KVD_TESTS_SUPPORT_SOFTNIC_PAIR_H
#define KVD_TESTS_SUPPORT_SOFTNIC_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"

#define PAIR_WAIT_MS 20000
#define PAIR_RECVS 64
#define PAIR_MEM_BYTES (256 * 1024)
#define PAIR_SEND_WR 64

/* What the server tells the client in its private data. */
struct pair_hello {
	uint64_t addr;
	uint32_t rkey;
};

struct end {
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_cq *recv_cq; /* the same, unless two are asked for */
	struct ibv_srq *srq;
	struct cm_channel *cm;
	struct cm_id *listener;
	struct cm_id *id; /* the first one */
	uint8_t *mem;	  /* half for what is sent and read, half for receives */
	int fd;
	struct ibv_mr *mr;
	struct pair_hello remote;
	unsigned int connected;
	unsigned int disconnected;
};

/* How an end is made. */
struct end_options {
	bool share;   /* its memory is a memfd */
	bool two_cqs; /* each with a channel of its own: end.comp is the receiving one's */
	int access;   /* of the queue pairs, for the peer */
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
};

extern const struct end_options END_DEFAULTS;

/* A socket path of this process; valid until the next call. */
const char *pair_path(void);
void pair_path_release(void);

int end_init(struct end *end, enum device_role role, const char *path,
	     const struct end_options *options);
/* Also checks that the device has nothing left that was not destroyed. */
void end_release(struct end *end);

int end_create_qp(struct end *end, struct cm_id *id, const struct end_options *options);
/* Makes an id with a queue pair and starts to connect it. */
int end_connect(struct end *end, struct cm_id **id, const struct end_options *options);
/* Takes one event: accepts, counts, destroys ids that were disconnected. -EAGAIN: none. */
int end_serve_cm(struct end *end, const struct end_options *options);
/* Serves both ends until the client's connections number @count. */
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

/* Polls @end, and @other meanwhile (whose completions must be none), for one completion. */
int end_wait(struct end *end, struct end *other, struct ibv_wc *wc);

uint64_t pair_now_ms(void);

#endif /* KVD_TESTS_SUPPORT_SOFTNIC_PAIR_H */
