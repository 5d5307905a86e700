/* SPDX-License-Identifier: MIT */
/* One run: the threads, the clients' operations, their records, and the judgement. */
#include "tests/sim/run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "common/util/splitmix.h"
#include "tests/linearizability/lin_kvd.h"
#include "tests/sim/calls.h"
#include "tests/sim/sched.h"
#include "tests/support/local_server.h"

#define KEY_BYTES 16
#define VALUE_BYTES_MAX (700u << 10)
#define LARGE_BYTES 3000u
#define FILLER_LARGE_BYTES (300u << 10)
#define PIECE_BYTES_MAX 32
#define BATCH_MAX 5
#define FILLERS_FIRST 240
#define FILLER_BATCH 8
#define FILLERS_LARGE_FIRST 40
#define TTL_S 1
#define CALL_MS 20000
#define OPEN_NS 60000000000ull
#define STEPS_MAX 400000000ul
#define DISTURB_ROUNDS 6
#define RESTARTS 2
#define FILL 30 /* percent: so the few keys of a run make the index grow */

/* What a GET has returned. */
struct stale {
	struct lin_value value;
	uint64_t version;
};

struct client {
	unsigned int number;
	uint64_t random, serial;
	struct kvd *kvd;
	int fd;
	bool lost;
	uint64_t fillers; /* put, one after the other */
	uint64_t versions[RUN_KEYS_MAX];
	struct stale stale[RUN_KEYS_MAX];
	struct lin_log log;
	pthread_t thread;
	uint8_t *values[BATCH_MAX];
};

static const struct run_params *params;
static const char *url;
static struct client clients[RUN_CLIENTS_MAX];
static struct lin_log disturber_log;
static atomic_uint clients_running;
static uint32_t generation; /* of the server */

const char *run_feature_name(enum run_feature number)
{
#define X(name, text) text,
	static const char *const names[] = { RUN_FEATURES(X) };
#undef X

	return names[number];
}

static bool has(uint32_t feature)
{
	return params->features & feature;
}

/* Whether operations may end without a result. */
static bool has_faults(void)
{
	return has(RUN_CLOSE | RUN_RESET | RUN_RESTART);
}

void run_params_draw(struct run_params *to, uint64_t seed)
{
	static const uint8_t odds[RUN_FEATURE_COUNT] = { 2, 2, 3, 4, 2, 4, 6, 6, 6 };
	uint64_t random = seed * 0xd1342543de82ef95;
	unsigned int i;

	*to = (struct run_params){ .seed = seed, .schedule = seed, .disturbances = UINT64_MAX };
	to->clients = 2 + splitmix_next(&random) % (RUN_CLIENTS_MAX - 1);
	to->ops = 8 + splitmix_next(&random) % 25;
	to->keys = 1 + splitmix_next(&random) % RUN_KEYS_MAX;
	for (i = 0; i < RUN_FEATURE_COUNT; i++)
		if (splitmix_next(&random) % odds[i] == 0)
			to->features |= 1u << i;
}

static void key_make(uint8_t *key, char kind, uint32_t owner, uint64_t number)
{
	memset(key, 0, KEY_BYTES);
	key[0] = (uint8_t)kind;
	memcpy(key + 4, &owner, sizeof(owner));
	memcpy(key + 8, &number, sizeof(number));
}

static uint32_t value_make(struct client *c, uint32_t key, uint8_t *to, bool piece)
{
	uint64_t r = splitmix_next(&c->random);
	uint32_t len = 16 + (uint32_t)(r >> 8) % 200;

	if (key % 3 == 1 && r % 8)
		return (uint32_t)snprintf((char *)to, PIECE_BYTES_MAX, "%u",
					  (unsigned int)(r % 1000));
	if (piece)
		len = 16 + len % 16;
	else if (has(RUN_LARGE) && (r >> 32) % 4 == 0)
		len = LARGE_BYTES << (r >> 40) % 7;
	memset(to, (int)r, len);
	c->serial++;
	memcpy(to, &c->serial, 8);
	memcpy(to + 8, &c->number, 4);
	memcpy(to + len - 4, &c->serial, 4);
	return len;
}

static void client_open(struct client *c)
{
	uint64_t r = splitmix_next(&c->random), until_ns = clock_ns() + OPEN_NS;
	struct kvd_options options;
	enum kvd_status status;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = CALL_MS;
	options.spin_us = r % 3 * 10;
	options.cache_bytes = (r >> 8) % 4 ? 64 << 10 : 0;
	options.depth = 1 + (r >> 16) % 4;
	options.get_tries = (r >> 24) % 4 ? 16 : 2;
	while ((status = kvd_open(&c->kvd, url, &options)))
		if (!has_faults() || clock_ns() > until_ns)
			sim_wrong("client %u: kvd_open: %s: %s", c->number, kvd_status_text(status),
				  kvd_error(NULL));
	c->fd = (r >> 32) % 2 ? kvd_fd(c->kvd) : -1;
	c->lost = false;
}

static void prep_put(struct client *c, struct kvd_op *op, const uint8_t *key, uint32_t number,
		     uint8_t *value)
{
	static const uint8_t modes[] = { KVD_PUT_SET,	     KVD_PUT_SET,	 KVD_PUT_SET,
					 KVD_PUT_SET,	     KVD_PUT_IF_ABSENT,	 KVD_PUT_IF_PRESENT,
					 KVD_PUT_IF_VERSION, KVD_PUT_IF_VERSION, KVD_PUT_APPEND,
					 KVD_PUT_PREPEND };
	uint64_t r = splitmix_next(&c->random);
	struct kvd_put_args args = { .mode = modes[r % sizeof(modes)] };
	bool piece = args.mode == KVD_PUT_APPEND || args.mode == KVD_PUT_PREPEND;

	if (args.mode == KVD_PUT_IF_VERSION)
		args.if_version = c->versions[number] ? c->versions[number] : 1;
	if (!piece && has(RUN_EXPIRE) && (r >> 16) % 2)
		args.ttl_s = TTL_S;
	kvd_prep_put(op, key, KEY_BYTES, value, value_make(c, number, value, piece), &args);
}

static void prep(struct client *c, struct kvd_op *op, const uint8_t *key, uint32_t number,
		 uint8_t *value)
{
	uint64_t r = splitmix_next(&c->random) % 16, delta = splitmix_next(&c->random) % 50;

	if (r < 6)
		kvd_prep_get(op, key, KEY_BYTES, value, VALUE_BYTES_MAX);
	else if (r < 7)
		kvd_prep_get_by_request(op, key, KEY_BYTES, value, VALUE_BYTES_MAX);
	else if (r < 8)
		kvd_prep_incr(op, key, KEY_BYTES, delta, NULL);
	else if (r < 9)
		kvd_prep_decr(op, key, KEY_BYTES, delta, NULL);
	else if (r < 10)
		kvd_prep_touch(op, key, KEY_BYTES, has(RUN_EXPIRE) ? TTL_S : 3600);
	else if (r < 12)
		kvd_prep_delete(op, key, KEY_BYTES);
	else
		prep_put(c, op, key, number, value);
}

/* Half of the operations are on the first one. */
static uint32_t random_key(struct client *c)
{
	uint64_t r = splitmix_next(&c->random);

	return r & 1 ? 0 : (uint32_t)((r >> 8) % params->keys);
}

static int64_t record_call(struct client *c, const struct kvd_op *op, uint32_t number)
{
	struct lin_op lin = lin_kvd_call(op, number);

	if (op->op == KVD_OP_PUT || op->op == KVD_OP_TOUCH)
		lin.mortal = has(RUN_EXPIRE) && (op->op == KVD_OP_TOUCH || lin.kind == LIN_PUT ||
						 lin.kind == LIN_ADD || lin.kind == LIN_REPLACE ||
						 lin.kind == LIN_CAS);
	return lin_call(&c->log, &lin);
}

static enum lin_status result_of(struct client *c, enum kvd_status status, const char *what)
{
	switch (status) {
	case KVD_OK:
		return LIN_OK;
	case KVD_NOT_FOUND:
		return LIN_NOT_FOUND;
	case KVD_ERR_EXISTS:
		return LIN_EXISTS;
	case KVD_ERR_NOT_A_NUMBER:
		return LIN_NOT_NUMBER;
	case KVD_ERR_BUSY:
	case KVD_ERR_NO_SPACE:
	case KVD_ERR_AWAY:
		return LIN_NO_EFFECT;
	case KVD_ERR_UNKNOWN:
	case KVD_ERR_DISCONNECTED:
		c->lost = true;
		if (has_faults())
			return LIN_UNKNOWN;
		/* fallthrough */
	default:
		sim_wrong("client %u: %s: %s: %s", c->number, what, kvd_status_text(status),
			  kvd_error(c->kvd));
	}
}

static void record_return(struct client *c, int64_t index, const struct kvd_op *op)
{
	uint64_t now_ns = clock_ns();
	enum lin_status status = result_of(c, op->status, "an operation");
	bool ok = !op->status;
	struct lin_value value;
	const struct lin_value *result = lin_kvd_value(op, &value);
	uint64_t version = ok ? op->item.version : 0;

	/* As if it had a cache that nobody invalidates. */
	if (params->broken && ok && op->op == KVD_OP_GET && index >= 0) {
		struct stale *stale = &c->stale[c->log.ops[index].key];

		if (stale->version) {
			value = stale->value;
			version = stale->version;
		}
		*stale = (struct stale){ value, version };
	}
	lin_return(&c->log, index, now_ns, status, version, result);
	if (ok && op->item.version && index >= 0)
		c->versions[c->log.ops[index].key] = op->item.version;
}

static void call(struct client *c)
{
	uint32_t number = random_key(c);
	uint8_t key[KEY_BYTES];
	struct kvd_op op;
	int64_t index;

	key_make(key, 'h', 0, number);
	do
		prep(c, &op, key, number, c->values[0]);
	while (op.op == KVD_OP_TOUCH || op.op == KVD_OP_DECR);
	index = record_call(c, &op, number);
	if (op.op == KVD_OP_GET) {
		op.status = kvd_get(c->kvd, key, KEY_BYTES, c->values[0], VALUE_BYTES_MAX,
				    &op.item);
	} else if (op.op == KVD_OP_GET_BY_REQUEST) {
		op.status = kvd_get_by_request(c->kvd, key, KEY_BYTES, c->values[0],
					       VALUE_BYTES_MAX, &op.item);
	} else if (op.op == KVD_OP_INCR) {
		op.status = kvd_incr(c->kvd, key, KEY_BYTES, op.delta, NULL, &op.number,
				     &op.item.version);
	} else if (op.op == KVD_OP_DELETE) {
		op.status = kvd_delete(c->kvd, key, KEY_BYTES);
	} else {
		const struct kvd_put_args args = { .mode = op.mode,
						   .if_version = op.if_version,
						   .ttl_s = op.ttl_s };

		op.status = kvd_put(c->kvd, key, KEY_BYTES, op.value, op.value_len, &args,
				    &op.item.version);
	}
	record_return(c, index, &op);
}

/* Waits for at least one of those that were submitted. */
static size_t take(struct client *c, struct kvd_op **done)
{
	struct pollfd fd = { c->fd, POLLIN, 0 };

	if (c->fd < 0)
		return kvd_wait(c->kvd, done, BATCH_MAX, 1, UINT32_MAX);
	if (!kvd_arm(c->kvd) && poll(&fd, 1, 2 * CALL_MS) != 1)
		sim_wrong("client %u: its descriptor did not become readable", c->number);
	return kvd_poll(c->kvd, done, BATCH_MAX);
}

static void batch(struct client *c)
{
	uint8_t keys[BATCH_MAX][KEY_BYTES];
	struct kvd_op ops[BATCH_MAX], *list[BATCH_MAX], *done[BATCH_MAX];
	int64_t index[BATCH_MAX];
	size_t i, n, count = 2 + splitmix_next(&c->random) % (BATCH_MAX - 1);
	bool leave = has(RUN_CLOSE) && splitmix_next(&c->random) % 4 == 0;

	for (i = 0; i < count; i++) {
		uint32_t number = random_key(c);

		key_make(keys[i], 'h', 0, number);
		prep(c, &ops[i], keys[i], number, c->values[i]);
		index[i] = record_call(c, &ops[i], number);
		ops[i].user = &index[i];
		list[i] = &ops[i];
	}
	if (kvd_submit(c->kvd, list, count)) {
		result_of(c, KVD_ERR_DISCONNECTED, "kvd_submit");
		return;
	}
	if (leave) {
		/* As if the process had ended: nobody looks at what comes. */
		kvd_close(c->kvd);
		client_open(c);
		return;
	}
	while (kvd_outstanding(c->kvd))
		for (n = take(c, done), i = 0; i < n; i++)
			record_return(c, *(int64_t *)done[i]->user, done[i]);
}

static void filler_put(struct client *c, uint32_t len)
{
	uint8_t key[KEY_BYTES];
	enum kvd_status status;

	key_make(key, 'f', c->number, c->fillers);
	memset(c->values[0], (int)c->fillers, len);
	status = kvd_put(c->kvd, key, KEY_BYTES, c->values[0], len, NULL, NULL);
	if (result_of(c, status, "PUT of a filler") == LIN_OK)
		c->fillers++;
}

/* One of one's own: only a restart or eviction takes it away. */
static void filler_get(struct client *c)
{
	uint64_t number = splitmix_next(&c->random) % (c->fillers + 1);
	struct kvd_item item;
	uint8_t key[KEY_BYTES];
	enum kvd_status status;
	enum lin_status result;

	if (number == c->fillers)
		return;
	key_make(key, 'f', c->number, number);
	status = kvd_get(c->kvd, key, KEY_BYTES, c->values[0], VALUE_BYTES_MAX, &item);
	result = result_of(c, status, "GET of a filler");
	if (result == LIN_NOT_FOUND && !has(RUN_EVICT | RUN_RESTART))
		sim_wrong("client %u: filler %llu was not found", c->number,
			  (unsigned long long)number);
	if (result == LIN_OK && c->values[0][item.value_len - 1] != (uint8_t)number)
		sim_wrong("client %u: filler %llu has the value of another one", c->number,
			  (unsigned long long)number);
}

static void fill(struct client *c)
{
	unsigned int i;

	if (has(RUN_EVICT))
		filler_put(c, FILLER_LARGE_BYTES);
	for (i = 0; has(RUN_GROW) && i < FILLER_BATCH; i++)
		filler_put(c, 16);
	filler_get(c);
}

static void client_sleep(struct client *c)
{
	uint64_t ns = 1ull << (10 + splitmix_next(&c->random) % (has(RUN_EXPIRE) ? 20 : 12));

	nanosleep(&(struct timespec){ 0, (long)(ns % 1000000000) }, NULL);
}

static void *client_run(void *arg)
{
	struct client *c = arg;
	uint32_t i;

	for (i = 0; i < params->ops; i++) {
		uint64_t r = splitmix_next(&c->random) % 16;

		if (c->lost) {
			kvd_close(c->kvd);
			client_open(c);
		}
		if (has(RUN_BATCH | RUN_CLOSE) && r < 4)
			batch(c);
		else if (has(RUN_GROW | RUN_EVICT) && r < 8)
			fill(c);
		else if (r == 8)
			client_sleep(c);
		else
			call(c);
	}
	atomic_fetch_sub(&clients_running, 1);
	kvd_close(c->kvd);
	return NULL;
}

static const char *server_begin(void)
{
	const char *const options[] = {
		"memory.size=16m",
		"index.keys=0",
		"server.spin_time=5us",
		"memory.prefault=no",
		has(RUN_EVICT) ? "memory.eviction=object-hits" : "memory.eviction=none",
		NULL,
	};

	generation++;
	local_server_set_fill(FILL);
	return local_server_begin(options);
}

static void restart(void)
{
	struct lin_op op = { .kind = LIN_FLUSH };
	int64_t index[RUN_KEYS_MAX];
	uint32_t i;

	for (i = 0; i < params->keys; i++) {
		op.key = i;
		op.call_ns = clock_ns();
		index[i] = lin_call(&disturber_log, &op);
	}
	if (!local_server_end())
		sim_wrong("the server ended with an error");
	server_begin();
	for (i = 0; i < params->keys; i++)
		lin_return(&disturber_log, index[i], clock_ns(), LIN_OK, 0, NULL);
}

/* Disturbs the clients, for as long as there are any. */
static void disturber_run(void)
{
	uint64_t random = params->seed ^ 0x646973747572;
	unsigned int i, restarts = 0;

	for (i = 0; i < DISTURB_ROUNDS && atomic_load(&clients_running); i++) {
		long ns = 1l << (12 + splitmix_next(&random) % 10);

		nanosleep(&(struct timespec){ 0, ns }, NULL);
		if (has(RUN_RESTART) && restarts < RESTARTS && splitmix_next(&random) % 3 == 0) {
			restarts++;
			restart();
		} else if (has(RUN_RESET)) {
			sim_reset_one(splitmix_next(&random));
		}
	}
}

static void client_begin(struct client *c, unsigned int number)
{
	unsigned int i;

	c->number = number;
	c->random = params->seed << 8 | number;
	lin_log_init(&c->log, (uint16_t)number);
	for (i = 0; i < BATCH_MAX; i++)
		if (!(c->values[i] = malloc(VALUE_BYTES_MAX)))
			abort();
	client_open(c);
}

static int by_call(const void *a, const void *b)
{
	const struct lin_op *x = *(const struct lin_op *const *)a;
	const struct lin_op *y = *(const struct lin_op *const *)b;

	return x->call_ns < y->call_ns ? -1 : x->call_ns > y->call_ns;
}

/* All operations in the order of their calls. */
static void history_print(const struct lin_log *logs, unsigned int count)
{
#define X(name) #name,
	static const char *const kinds[] = { LIN_KIND_MAP(X) };
	static const char *const statuses[] = { LIN_STATUS_MAP(X) };
#undef X
	const struct lin_op **ops;
	size_t i, j, n = 0;

	for (i = 0; i < count; i++)
		n += logs[i].count;
	ops = calloc(n + 1, sizeof(struct lin_op *));
	if (!ops)
		abort();
	for (i = n = 0; i < count; i++)
		for (j = 0; j < logs[i].count; j++)
			ops[n++] = &logs[i].ops[j];
	qsort(ops, n, sizeof(ops[0]), by_call);
	for (i = 0; i < n; i++)
		fprintf(stderr,
			"%14llu to %14lld  client %u  key %u  %-8s %-9s version %llx "
			"value %.4s:%u\n",
			(unsigned long long)(ops[i]->call_ns - SIM_MONOTONIC_NS),
			ops[i]->return_ns == LIN_NEVER ?
				-1ll :
				(long long)(ops[i]->return_ns - SIM_MONOTONIC_NS),
			ops[i]->client, ops[i]->key, kinds[ops[i]->kind], statuses[ops[i]->status],
			(unsigned long long)ops[i]->version, "", ops[i]->value.len);
	free(ops);
}

static void judge(bool verbose)
{
	const struct lin_options options = { .vanish = has(RUN_EVICT) };
	struct lin_log logs[RUN_CLIENTS_MAX + 1];
	struct lin_result result;
	unsigned int i, n = 0;

	for (i = 0; i < params->clients; i++)
		logs[n++] = clients[i].log;
	logs[n++] = disturber_log;
	if (verbose)
		history_print(logs, n);
	if (lin_check(logs, n, &options, &result))
		sim_wrong("lin_check");
	if (result.verdict == LIN_RIGHT && lin_check_versions(logs, n, &result))
		sim_wrong("lin_check_versions");
	if (result.verdict == LIN_WRONG) {
		if (!verbose)
			history_print(logs, n);
		lin_explain(stderr, &result);
		sim_wrong("not linearizable");
	}
}

void run(const struct run_params *with, bool verbose)
{
	static const uint8_t tears[] = { 8, 16, 64, 200 };
	struct sim_options options = {
		.seed = with->schedule,
		.disturbances = with->disturbances,
		.steps_max = STEPS_MAX,
		.trace = verbose,
	};
	unsigned int i;

	params = with;
	sim_begin(&options);
	local_server_init();
	if (has(RUN_TEAR))
		local_server_tear(tears[params->seed % sizeof(tears)]);
	lin_log_init(&disturber_log, RUN_CLIENTS_MAX);
	url = server_begin();
	for (i = 0; i < params->clients; i++)
		client_begin(&clients[i], i);
	for (i = 0; has(RUN_GROW) && i < FILLERS_FIRST; i++)
		filler_put(&clients[0], 16);
	for (i = 0; has(RUN_EVICT) && i < FILLERS_LARGE_FIRST; i++)
		filler_put(&clients[1], FILLER_LARGE_BYTES);
	clients_running = params->clients;
	sim_disturb(true);
	for (i = 0; i < params->clients; i++)
		pthread_create(&clients[i].thread, NULL, client_run, &clients[i]);
	disturber_run();
	for (i = 0; i < params->clients; i++)
		pthread_join(clients[i].thread, NULL);
	sim_disturb(false);
	if (!local_server_end())
		sim_wrong("the server ended with an error");
	judge(verbose);
	printf("trace %016llx, %llu points, %llu disturbances, %llu us\n",
	       (unsigned long long)sim_trace(), (unsigned long long)sim_steps(),
	       (unsigned long long)sim_disturbances(), (unsigned long long)(sim_now() / 1000));
}
