/* SPDX-License-Identifier: MIT */
/* Submits operations and takes them back: see under_way.h. */
#include "bench/under_way.h"

#include <string.h>

#include "bench/record.h"
#include "common/util/clock.h"

#define MS_NS UINT64_C(1000000)

static void submit_later(struct under_way *all, struct place *place)
{
	all->list[all->ready++] = &place->op;
}

static void prepare_get(struct client *client, struct place *place, size_t key_len)
{
	/* So that an older record in this buffer is not taken for the response. */
	memset(place->value, 0, RECORD_HEADER_SIZE);
	kvd_prep_get(&place->op, place->key, key_len, place->value, client->value_size);
	submit_later(&client->under_way, place);
}

static void prepare_put(struct client *client, struct place *place, size_t key_len)
{
	const size_t len = client_build_next(client, place->value, place->key, key_len);

	kvd_prep_put(&place->op, place->key, key_len, place->value, len, NULL);
	submit_later(&client->under_way, place);
}

static void place_start(struct client *client, enum operation operation, uint64_t number)
{
	struct under_way *all = &client->under_way;
	struct place *place = all->free[--all->free_count];
	size_t key_len;

	place->operation = operation;
	place->number = number;
	place->start_ns = 0;
	place->failed = false;
	key_len = workload_key(client->load->workload, number, place->key);
	if (operation == OPERATION_READ || operation == OPERATION_RMW)
		prepare_get(client, place, key_len);
	else
		prepare_put(client, place, key_len);
}

/* Prepares one operation. False: it is an INSERT that has to wait for others. */
static bool start_next(struct client *client)
{
	struct load *load = client->load;
	struct under_way *all = &client->under_way;
	enum operation operation = OPERATION_INSERT;
	uint64_t number;

	if (load->phase == PHASE_LOAD) {
		place_start(client, operation, atomic_fetch_add(&load->next_record, 1));
		return true;
	}
	if (!all->insert_waits)
		operation = client_choose(client);
	if (operation != OPERATION_INSERT) {
		number = key_chooser_next(&client->chooser, &client->random);
	} else {
		all->insert_waits = !counter_take(&load->keys.inserted, &number);
		if (all->insert_waits)
			return false;
	}
	place_start(client, operation, number);
	return true;
}

static void place_end(struct client *client, struct place *place)
{
	struct under_way *all = &client->under_way;

	/* Acknowledged even if it failed, as in YCSB: else no later record could ever be read. */
	if (place->operation == OPERATION_INSERT && client->load->phase == PHASE_RUN)
		counter_acknowledge(&client->load->keys.inserted, place->number);
	all->free[all->free_count++] = place;
	client_count_done(client, 1);
}

/* Takes a GET that has ended. */
static void get_end(struct client *client, struct place *place)
{
	const struct kvd_op *op = &place->op;
	const struct kvd_get_request request = {
		.key = op->key,
		.key_len = op->key_len,
		.value = op->value,
		.value_size = op->value_len,
		.status = op->status,
		.item = op->item,
	};

	client_read_done(client, &request, client->now_ns - place->submit_ns);
	place->failed = op->status != KVD_OK && op->status != KVD_NOT_FOUND;
	if (place->operation == OPERATION_RMW && !client->status)
		prepare_put(client, place, op->key_len);
	else
		place_end(client, place);
}

static void put_end(struct client *client, struct place *place)
{
	const struct kvd_op *op = &place->op;
	const bool rmw = place->operation == OPERATION_RMW;
	const enum operation operation = rmw ? OPERATION_UPDATE : place->operation;

	if (op->status)
		client_failed(client, operation, op->key, op->key_len, op->status);
	else
		hist_record(&client->stats[operation].latency, client->now_ns - place->submit_ns);
	if (rmw && !op->status && !place->failed)
		hist_record(&client->stats[OPERATION_RMW].latency,
			    client->now_ns - place->start_ns);
	place_end(client, place);
}

static void op_end(struct client *client, struct kvd_op *op)
{
	struct place *place = (struct place *)op;

	if (op->op == KVD_OP_GET)
		get_end(client, place);
	else
		put_end(client, place);
}

/* Submits what is prepared: all, or nothing, and then each operation has failed. */
static void submit(struct client *client)
{
	struct under_way *all = &client->under_way;
	const unsigned int count = all->ready;
	const uint64_t now = clock_ns();
	enum kvd_status status;
	struct place *place;
	unsigned int i;

	if (!count)
		return;
	for (i = 0; i < count; i++) {
		place = (struct place *)all->list[i];
		place->submit_ns = now;
		if (!place->start_ns)
			place->start_ns = now;
	}
	status = client->load->target.backend->submit(client->db, all->list, count);
	all->ready = 0;
	if (!status) {
		all->busy += count;
		return;
	}
	client->now_ns = now;
	/* A failed GET of a read-modify-write may add to the list, but only after what was read. */
	for (i = 0; i < count; i++) {
		all->list[i]->status = status;
		op_end(client, all->list[i]);
	}
}

/* Takes back operations that have ended; waits up to @timeout_ms for one. */
static void take(struct client *client, uint32_t timeout_ms)
{
	struct under_way *all = &client->under_way;
	size_t count, i;

	count = client->load->target.backend->wait(client->db, all->done,
						   client->load->target.depth, timeout_ms);
	all->busy -= (unsigned int)count;
	client->now_ns = clock_ns();
	for (i = 0; i < count; i++)
		op_end(client, all->done[i]);
}

/*
 * How long to wait for an operation to end, in ms: until @turn_ns if the next operation has to wait
 * for its turn, or until it is time to check again whether an INSERT may start.
 */
static uint32_t wait_ms(const struct client *client, uint64_t turn_ns)
{
	if (client->under_way.insert_waits)
		return 1;
	if (turn_ns <= client->now_ns)
		return UINT32_MAX;
	if (turn_ns - client->now_ns >= CLIENT_NAP_NS)
		return CLIENT_NAP_NS / MS_NS;
	return (uint32_t)((turn_ns - client->now_ns) / MS_NS) + 1;
}

void under_way_run(struct client *client, uint64_t quota, uint64_t deadline_ns)
{
	struct under_way *all = &client->under_way;
	const uint64_t start = clock_ns();
	uint64_t started = 0, turn;
	bool goes_on;

	client->now_ns = start;
	do {
		turn = start;
		goes_on = client_goes_on(client, started, quota, deadline_ns);
		while (goes_on && all->free_count && (!quota || started < quota)) {
			turn = client_turn(client, start, started, deadline_ns);
			if (client->now_ns < turn || !start_next(client))
				break;
			started++;
		}
		submit(client);
		if (all->busy)
			take(client, wait_ms(client, turn));
		else if (goes_on && !all->ready && (turn > client->now_ns || all->insert_waits))
			client_nap(client, all->insert_waits ? client->now_ns + MS_NS : turn);
	} while (goes_on || all->busy || all->ready);
	all->insert_waits = false;
}
