/* SPDX-License-Identifier: MIT */
/* Conformance cases for messages into a shared receive queue and READs that must succeed. */
#include "tests/conformance/conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES (3 * 1024 * 1024 + 4321)

static void send_recv_srq(void)
{
	static const uint32_t lens[] = { 1, 2, 63, 64, 65, 255, 1024, 4095, 4096 };
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, &PAIR_DEFAULTS);
	for (size_t i = 0; i < array_len(lens); i++)
		CHECK_OK(recv_post(&pair.server, 100 + i, i * SIDE_RECV_BYTES, SIDE_RECV_BYTES));
	for (size_t i = 0; i < array_len(lens); i++) {
		mem_fill(&pair.client, i * SIDE_RECV_BYTES, lens[i], (unsigned int)i);
		CHECK_OK(send_post(&pair.client, i, i * SIDE_RECV_BYTES, lens[i],
				   IBV_SEND_SIGNALED));
	}
	/* In the order they were sent, each in the receive that was next. */
	for (size_t i = 0; i < array_len(lens); i++) {
		wc = side_wc_is(&pair.server, 100 + i, IBV_WC_SUCCESS);
		CHECK_INT(wc.opcode, IBV_WC_RECV);
		CHECK_INT(wc.byte_len, lens[i]);
		mem_check(&pair.server, i * SIDE_RECV_BYTES, lens[i], (unsigned int)i);
		CHECK_INT(side_wc_is(&pair.client, i, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
	}
	side_wc_none(&pair.client);
	pair_close(&pair);
}

static void send_zero_length(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(recv_post(&pair.server, 1, 0, 64));
	CHECK_OK(send_post(&pair.client, 2, 0, 0, IBV_SEND_SIGNALED));
	CHECK_INT(side_wc_is(&pair.server, 1, IBV_WC_SUCCESS).byte_len, 0);
	side_wc_is(&pair.client, 2, IBV_WC_SUCCESS);
	pair_ping(&pair);
	pair_close(&pair);
}

/* Three pieces into two: neither end sees how the other split the message. */
static void send_multi_sge(void)
{
	struct pair pair;
	struct ibv_sge from[3], to[2];
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = to, .num_sge = 2 };
	struct ibv_send_wr send = { .wr_id = 2,
				    .sg_list = from,
				    .num_sge = 3,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad_recv;
	struct ibv_send_wr *bad_send;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem_fill(&pair.client, 0, 1000, 5);
	for (int i = 0; i < 3; i++) { /* 10, 300 and 690 of the 1,000 bytes */
		static const uint32_t starts[] = { 0, 10, 310, 1000 };

		from[i] = (struct ibv_sge){ (uintptr_t)pair.client.mem + starts[i],
					    starts[i + 1] - starts[i], pair.client.mr->lkey };
	}
	to[0] = (struct ibv_sge){ (uintptr_t)pair.server.mem, 333, pair.server.mr->lkey };
	to[1] = (struct ibv_sge){ (uintptr_t)pair.server.mem + 8192, 800, pair.server.mr->lkey };
	CHECK_OK(ibv_post_srq_recv(pair.server.srq, &recv, &bad_recv));
	CHECK_OK(ibv_post_send(pair.client.id->qp, &send, &bad_send));
	CHECK_INT(side_wc_is(&pair.server, 1, IBV_WC_SUCCESS).byte_len, 1000);
	side_wc_is(&pair.client, 2, IBV_WC_SUCCESS);
	memmove(pair.server.mem + 333, pair.server.mem + 8192, 667);
	mem_check(&pair.server, 0, 1000, 5);
	pair_close(&pair);
}

/*
 * A message longer than the receive ends the connection. The sender's completion has
 * REM_INV_REQ_ERR by the specification, and another status on some devices. The receiver's has
 * LOC_LEN_ERR, but LOC_QP_OP_ERR on rxe.
 */
static void send_too_long(void)
{
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(recv_post(&pair.server, 1, 0, 100));
	mem_fill(&pair.server, 100, 1000, 9);
	CHECK_OK(send_post(&pair.client, 2, 0, 101, IBV_SEND_SIGNALED));
	wc = side_wc(&pair.client);
	CHECK_INT(wc.wr_id, 2);
	CHECK(wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_RNR_RETRY_EXC_ERR);
	wc = side_wc(&pair.server);
	CHECK(wc.status == IBV_WC_LOC_LEN_ERR ||
	      (suite.kind != DEVICE_SOFTNIC && wc.status == IBV_WC_LOC_QP_OP_ERR));
	mem_check(&pair.server, 100, 1000, 9);
	side_qp_in_error(&pair.client);
	pair_close(&pair);
}

/* The bytes are copied when the send is posted, and no memory region is needed. */
static void send_inline(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 2,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };
	struct ibv_send_wr *bad = NULL;
	uint8_t *buffer;
	uint32_t max;

	options.inline_bytes = 128;
	pair_open(&pair, &options);
	max = pair.client.cap.max_inline_data;
	CHECK(max >= 128 && max <= SIDE_RECV_BYTES);
	fprintf(stderr, "asked for 128 bytes inline, got %u\n", max);
	buffer = malloc(max + 1);
	CHECK(buffer);
	mem_fill(&pair.client, 0, max, 3);
	memcpy(buffer, pair.client.mem, max);
	CHECK_OK(recv_post(&pair.server, 1, 0, SIDE_RECV_BYTES));
	sge = (struct ibv_sge){ (uintptr_t)buffer, max, 0xdeadbeef };
	CHECK_OK(ibv_post_send(pair.client.id->qp, &wr, &bad));
	memset(buffer, 0xff, max + 1);
	CHECK_INT(side_wc_is(&pair.server, 1, IBV_WC_SUCCESS).byte_len, max);
	mem_check(&pair.server, 0, max, 3);
	side_wc_is(&pair.client, 2, IBV_WC_SUCCESS);

	/* One byte more is refused at once, with EINVAL or ENOMEM depending on the provider. */
	sge.length = max + 1;
	CHECK(ibv_post_send(pair.client.id->qp, &wr, &bad) != 0);
	CHECK(bad == &wr);
	side_wc_none(&pair.client);
	pair_ping(&pair);
	free(buffer);
	pair_close(&pair);
}

static void read_sizes(struct pair *pair)
{
	static const uint32_t lens[] = { 1, 7, 8, 64, 128, 1000, 4096, 8191, 16384 };

	for (size_t i = 0; i < array_len(lens); i++) {
		size_t from = i * 3; /* unaligned offsets too */

		mem_fill(&pair->server, from, lens[i], (unsigned int)i);
		memset(pair->client.mem, 0xee, SIDE_MEM_BYTES / 2);
		CHECK_OK(read_post(&pair->client, i, 5, lens[i], from, IBV_SEND_SIGNALED));
		CHECK_INT(side_wc_is(&pair->client, i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
		mem_check(&pair->client, 5, lens[i], (unsigned int)i);
		CHECK_INT(pair->client.mem[4], 0xee);
		CHECK_INT(pair->client.mem[5 + lens[i]], 0xee);
	}
}

/* Memory that is no file's mapping: on softnic its owner has to serve the READs. */
static void read_private_memory(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	read_sizes(&pair);
	pair_close(&pair);
}

static void read_shared_memory(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.server_fd = true;
	pair_open(&pair, &options);
	read_sizes(&pair);
	pair_close(&pair);
}

static const uint8_t *source_of(const struct pair *pair, uint32_t rkey, uint64_t at, uint64_t bytes)
{
	return suite.ops->read_source(pair->client.id->qp, rkey, pair->client.remote.addr + at,
				      bytes);
}

/* What a READ would copy can be prefetched where it is mapped here: on softnic, and if shared. */
static void read_source_with(bool server_fd)
{
	const bool mapped = suite.kind == DEVICE_SOFTNIC && server_fd;
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	const uint8_t *source;
	uint32_t rkey;

	options.server_fd = server_fd;
	pair_open(&pair, &options);
	rkey = pair.client.remote.rkey;
	mem_fill(&pair.server, 100, 1000, 7);
	CHECK_OK(read_post(&pair.client, 1, 0, 1000, 100, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	source = source_of(&pair, rkey, 100, 1000);
	CHECK_INT(source != NULL, mapped);
	if (source)
		CHECK_INT(memcmp(source, pair.client.mem, 1000), 0);
	CHECK_INT(source_of(&pair, rkey, 0, SIDE_MEM_BYTES) != NULL, mapped);
	CHECK(!source_of(&pair, rkey, 0, SIDE_MEM_BYTES + 1));
	CHECK(!source_of(&pair, rkey, SIDE_MEM_BYTES, 1));
	CHECK(!source_of(&pair, rkey + 1, 0, 1000));
	pair_close(&pair);
}

static void read_source_shared(void)
{
	read_source_with(true);
}

static void read_source_private(void)
{
	read_source_with(false);
}

/* The server pulls: READs go both ways on one connection. */
static void read_by_server(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.server_fd = true;
	pair_open(&pair, &options);
	mem_fill(&pair.client, 100, 20000, 1);
	mem_fill(&pair.server, 30000, 20000, 2);
	CHECK_OK(read_post(&pair.server, 1, 0, 20000, 100, IBV_SEND_SIGNALED));
	CHECK_OK(read_post(&pair.client, 2, 40000, 20000, 30000, IBV_SEND_SIGNALED));
	side_wc_is(&pair.server, 1, IBV_WC_SUCCESS);
	side_wc_is(&pair.client, 2, IBV_WC_SUCCESS);
	mem_check(&pair.server, 0, 20000, 1);
	mem_check(&pair.client, 40000, 20000, 2);
	pair_close(&pair);
}

static void read_large_with(bool server_fd)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.server_fd = server_fd;
	options.mem_bytes = LARGE_BYTES + 4096;
	pair_open(&pair, &options);
	mem_fill(&pair.server, 77, LARGE_BYTES, 8);
	CHECK_OK(read_post(&pair.client, 1, 3, LARGE_BYTES, 77, IBV_SEND_SIGNALED));
	CHECK_INT(side_wc_is(&pair.client, 1, IBV_WC_SUCCESS).byte_len, LARGE_BYTES);
	mem_check(&pair.client, 3, LARGE_BYTES, 8);
	/* And in the other direction, where softnic's client serves it from its own memory. */
	mem_fill(&pair.client, 1024, 1024 * 1024, 9);
	CHECK_OK(read_post(&pair.server, 2, 0, 1024 * 1024, 1024, IBV_SEND_SIGNALED));
	side_wc_is(&pair.server, 2, IBV_WC_SUCCESS);
	mem_check(&pair.server, 0, 1024 * 1024, 9);
	pair_close(&pair);
}

static void read_large_private(void)
{
	read_large_with(false);
}

static void read_large_shared(void)
{
	read_large_with(true);
}

/* The keepalive probe: it succeeds, and neither address nor rkey is checked. */
static void read_zero_length(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(read_post_raw(&pair.client, 1, 0, 0, 0, 0));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	CHECK_OK(read_post_raw(&pair.server, 2, 0, 0, 0xdead0000, 0xdead));
	side_wc_is(&pair.server, 2, IBV_WC_SUCCESS);
	pair_ping(&pair);
	pair_close(&pair);
}

static void read_scatter(void)
{
	struct pair pair;
	struct ibv_sge to[3];
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = to,
				  .num_sge = 3,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem_fill(&pair.server, 50, 6000, 4);
	for (unsigned int i = 0; i < 3; i++)
		to[i] = (struct ibv_sge){ (uintptr_t)pair.client.mem + i * 10000, 2000,
					  pair.client.mr->lkey };
	wr.wr.rdma.remote_addr = pair.client.remote.addr + 50;
	wr.wr.rdma.rkey = pair.client.remote.rkey;
	CHECK_OK(ibv_post_send(pair.client.id->qp, &wr, &bad));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	memmove(pair.client.mem + 2000, pair.client.mem + 10000, 2000);
	memmove(pair.client.mem + 4000, pair.client.mem + 20000, 2000);
	mem_check(&pair.client, 0, 6000, 4);
	pair_close(&pair);
}

/* A READ returns what the memory holds now, not what it held when the peers connected. */
static void read_is_current(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.server_fd = true;
	pair_open(&pair, &options);
	for (unsigned int i = 0; i < 20; i++) {
		mem_fill(&pair.server, 4096, 512, i);
		CHECK_OK(read_post(&pair.client, i, 0, 512, 4096, IBV_SEND_SIGNALED));
		side_wc_is(&pair.client, i, IBV_WC_SUCCESS);
		mem_check(&pair.client, 0, 512, i);
	}
	pair_close(&pair);
}

/* Requests complete in the order posted: the message arrives after the READs before it. */
static void read_then_send(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(recv_post(&pair.server, 9, 0, 64));
	for (unsigned int i = 0; i < 8; i++)
		CHECK_OK(read_post(&pair.client, i, i * 1024, 1024, i * 1024, IBV_SEND_SIGNALED));
	CHECK_OK(send_post(&pair.client, 8, 0, 64, IBV_SEND_SIGNALED | IBV_SEND_FENCE));
	side_wc_is(&pair.server, 9, IBV_WC_SUCCESS);
	for (unsigned int i = 0; i < 9; i++)
		side_wc_is(&pair.client, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

const struct suite_case data_cases[] = {
	{ "send_recv_srq", send_recv_srq, ALL_DEVICES },
	{ "send_zero_length", send_zero_length, ALL_DEVICES },
	{ "send_multi_sge", send_multi_sge, ALL_DEVICES },
	{ "send_too_long", send_too_long, ALL_DEVICES },
	{ "send_inline", send_inline, ALL_DEVICES },
	{ "read_private_memory", read_private_memory, ALL_DEVICES },
	{ "read_shared_memory", read_shared_memory, ALL_DEVICES },
	{ "read_source_shared", read_source_shared, ALL_DEVICES },
	{ "read_source_private", read_source_private, ALL_DEVICES },
	{ "read_by_server", read_by_server, ALL_DEVICES },
	{ "read_large_private", read_large_private, ALL_DEVICES },
	{ "read_large_shared", read_large_shared, ALL_DEVICES },
	{ "read_zero_length", read_zero_length, ALL_DEVICES },
	{ "read_scatter", read_scatter, ALL_DEVICES },
	{ "read_is_current", read_is_current, ALL_DEVICES },
	{ "read_then_send", read_then_send, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
