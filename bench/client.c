/* SPDX-License-Identifier: MIT */
/*
 * Does the operations of a client thread: see client.h. They are YCSB's (CoreWorkload.java,
 * doTransaction...()):
 *
 *	READ			GET, every byte checked
 *	UPDATE			PUT of a new record, without reading the old one
 *	INSERT			PUT of the next record
 *	READ-MODIFY-WRITE	GET, then PUT; timed as a whole and also as READ and UPDATE
 *
 * With a batch size above 1 the GETs of READs are collected and sent together; the latency of each
 * is that of the batch. With a depth above 1 several operations are under way at a time instead:
 * see under_way.h.
 */
#include "bench/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/record.h"
#include "common/util/clock.h"

static const char *const operation_names[OPERATION_COUNT] = { "READ", "UPDATE", "INSERT",
							      "READ-MODIFY-WRITE" };

static bool may_complain(_Atomic int *shown)
{
	return atomic_fetch_add(shown, 1) < CLIENT_COMPLAINTS_MAX;
}

/* Whether nothing can succeed after it. Of a fleet one member may be away, and the others not. */
static bool is_fatal(const struct load *load, enum kvd_status status)
{
	return db_status_is_fatal(status) &&
	       !(status == KVD_ERR_AWAY && !strncmp(load->target.url, "fleet", strlen("fleet")));
}

void client_failed(struct client *client, enum operation operation, const void *key, size_t key_len,
		   enum kvd_status status)
{
	struct load *load = client->load;
	const char *more = db_error(client->db);

	client->stats[operation].failed++;
	atomic_fetch_add_explicit(&client->failed, 1, memory_order_relaxed);
	if (status == KVD_ERR_BUFFER)
		more = "the stored record is longer than fieldcount and fieldlength allow";
	if (may_complain(&load->failures_shown))
		fprintf(stderr, "kvbench: %s of %.*s failed: %s%s%s\n", operation_names[operation],
			(int)key_len, (const char *)key, kvd_status_text(status), *more ? ": " : "",
			more);
	/* As in YCSB, a thread that loads gives up at its first failure. */
	if (!is_fatal(load, status) && load->phase == PHASE_RUN)
		return;
	client->status = status;
	snprintf(client->error, sizeof(client->error), "%s", more);
	if (is_fatal(load, status))
		atomic_store(&load->stop, true);
}

static void value_check(struct client *client, const struct kvd_get_request *request)
{
	struct record_fault fault;

	if (!client->load->workload->check || !record_check(request->value, request->item.value_len,
							    request->key, request->key_len, &fault))
		return;
	client->wrong++;
	if (!may_complain(&client->load->wrong_shown))
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

void client_read_done(struct client *client, const struct kvd_get_request *request, uint64_t ns)
{
	struct operation_stats *stats = &client->stats[OPERATION_READ];

	if (request->status != KVD_OK && request->status != KVD_NOT_FOUND) {
		client_failed(client, OPERATION_READ, request->key, request->key_len,
			      request->status);
		return;
	}
	hist_record(&stats->latency, ns);
	if (request->status == KVD_NOT_FOUND)
		stats->not_found++;
	else
		value_check(client, request);
}

void client_count_done(struct client *client, uint64_t operations)
{
	const uint64_t done = atomic_load_explicit(&client->done, memory_order_relaxed);

	atomic_store_explicit(&client->done, done + operations, memory_order_relaxed);
}

/* Sends the collected GETs. */
static void reads_flush(struct client *client)
{
	const uint64_t start = clock_ns();
	unsigned int i;

	if (!client->queued)
		return;
	db_get(client->db, client->requests, client->queued);
	client->now_ns = clock_ns();
	for (i = 0; i < client->queued; i++)
		client_read_done(client, &client->requests[i], client->now_ns - start);
	client->queued = 0;
}

static void read_queue(struct client *client, uint64_t number)
{
	struct kvd_get_request *request = &client->requests[client->queued++];

	request->key_len = workload_key(client->load->workload, number, (char *)request->key);
	/* So that an older record in this buffer is not taken for the response. */
	memset(request->value, 0, RECORD_HEADER_SIZE);
}

static uint32_t field_length(struct client *client)
{
	const struct workload *workload = client->load->workload;
	const uint64_t min = workload->field_length_min;
	const uint64_t range = workload->field_length - min + 1;

	if (workload->field_lengths == LENGTH_ZIPFIAN)
		return (uint32_t)(min + zipfian_next(&client->lengths, &client->random, range));
	return (uint32_t)(min + random_below(&client->random, range));
}

size_t client_build_next(struct client *client, void *record, const char *key, size_t key_len)
{
	const struct workload *workload = client->load->workload;
	const struct record_shape shape = {
		.field_count = (uint32_t)workload->field_count,
		.length = (uint32_t)workload->field_length,
		.lengths = client->field_lengths,
	};
	const struct record_generation generation = { client->writer, ++client->counter };
	uint32_t i;

	for (i = 0; client->field_lengths && i < shape.field_count; i++)
		client->field_lengths[i] = field_length(client);
	record_build(record, &shape, &generation, key, key_len);
	return record_size(&shape);
}

/* PUTs a new record under the key of @number. */
static void write_one(struct client *client, enum operation operation, uint64_t number)
{
	uint8_t *record = client->values + client->load->batch * client->value_stride;
	char key[WORKLOAD_KEY_MAX];
	const size_t key_len = workload_key(client->load->workload, number, key);
	const struct db_change change = {
		.key = key,
		.key_len = key_len,
		.value = record,
		.value_len = client_build_next(client, record, key, key_len),
	};
	const uint64_t start = clock_ns();
	enum kvd_status status;

	status = db_put(client->db, &change, 1);
	client->now_ns = clock_ns();
	if (status == KVD_OK)
		hist_record(&client->stats[operation].latency, client->now_ns - start);
	else
		client_failed(client, operation, key, key_len, status);
}

/* Inserts the next record of the run phase. */
static void insert_next(struct client *client)
{
	struct counter *inserted = &client->load->keys.inserted;
	const struct timespec nap = { .tv_nsec = 1000000 };
	uint64_t number;

	/* Waits for another thread's insert, at most until it times out. */
	while (!counter_take(inserted, &number)) {
		if (atomic_load(&client->load->stop))
			return;
		nanosleep(&nap, NULL);
	}
	write_one(client, OPERATION_INSERT, number);
	/* Acknowledged even if it failed, as in YCSB: else no later record could ever be read. */
	counter_acknowledge(inserted, number);
}

static void read_modify_write(struct client *client, uint64_t number)
{
	struct operation_stats *stats = client->stats;
	const uint64_t failed = stats[OPERATION_READ].failed + stats[OPERATION_UPDATE].failed;
	uint64_t start;

	reads_flush(client);
	if (client->status)
		return;
	start = clock_ns();
	read_queue(client, number);
	reads_flush(client);
	if (client->status)
		return;
	write_one(client, OPERATION_UPDATE, number);
	if (stats[OPERATION_READ].failed + stats[OPERATION_UPDATE].failed == failed)
		hist_record(&stats[OPERATION_RMW].latency, client->now_ns - start);
}

enum operation client_choose(struct client *client)
{
	const double *weights = client->load->workload->proportions;
	double sum = 0, at;
	int i, last = 0;

	for (i = 0; i < OPERATION_COUNT; i++)
		sum += weights[i];
	at = random_double(&client->random) * sum;
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

static void transaction(struct client *client)
{
	const enum operation operation = client_choose(client);
	uint64_t number;

	if (operation == OPERATION_INSERT) {
		insert_next(client);
		return;
	}
	number = key_chooser_next(&client->chooser, &client->random);
	if (operation == OPERATION_UPDATE) {
		write_one(client, OPERATION_UPDATE, number);
	} else if (operation == OPERATION_RMW) {
		read_modify_write(client, number);
	} else {
		read_queue(client, number);
		if (client->queued == client->load->batch)
			reads_flush(client);
	}
}

static void load_next(struct client *client)
{
	write_one(client, OPERATION_INSERT, atomic_fetch_add(&client->load->next_record, 1));
}

uint64_t client_turn(const struct client *client, uint64_t start_ns, uint64_t done,
		     uint64_t deadline_ns)
{
	const struct workload *workload = client->load->workload;
	uint64_t turn_ns;

	if (!workload->target)
		return start_ns;
	turn_ns = start_ns + (uint64_t)((double)done * 1e9 * (double)workload->threads /
					(double)workload->target);
	return deadline_ns && deadline_ns < turn_ns ? deadline_ns : turn_ns;
}

void client_nap(struct client *client, uint64_t until_ns)
{
	struct timespec until;
	uint64_t wake = client->now_ns + CLIENT_NAP_NS;

	if (wake > until_ns)
		wake = until_ns;
	until.tv_sec = (time_t)(wake / UINT64_C(1000000000));
	until.tv_nsec = (long)(wake % UINT64_C(1000000000));
	if (!client->load->workload->spin_sleep)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	client->now_ns = clock_ns();
}

/* Waits for this thread's turn if the property target limits the rate. */
static void throttle(struct client *client, uint64_t start_ns, uint64_t done, uint64_t deadline_ns)
{
	const uint64_t turn = client_turn(client, start_ns, done, deadline_ns);

	while (client->now_ns < turn && !atomic_load(&client->load->stop))
		client_nap(client, turn);
}

bool client_goes_on(const struct client *client, uint64_t done, uint64_t quota,
		    uint64_t deadline_ns)
{
	return !client->status && (!quota || done < quota) &&
	       (!deadline_ns || client->now_ns < deadline_ns) &&
	       !atomic_load_explicit(&client->load->stop, memory_order_relaxed);
}

void client_run(struct client *client, uint64_t quota, uint64_t deadline_ns)
{
	const bool load = client->load->phase == PHASE_LOAD;
	const uint64_t start = clock_ns();
	uint64_t done = 0;

	client->now_ns = start;
	while (client_goes_on(client, done, quota, deadline_ns)) {
		if (load)
			load_next(client);
		else
			transaction(client);
		client_count_done(client, 1);
		done++;
		throttle(client, start, done, deadline_ns);
	}
	if (!client->status)
		reads_flush(client);
	/* GETs that were not sent do not count. */
	client_count_done(client, (uint64_t)0 - client->queued);
	client->queued = 0;
}

void client_reset(struct client *client)
{
	int i;

	for (i = 0; i < OPERATION_COUNT; i++) {
		hist_init(&client->stats[i].latency);
		client->stats[i].not_found = 0;
		client->stats[i].failed = 0;
	}
	atomic_store(&client->done, 0);
	atomic_store(&client->failed, 0);
}

static void values_set(struct client *client, uint8_t *values)
{
	unsigned int i;

	client->values = values;
	for (i = 0; client->under_way.places && i < client->load->target.depth; i++)
		client->under_way.places[i].value = values + i * client->value_stride;
	for (i = 0; client->requests && i < client->load->batch; i++) {
		client->requests[i].key = client->slots[i].key;
		client->requests[i].value = client->values + i * client->value_stride;
		client->requests[i].value_size = client->value_size;
	}
}

/* Allocates values that the store's device may access; this needs the connection. */
static enum kvd_status values_register(struct client *client)
{
	enum kvd_status status;
	void *values;

	status = client->load->target.backend->alloc(client->db, client->values_bytes, &values,
						     &client->memory);
	if (status)
		snprintf(client->error, sizeof(client->error), "memory for values: %s",
			 db_error(client->db));
	else
		values_set(client, values);
	return status;
}

bool client_connect(struct client *client)
{
	const struct load *load = client->load;
	const struct workload *workload = load->workload;
	struct kvd_options options;

	kvd_options_init(&options);
	options.timeout_ms = (uint32_t)workload->timeout_ms;
	options.connect_timeout_ms = (uint32_t)workload->connect_timeout_ms;
	options.cache_bytes = workload->cache_bytes;
	options.spin_us = (uint32_t)workload->spin_us;
	options.get_tries = (uint32_t)workload->get_tries;
	if (client->under_way.places)
		options.depth = load->target.depth;
	client->status = db_open(&client->db, &load->target, &options, client->error);
	if (!client->status && load->registered)
		client->status = values_register(client);
	return client->status == KVD_OK;
}

static bool under_way_init(struct under_way *all, unsigned int depth)
{
	all->places = calloc(depth, sizeof(*all->places));
	all->free = calloc(depth, sizeof(struct place *));
	all->list = calloc(depth, sizeof(struct kvd_op *));
	all->done = calloc(depth, sizeof(struct kvd_op *));
	if (!all->places || !all->free || !all->list || !all->done)
		return false;
	while (all->free_count < depth) {
		all->free[all->free_count] = &all->places[all->free_count];
		all->free_count++;
	}
	return true;
}

static void under_way_release(struct under_way *all)
{
	free(all->places);
	free(all->free);
	free(all->list);
	free(all->done);
}

/* Allocates what sequential operations need, or several that are under way together. */
static bool operations_init(struct client *client)
{
	const struct load *load = client->load;

	if (load->target.depth > 1)
		return under_way_init(&client->under_way, load->target.depth);
	client->requests = calloc(load->batch, sizeof(*client->requests));
	client->slots = calloc(load->batch, sizeof(*client->slots));
	return client->requests && client->slots;
}

static bool values_init(struct client *client)
{
	const struct load *load = client->load;
	const size_t count = client->under_way.places ? load->target.depth : load->batch + 1;
	uint8_t *values;

	client->value_size = workload_record_max(load->workload);
	client->value_stride = (client->value_size + 63) & ~(size_t)63;
	client->values_bytes = count * client->value_stride;
	if (load->registered)
		return true;
	values = calloc(count, client->value_stride);
	if (values)
		values_set(client, values);
	return values != NULL;
}

int client_setup(struct client *client, struct load *load, unsigned int id, uint64_t seed)
{
	const struct workload *workload = load->workload;
	const uint64_t lengths = workload->field_length - workload->field_length_min + 1;

	memset(client, 0, sizeof(*client));
	client->load = load;
	random_init(&client->random, seed + id);
	client->writer = random_next(&client->random);
	if (workload->field_lengths != LENGTH_CONSTANT)
		client->field_lengths = calloc(workload->field_count, sizeof(uint32_t));
	if (!operations_init(client) || !values_init(client) ||
	    (workload->field_lengths != LENGTH_CONSTANT && !client->field_lengths)) {
		client_teardown(client);
		return -ENOMEM;
	}
	if (workload->field_lengths == LENGTH_ZIPFIAN)
		zipfian_init(&client->lengths, lengths);
	key_chooser_init(&client->chooser, &load->keys);
	client_reset(client);
	return 0;
}

void client_teardown(struct client *client)
{
	db_close(client->db);
	if (client->memory)
		kvd_free(client->memory);
	else
		free(client->values);
	free(client->requests);
	free(client->slots);
	under_way_release(&client->under_way);
	free(client->field_lengths);
	memset(client, 0, sizeof(*client));
}
