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

#include "bench/record.h"
#include "bench/runner.h"
#include "tests/support/captured.h"
#include "tests/support/fake_store.h"

#define NUMBERS_MAX 4000
#define RECORD_BYTES_MAX 256
#define PAUSE_NS 2000000
#define CPU_STEP_US 3000000

/* A connection; its statistics are those of libkvd. */
struct store_db {
	struct db db;
	struct kvd_stats stats;
};

static struct {
	pthread_mutex_t lock;
	uint64_t gets, puts;
	unsigned int opened, closed, without_cache;
	unsigned int samples; /* of the server's statistics */
	uint64_t done_at_sample[2];
	/* What the test asks of it */
	unsigned int refuse_open; /* the connection of this number, from 1 on; 0: none */
	uint64_t fail_put;	  /* likewise */
	enum kvd_status fail_with;
	bool pauses_get, pauses_put, fails_all;
	uint64_t fail_get;   /* likewise; GETs are counted in their order, also those of a batch */
	size_t wrong_number; /* the record of which a byte is wrong; 0: none */
	unsigned int puts_of[NUMBERS_MAX], gets_of[NUMBERS_MAX];
	uint64_t get_calls;
	size_t batch_last; /* GETs of the last call */
	size_t len[NUMBERS_MAX];
	uint8_t records[NUMBERS_MAX][RECORD_BYTES_MAX];
} store;

static unsigned int batch;
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
	store.get_calls++;
	store.batch_last = count;
	for (i = 0; i < count; i++) {
		number = number_of(requests[i].key, requests[i].key_len);
		store.gets_of[number]++;
		mine->stats.gets++;
		if (++store.gets == store.fail_get) {
			requests[i].status = store.fail_with;
			continue;
		}
		requests[i].status = store.len[number] ? KVD_OK : KVD_NOT_FOUND;
		requests[i].item.value_len = store.len[number];
		assert_true(store.len[number] <= requests[i].value_size);
		memcpy(requests[i].value, store.records[number], store.len[number]);
		if (store.wrong_number && number == store.wrong_number)
			((uint8_t *)requests[i].value)[store.len[number] - 1] ^= 1;
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
	if (++store.puts == store.fail_put || store.fails_all) {
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
	.error = fake_store_error,
};

static enum kvd_status store_open(struct db **db, const char *url,
				  const struct kvd_options *options, char *error)
{
	struct store_db *mine;
	bool refused;

	(void)url;
	assert_int_equal(options->timeout_ms, 1234);
	assert_int_equal(options->connect_timeout_ms, 5678);
	/* The one for the statistics makes no GETs. */
	assert_true((options->cache_bytes == 98765 && options->get_tries == 3) ||
		    !options->cache_bytes);
	*db = NULL;
	*error = '\0';
	pthread_mutex_lock(&store.lock);
	refused = ++store.opened == store.refuse_open;
	store.without_cache += !options->cache_bytes;
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
	batch = 1;
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
		.get_tries = 3,
		.cache_bytes = 98765,
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
		.batch = batch,
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
	assert_int_equal(store.without_cache, 1);
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

/* Each time it is asked this process has used CPU_STEP_US more, a third of it in the kernel. */
int getrusage(__rusage_who_t who, struct rusage *usage)
{
	static unsigned int asked;

	assert_int_equal(who, RUSAGE_SELF);
	asked++;
	memset(usage, 0, sizeof(*usage));
	usage->ru_utime.tv_sec = 2 * asked;
	usage->ru_stime.tv_usec = asked * 1000000;
	return 0;
}

/* Nothing of the warm-up is in the results, but for failures; the server is sampled between. */
static void the_warm_up_is_not_measured(void **state)
{
	(void)state;
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
	/* From one reading to the next. */
	assert_int_equal(result.client_cpu_us, CPU_STEP_US);
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

/* Runs and keeps what is printed to stderr. */
static const char *run_and_warn(enum phase phase)
{
	int error;

	captured_begin(stderr);
	error = run(phase);
	assert_int_equal(error, 0);
	return captured_end();
}

static unsigned int lines_of(const char *text, const char *with)
{
	unsigned int lines = 0;

	for (; (text = strstr(text, with)); text += strlen(with))
		lines++;
	return lines;
}

/* A key that is not there is a GET that took its time, and no failure. */
static void records_that_are_not_found_are_counted(void **state)
{
	(void)state;
	workload.proportions[OPERATION_UPDATE] = 0;
	workload.warmup_operations = 50; /* its misses do not count */
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(result.not_found, 1000);
	assert_int_equal(result.stats[OPERATION_READ].not_found, 1000);
	assert_int_equal(count_of(OPERATION_READ), 1000);
	assert_int_equal(result.failed + result.wrong, 0);
}

static void a_read_that_fails_is_counted(void **state)
{
	const char *printed;

	(void)state;
	assert_int_equal(run(PHASE_LOAD), 0);
	store.fail_get = 10;
	store.fail_with = KVD_ERR_BUFFER;
	printed = run_and_warn(PHASE_RUN);
	assert_int_equal(lines_of(printed, "kvbench: READ of user"), 1);
	assert_non_null(strstr(printed, "the stored record is longer than"));
	assert_int_equal(result.failed, 1);
	assert_int_equal(result.stats[OPERATION_READ].failed, 1);
	assert_int_equal(result.stats[OPERATION_UPDATE].failed, 0);
	assert_int_equal(result.not_found, 0);
	assert_int_equal(result.operations, 1000);
	assert_int_equal(count_of(OPERATION_READ), store.gets - 1);
	assert_int_equal(result.ended, KVD_OK);
}

static void wrong_values_are_counted_if_they_are_checked(void **state)
{
	const char *printed;

	(void)state;
	workload.proportions[OPERATION_UPDATE] = 0;
	workload.operation_count = 3000;
	store.wrong_number = 5;
	assert_int_equal(run(PHASE_LOAD), 0);
	printed = run_and_warn(PHASE_RUN);
	assert_true(store.gets_of[5] > CLIENT_COMPLAINTS_MAX);
	assert_int_equal(result.wrong, store.gets_of[5]);
	assert_int_equal(lines_of(printed, "kvbench: WRONG VALUE of user5 "),
			 CLIENT_COMPLAINTS_MAX);
	assert_int_equal(lines_of(printed, "in field 1: expected"), CLIENT_COMPLAINTS_MAX);
	assert_int_equal(lines_of(printed, "\n"), CLIENT_COMPLAINTS_MAX);
	assert_int_equal(count_of(OPERATION_READ), 3000);
	assert_int_equal(result.failed, 0);
	workload.check = false;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(result.wrong, 0);
}

static void failures_are_printed_a_few_times(void **state)
{
	const char *printed;

	(void)state;
	assert_int_equal(run(PHASE_LOAD), 0);
	store.fails_all = true;
	store.fail_with = KVD_ERR_NO_SPACE;
	printed = run_and_warn(PHASE_RUN);
	assert_int_equal(result.failed, result.stats[OPERATION_UPDATE].failed);
	assert_true(result.failed > CLIENT_COMPLAINTS_MAX);
	assert_int_equal(lines_of(printed, "kvbench: UPDATE of user"), CLIENT_COMPLAINTS_MAX);
	assert_int_equal(count_of(OPERATION_UPDATE), 0);
}

/* As in YCSB a thread that loads gives up, whatever the failure is. */
static void a_load_ends_at_its_first_failure(void **state)
{
	(void)state;
	workload.threads = 1;
	store.fail_put = 10;
	store.fail_with = KVD_ERR_NO_SPACE;
	run_and_warn(PHASE_LOAD);
	assert_int_equal(store.puts, 10);
	assert_int_equal(result.failed, 1);
	assert_int_equal(count_of(OPERATION_INSERT), 9);
	assert_int_equal(result.ended, KVD_ERR_NO_SPACE);
}

/* Within a few percent: the seed is always the same, and there is one thread. */
static void assert_share(uint64_t count, uint64_t of, double share)
{
	assert_true((double)count > (double)of * share * 0.85);
	assert_true((double)count < (double)of * share * 1.15);
}

static void operations_have_their_proportions(void **state)
{
	(void)state;
	workload.threads = 1;
	workload.operation_count = 3000;
	workload.proportions[OPERATION_READ] = 0.2;
	workload.proportions[OPERATION_UPDATE] = 0.4;
	workload.proportions[OPERATION_INSERT] = 0.3;
	workload.proportions[OPERATION_RMW] = 0.5; /* of 1.4 in all */
	load_then_run();
	assert_share(count_of(OPERATION_INSERT), 3000, 0.3 / 1.4);
	assert_share(count_of(OPERATION_RMW), 3000, 0.5 / 1.4);
	assert_share(count_of(OPERATION_READ) - count_of(OPERATION_RMW), 3000, 0.2 / 1.4);
	assert_share(count_of(OPERATION_UPDATE) - count_of(OPERATION_RMW), 3000, 0.4 / 1.4);
	assert_int_equal(count_of(OPERATION_INSERT) + count_of(OPERATION_READ) +
				 count_of(OPERATION_UPDATE) - count_of(OPERATION_RMW),
			 3000);
	/* One that has no share is never done, wherever it stands. */
	workload.proportions[OPERATION_READ] = workload.proportions[OPERATION_RMW] = 0;
	workload.proportions[OPERATION_INSERT] = 0;
	load_then_run();
	assert_int_equal(count_of(OPERATION_UPDATE), 3000);
}

/* What a run has inserted is read, too. */
static void inserted_records_are_read(void **state)
{
	unsigned int reads = 0;

	(void)state;
	workload.threads = 1;
	workload.proportions[OPERATION_UPDATE] = 0;
	workload.proportions[OPERATION_INSERT] = 0.5;
	workload.request_distribution = DISTRIBUTION_LATEST;
	load_then_run();
	for (size_t i = 100; i < NUMBERS_MAX; i++)
		reads += store.gets_of[i];
	assert_true(reads > count_of(OPERATION_READ) / 2);
}

/* The time of one of which a half failed is not a time of both. */
static void a_read_modify_write_of_which_a_half_failed(void **state)
{
	(void)state;
	workload.threads = 1;
	workload.operation_count = 30;
	workload.proportions[OPERATION_READ] = 0;
	workload.proportions[OPERATION_UPDATE] = 0;
	workload.proportions[OPERATION_RMW] = 1;
	assert_int_equal(run(PHASE_LOAD), 0);
	store.fail_put = store.puts + 7;
	store.fail_get = store.gets + 20;
	store.fail_with = KVD_ERR_NO_SPACE;
	run_and_warn(PHASE_RUN);
	assert_int_equal(count_of(OPERATION_RMW), 28);
	assert_int_equal(count_of(OPERATION_READ), 29);
	assert_int_equal(count_of(OPERATION_UPDATE), 29);
	assert_int_equal(result.failed, 2);
}

/* GETs wait for each other; the last ones are fewer. */
static void reads_go_out_in_batches(void **state)
{
	(void)state;
	workload.threads = 1;
	workload.operation_count = 42;
	workload.proportions[OPERATION_UPDATE] = 0;
	assert_int_equal(run(PHASE_LOAD), 0);
	batch = 4;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(store.gets, 42);
	assert_int_equal(store.get_calls, 11);
	assert_int_equal(store.batch_last, 2);
	assert_int_equal(result.operations, 42);
	assert_int_equal(count_of(OPERATION_READ), 42);
}

/* GETs that wait when the connection is lost were not done. */
static void reads_that_were_not_sent_are_not_counted(void **state)
{
	(void)state;
	workload.threads = 1;
	batch = 1000;
	assert_int_equal(run(PHASE_LOAD), 0);
	store.fail_put = store.puts + 100;
	store.fail_with = KVD_ERR_DISCONNECTED;
	run_and_warn(PHASE_RUN);
	assert_int_equal(store.gets, 0);
	assert_int_equal(result.operations, 100);
}

/* Returns the mean length of the fields of all records. */
static double mean_of_fields(enum length_distribution lengths)
{
	size_t bytes = 0, shortest = SIZE_MAX, longest = 0, fixed;

	workload.field_lengths = lengths;
	workload.field_length_min = workload.field_length;
	assert_int_equal(run(PHASE_LOAD), 0);
	fixed = store.len[0] - workload.field_count * workload.field_length;
	workload.field_length_min = 5;
	assert_int_equal(run(PHASE_LOAD), 0);
	for (size_t i = 0; i < workload.record_count; i++) {
		const size_t len = store.len[i] - fixed;

		shortest = len < shortest ? len : shortest;
		longest = len > longest ? len : longest;
		bytes += len;
	}
	assert_in_range(shortest, 2 * 5, 2 * 5 + 8);
	assert_in_range(longest, 2 * 30 - 16, 2 * 30);
	return (double)bytes / (double)(workload.record_count * workload.field_count);
}

/* Each record draws its lengths between both limits. With zipfian short ones are more frequent. */
static void fields_have_their_lengths(void **state)
{
	double mean;

	(void)state;
	workload.record_count = 1000;
	workload.threads = 1;
	mean = mean_of_fields(LENGTH_UNIFORM);
	assert_true(mean > 16.5 && mean < 18.5); /* (5 + 30) / 2 */
	mean = mean_of_fields(LENGTH_ZIPFIAN);
	assert_true(mean > 8 && mean < 14);
}

/* A sleep is never shorter than asked for. */
static void the_target_limits_the_rate(void **state)
{
	(void)state;
	assert_int_equal(run(PHASE_LOAD), 0);
	workload.operation_count = 60;
	workload.target = 3000;
	assert_int_equal(run(PHASE_RUN), 0);
	assert_int_equal(result.operations, 60);
	assert_true(result.elapsed_ns >= 57 * UINT64_C(1000000000) / 3000);
}

/* A thread that would wait for its turn beyond the end of the run waits until that. */
static void no_turn_is_after_the_deadline(void **state)
{
	struct load load = { .workload = &workload };
	static struct client client;

	(void)state;
	client.load = &load;
	workload.target = 2;
	workload.threads = 32;
	assert_int_equal(client_turn(&client, 100, 1, 0), 16000000100);
	assert_int_equal(client_turn(&client, 100, 1, 16000000100), 16000000100);
	assert_int_equal(client_turn(&client, 100, 1, 2000000000), 2000000000);
	workload.target = 0;
	assert_int_equal(client_turn(&client, 100, 1, 2000000000), 100);
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
		TEST(records_that_are_not_found_are_counted),
		TEST(a_read_that_fails_is_counted),
		TEST(wrong_values_are_counted_if_they_are_checked),
		TEST(failures_are_printed_a_few_times),
		TEST(a_load_ends_at_its_first_failure),
		TEST(operations_have_their_proportions),
		TEST(inserted_records_are_read),
		TEST(a_read_modify_write_of_which_a_half_failed),
		TEST(reads_go_out_in_batches),
		TEST(reads_that_were_not_sent_are_not_counted),
		TEST(fields_have_their_lengths),
		TEST(the_target_limits_the_rate),
		TEST(no_turn_is_after_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
