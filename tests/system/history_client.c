/* SPDX-License-Identifier: MIT */
/* A thread of sys_history.c. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "tests/linearizability/lin_kvd.h"
#include "tests/system/sys_history.h"

#define BATCH_MAX 8
#define LARGE_ONE_IN 24
#define LARGE_BYTES (100u << 10)
#define SHORT_MS 1
/* The checker has to try each order of changes that have no result. */
#define SHORT_CHANGES_MAX 3
#define CANARY 0xee
#define CANARY_BYTES 64
#define TTL_S 3600
#define WAIT_MS 300000
#define ORDER_SHOWN 20

static void key_make(const struct client *c, uint8_t *key, char kind, uint32_t owner,
		     uint32_t number)
{
	memset(key, 0, KEY_BYTES);
	key[0] = (uint8_t)kind;
	memcpy(key + 4, &owner, sizeof(owner));
	memcpy(key + 8, &number, sizeof(number));
	memcpy(key + 16, &c->run->nonce, sizeof(c->run->nonce));
}

static uint32_t own_key(const struct client *c)
{
	return SHARED_KEYS + c->generation % GENERATIONS * CLIENTS + c->number;
}

/* Half of the operations are on one key, some on those that only one handle changes. */
static uint32_t random_key(struct client *c)
{
	uint64_t r = client_random(c), kind = r % 8;

	if (kind == 0)
		return own_key(&c->run->clients[(r >> 8) % CLIENTS]);
	return kind < 3 ? own_key(c) : kind < 6 ? 0 : (uint32_t)((r >> 8) % SHARED_KEYS);
}

/*
 * What may be done to a key of one handle: others don't change it. Its handle deletes it only while
 * the connection stays, or versions could begin again.
 */
static bool is_allowed(const struct client *c, const struct kvd_op *op, uint32_t number)
{
	return number < SHARED_KEYS || lin_kvd_is_get(op) ||
	       (number == own_key(c) && (op->op != KVD_OP_DELETE || c->run->stays));
}

/* A number for every third key, mostly; else bytes that no other change has. */
static uint32_t value_make(struct client *c, uint32_t key, uint8_t *to, bool piece)
{
	uint64_t r = client_random(c);
	uint32_t len = 16 + (uint32_t)(r >> 8) % 100;

	if (key % 3 == 1 && r % 16)
		return (uint32_t)snprintf((char *)to, CANARY_BYTES, "%u", (unsigned int)(r % 1000));
	if (!piece && (r >> 32) % LARGE_ONE_IN == 0)
		len = LARGE_BYTES + (uint32_t)(r >> 40) % LARGE_BYTES;
	unique_fill(to, len, ++c->serial, c->number);
	return len;
}

static void prep_put(struct client *c, struct kvd_op *op, uint32_t number, uint8_t *value)
{
	static const uint8_t modes[] = { KVD_PUT_SET,	     KVD_PUT_SET,	 KVD_PUT_SET,
					 KVD_PUT_IF_ABSENT,  KVD_PUT_IF_PRESENT, KVD_PUT_IF_VERSION,
					 KVD_PUT_IF_VERSION, KVD_PUT_APPEND,	 KVD_PUT_PREPEND };
	struct kvd_put_args args = { .mode = modes[client_random(c) % sizeof(modes)] };
	bool piece = args.mode == KVD_PUT_APPEND || args.mode == KVD_PUT_PREPEND;

	if (args.mode == KVD_PUT_IF_VERSION)
		args.if_version = c->versions[number] ? c->versions[number] : 1;
	kvd_prep_put(op, op->key, KEY_BYTES, value, value_make(c, number, value, piece), &args);
}

/*
 * A GET of a part, or to one buffer, or to adjacent pieces of it: long ones, to which values are
 * READ, or not.
 */
static void prep_get(struct client *c, struct kvd_op *op, const uint8_t *key, uint8_t *value,
		     struct iovec *pieces)
{
	uint64_t r = client_random(c);
	size_t at = 0, len;
	unsigned int i;

	if (r >> 8 & 1) {
		range_prep(c, op, key, value);
		return;
	}
	if (r % 2) {
		kvd_prep_get(op, key, KEY_BYTES, value, VALUE_BYTES_MAX);
		return;
	}
	for (i = 0; i < PIECES; i++, at += len) {
		len = r & 2 ? 4096 + client_random(c) % 60000 : client_random(c) % 40;
		if (i + 1 == PIECES)
			len = VALUE_BYTES_MAX - at;
		pieces[i] = (struct iovec){ value + at, len };
	}
	c->counts.in_pieces++;
	kvd_prep_getv(op, key, KEY_BYTES, pieces, PIECES);
}

/* This client sends no requests: only what it READs of a member tells it of a failover. */
static bool is_reader(const struct client *c)
{
	return c->run->loses && c->number == CLIENTS - 1;
}

static void prep_any(struct client *c, struct kvd_op *op, const uint8_t *key, uint32_t number,
		     uint8_t *value, struct iovec *pieces)
{
	uint64_t r = client_random(c) % 16, delta = client_random(c) % 50;

	op->key = key;
	if (r < 5 || is_reader(c))
		prep_get(c, op, key, value, pieces);
	else if (r < 6)
		kvd_prep_get_by_request(op, key, KEY_BYTES, value, VALUE_BYTES_MAX);
	else if (r < 7)
		kvd_prep_incr(op, key, KEY_BYTES, delta, NULL);
	else if (r < 8)
		kvd_prep_decr(op, key, KEY_BYTES, delta, NULL);
	else if (r < 9)
		kvd_prep_touch(op, key, KEY_BYTES, TTL_S);
	else if (r < 11)
		kvd_prep_delete(op, key, KEY_BYTES);
	else
		prep_put(c, op, number, value);
}

/* A random operation on a key. */
static void prep(struct client *c, struct kvd_op *op, const uint8_t *key, uint32_t number,
		 uint8_t *value, struct iovec *pieces)
{
	do
		prep_any(c, op, key, number, value, pieces);
	while (!is_allowed(c, op, number));
}

static enum lin_status result_of(struct client *c, const struct kvd_op *op)
{
	switch (op->status) {
	case KVD_OK:
		c->counts.ok++;
		return LIN_OK;
	case KVD_NOT_FOUND:
		c->counts.not_found++;
		return LIN_NOT_FOUND;
	case KVD_ERR_EXISTS:
		return LIN_EXISTS;
	case KVD_ERR_NOT_A_NUMBER:
		return LIN_NOT_NUMBER;
	case KVD_ERR_CANCELED:
		c->counts.canceled++;
		return LIN_NO_EFFECT;
	case KVD_ERR_AWAY:
	case KVD_ERR_MOVED:
		c->counts.away += op->status == KVD_ERR_AWAY;
		c->counts.moved += op->status == KVD_ERR_MOVED;
		return LIN_NO_EFFECT;
	case KVD_ERR_BUSY:
		return LIN_NO_EFFECT;
	case KVD_ERR_TIMEOUT:
		c->counts.timeouts++;
		return LIN_UNKNOWN;
	case KVD_ERR_UNKNOWN:
		c->lost = !c->run->restarts;
		c->counts.unknown++;
		return LIN_UNKNOWN;
	case KVD_ERR_DISCONNECTED:
	case KVD_ERR_DEVICE: /* a fault */
		c->lost = true;
		c->counts.unknown++;
		return LIN_UNKNOWN;
	default:
		die(kvd_status_text(op->status), kvd_error(c->kvd));
	}
	return LIN_UNKNOWN;
}

static int64_t record_call(struct client *c, const struct kvd_op *op, uint32_t number)
{
	const struct lin_op lin = lin_kvd_call(op, number);
	int64_t index = lin_call(&c->log, &lin);

	range_note_call(c, op, index);
	return index;
}

static void record_return(struct client *c, int64_t index, const struct kvd_op *op, uint64_t now_ns)
{
	enum lin_status status = result_of(c, op);
	struct lin_value value;

	if (index < 0)
		return;
	if (op->status == KVD_ERR_UNKNOWN && c->unknown_count < UNKNOWN_MAX)
		c->unknown[c->unknown_count++] = index;
	if (status == LIN_NO_EFFECT) {
		lin_return(&c->log, index, now_ns, status, 0, NULL);
		return;
	}
	lin_return(&c->log, index, now_ns, status, op->status ? 0 : op->item.version,
		   lin_kvd_value(op, &value));
	range_note_return(c, op, index);
	if (!op->status && op->item.version)
		c->versions[c->log.ops[index].key] = op->item.version;
}

static void place_ended(struct kvd_op *op, void *user)
{
	struct place *place = user;
	uint64_t now_ns = clock_ns();

	if (place->canceled && op->status != KVD_ERR_CANCELED)
		wrong("canceled, but not", 0, op->status, 0);
	record_return(place->client, place->index, op, now_ns);
	place->used = place->canceled = false;
	place->dirty = lin_kvd_is_get(op) && op->status;
	if (place->dirty)
		memset(place->value, CANARY, CANARY_BYTES);
}

static void place_check(struct place *place)
{
	for (unsigned int i = 0; place->dirty && i < CANARY_BYTES; i++)
		if (place->value[i] != CANARY)
			wrong("written after its end", 0, i, place->value[i]);
	place->dirty = false;
}

static struct place *place_take(struct client *c)
{
	unsigned int count = c->run->restarts ? PLACES_RESTART : PLACES;

	for (unsigned int i = 0; i < count; i++) {
		if (c->places[i].used)
			continue;
		place_check(&c->places[i]);
		c->places[i].used = true;
		return &c->places[i];
	}
	return NULL;
}

/* Gives some operations a short time, and half of them a callback. */
static void place_vary(struct place *place)
{
	struct client *c = place->client;
	uint64_t r = client_random(c);
	bool change = !lin_kvd_is_get(&place->op);

	place->op.user = place;
	place->op.done = r & 1 ? place_ended : NULL;
	if ((r >> 8) % 32 || c->run->restarts || (change && c->short_times >= SHORT_CHANGES_MAX))
		return;
	c->short_times += change;
	place->op.timeout_ms = SHORT_MS;
}

static struct place *place_fill(struct client *c)
{
	struct place *place = place_take(c);
	uint32_t number = random_key(c);

	if (!place)
		return NULL;
	key_make(c, place->key, 'h', 0, number);
	prep(c, &place->op, place->key, number, place->value, place->pieces);
	place_vary(place);
	place->index = record_call(c, &place->op, number);
	return place;
}

/* The change of one of the two keys of the pair. */
static struct place *place_fill_pair(struct client *c, char kind)
{
	struct place *place = place_take(c);
	uint64_t r = client_random(c);
	size_t len = r % LARGE_ONE_IN ? 8 + r % 50 : LARGE_BYTES;

	if (!place)
		return NULL;
	key_make(c, place->key, kind, c->number, c->generation);
	memset(place->value, 0, len);
	memcpy(place->value, &c->pair_number, 8);
	kvd_prep_put(&place->op, place->key, KEY_BYTES, place->value, len, NULL);
	place->op.user = place;
	place->index = -1;
	return place;
}

/* Operations that were not submitted had no effect. */
static void submit(struct client *c, struct place **places, unsigned int count)
{
	struct kvd_op *ops[BATCH_MAX] = { NULL };
	unsigned int i;

	for (i = 0; i < count; i++)
		ops[i] = &places[i]->op;
	c->counts.batches += count > 1;
	if (!kvd_submit(c->kvd, ops, count))
		return;
	for (i = 0; i < count; i++) {
		ops[i]->status = KVD_ERR_DISCONNECTED;
		place_ended(ops[i], places[i]);
	}
}

static void submit_some(struct client *c)
{
	struct place *places[BATCH_MAX];
	unsigned int n = 0, count = client_random(c) % 2 ? 1 : 1 + client_random(c) % BATCH_MAX;

	while (n < count && (places[n] = place_fill(c)))
		n++;
	if (n)
		submit(c, places, n);
}

static void submit_pair(struct client *c)
{
	struct place *places[2];
	bool apart = client_random(c) % 2;

	c->pair_number++;
	places[0] = place_fill_pair(c, 'x');
	if (places[0] && apart)
		submit(c, places, 1);
	places[1] = places[0] && !c->lost ? place_fill_pair(c, 'y') : NULL;
	if (places[0] && places[1] && !apart)
		submit(c, places, 2);
	else if (places[1])
		submit(c, places + 1, 1);
	else if (places[0] && !apart)
		submit(c, places, 1);
	c->counts.pairs++;
}

/* The number under a key of a pair; 0: none. */
static bool pair_get(struct client *c, const uint8_t *key, uint64_t *number)
{
	enum kvd_status status;

	*number = 0;
	status = kvd_get(c->kvd, key, KEY_BYTES, c->value, VALUE_BYTES_MAX, NULL);
	if (!status)
		memcpy(number, c->value, 8);
	if (status == KVD_ERR_DISCONNECTED || status == KVD_ERR_DEVICE)
		c->lost = true;
	return !status || status == KVD_NOT_FOUND;
}

/* The second key was changed after the first one. */
static void look_at_pair(struct client *c)
{
	unsigned int owner = client_random(c) % CLIENTS;
	uint32_t generation = c->run->clients[owner].generation;
	uint8_t x[KEY_BYTES], y[KEY_BYTES];
	uint64_t first, second;

	key_make(c, x, 'x', owner, generation);
	key_make(c, y, 'y', owner, generation);
	if (!pair_get(c, y, &second) || !pair_get(c, x, &first))
		return;
	c->counts.pairs_seen += second > 0;
	if (first < second)
		wrong("the second change was seen without the first", owner, first, second);
}

/* A synchronous call. */
static void call(struct client *c)
{
	uint8_t key[KEY_BYTES];
	uint32_t number = random_key(c);
	struct iovec pieces[PIECES];
	struct kvd_op op;
	int64_t index;

	key_make(c, key, 'h', 0, number);
	do
		prep(c, &op, key, number, c->value, pieces);
	while (op.op == KVD_OP_TOUCH || op.op == KVD_OP_DECR);
	index = record_call(c, &op, number);
	if (op.iov_count) {
		op.status = kvd_getv(c->kvd, key, KEY_BYTES, op.iov, op.iov_count, &op.item);
	} else if (op.op == KVD_OP_GET_RANGE) {
		op.status = range_call(c, &op);
	} else if (op.op == KVD_OP_GET) {
		op.status = kvd_get(c->kvd, key, KEY_BYTES, c->value, VALUE_BYTES_MAX, &op.item);
	} else if (op.op == KVD_OP_GET_BY_REQUEST) {
		op.status = kvd_get_by_request(c->kvd, key, KEY_BYTES, c->value, VALUE_BYTES_MAX,
					       &op.item);
	} else if (op.op == KVD_OP_INCR) {
		op.status = kvd_incr(c->kvd, key, KEY_BYTES, op.delta, NULL, &op.number,
				     &op.item.version);
	} else if (op.op == KVD_OP_DELETE) {
		op.status = kvd_delete(c->kvd, key, KEY_BYTES);
	} else {
		const struct kvd_put_args args = { .mode = op.mode, .if_version = op.if_version };

		op.status = kvd_put(c->kvd, key, KEY_BYTES, op.value, op.value_len, &args,
				    &op.item.version);
	}
	c->counts.called++;
	record_return(c, index, &op, clock_ns());
}

static void cancel(struct client *c)
{
	struct place *place = &c->places[client_random(c) % PLACES];

	if (!place->used || place->index < 0)
		return;
	/* Of a GET to registered memory the end may come later. */
	if (!kvd_cancel(c->kvd, &place->op))
		place->canceled = true;
}

static void take(struct client *c, bool wait)
{
	struct kvd_op *done[PLACES];
	size_t n;

	if (wait && c->fd >= 0 && !kvd_arm(c->kvd)) {
		struct pollfd fd = { c->fd, POLLIN, 0 };

		c->counts.slept++;
		if (poll(&fd, 1, WAIT_MS) != 1)
			die("poll", "the descriptor was not readable");
		wait = false;
	}
	n = wait ? kvd_wait(c->kvd, done, PLACES, 1, WAIT_MS) : kvd_poll(c->kvd, done, PLACES);
	while (n--)
		place_ended(done[n], done[n]->user);
}

void client_step(struct client *c)
{
	uint64_t r = client_random(c) % 16;

	if (r < 6 || (r < 8 && !c->run->pairs))
		submit_some(c);
	else if (r < 7)
		submit_pair(c);
	else if (r < 8)
		look_at_pair(c);
	else if (r < 10)
		call(c);
	else if (r < 11)
		cancel(c);
	else if (kvd_outstanding(c->kvd))
		take(c, r < 13);
}

void client_drain(struct client *c)
{
	uint64_t until_ns = clock_ns() + 2 * WAIT_MS * 1000000ull;

	while (kvd_outstanding(c->kvd)) {
		take(c, true);
		if (clock_ns() > until_ns)
			die("drain", "operations did not end");
	}
}

void client_begin(struct client *c)
{
	lin_log_init(&c->log, (uint16_t)c->number);
	memset(c->versions, 0, sizeof(c->versions));
	c->pair_number = 0;
	c->generation = 0;
	c->short_times = 0;
	c->unknown_count = 0;
	c->made_count = c->ranged_count = 0;
}

static bool key_delete(struct client *c, char kind, uint32_t owner, uint32_t number)
{
	uint8_t key[KEY_BYTES];
	enum kvd_status status;

	key_make(c, key, kind, owner, number);
	status = kvd_delete(c->kvd, key, KEY_BYTES);
	return !status || status == KVD_NOT_FOUND;
}

void client_end(struct client *c)
{
	bool deleted = !is_reader(c);
	uint32_t i;

	for (i = 0; deleted && !c->number && i < SHARED_KEYS; i++)
		deleted = key_delete(c, 'h', 0, i);
	for (i = 0; deleted && i < GENERATIONS && i <= c->generation; i++)
		deleted = key_delete(c, 'h', 0, SHARED_KEYS + i * CLIENTS + c->number);
	for (i = 0; deleted && i <= c->generation; i++)
		deleted = key_delete(c, 'x', c->number, i) && key_delete(c, 'y', c->number, i);
}

/* Prints what the handle did to the key of operation @at, until then. */
static void order_explain(const struct client *c, size_t at)
{
#define X(name) #name,
	static const char *const kinds[] = { LIN_KIND_MAP(X) };
	static const char *const statuses[] = { LIN_STATUS_MAP(X) };
#undef X
	const struct lin_op *op = &c->log.ops[at];
	const uint64_t end_ns = op->call_ns;
	const uint32_t key = op->key;

	for (size_t i = 0; i < c->log.count; i++) {
		op = &c->log.ops[i];
		if (op->key == key && i <= at + ORDER_SHOWN && i + ORDER_SHOWN * 16 > at)
			printf("%s %zu: %lld to %lld us: %s -> %s version %llu\n",
			       i == at ? ">" : " ", i, (long long)(op->call_ns - end_ns) / 1000,
			       (long long)(op->return_ns - end_ns) / 1000, kinds[op->kind],
			       statuses[op->status], (unsigned long long)op->version);
	}
}

/*
 * On the keys that only this handle changes. DELETE has no version, but what was there before must
 * not be seen after it.
 */
void client_judge_order(const struct client *c)
{
	uint64_t newest[KEYS] = { 0 };
	bool gone[KEYS] = { false };

	for (size_t i = 0; i < c->log.count; i++) {
		const struct lin_op *op = &c->log.ops[i];
		bool change = op->kind != LIN_GET && op->kind != LIN_RANGE && op->kind != LIN_TOUCH;

		if (op->status != LIN_OK || op->key < SHARED_KEYS ||
		    (op->key - SHARED_KEYS) % CLIENTS != c->number)
			continue;
		if (op->kind == LIN_DELETE) {
			gone[op->key] = true;
			continue;
		}
		if (op->version < newest[op->key] ||
		    (op->version == newest[op->key] && (change || gone[op->key]))) {
			wrong("a handle's order", op->key, newest[op->key], op->version);
			order_explain(c, i);
		}
		if (!change)
			continue;
		newest[op->key] = op->version;
		gone[op->key] = false;
	}
}

/* A value that no other change has; pieces and numbers may come from several. */
static bool is_unique(const struct lin_op *op)
{
	return (op->kind == LIN_PUT || op->kind == LIN_ADD || op->kind == LIN_REPLACE ||
		op->kind == LIN_CAS) &&
	       !op->value.is_number;
}

void client_judge_unknown(const struct client *c, const struct client *reader,
			  uint64_t restarted_ns)
{
	const struct lin_op *change, *get;
	size_t i, j;

	for (i = 0; i < c->unknown_count; i++) {
		change = &c->log.ops[c->unknown[i]];
		for (j = 0; j < reader->log.count && is_unique(change); j++) {
			get = &reader->log.ops[j];
			if (get->kind == LIN_GET && get->status == LIN_OK &&
			    get->key == change->key && get->call_ns > restarted_ns &&
			    lin_same(&get->value, &change->value))
				wrong("an unknown change was sent to the new server", get->key,
				      c->number, get->version);
		}
	}
}

void client_init(struct client *c, struct run *run, unsigned int number, uint64_t seed)
{
	*c = (struct client){
		.run = run, .number = number, .random = seed * CLIENTS + number, .fd = -1
	};
	c->value = malloc(VALUE_BYTES_MAX);
	if (!c->value)
		die("malloc", "out of memory");
	for (unsigned int i = 0; i < PLACES; i++)
		c->places[i].client = c;
}

void client_places(struct client *c)
{
	void *values = NULL;

	if (c->number % 2 == 0)
		values = malloc((size_t)PLACES * VALUE_BYTES_MAX);
	else if (kvd_alloc(c->kvd, (size_t)PLACES * VALUE_BYTES_MAX, &values, &c->mem))
		die("kvd_alloc", kvd_error(c->kvd));
	if (!values)
		die("malloc", "out of memory");
	for (unsigned int i = 0; i < PLACES; i++)
		c->places[i].value = (uint8_t *)values + (size_t)i * VALUE_BYTES_MAX;
}

void client_release(struct client *c)
{
	kvd_close(c->kvd);
	free(c->value);
	if (!c->mem)
		free(c->places[0].value);
	else if (kvd_free(c->mem))
		die("kvd_free", kvd_error(NULL));
}
