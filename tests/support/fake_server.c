/* SPDX-License-Identifier: MIT */
/*
 * The fake server: a region with an index and items that tests lay out, and responses to the
 * requests of one client handle.
 */
#include "tests/support/fake_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/geometry.h"
#include "client/libkvd/rpc.h"
#include "common/sum.h"
#include "common/util/clock.h"

#define INCARNATION 0x1234567812345678ull
#define SUM_KEY_BYTE 0xa5 /* each byte of the key */
#define HASH_SEED 99

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fake server: %s\n", what);
		exit(EXIT_FAILURE);
	}
}

static struct fake_server *fake_server_of(const struct fake_device *fake)
{
	return (struct fake_server *)((char *)(uintptr_t)fake - offsetof(struct fake_server, fake));
}

static struct bucket *bucket_at(struct fake_server *server, uint64_t offset)
{
	return (struct bucket *)(void *)(server->region + offset);
}

uint64_t fake_server_hash(const struct fake_server *server, uint64_t key)
{
	return key_hash(&key, sizeof(key), server->geometry.hash_seed);
}

static struct fake_server_key *key_lookup(const struct fake_server *server, uint64_t key)
{
	for (unsigned int i = 0; i < server->key_count; i++)
		if (server->keys[i].key == key)
			return (struct fake_server_key *)(uintptr_t)&server->keys[i];
	return NULL;
}

struct item *fake_server_item(const struct fake_server *server, uint64_t key)
{
	const struct fake_server_key *k = key_lookup(server, key);

	must(k, "no such key");
	return (struct item *)(void *)(server->region + k->offset);
}

void fake_server_seal(struct fake_server *server, uint64_t key)
{
	struct item *item = fake_server_item(server, key);

	item_value_sum_make(item, &server->sum_key);
	item->sum = item_sum(item, &server->sum_key, server->geometry.incarnation,
			     key_lookup(server, key)->offset);
}

static void slot_add(struct fake_server *server, struct bucket *home, uint64_t slot)
{
	struct bucket *bucket = home;

	while (bucket->slots[BUCKET_SLOTS - 1] && bucket->overflow)
		bucket = bucket_at(server, (uint64_t)bucket->overflow * BUCKET_BYTES);
	if (bucket->slots[BUCKET_SLOTS - 1]) {
		server->overflow_end -= BUCKET_BYTES;
		bucket->overflow = (uint32_t)(server->overflow_end / BUCKET_BYTES);
		bucket = bucket_at(server, server->overflow_end);
		memset(bucket, 0, sizeof(*bucket));
	}
	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		if (!bucket->slots[i]) {
			bucket->slots[i] = slot;
			return;
		}
}

static void chain_seal(struct fake_server *server, uint64_t number)
{
	uint64_t home = geometry_bucket_offset(&server->geometry, number), offset = home;
	struct bucket *bucket;

	for (; offset; offset = (uint64_t)bucket->overflow * BUCKET_BYTES) {
		bucket = bucket_at(server, offset);
		bucket->level = bucket_level(&server->geometry, number);
		bucket->epoch = server->epoch;
		bucket->sum = bucket_sum(bucket, &server->sum_key, server->geometry.incarnation,
					 offset, home);
	}
}

void fake_server_lay_out(struct fake_server *server)
{
	const struct geometry *g = &server->geometry;
	uint64_t n, hash, buckets = geometry_buckets(g);
	const struct item *item;
	unsigned int i;

	server->overflow_end = FAKE_SERVER_REGION_BYTES - REGION_PAD;
	for (n = 0; n < buckets; n++)
		memset(bucket_at(server, geometry_bucket_offset(g, n)), 0, BUCKET_BYTES);
	for (i = 0; i < server->key_count; i++) {
		hash = fake_server_hash(server, server->keys[i].key);
		item = fake_server_item(server, server->keys[i].key);
		slot_add(server,
			 bucket_at(server, geometry_bucket_offset(g, geometry_home(g, hash))),
			 slot_make(hash_tag(hash), server->keys[i].offset, item_bytes(item)));
	}
	for (n = 0; n < buckets; n++)
		chain_seal(server, n);
}

void fake_server_put(struct fake_server *server, uint64_t key, uint32_t len, uint32_t expires)
{
	static uint64_t version;
	struct fake_server_key *k;
	struct item *item;

	fake_server_delete(server, key);
	must(server->key_count < FAKE_SERVER_KEYS_MAX, "too many keys");
	k = &server->keys[server->key_count++];
	*k = (struct fake_server_key){ .key = key, .offset = server->items_end };
	server->items_end += (item_bytes_for(8, len, 0) + SLOT_UNIT - 1) / SLOT_UNIT * SLOT_UNIT;
	must(server->items_end < FAKE_SERVER_REGION_BYTES * 3 / 4, "region full");
	item = fake_server_item(server, key);
	*item = (struct item){
		.version = version + 1,
		.expires = expires,
	};
	item_set_lengths(item, 8, len, 0);
	version++;
	memcpy(item_key(item), &key, 8);
	memset(item_value(item), (uint8_t)key, len);
	fake_server_seal(server, key);
	fake_server_lay_out(server);
}

void fake_server_delete(struct fake_server *server, uint64_t key)
{
	struct fake_server_key *k = key_lookup(server, key);

	if (!k)
		return;
	fake_server_item(server, key)->sum = ITEM_SUM_INVALID;
	*k = server->keys[--server->key_count];
	fake_server_lay_out(server);
}

void fake_server_split(struct fake_server *server, unsigned int count)
{
	struct geometry *g = &server->geometry;

	while (count--)
		if (++g->split == 1ull << g->level) {
			g->level++;
			g->split = 0;
		}
	server->epoch = (uint16_t)(server->epoch + 2);
	fake_server_lay_out(server);
}

void fake_server_publish(struct fake_server *server)
{
	struct superblock *super = (struct superblock *)(void *)server->region;

	server->geometry.sum = geometry_sum(&server->geometry);
	super->geometry = server->geometry;
}

static enum ibv_wc_status fake_server_read(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	struct fake_server *server = fake_server_of(fake);
	uint64_t offset = wr->wr.rdma.remote_addr - (uintptr_t)server->region;
	uint8_t *to = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	uint32_t bytes = wr->sg_list->length;

	if (offset >= FAKE_SERVER_REGION_BYTES || bytes > FAKE_SERVER_REGION_BYTES - offset)
		return IBV_WC_REM_ACCESS_ERR;
	if (server->before_read)
		server->before_read(server, offset, bytes);
	memcpy(to, server->region + offset, bytes);
	if (server->after_read)
		server->after_read(server, offset, to, bytes);
	return IBV_WC_SUCCESS;
}

/* As on a real server, an expired item is not found. */
static void respond_get(struct fake_server *server, const struct request *request,
			struct wire_response *response, uint8_t *value)
{
	const struct item *item;
	uint64_t key;

	memcpy(&key, request->key, 8);
	server->gets++;
	response->status = WIRE_NOT_FOUND;
	if (!key_lookup(server, key))
		return;
	item = fake_server_item(server, key);
	if (item->expires && item->expires * 1000000000ull <= server->clock_ns)
		return;
	response->status = WIRE_OK;
	response->version = item->version;
	response->expires = item->expires;
	response->result = item_value_len(item);
	if (item_is_long(item))
		response->value_sum = item_long(item)->value_sum;
	if (request->flags & WIRE_F_NO_VALUE)
		return;
	must(request->offset <= item_value_len(item), "part");
	response->value_len = item_value_len(item) - (uint32_t)request->offset;
	if (request->length && response->value_len > request->length)
		response->value_len = request->length;
	if (response->value_len > FAKE_SERVER_BUFFER_BYTES - sizeof(*response))
		response->value_len = FAKE_SERVER_BUFFER_BYTES - sizeof(*response);
	memcpy(value, item_value(item) + request->offset, response->value_len);
}

static void respond_hello(struct fake_server *server, struct wire_response *response,
			  uint8_t *value)
{
	server->hellos++;
	server->welcome.geometry = server->geometry;
	server->welcome.sum_key = server->sum_key;
	server->welcome.extent_bytes = server->geometry.region_bytes;
	if (server->greet)
		server->greet(server, &server->welcome);
	memcpy(value, &server->welcome, sizeof(server->welcome));
	response->value_len = sizeof(server->welcome);
}

static void execute(struct fake_server *server, const struct request *request,
		    struct wire_response *response, uint8_t *value);

static void execute_batch(struct fake_server *server, const struct request *batch,
			  struct wire_response *response, uint8_t *value)
{
	uint8_t one[FAKE_SERVER_BUFFER_BYTES];
	struct wire_response r;
	struct wire_result result;
	struct request request;
	uint32_t n, used = 0, change = batch->change;
	size_t at = 0;

	server->batches++;
	for (n = 0; n < batch->count; n++) {
		must(!wire_batched_parse(&request, batch->value, batch->value_len, &at), "batch");
		r = (struct wire_response){ .op = (uint8_t)request.op };
		/* A batch's changes have numbers in a row, of which the message has the first. */
		if (change && request.op != WIRE_GET)
			request.change = change++;
		execute(server, &request, &r, one);
		if (r.op == WIRE_GET && r.result > server->batch_value_max)
			r = (struct wire_response){ .op = r.op, .status = WIRE_TOO_LARGE };
		result = (struct wire_result){
			.op = r.op,
			.status = r.status,
			.flags = r.flags,
			.expires = r.expires,
			.version = r.version,
			.slot = r.slot,
			.result = r.result,
		};
		if (r.op == WIRE_GET) {
			result.item_flags = r.item_flags;
			result.value_len = r.value_len;
		}
		memcpy(value + used, &result, sizeof(result));
		memcpy(value + used + sizeof(result), one, r.value_len);
		used += (uint32_t)sizeof(result) + r.value_len;
	}
	response->entries = batch->count;
	response->value_len = used;
}

static void execute(struct fake_server *server, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	server->requests++;
	server->access_records += request->access_count;
	server->get_hits += request->gets.hits;
	server->get_misses += request->gets.misses;
	if (request->access_count) {
		struct wire_access last = request_access(request, request->access_count - 1);

		server->last_access = wire_access_hash(last);
		server->last_hits = last.hits;
	}
	if (request->op == WIRE_PING)
		server->pings++;
	else if (request->op == WIRE_HELLO)
		respond_hello(server, response, value);
	else if (request->op == WIRE_GET ||
		 (request->op == WIRE_TOUCH && request->flags & WIRE_F_VALUE))
		respond_get(server, request, response, value);
	else if (request->op == WIRE_ACCESS)
		server->access_messages++;
	else if (request->op == WIRE_BATCH)
		execute_batch(server, request, response, value);
	else if (server->respond)
		server->respond(server, request, response, value);
	else
		response->status = WIRE_PROTOCOL;
}

static enum ibv_wc_status fake_server_send(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	struct fake_server *server = fake_server_of(fake);
	uint8_t value[FAKE_SERVER_BUFFER_BYTES];
	struct wire_response response;
	struct request request;

	if (wr->sg_list->length > FAKE_SERVER_BUFFER_BYTES ||
	    wire_request_parse(&request, (const void *)(uintptr_t)wr->sg_list->addr,
			       wr->sg_list->length))
		return IBV_WC_REM_INV_REQ_ERR;
	response = (struct wire_response){
		.op = (uint8_t)request.op,
		.id = request.id,
		.clock_ns = server->clock_ns,
		.window = request.op == WIRE_HELLO ? 0 : (uint16_t)server->welcome.window,
		.tick = server->tick,
	};
	if (server->outstanding_max < 1u + server->holding + server->queued)
		server->outstanding_max = 1u + server->holding + server->queued;
	execute(server, &request, &response, value);
	if (server->before_response)
		server->before_response(server, &response);
	if (server->hold_all) {
		must(server->queued < FAKE_SERVER_QUEUE_MAX, "too many requests are outstanding");
		server->queue[server->queued].head = response;
		memcpy(server->queue[server->queued].value, value, response.value_len);
		server->queued++;
	} else if (request.op == WIRE_ACCESS && server->hold_access) {
		must(!server->holding, "two ACCESS messages are outstanding");
		server->held = response;
		server->holding = true;
	} else if (server->late_ns) {
		must(!server->holding, "two requests are outstanding");
		server->due_ns = clock_ns() + server->late_ns;
		server->held = response;
		server->holding = true;
	} else {
		fake_device_respond(fake, &response, value);
	}
	return IBV_WC_SUCCESS;
}

void fake_server_answer(struct fake_server *server, unsigned int count)
{
	unsigned int i;

	must(count <= server->queued, "fewer responses are held back");
	for (i = 0; i < count; i++)
		fake_device_respond(&server->fake, &server->queue[i].head, server->queue[i].value);
	server->queued -= count;
	memmove(server->queue, server->queue + count, server->queued * sizeof(server->queue[0]));
}

void fake_server_release(struct fake_server *server)
{
	if (server->holding)
		fake_device_respond(&server->fake, &server->held, NULL);
	server->holding = false;
}

/* The handle polls an empty completion queue: sends the response that was held back. */
static void fake_server_idle(struct fake_device *fake)
{
	struct fake_server *server = fake_server_of(fake);

	if (!server->late_ns || clock_ns() >= server->due_ns)
		fake_server_release(server);
	if (server->answer_idle && server->queued)
		fake_server_answer(server, 1);
}

static void fake_server_close(struct fake_device *fake)
{
	free(fake_server_of(fake)->region);
}

static void fake_server_init_region(struct fake_server *server, uint32_t level)
{
	uint64_t at = sizeof(struct superblock), bytes = BUCKET_BYTES << level;

	server->region = calloc(1, FAKE_SERVER_REGION_BYTES);
	must(server->region, "no memory");
	server->geometry = (struct geometry){
		.incarnation = INCARNATION,
		.region_bytes = FAKE_SERVER_REGION_BYTES,
		.hash_seed = HASH_SEED,
		.value_max = 1 << 20,
		.level_base = level,
		.level = level,
	};
	memset(&server->sum_key, SUM_KEY_BYTE, sizeof(server->sum_key));
	/* Segments of the index, side by side; as many as fit before the items. */
	for (unsigned int k = 0; at + bytes <= FAKE_SERVER_REGION_BYTES / 4; k++) {
		server->geometry.segments[k] = at;
		at += bytes;
		bytes *= k ? 2 : 1;
	}
	server->items_end = FAKE_SERVER_REGION_BYTES / 4;
	server->clock_ns = FAKE_SERVER_CLOCK_S * 1000000000ull;
	fake_server_lay_out(server);
	fake_server_publish(server);
}

void fake_server_restart(struct fake_server *server)
{
	server->geometry.incarnation++;
	server->geometry.hash_seed++;
	server->sum_key.secret[0]++;
	server->key_count = 0;
	fake_server_lay_out(server);
	fake_server_publish(server);
}

struct fake_server *fake_server_open(uint32_t level, uint32_t window, uint32_t access_rate,
				     uint32_t access_delay_ms, const struct kvd_options *options)
{
	struct fake_server *server = calloc(1, sizeof(*server));
	struct wire_welcome welcome = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = window,
		.request_bytes = FAKE_SERVER_BUFFER_BYTES,
		.access_rate = access_rate,
		.access_delay_ms = access_delay_ms,
	};

	must(server, "no memory");
	server->batch_value_max = 64;
	server->fake.read = fake_server_read;
	server->fake.send = fake_server_send;
	server->fake.idle = fake_server_idle;
	server->fake.close = fake_server_close;
	fake_device_init(&server->fake, &server->kvd, "fake server");
	fake_server_init_region(server, level);
	welcome.region_addr = (uintptr_t)server->region;
	welcome.geometry = server->geometry;
	welcome.sum_key = server->sum_key;
	welcome.extents = 1;
	welcome.extent_bytes = server->geometry.region_bytes;
	server->welcome = welcome;
	handle_init(&server->kvd, options);
	server->kvd.options.reconnect = 0;
	server->kvd.options.timeout_ms = FAKE_TIMEOUT_MS;
	server->kvd.options.connect_timeout_ms = FAKE_TIMEOUT_MS;
	must(!open_buffers(&server->kvd) && !open_welcome(&server->kvd, &welcome), "handle");
	window_posted(&server->kvd.conn, clock_raw_ns()); /* as HELLO was */
	return server;
}
