/* SPDX-License-Identifier: MIT */
/* Storing of dumped records: see store.h. */
#include "client/kvctl/store.h"

#include <stdlib.h>

/* The least that a slow network moves in a millisecond. */
#define BYTES_PER_MS 16384u
#define DONE_MAX 64u
#define NS_PER_S 1000000000u

void store_block_release(struct store_block *block)
{
	dump_body_release(&block->body);
	free(block->ops);
	*block = (struct store_block){ 0 };
}

/* The time that was left by the block's clock, less the age, in seconds, rounded up. */
bool store_ttl(const struct store *store, const struct dump_block *block, uint32_t expires_s,
	       uint32_t *ttl_s)
{
	const uint64_t expires_ns = (uint64_t)expires_s * NS_PER_S;
	uint64_t now_ns = block->clock_ns, left_s;

	*ttl_s = 0;
	if (!expires_s)
		return true;
	if (store->age_ns)
		now_ns = store->dump_ns + store->age_ns;
	if (expires_ns <= now_ns)
		return false;
	left_s = (expires_ns - now_ns + NS_PER_S - 1) / NS_PER_S;
	*ttl_s = left_s < KVD_TTL_MAX ? (uint32_t)left_s : KVD_TTL_MAX;
	return true;
}

static bool ops_room(struct store_block *block, size_t count)
{
	if (count <= block->room)
		return true;
	free(block->ops);
	block->ops = calloc(count, sizeof(*block->ops));
	block->room = block->ops ? count : 0;
	return block->ops;
}

static void op_prepare(const struct store *store, struct kvd_op *op, const struct dump_entry *entry,
		       uint32_t ttl_s)
{
	const struct kvd_put_args args = {
		.flags = entry->flags,
		.ttl_s = ttl_s,
		.mode = store->skip_existing ? KVD_PUT_IF_ABSENT : KVD_PUT_SET,
	};

	kvd_prep_put(op, entry->key, entry->key_len, entry->value, entry->value_len, &args);
	op->timeout_ms = store->timeout_ms + entry->value_len / BYTES_PER_MS;
}

static void note_failure(struct store *store, struct store_block *block, const struct kvd_op *op,
			 enum kvd_status status)
{
	block->counts.failed++;
	failures_note(&store->failures, op->key, op->key_len, status);
}

/* An operation that is refused at once, such as a value that is too long, fails alone. */
static void submit(struct store *store, struct store_block *block, struct kvd_op *op)
{
	const enum kvd_status status = kvd_submit(store->db, &op, 1);

	op->user = block;
	if (!status)
		block->under_way++;
	else if (failure_is_of_all(status))
		store->broken = status;
	else
		note_failure(store, block, op, status);
}

bool store_block_begin(struct store *store, struct store_block *block)
{
	struct dump_entry entry;
	uint32_t ttl_s;
	size_t at = 0;

	if (!ops_room(block, block->body.block.records))
		return false;
	block->count = 0;
	block->counts = (struct store_counts){ 0 };
	while (at < block->body.block.bytes && !store->broken) {
		dump_record_get(&entry, block->body.bytes, &at);
		if (!store_ttl(store, &block->body.block, entry.expires_s, &ttl_s)) {
			block->counts.expired++;
			continue;
		}
		op_prepare(store, &block->ops[block->count], &entry, ttl_s);
		submit(store, block, &block->ops[block->count++]);
	}
	return true;
}

/* Takes a completed operation of any block. One that must be retried keeps its status. */
static void take(struct store *store, const struct kvd_op *op)
{
	struct store_block *block = op->user;

	block->under_way--;
	if (op->status == KVD_OK)
		block->counts.stored++;
	else if (op->status == KVD_ERR_EXISTS)
		block->counts.existed++;
	else if (failure_passes(op->status))
		block->again++;
	else if (failure_is_of_all(op->status))
		store->broken = op->status;
	else
		note_failure(store, block, op, op->status);
}

static void wait_for(struct store *store, const struct store_block *block)
{
	struct kvd_op *done[DONE_MAX];
	size_t i, n;

	while (block->under_way) {
		n = kvd_wait(store->db, done, DONE_MAX, 1, UINT32_MAX);
		for (i = 0; i < n; i++)
			take(store, done[i]);
	}
}

/* Retries the operations that were refused, or counts them as failed after too many attempts. */
static void try_again(struct store *store, struct store_block *block, bool is_of_use)
{
	block->again = 0;
	for (size_t i = 0; i < block->count && !store->broken; i++) {
		struct kvd_op *op = &block->ops[i];
		const enum kvd_status status = op->status;

		if (!failure_passes(status))
			continue;
		if (is_of_use) {
			submit(store, block, op);
			continue;
		}
		note_failure(store, block, op, status);
	}
}

void store_block_end(struct store *store, struct store_block *block)
{
	struct retry retry = { 0 };
	uint64_t stored;

	wait_for(store, block);
	while (block->again && !store->broken) {
		const bool is_of_use = retry_pause(&retry);

		stored = block->counts.stored;
		try_again(store, block, is_of_use);
		wait_for(store, block);
		if (block->counts.stored != stored)
			retry = (struct retry){ 0 };
	}
}
