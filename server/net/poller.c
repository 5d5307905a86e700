/* SPDX-License-Identifier: MIT */
/*
 * What a worker has on one device. There are as many buffers for responses as for receives, and a
 * quarter more: the sum of the windows granted never exceeds srq_depth, and a connection holds at
 * most its window of responses beside that quarter, so neither kind runs out (guarantees F and G).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util/log.h"
#include "server/net/worker.h"

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

static int endpoint_init_buffers(struct endpoint *endpoint)
{
	const struct worker_limits *limits = &endpoint->worker->limits;
	uint32_t i, count = 2 * limits->srq_depth + limits->srq_depth / 4;
	struct device_mem mem = { .fd = -1 };

	endpoint->buffers = calloc(count, sizeof(*endpoint->buffers));
	endpoint->free = calloc(count, sizeof(*endpoint->free));
	if (!endpoint->buffers || !endpoint->free)
		return -ENOMEM;
	mem.length = (size_t)count * limits->buffer_bytes;
	mem.addr = mmap(NULL, mem.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	if (mem.addr == MAP_FAILED)
		return -errno;
	endpoint->memory = mem.addr;
	endpoint->memory_bytes = mem.length;
	for (i = count; i > limits->srq_depth; i--)
		buffer_put(endpoint, i - 1);
	endpoint->extra = limits->srq_depth / 4;
	return endpoint->nic->dev->ops->reg_mr(endpoint->nic->pd, &mem, IBV_ACCESS_LOCAL_WRITE,
					       &endpoint->mr);
}

/* Flushing a queue pair completes all it holds at once: the CQ has room for that on all of them. */
static int endpoint_cq_size(struct endpoint *endpoint)
{
	const struct worker_limits *limits = &endpoint->worker->limits;
	uint32_t each = conn_sq_depth(limits->window, limits->signal_every);
	uint32_t most = (uint32_t)endpoint->nic->attr.max_cqe;

	if (most < limits->srq_depth + each) {
		log_error("device %s has completion queues of %u entries at most: lower "
			  "request.srq_depth or request.window",
			  endpoint->nic->dev->name, most);
		return -EINVAL;
	}
	endpoint->conns_max = min32(limits->conns_max, (most - limits->srq_depth) / each);
	if (endpoint->conns_max < limits->conns_max)
		log_notice("device %s has completion queues of %u entries at most: %u connections "
			   "for worker %u",
			   endpoint->nic->dev->name, most, endpoint->conns_max,
			   endpoint->worker->number);
	return (int)(limits->srq_depth + endpoint->conns_max * each);
}

static int endpoint_init_queues(struct endpoint *endpoint)
{
	const struct device_ops *ops = endpoint->nic->dev->ops;
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = endpoint->worker->limits.srq_depth, .max_sge = 1 },
	};
	int size, err;

	size = endpoint_cq_size(endpoint);
	if (size < 0)
		return size;
	err = ops->create_comp_channel(endpoint->nic->dev, &endpoint->comp_channel);
	if (!err)
		err = ops->create_cq(endpoint->nic->dev, size, endpoint, endpoint->comp_channel,
				     &endpoint->cq);
	if (!err)
		err = ops->create_srq(endpoint->nic->pd, &attr, &endpoint->srq);
	return err;
}

static void endpoint_fill_srq(struct endpoint *endpoint)
{
	uint32_t i, j, buffers[BATCH_MAX];

	for (i = 0; i < endpoint->worker->limits.srq_depth; i += j) {
		for (j = 0; j < BATCH_MAX && i + j < endpoint->worker->limits.srq_depth; j++)
			buffers[j] = i + j;
		endpoint_post_recvs(endpoint, buffers, j);
	}
}

/* The second net under the credits. */
int endpoint_arm_srq_limit(struct endpoint *endpoint)
{
	struct ibv_srq_attr attr = { .srq_limit = endpoint->worker->limits.srq_depth / 8 };

	return endpoint->nic->dev->ops->modify_srq(endpoint->srq, &attr, IBV_SRQ_LIMIT);
}

int endpoint_init(struct endpoint *endpoint, struct worker *worker, struct nic *nic)
{
	int err;

	*endpoint = (struct endpoint){
		.worker = worker,
		.nic = nic,
		.inline_max = INLINE_WANTED,
		.credits = worker->limits.srq_depth,
	};
	endpoint->conns = cds_lfht_new(CONNS_HASH_BUCKETS, CONNS_HASH_BUCKETS, CONNS_HASH_BUCKETS,
				       0, NULL);
	err = endpoint->conns ? endpoint_init_buffers(endpoint) : -ENOMEM;
	if (!err)
		err = endpoint_init_queues(endpoint);
	if (!err) {
		endpoint_fill_srq(endpoint);
		err = endpoint_arm_srq_limit(endpoint);
	}
	if (err) {
		log_error("worker %u on device %s: can't set up queues and buffers (%u receives of "
			  "%u bytes): %s",
			  worker->number, nic->dev->name, worker->limits.srq_depth,
			  worker->limits.buffer_bytes, strerror(-err));
		endpoint_release(endpoint);
		return err;
	}
	return 0;
}

void endpoint_release(struct endpoint *endpoint)
{
	const struct device_ops *ops = endpoint->nic->dev->ops;

	ops->destroy_srq(endpoint->srq);
	ops->destroy_cq(endpoint->cq);
	ops->destroy_comp_channel(endpoint->comp_channel);
	ops->dereg_mr(endpoint->mr);
	if (endpoint->memory)
		munmap(endpoint->memory, endpoint->memory_bytes);
	free(endpoint->buffers);
	free(endpoint->free);
	if (endpoint->conns)
		cds_lfht_destroy(endpoint->conns, NULL);
}

void endpoint_post_recvs(struct endpoint *endpoint, const uint32_t *buffers, unsigned int count)
{
	struct ibv_recv_wr wrs[BATCH_MAX], *bad;
	struct ibv_sge sges[BATCH_MAX];
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)endpoint_buffer(endpoint, buffers[i]),
			.length = endpoint->worker->limits.buffer_bytes,
			.lkey = endpoint->mr->lkey,
		};
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = wr_id_make(WR_RECV, 0, 0, buffers[i]),
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	err = count ? ibv_post_srq_recv(endpoint->srq, wrs, &bad) : 0;
	if (err) {
		/* There are exactly as many buffers as the SRQ has room for: the device is broken. */
		log_error("device %s: ibv_post_srq_recv: %s; giving up", endpoint->nic->dev->name,
			  strerror(err));
		abort();
	}
}
