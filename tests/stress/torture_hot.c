/* SPDX-License-Identifier: MIT */
/* The torture's hot keys: operations that are recorded with their results, for the checker. */
#include <stdio.h>
#include <string.h>

#include "common/util/clock.h"
#include "tests/stress/torture_actor.h"

/* The long one does not expire within a round; the short one does. */
#define TTL_LONG_S 3600
#define TTL_SHORT_S 1
/* An item with the short one has expired after this time at the latest. */
#define EXPIRING_NS 2100000000ull
#define PIECE_BYTES_MAX 40
/* One of the keys that half of the operations are on, and which is no number. */
#define LARGE_KEY 1
#define LARGE_VALUE_BYTES (140u << 10)
/* Seldom: each costs as much as hundreds of small ones, of which the test needs many. */
#define LARGE_ONE_IN 32

/* Half of the operations are on the first quarter of the keys. */
static uint32_t random_key(struct actor *a)
{
	uint64_t r = actor_random(a);

	return (uint32_t)((r >> 8) % (r & 1 ? HOT_KEYS / 4 : HOT_KEYS));
}

static bool is_expiring(const struct actor *a, uint32_t key)
{
	return a->torture->round.expiring && key >= HOT_KEYS - EXPIRING_KEYS;
}

/* Whether it is time to write an expiring key, and no other thread does it. */
static bool expiring_take(struct actor *a, uint32_t key)
{
	_Atomic uint64_t *at = &a->torture->expiring_ns[key];
	uint64_t then = atomic_load(at), now = clock_ns();

	return now - then > EXPIRING_NS / 2 + actor_random(a) % EXPIRING_NS &&
	       atomic_compare_exchange_strong(at, &then, now);
}

static enum lin_status lin_status_of(struct actor *a, const char *what, enum kvd_status status)
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
	case KVD_ERR_NO_SPACE:
	case KVD_ERR_BUSY:
		return LIN_NO_EFFECT;
	default:
		actor_failed(a, what, status);
		return LIN_UNKNOWN;
	}
}

static int64_t hot_call(struct actor *a, struct lin_op *op)
{
	a->counts.hot++;
	op->call_ns = clock_ns();
	return lin_call(&a->log, op);
}

static void hot_return(struct actor *a, int64_t index, const char *what, enum kvd_status status,
		       uint64_t version, const struct lin_value *value)
{
	uint64_t now = clock_ns();

	lin_return(&a->log, index, now, lin_status_of(a, what, status), status ? 0 : version,
		   status ? NULL : value);
	if (!status && index >= 0 && version)
		a->versions[a->log.ops[index].key] = version;
}

/* Makes a number for every third key, mostly; else bytes that no other PUT has. */
static uint32_t make_value(struct actor *a, uint32_t key, uint8_t *to, bool piece)
{
	uint64_t r = actor_random(a);
	uint32_t len = piece ? 1 + (uint32_t)(r % PIECE_BYTES_MAX) : value_length(r);

	if (key % 3 == 0 && (r >> 40) % 16)
		return (uint32_t)snprintf((char *)to, PIECE_BYTES_MAX, "%u",
					  (unsigned int)(r >> 44) % (piece ? 10 : 100000));
	/* So that appends, touches and copies of it are made in steps (server/store/large.h). */
	if (!piece && key == LARGE_KEY && (r >> 44) % LARGE_ONE_IN == 0)
		len = LARGE_VALUE_BYTES + (uint32_t)(r % LARGE_VALUE_BYTES) / 4;
	value_fill(to, len, ++a->serial, a->number);
	return len;
}

struct put_kind {
	enum lin_kind kind;
	enum kvd_put_mode mode;
};

static void hot_put(struct actor *a, uint32_t number, struct put_kind kind)
{
	bool piece = kind.kind == LIN_APPEND || kind.kind == LIN_PREPEND;
	struct kvd_put_args args = { .mode = kind.mode };
	struct lin_op op = { .key = number, .kind = (uint8_t)kind.kind };
	struct torture_key key;
	enum kvd_status status;
	uint64_t version = 0;
	uint32_t len;
	int64_t index;

	key_make(a->torture, &key, 'h', 0, number);
	len = make_value(a, number, a->value, piece);
	if (!piece &&
	    (is_expiring(a, number) || (a->torture->round.expiring && actor_random(a) % 16 == 0))) {
		args.ttl_s = TTL_SHORT_S;
		op.mortal = true;
	}
	if (kind.kind == LIN_CAS)
		op.arg = args.if_version = a->versions[number] ? a->versions[number] : 1;
	op.value = lin_value(a->value, len);
	index = hot_call(a, &op);
	status = kvd_put(a->kvd, key.bytes, key.len, a->value, len, &args, &version);
	hot_return(a, index, "PUT", status, version, NULL);
}

static void hot_delete(struct actor *a, uint32_t number)
{
	struct lin_op op = { .key = number, .kind = LIN_DELETE };
	struct torture_key key;
	int64_t index;

	key_make(a->torture, &key, 'h', 0, number);
	index = hot_call(a, &op);
	hot_return(a, index, "DELETE", kvd_delete(a->kvd, key.bytes, key.len), 0, NULL);
}

static void hot_arith(struct actor *a, uint32_t number, enum lin_kind kind)
{
	struct lin_op op = { .key = number, .kind = (uint8_t)kind, .arg = actor_random(a) % 100 };
	uint64_t result = 0, version = 0;
	struct torture_key key;
	struct lin_value value;
	enum kvd_status status;
	int64_t index;

	key_make(a->torture, &key, 'h', 0, number);
	index = hot_call(a, &op);
	status = (kind == LIN_INCR ? kvd_incr : kvd_decr)(a->kvd, key.bytes, key.len, op.arg, NULL,
							  &result, &version);
	value = lin_number(result);
	hot_return(a, index, "INCR or DECR", status, version, &value);
}

static void hot_touch(struct actor *a, uint32_t number)
{
	bool expires = is_expiring(a, number);
	struct lin_op op = { .key = number, .kind = LIN_TOUCH, .mortal = expires };
	struct torture_key key;
	enum kvd_status status;
	uint64_t version = 0;
	int64_t index;

	key_make(a->torture, &key, 'h', 0, number);
	index = hot_call(a, &op);
	status = kvd_touch(a->kvd, key.bytes, key.len, expires ? TTL_SHORT_S : TTL_LONG_S,
			   &version);
	hot_return(a, index, "TOUCH", status, version, NULL);
}

/* The kind of change to make next, by its case below. */
static unsigned int random_change(struct actor *a)
{
	static const uint8_t all[] = { 0, 0, 0, 0, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8, 9 };

	return all[actor_random(a) % sizeof(all)];
}

void hot_change(struct actor *a)
{
	uint32_t key = random_key(a);

	if (is_expiring(a, key) && !expiring_take(a, key)) {
		hot_get(a);
		return;
	}
	switch (random_change(a)) {
	case 0:
		hot_put(a, key, (struct put_kind){ LIN_PUT, KVD_PUT_SET });
		break;
	case 1:
		hot_put(a, key, (struct put_kind){ LIN_ADD, KVD_PUT_IF_ABSENT });
		break;
	case 2:
		hot_put(a, key, (struct put_kind){ LIN_REPLACE, KVD_PUT_IF_PRESENT });
		break;
	case 3:
		hot_put(a, key, (struct put_kind){ LIN_CAS, KVD_PUT_IF_VERSION });
		break;
	case 4:
		hot_delete(a, key);
		break;
	case 5:
		hot_put(a, key, (struct put_kind){ LIN_APPEND, KVD_PUT_APPEND });
		break;
	case 6:
		hot_put(a, key, (struct put_kind){ LIN_PREPEND, KVD_PUT_PREPEND });
		break;
	case 7:
		hot_arith(a, key, LIN_INCR);
		break;
	case 8:
		hot_arith(a, key, LIN_DECR);
		break;
	default:
		hot_touch(a, key);
		break;
	}
}

void hot_get(struct actor *a)
{
	bool by_request = actor_random(a) % 4 == 0;
	struct lin_op op = { .key = random_key(a), .kind = LIN_GET };
	struct kvd_item item = { 0 };
	struct lin_value value = { 0 };
	struct torture_key key;
	enum kvd_status status;
	int64_t index;

	key_make(a->torture, &key, 'h', 0, op.key);
	index = hot_call(a, &op);
	status = (by_request ? kvd_get_by_request : kvd_get)(a->kvd, key.bytes, key.len, a->value,
							     VALUE_BYTES_MAX, &item);
	op.return_ns = clock_ns();
	if (!status)
		value = lin_value(a->value, item.value_len);
	hot_return(a, index, by_request ? "GET by request" : "GET", status, item.version, &value);
	/* The time of the return, without the time that reading the value took. */
	if (index >= 0 && a->log.ops[index].status != LIN_UNKNOWN)
		a->log.ops[index].return_ns = op.return_ns;
}

void hot_get_many(struct actor *a)
{
	struct kvd_get_request requests[MANY];
	struct torture_key keys[MANY];
	struct lin_value value;
	int64_t indexes[MANY];
	uint64_t now;
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		struct lin_op op = { .key = random_key(a), .kind = LIN_GET };

		key_make(a->torture, &keys[i], 'h', 0, op.key);
		requests[i] = (struct kvd_get_request){
			.key = keys[i].bytes,
			.key_len = keys[i].len,
			.value = a->value + (size_t)i * VALUE_BYTES_MAX,
			.value_size = VALUE_BYTES_MAX,
		};
		indexes[i] = hot_call(a, &op);
	}
	kvd_get_many(a->kvd, requests, MANY);
	now = clock_ns();
	for (i = 0; i < MANY; i++) {
		if (!requests[i].status)
			value = lin_value(requests[i].value, requests[i].item.value_len);
		hot_return(a, indexes[i], "GET of many", requests[i].status,
			   requests[i].item.version, &value);
		if (indexes[i] >= 0 && a->log.ops[indexes[i]].status != LIN_UNKNOWN)
			a->log.ops[indexes[i]].return_ns = now;
	}
}

/* A flush is recorded as one operation on each key. */
void hot_flush(struct actor *a)
{
	int64_t indexes[HOT_KEYS];
	uint64_t now;
	uint32_t i;
	bool done;

	for (i = 0; i < HOT_KEYS; i++)
		indexes[i] = hot_call(a, &(struct lin_op){ .key = i, .kind = LIN_FLUSH });
	done = a->torture->backend->flush(a->kvd);
	now = clock_ns();
	for (i = 0; done && i < HOT_KEYS; i++)
		lin_return(&a->log, indexes[i], now, LIN_OK, 0, NULL);
	a->counts.flushes += done;
}
