/* SPDX-License-Identifier: MIT */
/*
 * The torture's cold keys, stay keys and fillers: operations that are checked at once, not
 * recorded.
 */
#include <stdio.h>
#include <string.h>

#include "tests/stress/torture_actor.h"

/* One change of fillers in this many begins to delete them: most of them if chains are long. */
#define ONE_SHRINK_IN 1500
/* Far more than any scan takes: for a cursor that would never end. */
#define SCAN_CALLS_MAX 1000000

struct reading {
	struct torture_key key;
	enum kvd_status status;
	struct kvd_item item;
	const char *what;
};

static void cold_get(struct actor *a, struct reading *r, bool by_request)
{
	r->what = by_request ? "GET by request" : "GET";
	r->status = (by_request ? kvd_get_by_request : kvd_get)(
		a->kvd, r->key.bytes, r->key.len, a->value, VALUE_BYTES_MAX, &r->item);
	if (r->status && r->status != KVD_NOT_FOUND && r->status != KVD_ERR_BUSY)
		actor_failed(a, r->what, r->status);
}

/* Makes the value of a stay key or filler, which depends on the key and the flags. */
static uint32_t cold_value(const struct torture_key *key, uint32_t flags, uint8_t *to)
{
	uint64_t seed, len;

	memcpy(&seed, key->bytes + 8, sizeof(seed));
	seed ^= (uint64_t)key->bytes[1] << 56;
	len = value_length((seed + flags) * 0x9e3779b97f4a7c15);
	value_fill(to, (uint32_t)len, seed, flags);
	return (uint32_t)len;
}

static bool cold_is_whole(struct actor *a, const struct reading *r, const uint8_t *value)
{
	uint32_t len = cold_value(&r->key, r->item.flags, a->expected);

	if (r->item.value_len == len && !memcmp(value, a->expected, len))
		return true;
	actor_wrong(a, "A: %s of a '%c' key: the value does not match its flags, %u", r->what,
		    r->key.bytes[0], r->item.flags);
	return false;
}

static enum kvd_status cold_put(struct actor *a, const struct torture_key *key, uint32_t flags)
{
	struct kvd_put_args args = { .flags = flags };
	uint32_t len = cold_value(key, flags, a->value);
	enum kvd_status status;

	status = kvd_put(a->kvd, key->bytes, key->len, a->value, len, &args, NULL);
	if (status && status != KVD_ERR_NO_SPACE)
		actor_failed(a, "PUT", status);
	return status;
}

void stay_put(struct actor *a, unsigned int number)
{
	struct stay *stay = &a->torture->stays[number];
	struct torture_key key;

	key_make(a->torture, &key, 's', 0, number);
	stay->started++;
	if (!cold_put(a, &key, stay->started))
		atomic_store(&stay->acked, stay->started);
	a->counts.stay++;
}

static void stay_check(struct actor *a, const struct reading *r, unsigned int number,
		       uint32_t acked, uint32_t seen)
{
	struct stay *stay = &a->torture->stays[number];
	uint32_t now = atomic_load(&stay->seen);

	if (!cold_is_whole(a, r, a->value))
		return;
	if (r->item.flags < acked || r->item.flags < seen)
		actor_wrong(a, "B: %s: key %u has value %u, after PUT %u returned and a GET saw %u",
			    r->what, number, r->item.flags, acked, seen);
	while (now < r->item.flags &&
	       !atomic_compare_exchange_weak(&stay->seen, &now, r->item.flags))
		;
}

void stay_get(struct actor *a)
{
	uint64_t random = actor_random(a);
	unsigned int number = (unsigned int)(random >> 8) % STAY_KEYS;
	uint32_t acked = atomic_load(&a->torture->stays[number].acked);
	uint32_t seen = atomic_load(&a->torture->stays[number].seen);
	struct reading r;

	key_make(a->torture, &r.key, 's', 0, number);
	cold_get(a, &r, random % 4 == 0);
	a->counts.stay++;
	if (r.status == KVD_NOT_FOUND && !torture_vanishes(a->torture))
		actor_wrong(a, "C: %s: key %u, which is never deleted, is missed", r.what, number);
	if (!r.status)
		stay_check(a, &r, number, acked, seen);
}

static void filler_put(struct actor *a, uint64_t number)
{
	struct torture_key key;

	key_make(a->torture, &key, 'f', a->number, number);
	a->filler_flags[number]++;
	if (cold_put(a, &key, a->filler_flags[number]))
		a->filler_flags[number]--;
	else if (number == a->head)
		a->head++;
}

static void filler_delete(struct actor *a)
{
	struct torture_key key;
	enum kvd_status status;

	key_make(a->torture, &key, 'f', a->number, a->tail++);
	status = kvd_delete(a->kvd, key.bytes, key.len);
	if (status == KVD_NOT_FOUND && torture_vanishes(a->torture))
		return;
	if (status)
		actor_failed(a, "DELETE of a filler", status);
}

/* Puts a new filler, deletes the oldest or rewrites one. */
void filler_change(struct actor *a)
{
	uint64_t random = actor_random(a), live = a->head - a->tail;

	a->counts.filler++;
	if (random % ONE_SHRINK_IN == 0)
		a->shrink_to = a->tail + (torture_has_chains(a->torture) ? live * 3 / 4 : live / 4);
	if (live && (a->tail < a->shrink_to || (random >> 32) % 16 == 0))
		filler_delete(a);
	else if (live && (random >> 32) % 16 == 1)
		filler_put(a, a->tail + (random >> 40) % live);
	else if (a->head < FILLERS_MAX)
		filler_put(a, a->head);
	atomic_store_explicit(&a->torture->fillers[a->number], a->head, memory_order_relaxed);
	if (a->head >= a->torture->round.fillers)
		atomic_store(&a->torture->stop, true);
}

void filler_get_own(struct actor *a)
{
	uint64_t random = actor_random(a), number;
	struct reading r;

	if (a->head == a->tail)
		return;
	number = a->tail + (random >> 8) % (a->head - a->tail);
	key_make(a->torture, &r.key, 'f', a->number, number);
	cold_get(a, &r, random % 8 == 0);
	a->counts.filler++;
	if (r.status == KVD_NOT_FOUND && !torture_vanishes(a->torture))
		actor_wrong(a, "C: %s: filler %llu of %u, which exists, is missed", r.what,
			    (unsigned long long)number, a->number);
	if (!r.status && cold_is_whole(a, &r, a->value) && r.item.flags != a->filler_flags[number])
		actor_wrong(a, "B: %s: filler %llu of %u has value %u instead of %u", r.what,
			    (unsigned long long)number, a->number, r.item.flags,
			    a->filler_flags[number]);
}

void filler_get_any(struct actor *a)
{
	uint64_t random = actor_random(a), begun;
	unsigned int writer = (unsigned int)(random >> 8) % a->torture->options->writers;
	struct reading r;

	begun = atomic_load_explicit(&a->torture->fillers[writer], memory_order_relaxed);
	if (!begun)
		return;
	key_make(a->torture, &r.key, 'f', writer, (random >> 16) % begun);
	cold_get(a, &r, random % 8 == 0);
	a->counts.filler++;
	if (!r.status)
		cold_is_whole(a, &r, a->value);
}

struct scanned {
	struct actor *actor;
	bool stays[STAY_KEYS];
};

static int scan_entry(void *arg, const struct kvd_entry *entry)
{
	struct scanned *scanned = arg;
	struct actor *a = scanned->actor;
	struct reading r = { .item = entry->item, .what = "SCAN" };
	uint64_t number, nonce;

	a->counts.scanned++;
	if (entry->key_len < 24 || entry->key_len > sizeof(r.key.bytes))
		return 0;
	memcpy(r.key.bytes, entry->key, entry->key_len);
	r.key.len = entry->key_len;
	memcpy(&number, r.key.bytes + 8, sizeof(number));
	memcpy(&nonce, r.key.bytes + 16, sizeof(nonce));
	if (nonce != a->torture->nonce || (r.key.bytes[0] != 's' && r.key.bytes[0] != 'f'))
		return 0;
	if (entry->value)
		cold_is_whole(a, &r, entry->value);
	if (r.key.bytes[0] == 's' && number < STAY_KEYS)
		scanned->stays[number] = true;
	return 0;
}

static bool scan_all(struct actor *a, struct scanned *scanned)
{
	struct kvd_scan_args args = { .values = actor_random(a) % 2 };
	uint64_t random = actor_random(a), cursor = 0;
	enum kvd_status status;
	unsigned int calls = 0;

	if (random % 2) {
		args.prefix = "s";
		args.prefix_len = 1;
	}
	if (random % 8 < 2)
		args.count = 1 + (uint32_t)(random >> 8) % 20;
	do {
		status = kvd_scan(a->kvd, &cursor, &args, scan_entry, scanned);
		if (atomic_load_explicit(&a->torture->stop, memory_order_relaxed))
			return false;
	} while ((!status && cursor && ++calls < SCAN_CALLS_MAX) || status == KVD_ERR_BUSY);
	if (status || cursor)
		actor_failed(a, "SCAN", status);
	return !status && !cursor;
}

void cold_scan(struct actor *a)
{
	struct scanned scanned = { .actor = a };
	unsigned int i;

	if (!scan_all(a, &scanned))
		return;
	a->counts.scans++;
	for (i = 0; i < STAY_KEYS; i++)
		if (!scanned.stays[i] && !torture_vanishes(a->torture))
			actor_wrong(a, "a scan missed key %u, which existed all the time", i);
}
