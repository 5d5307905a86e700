/* SPDX-License-Identifier: MIT */
/* A raw client: connects, sends what it is told to, and takes what comes back. */
#include "tests/support/raw_peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/clock.h"

enum wr { WR_RECV, WR_SEND, WR_RDMA };

#define RNR_TIMER 12	     /* 0.64 ms */
#define RNR_TIMER_LONGEST 31 /* 0.49 s */

const char *raw_url;
const char *raw_tenant;

uint8_t *raw_data(const struct raw_peer *p)
{
	return p->memory + RAW_SEND_BYTES + RAW_RECVS * RAW_RECV_BYTES;
}

_Noreturn void raw_die(const char *what, int err)
{
	printf("FAIL  %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(EXIT_FAILURE);
}

static void raw_post_recv(struct raw_peer *p, uint64_t n)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(p->memory + RAW_SEND_BYTES + n * RAW_RECV_BYTES),
		.length = RAW_RECV_BYTES,
		.lkey = p->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = (uint64_t)WR_RECV << 32 | n,
		.sg_list = &sge,
		.num_sge = 1,
	};

	/* Fails when the queue pair is in error, for which some cases wait. */
	(void)ibv_post_recv(p->id->qp, &wr, &bad);
}

static void raw_open_queues(struct raw_peer *p)
{
	const struct device_ops *ops = p->dev->ops;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = RAW_SENDS,
			.max_recv_wr = RAW_RECVS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	int err = ops->alloc_pd(p->dev, &p->pd);

	if (!err)
		err = ops->create_cq(p->dev, RAW_SENDS + RAW_RECVS, p, NULL, &p->cq);
	if (!err)
		err = ops->create_cm_channel(p->dev, &p->channel);
	if (!err)
		err = ops->create_id(p->channel, &p->id);
	if (err)
		raw_die("queues", err);
	attr.send_cq = attr.recv_cq = p->cq;
	err = ops->create_qp(p->id, p->pd, &attr, IBV_ACCESS_REMOTE_READ);
	if (err)
		raw_die("create_qp", err);
}

static void raw_open_memory(struct raw_peer *p)
{
	struct device_mem mem = { .length = RAW_MEMORY_BYTES, .fd = -1 };
	int err;

	mem.addr = mmap(NULL, mem.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	if (mem.addr == MAP_FAILED)
		raw_die("mmap", errno);
	p->memory = mem.addr;
	err = p->dev->ops->reg_mr(p->pd, &mem, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
				  &p->mr);
	if (err)
		raw_die("reg_mr", err);
}

void raw_open(struct raw_peer *p, bool deaf)
{
	struct device_addr addr;
	unsigned int i;
	char why[160];
	int err;

	memset(p, 0, sizeof(*p));
	p->deaf = deaf;
	if (device_addr_parse(&addr, raw_url, why, sizeof(why)))
		raw_die(why, EINVAL);
	/* Where the server wants to know who we are. */
	addr.tls = (struct tls_files){ .psk = getenv("KVD_TLS_PSK"), .peer_certificate = true };
	err = device_open(&p->dev, &addr, DEVICE_CONNECT, (int)(RAW_DEADLINE_NS / 1000000));
	if (err)
		raw_die("device_open", err);
	raw_open_queues(p);
	raw_open_memory(p);
	for (i = 0; !deaf && i < RAW_RECVS; i++)
		raw_post_recv(p, i);
}

void raw_close(struct raw_peer *p)
{
	const struct device_ops *ops = p->dev->ops;

	ops->disconnect(p->id);
	ops->destroy_id(p->id);
	ops->destroy_cm_channel(p->channel);
	ops->destroy_cq(p->cq);
	ops->dereg_mr(p->mr);
	ops->dealloc_pd(p->pd);
	device_close(p->dev);
	munmap(p->memory, RAW_MEMORY_BYTES);
}

static void take_response(struct raw_peer *p, const struct ibv_wc *wc)
{
	uint64_t n = (uint32_t)wc->wr_id;
	const uint8_t *message = p->memory + RAW_SEND_BYTES + n * RAW_RECV_BYTES;

	if (wc->byte_len >= sizeof(p->response)) {
		memcpy(&p->response, message, sizeof(p->response));
		memcpy(p->value, message + sizeof(p->response), wc->byte_len - sizeof(p->response));
		p->responses++;
	}
	if (!p->deaf)
		raw_post_recv(p, n);
}

static void take_event(struct raw_peer *p, const struct cm_event *event)
{
	switch (event->type) {
	case CM_ESTABLISHED:
		p->established = true;
		break;
	case CM_REJECTED:
		memcpy(&p->reject, event->private_data, sizeof(p->reject));
		p->refused = true;
		break;
	case CM_UNREACHABLE:
	case CM_DISCONNECTED:
	case CM_DEVICE_REMOVED:
		p->closed = true;
		break;
	case CM_CONNECT_REQUEST:
		break;
	}
}

void raw_poll_events(struct raw_peer *p)
{
	struct cm_event event;

	while (!p->dev->ops->cm_get_event(p->channel, &event))
		take_event(p, &event);
}

void raw_poll(struct raw_peer *p)
{
	struct ibv_wc wc;

	raw_poll_events(p);
	while (ibv_poll_cq(p->cq, 1, &wc) > 0) {
		if (wc.wr_id >> 32 == WR_RECV) {
			if (!wc.status)
				take_response(p, &wc);
			continue;
		}
		p->status = wc.status;
		if (wc.wr_id >> 32 == WR_SEND)
			p->sends_done++;
		else
			p->rdma_done++;
	}
}

bool raw_wait(struct raw_peer *p, bool (*done)(const struct raw_peer *))
{
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;

	for (;;) {
		raw_poll(p);
		if (done(p))
			return true;
		if (clock_ns() > end)
			return false;
		usleep(RAW_PAUSE_US);
	}
}

bool raw_is_settled(const struct raw_peer *p)
{
	return p->established || p->refused || p->closed;
}

bool raw_is_closed(const struct raw_peer *p)
{
	return p->closed;
}

bool raw_is_responded(const struct raw_peer *p)
{
	return p->responses || p->closed;
}

bool raw_is_rdma_done(const struct raw_peer *p)
{
	return p->rdma_done || p->closed;
}

void raw_connect(struct raw_peer *p, const void *private_data, size_t bytes)
{
	const struct cm_param param = {
		.private_data = private_data,
		.private_len = (uint8_t)bytes,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.min_rnr_timer = p->rnr_timer ? p->rnr_timer : RNR_TIMER,
	};
	int err = p->dev->ops->connect(p->id, &param);

	if (err)
		raw_die("connect", err);
	if (!raw_wait(p, raw_is_settled))
		raw_die("connect", ETIMEDOUT);
}

const struct wire_connect raw_good_connect = {
	.magic = WIRE_MAGIC,
	.abi = WIRE_ABI,
};

static void raw_start_connected(struct raw_peer *p)
{
	struct wire_connect connect = raw_good_connect;

	if (raw_tenant)
		snprintf(connect.tenant, sizeof(connect.tenant), "%s", raw_tenant);
	raw_connect(p, &connect, sizeof(connect));
	if (!p->established)
		raw_die(p->refused ? p->reject.text : "connect", ECONNREFUSED);
}

void raw_start(struct raw_peer *p, bool deaf)
{
	raw_open(p, deaf);
	raw_start_connected(p);
}

int raw_send_at(struct raw_peer *p, size_t at, size_t bytes)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)p->memory + at,
		.length = (uint32_t)bytes,
		.lkey = p->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uint64_t)WR_SEND << 32,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	p->responses = 0;
	return ibv_post_send(p->id->qp, &wr, &bad);
}

int raw_send(struct raw_peer *p, size_t bytes)
{
	return raw_send_at(p, 0, bytes);
}

int raw_rdma(struct raw_peer *p, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
	     uint32_t bytes)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw_data(p),
		.length = bytes,
		.lkey = p->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uint64_t)WR_RDMA << 32,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	p->rdma_done = 0;
	return ibv_post_send(p->id->qp, &wr, &bad);
}

size_t raw_fill(struct raw_peer *p, const struct wire_request *head, size_t key_len,
		size_t value_len)
{
	memcpy(p->memory, head, sizeof(*head));
	memset(p->memory + sizeof(*head), 'k', key_len);
	memset(p->memory + sizeof(*head) + key_len, 'v', value_len);
	return sizeof(*head) + key_len + value_len;
}

void raw_fill_hello(struct raw_peer *p, const struct wire_hello *hello)
{
	const struct wire_request head = {
		.op = WIRE_HELLO,
		.value_len = sizeof(*hello),
		.id = 1,
	};

	memcpy(p->memory, &head, sizeof(head));
	memcpy(p->memory + sizeof(head), hello, sizeof(*hello));
}

const struct wire_hello raw_good_hello = {
	.magic = WIRE_MAGIC,
	.abi = WIRE_ABI,
	.response_bytes = RAW_RECV_BYTES,
};

static bool raw_hello(struct raw_peer *p, const struct wire_hello *hello)
{
	raw_fill_hello(p, hello);
	if (raw_send(p, RAW_HELLO_BYTES) || !raw_wait(p, raw_is_responded) || p->closed)
		return false;
	if (p->response.status != WIRE_OK || p->response.value_len != sizeof(p->welcome))
		raw_die("HELLO", EPROTO);
	memcpy(&p->welcome, p->value, sizeof(p->welcome));
	return true;
}

bool raw_greet_with(struct raw_peer *p, const struct wire_hello *hello)
{
	raw_start(p, false);
	return raw_hello(p, hello);
}

void raw_greet_deaf(struct raw_peer *p)
{
	raw_open(p, true);
	p->rnr_timer = RNR_TIMER_LONGEST;
	raw_post_recv(p, 0);
	raw_start_connected(p);
	if (!raw_hello(p, &raw_good_hello))
		raw_die("HELLO", EPROTO);
}

void raw_greet(struct raw_peer *p)
{
	if (!raw_greet_with(p, &raw_good_hello))
		raw_die("HELLO", EPROTO);
}
