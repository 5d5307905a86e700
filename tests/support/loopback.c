/* SPDX-License-Identifier: MIT */
#include "tests/support/loopback.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <urcu-qsbr.h>

#include "client/open.h"
#include "common/util/clock.h"
#include "server/net/execute.h"

#define ODD_PIECE_MAX 96
/* One piece in this many is followed by a chance for others to run. */
#define ODD_YIELD 24

static struct direct *direct_of(const struct fake *fake)
{
	return (struct direct *)((char *)(uintptr_t)fake - offsetof(struct direct, fake));
}

static uint64_t random_next(struct direct *direct)
{
	direct->random ^= direct->random << 13;
	direct->random ^= direct->random >> 7;
	direct->random ^= direct->random << 17;
	return direct->random;
}

/* Halves in either order, down to pieces of any length. */
static void copy_odd(struct direct *direct, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint64_t r = random_next(direct);
	uint32_t first;

	if (bytes <= 1 + r % ODD_PIECE_MAX) {
		memcpy(to, from, bytes);
		if (r >> 32 & 1 && (r >> 33) % ODD_YIELD == 0)
			sched_yield();
		return;
	}
	first = 1 + (uint32_t)(r >> 8) % (bytes - 1);
	if (r >> 63) {
		copy_odd(direct, to, from, first);
		copy_odd(direct, to + first, from + first, bytes - first);
	} else {
		copy_odd(direct, to + first, from + first, bytes - first);
		copy_odd(direct, to, from, first);
	}
}

static enum ibv_wc_status direct_read(struct fake *fake, const struct ibv_send_wr *wr)
{
	struct direct *direct = direct_of(fake);
	const struct region *region = &direct->store->region;
	uint64_t offset = wr->wr.rdma.remote_addr - (uintptr_t)region->base;
	uint8_t *to = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	uint32_t bytes = wr->sg_list->length;

	if (offset >= region->bytes || bytes > region->bytes - offset)
		return IBV_WC_REM_ACCESS_ERR;
	if (direct->before_read)
		direct->before_read(direct, offset, bytes);
	if (direct->odd)
		copy_odd(direct, to, direct->region + offset, bytes);
	else
		memcpy(to, direct->region + offset, bytes);
	if (direct->after_read)
		direct->after_read(direct, offset, to, bytes);
	return IBV_WC_SUCCESS;
}

static void direct_put(struct direct *direct, const struct request *request, uint64_t hash,
		       struct wire_response *response)
{
	enum wire_status status = WIRE_NO_SPACE;
	struct table_change change;
	struct item *item;

	put_change_init(request, &change);
	item = table_reserve(direct->thread, &change);
	if (item) {
		memcpy(table_reserved_value(item), (const void *)(uintptr_t)request->pull_addr,
		       request->value_len);
		status = table_commit(direct->thread, hash, item, &change);
	}
	response_set_change(&change, status, response);
}

static void direct_execute(struct direct *direct, const struct request *request,
			   struct wire_response *response, uint8_t *value)
{
	struct response_value response_value = { value,
						 DIRECT_BUFFER_BYTES - (uint32_t)sizeof(*response),
						 0 };
	uint64_t hash = 0;

	if (request->key)
		hash = table_hash(&direct->store->table, request->key, request->key_len);
	if (direct->copy)
		table_abandon(direct->thread, direct->copy);
	direct->copy = NULL;
	/* Whatever thread it is: what it does to the table it does as an RCU reader. */
	rcu_register_thread();
	store_thread_clock(direct->thread);
	*response = (struct wire_response){
		.op = (uint8_t)request->op,
		.id = request->id,
		.clock_ns = direct->thread->now_ns,
	};
	if (request->flags & WIRE_F_PULL)
		direct_put(direct, request, hash, response);
	else
		execute(direct->thread, request, hash, response, &response_value);
	if (request->op == WIRE_GET && !response->status &&
	    response->value_len > response_value.size)
		direct->copy = execute_copy(direct->thread, request, hash, direct->copy_seed++,
					    response);
	execute_access(direct->thread, request);
	rcu_unregister_thread();
}

/* Does the request in @wr and puts the response into the oldest receive buffer. */
static enum ibv_wc_status direct_send(struct fake *fake, const struct ibv_send_wr *wr)
{
	struct direct *direct = direct_of(fake);
	uint8_t value[DIRECT_BUFFER_BYTES];
	struct wire_response response;
	struct request request;

	if (wr->sg_list->length > DIRECT_BUFFER_BYTES || !fake->recv_count ||
	    wire_request_parse(&request, (const void *)(uintptr_t)wr->sg_list->addr,
			       wr->sg_list->length))
		return IBV_WC_REM_INV_REQ_ERR;
	if (direct->before_request)
		direct->before_request(direct, &request);
	direct_execute(direct, &request, &response, value);
	if (direct->before_response)
		direct->before_response(direct, &response);
	fake_respond(fake, &response, value);
	return IBV_WC_SUCCESS;
}

static void direct_close(struct fake *fake)
{
	struct direct *direct = direct_of(fake);

	if (direct->copy)
		table_abandon(direct->thread, direct->copy);
	munmap((void *)(uintptr_t)direct->region, direct->store->region.bytes);
}

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "direct: %s: %m\n", what);
		exit(EXIT_FAILURE);
	}
}

static void direct_init_device(struct direct *direct)
{
	const struct region *region = &direct->store->region;
	void *p = mmap(NULL, region->bytes, PROT_READ, MAP_SHARED, region->fd, 0);

	must(p != MAP_FAILED, "mmap");
	direct->region = p;
	direct->fake.read = direct_read;
	direct->fake.send = direct_send;
	direct->fake.close = direct_close;
	fake_init(&direct->fake, &direct->kvd, "direct");
}

/* As client/open.c does with the server's welcome. */
static void direct_init_handle(struct direct *direct, const struct kvd_options *options)
{
	struct wire_welcome welcome = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = 1,
		.request_bytes = DIRECT_BUFFER_BYTES,
		.region_addr = (uintptr_t)direct->store->region.base,
	};
	struct kvd *kvd = &direct->kvd;

	index_geometry(&direct->store->table, &welcome.geometry);
	handle_init(kvd, options);
	must(!open_buffers(kvd) && !open_welcome(kvd, &welcome), "handle");
}

struct direct *direct_open(struct store *store, unsigned int thread,
			   const struct kvd_options *options)
{
	struct direct *direct = calloc(1, sizeof(*direct));

	must(direct && thread < test_thread_count, "calloc");
	direct->store = store;
	direct->thread = &test_threads[thread];
	direct->copy_seed = 0x5eed + ((uint64_t)thread << 32);
	direct->random = 0x9e3779b97f4a7c15 + thread;
	direct_init_device(direct);
	direct_init_handle(direct, options);
	return direct;
}
