/* SPDX-License-Identifier: MIT */
/*
 * The fake device for one client handle: the verbs and device operations that a handle calls, with
 * every work request done by the test when it is posted.
 */
#include "tests/support/fake_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fake device: %s\n", what);
		exit(EXIT_FAILURE);
	}
}

static struct fake_device *fake_device_of(const struct ibv_context *context)
{
	return (struct fake_device *)((char *)(uintptr_t)context -
				      offsetof(struct fake_device, context));
}

static void complete(struct fake_device *fake, uint64_t wr_id, enum ibv_wc_status status,
		     uint32_t bytes)
{
	must(fake->wc_count < SENDS_MAX, "completion queue overrun");
	fake->wcs[fake->wc_count++] = (struct ibv_wc){
		.wr_id = wr_id,
		.status = status,
		.byte_len = bytes,
	};
	if (fake->notify)
		must(!eventfd_write(fake->comp_channel.fd, 1), "no notification");
	fake->notify = false;
}

uint32_t fake_device_bytes(const struct ibv_send_wr *wr)
{
	uint32_t bytes = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

void fake_device_release(struct fake_device *fake)
{
	unsigned int i;

	for (i = 0; i < fake->held_count; i++)
		complete(fake, fake->held[i].wr_id, fake->held[i].status, fake->held[i].byte_len);
	fake->held_count = 0;
}

void fake_device_event(struct fake_device *fake, enum cm_event_type type, int status)
{
	must(fake->event_count < 4, "too many events");
	fake->events[fake->event_count++] = (struct cm_event){ .type = type, .status = status };
}

void fake_device_lose(struct fake_device *fake)
{
	complete(fake, 0, IBV_WC_WR_FLUSH_ERR, 0);
}

void fake_device_respond(struct fake_device *fake, const struct wire_response *response,
			 const uint8_t *value)
{
	const struct ibv_recv_wr *recv = &fake->recvs[fake->recv_first % MESSAGES_MAX];
	uint8_t *to = (uint8_t *)(uintptr_t)recv->sg_list->addr;
	uint32_t len = response->value_len;

	must(fake->recv_count, "no receive is posted");
	memcpy(to, response, sizeof(*response));
	if (len)
		memcpy(to + sizeof(*response), value, len);
	complete(fake, recv->wr_id, IBV_WC_SUCCESS, (uint32_t)sizeof(*response) + len);
	fake->recv_first++;
	fake->recv_count--;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_device *fake = fake_device_of(qp->context);
	enum ibv_wc_status status;

	for (; wr; wr = wr->next) {
		/*
		 * A SEND makes at most two completions: its own and that of the receive of its
		 * response.
		 */
		if (fake->wc_count + 2 > SENDS_MAX) {
			*bad = wr;
			return ENOMEM;
		}
		status = wr->opcode == IBV_WR_RDMA_READ ? fake->read(fake, wr) :
							  fake->send(fake, wr);
		if (fake->hold_reads && wr->opcode == IBV_WR_RDMA_READ) {
			if (wr->send_flags & IBV_SEND_SIGNALED)
				fake->held[fake->held_count++] = (struct ibv_wc){
					.wr_id = wr->wr_id,
					.status = status,
				};
		} else if (status || wr->send_flags & IBV_SEND_SIGNALED)
			complete(fake, wr->wr_id, status, fake_device_bytes(wr));
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_device *fake = fake_device_of(qp->context);
	unsigned int at = (fake->recv_first + fake->recv_count) % MESSAGES_MAX;

	(void)bad;
	must(fake->recv_count < MESSAGES_MAX, "too many receives");
	fake->recvs[at] = *wr;
	fake->recv_sges[at] = *wr->sg_list;
	fake->recvs[at].sg_list = &fake->recv_sges[at];
	fake->recv_count++;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	struct fake_device *fake = fake_device_of(cq->context);
	unsigned int n;

	if (!fake->wc_count && fake->idle)
		fake->idle(fake);
	n = fake->wc_count < (unsigned int)count ? fake->wc_count : (unsigned int)count;
	memcpy(wcs, fake->wcs, n * sizeof(*wcs));
	memmove(fake->wcs, fake->wcs + n, (fake->wc_count - n) * sizeof(*wcs));
	fake->wc_count -= n;
	return (int)n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct fake_device *fake = fake_device_of(cq->context);

	(void)solicited_only;
	if (fake->before_notify)
		fake->before_notify(fake);
	fake->notify = true;
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	eventfd_t count;

	(void)cq;
	return eventfd_read(channel->fd, &count) ? -EAGAIN : 0;
}

static int reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr)
{
	(void)pd, (void)access;
	*mr = calloc(1, sizeof(**mr));
	if (!*mr)
		return -ENOMEM;
	(*mr)->addr = mem->addr;
	(*mr)->length = mem->length;
	return 0;
}

static void dereg_mr(struct ibv_mr *mr)
{
	free(mr);
}

static int sleep_on(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	(void)channel, (void)fd;
	usleep((useconds_t)timeout_ms * 1000);
	return 1;
}

static int cm_get_event(struct cm_channel *channel, struct cm_event *event)
{
	struct fake_device *fake = fake_device_of(channel->dev->verbs);

	if (!fake->event_count)
		return -EAGAIN;
	*event = fake->events[0];
	memmove(fake->events, fake->events + 1, --fake->event_count * sizeof(fake->events[0]));
	return 0;
}

static void channels_make(struct fake_device *fake)
{
	fake->comp_channel.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fake->cm_channel.fd = eventfd(0, EFD_CLOEXEC);
	fake->cm_channel.dev = &fake->device;
	must(fake->comp_channel.fd >= 0 && fake->cm_channel.fd >= 0, "no eventfd");
}

static int create_channel_pair(struct device *dev, struct ibv_comp_channel **comp,
			       struct cm_channel **cm)
{
	struct fake_device *fake = fake_device_of(dev->verbs);

	channels_make(fake);
	*comp = &fake->comp_channel;
	*cm = &fake->cm_channel;
	return 0;
}

static int create_cq(struct device *dev, int cqe, void *cq_context,
		     struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	(void)cqe, (void)cq_context, (void)channel;
	*cq = &fake_device_of(dev->verbs)->cq;
	return 0;
}

static int create_id(struct cm_channel *channel, struct cm_id **id)
{
	*id = &fake_device_of(channel->dev->verbs)->id;
	(*id)->channel = channel;
	return 0;
}

/* What was outstanding on the one before is gone. */
static int create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access)
{
	struct fake_device *fake = fake_device_of(id->channel->dev->verbs);

	(void)pd, (void)attr, (void)access;
	fake->recv_first = fake->recv_count = fake->wc_count = fake->held_count = 0;
	fake->event_count = 0;
	fake->notify = false;
	id->qp = &fake->qp;
	return 0;
}

static int device_connect(struct cm_id *id, const struct cm_param *param)
{
	struct fake_device *fake = fake_device_of(id->channel->dev->verbs);

	(void)param;
	fake->connects++;
	if (fake->connect)
		fake->connect(fake);
	return 0;
}

static int disconnect(struct cm_id *id)
{
	(void)id;
	return 0;
}

static void destroy_id(struct cm_id *id)
{
	(void)id;
}

static void destroy_cm_channel(struct cm_channel *channel)
{
	if (channel)
		close(channel->fd);
}

static void destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
}

static void destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel)
		close(channel->fd);
}

static void dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
}

static void fake_device_close(struct device *dev)
{
	struct fake_device *fake = fake_device_of(dev->verbs);

	fake->close(fake);
}

static const uint8_t *read_source(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, uint64_t length)
{
	must(qp, "the queue pair is gone");
	(void)rkey, (void)addr, (void)length;
	return NULL;
}

static int64_t read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
			struct value_sum *sum)
{
	struct fake_device *fake = fake_device_of(qp->context);

	(void)rkey;
	return fake->read_now ? fake->read_now(fake, addr, to, bytes, sum) : -EOPNOTSUPP;
}

static bool fill(struct ibv_qp *qp, uint64_t addr, uint32_t left)
{
	struct fake_device *fake = fake_device_of(qp->context);

	if (fake->fill)
		fake->fill(fake, addr, left);
	return fake->fill;
}

static int query(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port)
{
	(void)port;
	*attr = (struct ibv_device_attr){ .max_mr_size = fake_device_of(dev->verbs)->mr_max };
	if (!attr->max_mr_size)
		attr->max_mr_size = UINT64_MAX;
	return 0;
}

static int alloc_mem(struct device *dev, size_t bytes, struct device_mem *mem)
{
	(void)dev;
	*mem = (struct device_mem){ .addr = calloc(1, bytes), .length = bytes, .fd = -1 };
	return mem->addr ? 0 : -ENOMEM;
}

static void free_mem(struct device *dev, struct device_mem *mem)
{
	(void)dev;
	free(mem->addr);
	*mem = (struct device_mem){ .fd = -1 };
}

static const struct device_ops fake_device_ops = {
	.name = "fake",
	.query = query,
	.alloc_mem = alloc_mem,
	.free_mem = free_mem,
	.close = fake_device_close,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.destroy_comp_channel = destroy_comp_channel,
	.destroy_cq = destroy_cq,
	.get_cq_event = get_cq_event,
	.sleep = sleep_on,
	.create_channel_pair = create_channel_pair,
	.create_cq = create_cq,
	.create_id = create_id,
	.create_qp = create_qp,
	.connect = device_connect,
	.read_source = read_source,
	.read_now = read_now,
	.fill = fill,
	.destroy_qp = destroy_id,
	.destroy_cm_channel = destroy_cm_channel,
	.cm_get_event = cm_get_event,
	.disconnect = disconnect,
	.destroy_id = destroy_id,
};

void fake_device_init(struct fake_device *fake, struct kvd *kvd, const char *name)
{
	char url[32];

	fake->context.ops.post_send = post_send;
	fake->context.ops.post_recv = post_recv;
	fake->context.ops.poll_cq = poll_cq;
	fake->context.ops.req_notify_cq = req_notify_cq;
	fake->qp.context = fake->cq.context = &fake->context;
	channels_make(fake);
	fake->device = (struct device){
		.kind = DEVICE_SOFTNIC,
		.ops = &fake_device_ops,
		.verbs = &fake->context,
	};
	snprintf(fake->device.name, sizeof(fake->device.name), "%s", name);
	snprintf(fake->device.address, sizeof(fake->device.address), "%s", name);
	kvd->dev = &fake->device;
	snprintf(url, sizeof(url), "fake:%p", (void *)fake);
	must(!shared_device_add(&kvd->shared_device, url, kvd->dev), "no memory");
	kvd->conn.qp = &fake->qp;
	kvd->conn.cq = &fake->cq;
	kvd->conn.comp_channel = &fake->comp_channel;
	kvd->conn.cm_channel = &fake->cm_channel;
	kvd->conn.id = &fake->id;
	kvd->message_max = 1u << 30;
	kvd->conn.read_sges_max = READ_SGES_MAX;
}
