/* SPDX-License-Identifier: MIT */
/*
 * Conformance cases for what a peer may not do: each attempt must fail for the peer that tries it,
 * and end its connection. The error: a bad rkey, address or region gives REM_ACCESS_ERR everywhere;
 * an operation that the queue pair does not allow at all gives REM_ACCESS_ERR on most hardware and
 * softnic, REM_INV_REQ_ERR on rxe and some hardware.
 */
#include "tests/conformance/conformance.h"

#include <stdlib.h>
#include <string.h>

static bool access_refused(enum ibv_wc_status status)
{
	return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR;
}

/* The READ must fail, the queue pair must be in error, and the reader's buffer unchanged. */
static void read_refused(struct pair *pair, uint64_t addr, uint32_t rkey, uint32_t len)
{
	mem_fill(&pair->client, 0, 8192, 11);
	CHECK_OK(read_post_raw(&pair->client, 1, 0, len, addr, rkey));
	CHECK_OK(read_post_raw(&pair->client, 2, 0, 16, pair->client.remote.addr,
			       pair->client.remote.rkey));
	side_wc_is(&pair->client, 1, IBV_WC_REM_ACCESS_ERR);
	side_wc_is(&pair->client, 2, IBV_WC_WR_FLUSH_ERR);
	side_qp_in_error(&pair->client);
	mem_check(&pair->client, 0, 8192, 11);
}

struct bad_read {
	int64_t offset;
	uint32_t rkey_flip; /* bits that are wrong */
	uint32_t len;
};

static void bad_read_run(const struct bad_read *bad, bool server_fd)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.server_fd = server_fd;
	pair_open(&pair, &options);
	/* A good READ works, right up to the region's end. */
	CHECK_OK(read_post(&pair.client, 9, 0, 4096, SIDE_MEM_BYTES - 4096, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 9, IBV_WC_SUCCESS);
	read_refused(&pair, pair.client.remote.addr + (uint64_t)bad->offset,
		     pair.client.remote.rkey ^ bad->rkey_flip, bad->len);
	pair_close(&pair);
}

static void bad_reads_run(const struct bad_read *bad, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bad_read_run(&bad[i], true);
		bad_read_run(&bad[i], false);
	}
}

static void read_wrong_rkey(void)
{
	/* Low and high bits: the part that names the region, and the part that guards it. */
	static const struct bad_read bad[] = {
		{ 0, 1, 16 }, { 0, 0x100, 16 }, { 0, 0x80000000, 16 }, { 0, 0xffffffff, 16 }
	};

	bad_reads_run(bad, array_len(bad));
}

static void read_out_of_bounds(void)
{
	static const struct bad_read bad[] = {
		{ SIDE_MEM_BYTES, 0, 1 },	/* the byte after the end */
		{ SIDE_MEM_BYTES - 15, 0, 16 }, /* across the end */
		{ -1, 0, 1 },			/* the byte before the beginning */
		{ -1, 0, 16 },			/* across the beginning */
		{ 1LL << 40, 0, 16 },		/* far away */
	};

	bad_reads_run(bad, array_len(bad));
}

/* Address plus length wraps around 2^64. */
static void read_address_overflow(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	read_refused(&pair, UINT64_MAX - 7, pair.client.remote.rkey, 16);
	pair_close(&pair);
}

static void read_region_without_access(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;

	options.mem_access = IBV_ACCESS_LOCAL_WRITE;
	pair_open(&pair, &options);
	read_refused(&pair, pair.client.remote.addr, pair.client.remote.rkey, 16);
	pair_close(&pair);
}

/* A region can be read through queue pairs of its own protection domain only. */
static void read_foreign_pd(void)
{
	struct pair pair;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct device_mem mem;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->alloc_pd(pair.server.dev, &pd));
	mem = (struct device_mem){ pair.server.mem, 4096, -1, 0 };
	CHECK_OK(suite.ops->reg_mr(pd, &mem, PAIR_DEFAULTS.mem_access, &mr));
	read_refused(&pair, (uintptr_t)pair.server.mem, mr->rkey, 16);
	suite.ops->dereg_mr(mr);
	suite.ops->dealloc_pd(pd);
	pair_close(&pair);
}

static void read_after_dereg(void)
{
	struct pair pair;
	struct device_mem mem;
	struct ibv_mr *mr;
	uint32_t rkey;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem = (struct device_mem){ pair.server.mem, 4096, -1, 0 };
	CHECK_OK(suite.ops->reg_mr(pair.server.pd, &mem, PAIR_DEFAULTS.mem_access, &mr));
	rkey = mr->rkey;
	CHECK_OK(read_post_raw(&pair.client, 9, 0, 16, (uintptr_t)pair.server.mem, rkey));
	side_wc_is(&pair.client, 9, IBV_WC_SUCCESS);
	suite.ops->dereg_mr(mr);
	read_refused(&pair, (uintptr_t)pair.server.mem, rkey, 16);
	pair_close(&pair);
}

/* A region that is registered after the peers connected can be read as well. */
static void read_late_region(void)
{
	struct pair pair;
	struct device_mem mem;
	struct ibv_mr *mr;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem = (struct device_mem){ pair.server.mem + 4096, 4096, -1, 0 };
	CHECK_OK(suite.ops->reg_mr(pair.server.pd, &mem, PAIR_DEFAULTS.mem_access, &mr));
	CHECK(mr->rkey != pair.server.mr->rkey);
	mem_fill(&pair.server, 4096, 4096, 2);
	CHECK_OK(read_post_raw(&pair.client, 1, 0, 4096, (uintptr_t)mem.addr, mr->rkey));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	mem_check(&pair.client, 0, 4096, 2);
	suite.ops->dereg_mr(mr);
	pair_close(&pair);
}

/* The handshake's gate: until the queue pair allows it, a right address and rkey read nothing. */
static void read_qp_without_access(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	struct ibv_wc wc;

	options.server_access = 0;
	options.server_fd = true;
	pair_open(&pair, &options);
	pair_ping(&pair);
	mem_fill(&pair.client, 0, 64, 5);
	CHECK_OK(read_post(&pair.client, 1, 0, 64, 0, IBV_SEND_SIGNALED));
	wc = side_wc(&pair.client);
	CHECK_INT(wc.wr_id, 1);
	CHECK(access_refused(wc.status));
	side_qp_in_error(&pair.client);
	mem_check(&pair.client, 0, 64, 5);
	pair_close(&pair);
}

static void read_after_grant(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct pair pair;

	options.server_access = 0;
	options.server_fd = true;
	pair_open(&pair, &options);
	pair_ping(&pair);
	CHECK_OK(suite.ops->modify_qp(pair.server.id->qp, &attr, IBV_QP_ACCESS_FLAGS));
	CHECK_OK(
		suite.ops->query_qp(pair.server.id->qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS));
	CHECK_INT(attr.qp_state, IBV_QPS_RTS);
	CHECK_INT(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	mem_fill(&pair.server, 0, 4096, 7);
	CHECK_OK(read_post(&pair.client, 1, 0, 4096, 0, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	mem_check(&pair.client, 0, 4096, 7);
	pair_ping(&pair);
	pair_close(&pair);
}

/* The other end's work fails from then on too: a violation ends the connection for both. */
static void violation_ends_both(void)
{
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(read_post(&pair.client, 1, 0, 16, SIDE_MEM_BYTES, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 1, IBV_WC_REM_ACCESS_ERR);
	/*
	 * softnic and most hardware move the server's queue pair to error by themselves. rxe does
	 * not, and then what the server sends is not acknowledged until its retries are used up.
	 */
	CHECK_OK(send_post(&pair.server, 2, 0, 16, IBV_SEND_SIGNALED));
	wc = side_wc(&pair.server);
	CHECK_INT(wc.wr_id, 2);
	CHECK(wc.status != IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* Guarantee D: no call gives a peer more than the right to read, even if asked to by mistake. */
static void remote_write_not_given(void)
{
	static const int flags[] = { IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC,
				     IBV_ACCESS_ZERO_BASED };
	struct pair pair;
	struct device_mem mem;
	struct ibv_mr *mr;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem = (struct device_mem){ pair.server.mem, 4096, -1, 0 };
	for (size_t i = 0; i < array_len(flags); i++) {
		struct ibv_qp_attr attr = { .qp_access_flags = (unsigned int)flags[i] |
							       IBV_ACCESS_REMOTE_READ };

		CHECK(suite.ops->reg_mr(pair.server.pd, &mem, flags[i] | PAIR_DEFAULTS.mem_access,
					&mr) < 0);
		CHECK(suite.ops->modify_qp(pair.server.id->qp, &attr, IBV_QP_ACCESS_FLAGS) < 0);
	}
	pair_ping(&pair);
	pair_close(&pair);
}

/* softnic refuses to post it; verbs accepts it, and the peer's device refuses to execute it. */
static void write_refused(enum ibv_wr_opcode opcode)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad = NULL;
	int err;

	options.server_fd = true;
	pair_open(&pair, &options);
	mem_fill(&pair.server, 0, 4096, 1);
	mem_fill(&pair.client, 0, 4096, 2);
	sge = (struct ibv_sge){ (uintptr_t)pair.client.mem, 8, pair.client.mr->lkey };
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = pair.client.remote.addr;
		wr.wr.atomic.rkey = pair.client.remote.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = pair.client.remote.addr;
		wr.wr.rdma.rkey = pair.client.remote.rkey;
	}
	err = ibv_post_send(pair.client.id->qp, &wr, &bad);
	if (err) {
		CHECK(bad == &wr);
		side_wc_none(&pair.client);
	} else {
		wc = side_wc(&pair.client);
		CHECK_INT(wc.wr_id, 1);
		CHECK(access_refused(wc.status));
	}
	mem_check(&pair.server, 0, 4096, 1);
	pair_close(&pair);
}

static void write_impossible(void)
{
	write_refused(IBV_WR_RDMA_WRITE);
}

static void atomic_impossible(void)
{
	write_refused(IBV_WR_ATOMIC_FETCH_AND_ADD);
}

/*
 * Local mistakes: memory that may not be sent from or read into. LOC_PROT_ERR by the specification;
 * rxe reports LOC_QP_OP_ERR for a send.
 */
static void local_key_wrong(void)
{
	struct pair pair;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(recv_post(&pair.server, 5, 0, 64));
	sge = (struct ibv_sge){ (uintptr_t)pair.client.mem, 16, pair.client.mr->lkey ^ 0x80 };
	CHECK_OK(ibv_post_send(pair.client.id->qp, &wr, &bad));
	wc = side_wc(&pair.client);
	CHECK_INT(wc.wr_id, 1);
	CHECK(wc.status == IBV_WC_LOC_PROT_ERR ||
	      (suite.kind != DEVICE_SOFTNIC && wc.status == IBV_WC_LOC_QP_OP_ERR));
	side_qp_in_error(&pair.client);
	pair_close(&pair);
}

static void local_region_not_writable(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	struct ibv_mr *mr, *whole;
	struct device_mem mem;

	pair_open(&pair, &options);
	mem = (struct device_mem){ pair.client.mem, 4096, -1, 0 };
	CHECK_OK(suite.ops->reg_mr(pair.client.pd, &mem, 0, &mr));
	whole = pair.client.mr;
	pair.client.mr = mr;
	mem_fill(&pair.client, 0, 64, 6);
	CHECK_OK(read_post(&pair.client, 1, 0, 64, 0, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 1, IBV_WC_LOC_PROT_ERR);
	mem_check(&pair.client, 0, 64, 6);
	pair.client.mr = whole;
	suite.ops->dereg_mr(mr);
	pair_close(&pair);
}

/* READs into two pieces, of which the second one is memory of @key at @addr. */
static void pieces_read(struct pair *pair, const uint8_t *addr, uint32_t key,
			enum ibv_wc_status status)
{
	struct ibv_sge sges[] = {
		{ (uintptr_t)pair->client.mem, 32, pair->client.mr->lkey },
		{ (uintptr_t)addr, 32, key },
	};
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = sges,
				  .num_sge = array_len(sges),
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { pair->client.remote.addr,
					       pair->client.remote.rkey } };
	struct ibv_send_wr *bad;

	CHECK_OK(ibv_post_send(pair->client.id->qp, &wr, &bad));
	side_wc_is(&pair->client, 1, status);
}

/* What is wrong with the second piece of a READ. */
enum bad_piece { PIECE_GOOD, PIECE_READ_ONLY, PIECE_WRONG_KEY, PIECE_BEYOND_END };

static void bad_piece_run(enum bad_piece what, bool server_fd)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct device_mem mem;
	const uint8_t *piece;
	struct pair pair;
	struct ibv_mr *mr;
	uint32_t key;

	options.sges = 2;
	options.server_fd = server_fd;
	pair_open(&pair, &options);
	mem = (struct device_mem){ pair.client.mem + 4096, 4096, -1, 0 };
	CHECK_OK(suite.ops->reg_mr(pair.client.pd, &mem,
				   what == PIECE_READ_ONLY ? 0 : IBV_ACCESS_LOCAL_WRITE, &mr));
	/* softnic maps what it READs at the first time, and takes a shorter path from then on. */
	CHECK_OK(read_post(&pair.client, 9, 0, 64, 0, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 9, IBV_WC_SUCCESS);
	mem_fill(&pair.server, 0, 64, 3);
	mem_fill(&pair.client, 4096, 8192, 6);
	key = mr->lkey ^ (what == PIECE_WRONG_KEY ? 0x80 : 0);
	piece = pair.client.mem + (what == PIECE_BEYOND_END ? 8192 - 31 : 4096);
	pieces_read(&pair, piece, key, what == PIECE_GOOD ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	if (what == PIECE_GOOD) {
		CHECK(!memcmp(pair.client.mem, pair.server.mem, 32));
		CHECK(!memcmp(piece, pair.server.mem + 32, 32));
		pair_ping(&pair);
	} else {
		side_qp_in_error(&pair.client);
		mem_check(&pair.client, 4096, 8192, 6);
	}
	suite.ops->dereg_mr(mr);
	pair_close(&pair);
}

/* Every piece needs the right to be written, and not only a single one. */
static void local_piece_not_writable(void)
{
	for (int what = PIECE_GOOD; what <= PIECE_BEYOND_END; what++) {
		bad_piece_run((enum bad_piece)what, true);
		bad_piece_run((enum bad_piece)what, false);
	}
}

const struct suite_case access_cases[] = {
	{ "read_wrong_rkey", read_wrong_rkey, ALL_DEVICES },
	{ "read_out_of_bounds", read_out_of_bounds, ALL_DEVICES },
	{ "read_address_overflow", read_address_overflow, ALL_DEVICES },
	{ "read_region_without_access", read_region_without_access, ALL_DEVICES },
	{ "read_foreign_pd", read_foreign_pd, ALL_DEVICES },
	{ "read_after_dereg", read_after_dereg, ALL_DEVICES },
	{ "read_late_region", read_late_region, ALL_DEVICES },
	{ "read_qp_without_access", read_qp_without_access, ALL_DEVICES },
	{ "read_after_grant", read_after_grant, ALL_DEVICES },
	{ "violation_ends_both", violation_ends_both, ALL_DEVICES },
	{ "remote_write_not_given", remote_write_not_given, ALL_DEVICES },
	{ "write_impossible", write_impossible, ALL_DEVICES },
	{ "atomic_impossible", atomic_impossible, ALL_DEVICES },
	{ "local_key_wrong", local_key_wrong, ALL_DEVICES },
	{ "local_region_not_writable", local_region_not_writable, ALL_DEVICES },
	{ "local_piece_not_writable", local_piece_not_writable, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
