/* SPDX-License-Identifier: MIT */
/* The part of RDMA devices that needs only libibverbs: their objects, and the port used. */
#include "common/rdma/verbs/objects.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/mem.h"
#include "common/util/log.h"
#include "common/util/memlock.h"
#include "common/util/parse.h"

/* Async events that one call may take without a result; those left keep the fd readable. */
#define ASYNC_EVENTS_PER_CALL_MAX 64

#define RETRY_MAX 7
#define RNR_TIMER_MIN 1
#define RNR_TIMER_MAX 31

int verbs_fd_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return verbs_errno();
	return 0;
}

/*
 * Memory of a queue for each work request: a control segment, a scatter-gather entry and the inline
 * data, in multiples of 64 bytes as with mlx5. And pages of the driver and of librdmacm.
 */
uint64_t verbs_conn_bytes(const struct ibv_qp_cap *cap)
{
	const uint64_t segments = 32 + cap->max_send_sge * 16 + cap->max_inline_data;

	return cap->max_send_wr * ((segments + 63) / 64 * 64) + 16384;
}

int verbs_query(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port)
{
	int err = verbs_error(ibv_query_device(dev->verbs, attr));

	if (!err)
		err = verbs_error(ibv_query_port(dev->verbs, dev->port_number, port));
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

int verbs_get_async_event(struct device *dev, struct device_async_event *event)
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

int verbs_alloc_pd(struct device *dev, struct ibv_pd **pd)
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

void verbs_dealloc_pd(struct ibv_pd *pd)
{
	if (pd)
		destroy_check(ibv_dealloc_pd(pd), "a protection domain");
}

static void reg_mr_error_log(size_t length, int err)
{
	char why[MEMLOCK_WHY_BYTES] = "", size[PARSE_FORMAT_MAX];

	if (err == -ENOMEM)
		memlock_why(why);
	errno = -err;
	log_error("can't register %s of memory: %m%s", show_size(length, size), why);
}

int verbs_reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr)
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
	if (access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND))
		access |= IBV_ACCESS_RELAXED_ORDERING;
	*mr = ibv_reg_mr(pd, mem->addr, mem->length, (unsigned int)access);
	if (*mr)
		return 0;
	err = verbs_errno();
	reg_mr_error_log(mem->length, err);
	return err;
}

void verbs_dereg_mr(struct ibv_mr *mr)
{
	if (mr)
		destroy_check(ibv_dereg_mr(mr), "a memory region");
}

/* Peers decide how many connections there are, so the log is rate-limited. */
int verbs_alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw)
{
	int err;

	*mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	if (*mw)
		return 0;
	err = verbs_errno();
	log_ratelimited(LOG_ERROR, 1,
			"%s: can't allocate a memory window: %m; `ibv_devinfo -v` shows how many "
			"the device has (max_mw)",
			ibv_get_device_name(pd->context->device));
	return err;
}

void verbs_dealloc_mw(struct ibv_mw *mw)
{
	int err = mw ? verbs_error(ibv_dealloc_mw(mw)) : 0;

	if (!err)
		return;
	errno = -err;
	log_ratelimited(
		LOG_ERROR, 1,
		"can't deallocate a memory window: %m; it is leaked until this process ends");
}

int verbs_create_comp_channel(struct device *dev, struct ibv_comp_channel **channel)
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

void verbs_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel)
		destroy_check(ibv_destroy_comp_channel(channel), "a completion channel");
}

/* Each channel has its own descriptor. */
int verbs_create_channel_pair(struct device *dev, struct ibv_comp_channel **comp,
			      struct cm_channel **cm)
{
	int err = verbs_create_comp_channel(dev, comp);

	if (err)
		return err;
	err = dev->ops->create_cm_channel(dev, cm);
	if (err) {
		verbs_destroy_comp_channel(*comp);
		*comp = NULL;
	}
	return err;
}

int verbs_create_cq(struct device *dev, int cqe, void *cq_context, struct ibv_comp_channel *channel,
		    struct ibv_cq **cq)
{
	struct verbs_port *port = verbs_port_of(dev);
	int vector = (int)(atomic_fetch_add(&port->vector_next, 1) %
			   (unsigned int)port->vector_count);
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

void verbs_destroy_cq(struct ibv_cq *cq)
{
	if (cq)
		destroy_check(ibv_destroy_cq(cq), "a completion queue");
}

int verbs_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	void *context;

	if (ibv_get_cq_event(channel, cq, &context))
		return verbs_errno();
	ibv_ack_cq_events(*cq, 1);
	return 0;
}

int verbs_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	struct pollfd fds[] = { { channel->fd, POLLIN, 0 }, { fd, POLLIN, 0 } };
	struct ibv_cq *cq;

	if (poll(fds, 2, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[0].revents)
		(void)verbs_get_cq_event(channel, &cq);
	return fds[1].revents != 0;
}

int verbs_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **srq)
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

int verbs_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return verbs_error(ibv_modify_srq(srq, attr, mask));
}

void verbs_destroy_srq(struct ibv_srq *srq)
{
	if (srq)
		destroy_check(ibv_destroy_srq(srq), "a shared receive queue");
}

/* The device reads the peer's memory. */
const uint8_t *verbs_read_source(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, uint64_t length)
{
	(void)qp, (void)rkey, (void)addr, (void)length;
	return NULL;
}

int64_t verbs_read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
		       struct value_sum *sum)
{
	(void)qp, (void)rkey, (void)addr, (void)to, (void)bytes, (void)sum;
	return -EOPNOTSUPP;
}

/* The peer's device READs at any time. */
bool verbs_fill(struct ibv_qp *qp, uint64_t addr, uint32_t left)
{
	(void)qp, (void)addr, (void)left;
	return false;
}

int verbs_alloc_mem(struct device *dev, size_t bytes, struct device_mem *mem)
{
	(void)dev;
	return mem_map(mem, bytes, false);
}

void verbs_free_mem(struct device *dev, struct device_mem *mem)
{
	(void)dev;
	mem_unmap(mem);
}

int verbs_access_check(int access)
{
	if ((access & ~VERBS_ACCESS_ALLOWED) == 0)
		return 0;
	log_error("refused a queue pair with access 0x%x: peers may only read (0x%x)", access,
		  VERBS_ACCESS_ALLOWED);
	return -EINVAL;
}

int verbs_qp_create(struct device *dev, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		    struct ibv_qp **qp)
{
	int err;

	*qp = ibv_create_qp(pd, attr);
	if (*qp)
		return 0;
	err = verbs_errno();
	log_ratelimited(LOG_ERROR, 1,
			"%s: can't create a queue pair with %u sends, %u receives, %u+%u pieces, "
			"%u inline bytes: %m; `ibv_devinfo -v` shows the device's limits",
			dev->name, attr->cap.max_send_wr, attr->cap.max_recv_wr,
			attr->cap.max_send_sge, attr->cap.max_recv_sge, attr->cap.max_inline_data);
	return err;
}

void verbs_qp_destroy(struct device *dev, struct ibv_qp *qp)
{
	int err = qp ? verbs_error(ibv_destroy_qp(qp)) : 0;

	if (!err)
		return;
	errno = -err;
	log_ratelimited(LOG_ERROR, 1,
			"%s: can't destroy a queue pair: %m; it is leaked until this process ends",
			dev->name);
}

int verbs_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = 0;

	if (mask & ~(IBV_QP_STATE | IBV_QP_ACCESS_FLAGS))
		return -EINVAL;
	if ((mask & IBV_QP_STATE) && attr->qp_state != IBV_QPS_ERR)
		return -EINVAL;
	if (mask & IBV_QP_ACCESS_FLAGS)
		err = verbs_access_check((int)attr->qp_access_flags);
	if (err)
		return err;
	err = verbs_error(ibv_modify_qp(qp, attr, mask));
	if (err) {
		errno = -err;
		log_ratelimited(LOG_ERROR, 1, "can't modify queue pair 0x%x (mask 0x%x): %m",
				qp->qp_num, mask);
	}
	return err;
}

int verbs_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_init_attr init;

	return verbs_error(ibv_query_qp(qp, attr, mask, &init));
}

bool verbs_qp_failed(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_UNKNOWN };

	return qp && !verbs_query_qp(qp, &attr, IBV_QP_STATE) && attr.qp_state == IBV_QPS_ERR;
}

bool verbs_param_valid(const struct cm_param *param, size_t private_max)
{
	return param->private_len <= private_max && param->retry_count <= RETRY_MAX &&
	       param->rnr_retry_count <= RETRY_MAX && param->min_rnr_timer >= RNR_TIMER_MIN &&
	       param->min_rnr_timer <= RNR_TIMER_MAX;
}

struct cm_param verbs_param_copy(const struct verbs_port *port, const struct cm_param *param)
{
	struct cm_param copy = *param;

	copy.private_data = NULL;
	copy.retry_count = link_or(&port->link, LINK_RETRY_COUNT, copy.retry_count);
	copy.rnr_retry_count = link_or(&port->link, LINK_RNR_RETRY, copy.rnr_retry_count);
	return copy;
}

uint8_t verbs_reads_limit(uint8_t wanted, uint8_t max)
{
	return wanted == 0 ? max : verbs_min_u8(wanted, max);
}

/* READs outstanding in one direction: as many as the device can, unless the user wants fewer. */
static uint8_t reads_max(const struct verbs_port *port, int of_device)
{
	uint8_t most = link_or(&port->link, LINK_MAX_RD_ATOMIC, VERBS_READS_MAX);

	return of_device < most ? (uint8_t)of_device : most;
}

static int port_query(struct verbs_port *port)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	int err = verbs_query(&port->dev, &attr, &port_attr);

	if (err)
		return err;
	port->link_layer = port_attr.link_layer;
	port->responder_resources_max = reads_max(port, attr.max_qp_rd_atom);
	port->initiator_depth_max = reads_max(port, attr.max_qp_init_rd_atom);
	return 0;
}

int verbs_port_open(struct verbs_port *port, struct ibv_device *device, uint8_t number)
{
	const char *name = ibv_get_device_name(device);
	struct device *dev = &port->dev;
	int err;

	dev->verbs = ibv_open_device(device);
	if (!dev->verbs) {
		err = verbs_errno();
		log_error("can't open RDMA device %s: %m; check the permissions of "
			  "/dev/infiniband/uverbs*",
			  name);
		return err;
	}
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	port->dev.port_number = number;
	port->iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
	port->vector_count = dev->verbs->num_comp_vectors;
	err = verbs_fd_nonblocking(dev->verbs->async_fd);
	if (!err)
		err = port_query(port);
	if (!err)
		return 0;
	errno = -err;
	log_error("can't query RDMA device %s: %m", name);
	ibv_close_device(dev->verbs);
	return err;
}

void verbs_port_close(struct verbs_port *port)
{
	if (ibv_close_device(port->dev.verbs))
		log_error("can't close RDMA device %s: %m; it stays open until this process ends",
			  port->dev.name);
}
