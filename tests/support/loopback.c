/* SPDX-License-Identifier: MIT */
/*
 * The loopback client: verbs that READ from a store in this process and execute requests on it, for
 * one client handle.
 */
#include "tests/support/loopback.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <urcu-qsbr.h>

#include "client/libkvd/connect.h"
#include "common/util/clock.h"
#include "server/worker/execute.h"

#define SCATTER_PIECE_BYTES_MAX 96
/* After one piece in this many the thread yields the CPU. */
#define SCATTER_PIECES_PER_YIELD 24

#define LARGE_STEP_BYTES_MAX (32u << 10)
#define LARGE_STEPS_PER_YIELD 4

static struct loopback *loopback_of(const struct fake_device *fake)
{
	return (struct loopback *)((char *)(uintptr_t)fake - offsetof(struct loopback, fake));
}

static uint64_t random_next(struct loopback *loopback)
{
	loopback->random ^= loopback->random << 13;
	loopback->random ^= loopback->random >> 7;
	loopback->random ^= loopback->random << 17;
	return loopback->random;
}

/* Copies two parts of random lengths in random order, and each part in the same way. */
static void copy_scattered(struct loopback *loopback, uint8_t *to, const uint8_t *from,
			   uint32_t bytes)
{
	uint64_t r = random_next(loopback);
	uint32_t first;

	if (bytes <= 1 + r % SCATTER_PIECE_BYTES_MAX) {
		memcpy(to, from, bytes);
		if (r >> 32 & 1 && (r >> 33) % SCATTER_PIECES_PER_YIELD == 0)
			sched_yield();
		return;
	}
	first = 1 + (uint32_t)(r >> 8) % (bytes - 1);
	if (r >> 63) {
		copy_scattered(loopback, to, from, first);
		copy_scattered(loopback, to + first, from + first, bytes - first);
	} else {
		copy_scattered(loopback, to + first, from + first, bytes - first);
		copy_scattered(loopback, to, from, first);
	}
}

static enum ibv_wc_status loopback_read(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	struct loopback *loopback = loopback_of(fake);
	const struct region *region = &loopback->store->region;
	uint64_t offset = wr->wr.rdma.remote_addr - (uintptr_t)region->base;
	uint32_t bytes = fake_device_bytes(wr);
	const uint8_t *from;
	uint8_t *to;
	int i;

	if (offset >= region->bytes || bytes > region->bytes - offset)
		return IBV_WC_REM_ACCESS_ERR;
	if (loopback->before_read)
		loopback->before_read(loopback, offset, bytes);
	from = loopback->region + offset;
	for (i = 0; i < wr->num_sge; from += wr->sg_list[i++].length) {
		to = (uint8_t *)(uintptr_t)wr->sg_list[i].addr;
		if (loopback->scatter)
			copy_scattered(loopback, to, from, wr->sg_list[i].length);
		else
			memcpy(to, from, wr->sg_list[i].length);
	}
	to = (uint8_t *)(uintptr_t)wr->sg_list[0].addr;
	if (loopback->after_read)
		loopback->after_read(loopback, offset, to, wr->sg_list[0].length);
	return IBV_WC_SUCCESS;
}

static int64_t loopback_read_now(struct fake_device *fake, uint64_t addr, void *to, uint32_t bytes,
				 struct value_sum *sum)
{
	struct loopback *loopback = loopback_of(fake);
	const struct region *region = &loopback->store->region;
	uint64_t offset = addr - (uintptr_t)region->base;

	if (!loopback->now_bytes)
		return -EAGAIN;
	if (offset >= region->bytes || bytes > region->bytes - offset)
		return -EACCES;
	if (bytes > loopback->now_bytes)
		bytes = (uint32_t)loopback->now_bytes;
	if (!bytes)
		return 0;
	loopback->now_bytes -= bytes;
	if (loopback->before_read)
		loopback->before_read(loopback, offset, bytes);
	if (loopback->scatter)
		copy_scattered(loopback, to, loopback->region + offset, bytes);
	else
		memcpy(to, loopback->region + offset, bytes);
	value_sum_add(sum, to, bytes);
	if (loopback->after_read)
		loopback->after_read(loopback, offset, to, bytes);
	return bytes;
}

static void loopback_put(struct loopback *loopback, const struct request *request, uint64_t hash,
			 struct wire_response *response)
{
	enum wire_status status = WIRE_NO_SPACE;
	struct table_change change;
	struct item *item;

	put_change_init(request, &change);
	item = table_reserve(loopback->thread, &change);
	if (item) {
		memcpy(table_reserved_value(item), (const void *)(uintptr_t)request->pull_addr,
		       request->value_len);
		status = table_commit(loopback->thread, hash, item, &change);
	}
	response_set_change(&change, status, response);
}

/*
 * A request on a large item, in steps that are far shorter than a server's: others get in between,
 * and memory that was freed is reused, since each step is followed by a quiescent state.
 */
static void loopback_large(struct loopback *loopback, const struct request *request, uint64_t hash,
			   struct wire_response *response)
{
	static _Thread_local struct large large;

	execute_large_begin(&large, loopback->thread, request, hash);
	while (large_step(&large, 1 + (uint32_t)(random_next(loopback) % LARGE_STEP_BYTES_MAX)) !=
	       LARGE_DONE) {
		rcu_quiescent_state();
		store_thread_clock(loopback->thread);
		if (random_next(loopback) % LARGE_STEPS_PER_YIELD == 0)
			sched_yield();
	}
	response_set_change(&large.change, large.status, response);
}

/* A request on the table; where it needs room, in steps as above. */
static void loopback_operation(struct loopback *loopback, const struct request *request,
			       uint64_t hash, struct wire_response *response,
			       struct response_value *value)
{
	static _Thread_local struct room room;
	bool done;

	room_init(&room);
	do {
		while (room_pending(&room) && room_step(&room) != ROOM_DONE) {
			rcu_quiescent_state();
			store_thread_clock(loopback->thread);
			if (random_next(loopback) % LARGE_STEPS_PER_YIELD == 0)
				sched_yield();
		}
		done = execute(loopback->thread, request, hash, response, value, &room);
	} while (room_pending(&room));
	if (!done)
		loopback_large(loopback, request, hash, response);
}

static void loopback_execute(struct loopback *loopback, const struct request *request,
			     struct wire_response *response, uint8_t *value)
{
	struct response_value response_value = {
		.value = value,
		.size = LOOPBACK_BUFFER_BYTES - (uint32_t)sizeof(*response),
		.sum = true,
	};
	uint64_t hash = 0;

	if (request->key)
		hash = table_hash(&loopback->store->table, request->key, request->key_len);
	/* Any thread may call this; one that changes the table has to be an RCU reader. */
	rcu_register_thread();
	store_thread_clock(loopback->thread);
	*response = (struct wire_response){
		.op = (uint8_t)request->op,
		.id = request->id,
		.clock_ns = loopback->thread->now_ns,
		.window = 1,
	};
	if (request->flags & WIRE_F_PULL)
		loopback_put(loopback, request, hash, response);
	else if (request->op == WIRE_SCAN)
		execute_scan(loopback->thread, request, NULL, UINT64_MAX, response,
			     &response_value);
	else
		loopback_operation(loopback, request, hash, response, &response_value);
	response->value_len = response_value.len;
	execute_access(loopback->thread, request);
	rcu_unregister_thread();
}

/* Executes the request in @wr and puts the response into the oldest receive buffer. */
static enum ibv_wc_status loopback_send(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	struct loopback *loopback = loopback_of(fake);
	uint8_t value[LOOPBACK_BUFFER_BYTES];
	struct wire_response response;
	struct request request;

	if (wr->sg_list->length > LOOPBACK_BUFFER_BYTES || !fake->recv_count ||
	    wire_request_parse(&request, (const void *)(uintptr_t)wr->sg_list->addr,
			       wr->sg_list->length))
		return IBV_WC_REM_INV_REQ_ERR;
	if (loopback->before_request)
		loopback->before_request(loopback, &request);
	loopback_execute(loopback, &request, &response, value);
	if (loopback->before_response)
		loopback->before_response(loopback, &response);
	fake_device_respond(fake, &response, value);
	return IBV_WC_SUCCESS;
}

static void loopback_close(struct fake_device *fake)
{
	struct loopback *loopback = loopback_of(fake);

	munmap((void *)(uintptr_t)loopback->region, loopback->store->region.bytes);
}

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "loopback: %s: %m\n", what);
		exit(EXIT_FAILURE);
	}
}

static void loopback_init_device(struct loopback *loopback)
{
	const struct region *region = &loopback->store->region;
	void *p = mmap(NULL, region->bytes, PROT_READ, MAP_SHARED, region->extents[0].fd, 0);

	must(p != MAP_FAILED, "mmap");
	loopback->region = p;
	loopback->fake.read = loopback_read;
	loopback->fake.read_now = loopback_read_now;
	loopback->fake.send = loopback_send;
	loopback->fake.close = loopback_close;
	fake_device_init(&loopback->fake, &loopback->kvd, "loopback");
}

/* Initializes the handle as client/libkvd/open.c does with a server's welcome. */
static void loopback_init_handle(struct loopback *loopback, const struct kvd_options *options)
{
	struct wire_welcome welcome = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = 1,
		.request_bytes = LOOPBACK_BUFFER_BYTES,
		.region_addr = (uintptr_t)loopback->store->region.base,
	};
	struct kvd *kvd = &loopback->kvd;

	index_geometry(&loopback->store->table, &welcome.geometry);
	welcome.sum_key = loopback->store->region.sum_key;
	welcome.extents = loopback->store->region.extent_count;
	welcome.extent_bytes = loopback->store->region.extent_bytes;
	handle_init(kvd, options);
	kvd->options.reconnect = 0;
	kvd->options.timeout_ms = kvd->options.connect_timeout_ms = FAKE_TIMEOUT_MS;
	must(!open_buffers(kvd) && !open_welcome(kvd, &welcome), "handle");
}

struct loopback *loopback_open(struct store *store, unsigned int thread,
			       const struct kvd_options *options)
{
	struct loopback *loopback = calloc(1, sizeof(*loopback));

	must(loopback && thread < test_thread_count, "calloc");
	loopback->store = store;
	loopback->thread = &test_threads[thread];
	loopback->random = 0x9e3779b97f4a7c15 + thread;
	loopback_init_device(loopback);
	loopback_init_handle(loopback, options);
	return loopback;
}
