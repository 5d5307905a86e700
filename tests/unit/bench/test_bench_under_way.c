/* SPDX-License-Identifier: MIT */
/*
 * Tests of operations that kvbench keeps under way together, against a store of the test: it ends
 * them in the opposite order of their submission, some at a time, and keeps the last record of each
 * key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bench/under_way.h"
#include "common/util/clock.h"
#include "tests/support/fake_store.h"

#define DEPTH 8
#define RECORDS 20
#define NUMBERS_MAX (COUNTER_AHEAD_MAX + 2000)
#define PAUSE_NS 2000000

/* The store: operations that were submitted, and the records by number. */
static struct {
	struct kvd_op *ops[DEPTH];
	size_t count, most;
	size_t per_wait;
	uint64_t gets, puts;
	uint64_t fail_put; /* the PUT of this number, from 1 on; 0: none */
	enum kvd_status fail_with;
	bool refuse;  /* submit() */
	bool corrupt; /* GETs */
	bool pauses;  /* before an operation ends */
	struct {
		char *record;
		size_t len;
	} records[NUMBERS_MAX];
} store;

static struct load load;
static struct client client;
static struct workload workload;

static size_t number_of(const struct kvd_op *op)
{
	char digits[32] = "";
	size_t number;

	assert_true(op->key_len > 4 && op->key_len < sizeof(digits));
	assert_memory_equal(op->key, "user", 4);
	memcpy(digits, (const char *)op->key + 4, op->key_len - 4);
	number = strtoull(digits, NULL, 10);
	assert_true(number < NUMBERS_MAX);
	return number;
}

static enum kvd_status store_submit(struct db *db, struct kvd_op *const ops[], size_t count)
{
	size_t i;

	(void)db;
	if (store.refuse)
		return KVD_ERR_DISCONNECTED;
	for (i = 0; i < count; i++) {
		assert_true(store.count < DEPTH);
		store.ops[store.count++] = ops[i];
	}
	if (store.count > store.most)
		store.most = store.count;
	return KVD_OK;
}

static void get_do(struct kvd_op *op)
{
	size_t number = number_of(op);

	store.gets++;
	if (!store.records[number].record) {
		op->status = KVD_NOT_FOUND;
		return;
	}
	assert_true(store.records[number].len <= op->value_len);
	memcpy(op->value, store.records[number].record, store.records[number].len);
	((uint8_t *)op->value)[40] ^= store.corrupt;
	op->item.value_len = store.records[number].len;
}

static void put_do(struct kvd_op *op)
{
	size_t number = number_of(op);

	if (++store.puts == store.fail_put) {
		op->status = store.fail_with;
		return;
	}
	free(store.records[number].record);
	store.records[number].record = malloc(op->value_len);
	assert_non_null(store.records[number].record);
	memcpy(store.records[number].record, op->value, op->value_len);
	store.records[number].len = op->value_len;
}

static size_t store_wait(struct db *db, struct kvd_op **done, size_t max, uint32_t timeout_ms)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	size_t n;

	(void)db;
	(void)timeout_ms;
	assert_true(store.count > 0);
	if (store.pauses)
		nanosleep(&pause, NULL);
	for (n = 0; n < store.per_wait && n < max && store.count; n++) {
		done[n] = store.ops[--store.count];
		done[n]->status = KVD_OK;
		if (done[n]->op == KVD_OP_GET)
			get_do(done[n]);
		else
			put_do(done[n]);
	}
	return n;
}

static const struct db_backend backend = {
	.name = "test",
	.submit = store_submit,
	.wait = store_wait,
	.error = fake_store_error,
	.close = fake_store_close,
};
static struct db db = { &backend };

static void prepare(enum phase phase, double reads, double updates, double inserts, double rmws)
{
	memset(&store, 0, sizeof(store));
	store.per_wait = 3;
	workload = (struct workload){
		.record_count = RECORDS,
		.insert_count = WORKLOAD_COUNT_REST,
		.operation_count = 1000,
		.field_count = 2,
		.field_length = 30,
		.insert_order = ORDER_ORDERED,
		.request_distribution = DISTRIBUTION_UNIFORM,
		.proportions = { reads, updates, inserts, rmws },
		.threads = 1,
		.check = true,
	};
	memset(&load, 0, sizeof(load));
	load.workload = &workload;
	load.phase = phase;
	load.target = (struct db_target){ .backend = &backend, .depth = DEPTH };
	load.batch = 1;
	keys_init(&load.keys, &workload);
	assert_int_equal(client_setup(&client, &load, 0, 1), 0);
	client.db = &db;
}

static void end(void)
{
	size_t i;

	assert_int_equal(store.count, 0);
	client_teardown(&client);
	for (i = 0; i < NUMBERS_MAX; i++)
		free(store.records[i].record);
}

static uint64_t count_of(enum operation operation)
{
	return hist_count(&client.stats[operation].latency);
}

/* Loads the records, and goes on with the run phase. */
static void load_and_run(uint64_t operations)
{
	load.phase = PHASE_LOAD;
	under_way_run(&client, RECORDS, 0);
	assert_int_equal(count_of(OPERATION_INSERT), RECORDS);
	load.phase = PHASE_RUN;
	client_reset(&client);
	store.gets = store.puts = 0;
	under_way_run(&client, operations, 0);
}

static void as_many_as_the_depth_and_no_more_than_asked(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 0.5, 0.5, 0, 0);
	load_and_run(1001);
	assert_int_equal(store.most, DEPTH);
	assert_int_equal(store.gets + store.puts, 1001);
	assert_int_equal(count_of(OPERATION_READ), store.gets);
	assert_int_equal(count_of(OPERATION_UPDATE), store.puts);
	assert_true(store.gets > 300 && store.puts > 300);
	assert_int_equal(atomic_load(&client.done), 1001);
	assert_int_equal(client.wrong + client.stats[OPERATION_READ].not_found, 0);
	end();
}

/* The GET and the PUT of one key, each counted, too; the whole takes as long as both. */
static void read_modify_writes_are_two_after_each_other(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 0, 0, 0, 1);
	store.pauses = true;
	load_and_run(50);
	assert_int_equal(store.gets, 50);
	assert_int_equal(store.puts, 50);
	assert_int_equal(count_of(OPERATION_RMW), 50);
	assert_int_equal(count_of(OPERATION_READ), 50);
	assert_int_equal(count_of(OPERATION_UPDATE), 50);
	assert_true(hist_min(&client.stats[OPERATION_RMW].latency) >= 2 * PAUSE_NS * 98 / 100);
	end();
}

/* A read-modify-write counts from its own start, whatever its place did before. */
static void read_modify_writes_do_not_count_those_before(void **state)
{
	uint64_t start_ns;

	(void)state;
	prepare(PHASE_RUN, 0, 0, 0, 1);
	start_ns = clock_ns();
	load_and_run(100 * DEPTH);
	assert_true(hist_mean(&client.stats[OPERATION_RMW].latency) <
		    (double)(clock_ns() - start_ns) / 4);
	end();
}

/* A request that waits for others has their time in its latency. */
static void latency_counts_from_the_submission(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 1, 0, 0, 0);
	store.per_wait = 1;
	store.pauses = true;
	load_and_run(DEPTH);
	assert_true(hist_max(&client.stats[OPERATION_READ].latency) >= DEPTH * PAUSE_NS * 98 / 100);
	end();
}

static void inserts_are_acknowledged_when_they_have_ended(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 0.5, 0, 0.5, 0);
	load_and_run(1000);
	assert_int_equal(store.puts, count_of(OPERATION_INSERT));
	assert_int_equal(counter_limit(&load.keys.inserted), RECORDS + store.puts);
	assert_int_equal(client.stats[OPERATION_READ].not_found, 0);
	end();
}

/* An INSERT that gets no number waits, while another thread's is under way. */
static void an_insert_without_a_number_does_not_end_the_run(void **state)
{
	uint64_t number, first, i;

	(void)state;
	prepare(PHASE_RUN, 0, 0, 1, 0);
	assert_true(counter_take(&load.keys.inserted, &first));
	for (i = 1; i < COUNTER_AHEAD_MAX - 4; i++) {
		assert_true(counter_take(&load.keys.inserted, &number));
		counter_acknowledge(&load.keys.inserted, number);
	}
	under_way_run(&client, 0, clock_ns() + 50 * PAUSE_NS);
	assert_int_equal(store.puts, 4);
	counter_acknowledge(&load.keys.inserted, first);
	under_way_run(&client, 20, 0);
	assert_int_equal(store.puts, 24);
	end();
}

static void a_wrong_value_is_counted(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 1, 0, 0, 0);
	store.corrupt = true;
	load_and_run(12);
	assert_int_equal(client.wrong, 12);
	end();
}

static void a_failed_put_is_counted_and_the_run_goes_on(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 0, 0, 0, 1);
	load.phase = PHASE_LOAD;
	under_way_run(&client, RECORDS, 0);
	load.phase = PHASE_RUN;
	store.fail_put = store.puts + 5;
	store.fail_with = KVD_ERR_NO_SPACE;
	under_way_run(&client, 30, 0);
	assert_int_equal(client.stats[OPERATION_UPDATE].failed, 1);
	assert_int_equal(count_of(OPERATION_UPDATE), 29);
	assert_int_equal(count_of(OPERATION_RMW), 29);
	assert_int_equal(client.status, KVD_OK);
	end();
}

/* As in YCSB: else no later record could ever be read, and INSERTs would stop. */
static void a_failed_insert_is_acknowledged(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 0, 0, 1, 0);
	store.fail_put = 3;
	store.fail_with = KVD_ERR_NO_SPACE;
	under_way_run(&client, 100, 0);
	assert_int_equal(client.stats[OPERATION_INSERT].failed, 1);
	assert_int_equal(count_of(OPERATION_INSERT), 99);
	assert_int_equal(counter_limit(&load.keys.inserted), RECORDS + 100);
	assert_int_equal(client.status, KVD_OK);
	end();
}

static void a_lost_connection_ends_the_run(void **state)
{
	(void)state;
	prepare(PHASE_RUN, 0, 0, 0, 1);
	store.fail_put = 3;
	store.fail_with = KVD_ERR_DISCONNECTED;
	under_way_run(&client, 0, 0);
	assert_int_equal(client.status, KVD_ERR_DISCONNECTED);
	assert_true(atomic_load(&load.stop));
	end();
	prepare(PHASE_RUN, 0.5, 0.5, 0, 0);
	store.refuse = true;
	under_way_run(&client, 0, 0);
	assert_int_equal(client.status, KVD_ERR_DISCONNECTED);
	assert_int_equal(store.gets + store.puts, 0);
	end();
}

/* The rate is kept on average, so the last of 41 starts 40 ms after the first. */
static void the_target_is_kept(void **state)
{
	uint64_t start;

	(void)state;
	prepare(PHASE_RUN, 1, 0, 0, 0);
	workload.target = 1000;
	start = clock_ns();
	under_way_run(&client, 41, 0);
	assert_true(clock_ns() - start >= 40000000);
	assert_int_equal(store.gets, 41);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_as_the_depth_and_no_more_than_asked),
		cmocka_unit_test(read_modify_writes_are_two_after_each_other),
		cmocka_unit_test(read_modify_writes_do_not_count_those_before),
		cmocka_unit_test(latency_counts_from_the_submission),
		cmocka_unit_test(inserts_are_acknowledged_when_they_have_ended),
		cmocka_unit_test(an_insert_without_a_number_does_not_end_the_run),
		cmocka_unit_test(a_wrong_value_is_counted),
		cmocka_unit_test(a_failed_put_is_counted_and_the_run_goes_on),
		cmocka_unit_test(a_failed_insert_is_acknowledged),
		cmocka_unit_test(a_lost_connection_ends_the_run),
		cmocka_unit_test(the_target_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
