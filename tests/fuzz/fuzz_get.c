/* SPDX-License-Identifier: MIT */
/*
 * A region full of anything: what READs and responses bring is changed as the input says, with sums
 * made right where it asks for it, and GETs must end in bounds. What they may not do is crash, read
 * outside the region, or go on for ever.
 *
 * The input is a list of changes, 16 bytes each: when, what, where, to what.
 */
#include "tests/direct.h"
#include "tests/fuzz/fuzz.h"

#define REGION_BYTES (1u << 20)
#define VALUE_BYTES 3000u
#define KEYS 40

struct change {
	uint8_t event; /* the how manieth READ or response; 255: all */
	uint8_t seal;  /* bit 0: make the sum right afterwards; bit 1: one bit, not a word */
	uint16_t at;
	uint32_t reserved;
	uint64_t to;
};

static struct store store;
static struct direct *direct;
static const uint8_t *changes;
static size_t change_count;
static unsigned int events;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static uint8_t value[VALUE_BYTES];
	uint64_t key;

	(void)argc, (void)argv;
	store_create(&store, REGION_BYTES, 1, 1);
	/* The same at every start, so that an input that failed fails again. */
	store.region.geometry.hash_seed = 1;
	for (key = 0; key < KEYS; key++)
		must(!store_put(&store, &key, 8, value, (uint32_t)key * 60, NULL));
	return 0;
}

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
	uint64_t incarnation = store.region.geometry.incarnation;
	struct bucket *bucket = (struct bucket *)to;
	struct item *item = (struct item *)to;

	if (bytes == BUCKET_BYTES)
		bucket->sum = bucket_sum(bucket, incarnation, offset);
	else if (bytes >= sizeof(*item) && item_bytes(item->key_len, item->value_len) <= bytes)
		item->sum = item_sum(item, incarnation, offset);
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
	/* A GET has bounds: tries, chains, slots. 32 tries of 64 hops would be 2,048 buckets. */
	must(++events < 100000);
}

static void after_read(struct direct *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)d;
	change_bytes(offset, to, bytes, true);
}

static void before_response(struct direct *d, struct wire_response *response)
{
	(void)d;
	change_bytes(0, (uint8_t *)response, sizeof(*response), false);
	/* The rest of the message is not there to be sent. */
	if (response->value_len > DIRECT_BUFFER_BYTES - sizeof(*response) &&
	    !(response->flags & WIRE_R_COPY))
		response->value_len = 0;
}

/* A handle that no input before has left a trace in. */
static void handle_renew(void)
{
	struct kvd_options options;

	if (direct && direct->kvd.broken) {
		kvd_close(&direct->kvd);
		direct = NULL;
	}
	if (!direct) {
		kvd_options_init(&options);
		options.get_tries = 3;
		options.cache_bytes = 4096;
		direct = direct_open(&store, 0, &options);
		direct->after_read = after_read;
		direct->before_response = before_response;
	}
	memset(direct->kvd.cache.entries, 0, bcache_bytes(&direct->kvd.cache));
	memset(direct->kvd.scratch.base, 0, direct->kvd.scratch.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvd_get_request requests[KEYS + 4];
	static uint8_t values[KEYS + 4][VALUE_BYTES];
	static uint64_t keys[KEYS + 4];
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
		if (i % 4 == 0)
			kvd_get(&direct->kvd, &keys[i], 8, values[i], VALUE_BYTES, NULL);
	}
	kvd_get_many(&direct->kvd, requests, KEYS + 4);
	return 0;
}
