/* SPDX-License-Identifier: MIT */
/*
 * Conducts a run: see runner.h. Client threads and the main thread meet three times:
 *
 *	client			main
 *	connect
 *	gate 0			are all connected? if not, stop
 *	warm up
 *	gate 1			sample server and client, start the clock
 *	measured part		print progress
 *	gate 2			stop the clock, sample again, sum up
 *	end
 */
#include "bench/runner.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "bench/meeting.h"
#include "bench/under_way.h"
#include "common/util/clock.h"

#define SECOND_NS UINT64_C(1000000000)

enum gate { GATE_CONNECTED, GATE_WARM, GATE_MEASURED };

struct runner;

struct seat {
	pthread_t thread;
	struct runner *runner;
	struct client *client;
	struct kvd_stats before; /* the connection's counters when the measured part began */
};

struct runner {
	const struct workload *workload;
	struct load *load;
	struct seat *seats;
	unsigned int seat_count;
	uint64_t quota; /* operations of the measured part, all threads together; 0: no limit */
	struct meeting meeting;
	struct db *control; /* the connection for the server's statistics */
	struct server_stats server_before, server_after;
	uint64_t start_ns;	     /* of the measured part */
	uint64_t last_done, last_ns; /* of the last progress line */
};

/* The part of @seat in @total, such that the parts of all seats sum to @total. */
static uint64_t share(const struct seat *seat, uint64_t total)
{
	const unsigned int count = seat->runner->seat_count;

	return total / count + ((uint64_t)(seat - seat->runner->seats) < total % count);
}

static void seat_run(struct seat *seat, uint64_t quota, uint64_t deadline_ns)
{
	if (seat->runner->load->target.depth > 1)
		under_way_run(seat->client, quota, deadline_ns);
	else
		client_run(seat->client, quota, deadline_ns);
}

static void warm_up(struct seat *seat)
{
	const struct workload *workload = seat->runner->workload;

	if (seat->runner->load->phase == PHASE_LOAD ||
	    (!workload->warmup_ns && !workload->warmup_operations))
		return;
	seat_run(seat, share(seat, workload->warmup_operations),
		 workload->warmup_ns ? clock_ns() + workload->warmup_ns : 0);
}

static void measured_part(struct seat *seat)
{
	const struct runner *runner = seat->runner;
	const uint64_t limit_s = runner->workload->max_execution_s;

	seat_run(seat, share(seat, runner->quota),
		 limit_s ? runner->start_ns + limit_s * SECOND_NS : 0);
}

static void *seat_main(void *argument)
{
	struct seat *seat = argument;
	struct meeting *meeting = &seat->runner->meeting;

	client_connect(seat->client);
	meeting_arrive(meeting, GATE_CONNECTED);
	if (!seat->client->status)
		warm_up(seat);
	meeting_arrive(meeting, GATE_WARM);
	if (!seat->client->status)
		measured_part(seat);
	meeting_arrive(meeting, GATE_MEASURED);
	return NULL;
}

static void progress_print(void *context)
{
	struct runner *runner = context;
	const char *label = runner->workload->label;
	const uint64_t now_ns = clock_ns();
	uint64_t done = 0, failed = 0;
	struct client *client;
	unsigned int i;

	for (i = 0; i < runner->seat_count; i++) {
		client = runner->seats[i].client;
		done += atomic_load_explicit(&client->done, memory_order_relaxed);
		failed += atomic_load_explicit(&client->failed, memory_order_relaxed);
	}
	fprintf(stderr, "%s%s%4.0f s  %" PRIu64 " operations  %.0f/s  %" PRIu64 " failed\n", label,
		*label ? " " : "", (double)(now_ns - runner->start_ns) / 1e9, done,
		(double)(done - runner->last_done) * 1e9 / (double)(now_ns - runner->last_ns),
		failed);
	runner->last_done = done;
	runner->last_ns = now_ns;
}

static void interrupted(void *context)
{
	const struct runner *runner = context;

	atomic_store(&runner->load->stop, true);
}

static void clients_wait(struct runner *runner, bool progress)
{
	const struct meeting_watch watch = {
		.context = runner,
		.interrupted = interrupted,
		.tick = progress ? progress_print : NULL,
		.tick_ns = runner->workload->status_interval_s * SECOND_NS,
	};

	meeting_wait(&runner->meeting, runner->seat_count, &watch);
}

static uint64_t own_cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void stats_add_since(struct kvd_stats *sum, const struct kvd_stats *after,
			    const struct kvd_stats *before)
{
#define X(name, help) sum->name += after->name - before->name;
	KVD_STATS_MAP(X)
#undef X
}

static void result_add(struct result *result, const struct seat *seat)
{
	const struct client *client = seat->client;
	struct kvd_stats after;
	int i;

	for (i = 0; i < OPERATION_COUNT; i++) {
		hist_merge(&result->stats[i].latency, &client->stats[i].latency);
		result->stats[i].not_found += client->stats[i].not_found;
		result->stats[i].failed += client->stats[i].failed;
		result->not_found += client->stats[i].not_found;
		result->failed += client->stats[i].failed;
	}
	result->operations += atomic_load(&client->done);
	result->wrong += client->wrong;
	if (client->status)
		result->ended = client->status;
	db_stats(client->db, &after);
	stats_add_since(&result->client, &after, &seat->before);
}

/* Called while all clients wait at the gate. */
static void measure_begin(struct runner *runner, struct result *result)
{
	struct client *client;
	unsigned int i;

	for (i = 0; i < runner->seat_count; i++) {
		client = runner->seats[i].client;
		result->failed += atomic_load(&client->failed);
		client_reset(client);
		db_stats(client->db, &runner->seats[i].before);
	}
	server_stats_sample(&runner->server_before, runner->control);
	result->client_cpu_us = own_cpu_us();
	runner->start_ns = clock_ns();
	runner->last_ns = runner->start_ns;
}

static void measure_end(struct runner *runner, struct result *result)
{
	unsigned int i;

	result->elapsed_ns = clock_ns() - runner->start_ns;
	result->client_cpu_us = own_cpu_us() - result->client_cpu_us;
	server_stats_sample(&runner->server_after, runner->control);
	result->server_cpu = server_cpu_between(&runner->server_before, &runner->server_after);
	result->evictions_known = server_stats_number(runner->server_after.text, "evictions",
						      &result->evictions);
	for (i = 0; i < OPERATION_COUNT; i++)
		hist_init(&result->stats[i].latency);
	for (i = 0; i < runner->seat_count; i++)
		result_add(result, &runner->seats[i]);
	result->interrupted = runner->meeting.interrupted;
}

/* Returns 0 if every client is connected. */
static int connections_check(const struct runner *runner)
{
	const struct client *client;
	unsigned int i;

	for (i = 0; i < runner->seat_count; i++) {
		client = runner->seats[i].client;
		if (client->status)
			return db_connect_failed(&runner->load->target, client->status,
						 client->error);
	}
	return 0;
}

/* Passes the three gates with the clients, after an @error without work in between. */
static int course_run(struct runner *runner, struct result *result, int error)
{
	if (error)
		atomic_store(&runner->load->stop, true);
	clients_wait(runner, false);
	if (!error)
		error = connections_check(runner);
	if (error)
		atomic_store(&runner->load->stop, true);
	meeting_open(&runner->meeting);
	clients_wait(runner, false);
	if (!error)
		measure_begin(runner, result);
	meeting_open(&runner->meeting);
	clients_wait(runner, runner->workload->status && !error);
	if (!error)
		measure_end(runner, result);
	meeting_open(&runner->meeting);
	return error;
}

static void seats_destroy(struct runner *runner, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		client_teardown(runner->seats[i].client);
		free(runner->seats[i].client);
	}
	free(runner->seats);
	runner->seats = NULL;
}

static int seats_create(struct runner *runner, unsigned int count, uint64_t seed)
{
	/* Whole cache lines, so that no two threads share one. */
	const size_t size = (sizeof(struct client) + 127) & ~(size_t)127;
	struct seat *seat;
	unsigned int i;

	runner->seats = calloc(count, sizeof(*runner->seats));
	if (!runner->seats)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		seat = &runner->seats[i];
		seat->runner = runner;
		seat->client = aligned_alloc(128, size);
		if (seat->client && !client_setup(seat->client, runner->load, i, seed))
			continue;
		free(seat->client);
		seats_destroy(runner, i);
		fprintf(stderr, "kvbench: no memory for %u threads\n", count);
		return -ENOMEM;
	}
	return 0;
}

/* Starts @count threads, or fewer if that fails; seat_count is how many. */
static int threads_start(struct runner *runner, unsigned int count)
{
	struct seat *seat;
	int error;

	for (runner->seat_count = 0; runner->seat_count < count; runner->seat_count++) {
		seat = &runner->seats[runner->seat_count];
		error = pthread_create(&seat->thread, NULL, seat_main, seat);
		if (error) {
			fprintf(stderr, "kvbench: can't start thread %u of %u: %s\n",
				runner->seat_count + 1, count, strerror(error));
			return -error;
		}
	}
	return 0;
}

static uint64_t seed_choose(const struct workload *workload)
{
	uint64_t seed = workload->seed;

	if (!seed && getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = clock_ns();
	/* kvd.seed takes no larger number. */
	return seed & ((UINT64_C(1) << 53) - 1);
}

static void info_copy(struct result *result, const struct db *db)
{
	struct kvd_info info;

	db_info(db, &info);
	snprintf(result->device_kind, sizeof(result->device_kind), "%s", info.device_kind);
	snprintf(result->device_name, sizeof(result->device_name), "%s", info.device_name);
	snprintf(result->device_why, sizeof(result->device_why), "%s", info.device_why);
}

/* Opens the control connection before any client's; so a missing server is reported once. */
static int control_open(struct runner *runner, struct result *result)
{
	struct kvd_options options;
	enum kvd_status status;
	char error[DB_ERROR_MAX];

	kvd_options_init(&options);
	options.timeout_ms = (uint32_t)runner->workload->timeout_ms;
	options.connect_timeout_ms = (uint32_t)runner->workload->connect_timeout_ms;
	options.cache_bytes = 0;
	status = db_open(&runner->control, &runner->load->target, &options, error);
	if (status)
		return db_connect_failed(&runner->load->target, status, error);
	info_copy(result, runner->control);
	return 0;
}

static int run_connected(struct runner *runner, struct result *result)
{
	const unsigned int count = (unsigned int)runner->workload->threads;
	unsigned int i;
	int error;

	error = seats_create(runner, count, result->seed);
	if (error)
		return error;
	error = threads_start(runner, count);
	error = course_run(runner, result, error);
	for (i = 0; i < runner->seat_count; i++)
		pthread_join(runner->seats[i].thread, NULL);
	seats_destroy(runner, count);
	return error;
}

static void load_init(struct load *load, const struct workload *workload,
		      const struct run_options *options)
{
	memset(load, 0, sizeof(*load));
	load->workload = workload;
	load->phase = options->phase;
	load->target = options->target;
	load->batch = options->batch;
	load->registered = options->registered;
	atomic_init(&load->next_record, workload->insert_start);
	keys_init(&load->keys, workload);
}

int runner_run(const struct workload *workload, const struct run_options *options,
	       struct result *result)
{
	static struct load load;
	static struct runner runner;
	int error;

	memset(result, 0, sizeof(*result));
	memset(&runner, 0, sizeof(runner));
	result->seed = seed_choose(workload);
	runner.workload = workload;
	runner.load = &load;
	runner.quota = options->phase == PHASE_LOAD ? workload_load_count(workload) :
						      workload->operation_count;
	load_init(&load, workload, options);
	error = meeting_init(&runner.meeting);
	if (error) {
		fprintf(stderr, "kvbench: no descriptors for events: %s\n", strerror(-error));
		return error;
	}
	error = control_open(&runner, result);
	if (!error)
		error = run_connected(&runner, result);
	db_close(runner.control);
	meeting_release(&runner.meeting);
	return error;
}
