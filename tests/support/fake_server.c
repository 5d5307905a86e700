/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/geometry.h"
#include "client/open.h"
#include "common/sum.h"

#define INCARNATION 0x1234567812345678ull
#define HASH_SEED 99

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "puppet: %s\n", what);
		exit(EXIT_FAILURE);
	}
}

static struct puppet *puppet_of(const struct fake *fake)
{
	return (struct puppet *)((char *)(uintptr_t)fake - offsetof(struct puppet, fake));
}

static struct bucket *bucket_at(struct puppet *puppet, uint64_t offset)
{
	return (struct bucket *)(void *)(puppet->region + offset);
}

uint64_t puppet_hash(const struct puppet *puppet, uint64_t key)
{
	return key_hash(&key, sizeof(key), puppet->geometry.hash_seed);
}

static struct puppet_key *find(const struct puppet *puppet, uint64_t key)
{
	for (unsigned int i = 0; i < puppet->key_count; i++)
		if (puppet->keys[i].key == key)
			return (struct puppet_key *)(uintptr_t)&puppet->keys[i];
	return NULL;
}

struct item *puppet_item(const struct puppet *puppet, uint64_t key)
{
	const struct puppet_key *k = find(puppet, key);

	must(k, "no such key");
	return (struct item *)(void *)(puppet->region + k->offset);
}

void puppet_seal(struct puppet *puppet, uint64_t key)
{
	struct item *item = puppet_item(puppet, key);

	item->sum = item_sum(item, INCARNATION, find(puppet, key)->offset);
}

static void slot_add(struct puppet *puppet, struct bucket *home, uint64_t slot)
{
	struct bucket *bucket = home;

	while (bucket->slots[BUCKET_SLOTS - 1] && bucket->overflow)
		bucket = bucket_at(puppet, (uint64_t)bucket->overflow * BUCKET_BYTES);
	if (bucket->slots[BUCKET_SLOTS - 1]) {
		puppet->overflow_end -= BUCKET_BYTES;
		bucket->overflow = (uint32_t)(puppet->overflow_end / BUCKET_BYTES);
		bucket = bucket_at(puppet, puppet->overflow_end);
		memset(bucket, 0, sizeof(*bucket));
	}
	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		if (!bucket->slots[i]) {
			bucket->slots[i] = slot;
			return;
		}
}

static void chain_seal(struct puppet *puppet, uint64_t number)
{
	uint64_t home = geometry_bucket_offset(&puppet->geometry, number), offset = home;
	struct bucket *bucket;

	for (; offset; offset = (uint64_t)bucket->overflow * BUCKET_BYTES) {
		bucket = bucket_at(puppet, offset);
		bucket->level = bucket_level(&puppet->geometry, number);
		bucket->epoch = puppet->epoch;
		bucket->sum = bucket_sum(bucket, INCARNATION, offset, home);
	}
}

void puppet_lay_out(struct puppet *puppet)
{
	const struct geometry *g = &puppet->geometry;
	uint64_t n, hash, buckets = geometry_buckets(g);
	const struct item *item;
	unsigned int i;

	puppet->overflow_end = PUPPET_REGION_BYTES - REGION_PAD;
	for (n = 0; n < buckets; n++)
		memset(bucket_at(puppet, geometry_bucket_offset(g, n)), 0, BUCKET_BYTES);
	for (i = 0; i < puppet->key_count; i++) {
		hash = puppet_hash(puppet, puppet->keys[i].key);
		item = puppet_item(puppet, puppet->keys[i].key);
		slot_add(puppet,
			 bucket_at(puppet, geometry_bucket_offset(g, geometry_home(g, hash))),
			 slot_make(hash_tag(hash), puppet->keys[i].offset,
				   item_bytes(item->key_len, item->value_len)));
	}
	for (n = 0; n < buckets; n++)
		chain_seal(puppet, n);
}

void puppet_put(struct puppet *puppet, uint64_t key, uint32_t len, uint32_t expires)
{
	static uint64_t version;
	struct puppet_key *k;
	struct item *item;

	puppet_delete(puppet, key);
	must(puppet->key_count < PUPPET_KEYS_MAX, "too many keys");
	k = &puppet->keys[puppet->key_count++];
	*k = (struct puppet_key){ .key = key, .offset = puppet->items_end };
	puppet->items_end += (item_bytes(8, len) + SLOT_UNIT - 1) / SLOT_UNIT * SLOT_UNIT;
	must(puppet->items_end < PUPPET_REGION_BYTES * 3 / 4, "region full");
	item = puppet_item(puppet, key);
	*item = (struct item){
		.version = ++version,
		.expires = expires,
		.value_len = len,
		.key_len = 8,
	};
	memcpy(item->data, &key, 8);
	memset(item->data + 8, (uint8_t)key, len);
	puppet_seal(puppet, key);
	puppet_lay_out(puppet);
}

void puppet_delete(struct puppet *puppet, uint64_t key)
{
	struct puppet_key *k = find(puppet, key);

	if (!k)
		return;
	puppet_item(puppet, key)->sum = ITEM_SUM_INVALID;
	*k = puppet->keys[--puppet->key_count];
	puppet_lay_out(puppet);
}

void puppet_split(struct puppet *puppet, unsigned int count)
{
	struct geometry *g = &puppet->geometry;

	while (count--)
		if (++g->split == 1ull << g->level) {
			g->level++;
			g->split = 0;
		}
	puppet->epoch = (uint16_t)(puppet->epoch + 2);
	puppet_lay_out(puppet);
}

void puppet_publish(struct puppet *puppet)
{
	struct superblock *super = (struct superblock *)(void *)puppet->region;

	puppet->geometry.sum = geometry_sum(&puppet->geometry);
	super->geometry = puppet->geometry;
}

static enum ibv_wc_status puppet_read(struct fake *fake, const struct ibv_send_wr *wr)
{
	struct puppet *puppet = puppet_of(fake);
	uint64_t offset = wr->wr.rdma.remote_addr - (uintptr_t)puppet->region;
	uint8_t *to = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	uint32_t bytes = wr->sg_list->length;

	if (offset >= PUPPET_REGION_BYTES || bytes > PUPPET_REGION_BYTES - offset)
		return IBV_WC_REM_ACCESS_ERR;
	if (puppet->before_read)
		puppet->before_read(puppet, offset, bytes);
	memcpy(to, puppet->region + offset, bytes);
	if (puppet->after_read)
		puppet->after_read(puppet, offset, to, bytes);
	return IBV_WC_SUCCESS;
}

/* As the server does: an expired item counts as not stored. */
static void respond_get(struct puppet *puppet, const struct request *request,
			struct wire_response *response, uint8_t *value)
{
	const struct item *item;
	uint64_t key;

	memcpy(&key, request->key, 8);
	puppet->gets++;
	response->status = WIRE_NOT_FOUND;
	if (!find(puppet, key))
		return;
	item = puppet_item(puppet, key);
	if (item->expires && item->expires * 1000000000ull <= puppet->clock_ns)
		return;
	response->status = WIRE_OK;
	response->value_len = item->value_len;
	response->version = item->version;
	response->expires = item->expires;
	memcpy(value, item->data + 8, item->value_len);
}

static void execute(struct puppet *puppet, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	puppet->requests++;
	puppet->access_records += request->access_count;
	if (request->access_count)
		puppet->last_access = request_access(request, request->access_count - 1);
	if (request->op == WIRE_PING)
		puppet->pings++;
	else if (request->op == WIRE_GET)
		respond_get(puppet, request, response, value);
	else if (request->op == WIRE_ACCESS)
		puppet->access_messages++;
	else if (puppet->respond)
		puppet->respond(puppet, request, response, value);
	else
		response->status = WIRE_PROTOCOL;
}

static enum ibv_wc_status puppet_send(struct fake *fake, const struct ibv_send_wr *wr)
{
	struct puppet *puppet = puppet_of(fake);
	uint8_t value[PUPPET_BUFFER_BYTES];
	struct wire_response response;
	struct request request;

	if (wr->sg_list->length > PUPPET_BUFFER_BYTES ||
	    wire_request_parse(&request, (const void *)(uintptr_t)wr->sg_list->addr,
			       wr->sg_list->length))
		return IBV_WC_REM_INV_REQ_ERR;
	response = (struct wire_response){
		.op = (uint8_t)request.op,
		.id = request.id,
		.clock_ns = puppet->clock_ns,
	};
	if (puppet->outstanding_max < 1u + puppet->holding)
		puppet->outstanding_max = 1u + puppet->holding;
	execute(puppet, &request, &response, value);
	if (puppet->before_response)
		puppet->before_response(puppet, &response);
	if (request.op == WIRE_ACCESS && puppet->hold_access) {
		must(!puppet->holding, "two ACCESS messages are outstanding");
		puppet->held = response;
		puppet->holding = true;
	} else {
		fake_respond(fake, &response, value);
	}
	return IBV_WC_SUCCESS;
}

void puppet_release(struct puppet *puppet)
{
	if (puppet->holding)
		fake_respond(&puppet->fake, &puppet->held, NULL);
	puppet->holding = false;
}

/* The handle polls and nothing is there: sends the response that is held back. */
static void puppet_idle(struct fake *fake)
{
	puppet_release(puppet_of(fake));
}

static void puppet_close(struct fake *fake)
{
	free(puppet_of(fake)->region);
}

static void puppet_init_region(struct puppet *puppet, uint32_t level)
{
	uint64_t at = sizeof(struct superblock), bytes = BUCKET_BYTES << level;

	puppet->region = calloc(1, PUPPET_REGION_BYTES);
	must(puppet->region, "no memory");
	puppet->geometry = (struct geometry){
		.incarnation = INCARNATION,
		.region_bytes = PUPPET_REGION_BYTES,
		.hash_seed = HASH_SEED,
		.value_max = 1 << 20,
		.level_base = level,
		.level = level,
	};
	/* Contiguous; as many as there is room for before the items. */
	for (unsigned int k = 0; at + bytes <= PUPPET_REGION_BYTES / 4; k++) {
		puppet->geometry.segments[k] = at;
		at += bytes;
		bytes *= k ? 2 : 1;
	}
	puppet->items_end = PUPPET_REGION_BYTES / 4;
	puppet->clock_ns = PUPPET_CLOCK_S * 1000000000ull;
	puppet_lay_out(puppet);
	puppet_publish(puppet);
}

struct puppet *puppet_open(uint32_t level, uint32_t window, uint32_t access_rate,
			   uint32_t access_delay_ms, const struct kvd_options *options)
{
	struct puppet *puppet = calloc(1, sizeof(*puppet));
	struct wire_welcome welcome = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = window,
		.request_bytes = PUPPET_BUFFER_BYTES,
		.access_rate = access_rate,
		.access_delay_ms = access_delay_ms,
	};

	must(puppet, "no memory");
	puppet->fake.read = puppet_read;
	puppet->fake.send = puppet_send;
	puppet->fake.idle = puppet_idle;
	puppet->fake.close = puppet_close;
	fake_init(&puppet->fake, &puppet->kvd, "puppet");
	puppet_init_region(puppet, level);
	welcome.region_addr = (uintptr_t)puppet->region;
	welcome.geometry = puppet->geometry;
	handle_init(&puppet->kvd, options);
	must(!open_buffers(&puppet->kvd) && !open_welcome(&puppet->kvd, &welcome), "handle");
	return puppet;
}
