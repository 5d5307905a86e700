/* SPDX-License-Identifier: MIT */
#include "tests/direct.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <urcu-qsbr.h>

#include "common/clock.h"
#include "server/operate.h"

#define ODD_PIECE_MAX 96
/* One piece in this many is followed by a chance for others to run. */
#define ODD_YIELD 24

static struct direct *direct_of(const struct ibv_context *context)
{
	return (struct direct *)((char *)(uintptr_t)context - offsetof(struct direct, context));
}

static uint64_t random_next(struct direct *direct)
{
	direct->random ^= direct->random << 13;
	direct->random ^= direct->random >> 7;
	direct->random ^= direct->random << 17;
	return direct->random;
}

/* Halves in either order, down to pieces of any length. */
static void copy_odd(struct direct *direct, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint64_t r = random_next(direct);
	uint32_t first;

	if (bytes <= 1 + r % ODD_PIECE_MAX) {
		memcpy(to, from, bytes);
		if (r >> 32 & 1 && (r >> 33) % ODD_YIELD == 0)
			sched_yield();
		return;
	}
	first = 1 + (uint32_t)(r >> 8) % (bytes - 1);
	if (r >> 63) {
		copy_odd(direct, to, from, first);
		copy_odd(direct, to + first, from + first, bytes - first);
	} else {
		copy_odd(direct, to + first, from + first, bytes - first);
		copy_odd(direct, to, from, first);
	}
}

static enum ibv_wc_status direct_read(struct direct *direct, const struct ibv_send_wr *wr)
{
	const struct region *region = &direct->store->region;
	uint64_t offset = wr->wr.rdma.remote_addr - (uintptr_t)region->base;
	uint8_t *to = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	uint32_t bytes = wr->sg_list->length;

	if (offset >= region->bytes || bytes > region->bytes - offset)
		return IBV_WC_REM_ACCESS_ERR;
	if (direct->before_read)
		direct->before_read(direct, offset, bytes);
	if (direct->odd)
		copy_odd(direct, to, direct->region + offset, bytes);
	else
		memcpy(to, direct->region + offset, bytes);
	if (direct->after_read)
		direct->after_read(direct, offset, to, bytes);
	return IBV_WC_SUCCESS;
}

static void direct_put(struct direct *direct, const struct request *request, uint64_t hash,
		       struct wire_response *response)
{
	enum wire_status status = WIRE_NO_SPACE;
	struct table_change change;
	struct item *item;

	operate_put_change(request, &change);
	item = table_reserve(direct->writer, &change);
	if (item) {
		memcpy(table_reserved_value(item), (const void *)(uintptr_t)request->pull_addr,
		       request->value_len);
		status = table_commit(direct->writer, hash, item, &change);
	}
	operate_changed(&change, status, response);
}

static void direct_execute(struct direct *direct, const struct request *request,
			   struct wire_response *response, uint8_t *value)
{
	struct answer answer = { value, DIRECT_BUFFER_BYTES - (uint32_t)sizeof(*response), 0 };
	uint64_t hash = 0;

	if (request->key)
		hash = table_hash(&direct->store->table, request->key, request->key_len);
	if (direct->copy)
		table_abandon(direct->writer, direct->copy);
	direct->copy = NULL;
	/* Whatever thread it is: what it does to the table it does as an RCU reader. */
	rcu_register_thread();
	table_clock(direct->writer);
	*response = (struct wire_response){
		.op = (uint8_t)request->op,
		.id = request->id,
		.clock_ns = direct->writer->now_ns,
	};
	if (request->flags & WIRE_F_PULL)
		direct_put(direct, request, hash, response);
	else
		operate(direct->writer, request, hash, response, &answer);
	if (request->op == WIRE_GET && !response->status && response->value_len > answer.size)
		direct->copy = operate_copy(direct->writer, request, hash, direct->copy_seed++,
					    response);
	operate_access(direct->writer, request);
	rcu_unregister_thread();
}

static void complete(struct direct *direct, uint64_t wr_id, enum ibv_wc_status status,
		     uint32_t bytes)
{
	direct->wcs[direct->wc_count++] = (struct ibv_wc){
		.wr_id = wr_id,
		.status = status,
		.byte_len = bytes,
	};
}

/* Does the request in @wr and puts the response into the oldest receive buffer. */
static enum ibv_wc_status direct_send(struct direct *direct, const struct ibv_send_wr *wr)
{
	const struct ibv_recv_wr *recv = &direct->recvs[direct->recv_first % RECVS];
	struct wire_response response;
	struct request request;
	uint8_t *to, value[DIRECT_BUFFER_BYTES];
	uint32_t len;

	if (wr->sg_list->length > DIRECT_BUFFER_BYTES || !direct->recv_count ||
	    wire_request_parse(&request, (const void *)(uintptr_t)wr->sg_list->addr,
			       wr->sg_list->length))
		return IBV_WC_REM_INV_REQ_ERR;
	if (direct->before_request)
		direct->before_request(direct, &request);
	direct_execute(direct, &request, &response, value);
	if (direct->before_response)
		direct->before_response(direct, &response);
	to = (uint8_t *)(uintptr_t)recv->sg_list->addr;
	len = response.flags & WIRE_R_COPY ? 0 : response.value_len;
	memcpy(to, &response, sizeof(response));
	memcpy(to + sizeof(response), value, len);
	complete(direct, recv->wr_id, IBV_WC_SUCCESS, (uint32_t)sizeof(response) + len);
	direct->recv_first++;
	direct->recv_count--;
	return IBV_WC_SUCCESS;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct direct *direct = direct_of(qp->context);
	enum ibv_wc_status status;

	for (; wr; wr = wr->next) {
		if (direct->wc_count + 2 > SENDS_MAX) {
			*bad = wr;
			return ENOMEM;
		}
		status = wr->opcode == IBV_WR_RDMA_READ ? direct_read(direct, wr) :
							  direct_send(direct, wr);
		if (status || wr->send_flags & IBV_SEND_SIGNALED)
			complete(direct, wr->wr_id, status, wr->sg_list->length);
	}
	return 0;
}

/* Not post_recv(): client/wait.c has a function of that name. */
static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct direct *direct = direct_of(qp->context);
	unsigned int at = (direct->recv_first + direct->recv_count) % RECVS;

	if (direct->recv_count == RECVS) {
		*bad = wr;
		return ENOMEM;
	}
	direct->recvs[at] = *wr;
	direct->recv_sges[at] = *wr->sg_list;
	direct->recvs[at].sg_list = &direct->recv_sges[at];
	direct->recv_count++;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	struct direct *direct = direct_of(cq->context);
	unsigned int n = direct->wc_count < (unsigned int)count ? direct->wc_count :
								  (unsigned int)count;

	memcpy(wcs, direct->wcs, n * sizeof(*wcs));
	memmove(direct->wcs, direct->wcs + n, (direct->wc_count - n) * sizeof(*wcs));
	direct->wc_count -= n;
	return (int)n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	return 0;
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

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	(void)channel, (void)cq;
	return -EAGAIN;
}

static int cm_get_event(struct cm_channel *channel, struct cm_event *event)
{
	(void)channel, (void)event;
	return -EAGAIN;
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
	close(channel->fd);
}

static void destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
}

static void destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
}

static void dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
}

static void direct_close(struct device *dev)
{
	struct direct *direct = direct_of(dev->verbs);

	if (direct->copy)
		table_abandon(direct->writer, direct->copy);
	munmap((void *)(uintptr_t)direct->region, direct->store->region.bytes);
}

static const struct device_ops direct_ops = {
	.name = "direct",
	.close = direct_close,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.destroy_comp_channel = destroy_comp_channel,
	.destroy_cq = destroy_cq,
	.get_cq_event = get_cq_event,
	.destroy_qp = destroy_id,
	.destroy_cm_channel = destroy_cm_channel,
	.cm_get_event = cm_get_event,
	.disconnect = disconnect,
	.destroy_id = destroy_id,
};

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "direct: %s: %m\n", what);
		exit(EXIT_FAILURE);
	}
}

static void direct_init_device(struct direct *direct)
{
	const struct region *region = &direct->store->region;
	struct kvd *kvd = &direct->kvd;
	void *p = mmap(NULL, region->bytes, PROT_READ, MAP_SHARED, region->fd, 0);

	must(p != MAP_FAILED, "mmap");
	direct->region = p;
	direct->context.ops.post_send = post_send;
	direct->context.ops.post_recv = post_receive;
	direct->context.ops.poll_cq = poll_cq;
	direct->context.ops.req_notify_cq = req_notify_cq;
	direct->qp.context = direct->cq.context = &direct->context;
	direct->comp_channel.fd = eventfd(0, EFD_CLOEXEC);
	direct->cm_channel.fd = eventfd(0, EFD_CLOEXEC);
	must(direct->comp_channel.fd >= 0 && direct->cm_channel.fd >= 0, "eventfd");
	direct->device = (struct device){
		.kind = DEVICE_SOFTNIC,
		.ops = &direct_ops,
		.verbs = &direct->context,
		.name = "direct",
		.address = "direct",
	};
	kvd->dev = &direct->device;
	kvd->qp = &direct->qp;
	kvd->cq = &direct->cq;
	kvd->comp_channel = &direct->comp_channel;
	kvd->cm_channel = &direct->cm_channel;
	kvd->id = &direct->id;
	kvd->port.max_msg_sz = 1u << 30;
}

/* As client/open.c has it after the server's welcome. */
static void direct_init_handle(struct direct *direct, const struct kvd_options *options)
{
	struct kvd *kvd = &direct->kvd;
	uint32_t i;
	bool ok;

	if (options)
		kvd->options = *options;
	else
		kvd_options_init(&kvd->options);
	kvd->geometry = direct->store->region.geometry;
	kvd->region_addr = (uintptr_t)direct->store->region.base;
	kvd->window = 1;
	kvd->request_bytes = DIRECT_BUFFER_BYTES;
	for (i = 0; i <= KVD_OP_DELETE; i++)
		hist_init(&kvd->latency[i]);
	ok = !memory_resize(kvd, &kvd->messages, RECVS * RESPONSE_BYTES + WIRE_RESPONSE_MAX, 0) &&
	     !memory_resize(kvd, &kvd->buckets, GETS_MAX * BUCKET_BYTES, 0) &&
	     !memory_resize(kvd, &kvd->scratch, SCRATCH_BYTES_MIN, 0) &&
	     !bcache_init(&kvd->cache, kvd->options.cache_bytes, geometry_buckets(&kvd->geometry));
	for (i = 0; ok && i < RECVS; i++)
		ok = !post_recv(kvd, i);
	must(ok, "handle");
}

struct direct *direct_open(struct store *store, unsigned int writer,
			   const struct kvd_options *options)
{
	struct direct *direct = calloc(1, sizeof(*direct));

	must(direct && writer < store->writer_count, "calloc");
	direct->store = store;
	direct->writer = &store->writers[writer];
	direct->copy_seed = 0x5eed + ((uint64_t)writer << 32);
	direct->random = 0x9e3779b97f4a7c15 + writer;
	direct_init_device(direct);
	direct_init_handle(direct, options);
	return direct;
}
