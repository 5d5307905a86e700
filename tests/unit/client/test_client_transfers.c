/* SPDX-License-Identifier: MIT */
/*
 * Large values on each kind of device: on softnic one READ is in flight for each, on others
 * several. Their bytes, what is READ again, what is another key's, bounds, cancellation.
 */
#include "tests/support/get_test.h"

#include "client/libkvd/memory.h"
#include "client/libkvd/transfer.h"
#include "common/sum.h"
#include "tests/support/fake_server.h"
#include "tests/support/test_clock.h"

#define ARENA_BYTES (8u << 20)
#define OPS 20

static uint8_t *arena;
static struct kvd_mem *mem;
static struct kvd_op ops[OPS], *list[OPS], *done[OPS];
static unsigned int damaged; /* heads that were, by the hooks */
static uint32_t longest;     /* READ */

static int setup_kind(void **state, enum device_kind kind)
{
	unsigned int i;

	setup(state);
	loopback->fake.device.kind = kind;
	arena = aligned_alloc(4096, ARENA_BYTES);
	assert_non_null(arena);
	assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_OK);
	for (i = 0; i < OPS; i++)
		list[i] = &ops[i];
	damaged = longest = 0;
	return 0;
}

static int setup_softnic(void **state)
{
	return setup_kind(state, DEVICE_SOFTNIC);
}

static int setup_verbs(void **state)
{
	return setup_kind(state, DEVICE_RDMA);
}

static int teardown_arena(void **state)
{
	int failed = kvd_deregister(mem);

	free(arena);
	return teardown(state) || failed;
}

/* To @to, of @size bytes: what follows the value is left as it was or overwritten. */
static void assert_got_at(uint8_t *to, size_t size, const uint8_t *want, size_t len)
{
	struct kvd_item item;

	to[size] = 0x77;
	memset(to, 0xee, size);
	assert_int_equal(kvd_get(kvd, "key", 3, to, size, &item), KVD_OK);
	assert_int_equal(item.value_len, len);
	assert_memory_equal(to, want, len);
	assert_int_equal(to[size], 0x77);
}

/* In registered memory and in other; of exactly that length, and longer. */
static void assert_got_anywhere(const uint8_t *want, size_t len)
{
	assert_got_at(arena + 5, len, want, len);
	assert_got_at(arena, len + 300000, want, len);
	assert_got_at(found, len, want, len);
}

static void values(void **state)
{
	static const uint32_t lens[] = { 4096,	 60000,	 65493,	 98304,	  262000,
					 262144, 300001, 524288, 2097152, 3500000 };
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value + i, lens[i]);
		reset_stats();
		assert_got_anywhere(value + i, lens[i]);
		assert_int_equal(kvd->stats.retries + kvd->stats.fallbacks, 0);
		assert_true(kvd->stats.direct_bytes >= 2ull * lens[i]);
	}
}

static void note_longest(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)offset;
	longest = bytes > longest ? bytes : longest;
}

/* No READ is longer than what the device takes in one message. */
static void a_device_with_short_messages(void **state)
{
	(void)state;
	other_put("key", value, 300001);
	loopback->before_read = note_longest;
	kvd->message_max = 16384;
	assert_got_anywhere(value, 300001);
	assert_in_range(longest, 8192, 16384);
}

static unsigned int in_flight(void)
{
	return kvd->conn.read_posted - kvd->conn.read_tail;
}

static void submit_get(unsigned int i, size_t size)
{
	kvd_prep_get(&ops[i], "key", 3, arena + i * size, size);
	assert_int_equal(kvd_submit(kvd, &list[i], 1), KVD_OK);
}

static void release_all(void)
{
	while (kvd_outstanding(kvd)) {
		fake_device_release(&loopback->fake);
		kvd_poll(kvd, done, OPS);
	}
}

/* How many READs of a value are in flight together. */
static void reads_in_flight(void **state)
{
	bool verbs = loopback->fake.device.kind == DEVICE_RDMA;

	(void)state;
	other_put("key", value, 3500000);
	assert_got_at(arena, 3500000, value, 3500000);
	loopback->fake.hold_reads = true;
	submit_get(0, 3500000);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(in_flight(), verbs ? TRANSFER_READS_MAX : 1);
	release_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_memory_equal(arena, value, 3500000);
}

/* More of them than READs may be in flight: those that have none yet end at once if canceled. */
static void more_than_can_be_in_flight(void **state)
{
	bool verbs = loopback->fake.device.kind == DEVICE_RDMA;
	enum { LENGTH = 380000 };
	unsigned int i;

	(void)state;
	kvd->message_max = 65536;
	other_put("key", value, LENGTH);
	assert_got_at(arena, LENGTH, value, LENGTH);
	loopback->fake.hold_reads = true;
	for (i = 0; i < OPS; i++)
		submit_get(i, LENGTH);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(in_flight(), verbs ? READS_IN_FLIGHT_MAX : TRANSFERS_MAX);
	/* One that waits for room to READ, or for a transfer; one of which something is READ. */
	assert_int_equal(kvd_cancel(kvd, &ops[verbs ? 12 : 17]), KVD_OK);
	assert_int_equal(kvd_poll(kvd, done, OPS), 1);
	assert_int_equal(done[0]->status, KVD_ERR_CANCELED);
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_OK);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	release_all();
	assert_int_equal(ops[0].status, KVD_ERR_CANCELED);
	for (i = 1; i < OPS; i++)
		if (i != (verbs ? 12 : 17))
			assert_int_equal(ops[i].status, KVD_OK);
	assert_memory_equal(arena + 19 * LENGTH, value, LENGTH);
	assert_int_equal(kvd->directs, 0);
}

static struct item *large_head(uint64_t offset, uint8_t *to)
{
	if (in_index(offset) || offset != place_of("key") || damaged)
		return NULL;
	damaged++;
	return (struct item *)(void *)to;
}

static void tear_head(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct item *item = large_head(offset, to);

	(void)d, (void)bytes;
	if (item)
		item->version ^= 1;
}

static void hide_head(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct item *item = large_head(offset, to);

	(void)d, (void)bytes;
	if (item)
		item->sum = ITEM_SUM_INVALID;
}

/* As if it had become another key's, whose item is whole. */
static void seal_as_other(struct item *item, uint64_t offset)
{
	item->sum = item_sum(item, &store.region.sum_key, store.region.geometry.incarnation,
			     offset);
}

static void other_key(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct item *item = large_head(offset, to);

	(void)d, (void)bytes;
	if (!item)
		return;
	item_key(item)[0] ^= 1;
	seal_as_other(item, offset);
}

/* The value is longer than the region is: another item of the same key, say. */
static void reaches_out(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct item *item = large_head(offset, to);

	(void)d, (void)bytes;
	if (!item)
		return;
	item_long(item)->value_len = REGION_BYTES;
	seal_as_other(item, offset);
}

/* What is not whole is READ again; where it is another key's the server is asked. */
static void heads(void **state)
{
	static const struct {
		void (*hook)(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes);
		unsigned int fallbacks;
	} cases[] = { { tear_head, 0 }, { hide_head, 0 }, { other_key, 1 }, { reaches_out, 0 } };
	uint8_t *buffers[] = { found, arena };
	unsigned int i, b;

	(void)state;
	other_put("key", value, 300001);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (b = 0; b < 2; b++) {
			damaged = 0;
			reset_stats();
			/* Not from a cached slot, of which no failure counts as a retry. */
			memset(kvd->cache.lines, 0, bcache_bytes(&kvd->cache));
			loopback->after_read = cases[i].hook;
			assert_got_at(buffers[b], 300001, value, 300001);
			assert_int_equal(damaged, 1);
			assert_int_equal(kvd->stats.retries, 1 - cases[i].fallbacks);
			assert_int_equal(kvd->stats.fallbacks, cases[i].fallbacks);
		}
}

/* A buffer that is longer than what follows the item in the region. */
static void the_end_of_the_region(void **state)
{
	static const enum device_kind kinds[] = { DEVICE_SOFTNIC, DEVICE_RDMA };
	struct fake_server *server;
	uint64_t key = 7;
	unsigned int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		server = fake_server_open(4, 1, 0, 0, NULL);
		server->fake.device.kind = kinds[i];
		fake_server_put(server, key, 200000, 0);
		assert_int_equal(kvd_get(&server->kvd, &key, 8, found, sizeof(found), NULL),
				 KVD_OK);
		assert_int_equal(found[199999], 7);
		kvd_close(&server->kvd);
	}
}

/* A device whose READs go to one memory each: what follows the header is copied, too. */
static void a_device_of_one_memory_per_read(void **state)
{
	(void)state;
	other_put("key", value, 300001);
	kvd->conn.read_sges_max = 1;
	reset_stats();
	assert_got_anywhere(value, 300001);
	assert_int_equal(kvd->stats.direct_bytes, 0);
}

/* What is copied at once after the first READ counts as READs, and their bytes. */
static void figures_of_what_is_copied_at_once(void **state)
{
	(void)state;
	other_put("key", value, 300001);
	loopback->now_bytes = UINT64_MAX;
	assert_got_at(found, 300001, value, 300001);
	reset_stats();
	assert_got_at(found, 300001, value, 300001);
	assert_in_range(kvd->stats.read_bytes, 300001, 300001 + 4096);
	assert_in_range(kvd->stats.reads, 2, 300);
	reset_stats();
	assert_got_at(arena, 300001, value, 300001);
	assert_in_range(kvd->stats.read_bytes, 300001, 300001 + 4096);
	assert_in_range(kvd->stats.direct_bytes, 290000, 300001);
}

#define SHORT_MS 5u

static bool completes; /* what is READ, when the deadline has passed */

static void release_late(struct fake_device *fake)
{
	if (completes && kvd->call_count && kvd->calls[0].has_transfer &&
	    kvd->calls[0].transfer->expired)
		fake_device_release(fake);
	test_clock_pass(SHORT_MS * 1000000);
}

/*
 * A call whose READs to registered memory do not complete in time waits for them a little longer;
 * then the connection is closed, so that nothing is written any more.
 */
static void a_call_that_times_out(void **state)
{
	(void)state;
	other_put("key", value, 300001);
	assert_got_at(arena, 300001, value, 300001);
	loopback->fake.idle = release_late;
	loopback->fake.hold_reads = true;
	test_clock_stop();
	kvd->options.timeout_ms = SHORT_MS;
	completes = true;
	assert_int_equal(kvd_get(kvd, "key", 3, arena, 300001, NULL), KVD_ERR_TIMEOUT);
	assert_int_equal(kvd->directs, 0);
	assert_false(kvd->conn.broken);
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	loopback->fake.hold_reads = false;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_got_at(arena, 300001, value, 300001);
	loopback->fake.hold_reads = true;
	kvd->options.timeout_ms = SHORT_MS;
	completes = false;
	assert_int_not_equal(kvd_get(kvd, "key", 3, arena, 300001, NULL), KVD_OK);
	assert_int_equal(kvd->directs, 0);
	assert_true(kvd->conn.broken);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
	test_clock_start();
}

static void accept_try(struct fake_device *fake)
{
	fake_device_event(fake, CM_ESTABLISHED, 0);
}

/* More large values than transfers: when the connection is lost those that wait begin anew, too. */
static void a_loss_with_some_that_wait(void **state)
{
	enum { BYTES = 100000 };
	struct fake_server *server;
	struct kvd_options options;
	uint64_t key = 7;
	unsigned int i;

	(void)state;
	kvd_options_init(&options);
	server = fake_server_open(4, 1, 0, 0, &options);
	server->kvd.options.reconnect = 1;
	server->fake.connect = accept_try;
	fake_server_put(server, key, BYTES, 0);
	server->fake.hold_reads = true;
	for (i = 0; i < OPS; i++) {
		list[i] = &ops[i];
		kvd_prep_get(&ops[i], &key, 8, found + i * BYTES, BYTES);
	}
	assert_int_equal(kvd_submit(&server->kvd, list, OPS), KVD_OK);
	while (list_empty(&server->kvd.large_waiters)) {
		fake_device_release(&server->fake);
		assert_int_equal(kvd_poll(&server->kvd, done, OPS), 0);
	}
	fake_device_lose(&server->fake);
	server->fake.hold_reads = false;
	assert_int_equal(kvd_wait(&server->kvd, done, OPS, OPS, FAKE_TIMEOUT_MS), OPS);
	for (i = 0; i < OPS; i++) {
		assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(found[i * BYTES], 7);
		assert_int_equal(found[(i + 1) * BYTES - 1], 7);
	}
	assert_int_equal(server->kvd.stats.reconnects, 1);
	kvd_close(&server->kvd);
}

#define SOFTNIC(f) cmocka_unit_test_setup_teardown(f, setup_softnic, teardown_arena)
#define VERBS(f) cmocka_unit_test_setup_teardown(f, setup_verbs, teardown_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOFTNIC(values),
		VERBS(values),
		SOFTNIC(a_device_with_short_messages),
		VERBS(a_device_with_short_messages),
		SOFTNIC(reads_in_flight),
		VERBS(reads_in_flight),
		SOFTNIC(more_than_can_be_in_flight),
		VERBS(more_than_can_be_in_flight),
		SOFTNIC(heads),
		VERBS(heads),
		VERBS(a_device_of_one_memory_per_read),
		SOFTNIC(figures_of_what_is_copied_at_once),
		SOFTNIC(a_call_that_times_out),
		VERBS(a_call_that_times_out),
		cmocka_unit_test(the_end_of_the_region),
		cmocka_unit_test(a_loss_with_some_that_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
