/* SPDX-License-Identifier: MIT */
/*
 * The client's GET: large and long values, by READs and in parts by request, buffers too small,
 * many GETs at once, and what closes the connection.
 */
#include "tests/support/get_test.h"

/* Rewrites the key with another length before every READ and request. */
static void rewrite(void)
{
	rewrite_len = rewrite_len == 60000 ? 50000 : 60000;
	other_put("key", value + reads++ % 1000, rewrite_len);
}

static void rewrite_at_item(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset))
		rewrite();
}

static void rewrite_at_request(struct loopback *d, const struct request *request)
{
	(void)d, (void)request;
	requests++;
	rewrite();
}

/* Too long for a response, and different at each part. */
static void a_large_value_rewritten_all_the_time(void **state)
{
	struct kvd_item item;

	(void)state;
	other_put("key", value, 60000);
	loopback->before_read = rewrite_at_item;
	loopback->before_request = rewrite_at_request;
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), &item), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "kept changing"));
	assert_int_equal(kvd->stats.fallbacks, 1);
	assert_in_range(requests, 2, 2 * kvd->options.get_tries);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 10, &item), KVD_ERR_BUFFER);
	assert_true(item.value_len >= 50000);
	/* Only READs fail. */
	loopback->before_request = NULL;
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), &item), KVD_OK);
	assert_int_equal(item.value_len, rewrite_len);
	assert_memory_equal(found, value + reads - 1, item.value_len);
}

/* The time to live is set, though the value does not come. */
static void a_touch_without_its_value(void **state)
{
	struct kvd_item item;

	(void)state;
	other_put("key", value, 60000);
	assert_int_equal(kvd_get_and_touch(kvd, "key", 3, 1000, found, 59999, &item),
			 KVD_ERR_BUFFER);
	assert_int_equal(item.value_len, 60000);
	assert_true(item.expires_s > 0);
	assert_int_equal(item_of("key")->expires, item.expires_s);
	assert_int_equal(kvd_get_and_touch(kvd, "key", 3, 0, found, 60000, &item), KVD_OK);
	assert_int_equal(item_of("key")->expires, 0);
	assert_memory_equal(found, value, 60000);
}

/* A device that counts what is registered, and refuses more than @registered_limit. */
static struct device_ops counting_ops;
static const struct device_ops *real_ops;
static size_t registered, registered_most, registered_limit;

static int counting_reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access,
			   struct ibv_mr **mr)
{
	int err;

	if (registered + mem->length > registered_limit)
		return -ENOMEM;
	err = real_ops->reg_mr(pd, mem, access, mr);
	if (err)
		return err;
	(*mr)->length = mem->length;
	registered += mem->length;
	if (registered > registered_most)
		registered_most = registered;
	return 0;
}

static void counting_dereg_mr(struct ibv_mr *mr)
{
	registered -= mr->length;
	real_ops->dereg_mr(mr);
}

/* From here on; what is registered now does not count. */
static void count_registered(size_t limit)
{
	real_ops = kvd->dev->ops;
	counting_ops = *real_ops;
	counting_ops.reg_mr = counting_reg_mr;
	counting_ops.dereg_mr = counting_dereg_mr;
	kvd->dev->ops = &counting_ops;
	kvd->conn.ring.mr->length = 0;
	registered = registered_most = 0;
	registered_limit = limit;
}

static size_t bounce_bytes(void)
{
	return bounce_pool_bytes(&kvd->shared_device->bounces);
}

static void stop_counting(void)
{
	assert_int_equal(registered, bounce_bytes() + kvd->conn.ring.bytes);
	kvd->dev->ops = real_ops;
}

/* Values that are read take 256 KiB, whatever their length. */
static void bounce_memory_grows_and_is_given_back(void **state)
{
	unsigned int i;

	(void)state;
	other_put("large", value, 3500000);
	other_put("small", value, 100);
	count_registered(SIZE_MAX);
	assert_get("large", value, 3500000);
	assert_int_equal(registered_most, 256 << 10);
	assert_int_equal(kvd->conn.ring.bytes, 256 << 10);
	/* Often enough used, it stays. */
	for (i = 0; i < 3 * BOUNCE_CALLS; i++)
		if (i % 200)
			assert_get("small", value, 100);
		else
			assert_int_equal(kvd_put(kvd, "p", 1, value, 400000, NULL, NULL), KVD_OK);
	assert_in_range(bounce_bytes(), 400000, 500000);
	/* Then no more. */
	for (i = 0; i < 2 * BOUNCE_CALLS; i++)
		assert_get("small", value, 100);
	assert_int_equal(bounce_bytes(), 0);
	assert_get("large", value, 3500000);
	stop_counting();
}

/* Without memory for a longer ring the pieces are shorter. */
static void buffers_that_can_not_grow(void **state)
{
	(void)state;
	other_put("large", value, 3500000);
	count_registered(100000);
	assert_get("large", value, 3500000);
	assert_in_range(kvd->stats.reads, 3500000 / 4096, 3500000 / 1024);
	assert_int_equal(kvd_put(kvd, "p", 1, value, 400000, NULL, NULL), KVD_ERR_NO_MEMORY);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	registered_limit = SIZE_MAX;
	assert_get("large", value, 3500000);
	assert_int_equal(kvd_put(kvd, "p", 1, value, 400000, NULL, NULL), KVD_OK);
	stop_counting();
}

/* Values of one READ fail so, too, where memory lacks; others are not held up. */
static void a_ring_that_can_not_grow(void **state)
{
	static const char *const names[] = { "middle", "small", "longer", "large" };
	static const uint32_t lens[] = { 30000, 100, 60000, 350000 };
	static uint8_t values[4][350000];
	struct kvd_get_request list[4];
	unsigned int i, left = 1000;

	(void)state;
	for (i = 0; i < 4; i++) {
		other_put(names[i], value + i, lens[i]);
		list[i] = (struct kvd_get_request){
			names[i],	   strlen(names[i]), values[i],
			sizeof(values[i]), KVD_ERR_BUSY,     { 0 },
		};
	}
	count_registered(10000);
	assert_int_equal(kvd_get_many(kvd, list, 4), KVD_OK);
	for (i = 0; i < 4; i++) {
		assert_int_equal(list[i].status, KVD_OK);
		assert_memory_equal(values[i], value + i, lens[i]);
		assert_get(names[i], value + i, lens[i]);
	}
	/* The server's copies, too. */
	memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
	loopback->after_read = tear_bucket;
	loopback->arg = &left;
	for (i = 0; i < 4; i++)
		assert_get(names[i], value + i, lens[i]);
	assert_int_equal(kvd->stats.fallbacks, 4);
	loopback->after_read = NULL;
	assert_int_equal(registered_most, 0);

	registered_limit = SIZE_MAX;
	assert_get("middle", value, 30000);
	assert_true(registered_most > 0);
	/* Keys share one of the 64 buckets at times: then "middle" brought the slot. */
	memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
	reset_stats();
	assert_get("longer", value + 2, 60000);
	assert_get("longer", value + 2, 60000);
	assert_cost(3, 0, 0);
	stop_counting();
}

/* The longest item whose length fits a slot, one longer, and some READ in pieces. */
static void long_items(void **state)
{
	const uint32_t head = sizeof(union item_front) + 3;
	const uint32_t border = (SLOT_UNITS_MAX - 1) * SLOT_UNIT - head;
	const uint32_t lens[] = { border - 1,		border,	       border + 1, border + 64,
				  262080 - head,	262081 - head, 300000,	   (1 << 20) - head,
				  (1 << 20) - head + 1, 3500000 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value + i, lens[i]);
		assert_get("key", value + i, lens[i]);
		assert_get("key", value + i, lens[i]);
		assert_int_equal(kvd->stats.fallbacks + kvd->stats.retries, 0);
		reset_stats();
		assert_get("key", value + i, lens[i]);
		assert_int_equal(kvd->stats.reads, (lens[i] + head + (32 << 10) - 1) / (32 << 10));
		reset_stats();
	}
}

static void damage_head(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)bytes;
	if (!in_index(offset) && offset == place_of("key") && *(unsigned int *)d->arg) {
		--*(unsigned int *)d->arg;
		item_long((struct item *)to)->value_len = ~0u;
	}
}

static void shorten_at_body(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset) && offset != place_of("key") && !reads++) {
		other_put("key", value + 1, 300001);
		other_put("other", value + 7, 400000);
	}
}

static void long_items_being_changed(void **state)
{
	struct kvd_item item;
	unsigned int left = 2;

	(void)state;
	other_put("key", value, 400000);
	loopback->after_read = damage_head;
	loopback->arg = &left;
	assert_get("key", value, 400000);
	assert_int_equal(kvd->stats.retries, 2);
	assert_int_equal(kvd->stats.fallbacks, 0);
	/* Replaced after its header was READ, and its memory used again. */
	reset_stats();
	loopback->before_read = shorten_at_body;
	assert_int_equal(kvd_get(kvd, "key", 3, found, sizeof(found), &item), KVD_OK);
	assert_int_equal(item.value_len, 300001);
	assert_memory_equal(found, value + 1, 300001);
	assert_true(kvd->stats.retries + kvd->stats.cache_stale > 0);
	assert_int_equal(kvd->stats.fallbacks, 0);
	loopback->before_read = NULL;
	left = 1000;
	reset_stats();
	assert_get("key", value + 1, 300001);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

static void a_buffer_too_small(void **state)
{
	struct kvd_item item = { 0 };
	unsigned int left = 1000;

	(void)state;
	other_put("key", value, 100);
	memset(found, 0xee, 200);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 99, &item), KVD_ERR_BUFFER);
	assert_int_equal(item.value_len, 100);
	assert_int_equal(item.flags, 100 ^ 0xf1a95);
	assert_true(item.version > 0);
	assert_int_equal(found[0], 0xee);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 100, &item), KVD_OK);
	assert_memory_equal(found, value, 100);
	assert_int_equal(found[100], 0xee);
	assert_int_equal(kvd_get(kvd, "key", 3, NULL, 0, &item), KVD_ERR_BUFFER);
	assert_int_equal(kvd->stats.hits, 3);
	/* By request as by READ. */
	loopback->after_read = tear_bucket;
	loopback->arg = &left;
	memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
	memset(found, 0xee, 200);
	assert_int_equal(kvd_get(kvd, "key", 3, found, 99, &item), KVD_ERR_BUFFER);
	assert_int_equal(item.value_len, 100);
	assert_int_equal(found[0], 0xee);
	assert_int_equal(kvd->stats.fallbacks, 1);
}

#define MANY 150

/* More GETs than are done at once: duplicates, misses, bad keys, small buffers, long items. */
static void many(void **state)
{
	static struct kvd_get_request list[MANY];
	static const char too_long[KVD_KEY_MAX + 1];
	static char names[MANY][16];
	static uint8_t buffers[MANY][2000];
	uint32_t len;
	unsigned int i, round;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "key%u", i % 40);
		len = i % 40 == 7 ? 500000 : i % 40 == 8 ? 60000 : i % 40 * 20;
		if (i < 40 && i != 9)
			other_put(names[i], value + i, len);
	}
	for (round = 0; round < 3; round++) {
		for (i = 0; i < MANY; i++) {
			list[i] = (struct kvd_get_request){
				.key = i % 11 == 3 ? NULL :
				       i % 13 == 4 ? too_long :
						     names[i],
				.key_len = i % 13 == 4 ? sizeof(too_long) : strlen(names[i]),
				.value = i % 40 == 7 || i % 40 == 8 ? found : buffers[i],
				.value_size = i % 40 == 7 || i % 40 == 8 ? sizeof(found) :
									   sizeof(buffers[i]),
			};
			if (i == 50)
				list[i].key_len = 0;
			if (i == 60)
				list[i].value_size = 399;
		}
		assert_int_equal(kvd_get_many(kvd, list, MANY), KVD_OK);
		for (i = 0; i < MANY; i++) {
			len = i % 40 == 7 ? 500000 : i % 40 == 8 ? 60000 : i % 40 * 20;
			if (i % 11 == 3 || i % 13 == 4 || i == 50) {
				assert_int_equal(list[i].status, KVD_ERR_INVALID);
			} else if (i % 40 == 9) {
				assert_int_equal(list[i].status, KVD_NOT_FOUND);
			} else if (i == 60) {
				assert_int_equal(list[i].status, KVD_ERR_BUFFER);
				assert_int_equal(list[i].item.value_len, 400);
			} else {
				assert_int_equal(list[i].status, KVD_OK);
				assert_int_equal(list[i].item.value_len, len);
				if (list[i].value != found)
					assert_memory_equal(list[i].value, value + i % 40, len);
			}
		}
		assert_int_equal(kvd->stats.gets, MANY * (round + 1));
	}
	assert_int_equal(kvd_get_many(kvd, NULL, 0), KVD_OK);
}

/* 32 GETs are two chains of READs when cold and one when warm. */
/* More than there are transfers: those beyond wait for one that ends. */
static void many_large_values(void **state)
{
	static const size_t lens[] = { 300000, 70000, 200000 };
	static uint8_t values[GETS_MAX][300000];
	struct kvd_get_request list[GETS_MAX];
	static char keys[3][2] = { "a", "b", "c" };
	unsigned int i;

	static_assert(GETS_MAX > TRANSFERS_MAX + 1, "some wait");
	(void)state;
	for (i = 0; i < 3; i++)
		other_put(keys[i], value + i, (uint32_t)lens[i]);
	for (unsigned int count = TRANSFERS_MAX; count <= GETS_MAX; count += 8) {
		memset(values, 0, sizeof(values));
		for (i = 0; i < count; i++)
			list[i] = (struct kvd_get_request){
				keys[i % 3], 1, values[i], sizeof(values[i]), KVD_ERR_BUSY, { 0 },
			};
		assert_int_equal(kvd_get_many(kvd, list, count), KVD_OK);
		for (i = 0; i < count; i++) {
			assert_int_equal(list[i].status, KVD_OK);
			assert_int_equal(list[i].item.value_len, lens[i % 3]);
			assert_memory_equal(values[i], value + i % 3, lens[i % 3]);
		}
	}
}

static void many_share_their_round_trips(void **state)
{
	struct kvd_get_request list[GETS_MAX];
	static char names[GETS_MAX][8];
	static uint8_t buffers[GETS_MAX][64];
	unsigned int i, round;

	(void)state;
	for (i = 0; i < GETS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		other_put(names[i], value + i, 64);
	}
	for (round = 2; round; round--) {
		for (i = 0; i < GETS_MAX; i++)
			list[i] = (struct kvd_get_request){ names[i], strlen(names[i]), buffers[i],
							    64,	      KVD_ERR_BUSY,	{ 0 } };
		assert_int_equal(kvd_get_many(kvd, list, GETS_MAX), KVD_OK);
		for (i = 0; i < GETS_MAX; i++) {
			assert_int_equal(list[i].status, KVD_OK);
			assert_memory_equal(buffers[i], value + i, 64);
		}
		assert_int_equal(kvd->stats.round_trips, round);
		assert_cost(GETS_MAX * round, 0, 0);
	}
}

/* The connection is lost in the middle of many: GETs that were not done say so. */
static void break_at_read(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)offset, (void)bytes;
	if (++reads == 70)
		d->kvd.conn.region_addr -= 1ull << 40;
}

static void a_lost_connection(void **state)
{
	static struct kvd_get_request list[100];
	unsigned int i;

	(void)state;
	other_put("key", value, 100);
	memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
	for (i = 0; i < 100; i++)
		list[i] = (struct kvd_get_request){ "key", 3, found, 100, KVD_ERR_BUSY, { 0 } };
	loopback->before_read = break_at_read;
	assert_int_equal(kvd_get_many(kvd, list, 100), KVD_ERR_DISCONNECTED);
	for (i = 0; i < 100; i++)
		assert_int_equal(list[i].status, i < 64 ? KVD_OK : KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_get_many(kvd, list, 100), KVD_ERR_DISCONNECTED);
	assert_int_equal(list[0].status, KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_put(kvd, "a", 1, "b", 1, NULL, NULL), KVD_ERR_DISCONNECTED);
	assert_int_equal(kvd_delete(kvd, "a", 1), KVD_ERR_DISCONNECTED);
	assert_true(strlen(kvd_error(kvd)) > 10);
}

static void respond_another(struct loopback *d, struct wire_response *response)
{
	if (d->arg)
		response->op = WIRE_PING;
	else
		response->id++;
}

static void a_response_to_another_request(void **state)
{
	(void)state;
	loopback->before_response = respond_another;
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_ERR_PROTOCOL);
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_ERR_DISCONNECTED);
}

static void a_response_to_another_operation(void **state)
{
	(void)state;
	loopback->before_response = respond_another;
	loopback->arg = loopback;
	assert_int_equal(kvd_delete(kvd, "key", 3), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "another request"));
}

static void arguments(void **state)
{
	/* The last ones are 0 and 1 where only the low half is looked at. */
	const size_t too_long[] = { kvd->geometry.value_max + 1, VALUE_MAX + 1ull, 1ull << 32,
				    (1ull << 32) + 1 };
	static const char key[KVD_KEY_MAX + 1];
	struct kvd_op op, *ops[] = { &op };
	size_t i;

	(void)state;
	assert_int_equal(kvd_get(kvd, key, 0, found, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_get(kvd, NULL, 3, found, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_get(kvd, key, sizeof(key), found, 1, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_put(kvd, key, 0, "v", 1, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_put(kvd, key, sizeof(key), "v", 1, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_put(kvd, key, 1, NULL, 1, NULL, NULL), KVD_ERR_INVALID);
	for (i = 0; i < sizeof(too_long) / sizeof(too_long[0]); i++) {
		assert_int_equal(kvd_put(kvd, key, 1, "v", too_long[i], NULL, NULL),
				 KVD_ERR_TOO_LARGE);
		kvd_prep_put(&op, key, 1, "v", too_long[i], NULL);
		assert_int_equal(kvd_submit(kvd, ops, 1), KVD_ERR_TOO_LARGE);
	}
	assert_int_equal(kvd_delete(kvd, key, 0), KVD_ERR_INVALID);
	assert_int_equal(kvd_delete(kvd, key, sizeof(key)), KVD_ERR_INVALID);
	assert_int_equal(kvd->stats.requests, 0);
	assert_int_equal(kvd_get(kvd, key, KVD_KEY_MAX, found, 1, NULL), KVD_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_large_value_rewritten_all_the_time),
		CASE(a_touch_without_its_value),
		CASE(long_items),
		CASE(bounce_memory_grows_and_is_given_back),
		CASE(buffers_that_can_not_grow),
		CASE(a_ring_that_can_not_grow),
		CASE(long_items_being_changed),
		CASE(a_buffer_too_small),
		CASE(many),
		CASE(many_large_values),
		CASE(many_share_their_round_trips),
		CASE(a_lost_connection),
		CASE(a_response_to_another_request),
		CASE(a_response_to_another_operation),
		CASE(arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
