/* SPDX-License-Identifier: MIT */
/*
 * What devices on RDMA hardware share, however their connections are made: an open port, and the
 * objects of libibverbs.
 *
 * Each struct device has its own ibv_context: two devices that shared one, such as two client
 * handles, would take each other's async events.
 */
#ifndef KVD_COMMON_RDMA_VERBS_OBJECTS_H
#define KVD_COMMON_RDMA_VERBS_OBJECTS_H

#include <errno.h>
#include <stdatomic.h>

#include "common/rdma/device.h"

/*
 * The only right that a peer may ever get is to read (guarantee D). All other access flags are
 * refused here, so that no mistake in the callers can make memory remotely writable. (MW_BIND is
 * the owner's own right. A window gives a peer no more than its queue pair has.)
 */
#define VERBS_ACCESS_ALLOWED (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)

/* Most READs outstanding per queue pair: 8 bits, of which librdmacm gives 255 another meaning. */
#define VERBS_READS_MAX 254

/* An open port of an RDMA device. First member of the devices that use it. */
struct verbs_port {
	struct device dev;
	struct device_link link; /* the user's wishes */
	uint8_t link_layer;
	uint8_t responder_resources_max;
	uint8_t initiator_depth_max;
	bool iwarp;
	_Atomic unsigned int vector_next; /* CQs use the completion vectors in turn */
	int vector_count;
};

static inline struct verbs_port *verbs_port_of(struct device *dev)
{
	return (struct verbs_port *)dev;
}

/* libibverbs returns an errno, or -1 and sets errno; librdmacm returns -1 and sets errno. */
static inline int verbs_error(int ret)
{
	if (ret == 0)
		return 0;
	if (ret > 0)
		return -ret;
	return errno ? -errno : -EIO;
}

/* For functions that return NULL and set errno. */
static inline int verbs_errno(void)
{
	return verbs_error(-1);
}

static inline uint8_t verbs_min_u8(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

int verbs_fd_nonblocking(int fd);

/*
 * Opens @device for port @number, and fills in struct verbs_port and its device's name. port->link
 * is set already. 0 or a negative errno after logging, with nothing left open.
 */
int verbs_port_open(struct verbs_port *port, struct ibv_device *device, uint8_t number);
void verbs_port_close(struct verbs_port *port);

/* 0, or -EINVAL after logging: more than VERBS_ACCESS_ALLOWED. */
int verbs_access_check(int access);
/* Creates a queue pair, in RESET. 0 or a negative errno after logging. */
int verbs_qp_create(struct device *dev, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		    struct ibv_qp **qp);
/* Destroys the queue pair, if it is not NULL. */
void verbs_qp_destroy(struct device *dev, struct ibv_qp *qp);
/* Whether a queue pair is in the error state, maybe caused by its peer; NULL is not. */
bool verbs_qp_failed(struct ibv_qp *qp);
/* False if @param is invalid, or has more than @private_max bytes of private data. */
bool verbs_param_valid(const struct cm_param *param, size_t private_max);
/* Copies @param without private data, with the retries that the port's link sets. */
struct cm_param verbs_param_copy(const struct verbs_port *port, const struct cm_param *param);
/* READs outstanding: those wanted, 0 meaning the most, and at most @max. */
uint8_t verbs_reads_limit(uint8_t wanted, uint8_t max);

/* common/rdma/device.h says what these do. */
int verbs_query(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port);
int verbs_get_async_event(struct device *dev, struct device_async_event *event);
int verbs_alloc_mem(struct device *dev, size_t bytes, struct device_mem *mem);
void verbs_free_mem(struct device *dev, struct device_mem *mem);
int verbs_alloc_pd(struct device *dev, struct ibv_pd **pd);
void verbs_dealloc_pd(struct ibv_pd *pd);
int verbs_reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr);
void verbs_dereg_mr(struct ibv_mr *mr);
int verbs_alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw);
void verbs_dealloc_mw(struct ibv_mw *mw);
int verbs_create_comp_channel(struct device *dev, struct ibv_comp_channel **channel);
void verbs_destroy_comp_channel(struct ibv_comp_channel *channel);
int verbs_create_channel_pair(struct device *dev, struct ibv_comp_channel **comp,
			      struct cm_channel **cm);
int verbs_create_cq(struct device *dev, int cqe, void *cq_context, struct ibv_comp_channel *channel,
		    struct ibv_cq **cq);
void verbs_destroy_cq(struct ibv_cq *cq);
int verbs_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq);
int verbs_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms);
int verbs_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **srq);
uint64_t verbs_conn_bytes(const struct ibv_qp_cap *cap);
int verbs_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
void verbs_destroy_srq(struct ibv_srq *srq);
int verbs_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int verbs_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
const uint8_t *verbs_read_source(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, uint64_t length);
int64_t verbs_read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
		       struct value_sum *sum);
bool verbs_fill(struct ibv_qp *qp, uint64_t addr, uint32_t left);

/* Members of struct device_ops. */
#define VERBS_OBJECTS                                                                              \
	.query = verbs_query, .conn_bytes = verbs_conn_bytes,                                      \
	.get_async_event = verbs_get_async_event, .alloc_mem = verbs_alloc_mem,                    \
	.free_mem = verbs_free_mem, .alloc_pd = verbs_alloc_pd, .dealloc_pd = verbs_dealloc_pd,    \
	.reg_mr = verbs_reg_mr, .dereg_mr = verbs_dereg_mr, .alloc_mw = verbs_alloc_mw,            \
	.dealloc_mw = verbs_dealloc_mw, .create_comp_channel = verbs_create_comp_channel,          \
	.destroy_comp_channel = verbs_destroy_comp_channel,                                        \
	.create_channel_pair = verbs_create_channel_pair, .create_cq = verbs_create_cq,            \
	.destroy_cq = verbs_destroy_cq, .get_cq_event = verbs_get_cq_event, .sleep = verbs_sleep,  \
	.create_srq = verbs_create_srq, .modify_srq = verbs_modify_srq,                            \
	.destroy_srq = verbs_destroy_srq, .modify_qp = verbs_modify_qp,                            \
	.query_qp = verbs_query_qp, .read_source = verbs_read_source, .read_now = verbs_read_now,  \
	.fill = verbs_fill

#endif /* KVD_COMMON_RDMA_VERBS_OBJECTS_H */
