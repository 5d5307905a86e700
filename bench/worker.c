/* SPDX-License-Identifier: MIT */
/*
 * The operations of one thread, in YCSB's sense (CoreWorkload.java, doTransaction...()):
 *
 *	READ			GET, every byte checked
 *	UPDATE			PUT of a new record, without reading the old one
 *	INSERT			PUT of the next record
 *	READ-MODIFY-WRITE	GET, then PUT; timed as a whole and also as READ and UPDATE
 *
 * With a batch size above 1 the GETs of READs wait until that many have come together and then go
 * out as one chain; the latency of each is that of the chain.
 */
#include "bench/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/record.h"
#include "common/clock.h"

static const char *const operation_names[OPERATION_COUNT] = { "READ", "UPDATE", "INSERT",
							      "READ-MODIFY-WRITE" };

/* After these the handle is good for nothing but to be closed: see kvd.h. */
static bool status_is_fatal(enum kvd_status status)
{
	return status == KVD_ERR_TIMEOUT || status == KVD_ERR_DISCONNECTED ||
	       status == KVD_ERR_DEVICE || status == KVD_ERR_PROTOCOL;
}

static bool may_complain(_Atomic int *shown)
{
	return atomic_fetch_add(shown, 1) < WORKER_COMPLAINTS_MAX;
}

/* Counts an operation that ended with an error. */
static void operation_failed(struct worker *worker, enum operation operation, const char *key,
			     size_t key_len, enum kvd_status status)
{
	struct load *load = worker->load;
	const char *more = kvd_error(worker->handle);

	worker->stats[operation].failed++;
	atomic_fetch_add_explicit(&worker->failed, 1, memory_order_relaxed);
	if (status == KVD_ERR_BUFFER)
		more = "the stored record is longer than fieldcount and fieldlength tell";
	if (may_complain(&load->failures_shown))
		fprintf(stderr, "kvbench: %s of %.*s failed: %s%s%s\n", operation_names[operation],
			(int)key_len, key, kvd_status_text(status), *more ? ": " : "", more);
	/* As in YCSB, a thread that loads gives up at its first failure. */
	if (!status_is_fatal(status) && load->phase == PHASE_RUN)
		return;
	worker->status = status;
	snprintf(worker->error, sizeof(worker->error), "%s", more);
	if (status_is_fatal(status))
		atomic_store(&load->stop, true);
}

static void value_check(struct worker *worker, const struct kvd_get_request *request)
{
	struct record_fault fault;

	if (!worker->load->workload->check || !record_check(request->value, request->item.value_len,
							    request->key, request->key_len, &fault))
		return;
	worker->wrong++;
	if (!may_complain(&worker->load->wrong_shown))
		return;
	fprintf(stderr,
		"kvbench: WRONG VALUE of %.*s (%zu bytes, version %" PRIu64 ", generation %" PRIx64
		".%" PRIu64 "): %s: at byte %zu",
		(int)request->key_len, (const char *)request->key, request->item.value_len,
		request->item.version, fault.generation.writer, fault.generation.counter,
		fault.what, fault.offset);
	if (fault.field >= 0)
		fprintf(stderr, " in field %d: expected 0x%02x, got 0x%02x", fault.field,
			fault.expected, fault.got);
	fputc('\n', stderr);
}

/* Accounts for one GET that took @ns. */
static void read_done(struct worker *worker, const struct kvd_get_request *request, uint64_t ns)
{
	struct operation_stats *stats = &worker->stats[OPERATION_READ];

	if (request->status != KVD_OK && request->status != KVD_NOT_FOUND) {
		operation_failed(worker, OPERATION_READ, request->key, request->key_len,
				 request->status);
		return;
	}
	hist_record(&stats->latency, ns);
	if (request->status == KVD_NOT_FOUND)
		stats->not_found++;
	else
		value_check(worker, request);
}

static void count_done(struct worker *worker, uint64_t operations)
{
	const uint64_t done = atomic_load_explicit(&worker->done, memory_order_relaxed);

	atomic_store_explicit(&worker->done, done + operations, memory_order_relaxed);
}

/* Sends the GETs that wait, as one chain if they are several. */
static void reads_flush(struct worker *worker)
{
	struct kvd_get_request *request = worker->requests;
	const uint64_t start = clock_ns();
	unsigned int i;

	if (!worker->queued)
		return;
	if (worker->queued > 1)
		kvd_get_many(worker->handle, worker->requests, worker->queued);
	else
		request->status = kvd_get(worker->handle, request->key, request->key_len,
					  request->value, request->value_size, &request->item);
	worker->now_ns = clock_ns();
	for (i = 0; i < worker->queued; i++)
		read_done(worker, &worker->requests[i], worker->now_ns - start);
	worker->queued = 0;
}

static void read_queue(struct worker *worker, uint64_t number)
{
	struct kvd_get_request *request = &worker->requests[worker->queued++];

	request->key_len = workload_key(worker->load->workload, number, (char *)request->key);
	/* The last record here must not pass for an answer. */
	memset(request->value, 0, RECORD_HEADER_SIZE);
}

static uint32_t field_length(struct worker *worker)
{
	const struct workload *workload = worker->load->workload;
	const uint64_t min = workload->field_length_min;
	const uint64_t range = workload->field_length - min + 1;

	if (workload->field_lengths == LENGTH_ZIPFIAN)
		return (uint32_t)(min + zipfian_next(&worker->lengths, &worker->random, range));
	return (uint32_t)(min + random_below(&worker->random, range));
}

/* Builds a new record for @key where PUTs take it from. Returns its length. */
static size_t build_next(struct worker *worker, const char *key, size_t key_len)
{
	const struct workload *workload = worker->load->workload;
	const struct record_shape shape = {
		.field_count = (uint32_t)workload->field_count,
		.length = (uint32_t)workload->field_length,
		.lengths = worker->field_lengths,
	};
	const struct record_generation generation = { worker->writer, ++worker->counter };
	uint32_t i;

	for (i = 0; worker->field_lengths && i < shape.field_count; i++)
		worker->field_lengths[i] = field_length(worker);
	record_build(worker->values + worker->load->batch * worker->value_size, &shape, &generation,
		     key, key_len);
	return record_size(&shape);
}

/* PUTs a new record under the key of @number. */
static void write_one(struct worker *worker, enum operation operation, uint64_t number)
{
	const uint8_t *record = worker->values + worker->load->batch * worker->value_size;
	char key[WORKLOAD_KEY_MAX];
	const size_t key_len = workload_key(worker->load->workload, number, key);
	const size_t len = build_next(worker, key, key_len);
	const uint64_t start = clock_ns();
	enum kvd_status status;

	status = kvd_put(worker->handle, key, key_len, record, len, NULL, NULL);
	worker->now_ns = clock_ns();
	if (status == KVD_OK)
		hist_record(&worker->stats[operation].latency, worker->now_ns - start);
	else
		operation_failed(worker, operation, key, key_len, status);
}

/* Inserts the next record of the run phase. */
static void insert_next(struct worker *worker)
{
	struct counter *inserted = &worker->load->keys.inserted;
	const struct timespec nap = { .tv_nsec = 1000000 };
	uint64_t number;

	/* Waits for another thread's insert, which its timeout bounds. */
	while (!counter_take(inserted, &number)) {
		if (atomic_load(&worker->load->stop))
			return;
		nanosleep(&nap, NULL);
	}
	write_one(worker, OPERATION_INSERT, number);
	/* Failed or not, as in YCSB: else no later one could ever be read. */
	counter_acknowledge(inserted, number);
}

static void read_modify_write(struct worker *worker, uint64_t number)
{
	struct operation_stats *stats = worker->stats;
	const uint64_t failed = stats[OPERATION_READ].failed + stats[OPERATION_UPDATE].failed;
	uint64_t start;

	reads_flush(worker);
	if (worker->status)
		return;
	start = clock_ns();
	read_queue(worker, number);
	reads_flush(worker);
	if (worker->status)
		return;
	write_one(worker, OPERATION_UPDATE, number);
	if (stats[OPERATION_READ].failed + stats[OPERATION_UPDATE].failed == failed)
		hist_record(&stats[OPERATION_RMW].latency, worker->now_ns - start);
}

static enum operation operation_choose(struct worker *worker)
{
	const double *weights = worker->load->workload->proportions;
	double sum = 0, at;
	int i, last = 0;

	for (i = 0; i < OPERATION_COUNT; i++)
		sum += weights[i];
	at = random_double(&worker->random) * sum;
	for (i = 0; i < OPERATION_COUNT; i++) {
		if (weights[i] <= 0)
			continue;
		if (at < weights[i])
			return (enum operation)i;
		at -= weights[i];
		last = i;
	}
	return (enum operation)last; /* rounding */
}

static void transaction(struct worker *worker)
{
	const enum operation operation = operation_choose(worker);
	uint64_t number;

	if (operation == OPERATION_INSERT) {
		insert_next(worker);
		return;
	}
	number = key_chooser_next(&worker->chooser, &worker->random);
	if (operation == OPERATION_UPDATE) {
		write_one(worker, OPERATION_UPDATE, number);
	} else if (operation == OPERATION_RMW) {
		read_modify_write(worker, number);
	} else {
		read_queue(worker, number);
		if (worker->queued == worker->load->batch)
			reads_flush(worker);
	}
}

static void load_next(struct worker *worker)
{
	write_one(worker, OPERATION_INSERT, atomic_fetch_add(&worker->load->next_record, 1));
}

/* Waits for this thread's turn under `target`, if there is one. */
static void throttle(struct worker *worker, uint64_t start_ns, uint64_t done)
{
	const struct workload *workload = worker->load->workload;
	struct timespec until;
	uint64_t turn, wake;

	if (!workload->target)
		return;
	turn = start_ns + (uint64_t)((double)done * 1e9 * (double)workload->threads /
				     (double)workload->target);
	while (worker->now_ns < turn && !atomic_load(&worker->load->stop)) {
		wake = worker->now_ns + WORKER_NAP_NS < turn ? worker->now_ns + WORKER_NAP_NS :
							       turn;
		until.tv_sec = (time_t)(wake / UINT64_C(1000000000));
		until.tv_nsec = (long)(wake % UINT64_C(1000000000));
		if (!workload->spin_sleep)
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		worker->now_ns = clock_ns();
	}
}

void worker_run(struct worker *worker, uint64_t quota, uint64_t deadline_ns)
{
	const bool load = worker->load->phase == PHASE_LOAD;
	const uint64_t start = clock_ns();
	uint64_t done = 0;

	worker->now_ns = start;
	while (!worker->status && (!quota || done < quota) &&
	       (!deadline_ns || worker->now_ns < deadline_ns) &&
	       !atomic_load_explicit(&worker->load->stop, memory_order_relaxed)) {
		if (load)
			load_next(worker);
		else
			transaction(worker);
		count_done(worker, 1);
		done++;
		throttle(worker, start, done);
	}
	if (!worker->status)
		reads_flush(worker);
	/* What was chosen but never sent was not done. */
	count_done(worker, (uint64_t)0 - worker->queued);
	worker->queued = 0;
}

void worker_reset(struct worker *worker)
{
	int i;

	for (i = 0; i < OPERATION_COUNT; i++) {
		hist_init(&worker->stats[i].latency);
		worker->stats[i].not_found = 0;
		worker->stats[i].failed = 0;
	}
	atomic_store(&worker->done, 0);
	atomic_store(&worker->failed, 0);
}

bool worker_connect(struct worker *worker)
{
	const struct workload *workload = worker->load->workload;
	struct kvd_options options;

	kvd_options_init(&options);
	options.timeout_ms = (uint32_t)workload->timeout_ms;
	options.connect_timeout_ms = (uint32_t)workload->connect_timeout_ms;
	options.cache_bytes = workload->cache_bytes;
	options.spin_us = (uint32_t)workload->spin_us;
	options.get_tries = (uint32_t)workload->get_tries;
	worker->status = kvd_open(&worker->handle, worker->load->url, &options);
	if (worker->status)
		snprintf(worker->error, sizeof(worker->error), "%s", kvd_error(NULL));
	return worker->status == KVD_OK;
}

static void requests_init(struct worker *worker)
{
	unsigned int i;

	for (i = 0; i < worker->load->batch; i++) {
		worker->requests[i].key = worker->slots[i].key;
		worker->requests[i].value = worker->values + i * worker->value_size;
		worker->requests[i].value_size = worker->value_size;
	}
}

int worker_init(struct worker *worker, struct load *load, unsigned int id, uint64_t seed)
{
	const struct workload *workload = load->workload;
	const uint64_t lengths = workload->field_length - workload->field_length_min + 1;

	memset(worker, 0, sizeof(*worker));
	worker->load = load;
	random_init(&worker->random, seed + id);
	worker->writer = random_next(&worker->random);
	worker->value_size = workload_record_max(workload);
	worker->requests = calloc(load->batch, sizeof(*worker->requests));
	worker->slots = calloc(load->batch, sizeof(*worker->slots));
	worker->values = calloc(load->batch + 1, worker->value_size);
	if (workload->field_lengths != LENGTH_CONSTANT)
		worker->field_lengths = calloc(workload->field_count, sizeof(uint32_t));
	if (!worker->requests || !worker->slots || !worker->values ||
	    (workload->field_lengths != LENGTH_CONSTANT && !worker->field_lengths)) {
		worker_release(worker);
		return -ENOMEM;
	}
	if (workload->field_lengths == LENGTH_ZIPFIAN)
		zipfian_init(&worker->lengths, lengths);
	key_chooser_init(&worker->chooser, &load->keys);
	requests_init(worker);
	worker_reset(worker);
	return 0;
}

void worker_release(struct worker *worker)
{
	kvd_close(worker->handle);
	free(worker->requests);
	free(worker->slots);
	free(worker->values);
	free(worker->field_lengths);
	memset(worker, 0, sizeof(*worker));
}
