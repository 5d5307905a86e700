/* SPDX-License-Identifier: MIT */
/*
 * The verbs device: common/rdma/device.h for InfiniBand, RoCE, iWARP and Soft-RoCE, on libibverbs
 * and librdmacm. This file has the table of functions, and those that need libibverbs only.
 */
#include "common/rdma/verbs/verbs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/mem.h"
#include "common/util/log.h"
#include "common/util/memlock.h"

/* Async events that one call may take without a result; those left keep the fd readable. */
#define ASYNC_EVENTS_PER_CALL_MAX 64

static int verbs_query(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port)
{
	int err = verbs_error(ibv_query_device(dev->verbs, attr));

	if (!err)
		err = verbs_error(ibv_query_port(dev->verbs, verbs_device_of(dev)->port_num, port));
	return err;
}

/* False for events that the callers don't need: connection management reports new connections. */
static bool async_event_copy(const struct ibv_async_event *raw, struct device_async_event *event)
{
	memset(event, 0, sizeof(*event));
	event->type = raw->event_type;
	switch (raw->event_type) {
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_GID_CHANGE:
		return false;
	case IBV_EVENT_CQ_ERR:
		event->cq = raw->element.cq;
		return true;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		event->srq = raw->element.srq;
		return true;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		event->qp = raw->element.qp;
		return true;
	default:
		return true;
	}
}

static int verbs_get_async_event(struct device *dev, struct device_async_event *event)
{
	struct ibv_async_event raw;
	bool delivered = false;

	for (int i = 0; i < ASYNC_EVENTS_PER_CALL_MAX && !delivered; i++) {
		if (ibv_get_async_event(dev->verbs, &raw))
			return verbs_errno();
		delivered = async_event_copy(&raw, event);
		ibv_ack_async_event(&raw);
	}
	return delivered ? 0 : -EAGAIN;
}

static int verbs_alloc_pd(struct device *dev, struct ibv_pd **pd)
{
	int err;

	*pd = ibv_alloc_pd(dev->verbs);
	if (*pd)
		return 0;
	err = verbs_errno();
	log_error("%s: can't allocate a protection domain: %m", dev->name);
	return err;
}

static void destroy_check(int ret, const char *what)
{
	if (ret == 0)
		return;
	errno = ret > 0 ? ret : errno;
	log_error("can't destroy %s: %m; it is leaked until this process ends", what);
}

static void verbs_dealloc_pd(struct ibv_pd *pd)
{
	if (pd)
		destroy_check(ibv_dealloc_pd(pd), "a protection domain");
}

static void reg_mr_error_log(size_t length, int err)
{
	char why[MEMLOCK_WHY_BYTES] = "";

	if (err == -ENOMEM)
		memlock_why(why);
	errno = -err;
	log_error("can't register %zu KiB of memory: %m%s", length / 1024, why);
}

static int verbs_reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access,
			struct ibv_mr **mr)
{
	int err;

	if (access & ~VERBS_ACCESS_ALLOWED) {
		log_error("refused to register memory with access 0x%x: peers may only read (0x%x)",
			  access, VERBS_ACCESS_ALLOWED);
		return -EINVAL;
	}
	/*
	 * What a peer reads carries a checksum, so the device may read it in any order. The flag is
	 * in the optional range: a device or kernel that does not know it ignores it.
	 */
	if (access & IBV_ACCESS_REMOTE_READ)
		access |= IBV_ACCESS_RELAXED_ORDERING;
	*mr = ibv_reg_mr(pd, mem->addr, mem->length, (unsigned int)access);
	if (*mr)
		return 0;
	err = verbs_errno();
	reg_mr_error_log(mem->length, err);
	return err;
}

static void verbs_dereg_mr(struct ibv_mr *mr)
{
	if (mr)
		destroy_check(ibv_dereg_mr(mr), "a memory region");
}

static int verbs_create_comp_channel(struct device *dev, struct ibv_comp_channel **channel)
{
	int err;

	*channel = ibv_create_comp_channel(dev->verbs);
	if (!*channel) {
		err = verbs_errno();
		log_error("%s: can't create a completion channel: %m", dev->name);
		return err;
	}
	err = verbs_fd_nonblocking((*channel)->fd);
	if (err) {
		ibv_destroy_comp_channel(*channel);
		*channel = NULL;
	}
	return err;
}

static void verbs_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel)
		destroy_check(ibv_destroy_comp_channel(channel), "a completion channel");
}

/* Each has its descriptor. */
static int verbs_create_channel_pair(struct device *dev, struct ibv_comp_channel **comp,
				     struct cm_channel **cm)
{
	int err = verbs_create_comp_channel(dev, comp);

	if (err)
		return err;
	err = verbs_create_cm_channel(dev, cm);
	if (err) {
		verbs_destroy_comp_channel(*comp);
		*comp = NULL;
	}
	return err;
}

static int verbs_create_cq(struct device *dev, int cqe, void *cq_context,
			   struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	struct verbs_device *vd = verbs_device_of(dev);
	int vector = (int)(atomic_fetch_add(&vd->vector_next, 1) % (unsigned int)vd->vector_count);
	int err;

	*cq = ibv_create_cq(dev->verbs, cqe, cq_context, channel, vector);
	if (*cq)
		return 0;
	err = verbs_errno();
	log_error(
		"%s: can't create a completion queue of %d entries: %m; `ibv_devinfo -v` shows the "
		"device's limits",
		dev->name, cqe);
	return err;
}

static void verbs_destroy_cq(struct ibv_cq *cq)
{
	if (cq)
		destroy_check(ibv_destroy_cq(cq), "a completion queue");
}

static int verbs_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	void *context;

	if (ibv_get_cq_event(channel, cq, &context))
		return verbs_errno();
	ibv_ack_cq_events(*cq, 1);
	return 0;
}

static int verbs_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	struct pollfd fds[] = { { channel->fd, POLLIN, 0 }, { fd, POLLIN, 0 } };
	struct ibv_cq *cq;

	if (poll(fds, 2, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[0].revents)
		(void)verbs_get_cq_event(channel, &cq);
	return fds[1].revents != 0;
}

static int verbs_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **srq)
{
	int err;

	*srq = ibv_create_srq(pd, attr);
	if (*srq)
		return 0;
	err = verbs_errno();
	log_error("can't create a shared receive queue of %u receives: %m; `ibv_devinfo -v` shows "
		  "the device's limits",
		  attr->attr.max_wr);
	return err;
}

static int verbs_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return verbs_error(ibv_modify_srq(srq, attr, mask));
}

static void verbs_destroy_srq(struct ibv_srq *srq)
{
	if (srq)
		destroy_check(ibv_destroy_srq(srq), "a shared receive queue");
}

/* The device reads the peer's memory. */
static const uint8_t *verbs_read_source(struct ibv_qp *qp, uint32_t rkey, uint64_t addr,
					uint64_t length)
{
	(void)qp, (void)rkey, (void)addr, (void)length;
	return NULL;
}

static int64_t verbs_read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to,
			      uint32_t bytes, struct value_sum *sum)
{
	(void)qp, (void)rkey, (void)addr, (void)to, (void)bytes, (void)sum;
	return -EOPNOTSUPP;
}

/* The peer's device READs at any time. */
static bool verbs_fill(struct ibv_qp *qp, uint64_t addr, uint32_t left)
{
	(void)qp, (void)addr, (void)left;
	return false;
}

static int verbs_alloc_mem(struct device *dev, size_t bytes, struct device_mem *mem)
{
	(void)dev;
	return mem_map(mem, bytes, false);
}

static void verbs_free_mem(struct device *dev, struct device_mem *mem)
{
	(void)dev;
	mem_unmap(mem);
}

const struct device_ops verbs_ops = {
	.name = "verbs",
	.open = verbs_open,
	.close = verbs_close,
	.query = verbs_query,
	.get_async_event = verbs_get_async_event,
	.alloc_mem = verbs_alloc_mem,
	.free_mem = verbs_free_mem,
	.alloc_pd = verbs_alloc_pd,
	.dealloc_pd = verbs_dealloc_pd,
	.reg_mr = verbs_reg_mr,
	.dereg_mr = verbs_dereg_mr,
	.create_comp_channel = verbs_create_comp_channel,
	.create_channel_pair = verbs_create_channel_pair,
	.destroy_comp_channel = verbs_destroy_comp_channel,
	.create_cq = verbs_create_cq,
	.destroy_cq = verbs_destroy_cq,
	.get_cq_event = verbs_get_cq_event,
	.sleep = verbs_sleep,
	.create_srq = verbs_create_srq,
	.modify_srq = verbs_modify_srq,
	.destroy_srq = verbs_destroy_srq,
	.create_qp = verbs_create_qp,
	.modify_qp = verbs_modify_qp,
	.query_qp = verbs_query_qp,
	.read_source = verbs_read_source,
	.read_now = verbs_read_now,
	.fill = verbs_fill,
	.destroy_qp = verbs_destroy_qp,
	.create_cm_channel = verbs_create_cm_channel,
	.destroy_cm_channel = verbs_destroy_cm_channel,
	.cm_get_event = verbs_cm_get_event,
	.listen = verbs_listen,
	.create_id = verbs_create_id,
	.connect = verbs_connect,
	.accept = verbs_accept,
	.reject = verbs_reject,
	.query_peer = verbs_query_peer,
	.disconnect = verbs_disconnect,
	.destroy_id = verbs_destroy_id,
};
