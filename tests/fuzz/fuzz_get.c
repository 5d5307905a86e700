/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of GETs and scans in a hostile region: the input changes what READs and responses
 * bring, with sums made right where it asks for it. GETs and scans must not crash, read outside the
 * region, or run for ever. The server is a fake: its index is larger than the client knows, and
 * some of its items expire.
 *
 * The input is a list of changes, 16 bytes each: which READ or response, how, where, to what value.
 */
#include "common/sum.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/fake_server.h"

#define VALUE_BYTES 2000u
#define KEYS 40

struct change {
	uint8_t event; /* which READ or response, counted from 0; 255: all */
	uint8_t seal;  /* bit 0: make the sum right afterwards; bit 1: change one bit, not a word */
	uint16_t at;
	uint32_t reserved;
	uint64_t to;
};

static struct fake_server *server;
static const uint8_t *changes;
static size_t change_count;
static unsigned int events;
static uint64_t home; /* the home bucket that was read last, for the sums of overflow buckets */

static void apply(const struct change *change, uint8_t *bytes, uint32_t len)
{
	uint32_t at = change->at % len & ~7u;

	if (at + 8 > len)
		return;
	if (change->seal & 2)
		bytes[at] ^= (uint8_t)(1u << change->to % 8);
	else
		memcpy(bytes + at, &change->to, 8);
}

static void seal(uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct geometry *geometry = (struct geometry *)to;
	uint64_t incarnation = server->geometry.incarnation;
	struct bucket *bucket = (struct bucket *)to;
	struct item *item = (struct item *)to;

	if (bytes == BUCKET_BYTES)
		bucket->sum = bucket_sum(bucket, &server->sum_key, incarnation, offset, home);
	else if (bytes == sizeof(*geometry) && offset == offsetof(struct superblock, geometry))
		geometry->sum = geometry_sum(geometry);
	else if (bytes >= sizeof(union item_front) && item_bytes(item) <= bytes) {
		item_value_sum_make(item, &server->sum_key);
		item->sum = item_sum(item, &server->sum_key, incarnation, offset);
	}
}

static void change_bytes(uint64_t offset, uint8_t *to, uint32_t bytes, bool sealed)
{
	struct change change;
	size_t i;

	for (i = 0; i < change_count; i++) {
		memcpy(&change, changes + i * sizeof(change), sizeof(change));
		if (change.event != 255 && change.event != events % 255)
			continue;
		apply(&change, to, bytes);
		if (sealed && change.seal & 1)
			seal(offset, to, bytes);
	}
	/*
	 * Tries, chains and slots of a GET are bounded: 32 tries of 64 hops would be 2,048 buckets.
	 */
	must(++events < 100000);
}

static void after_read(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)p;
	if (bytes == BUCKET_BYTES && offset < FAKE_SERVER_REGION_BYTES / 4)
		home = offset;
	change_bytes(offset, to, bytes, true);
}

static void before_response(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	change_bytes(0, (uint8_t *)response, sizeof(*response), false);
	/* The message has no more bytes to send. */
	if (response->value_len > FAKE_SERVER_BUFFER_BYTES - sizeof(*response))
		response->value_len = 0;
}

/* Responds with one entry, whose length the input may change. */
static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	const struct wire_entry entry = { .key_len = 8, .value_len = 5, .value_sent = 5 };

	(void)p, (void)request;
	memset(value, 0, FAKE_SERVER_BUFFER_BYTES);
	memcpy(value, &entry, sizeof(entry));
	response->value_len = sizeof(entry) + 13;
	response->item_flags = 1;
}

static int visit(void *arg, const struct kvd_entry *entry)
{
	(void)arg;
	touch(entry->key, entry->key_len);
	if (entry->value)
		touch(entry->value, entry->item.value_len);
	return 0;
}

static void fake_server_make(void)
{
	struct kvd_options options;
	uint64_t key;

	kvd_options_init(&options);
	options.get_tries = 3;
	options.cache_bytes = 4096;
	server = fake_server_open(1, 1, 3, 1000, &options);
	for (key = 0; key < KEYS; key++)
		fake_server_put(server, key, (uint32_t)key * 40,
				key % 8 ? 0 : FAKE_SERVER_CLOCK_S - 20 + (uint32_t)key);
	fake_server_split(server, 1);
	server->after_read = after_read;
	server->before_response = before_response;
	server->respond = respond;
}

/* Resets the handle, so that no earlier input has an effect on it. */
static void handle_renew(void)
{
	if (server && server->kvd.conn.broken) {
		kvd_close(&server->kvd);
		server = NULL;
	}
	if (!server)
		fake_server_make();
	server->kvd.geometry = ((struct superblock *)(void *)server->region)->geometry;
	server->kvd.geometry_ns = 0;
	memset(&server->kvd.clock, 0, sizeof(server->kvd.clock));
	memset(server->kvd.cache.lines, 0, bcache_bytes(&server->kvd.cache));
	memset(server->kvd.conn.ring.base, 0, server->kvd.conn.ring.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvd_get_request requests[KEYS + 4];
	struct kvd_exists results[KEYS + 4];
	struct kvd_key names[KEYS + 4];
	static uint8_t values[KEYS + 4][VALUE_BYTES];
	static uint64_t keys[KEYS + 4];
	uint64_t cursor = 0;
	unsigned int i;

	changes = data;
	change_count = size / sizeof(struct change) < 64 ? size / sizeof(struct change) : 64;
	events = 0;
	handle_renew();
	for (i = 0; i < KEYS + 4; i++) {
		keys[i] = i;
		requests[i] = (struct kvd_get_request){
			.key = &keys[i],
			.key_len = 8,
			.value = values[i],
			.value_size = VALUE_BYTES,
		};
		names[i] = (struct kvd_key){ &keys[i], 8 };
		if (i % 4 == 0)
			kvd_get(&server->kvd, &keys[i], 8, values[i], VALUE_BYTES, NULL);
	}
	kvd_get_many(&server->kvd, requests, KEYS + 4);
	kvd_exists_many(&server->kvd, names, KEYS + 4, results, NULL);
	kvd_scan(&server->kvd, &cursor, NULL, visit, NULL);
	return 0;
}
