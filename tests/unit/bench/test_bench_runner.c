/* SPDX-License-Identifier: MIT */
/*
 * Tests of whole runs of kvbench against a store of the test, which counts what it is asked for:
 * every operation is done once by some thread, what is reported is that of the measured part, and
 * latencies are those of the calls that they name.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "bench/runner.h"

#define NUMBERS_MAX 4000
#define RECORD_BYTES_MAX 256
#define PAUSE_NS 2000000
#define BURNT_US 400000

/* A connection; its statistics are those of libkvd. */
struct store_db {
	struct db db;
	struct kvd_stats stats;
};

static struct {
	pthread_mutex_t lock;
	uint64_t gets, puts;
	unsigned int opened, closed;
	unsigned int samples; /* of the server's statistics */
	uint64_t done_at_sample[2];
	/* What the test asks of it */
	unsigned int refuse_open; /* the connection of this number, from 1 on; 0: none */
	uint64_t fail_put;	  /* likewise */
	enum kvd_status fail_with;
	bool pauses_get, pauses_put;
	unsigned int puts_of[NUMBERS_MAX];
	size_t len[NUMBERS_MAX];
	uint8_t records[NUMBERS_MAX][RECORD_BYTES_MAX];
} store;

static struct workload workload;
static struct result result;

static size_t number_of(const void *key, size_t key_len)
{
	char digits[32] = "";
	size_t number;

	assert_true(key_len > 4 && key_len < sizeof(digits));
	memcpy(digits, (const char *)key + 4, key_len - 4);
	number = strtoull(digits, NULL, 10);
	assert_true(number < NUMBERS_MAX);
	return number;
}

static enum kvd_status store_open(struct db **db, const char *url,
				  const struct kvd_options *options, char *error);

static void pause_if(bool pauses)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (pauses)
		nanosleep(&pause, NULL);
}

static void store_get(struct db *db, struct kvd_get_request *requests, size_t count)
{
	struct store_db *mine = (struct store_db *)db;
	size_t i, number;

	pause_if(store.pauses_get);
	pthread_mutex_lock(&store.lock);
	for (i = 0; i < count; i++) {
		number = number_of(requests[i].key, requests[i].key_len);
		store.gets++;
		mine->stats.gets++;
		requests[i].status = store.len[number] ? KVD_OK : KVD_NOT_FOUND;
		requests[i].item.value_len = store.len[number];
		assert_true(store.len[number] <= requests[i].value_size);
		memcpy(requests[i].value, store.records[number], store.len[number]);
	}
	pthread_mutex_unlock(&store.lock);
}

static enum kvd_status store_put(struct db *db, const struct db_change *changes, size_t count)
{
	struct store_db *mine = (struct store_db *)db;
	enum kvd_status status = KVD_OK;
	size_t number;

	assert_int_equal(count, 1);
	pause_if(store.pauses_put);
	pthread_mutex_lock(&store.lock);
	number = number_of(changes->key, changes->key_len);
	mine->stats.puts++;
	store.puts_of[number]++;
	if (++store.puts == store.fail_put) {
		status = store.fail_with;
	} else {
		assert_true(changes->value_len <= RECORD_BYTES_MAX);
		memcpy(store.records[number], changes->value, changes->value_len);
		store.len[number] = changes->value_len;
	}
	pthread_mutex_unlock(&store.lock);
	return status;
}

/* Each sample has 1,000 us more CPU time. */
static enum kvd_status store_server_stats(struct db *db, char *text, size_t size)
{
	(void)db;
	pthread_mutex_lock(&store.lock);
	if (store.samples < 2)
		store.done_at_sample[store.samples] = store.gets + store.puts;
	store.samples++;
	snprintf(text, size, "cpu_user_us %u\ncpu_system_us 5\nevictions %u\n",
		 1000 * store.samples, store.samples);
	pthread_mutex_unlock(&store.lock);
	return KVD_OK;
}

static void store_stats(const struct db *db, struct kvd_stats *stats)
{
	*stats = ((const struct store_db *)db)->stats;
}

static void store_info(const struct db *db, struct kvd_info *info)
{
	(void)db;
	*info = (struct kvd_info){ .device_kind = "kind",
				   .device_name = "name",
				   .device_why = "why" };
}

static const char *store_error(const struct db *db)
{
	(void)db;
	return "";
}

static void store_close(struct db *db)
{
	pthread_mutex_lock(&store.lock);
	store.closed++;
	pthread_mutex_unlock(&store.lock);
	free(db);
}

static const struct db_backend backend = {
	.name = "test",
	.open = store_open,
	.close = store_close,
	.get = store_get,
	.put = store_put,
	.server_stats = store_server_stats,
	.stats = store_stats,
	.info = store_info,
	.error = store_error,
};

static enum kvd_status store_open(struct db **db, const char *url,
				  const struct kvd_options *options, char *error)
{
	struct store_db *mine;
	bool refused;

	(void)url;
	assert_int_equal(options->timeout_ms, 1234);
	assert_int_equal(options->connect_timeout_ms, 5678);
	*db = NULL;
	*error = '\0';
	pthread_mutex_lock(&store.lock);
	refused = ++store.opened == store.refuse_open;
	pthread_mutex_unlock(&store.lock);
	if (refused)
		return KVD_ERR_UNREACHABLE;
	mine = calloc(1, sizeof(*mine));
	assert_non_null(mine);
	mine->db.backend = &backend;
	*db = &mine->db;
	return KVD_OK;
}

static int setup(void **state)
{
	(void)state;
	memset(&store, 0, sizeof(store));
	pthread_mutex_init(&store.lock, NULL);
	workload = (struct workload){
		.record_count = 100,
		.insert_count = WORKLOAD_COUNT_REST,
		.operation_count = 1000,
		.field_count = 2,
		.field_length = 30,
		.insert_order = ORDER_ORDERED,
		.request_distribution = DISTRIBUTION_UNIFORM,
		.proportions = { 0.5, 0.5, 0, 0 },
		.threads = 3,
		.timeout_ms = 1234,
		.connect_timeout_ms = 5678,
		.check = true,
		.label = "",
		.seed = 20240101,
	};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	/* The connection that was refused needs no close. */
	assert_int_equal(store.opened, store.closed + (store.refuse_open != 0));
	pthread_mutex_destroy(&store.lock);
	return 0;
}

static int run(enum phase phase)
{
	const struct run_options options = {
		.target = { &backend, "test:", 1 },
		.phase = phase,
		.batch = 1,
	};

	return runner_run(&workload, &options, &result);
}

static void load_then_run(void)
{
	assert_int_equal(run(PHASE_LOAD), 0);
	store.gets = store.puts = 0;
	store.samples = 0;
	assert_int_equal(run(PHASE_RUN), 0);
}

static uint64_t count_of(enum operation operation)
{
	return hist_count(&result.stats[operation].latency);
}

/* Also of a number of records that three threads can't share evenly. */
static void load_stores_every_record_once(void **state)
{
	size_t i;

	(void)state;
	workload.insert_start = 7;
	assert_int_equal(run(PHASE_LOAD), 0);
	for (i = 0; i < NUMBERS_MAX; i++)
		assert_int_equal(store.puts_of[i], i >= 7 && i < 100);
	assert_int_equal(result.operations, 93);
	assert_int_equal(count_of(OPERATION_INSERT), 93);
	assert_int_equal(store.opened, 4); /* one for the statistics */
}

static void every_operation_is_done(void **state)
{
	(void)state;
	load_then_run();
	assert_int_equal(store.gets + store.puts, 1000);
	assert_int_equal(result.operations, 1000);
	assert_int_equal(count_of(OPERATION_READ), store.gets);
	assert_int_equal(count_of(OPERATION_UPDATE), store.puts);
	assert_true(store.gets > 300 && store.puts > 300);
	assert_int_equal(result.failed + result.not_found + result.wrong, 0);
	assert_int_equal(result.ended, KVD_OK);
	assert_false(result.interrupted);
	assert_string_equal(result.device_kind, "kind");
	assert_string_equal(result.device_name, "name");
	assert_string_equal(result.device_why, "why");
	assert_int_equal(result.seed, 20240101);
}

/* Inserts of several threads get a number each, and are read as soon as all below them are there.
 */
static void inserts_have_numbers_of_their_own(void **state)
{
	size_t i;

	(void)state;
	workload.proportions[OPERATION_UPDATE] = 0;
	workload.proportions[OPERATION_INSERT] = 0.5;
	workload.request_distribution = DISTRIBUTION_LATEST;
	load_then_run();
	assert_int_equal(count_of(OPERATION_INSERT), store.puts);
	for (i = 0; i < NUMBERS_MAX; i++)
		assert_int_equal(store.puts_of[i], i < 100 + store.puts);
	assert_int_equal(result.not_found, 0);
}

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Nothing of the warm-up is in the results, but for failures; the server is sampled between. */
static void the_warm_up_is_not_measured(void **state)
{
	const uint64_t start_us = cpu_us();

	(void)state;
	while (cpu_us() - start_us < BURNT_US)
		;
	workload.warmup_operations = 50;
	load_then_run();
	assert_int_equal(store.gets + store.puts, 1050);
	assert_int_equal(store.samples, 2);
	assert_int_equal(store.done_at_sample[0], 50);
	assert_int_equal(store.done_at_sample[1], 1050);
	assert_int_equal(result.operations, 1000);
	assert_int_equal(count_of(OPERATION_READ) + count_of(OPERATION_UPDATE), 1000);
	assert_int_equal(result.client.gets, count_of(OPERATION_READ));
	assert_int_equal(result.client.puts, count_of(OPERATION_UPDATE));
	assert_true(result.server_cpu.known && result.server_cpu.us == 1000);
	assert_true(result.evictions_known && result.evictions == 2);
	/* Time of this process until then is not in it. The run takes some milliseconds. */
	assert_true(result.client_cpu_us < BURNT_US);
}

static void failures_are_counted_and_the_run_goes_on(void **state)
{
	(void)state;
	workload.warmup_operations = 50;
	assert_int_equal(run(PHASE_LOAD), 0);
	store.fail_put = store.puts + 1; /* in the warm-up */
	store.fail_with = KVD_ERR_NO_SPACE;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(result.failed, 1);
	store.fail_put = store.puts + 100;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(result.failed, 1);
	assert_int_equal(result.stats[OPERATION_UPDATE].failed, 1);
	assert_int_equal(result.operations, 1000);
	assert_int_equal(count_of(OPERATION_READ) + count_of(OPERATION_UPDATE), 999);
	assert_int_equal(result.ended, KVD_OK);
}

/* A thread that loses its connection ends the others, too. */
static void a_lost_connection_ends_all_threads(void **state)
{
	(void)state;
	assert_int_equal(run(PHASE_LOAD), 0);
	workload.operation_count = 0;
	workload.max_execution_s = 3600;
	store.fail_put = store.puts + 200;
	store.fail_with = KVD_ERR_DISCONNECTED;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(result.ended, KVD_ERR_DISCONNECTED);
	assert_int_equal(result.failed, 1);
}

static void nothing_is_done_if_a_thread_can_not_connect(void **state)
{
	(void)state;
	store.refuse_open = 3;
	assert_int_equal(run(PHASE_RUN), -ENOTCONN);
	assert_int_equal(store.opened, 4);
	assert_int_equal(store.gets + store.puts, 0);
}

static void nobody_else_connects_if_the_first_can_not(void **state)
{
	(void)state;
	store.refuse_open = 1;
	assert_int_equal(run(PHASE_RUN), -ENOTCONN);
	assert_int_equal(store.opened, 1);
	assert_int_equal(store.gets + store.puts, 0);
}

static uint64_t min_of(enum operation operation)
{
	return hist_min(&result.stats[operation].latency);
}

/* A sleep is never shorter than asked for: each minimum is that of the calls that are in it. */
static void a_read_modify_write_takes_both_its_calls(void **state)
{
	(void)state;
	workload.operation_count = 30;
	workload.proportions[OPERATION_READ] = 0;
	workload.proportions[OPERATION_UPDATE] = 0;
	workload.proportions[OPERATION_RMW] = 1;
	assert_int_equal(run(PHASE_LOAD), 0);
	store.pauses_get = store.pauses_put = true;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(count_of(OPERATION_RMW), 30);
	assert_int_equal(count_of(OPERATION_READ), 30);
	assert_int_equal(count_of(OPERATION_UPDATE), 30);
	assert_int_equal(result.operations, 30);
	assert_true(min_of(OPERATION_READ) >= PAUSE_NS);
	assert_true(min_of(OPERATION_UPDATE) >= PAUSE_NS);
	assert_true(min_of(OPERATION_RMW) >= 2 * PAUSE_NS);
	/* The whole is what its parts are, and what is between them. */
	assert_true(hist_mean(&result.stats[OPERATION_RMW].latency) >=
		    hist_mean(&result.stats[OPERATION_READ].latency) +
			    hist_mean(&result.stats[OPERATION_UPDATE].latency));
	assert_true(hist_max(&result.stats[OPERATION_RMW].latency) <= result.elapsed_ns);
}

/* One after the other: the pause of a call is in the latency that has its name. */
static void latencies_are_of_their_own_call(void **state)
{
	(void)state;
	workload.operation_count = 60;
	assert_int_equal(run(PHASE_LOAD), 0);
	store.pauses_get = true;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_true(min_of(OPERATION_READ) >= PAUSE_NS);
	store.pauses_get = false;
	store.pauses_put = true;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_true(min_of(OPERATION_UPDATE) >= PAUSE_NS);
	assert_true(result.elapsed_ns >= PAUSE_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(load_stores_every_record_once),
		TEST(every_operation_is_done),
		TEST(inserts_have_numbers_of_their_own),
		TEST(the_warm_up_is_not_measured),
		TEST(failures_are_counted_and_the_run_goes_on),
		TEST(a_lost_connection_ends_all_threads),
		TEST(nothing_is_done_if_a_thread_can_not_connect),
		TEST(nobody_else_connects_if_the_first_can_not),
		TEST(a_read_modify_write_takes_both_its_calls),
		TEST(latencies_are_of_their_own_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
