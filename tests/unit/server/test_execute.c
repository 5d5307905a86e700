/* SPDX-License-Identifier: MIT */
/*
 * Tests of execute(): requests as they come from the wire, what they do, and every response field.
 */
#include "server/worker/execute.h"

#include <stdio.h>

#include "server/store/store.h"
#include "tests/support/store_test.h"

/* What another client does between a touch and the lookup after it; NULL: nothing. */
static void (*between)(void);

static enum wire_status hooked_get_part(struct store_thread *thread, uint64_t hash, const void *key,
					uint32_t key_len, uint64_t offset, void *buffer,
					size_t size, struct item_ref *ref, uint32_t *len)
{
	if (between)
		between();
	return lookup_get_part(thread, hash, key, key_len, offset, buffer, size, ref, len);
}

#define lookup_get_part hooked_get_part
#include "server/worker/execute.c"
#undef lookup_get_part

#define REGION_BYTES (8u << 20)
#define RESPONSE_VALUE_BYTES 1000
#define PIN_S 60u

static uint8_t message[sizeof(struct wire_request) + KEY_MAX + 70000];
static uint8_t received[RESPONSE_VALUE_BYTES + 1], value[100000], found[200];
static struct wire_response head;
static struct response_value response_value;
static bool whole;	/* all of a value or nothing, as in a batch */
static bool tells_sums; /* to a client that may READ */

static int create(enum eviction_policy policy)
{
	const struct store_options options = {
		.fill = STORE_NO_GROWTH, .eviction = policy, .pin_share = 10, .pin_time_max = PIN_S
	};

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)random_next();
	test_store_create_with(&store, REGION_BYTES, 6, 1, &options);
	set_now(ENGINE_NOW_NS);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return create(EVICTION_NONE);
}

static int setup_evicts(void **state)
{
	(void)state;
	return create(EVICTION_OBJECT_HITS);
}

static int teardown(void **state)
{
	(void)state;
	assert_store(NULL);
	test_store_destroy(&store);
	return 0;
}

/* Builds the message of @wire and parses it. @rest, value and access records, follows the key. */
static void parse(struct request *request, const struct wire_request *wire, const char *key,
		  const void *rest, size_t rest_len)
{
	const char *error;

	memcpy(message, wire, sizeof(*wire));
	memcpy(message + sizeof(*wire), key, wire->key_len);
	if (rest_len)
		memcpy(message + sizeof(*wire) + wire->key_len, rest, rest_len);
	error = wire_request_parse(request, message, sizeof(*wire) + wire->key_len + rest_len);
	if (error)
		fail_msg("%s", error);
}

static enum wire_status ask(struct wire_request wire, const char *key, const void *v)
{
	struct request request;
	struct room room;

	wire.key_len = (uint16_t)strlen(key);
	parse(&request, &wire, key, v, wire.value_len);
	memset(&head, 0, sizeof(head));
	memset(received, 0xee, sizeof(received));
	response_value = (struct response_value){
		.value = received,
		.size = RESPONSE_VALUE_BYTES,
		.whole = whole,
		.sum = tells_sums,
	};
	if (!response_has_value(&request))
		response_value = (struct response_value){ 0 };
	room_init(&room);
	if (request.op == WIRE_SCAN)
		execute_scan(&test_threads[0], &request, NULL, UINT64_MAX, &head, &response_value);
	else
		execute(&test_threads[0], &request, hash_of(key, wire.key_len), &head,
			&response_value, &room);
	assert_int_equal(received[RESPONSE_VALUE_BYTES], 0xee);
	return head.status;
}

#define ASK(key, v, ...) ask((struct wire_request){ __VA_ARGS__ }, key, v)

static enum wire_status put(const char *key, const void *v, uint32_t len)
{
	return ASK(key, v, .op = WIRE_PUT, .value_len = len, .item_flags = 5);
}

static const struct item *item_at(uint64_t slot)
{
	const struct item *item = region_at(&store.region, slot_offset(slot));

	assert_int_equal(item->sum, item_sum(item, &store.region.sum_key,
					     store.region.geometry.incarnation, slot_offset(slot)));
	return item;
}

static void put_and_get(void **state)
{
	uint64_t version;

	(void)state;
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET), WIRE_NOT_FOUND);
	assert_int_equal(response_value.len, 0);
	assert_int_equal(ASK("k", value, .op = WIRE_PUT, .value_len = 100, .item_flags = 9,
			     .ttl = 60),
			 WIRE_OK);
	assert_int_equal(head.expires, expires_after(test_threads[0].now_ns, 60));
	assert_int_equal(item_at(head.slot)->version, head.version);
	version = head.version;
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET), WIRE_OK);
	assert_int_equal(head.version, version);
	assert_int_equal(head.item_flags, 9);
	assert_int_equal(head.result, 100);
	assert_int_equal(head.expires, expires_after(test_threads[0].now_ns, 60));
	assert_int_equal(head.slot, 0);
	assert_int_equal(response_value.len, 100);
	assert_memory_equal(received, value, 100);
	/* An empty one. */
	assert_int_equal(put("e", NULL, 0), WIRE_OK);
	assert_int_equal(ASK("e", NULL, .op = WIRE_GET), WIRE_OK);
	assert_int_equal(head.result, 0);
	assert_int_equal(head.expires, 0);
	assert_int_equal(response_value.len, 0);
}

static void modes(void **state)
{
	uint64_t version;

	(void)state;
	assert_int_equal(ASK("k", "a", .op = WIRE_PUT, .mode = WIRE_REPLACE, .value_len = 1),
			 WIRE_NOT_FOUND);
	assert_int_equal(head.version, 0);
	assert_int_equal(head.slot, 0);
	assert_int_equal(ASK("k", "b", .op = WIRE_PUT, .mode = WIRE_ADD, .value_len = 1), WIRE_OK);
	version = head.version;
	assert_int_equal(ASK("k", "c", .op = WIRE_PUT, .mode = WIRE_ADD, .value_len = 1),
			 WIRE_EXISTS);
	assert_true(head.version == version && !head.slot);
	assert_int_equal(ASK("k", "d", .op = WIRE_PUT, .mode = WIRE_CAS, .value_len = 1,
			     .version = version + 1),
			 WIRE_EXISTS);
	assert_true(head.version == version && !head.slot);
	assert_int_equal(ASK("k", "e", .op = WIRE_PUT, .mode = WIRE_CAS, .value_len = 1,
			     .version = version),
			 WIRE_OK);
	assert_true(head.version > version);
	assert_int_equal(ASK("k", "f", .op = WIRE_PUT, .mode = WIRE_APPEND, .value_len = 1),
			 WIRE_OK);
	assert_int_equal(ASK("k", "g", .op = WIRE_PUT, .mode = WIRE_PREPEND, .value_len = 1),
			 WIRE_OK);
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET), WIRE_OK);
	assert_int_equal(response_value.len, 3);
	assert_memory_equal(received, "gef", 3);
}

static void deletes(void **state)
{
	uint64_t version;

	(void)state;
	assert_int_equal(ASK("k", NULL, .op = WIRE_DELETE), WIRE_NOT_FOUND);
	put("k", value, 10);
	version = head.version;
	assert_int_equal(ASK("k", NULL, .op = WIRE_DELETE, .flags = WIRE_F_IF_VERSION,
			     .version = version + 1),
			 WIRE_EXISTS);
	assert_int_equal(ASK("k", NULL, .op = WIRE_DELETE, .flags = WIRE_F_IF_VERSION,
			     .version = version),
			 WIRE_OK);
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET), WIRE_NOT_FOUND);
	put("k", value, 10);
	assert_int_equal(ASK("k", NULL, .op = WIRE_DELETE), WIRE_OK);
}

static void arith(void **state)
{
	(void)state;
	assert_int_equal(ASK("n", NULL, .op = WIRE_ARITH, .delta = 1), WIRE_NOT_FOUND);
	assert_int_equal(head.result, 0);
	assert_int_equal(ASK("n", NULL, .op = WIRE_ARITH, .delta = 1, .flags = WIRE_F_CREATE,
			     .initial = 40, .item_flags = 3, .ttl = 50),
			 WIRE_OK);
	assert_int_equal(head.result, 40);
	assert_int_equal(head.expires, expires_after(test_threads[0].now_ns, 50));
	assert_int_equal(ASK("n", NULL, .op = WIRE_ARITH, .delta = 2), WIRE_OK);
	assert_int_equal(head.result, 42);
	assert_int_equal(item_flags(item_at(head.slot)), 3);
	assert_int_equal(item_at(head.slot)->version, head.version);
	assert_int_equal(ASK("n", NULL, .op = WIRE_ARITH, .mode = WIRE_DECR, .delta = 50), WIRE_OK);
	assert_int_equal(head.result, 0);
	put("n", "x", 1);
	assert_int_equal(ASK("n", NULL, .op = WIRE_ARITH, .delta = 2), WIRE_NOT_A_NUMBER);
}

static void touches(void **state)
{
	uint64_t version;

	(void)state;
	assert_int_equal(ASK("k", NULL, .op = WIRE_TOUCH, .ttl = 5), WIRE_NOT_FOUND);
	put("k", value, 10);
	version = head.version;
	assert_int_equal(ASK("k", NULL, .op = WIRE_TOUCH, .ttl = 5), WIRE_OK);
	assert_int_equal(head.version, version);
	assert_int_equal(head.slot, 0);
	assert_int_equal(head.expires, expires_after(test_threads[0].now_ns, 5));
	assert_int_equal(ASK("k", NULL, .op = WIRE_TOUCH), WIRE_OK);
	assert_int_equal(head.expires, 0);
}

#define TOUCH_VALUE .op = WIRE_TOUCH, .flags = WIRE_F_VALUE, .ttl = 5

static void touch_with_value(void **state)
{
	uint64_t version;

	(void)state;
	assert_int_equal(ASK("k", NULL, TOUCH_VALUE), WIRE_NOT_FOUND);
	assert_int_equal(head.version, 0);
	assert_int_equal(response_value.len, 0);
	put("k", value, 200);
	version = head.version;
	assert_int_equal(ASK("k", NULL, TOUCH_VALUE), WIRE_OK);
	assert_int_equal(head.version, version);
	assert_int_equal(head.slot, 0);
	assert_int_equal(head.expires, expires_after(test_threads[0].now_ns, 5));
	assert_int_equal(head.item_flags, 5);
	assert_int_equal(head.result, 200);
	assert_int_equal(response_value.len, 200);
	assert_memory_equal(received, value, 200);
	/* A GET alone does not touch. */
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET), WIRE_OK);
	assert_int_equal(head.expires, expires_after(test_threads[0].now_ns, 5));
	set_now(ENGINE_NOW_NS + 10 * SECOND_NS);
	assert_int_equal(ASK("k", NULL, TOUCH_VALUE), WIRE_NOT_FOUND);
	assert_int_equal(response_value.len, 0);
}

/* A long value's first part comes, and the client GETs the others; an empty one has no part. */
static void touch_with_value_in_parts(void **state)
{
	static const uint32_t lens[] = { 0, RESPONSE_VALUE_BYTES, RESPONSE_VALUE_BYTES + 1, 60000 };
	uint64_t version;
	uint32_t len;

	(void)state;
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		assert_int_equal(put("k", value, lens[i]), WIRE_OK);
		version = head.version;
		len = lens[i] < RESPONSE_VALUE_BYTES ? lens[i] : RESPONSE_VALUE_BYTES;
		assert_int_equal(ASK("k", NULL, TOUCH_VALUE), WIRE_OK);
		assert_int_equal(head.version, version);
		assert_int_equal(head.item_flags, 5);
		assert_int_equal(head.result, lens[i]);
		assert_int_equal(head.expires, expires_after(test_threads[0].now_ns, 5));
		assert_int_equal(response_value.len, len);
		assert_memory_equal(received, value, len);
	}
}

static unsigned int replaced, replaces; /* by another client so far, and at most */
static bool removes;			/* it removes the key, the last time */

/* Each value is some bytes further. */
static void replace_between(void)
{
	if (replaced == replaces)
		return;
	replaced++;
	if (removes && replaced == replaces) {
		assert_int_equal(test_store_delete(&store, "k", 1), WIRE_OK);
		return;
	}
	assert_int_equal(test_store_put(&store, "k", 1, value + replaced, 100, NULL), WIRE_OK);
}

/* Replaces the value so often while TOUCH with VALUE is executed, with that result. */
static void touch_met(unsigned int times, bool removed, enum wire_status expected)
{
	uint32_t expires = expires_after(test_threads[0].now_ns, 5);
	struct store_value out;
	uint64_t version;

	assert_int_equal(test_store_put(&store, "k", 1, value, 100, NULL), WIRE_OK);
	replaced = 0;
	replaces = times;
	removes = removed;
	between = replace_between;
	assert_int_equal(ASK("k", NULL, TOUCH_VALUE), expected);
	between = NULL;
	assert_int_equal(replaced, times);
	version = head.version;
	if (expected) {
		assert_int_equal(response_value.len, 0);
		assert_int_equal(version, 0);
		return;
	}
	/* The answer has the value that is the key's, and that one was touched. */
	assert_int_equal(head.expires, expires);
	assert_int_equal(test_store_get(&store, "k", 1, found, sizeof(found), &out), WIRE_OK);
	assert_true(out.version == version);
	assert_int_equal(out.expires, expires);
	assert_memory_equal(found, value + times, 100);
	assert_int_equal(head.result, 100);
	assert_int_equal(response_value.len, 100);
	assert_memory_equal(received, value + times, 100);
}

/* Both steps are on one value, however often another client replaces it between the two. */
static void touch_and_value_are_one(void **state)
{
	(void)state;
	touch_met(0, false, WIRE_OK);
	touch_met(1, false, WIRE_OK);
	touch_met(TOUCH_TRIES_MAX - 1, false, WIRE_OK);
	touch_met(TOUCH_TRIES_MAX, false, WIRE_BUSY);
	touch_met(1, true, WIRE_NOT_FOUND);
	touch_met(3, true, WIRE_NOT_FOUND);
}

/* Whether the key exists: no value, however long it is, and no use of the item. */
static void get_no_value(void **state)
{
	static const uint32_t lens[] = { 0, 200, 60000 };
	uint64_t version, accesses;

	(void)state;
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET, .flags = WIRE_F_NO_VALUE), WIRE_NOT_FOUND);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(put("k", value, lens[i]), WIRE_OK);
		version = head.version;
		accesses = STAT(accesses);
		assert_int_equal(ASK("k", NULL, .op = WIRE_GET, .flags = WIRE_F_NO_VALUE), WIRE_OK);
		assert_int_equal(head.version, version);
		assert_int_equal(head.item_flags, 5);
		assert_int_equal(head.result, lens[i]);
		assert_int_equal(head.flags, 0);
		assert_int_equal(response_value.len, 0);
		assert_int_equal(STAT(accesses), accesses);
	}
	assert_int_equal(ASK("k", NULL, .op = WIRE_TOUCH, .ttl = 5), WIRE_OK);
	set_now(ENGINE_NOW_NS + 10 * SECOND_NS);
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET, .flags = WIRE_F_NO_VALUE), WIRE_NOT_FOUND);
}

/*
 * Each part fits the response, and together they are the value, which they use once. After its end
 * there is nothing.
 */
static void get_parts(void **state)
{
	static uint8_t got[60000];
	static const uint32_t lens[] = {
		0, 1, 100, RESPONSE_VALUE_BYTES, RESPONSE_VALUE_BYTES + 1, 5000, 60000
	};
	uint64_t version, accesses;
	uint32_t at, len;

	(void)state;
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET, .offset = 5), WIRE_NOT_FOUND);
	assert_int_equal(response_value.len, 0);
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		const uint64_t ends[] = { lens[i], lens[i] + 1ull, 1ull << 32, UINT64_MAX };

		assert_int_equal(put("k", value, lens[i]), WIRE_OK);
		version = head.version;
		accesses = STAT(accesses);
		at = 0;
		do {
			assert_int_equal(ASK("k", NULL, .op = WIRE_GET, .offset = at), WIRE_OK);
			assert_int_equal(head.version, version);
			assert_int_equal(head.result, lens[i]);
			assert_int_equal(head.item_flags, 5);
			len = lens[i] - at < RESPONSE_VALUE_BYTES ? lens[i] - at :
								    RESPONSE_VALUE_BYTES;
			assert_int_equal(response_value.len, len);
			memcpy(got + at, received, len);
			at += len;
		} while (at < lens[i]);
		assert_memory_equal(got, value, lens[i]);
		assert_int_equal(STAT(accesses), accesses + 1);
		for (unsigned int j = 0; lens[i] && j < sizeof(ends) / sizeof(ends[0]); j++) {
			assert_int_equal(ASK("k", NULL, .op = WIRE_GET, .offset = ends[j]),
					 WIRE_OK);
			assert_int_equal(response_value.len, 0);
			assert_int_equal(head.result, lens[i]);
			assert_int_equal(head.version, version);
		}
		assert_int_equal(STAT(accesses), accesses + 1);
	}
	/* From any byte on. */
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET, .offset = 59999), WIRE_OK);
	assert_int_equal(response_value.len, 1);
	assert_int_equal(received[0], value[59999]);
}

/* The sum that the item of "k" has of its value, if it has one. */
static uint64_t sum_of(uint32_t len)
{
	struct value_sum sum;

	if (!item_has_value_sum(1, len))
		return 0;
	value_sum_begin(&sum, &store.region.sum_key);
	value_sum_add(&sum, value, len);
	return value_sum_end(&sum);
}

/* Each answer has the sum of the whole value, for a client that may know it. */
static void sums_of_values(void **state)
{
	static const struct wire_request asked[] = {
		{ .op = WIRE_GET },
		{ .op = WIRE_GET, .offset = 7 },
		{ .op = WIRE_GET, .offset = UINT64_MAX },
		{ .op = WIRE_GET, .flags = WIRE_F_NO_VALUE },
		{ TOUCH_VALUE },
	};
	static const uint32_t lens[] = { 0, 1, 200, 60000 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		assert_int_equal(put("k", value, lens[i]), WIRE_OK);
		for (unsigned int j = 0; j < sizeof(asked) / sizeof(asked[0]); j++) {
			assert_int_equal(ask(asked[j], "k", NULL), WIRE_OK);
			assert_true(head.value_sum == 0);
			tells_sums = true;
			assert_int_equal(ask(asked[j], "k", NULL), WIRE_OK);
			assert_true(head.value_sum == sum_of(lens[i]));
			tells_sums = false;
		}
	}
	assert_true(sum_of(200) != 0);
}

/* In a batch a value comes whole or not at all. */
static void get_whole(void **state)
{
	static const uint32_t lens[] = { 0, RESPONSE_VALUE_BYTES, RESPONSE_VALUE_BYTES + 1, 60000 };

	(void)state;
	whole = true;
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		assert_int_equal(put("k", value, lens[i]), WIRE_OK);
		assert_int_equal(ASK("k", NULL, .op = WIRE_GET), WIRE_OK);
		assert_int_equal(head.result, lens[i]);
		assert_int_equal(response_value.len, lens[i] > RESPONSE_VALUE_BYTES ? 0 : lens[i]);
		assert_memory_equal(received, value, response_value.len);
	}
	whole = false;
}

static void scan(void **state)
{
	struct scan_entry entry;
	unsigned int n = 0;
	char key[8];
	size_t at;

	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%c%u", i % 2 ? 'a' : 'b', i);
		assert_int_equal(ASK(key, value + i, .op = WIRE_PUT, .value_len = i,
				     .item_flags = i, .ttl = 1000),
				 WIRE_OK);
	}
	head.cursor = 0;
	do {
		assert_int_equal(ASK("a", NULL, .op = WIRE_SCAN, .cursor = head.cursor,
				     .flags = WIRE_F_VALUES, .keys_max = 7),
				 WIRE_OK);
		assert_true(head.entries <= 7);
		for (at = 0; at < response_value.len; n++, head.entries--) {
			assert_null(wire_entry_parse(&entry, received, response_value.len, &at));
			memcpy(key, entry.key, entry.key_len);
			key[entry.key_len] = 0;
			assert_int_equal(key[0], 'a');
			assert_int_equal(atoi(key + 1), entry.item_flags);
			assert_int_equal(entry.value_len, entry.item_flags);
			assert_int_equal(entry.expires, expires_after(ENGINE_NOW_NS, 1000));
			assert_memory_equal(entry.value, value + entry.item_flags, entry.value_len);
		}
		assert_int_equal(head.entries, 0);
	} while (head.cursor);
	assert_int_equal(n, 50);
	/* As many keys as fit, without values. */
	assert_int_equal(ASK("", NULL, .op = WIRE_SCAN), WIRE_OK);
	assert_true(head.entries > 20);
	assert_true(head.cursor > 0);
}

/* Requests that do not concern the table are refused; PING and access records need no table. */
static void other_requests(void **state)
{
	static const enum wire_op refused[] = { WIRE_HELLO, WIRE_STATS, WIRE_FLUSH, WIRE_CLIENTS,
						WIRE_KILL,  WIRE_BATCH, WIRE_MOVE,  WIRE_FLEET };
	struct request request = { .op = WIRE_PING };
	struct room room;

	(void)state;
	room_init(&room);
	for (unsigned int i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		request.op = refused[i];
		head.status = WIRE_OK;
		execute(&test_threads[0], &request, 0, &head, &response_value, &room);
		assert_int_equal(head.status, WIRE_PROTOCOL);
	}
	assert_int_equal(ASK("", NULL, .op = WIRE_PING), WIRE_OK);
}

static void values_in_responses(void **state)
{
	static const struct request with[] = { { .op = WIRE_GET },
					       { .op = WIRE_SCAN },
					       { .op = WIRE_TOUCH, .flags = WIRE_F_VALUE } };
	/* A flag of another operation may have the same bit. */
	static const struct request without[] = { { .op = WIRE_PUT, .flags = WIRE_F_VALUE },
						  { .op = WIRE_PING },
						  { .op = WIRE_TOUCH } };

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(response_has_value(&with[i]));
		assert_false(response_has_value(&without[i]));
	}
}

/* Another key above *@from that has the home bucket of @key. */
static uint64_t collide_with(const char *key, uint64_t *from)
{
	const struct bucket *home = test_store_home(&store, key, (uint32_t)strlen(key));
	const uint64_t hash = hash_of(key, (uint32_t)strlen(key));

	/* Seeds are random: one of some keys may have the tag by chance. */
	while (test_store_home(&store, from, 8) != home ||
	       hash_tag(hash_of(from, 8)) == hash_tag(hash))
		++*from;
	return (*from)++;
}

static void report_accesses(const char *keys, uint16_t count)
{
	const struct wire_request wire = { .op = WIRE_ACCESS, .access_count = count };
	struct wire_access records[WIRE_ACCESS_MAX];
	struct request request;

	for (uint16_t i = 0; i < count; i++)
		records[i] = wire_access_make(hash_of(&keys[i], 1), 1);
	parse(&request, &wire, "", records, count * sizeof(*records));
	execute_access(&test_threads[0], &request);
}

/* A message looks at a bounded number of buckets of a chain that was made long. */
static void access_records_of_a_long_chain(void **state)
{
	char absent[WIRE_ACCESS_MAX];
	uint64_t from = 1u << 20, key;
	uint32_t buckets;

	(void)state;
	memset(absent, 'x', sizeof(absent));
	report_accesses(absent, WIRE_ACCESS_MAX);
	assert_int_equal(STAT(accesses), WIRE_ACCESS_MAX);
	for (unsigned int i = 0; i < 10 * BUCKET_SLOTS; i++) {
		key = collide_with("x", &from);
		assert_int_equal(test_store_put(&store, &key, 8, value, 10, NULL), WIRE_OK);
	}
	buckets = table_access(&test_threads[0], hash_of("x", 1), 1);
	assert_in_range(buckets, 10, 11);
	report_accesses(absent, WIRE_ACCESS_MAX);
	assert_int_equal(STAT(accesses),
			 WIRE_ACCESS_MAX + 1 + (ACCESS_BUCKETS_MAX + buckets - 1) / buckets);
}

static void access_records(void **state)
{
	const struct item *k, *l;
	uint16_t before;

	(void)state;
	put("k", value, 10);
	k = item_at(head.slot);
	put("l", value, 10);
	l = item_at(head.slot);
	before = l->access;
	atomic_fetch_add(&store.table.tick, 10);
	report_accesses("kxk", 3);
	assert_int_equal(STAT(accesses), 3);
	assert_int_equal(k->access & ACCESS_TIME, atomic_load(&store.table.tick));
	assert_int_equal(l->access, before);
	/* A two-sided GET counts as an access, too. */
	ASK("l", NULL, .op = WIRE_GET);
	assert_int_equal(l->access & ACCESS_TIME, k->access & ACCESS_TIME);
	assert_int_equal(STAT(accesses), 4);
}

/* A record stands for many uses, or none: the counter is the exponent of about their number. */
static void records_stand_for_hits(void **state)
{
	const struct wire_request wire = { .op = WIRE_ACCESS, .access_count = 1 };
	static const struct {
		uint16_t hits;
		uint32_t low, high;
	} rows[] = { { 0, 0, 0 }, { 1, 1, 1 }, { 7, 3, 3 }, { 64, 6, 7 }, { UINT16_MAX, 15, 15 } };
	struct wire_access record;
	struct request request;
	const struct item *k;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put("k", value, 10 + i * 100);
		ASK("k", NULL, .op = WIRE_DELETE);
		put("k", value, 10);
		k = item_at(head.slot);
		record = wire_access_make(hash_of("k", 1), rows[i].hits);
		parse(&request, &wire, "", &record, sizeof(record));
		execute_access(&test_threads[0], &request);
		assert_in_range(k->access >> ACCESS_USES_SHIFT, rows[i].low, rows[i].high);
	}
}

/* The miss-ratio curve gets what is read by request, and reports of misses. */
static void the_curve_is_told(void **state)
{
	const struct wire_request wire = { .op = WIRE_ACCESS, .access_count = 1 };
	struct wire_access record = wire_access_make(hash_of("x", 1), 0);
	struct curve_stats stats;
	struct request request;

	(void)state;
	store.table.curve = curve_create(&store.table);
	assert_non_null(store.table.curve);
	put("k", value, 10);
	assert_int_equal(ASK("k", NULL, .op = WIRE_GET), WIRE_OK);
	assert_int_equal(ASK("x", NULL, .op = WIRE_GET), WIRE_NOT_FOUND);
	/* No use of the value. */
	assert_int_equal(ASK("x", NULL, .op = WIRE_GET, .flags = WIRE_F_NO_VALUE), WIRE_NOT_FOUND);
	parse(&request, &wire, "", &record, sizeof(record));
	execute_access(&test_threads[0], &request);
	curve_stats(store.table.curve, &stats);
	assert_int_equal(stats.gets, 3);
	assert_int_equal(stats.hits_25, 1);
	assert_int_equal(stats.hits_400, 1);
	curve_destroy(store.table.curve);
	store.table.curve = NULL;
}

/* GETs by READ count as they are told, whether items are evicted or not. */
static void reported_gets_count(void **state)
{
	const struct wire_request wire = { .op = WIRE_ACCESS, .flags = WIRE_F_GETS };
	const struct wire_gets gets = { .hits = UINT32_MAX, .misses = 2 };
	struct request request;

	(void)state;
	for (unsigned int i = 1; i <= 2; i++) {
		parse(&request, &wire, "", &gets, sizeof(gets));
		execute_access(&test_threads[0], &request);
		assert_int_equal(STAT(get_hits), i * (uint64_t)UINT32_MAX);
		assert_int_equal(STAT(get_misses), 2 * i);
		assert_int_equal(STAT(gets), STAT(get_hits) + STAT(get_misses));
		assert_int_equal(STAT(gets_reported), STAT(gets));
	}
}

static void access_records_mean_nothing_without_eviction(void **state)
{
	(void)state;
	put("k", value, 10);
	report_accesses("k", 1);
	ASK("k", NULL, .op = WIRE_GET);
	assert_int_equal(STAT(accesses), 0);
}

/* A PUT may ask that its item is kept for a time, or goes before others. */
static void pins_and_priorities(void **state)
{
	unsigned int n = 0;
	char key[8];

	(void)state;
	assert_int_equal(put("n", value, 10), WIRE_OK);
	assert_false(access_is_pin(item_at(head.slot)->access));
	assert_false(access_is_low(item_at(head.slot)->access));
	assert_int_equal(ASK("l", value, .op = WIRE_PUT, .value_len = 10, .flags = WIRE_F_LOW),
			 WIRE_OK);
	assert_true(access_is_low(item_at(head.slot)->access));
	assert_int_equal(ASK("p", value, .op = WIRE_PUT, .value_len = 10, .flags = WIRE_F_PIN,
			     .pin = PIN_S + 1),
			 WIRE_INVALID);
	assert_int_equal(head.flags, 0);
	/* Until the share is pinned, and the response says that this is why. */
	do {
		snprintf(key, sizeof(key), "p%u", n++);
		ASK(key, value, .op = WIRE_PUT, .value_len = 60000, .flags = WIRE_F_PIN,
		    .pin = PIN_S);
		if (head.status)
			break;
		assert_int_equal(head.flags, 0);
		assert_true(access_is_pin(item_at(head.slot)->access));
	} while (n < 1000);
	assert_true(n > 2);
	assert_int_equal(head.status, WIRE_BUSY);
	assert_int_equal(head.flags, WIRE_R_PINS);
}

static void no_space(void **state)
{
	uint64_t key = 0, slot = head.slot;

	(void)state;
	put("k", value, 10);
	slot = head.slot;
	while (test_store_put(&store, &key, 8, value, 5000, NULL) == WIRE_OK)
		key++;
	assert_int_equal(put("k", value, 60000), WIRE_NO_SPACE);
	assert_int_equal(head.version, 0);
	assert_int_equal(head.slot, 0);
	assert_int_equal(item_value_len(item_at(slot)), 10);
}

#define CASE(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(put_and_get, setup),
		CASE(modes, setup),
		CASE(deletes, setup),
		CASE(arith, setup),
		CASE(touches, setup),
		CASE(touch_with_value, setup),
		CASE(touch_with_value_in_parts, setup),
		CASE(touch_and_value_are_one, setup),
		CASE(get_no_value, setup_evicts),
		CASE(get_parts, setup_evicts),
		CASE(sums_of_values, setup),
		CASE(get_whole, setup),
		CASE(scan, setup),
		CASE(other_requests, setup),
		CASE(values_in_responses, setup),
		CASE(access_records, setup_evicts),
		CASE(access_records_of_a_long_chain, setup_evicts),
		CASE(access_records_mean_nothing_without_eviction, setup),
		CASE(records_stand_for_hits, setup_evicts),
		CASE(the_curve_is_told, setup_evicts),
		CASE(reported_gets_count, setup),
		CASE(reported_gets_count, setup_evicts),
		CASE(pins_and_priorities, setup_evicts),
		CASE(no_space, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
