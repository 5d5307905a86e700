/* SPDX-License-Identifier: MIT */
/* GETs of many keys: see fetch.h. */
#include "client/kvctl/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "client/kvctl/failures.h"

/* The least that a slow network moves in a millisecond. */
#define BYTES_PER_MS 16384u
#define VALUE_ALIGN 64u

void fetch_init(struct fetch *fetch, struct kvd *db, uint32_t timeout_ms)
{
	*fetch = (struct fetch){ .db = db, .timeout_ms = timeout_ms };
}

void fetch_release(struct fetch *fetch)
{
	free(fetch->keys);
	free(fetch->bytes);
	free(fetch->values);
}

/* Makes room for @want elements of @size bytes. */
static bool room_make(void **memory, size_t *room, size_t want, size_t size)
{
	size_t more = *room ? *room : 64;
	void *grown;

	if (want <= *room)
		return true;
	while (more < want)
		more *= 2;
	grown = realloc(*memory, more * size);
	if (!grown)
		return false;
	*memory = grown;
	*room = more;
	return true;
}

bool fetch_add(struct fetch *fetch, const void *key, size_t key_len, size_t value_len)
{
	void *keys = fetch->keys, *bytes = fetch->bytes;
	bool ok = room_make(&keys, &fetch->room, fetch->count + 1, sizeof(*fetch->keys));

	fetch->keys = keys;
	ok = ok && room_make(&bytes, &fetch->bytes_room, fetch->used + key_len, 1);
	fetch->bytes = bytes;
	if (!ok)
		return false;
	fetch->keys[fetch->count++] = (struct fetch_key){
		.at = fetch->used,
		.key_len = (uint32_t)key_len,
		.value_len = value_len,
	};
	memcpy(fetch->bytes + fetch->used, key, key_len);
	fetch->used += key_len;
	fetch->value_bytes += value_len;
	return true;
}

bool fetch_is_full(const struct fetch *fetch)
{
	return fetch->count >= FETCH_KEYS || fetch->value_bytes >= FETCH_BYTES;
}

/* Makes room for @bytes of values; their content is lost. Memory of a long value is freed. */
static bool values_room(struct fetch *fetch, size_t bytes)
{
	if (bytes < FETCH_BYTES)
		bytes = FETCH_BYTES;
	if (bytes <= fetch->values_size && (bytes > FETCH_BYTES || fetch->values_size == bytes))
		return true;
	free(fetch->values);
	fetch->values = malloc(bytes);
	fetch->values_size = fetch->values ? bytes : 0;
	return fetch->values;
}

static void op_prepare(const struct fetch *fetch, struct kvd_op *op, const struct fetch_key *key,
		       void *value, size_t value_size)
{
	kvd_prep_get(op, fetch->bytes + key->at, key->key_len, value, value_size);
	op->timeout_ms = fetch->timeout_ms + (uint32_t)(value_size / BYTES_PER_MS);
}

/* Submits and waits until all have ended. */
static void ops_run(struct kvd *db, struct kvd_op *ops, size_t count)
{
	struct kvd_op *list[FETCH_KEYS] = { NULL }, *done[FETCH_KEYS];
	enum kvd_status status;
	size_t i, ended = 0;

	for (i = 0; i < count; i++)
		list[i] = &ops[i];
	status = kvd_submit(db, list, count);
	for (i = 0; status && i < count; i++)
		ops[i].status = status;
	while (!status && ended < count)
		ended += kvd_wait(db, done, FETCH_KEYS, 1, UINT32_MAX);
}

static int deliver(fetch_fn each, void *arg, const struct kvd_op *op, const void *value)
{
	const struct kvd_entry entry = {
		.key = op->key,
		.key_len = op->key_len,
		.value = value,
		.item = op->item,
	};

	return each(arg, &entry, op->status);
}

/* Gets one key alone, with a value of any length, and retries as often as needed. */
static int fetch_one(struct fetch *fetch, const struct fetch_key *key, fetch_fn each, void *arg)
{
	size_t size = key->value_len;
	struct retry retry = { 0 };
	struct kvd_op op;

	for (;;) {
		if (!values_room(fetch, size)) {
			op_prepare(fetch, &op, key, NULL, 0);
			op.status = KVD_ERR_NO_MEMORY;
			break;
		}
		op_prepare(fetch, &op, key, fetch->values, fetch->values_size);
		ops_run(fetch->db, &op, 1);
		if (op.status == KVD_ERR_BUFFER)
			size = op.item.value_len;
		else if (!failure_passes(op.status))
			break;
		if (!retry_pause(&retry))
			break;
	}
	return deliver(each, arg, &op, fetch->values);
}

/* How many keys from @first on have room for their values together; 0: not even the first. */
static size_t group_count(const struct fetch *fetch, size_t first)
{
	size_t i = first, bytes = 0;

	for (; i < fetch->count && i - first < FETCH_KEYS; i++) {
		bytes += (fetch->keys[i].value_len + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
		if (bytes > FETCH_BYTES)
			break;
	}
	return i - first;
}

/* Keys whose value has grown or whose GET was refused are got one by one, after the others. */
static int fetch_group(struct fetch *fetch, size_t first, size_t count, fetch_fn each, void *arg)
{
	struct kvd_op ops[FETCH_KEYS];
	bool again[FETCH_KEYS];
	size_t i, at = 0;
	int stop = 0;

	if (!values_room(fetch, FETCH_BYTES))
		return each(arg, &(struct kvd_entry){ .key = "", .key_len = 0 }, KVD_ERR_NO_MEMORY);
	for (i = 0; i < count; i++) {
		const struct fetch_key *key = &fetch->keys[first + i];

		op_prepare(fetch, &ops[i], key, fetch->values + at, key->value_len);
		at += (key->value_len + VALUE_ALIGN - 1) / VALUE_ALIGN * VALUE_ALIGN;
	}
	ops_run(fetch->db, ops, count);
	for (i = 0; i < count; i++) {
		again[i] = ops[i].status == KVD_ERR_BUFFER || failure_passes(ops[i].status);
		if (!again[i] && !stop)
			stop = deliver(each, arg, &ops[i], ops[i].value);
	}
	for (i = 0; !stop && i < count; i++)
		if (again[i])
			stop = fetch_one(fetch, &fetch->keys[first + i], each, arg);
	return stop;
}

int fetch_run(struct fetch *fetch, fetch_fn each, void *arg)
{
	size_t first = 0, count;
	int stop = 0;

	while (!stop && first < fetch->count) {
		count = group_count(fetch, first);
		stop = count ? fetch_group(fetch, first, count, each, arg) :
			       fetch_one(fetch, &fetch->keys[first], each, arg);
		first += count ? count : 1;
	}
	fetch->count = fetch->used = 0;
	fetch->value_bytes = 0;
	return stop;
}
