/* SPDX-License-Identifier: MIT */
/*
 * Two ends of softnic in one process: creates each end's device and objects, connects them, and
 * posts and polls for the unit tests.
 */
#include "tests/support/softnic_pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/softnic.h"

#define OPS (&softnic_ops)

const struct end_options END_DEFAULTS = {
	.share = true,
	.access = IBV_ACCESS_REMOTE_READ,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
};

static char pair_dir[] = "/tmp/kvd-test-softnic-XXXXXX";
static char pair_socket[64];

const char *pair_path(void)
{
	static unsigned int count;

	if (!count && !mkdtemp(pair_dir))
		abort();
	snprintf(pair_socket, sizeof(pair_socket), "%s/%u", pair_dir, count++);
	return pair_socket;
}

void pair_path_release(void)
{
	rmdir(pair_dir);
}

uint64_t pair_now_ms(void)
{
	return sn_now_ns(CLOCK_MONOTONIC) / 1000000u;
}

/* Without holes: a client does not map a file with some. */
static int end_map(struct end *end, bool share)
{
	int flags = share ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE | MAP_ANONYMOUS;

	end->fd = -1;
	if (share) {
		end->fd = memfd_create("end", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (end->fd < 0 || ftruncate(end->fd, PAIR_MEM_BYTES))
			return -errno;
	}
	end->mem = mmap(NULL, PAIR_MEM_BYTES, PROT_READ | PROT_WRITE, flags, end->fd, 0);
	if (end->mem == MAP_FAILED) {
		end->mem = NULL;
		return -errno;
	}
	return 0;
}

static int end_init_queues(struct end *end, const struct end_options *options)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = PAIR_RECVS, .max_sge = 1 } };
	struct ibv_comp_channel *send_comp;
	int ret = options->paired ? OPS->create_channel_pair(end->dev, &end->comp, &end->cm) :
				    OPS->create_comp_channel(end->dev, &end->comp);

	if (ret)
		return ret;
	ret = OPS->create_cq(end->dev, 1024, end, end->comp, &end->recv_cq);
	if (ret)
		return ret;
	end->cq = end->recv_cq;
	if (options->two_cqs) {
		ret = OPS->create_comp_channel(end->dev, &send_comp);
		if (ret)
			return ret;
		ret = OPS->create_cq(end->dev, 1024, end, send_comp, &end->cq);
		if (ret)
			return ret;
	}
	return OPS->create_srq(end->pd, &attr, &end->srq);
}

int end_init(struct end *end, enum device_role role, const char *path,
	     const struct end_options *options)
{
	struct device_addr addr = { .kind = DEVICE_SOFTNIC, .mode = 0600 };
	struct device_mem mem;
	unsigned int i;
	int ret;

	*end = (struct end){ .fd = -1 };
	snprintf(addr.path, sizeof(addr.path), "%s", path);
	ret = device_open(&end->dev, &addr, role, 1000);
	if (!ret)
		ret = end_map(end, options->share);
	if (!ret)
		ret = OPS->alloc_pd(end->dev, &end->pd);
	mem = (struct device_mem){ .addr = end->mem, .length = PAIR_MEM_BYTES, .fd = end->fd };
	if (!ret)
		ret = OPS->reg_mr(end->pd, &mem, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
				  &end->mr);
	if (!ret)
		ret = end_init_queues(end, options);
	for (i = 0; !ret && i < PAIR_RECVS; i++)
		ret = end_post_recv(end, i);
	if (!ret && !options->paired)
		ret = OPS->create_cm_channel(end->dev, &end->cm);
	if (!ret && role == DEVICE_LISTEN)
		ret = OPS->listen(end->cm, 64, &end->listener);
	return ret;
}

int default_ends(struct end *server, struct end *client)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(server, DEVICE_LISTEN, path, &END_DEFAULTS);
	return ret ?: end_init(client, DEVICE_CONNECT, path, &END_DEFAULTS);
}

void end_release(struct end *end)
{
	struct ibv_comp_channel *send_comp = end->cq && end->cq != end->recv_cq ? end->cq->channel :
										  NULL;
	unsigned int i;

	OPS->destroy_id(end->id);
	OPS->destroy_id(end->listener);
	OPS->destroy_cm_channel(end->cm);
	OPS->destroy_srq(end->srq);
	if (end->cq != end->recv_cq)
		OPS->destroy_cq(end->cq);
	OPS->destroy_cq(end->recv_cq);
	OPS->destroy_comp_channel(send_comp);
	OPS->destroy_comp_channel(end->comp);
	OPS->dereg_mr(end->mr);
	OPS->dealloc_pd(end->pd);
	for (i = 0; end->dev && i < SN_OBJECT_COUNT; i++)
		if (atomic_load(&dev_to_sn_context(end->dev)->objects[i])) {
			fprintf(stderr, "objects of kind %u were left\n", i);
			abort();
		}
	device_close(end->dev);
	if (end->mem)
		munmap(end->mem, PAIR_MEM_BYTES);
	if (end->fd >= 0)
		close(end->fd);
	*end = (struct end){ .fd = -1 };
}

int end_create_qp(struct end *end, struct cm_id *id, const struct end_options *options)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->recv_cq,
		.srq = end->srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = PAIR_SEND_WR, .max_send_sge = 2, .max_inline_data = 64 },
	};

	return OPS->create_qp(id, end->pd, &attr, options->access);
}

static struct cm_param end_param(const struct end_options *options)
{
	return (struct cm_param){
		.rnr_retry_count = options->rnr_retry,
		.min_rnr_timer = options->min_rnr_timer,
		.retry_count = 7,
	};
}

int end_connect(struct end *end, struct cm_id **id, const struct end_options *options)
{
	struct cm_param param = end_param(options);
	int ret = OPS->create_id(end->cm, id);

	if (ret)
		return ret;
	ret = end_create_qp(end, *id, options);
	if (!ret)
		ret = OPS->connect(*id, &param);
	return ret;
}

static int end_accept(struct end *end, struct cm_id *id, const struct end_options *options)
{
	struct pair_hello hello = { (uintptr_t)end->mem, end->mr->rkey };
	struct cm_param param = end_param(options);
	int ret = end_create_qp(end, id, options);

	param.private_data = &hello;
	param.private_len = sizeof(hello);
	if (!ret)
		ret = OPS->accept(id, &param);
	if (ret)
		OPS->destroy_id(id);
	else if (!end->id)
		end->id = id;
	return ret;
}

int end_serve_cm(struct end *end, const struct end_options *options)
{
	struct cm_event event;
	int ret = OPS->cm_get_event(end->cm, &event);

	if (ret)
		return ret;
	switch (event.type) {
	case CM_CONNECT_REQUEST:
		return end_accept(end, event.id, options);
	case CM_ESTABLISHED:
		end->connected++;
		if (event.private_len == sizeof(end->remote))
			memcpy(&end->remote, event.private_data, sizeof(end->remote));
		return 0;
	case CM_DISCONNECTED:
		end->disconnected++;
		if (end->listener) {
			if (end->id == event.id)
				end->id = NULL;
			OPS->destroy_id(event.id);
		}
		return 0;
	case CM_UNREACHABLE:
		return event.status;
	case CM_DEVICE_REMOVED:
		return -ENODEV;
	default:
		return -ECONNREFUSED;
	}
}

int ends_connect(struct end *server, struct end *client, struct cm_id **id,
		 const struct end_options *server_options, const struct end_options *client_options)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	unsigned int before = server->connected;
	int ret = end_connect(client, id, client_options);

	while (!ret && server->connected == before) {
		ret = end_serve_cm(server, server_options);
		if (!ret || ret == -EAGAIN)
			ret = end_serve_cm(client, client_options);
		if (ret == -EAGAIN)
			ret = pair_now_ms() < deadline ? 0 : -ETIMEDOUT;
	}
	return ret;
}

uint32_t end_recv_bytes(void)
{
	return PAIR_MEM_BYTES / 2 / PAIR_RECVS;
}

uint8_t *end_recv_slot(const struct end *end, unsigned int slot)
{
	return end->mem + PAIR_MEM_BYTES / 2 + (size_t)slot * end_recv_bytes();
}

int end_post_recv(struct end *end, unsigned int slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end_recv_slot(end, slot),
		.length = end_recv_bytes(),
		.lkey = end->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return -ibv_post_srq_recv(end->srq, &wr, &bad);
}

int end_post_send(struct end *end, struct ibv_qp *qp, uint32_t offset, uint32_t length,
		  unsigned int flags)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->mem + offset,
		.length = length,
		.lkey = end->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = offset,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
	}, *bad;

	return -ibv_post_send(qp, &wr, &bad);
}

int end_post_read(struct end *end, struct ibv_qp *qp, uint32_t offset, uint32_t length,
		  uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->mem + offset,
		.length = length,
		.lkey = end->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = offset,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	}, *bad;

	return -ibv_post_send(qp, &wr, &bad);
}

int end_wait(struct end *end, struct end *other, struct ibv_wc *wc)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct ibv_wc stray;
	int got;

	do {
		got = ibv_poll_cq(end->recv_cq, 1, wc);
		if (!got && end->cq != end->recv_cq)
			got = ibv_poll_cq(end->cq, 1, wc);
		if (got)
			return got < 0 ? got : 0;
		got = other ? ibv_poll_cq(other->recv_cq, 0, &stray) : 0;
		if (got < 0)
			return got;
	} while (pair_now_ms() < deadline);
	return -ETIMEDOUT;
}
