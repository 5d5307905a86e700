/* SPDX-License-Identifier: MIT */
/*
 * Conformance cases for memory of alloc_mem(): it is as good as any for SENDs and READs, and what a
 * client has of it can be READ on softnic while the client does nothing.
 */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <string.h>

#define PIECE_BYTES 30000u

/* Memory of a side's beside side->mem. */
struct block {
	struct device_mem mem;
	struct ibv_mr *mr;
};

static void block_open(struct block *block, struct side *side, size_t bytes)
{
	CHECK_OK(suite.ops->alloc_mem(side->dev, bytes, &block->mem));
	CHECK(block->mem.addr && block->mem.length >= bytes);
	CHECK_INT((uintptr_t)block->mem.addr % 4096, 0);
	CHECK_OK(suite.ops->reg_mr(side->pd, &block->mem, PAIR_DEFAULTS.mem_access, &block->mr));
}

static void block_close(struct block *block, struct side *side)
{
	suite.ops->dereg_mr(block->mr);
	suite.ops->free_mem(side->dev, &block->mem);
	CHECK(!block->mem.addr && block->mem.fd == -1);
}

static void block_fill(struct block *block, struct side *side, unsigned int seed)
{
	uint8_t *bytes = block->mem.addr;

	for (size_t at = 0; at < block->mem.length; at += PIECE_BYTES) {
		size_t left = block->mem.length - at;

		mem_fill(side, 0, PIECE_BYTES, seed + (unsigned int)(at / PIECE_BYTES));
		memcpy(bytes + at, side->mem, left < PIECE_BYTES ? left : PIECE_BYTES);
	}
}

/* READs all of @block by @reader, which alone is polled on softnic. */
static void block_read(struct block *block, struct side *reader, unsigned int seed)
{
	struct side *other = reader->other;

	if (suite.kind == DEVICE_SOFTNIC)
		reader->other = NULL;
	for (size_t at = 0; at < block->mem.length; at += PIECE_BYTES) {
		size_t left = block->mem.length - at;
		uint32_t len = left < PIECE_BYTES ? (uint32_t)left : PIECE_BYTES;

		CHECK_OK(read_post_raw(reader, at, 0, len, (uintptr_t)block->mem.addr + at,
				       block->mr->rkey));
		side_wc_is(reader, at, IBV_WC_SUCCESS);
		mem_check(reader, 0, len, seed + (unsigned int)(at / PIECE_BYTES));
	}
	reader->other = other;
}

/* Of any length, by either end, registered before or after they connect. */
static void alloc_mem_is_read(void)
{
	static const size_t sizes[] = { 1, 4097, 100000, (2 << 20) + 1 };
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	for (size_t i = 0; i < array_len(sizes); i++) {
		struct block blocks[2];

		block_open(&blocks[0], &pair.server, sizes[i]);
		block_open(&blocks[1], &pair.client, sizes[i]);
		block_fill(&blocks[0], &pair.server, 3);
		block_fill(&blocks[1], &pair.client, 4);
		pair_ping(&pair);
		block_read(&blocks[0], &pair.client, 3);
		block_read(&blocks[1], &pair.server, 4);
		block_close(&blocks[0], &pair.server);
		block_close(&blocks[1], &pair.client);
	}
	pair_close(&pair);
}

/* A READ goes to it, and a SEND comes from it. */
static void alloc_mem_is_local(void)
{
	struct pair pair;
	struct block block;
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .wr_id = 1,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_READ,
					.send_flags = IBV_SEND_SIGNALED };

	pair_open(&pair, &PAIR_DEFAULTS);
	block_open(&block, &pair.client, 10000);
	mem_fill(&pair.server, 0, 2000, 6);
	sge = (struct ibv_sge){ (uintptr_t)block.mem.addr + 5000, 2000, block.mr->lkey };
	wr.wr.rdma.remote_addr = pair.client.remote.addr;
	wr.wr.rdma.rkey = pair.client.remote.rkey;
	CHECK_OK(ibv_post_send(pair.client.id->qp, &wr, &bad));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_SEND;
	CHECK_OK(recv_post(&pair.server, 2, 4096, 4096));
	CHECK_OK(ibv_post_send(pair.client.id->qp, &wr, &bad));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	CHECK_INT(side_wc_is(&pair.server, 2, IBV_WC_SUCCESS).byte_len, 2000);
	mem_check(&pair.server, 4096, 0, 6);
	CHECK_INT(memcmp(pair.server.mem, pair.server.mem + 4096, 2000), 0);
	block_close(&block, &pair.client);
	pair_close(&pair);
}

/* What was deregistered can't be READ, by either way of READing it. */
static void alloc_mem_is_taken_back(void)
{
	struct pair pair;
	struct block block;
	uint64_t addr;
	uint32_t rkey;

	pair_open(&pair, &PAIR_DEFAULTS);
	block_open(&block, &pair.client, 10000);
	block_fill(&block, &pair.client, 8);
	pair_ping(&pair);
	block_read(&block, &pair.server, 8);
	addr = (uintptr_t)block.mem.addr;
	rkey = block.mr->rkey;
	block_close(&block, &pair.client);
	mem_fill(&pair.server, 0, 4096, 9);
	CHECK_OK(read_post_raw(&pair.server, 1, 0, 64, addr, rkey));
	side_wc_is(&pair.server, 1, IBV_WC_REM_ACCESS_ERR);
	mem_check(&pair.server, 0, 4096, 9);
	side_qp_in_error(&pair.server);
	pair_close(&pair);
}

/* Zeros at first; a length of 0 or of all addresses is refused; freeing nothing does nothing. */
static void alloc_mem_lengths(void)
{
	struct device_mem mem = { .fd = -1 };
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	suite.ops->free_mem(pair.client.dev, &mem);
	CHECK_INT(suite.ops->alloc_mem(pair.client.dev, 0, &mem), -EINVAL);
	CHECK_INT(suite.ops->alloc_mem(pair.client.dev, SIZE_MAX, &mem), -EINVAL);
	CHECK(suite.ops->alloc_mem(pair.client.dev, SIZE_MAX / 4, &mem) < 0);
	CHECK_OK(suite.ops->alloc_mem(pair.client.dev, 3 << 20, &mem));
	for (size_t i = 0; i < mem.length; i++)
		CHECK(((uint8_t *)mem.addr)[i] == 0);
	memset(mem.addr, 1, mem.length);
	suite.ops->free_mem(pair.client.dev, &mem);
	suite.ops->free_mem(pair.client.dev, &mem);
	pair_close(&pair);
}

const struct suite_case mem_cases[] = {
	{ "alloc_mem_is_read", alloc_mem_is_read, ALL_DEVICES },
	{ "alloc_mem_is_local", alloc_mem_is_local, ALL_DEVICES },
	{ "alloc_mem_is_taken_back", alloc_mem_is_taken_back, ALL_DEVICES },
	{ "alloc_mem_lengths", alloc_mem_lengths, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
