/* SPDX-License-Identifier: MIT */
/* Both ends of a connection, made and used alike by all conformance cases: see conformance.h. */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 128
#define URL_MAX 512
#define WHY_MAX 256

struct suite suite;

const struct pair_options PAIR_DEFAULTS = {
	.send_wr = 32,
	.recv_wr = 64,
	.sges = 4,
	.cqe = 256,
	.server_access = IBV_ACCESS_REMOTE_READ,
	.client_access = IBV_ACCESS_REMOTE_READ,
	.mem_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	.mem_bytes = SIDE_MEM_BYTES,
	/* RNR timer code 12 is 0.64 ms: time for many retries in a short test. */
	.param = { .retry_count = 7, .rnr_retry_count = 7, .min_rnr_timer = 12 },
};

void suite_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: check failed: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	_exit(EXIT_FAILURE);
}

int64_t suite_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void suite_sleep_us(unsigned int us)
{
	struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

struct tls_files suite_tls(void)
{
	return (struct tls_files){ .psk = getenv(SUITE_PSK), .peer_certificate = true };
}

struct device_addr suite_addr(const char *url)
{
	struct device_addr addr;
	char why[WHY_MAX];

	if (device_addr_parse(&addr, url, why, sizeof(why)))
		suite_fail(__FILE__, __LINE__, "%s", why);
	addr.tls = suite_tls();
	return addr;
}

struct device_addr suite_listen_addr(void)
{
	static _Atomic int sockets;
	struct device_addr addr;
	char url[URL_MAX];
	const char *host = getenv("KVD_RDMA_ADDR");

	if (suite.kind == DEVICE_SOFTNIC) {
		snprintf(url, sizeof(url), "softnic://%s/%d-%d.sock", suite.dir, getpid(),
			 atomic_fetch_add(&sockets, 1));
		return suite_addr(url);
	}
	snprintf(url, sizeof(url), host && strchr(host, ':') ? "%s[%s]:1" : "%s%s:1",
		 device_scheme(suite.kind), host ? host : "auto");
	addr = suite_addr(url);
	addr.port = 0; /* the kernel finds a free one */
	return addr;
}

struct device_addr suite_connect_addr(const struct device *dev)
{
	char url[URL_MAX];

	snprintf(url, sizeof(url), "%s%s", device_scheme(dev->kind), dev->address);
	return suite_addr(url);
}

static void mem_open(struct side *side, bool with_fd, const struct pair_options *options)
{
	struct device_mem mem;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	side->mem_bytes = options->mem_bytes;
	side->mem_fd = -1;
	if (with_fd) {
		side->mem_fd = memfd_create("conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		CHECK(side->mem_fd >= 0);
		CHECK_OK(ftruncate(side->mem_fd, (off_t)side->mem_bytes));
		flags = MAP_SHARED | MAP_POPULATE; /* a client maps no file with holes */
	}
	side->mem = mmap(NULL, side->mem_bytes, PROT_READ | PROT_WRITE, flags, side->mem_fd, 0);
	CHECK(side->mem != MAP_FAILED);
	if (with_fd)
		CHECK_OK(fcntl(side->mem_fd, F_ADD_SEALS,
			       F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE));
	mem = (struct device_mem){ side->mem, side->mem_bytes, side->mem_fd, 0 };
	CHECK_OK(suite.ops->reg_mr(side->pd, &mem, options->mem_access, &side->mr));
}

void side_open(struct side *side, const char *name, const struct device_addr *addr,
	       enum device_role role, const struct pair_options *options)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = options->recv_wr, .max_sge = 2 } };

	memset(side, 0, sizeof(*side));
	snprintf(side->name, sizeof(side->name), "%s", name);
	CHECK_OK(device_open(&side->dev, addr, role, SUITE_WAIT_MS));
	CHECK_OK(suite.ops->alloc_pd(side->dev, &side->pd));
	if (suite.pairs && role == DEVICE_CONNECT) {
		CHECK_OK(suite.ops->create_channel_pair(side->dev, &side->comp, &side->cm));
	} else {
		CHECK_OK(suite.ops->create_comp_channel(side->dev, &side->comp));
		CHECK_OK(suite.ops->create_cm_channel(side->dev, &side->cm));
	}
	CHECK_OK(suite.ops->create_cq(side->dev, options->cqe, side, side->comp, &side->cq));
	CHECK_OK(suite.ops->create_srq(side->pd, &srq, &side->srq));
	mem_open(side, options->server_fd && role == DEVICE_LISTEN, options);
}

void side_destroy_id(struct side *side)
{
	suite.ops->destroy_id(side->id);
	side->id = NULL;
}

void side_close(struct side *side)
{
	side_destroy_id(side);
	suite.ops->destroy_id(side->listener);
	suite.ops->destroy_cm_channel(side->cm);
	suite.ops->destroy_srq(side->srq);
	suite.ops->destroy_cq(side->cq);
	suite.ops->destroy_comp_channel(side->comp);
	suite.ops->dereg_mr(side->mr);
	suite.ops->dealloc_pd(side->pd);
	device_close(side->dev);
	munmap(side->mem, side->mem_bytes);
	if (side->mem_fd >= 0)
		close(side->mem_fd);
	memset(side, 0, sizeof(*side));
}

void side_listen(struct side *side)
{
	CHECK_OK(suite.ops->listen(side->cm, BACKLOG, &side->listener));
}

void side_create_qp(struct side *side, struct cm_id *id, int access,
		    const struct pair_options *options)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = side,
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.srq = side->srq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = options->sig_all,
		.cap = { .max_send_wr = options->send_wr,
			 .max_send_sge = options->sges,
			 .max_inline_data = options->inline_bytes },
	};

	CHECK_OK(suite.ops->create_qp(id, side->pd, &attr, access));
	CHECK(id->qp);
	side->cap = attr.cap;
}

static struct hello hello_of(const struct side *side)
{
	return (struct hello){ (uintptr_t)side->mem, side->mr->rkey, (uint32_t)side->mem_bytes };
}

void side_hello_read(struct side *side, const struct cm_event *event)
{
	CHECK(event->private_len >= sizeof(side->remote));
	memcpy(&side->remote, event->private_data, sizeof(side->remote));
}

void side_connect(struct side *side, const struct pair_options *options)
{
	struct cm_param param = options->param;
	struct hello hello = hello_of(side);

	param.private_data = &hello;
	param.private_len = sizeof(hello);
	CHECK_OK(suite.ops->create_id(side->cm, &side->id));
	side_create_qp(side, side->id, options->client_access, options);
	CHECK_OK(suite.ops->connect(side->id, &param));
}

void side_accept(struct side *side, const struct pair_options *options)
{
	struct cm_event event = side_event(side, CM_CONNECT_REQUEST);
	struct cm_param param = options->param;
	struct hello hello = hello_of(side);

	param.private_data = &hello;
	param.private_len = sizeof(hello);
	side_hello_read(side, &event);
	side->id = event.id;
	side_create_qp(side, side->id, options->server_access, options);
	CHECK_OK(suite.ops->accept(side->id, &param));
}

static struct ibv_sge sge_of(const struct side *side, size_t offset, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)side->mem + offset, len, side->mr->lkey };
}

int recv_post(struct side *side, uint64_t wr_id, size_t offset, uint32_t len)
{
	struct ibv_sge sge = sge_of(side, offset, len);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_srq_recv(side->srq, &wr, &bad);
}

int send_post(struct side *side, uint64_t wr_id, size_t offset, uint32_t len, unsigned int flags)
{
	struct ibv_sge sge = sge_of(side, offset, len);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(side->id->qp, &wr, &bad);
}

static int read_post_any(struct side *side, uint64_t wr_id, struct ibv_sge sge, uint64_t addr,
			 uint32_t rkey, unsigned int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = sge.length ? 1 : 0,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = flags,
		.wr.rdma = { addr, rkey },
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(side->id->qp, &wr, &bad);
}

int read_post(struct side *side, uint64_t wr_id, size_t offset, uint32_t len,
	      uint64_t remote_offset, unsigned int flags)
{
	return read_post_any(side, wr_id, sge_of(side, offset, len),
			     side->remote.addr + remote_offset, side->remote.rkey, flags);
}

int read_post_raw(struct side *side, uint64_t wr_id, size_t offset, uint32_t len, uint64_t addr,
		  uint32_t rkey)
{
	return read_post_any(side, wr_id, sge_of(side, offset, len), addr, rkey, IBV_SEND_SIGNALED);
}

void pair_listen(struct pair *pair, const struct pair_options *options)
{
	struct device_addr addr = suite_listen_addr();

	side_open(&pair->server, "server", &addr, DEVICE_LISTEN, options);
	side_listen(&pair->server);
	addr = suite_connect_addr(pair->server.dev);
	side_open(&pair->client, "client", &addr, DEVICE_CONNECT, options);
	pair->server.other = &pair->client;
	pair->client.other = &pair->server;
}

void pair_connect(struct pair *pair, const struct pair_options *options)
{
	struct cm_event event;

	side_connect(&pair->client, options);
	side_accept(&pair->server, options);
	event = side_event(&pair->client, CM_ESTABLISHED);
	CHECK(event.id == pair->client.id);
	side_hello_read(&pair->client, &event);
	event = side_event(&pair->server, CM_ESTABLISHED);
	CHECK(event.id == pair->server.id);
}

void pair_open(struct pair *pair, const struct pair_options *options)
{
	pair_listen(pair, options);
	pair_connect(pair, options);
}

void pair_close(struct pair *pair)
{
	pair->server.other = NULL;
	side_close(&pair->client);
	side_close(&pair->server);
}

#define PING_BYTES 16
#define PING_RECV 101
#define PING_SEND 102

static void ping_one_way(struct side *from, struct side *to)
{
	static _Atomic unsigned int seeds;
	unsigned int seed = atomic_fetch_add(&seeds, 1);
	size_t at = from->mem_bytes - PING_BYTES;

	mem_fill(from, at, PING_BYTES, seed);
	CHECK_OK(recv_post(to, PING_RECV, at, PING_BYTES));
	CHECK_OK(send_post(from, PING_SEND, at, PING_BYTES, IBV_SEND_SIGNALED));
	CHECK_INT(side_wc_is(to, PING_RECV, IBV_WC_SUCCESS).byte_len, PING_BYTES);
	side_wc_is(from, PING_SEND, IBV_WC_SUCCESS);
	mem_check(to, at, PING_BYTES, seed);
}

void pair_ping(struct pair *pair)
{
	ping_one_way(&pair->client, &pair->server);
	ping_one_way(&pair->server, &pair->client);
}

static uint8_t pattern(size_t i, unsigned int seed)
{
	return (uint8_t)((i * 31 + (i >> 8) * 17 + seed * 101 + 7) & 0xff);
}

void mem_fill(struct side *side, size_t offset, size_t len, unsigned int seed)
{
	CHECK(offset + len <= side->mem_bytes);
	for (size_t i = 0; i < len; i++)
		side->mem[offset + i] = pattern(i, seed);
}

void mem_check(struct side *side, size_t offset, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (side->mem[offset + i] != pattern(i, seed))
			suite_fail(__FILE__, __LINE__,
				   "%s: byte %zu of %zu at %zu is 0x%02x, not "
				   "0x%02x",
				   side->name, i, len, offset, side->mem[offset + i],
				   pattern(i, seed));
}
