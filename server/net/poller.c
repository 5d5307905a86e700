/* SPDX-License-Identifier: MIT */
/*
 * What a worker has on one device. There are as many buffers for responses as for receives, and a
 * quarter more: the sum of the windows granted never exceeds srq_depth, and a connection holds at
 * most its window of responses beside that quarter, so neither kind runs out (guarantees F and G).
 */
#include "server/net/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util/log.h"
#include "server/net/conn.h"

/*
 * Responses of up to this many bytes go inside the work request, if the device can: that saves the
 * device a DMA read of host memory. Headers have 40 bytes.
 */
#define INLINE_WANTED 220

/* Buckets of the table of connections: fixed, so that liburcu needs no resizing thread. */
#define CONNS_HASH_BUCKETS 1024

static uint32_t min32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int poller_init_buffers(struct poller *poller)
{
	const struct worker_limits *limits = &poller->worker->limits;
	uint32_t i, count = 2 * limits->srq_depth + limits->srq_depth / 4;
	struct device_mem mem = { .fd = -1 };

	poller->buffers = calloc(count, sizeof(*poller->buffers));
	poller->free = calloc(count, sizeof(*poller->free));
	if (!poller->buffers || !poller->free)
		return -ENOMEM;
	mem.length = (size_t)count * limits->buffer_bytes;
	mem.addr = mmap(NULL, mem.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	if (mem.addr == MAP_FAILED)
		return -errno;
	poller->memory = mem.addr;
	poller->memory_bytes = mem.length;
	for (i = count; i > limits->srq_depth; i--)
		buffer_put(poller, i - 1);
	poller->extra = limits->srq_depth / 4;
	return poller->nic->dev->ops->reg_mr(poller->nic->pd, &mem, IBV_ACCESS_LOCAL_WRITE,
					     &poller->mr);
}

/* Flushing a queue pair completes all it holds at once: the CQ has room for that on all of them. */
static int poller_cq_size(struct poller *poller)
{
	const struct worker_limits *limits = &poller->worker->limits;
	uint32_t each = conn_sq_depth(limits->window, limits->signal_every);
	uint32_t most = (uint32_t)poller->nic->attr.max_cqe;

	if (most < limits->srq_depth + each) {
		log_error("device %s has completion queues of %u entries at most: lower "
			  "request.srq_depth or request.window",
			  poller->nic->dev->name, most);
		return -EINVAL;
	}
	poller->conns_max = min32(limits->conns_max, (most - limits->srq_depth) / each);
	if (poller->conns_max < limits->conns_max)
		log_notice("device %s has completion queues of %u entries at most: %u connections "
			   "for worker %u",
			   poller->nic->dev->name, most, poller->conns_max, poller->worker->number);
	return (int)(limits->srq_depth + poller->conns_max * each);
}

static int poller_init_queues(struct poller *poller)
{
	const struct device_ops *ops = poller->nic->dev->ops;
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = poller->worker->limits.srq_depth, .max_sge = 1 },
	};
	int size, err;

	size = poller_cq_size(poller);
	if (size < 0)
		return size;
	err = ops->create_comp_channel(poller->nic->dev, &poller->comp_channel);
	if (!err)
		err = ops->create_cq(poller->nic->dev, size, poller, poller->comp_channel,
				     &poller->cq);
	if (!err)
		err = ops->create_srq(poller->nic->pd, &attr, &poller->srq);
	return err;
}

static void poller_fill_srq(struct poller *poller)
{
	uint32_t i, j, buffers[BATCH_MAX];

	for (i = 0; i < poller->worker->limits.srq_depth; i += j) {
		for (j = 0; j < BATCH_MAX && i + j < poller->worker->limits.srq_depth; j++)
			buffers[j] = i + j;
		poller_post_recvs(poller, buffers, j);
	}
}

/* The second net under the credits. */
int poller_arm_srq_limit(struct poller *poller)
{
	struct ibv_srq_attr attr = { .srq_limit = poller->worker->limits.srq_depth / 8 };

	return poller->nic->dev->ops->modify_srq(poller->srq, &attr, IBV_SRQ_LIMIT);
}

int poller_init(struct poller *poller, struct worker *worker, struct nic *nic)
{
	int err;

	*poller = (struct poller){
		.worker = worker,
		.nic = nic,
		.inline_max = INLINE_WANTED,
		.credits = worker->limits.srq_depth,
	};
	poller->conns = cds_lfht_new(CONNS_HASH_BUCKETS, CONNS_HASH_BUCKETS, CONNS_HASH_BUCKETS, 0,
				     NULL);
	err = poller->conns ? poller_init_buffers(poller) : -ENOMEM;
	if (!err)
		err = poller_init_queues(poller);
	if (!err) {
		poller_fill_srq(poller);
		err = poller_arm_srq_limit(poller);
	}
	if (err) {
		log_error("worker %u on device %s: can't set up queues and buffers (%u receives of "
			  "%u bytes): %s",
			  worker->number, nic->dev->name, worker->limits.srq_depth,
			  worker->limits.buffer_bytes, strerror(-err));
		poller_release(poller);
		return err;
	}
	return 0;
}

void poller_release(struct poller *poller)
{
	const struct device_ops *ops = poller->nic->dev->ops;

	ops->destroy_srq(poller->srq);
	ops->destroy_cq(poller->cq);
	ops->destroy_comp_channel(poller->comp_channel);
	ops->dereg_mr(poller->mr);
	if (poller->memory)
		munmap(poller->memory, poller->memory_bytes);
	free(poller->buffers);
	free(poller->free);
	if (poller->conns)
		cds_lfht_destroy(poller->conns, NULL);
}

void poller_post_recvs(struct poller *poller, const uint32_t *buffers, unsigned int count)
{
	struct ibv_recv_wr wrs[BATCH_MAX], *bad;
	struct ibv_sge sges[BATCH_MAX];
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)poller_buffer(poller, buffers[i]),
			.length = poller->worker->limits.buffer_bytes,
			.lkey = poller->mr->lkey,
		};
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = wr_id_make(WR_RECV, 0, 0, buffers[i]),
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	err = count ? ibv_post_srq_recv(poller->srq, wrs, &bad) : 0;
	if (err) {
		/* There are exactly as many buffers as the SRQ has room for: the device is broken. */
		log_error("device %s: ibv_post_srq_recv: %s; giving up", poller->nic->dev->name,
			  strerror(err));
		abort();
	}
}
