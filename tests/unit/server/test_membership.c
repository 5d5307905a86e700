/* SPDX-License-Identifier: MIT */
/*
 * Tests of a member of a fleet (server/fleet/membership.h), with a model of etcd: what it asks, and
 * what it makes of answers that are good, bad, late or lost.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/heap.h"
#include "server/fleet/map_edit.h"
#include "server/fleet/membership_state.h"
#include "server/fleet/moves.h"
#include "tests/support/etcd_model.h"

#define MS 1000000ull
#define W_NS (2000 * MS)
/* How long a new owner waits. */
#define WAIT_NS (W_NS + W_NS / 250 + W_NS / 250 + MS)
#define TODAY_S 1800000000ull

/* A server: its membership, and what it was told. */
struct host {
	struct membership *m;
	struct membership_options options;
	struct fleet_map *map; /* of the view */
	struct shard_set served, frozen, dropping;
	uint32_t accepts;
	int64_t own;
	bool takes;
	struct fleet_word word;
	unsigned int words;
	bool drops; /* it has begun, and is not done */
	bool hangs; /* the workers do */
	bool keeps; /* what is dropped stays, until drop_end() */
};

/* What becomes of the next calls. */
enum fate {
	FATE_GOOD,
	FATE_UNREACHABLE, /* not executed */
	FATE_LOST,	  /* not executed, and nobody knows */
	FATE_UNKNOWN,	  /* executed, and nobody knows */
	FATE_LATE,	  /* nobody knows, and it is executed by late() */
};

static struct etcd_model etcd;
static struct registry_call *delayed;
static uint64_t now_ns;
static uint64_t answer_ns; /* how long a call takes */

static struct host a, b;

static void host_apply(struct host *host)
{
	struct membership_changes changes;

	membership_changes(host->m, &changes);
	if (changes.map) {
		fleet_map_free(host->map);
		host->map = etcd_model_map_copy(changes.map);
		host->served = *changes.served;
		host->frozen = changes.frozen ? *changes.frozen : (struct shard_set){ 0 };
		host->accepts = changes.accept_count;
		host->own = changes.own;
		host->takes = changes.takes;
	}
	if (changes.drop) {
		assert_false(host->drops);
		host->dropping = *changes.drop;
		host->drops = true;
		for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
			assert_int_equal(host->dropping.bits[i] & host->served.bits[i], 0);
	}
	if (changes.has_word) {
		host->word = changes.word;
		host->words++;
		assert_int_equal(changes.word.epoch, host->map->head->epoch);
	}
}

static void drop_end(struct host *host)
{
	host->drops = false;
	membership_dropped(host->m);
	host_apply(host);
}

static void host_start(struct host *host, const char *id, uint64_t incarnation)
{
	const struct registry_call read = { .kind = REGISTRY_TXN, .reads = { 0, READ_ALL } };
	struct registry_result first;

	*host = (struct host){ 0 };
	host->options = (struct membership_options){
		.urls = "softnic:///m", .weight = 1, .incarnation = incarnation, .lease_ns = W_NS
	};
	strncpy(host->options.id, id, FLEET_NAME_MAX);
	etcd_model_execute(&etcd, &read, &first);
	host->m = membership_create(&host->options, &first, NULL, now_ns);
	registry_result_release(&first);
	host_apply(host);
}

static void host_end(struct host *host)
{
	membership_destroy(host->m);
	fleet_map_free(host->map);
	*host = (struct host){ 0 };
}

static void execute(const struct registry_call *call, struct registry_result *result,
		    enum fate fate)
{
	bool is_txn = call->kind == REGISTRY_TXN;

	if (fate == FATE_GOOD || fate == FATE_UNKNOWN)
		etcd_model_execute(&etcd, call, result);
	if (fate == FATE_GOOD)
		return;
	if (fate == FATE_UNKNOWN)
		registry_result_release(result);
	if (fate == FATE_LATE) {
		etcd_model_call_free(delayed);
		delayed = etcd_model_call_copy(call);
	}
	*result = (struct registry_result){
		.outcome = is_txn && fate != FATE_UNREACHABLE ? ETCD_UNKNOWN : ETCD_NOT_EXECUTED,
		.err = fate == FATE_UNREACHABLE ? -EHOSTUNREACH : -ETIMEDOUT,
	};
}

/* Executes the delayed call. */
static enum etcd_outcome late(void)
{
	struct registry_result result;
	enum etcd_outcome outcome;

	etcd_model_execute(&etcd, delayed, &result);
	outcome = result.outcome;
	registry_result_release(&result);
	etcd_model_call_free(delayed);
	delayed = NULL;
	return outcome;
}

/* One call, or none. Which it was. */
static enum call host_step(struct host *host, enum fate fate)
{
	uint64_t until_ns = 0, sent_ns = now_ns;
	struct registry_result result;
	struct registry_call call;
	enum membership_next next;
	enum call what;

	if (!host->hangs)
		membership_alive(host->m);
	next = membership_next(host->m, now_ns, TODAY_S, &call, &until_ns);
	host_apply(host);
	if (next != MEMBERSHIP_CALL) {
		assert_true(next == MEMBERSHIP_ENDED || until_ns > now_ns);
		return CALL_NONE;
	}
	what = host->m->call;
	execute(&call, &result, fate);
	now_ns += answer_ns;
	membership_done(host->m, &result, "model", sent_ns, now_ns);
	registry_result_release(&result);
	host_apply(host);
	if (host->drops && !host->keeps)
		drop_end(host);
	return what;
}

/* All that @host has to do now. */
static void host_settle(struct host *host)
{
	for (int i = 0; host_step(host, FATE_GOOD) != CALL_NONE; i++)
		assert_true(i < 100);
}

/* All hosts live on for @ns. */
static void pass(uint64_t ns)
{
	uint64_t end_ns = now_ns + ns;

	while (now_ns < end_ns) {
		if (a.m)
			host_settle(&a);
		if (b.m)
			host_settle(&b);
		now_ns += 10 * MS;
	}
}

/* The next call of this kind gets that fate; the ones before it are good. */
static void host_until(struct host *host, enum call what, enum fate fate)
{
	for (int i = 0; i < 10000; i++) {
		struct registry_call call;
		enum membership_next next;
		uint64_t until_ns = 0, sent_ns = now_ns;
		struct registry_result result;
		bool found;

		membership_alive(host->m);
		next = membership_next(host->m, now_ns, TODAY_S, &call, &until_ns);
		host_apply(host);
		if (next != MEMBERSHIP_CALL) {
			now_ns += MS;
			continue;
		}
		found = host->m->call == what;
		execute(&call, &result, found ? fate : FATE_GOOD);
		now_ns += answer_ns;
		membership_done(host->m, &result, "model", sent_ns, now_ns);
		registry_result_release(&result);
		host_apply(host);
		if (host->drops && !host->keeps)
			drop_end(host);
		if (found)
			return;
	}
	fail();
}

static uint32_t count(const struct shard_set *set)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		n += (uint32_t)__builtin_popcountll(set->bits[i]);
	return n;
}

/* What the map in etcd says of @host: how many rows, and how many are open. */
static uint32_t rows_of(const struct host *host, bool open)
{
	uint32_t number = fleet_map_find(etcd.map, host->options.id), n = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		n += fleet_row_owner(etcd.map->rows[i]) == number &&
		     (!open || etcd.map->rows[i] & FLEET_OPEN);
	return n;
}

static bool serves_now(const struct host *host)
{
	return host->word.end_ns > now_ns;
}

static int setup(void **state)
{
	(void)state;
	now_ns = 1000000 * MS;
	answer_ns = MS;
	etcd_model_init(&etcd, 7);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_end(&a);
	host_end(&b);
	etcd_model_call_free(delayed);
	delayed = NULL;
	etcd_model_release(&etcd);
	return 0;
}

/* a has all shards, and they are open. */
static int setup_one(void **state)
{
	setup(state);
	host_start(&a, "a", 11);
	pass(3 * W_NS);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_true(serves_now(&a));
	return 0;
}

/* a and b have half of the shards each. */
static int setup_two(void **state)
{
	setup(state);
	host_start(&a, "a", 11);
	host_start(&b, "b", 12);
	pass(3 * W_NS);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS / 2);
	assert_int_equal(rows_of(&b, true), FLEET_SHARDS / 2);
	assert_true(serves_now(&a) && serves_now(&b));
	return 0;
}

static void lose_key(const struct host *host)
{
	etcd_model_end(&etcd, host->m->lease);
}

/* The first member becomes the controller, gets all shards at once, and opens them. */
static void test_first(void **state)
{
	struct membership_status status;

	(void)state;
	membership_status(a.m, &status);
	assert_int_equal(status.registrations, 1);
	assert_int_equal(status.shards_served, FLEET_SHARDS);
	assert_true(status.controller);
	assert_string_equal(status.waits, "");
	assert_int_equal(etcd.map->members[0]->session, 1);
}

/* The word ends W less the margin after the keepalive was begun, whatever the answer took. */
static void test_word_from_before(void **state)
{
	uint64_t begun_ns;

	(void)state;
	answer_ns = 300 * MS;
	host_until(&a, CALL_KEEPALIVE, FATE_GOOD);
	begun_ns = now_ns - answer_ns;
	host_until(&a, CALL_POLL, FATE_GOOD);
	assert_int_equal(a.word.end_ns, begun_ns + W_NS - W_NS / 250 - MS);
}

/* A poll whose compares failed, and that had no memory for what it read, may have lost the key. */
static void test_word_needs_what_was_read(void **state)
{
	const uint64_t end_ns = a.word.end_ns;
	struct registry_result result;
	struct registry_call call;
	uint64_t until_ns;

	(void)state;
	host_until(&a, CALL_KEEPALIVE, FATE_GOOD);
	lose_key(&a);
	assert_int_equal(membership_next(a.m, now_ns, TODAY_S, &call, &until_ns), MEMBERSHIP_CALL);
	assert_int_equal(a.m->call, CALL_POLL);
	etcd_model_execute(&etcd, &call, &result);
	assert_int_equal(result.outcome, ETCD_COMPARE_FAILED);
	result.reads = 0;
	membership_done(a.m, &result, "model", now_ns, now_ns);
	registry_result_release(&result);
	host_apply(&a);
	assert_int_equal(a.word.end_ns, end_ns);
	pass(W_NS);
	assert_int_equal(a.m->registrations, 2);
}

/* Neither call alone extends a word. */
static void test_word_needs_both(void **state)
{
	uint64_t end_ns = a.word.end_ns;

	(void)state;
	host_until(&a, CALL_KEEPALIVE, FATE_LOST);
	host_until(&a, CALL_KEEPALIVE, FATE_GOOD);
	host_until(&a, CALL_POLL, FATE_LOST);
	assert_int_equal(a.word.end_ns, end_ns);
	host_until(&a, CALL_POLL, FATE_GOOD);
	assert_true(a.word.end_ns > end_ns);
}

/* Workers that hang get no keepalive and no word, but the map is followed. */
static void test_workers_hang(void **state)
{
	unsigned int keepalives = 0;
	uint64_t end_ns;

	(void)state;
	a.hangs = true;
	host_settle(&a);
	end_ns = a.word.end_ns;
	for (int i = 0; i < 40; i++) {
		enum call what = host_step(&a, FATE_GOOD);

		keepalives += what == CALL_KEEPALIVE;
		assert_true(what == CALL_NONE || what == CALL_POLL || what == CALL_KEEPALIVE);
		now_ns += 100 * MS;
	}
	/* The workers had a turn before they began to hang. */
	assert_true(keepalives <= 1);
	assert_true(a.word.end_ns <= end_ns + 2 * a.m->period_ns);
	assert_false(serves_now(&a));
	a.hangs = false;
	host_settle(&a);
	assert_true(serves_now(&a));
}

/* As another process with its memory would: the session changes, and so does the map. */
static void register_anew(struct host *host)
{
	host->m->registrations = 0;
	lose_key(host);
	pass(W_NS);
}

/* A member that has lost and waited would lose again with its old map and lease. */
static void test_register_again(void **state)
{
	struct fleet_map *map;

	(void)state;
	host_start(&b, "b", 2);
	host_until(&b, CALL_GRANT, FATE_GOOD);
	assert_null(map_edit_finish(map_edit_create(etcd.map), &map));
	etcd_model_put(&etcd, map);
	host_until(&b, CALL_REGISTER, FATE_GOOD);
	assert_int_equal(b.m->own, 0);
	now_ns += W_NS;
	assert_int_equal(host_step(&b, FATE_GOOD), CALL_GRANT);
	assert_int_equal(host_step(&b, FATE_GOOD), CALL_LOOK);
	assert_int_equal(host_step(&b, FATE_GOOD), CALL_REGISTER);
	assert_int_not_equal(b.m->own, 0);
}

/* A lost key: the items stay, and the rows are proven at return. */
static void test_key_lost(void **state)
{
	uint64_t epoch = etcd.map->head->epoch;

	(void)state;
	lose_key(&a);
	pass(W_NS);
	assert_int_equal(a.m->registrations, 2);
	assert_int_equal(etcd.map->members[0]->session, 1);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS);
	assert_int_equal(etcd.map->head->epoch, epoch);
	assert_false(a.drops);
	assert_true(serves_now(&a) && a.word.epoch == epoch);
}

/* a, which the map calls away then. */
static void lose_key_and_be_away(void)
{
	struct map_edit *edit = map_edit_create(etcd.map);
	struct fleet_map *map;

	lose_key(&a);
	map_edit_flags(edit, 0, FLEET_MEMBER_AWAY);
	assert_null(map_edit_finish(edit, &map));
	etcd_model_put(&etcd, map);
}

/* Then a registration has to take that back. */
static void test_key_lost_away(void **state)
{
	(void)state;
	lose_key_and_be_away();
	pass(W_NS);
	assert_int_equal(a.m->registrations, 2);
	assert_int_equal(etcd.map->members[0]->session, 2);
	assert_int_equal(etcd.map->members[0]->flags, 0);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
}

/* Invariant 7. */
static void test_outage(void **state)
{
	(void)state;
	for (int i = 0; i < 6000; i++) {
		host_step(&a, i % 2 ? FATE_LOST : FATE_UNREACHABLE);
		host_step(&b, i % 2 ? FATE_UNREACHABLE : FATE_LOST);
		now_ns += 100 * MS;
	}
	lose_key(&a);
	lose_key(&b);
	assert_false(serves_now(&a) || serves_now(&b));
	pass(4 * W_NS);
	assert_int_equal(count(&a.served), FLEET_SHARDS / 2);
	assert_int_equal(count(&b.served), FLEET_SHARDS / 2);
	assert_int_equal(a.m->shards.waiting + b.m->shards.waiting, 0);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS / 2);
	assert_true(serves_now(&a) && serves_now(&b));
}

/* While another kvd is registered by the ID, the second one waits; then its rows wait, too. */
static void test_same_id(void **state)
{
	struct membership_status status;

	(void)state;
	host_start(&b, "a", 99);
	pass(3 * W_NS);
	assert_int_equal(b.m->registrations, 0);
	assert_int_equal(b.words, 0);
	membership_status(b.m, &status);
	assert_string_equal(status.waits, "another kvd is registered by this name");
	assert_true(b.m->held_is_logged);

	membership_destroy(a.m);
	a.m = NULL;
	etcd_model_end(&etcd, etcd.members[0].lease);
	pass(W_NS / 2);
	assert_int_equal(b.m->registrations, 1);
	assert_int_equal(etcd.map->members[0]->session, 2);
	assert_int_equal(count(&b.served), 0);
	assert_int_equal(rows_of(&b, true), 0);
	assert_true(serves_now(&b));
	pass(W_NS);
	assert_int_equal(rows_of(&b, true), FLEET_SHARDS);
}

/* The process before this one may serve until W after its last extension. */
static void test_restart_waits(void **state)
{
	uint64_t read_ns;

	(void)state;
	lose_key(&a);
	host_end(&a);
	host_start(&a, "a", 21);
	host_until(&a, CALL_REGISTER, FATE_GOOD);
	read_ns = now_ns;
	assert_int_equal(rows_of(&a, false), FLEET_SHARDS);
	assert_int_equal(rows_of(&a, true), 0);
	while (now_ns + 11 * MS < read_ns + WAIT_NS) {
		host_settle(&a);
		assert_int_equal(count(&a.served), 0);
		now_ns += 10 * MS;
	}
	/* Again: it proves nothing. */
	lose_key(&a);
	host_end(&a);
	host_start(&a, "a", 22);
	host_until(&a, CALL_REGISTER, FATE_GOOD);
	read_ns = now_ns;
	now_ns = read_ns + WAIT_NS - 1;
	a.hangs = true;
	membership_next(a.m, now_ns, TODAY_S, &(struct registry_call){ 0 }, &read_ns);
	assert_int_equal(a.m->shards.served_count, 0);
}

/* b gets a's rows, drops what it has of them, waits, serves, and opens them. */
static void test_failover(void **state)
{
	uint64_t since, read_ns;

	(void)state;
	membership_destroy(a.m);
	a.m = NULL;
	lose_key(&b);
	etcd_model_end(&etcd, etcd.members[0].lease);
	while (rows_of(&b, false) < FLEET_SHARDS)
		pass(10 * MS);
	read_ns = now_ns;
	assert_int_equal(count(&b.served), FLEET_SHARDS / 2);
	assert_int_equal(rows_of(&b, true), FLEET_SHARDS / 2);
	since = etcd.map->head->epoch;
	assert_int_equal(etcd.map->members[0]->lost_s, TODAY_S);
	pass(W_NS - 100 * MS);
	assert_int_equal(count(&b.served), FLEET_SHARDS / 2);
	pass(300 * MS);
	assert_true(now_ns > read_ns + WAIT_NS);
	assert_int_equal(count(&b.served), FLEET_SHARDS);
	assert_int_equal(rows_of(&b, true), FLEET_SHARDS);
	assert_true(b.word.epoch > since);
}

/* a was away and lost its rows: at return it serves none, and drops their items. */
static void test_return_after_loss(void **state)
{
	struct host away = a;
	uint64_t epoch;

	(void)state;
	lose_key(&a);
	a.m = NULL;
	pass(5 * W_NS);
	assert_int_equal(rows_of(&b, true), FLEET_SHARDS);
	a = away;
	a.keeps = true;
	host_until(&a, CALL_REGISTER, FATE_GOOD);
	epoch = etcd.map->head->epoch;
	assert_int_equal(count(&a.served), 0);
	assert_true(a.drops);
	assert_int_equal(count(&a.dropping), FLEET_SHARDS / 2);
	/* No word before that is done (FLEET-3). */
	pass(W_NS);
	assert_int_equal(a.words, away.words);
	assert_false(serves_now(&a));
	drop_end(&a);
	pass(W_NS / 4);
	assert_true(serves_now(&a));
	assert_true(a.word.epoch >= epoch);
}

/* The registration was executed, and its answer is lost: the key says so. */
static void test_register_unknown(void **state)
{
	(void)state;
	lose_key(&a);
	host_until(&a, CALL_REGISTER, FATE_UNKNOWN);
	assert_int_equal(a.m->own, 0);
	pass(W_NS);
	assert_int_equal(a.m->registrations, 2);
	assert_int_equal(etcd.map->members[0]->session, 1);
	assert_int_equal(a.m->session, 1);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_false(a.drops);
	lose_key(&a);
	pass(W_NS);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
}

/* An attempt is executed after a look that has found nothing new, and before the next one. */
static void test_register_late(void **state)
{
	(void)state;
	lose_key(&a);
	host_until(&a, CALL_REGISTER, FATE_LATE);
	host_until(&a, CALL_LOOK, FATE_GOOD);
	assert_true(a.m->key_free);
	assert_int_equal(late(), ETCD_SUCCEEDED);
	pass(W_NS);
	assert_int_equal(a.m->registrations, 2);
	assert_int_equal(etcd.map->members[0]->session, 1);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
}

/* The first registration, which writes the map, is executed after a look that did not see it. */
static void test_register_first_late(void **state)
{
	(void)state;
	host_start(&b, "b", 2);
	host_until(&b, CALL_REGISTER, FATE_LATE);
	host_until(&b, CALL_LOOK, FATE_GOOD);
	assert_true(b.m->key_free);
	assert_int_equal(late(), ETCD_SUCCEEDED);
	host_until(&b, CALL_REGISTER, FATE_GOOD);
	pass(W_NS);
	assert_int_equal(etcd.map->members[1]->session, 1);
	assert_int_equal(b.m->session, 1);
}

/* A member that waits to open shards, after it has lost, does not wait to be elected. */
static void test_election_at_once(void **state)
{
	const uint64_t before_ns = now_ns;

	(void)state;
	assert_true(a.m->controller);
	b.m->retry_ns = now_ns + 4 * W_NS;
	etcd.controller.create_revision = 0;
	etcd.revision++;
	host_until(&b, CALL_CAMPAIGN, FATE_GOOD);
	assert_in_range(now_ns - before_ns, 0, W_NS);
}

/* A member with items registers likewise. */
static void test_register_away_late(void **state)
{
	(void)state;
	lose_key_and_be_away();
	host_until(&a, CALL_REGISTER, FATE_LATE);
	host_until(&a, CALL_LOOK, FATE_GOOD);
	assert_true(a.m->key_free);
	assert_int_equal(late(), ETCD_SUCCEEDED);
	pass(W_NS);
	assert_int_equal(etcd.map->members[0]->session, 2);
	assert_int_equal(a.m->session, 2);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_false(a.drops);
}

/* The first attempt comes after the second. */
static void test_register_too_late(void **state)
{
	(void)state;
	lose_key(&a);
	host_until(&a, CALL_REGISTER, FATE_LATE);
	host_until(&a, CALL_REGISTER, FATE_GOOD);
	assert_int_equal(late(), ETCD_COMPARE_FAILED);
	assert_int_equal(etcd.map->members[0]->session, 1);
}

/* a's rows are closed, waited for, and about to be opened. */
static void close_rows(void)
{
	lose_key(&a);
	host_end(&a);
	host_start(&a, "a", 31);
	pass(W_NS + 10 * MS);
	assert_int_equal(rows_of(&a, true), 0);
}

/* Opened or not, the rows are proven when the member has lost its key meanwhile. */
static void test_open_unknown(void **state)
{
	(void)state;
	close_rows();
	host_until(&a, CALL_OPEN, FATE_UNKNOWN);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS);
	lose_key(&a);
	pass(W_NS);
	assert_int_equal(a.m->registrations, 2);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_false(a.drops);
}

static void test_open_lost(void **state)
{
	(void)state;
	close_rows();
	host_until(&a, CALL_OPEN, FATE_LATE);
	lose_key(&a);
	host_until(&a, CALL_REGISTER, FATE_GOOD);
	assert_int_equal(late(), ETCD_COMPARE_FAILED);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_int_equal(rows_of(&a, true), 0);
	pass(W_NS / 2);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS);
}

/* The first attempt is executed after the second was sent: one of them, not both. */
static void test_open_late(void **state)
{
	uint64_t epoch;

	(void)state;
	close_rows();
	epoch = etcd.map->head->epoch;
	host_until(&a, CALL_OPEN, FATE_LATE);
	pass(W_NS / 20);
	assert_int_equal(late(), ETCD_SUCCEEDED);
	pass(W_NS);
	assert_int_equal(etcd.map->head->epoch, epoch + 1);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_int_equal(a.m->registrations, 1);
}

/* A process that has the memory of an earlier one, which registered again meanwhile. */
static void test_session(void **state)
{
	struct host copy = a;

	(void)state;
	copy.m = heap_alloc(sizeof(*copy.m));
	*copy.m = *a.m;
	copy.m->map = etcd_model_map_copy(a.m->map);
	copy.m->options.incarnation = 77;
	copy.m->registrations = 0;
	copy.m->own = copy.m->lease = copy.m->controller = 0;
	copy.map = etcd_model_map_copy(a.map);

	register_anew(&a);
	assert_int_equal(etcd.map->members[0]->session, 2);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	lose_key(&a);
	host_end(&a);
	host_until(&copy, CALL_REGISTER, FATE_GOOD);
	assert_int_equal(etcd.map->members[0]->session, 3);
	assert_int_equal(count(&copy.served), 0);
	assert_int_equal(count(&copy.dropping), FLEET_SHARDS);
	assert_int_equal(rows_of(&copy, true), 0);
	host_end(&copy);
}

static void fenced(bool is)
{
	struct membership_status status;

	membership_status(a.m, &status);
	assert_int_equal(a.m->fenced, is);
	assert_int_equal(!!*status.waits, is);
	assert_int_equal(serves_now(&a), !is);
	if (is)
		assert_int_equal(a.word.end_ns, 0);
}

/* A backup, in which the member is registered, too, is restored; then the fleet is adopted. */
static void test_restored(void **state)
{
	struct etcd_model backup = { 0 };
	bool new_cluster = *state;

	etcd_model_copy(&backup, &etcd);
	for (int i = 0; i < 3; i++)
		register_anew(&a);
	fenced(false);
	etcd_model_copy(&etcd, &backup);
	etcd_model_release(&backup);
	etcd.cluster_id += new_cluster;
	pass(W_NS / 2);
	fenced(true);
	/* Another history that has more epochs does not excuse it. */
	for (int i = 0; i < 5; i++) {
		struct fleet_map *map;

		assert_null(map_edit_finish(map_edit_create(etcd.map), &map));
		etcd_model_put(&etcd, map);
	}
	pass(W_NS / 2);
	fenced(true);

	etcd_model_adopt(&etcd, 8);
	pass(W_NS / 2);
	assert_int_equal(count(&a.served), 0);
	if (etcd.members[0].create_revision)
		etcd_model_end(&etcd, etcd.members[0].lease);
	pass(2 * W_NS);
	fenced(false);
	assert_int_equal(a.word.generation, 8);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS);
}

static void test_restored_elsewhere(void **state)
{
	*state = state;
	test_restored(state);
}

/* The backup is as new as what the member knows: the cluster's ID alone differs. */
static void test_replaced(void **state)
{
	(void)state;
	etcd.cluster_id = 2;
	pass(W_NS / 2);
	fenced(true);
	etcd.cluster_id = 1;
	pass(W_NS / 2);
	fenced(true);
}

static void test_map_gone(void **state)
{
	struct membership_status status;
	struct fleet_map *anew;

	(void)state;
	etcd.revision++;
	fleet_map_free(etcd.map);
	etcd.map = NULL;
	pass(W_NS / 2);
	fenced(true);
	membership_status(a.m, &status);
	assert_non_null(strstr(status.waits, "--fleet-init"));
	etcd_model_release(&etcd);
	etcd_model_init(&etcd, 9);
	etcd.revision += 1000;
	etcd.map_revision = etcd.revision;
	pass(W_NS / 2);
	fenced(true);
	/* Keys of a new fleet have another hash, which no adoption changes. */
	assert_null(map_edit_finish(map_edit_create_first(etcd.map->head->name, 10, 2, 0), &anew));
	etcd_model_put(&etcd, anew);
	pass(W_NS / 2);
	fenced(true);
	membership_status(a.m, &status);
	assert_string_equal(status.waits, "etcd was restored or replaced: restart all members");
}

/* The controller is deposed, and elected again; between, a transaction of its own is no harm. */
static void test_deposed(void **state)
{
	int64_t revision;

	(void)state;
	assert_true(a.m->controller || b.m->controller);
	for (int i = 0; i < 4; i++) {
		revision = etcd.controller.create_revision;
		etcd_model_end(&etcd, etcd.controller.lease);
		pass(W_NS);
		assert_true(etcd.controller.create_revision > revision);
		assert_true(!a.m->controller != !b.m->controller);
	}
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS / 2);
}

/* Each outcome of an assignment that is not known. */
static void test_assign_unknown(void **state)
{
	const enum fate fates[] = { FATE_LOST, FATE_UNKNOWN, FATE_LATE };

	(void)state;
	for (size_t i = 0; i < sizeof(fates) / sizeof(*fates); i++) {
		uint32_t rows;

		teardown(state);
		setup_two(state);
		host_end(&a);
		etcd_model_end(&etcd, etcd.members[0].lease);
		host_until(&b, CALL_ASSIGN, fates[i]);
		rows = rows_of(&b, false);
		assert_int_equal(rows > FLEET_SHARDS / 2, fates[i] == FATE_UNKNOWN);
		host_until(&b, CALL_POLL, FATE_GOOD);
		if (fates[i] == FATE_LATE)
			assert_int_equal(late(), ETCD_SUCCEEDED);
		pass(3 * W_NS);
		assert_int_equal(rows_of(&b, true), FLEET_SHARDS);
	}
}

/* A target's key that is lost between look and transaction: nothing is assigned to it. */
static void test_target_lost(void **state)
{
	(void)state;
	host_end(&a);
	etcd_model_end(&etcd, etcd.members[0].lease);
	host_until(&b, CALL_ASSIGN, FATE_LATE);
	lose_key(&b);
	assert_int_equal(late(), ETCD_COMPARE_FAILED);
}

/* The member ends its word, then its lease. */
static void test_stop(void **state)
{
	(void)state;
	membership_stop(a.m);
	host_apply(&a);
	assert_int_equal(a.word.end_ns, 0);
	assert_int_not_equal(etcd.members[0].create_revision, 0);
	assert_int_equal(host_step(&a, FATE_GOOD), CALL_REVOKE);
	assert_int_equal(etcd.members[0].create_revision, 0);
	assert_int_equal(etcd.controller.create_revision, 0);
	assert_int_equal(host_step(&a, FATE_GOOD), CALL_NONE);
	assert_int_equal(a.word.end_ns, 0);
	pass(4 * W_NS);
	assert_int_equal(a.word.end_ns, 0);
}

/* An extension under way when the member stops changes nothing. */
static void test_stop_midway(void **state)
{
	struct registry_result result;
	struct registry_call call;
	uint64_t until_ns;

	(void)state;
	host_until(&a, CALL_KEEPALIVE, FATE_GOOD);
	assert_int_equal(membership_next(a.m, now_ns, TODAY_S, &call, &until_ns), MEMBERSHIP_CALL);
	membership_stop(a.m);
	host_apply(&a);
	etcd_model_execute(&etcd, &call, &result);
	membership_done(a.m, &result, "", now_ns, now_ns);
	registry_result_release(&result);
	host_apply(&a);
	assert_int_equal(a.word.end_ns, 0);
	assert_int_equal(host_step(&a, FATE_GOOD), CALL_REVOKE);
}

/* Without etcd it ends all the same. */
static void test_stop_alone(void **state)
{
	(void)state;
	membership_stop(a.m);
	host_apply(&a);
	assert_int_equal(host_step(&a, FATE_LOST), CALL_REVOKE);
	assert_int_equal(host_step(&a, FATE_LOST), CALL_NONE);
}

/* Another member's transaction may not do this; if one does, nothing is proven. */
static void test_row_changed(void **state)
{
	struct map_edit *edit = map_edit_create(etcd.map);
	struct fleet_map *map;

	(void)state;
	map_edit_row(edit, 5, 0, 0);
	assert_null(map_edit_finish(edit, &map));
	etcd_model_put(&etcd, map);
	a.keeps = true;
	pass(W_NS / 2);
	assert_int_equal(count(&a.served), FLEET_SHARDS - 1);
	assert_int_equal(count(&a.dropping), 1);
	assert_true(serves_now(&a));
	/* Not before it is dropped. */
	pass(2 * W_NS);
	assert_int_equal(count(&a.served), FLEET_SHARDS - 1);
	drop_end(&a);
	pass(W_NS / 2);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS);
}

/* A map that can't be used is no reason to serve on, nor to forget anything. */
static void test_map_broken(void **state)
{
	struct membership_status status;
	struct registry_result result;
	struct registry_call call;
	uint64_t until_ns, end_ns;

	(void)state;
	host_until(&a, CALL_KEEPALIVE, FATE_GOOD);
	end_ns = a.word.end_ns;
	assert_int_equal(membership_next(a.m, now_ns, TODAY_S, &call, &until_ns), MEMBERSHIP_CALL);
	result = (struct registry_result){
		.outcome = ETCD_COMPARE_FAILED,
		.cluster_id = 1,
		.reads = READ_ALL,
		.map_revision = etcd.map_revision + 1,
		.map_error = "the sum is wrong",
	};
	membership_done(a.m, &result, "", now_ns, now_ns);
	host_apply(&a);
	assert_int_equal(a.word.end_ns, end_ns);
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	membership_status(a.m, &status);
	assert_string_equal(status.waits, "the map in etcd can't be used");
	pass(W_NS / 2);
	assert_true(a.word.end_ns > end_ns);
	membership_status(a.m, &status);
	assert_string_equal(status.waits, "");
}

/* A member gets this request of an administrator. */
static void want(struct host *host, enum wire_fleet what, const char *id)
{
	struct fleet_wants wants = { .change = true, .what = what };

	strncpy(wants.id, id, FLEET_NAME_MAX);
	membership_want(host->m, &wants);
	host_apply(host);
	host_settle(host);
}

static struct membership_move move_now(void)
{
	struct membership_move move;

	membership_move(a.m, &move);
	return move;
}

/* a is drained, and b would take its shards. */
static void move_ask(void)
{
	want(&a, WIRE_FLEET_DRAIN, "a");
	pass(20 * MS);
	assert_int_equal(move_now().state, MOVE_ASK);
	assert_memory_equal(move_now().target, "b", 2);
	assert_string_equal(move_now().urls, "softnic:///m");
	membership_asked(a.m, move_now().id);
}

/* a has closed rows, and b accepts them. */
static void move_copy(void)
{
	struct fleet_wants wants = { 0 };

	move_ask();
	host_until(&a, CALL_CLOSE, FATE_GOOD);
	assert_int_equal(move_now().state, MOVE_COPY);
	wants.accept_generation = move_now().generation;
	wants.accept_epoch = move_now().epoch;
	/* b has to look first. */
	membership_want(b.m, &wants);
	host_apply(&b);
	assert_int_equal(b.accepts, 0);
	assert_int_equal(host_step(&b, FATE_GOOD), CALL_POLL);
	membership_want(b.m, &wants);
	host_apply(&b);
	assert_int_equal(b.accepts, 1);
}

static void move_freeze(void)
{
	uint64_t last_ns = a.m->move.last_end_ns;

	membership_copied(a.m, move_now().id);
	while (now_ns <= last_ns) {
		assert_int_equal(move_now().state, MOVE_COPY);
		assert_int_equal(count(&a.served), FLEET_SHARDS / 2);
		pass(10 * MS);
	}
	pass(10 * MS);
	assert_int_equal(move_now().state, MOVE_FROZEN);
	assert_int_equal(count(&a.frozen), MOVE_SHARDS_MAX);
	assert_int_equal(count(&a.served), FLEET_SHARDS / 2 - MOVE_SHARDS_MAX);
}

static void move_confirm(void)
{
	move_freeze();
	membership_confirmed(a.m, move_now().id, b.own);
	assert_int_equal(move_now().state, MOVE_GIVE);
}

static void assert_given(void)
{
	struct membership_status status;

	assert_int_equal(rows_of(&a, false), FLEET_SHARDS / 2 - MOVE_SHARDS_MAX);
	assert_int_equal(rows_of(&b, true), FLEET_SHARDS / 2 + MOVE_SHARDS_MAX);
	assert_int_equal(count(&a.frozen), 0);
	assert_int_equal(count(&b.served), FLEET_SHARDS / 2 + MOVE_SHARDS_MAX);
	assert_int_equal(b.accepts, 0);
	membership_status(a.m, &status);
	assert_int_equal(status.moved, MOVE_SHARDS_MAX);
	assert_int_equal(status.moves_left, FLEET_SHARDS / 2 - MOVE_SHARDS_MAX);
}

/* a has all that it had, open, and b has dropped what it had of that. */
static void assert_opened(void)
{
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS / 2);
	assert_int_equal(count(&a.served), FLEET_SHARDS / 2);
	assert_int_equal(count(&a.frozen), 0);
	assert_int_equal(b.accepts, 0);
	assert_int_equal(count(&b.served), FLEET_SHARDS / 2);
	assert_int_equal(a.m->move.failed, 1);
}

static void test_move(void **state)
{
	uint64_t end_ns;

	(void)state;
	move_ask();
	end_ns = a.word.end_ns;
	host_until(&a, CALL_CLOSE, FATE_GOOD);
	assert_true(a.word.epoch == move_now().epoch);
	assert_true(a.word.end_ns >= end_ns && a.m->move.last_end_ns == a.word.end_ns);
	teardown(state);
	setup_two(state);
	move_copy();
	move_confirm();
	assert_int_equal(host_step(&a, FATE_GOOD), CALL_GIVE);
	assert_true(a.drops == false && move_now().state == MOVE_NONE);
	pass(W_NS / 4);
	assert_given();
	assert_false(a.takes);
	assert_true(b.takes);
}

/* Executed, and nobody knows: the abort reads it. */
static void test_give_unknown(void **state)
{
	(void)state;
	move_copy();
	move_confirm();
	host_until(&a, CALL_GIVE, FATE_UNKNOWN);
	assert_int_equal(count(&a.frozen), MOVE_SHARDS_MAX);
	host_until(&a, CALL_OPEN, FATE_GOOD);
	pass(W_NS / 4);
	assert_given();
}

/* Not executed yet: what the map says is no reason to serve; then the abort is first. */
static void test_give_late(void **state)
{
	(void)state;
	move_copy();
	move_confirm();
	host_until(&a, CALL_GIVE, FATE_LATE);
	host_until(&a, CALL_OPEN, FATE_UNREACHABLE);
	host_until(&a, CALL_POLL, FATE_GOOD);
	assert_int_equal(count(&a.frozen), MOVE_SHARDS_MAX);
	host_until(&a, CALL_OPEN, FATE_GOOD);
	assert_int_equal(late(), ETCD_COMPARE_FAILED);
	pass(W_NS / 4);
	assert_opened();
}

/* The process ends, and another one goes on with what it has kept. */
static void host_return(struct host *host)
{
	const struct registry_call read = { .kind = REGISTRY_TXN, .reads = { 0, READ_ALL } };
	struct membership_options options = host->options;
	static struct membership_kept kept;
	struct membership_past past = { .kept = &kept };
	struct registry_result first;

	past.map = etcd_model_map_copy(membership_keep(host->m, &kept));
	host_end(host);
	options.keeps = true;
	options.incarnation += 100;
	host->options = options;
	etcd_model_execute(&etcd, &read, &first);
	host->m = membership_create(&host->options, &first, &past, now_ns);
	registry_result_release(&first);
	assert_false(serves_now(host));
	host_apply(host);
}

/* The member serves all again, without a registration. */
static void test_return(void **state)
{
	(void)state;
	host_return(&a);
	pass(W_NS / 4);
	assert_true(serves_now(&a));
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_int_equal(a.m->registrations, 0);
	/* The key is gone, and nobody has its shards yet. */
	lose_key(&a);
	host_return(&a);
	pass(W_NS / 4);
	assert_true(serves_now(&a));
	assert_int_equal(count(&a.served), FLEET_SHARDS);
	assert_int_equal(a.m->registrations, 1);
	assert_false(a.drops);
}

/* Others have them: it serves none, and drops what it had. */
static void test_return_late(void **state)
{
	(void)state;
	lose_key(&a);
	for (int i = 0; i < 1000 && rows_of(&a, false); i++) {
		host_settle(&b);
		now_ns += 10 * MS;
	}
	assert_int_equal(rows_of(&a, false), 0);
	a.keeps = true;
	host_return(&a);
	assert_int_equal(count(&a.served), 0);
	assert_int_equal(count(&a.dropping), FLEET_SHARDS / 2);
}

/* A transaction that gives shards may still be executed. */
static void test_return_frozen(void **state)
{
	(void)state;
	move_copy();
	move_confirm();
	host_until(&a, CALL_GIVE, FATE_LATE);
	host_return(&a);
	host_until(&a, CALL_POLL, FATE_GOOD);
	assert_int_equal(count(&a.frozen), MOVE_SHARDS_MAX);
	assert_int_equal(count(&a.served), FLEET_SHARDS / 2 - MOVE_SHARDS_MAX);
	assert_int_equal(late(), ETCD_SUCCEEDED);
	pass(W_NS / 4);
	assert_given();
}

/* The member that gets them returns before they are given. */
static void test_target_returns(void **state)
{
	(void)state;
	move_copy();
	move_confirm();
	host_return(&b);
	assert_int_equal(b.accepts, 1);
	assert_int_equal(host_step(&a, FATE_GOOD), CALL_GIVE);
	pass(W_NS / 4);
	assert_given();
	assert_false(b.drops);
}

static void test_give_conflict(void **state)
{
	struct fleet_map *map;

	(void)state;
	move_copy();
	move_confirm();
	assert_null(map_edit_finish(map_edit_create(etcd.map), &map));
	etcd_model_put(&etcd, map);
	host_until(&a, CALL_GIVE, FATE_GOOD);
	assert_int_equal(move_now().state, MOVE_GIVE);
	assert_int_equal(count(&a.frozen), MOVE_SHARDS_MAX);
	host_until(&a, CALL_GIVE, FATE_GOOD);
	pass(W_NS / 4);
	assert_given();
}

/* b has registered again: its copies are gone, and it takes no more of this move. */
static void test_target_registers(void **state)
{
	struct fleet_wants wants = { 0 };

	(void)state;
	move_copy();
	move_confirm();
	wants.accept_generation = move_now().generation;
	wants.accept_epoch = move_now().epoch;
	lose_key(&b);
	b.keeps = true;
	host_until(&b, CALL_REGISTER, FATE_GOOD);
	assert_int_equal(b.accepts, 0);
	assert_int_equal(count(&b.dropping), MOVE_SHARDS_MAX);
	drop_end(&b);
	b.keeps = false;
	membership_want(b.m, &wants);
	host_apply(&b);
	assert_int_equal(b.accepts, 0);
	host_until(&a, CALL_GIVE, FATE_GOOD);
	while (move_now().state == MOVE_GIVE)
		host_until(&a, CALL_GIVE, FATE_GOOD);
	assert_int_equal(count(&a.frozen), MOVE_SHARDS_MAX);
	pass(W_NS / 4);
	assert_opened();
}

/* In each state: the move ends, and nothing is lost. */
static void test_move_key_lost(void **state)
{
	for (int i = 0; i < 6; i++) {
		teardown(state);
		setup_two(state);
		if (i < 2)
			move_ask();
		else
			move_copy();
		if (i < 2)
			host_until(&a, CALL_CLOSE, i ? FATE_UNKNOWN : FATE_LOST);
		if (i == 3)
			move_freeze();
		if (i > 3)
			move_confirm();
		if (i == 5)
			host_until(&a, CALL_GIVE, FATE_LOST);
		lose_key(&a);
		while (a.m->registrations < 2)
			pass(10 * MS);
		assert_false(a.drops);
		assert_int_equal(count(&a.served), FLEET_SHARDS / 2);
		pass(W_NS / 4);
		assert_opened();
	}
}

/* The mover fails, or the frozen shards wait for it too long: another attempt is made later. */
static void test_move_fails(void **state)
{
	struct membership_status status;

	(void)state;
	move_copy();
	membership_move_failed(a.m, move_now().id, "it broke");
	pass(W_NS / 4);
	assert_opened();
	membership_status(a.m, &status);
	assert_string_equal(status.move_why, "it broke");
	assert_string_equal(status.waits, "the last move failed: it broke");
	assert_int_equal(move_now().state, MOVE_NONE);
	pass(W_NS);
	assert_int_equal(move_now().state, MOVE_ASK);
	teardown(state);
	setup_two(state);
	move_copy();
	move_freeze();
	pass(W_NS + W_NS / 4);
	assert_opened();
	/* Not wanted any more, and stopped. */
	teardown(state);
	setup_two(state);
	move_copy();
	want(&b, WIRE_FLEET_UNDRAIN, "a");
	pass(W_NS / 4);
	assert_int_equal(move_now().state, MOVE_NONE);
	assert_int_equal(rows_of(&a, true), FLEET_SHARDS / 2);
	teardown(state);
	setup_two(state);
	move_copy();
	move_freeze();
	membership_stop(a.m);
	host_apply(&a);
	assert_int_equal(move_now().state, MOVE_NONE);
	assert_int_equal(count(&a.frozen), MOVE_SHARDS_MAX);
}

/* However often others want a look at etcd, the lease is kept. */
static void test_asked_all_the_time(void **state)
{
	const struct fleet_wants wants = { .look = true, .accept_epoch = UINT64_MAX };
	uint64_t end_ns = now_ns + 4 * W_NS;
	unsigned int polls = 0;

	(void)state;
	while (now_ns < end_ns) {
		enum call call;

		membership_want(b.m, &wants);
		host_apply(&b);
		call = host_step(&b, FATE_GOOD);
		polls += call == CALL_POLL;
		now_ns += call == CALL_NONE ? MS : MS / 4;
		assert_true(serves_now(&b));
	}
	/* Ten in a lease with the keepalives, and eight as many that others want. */
	assert_in_range(polls, 4 * 40, 4 * 90);
}

/* A process that registers again stays drained; the next one does not. */
static void test_flags(void **state)
{
	(void)state;
	want(&b, WIRE_FLEET_DRAIN, "a");
	assert_int_equal(etcd.map->members[0]->flags, FLEET_MEMBER_DRAINED);
	want(&b, WIRE_FLEET_DRAIN, "nobody");
	assert_false(b.m->wants_flags);
	lose_key(&a);
	pass(W_NS);
	assert_int_equal(etcd.map->members[0]->flags, FLEET_MEMBER_DRAINED);
	want(&a, WIRE_FLEET_REBALANCE, "");
	assert_int_equal(etcd.map->members[1]->flags, FLEET_MEMBER_BALANCES);
	/* Which goes on, whoever registers again. */
	lose_key(&b);
	host_until(&b, CALL_REGISTER, FATE_GOOD);
	assert_int_equal(etcd.map->members[1]->flags, FLEET_MEMBER_BALANCES);
	lose_key(&a);
	host_end(&a);
	host_start(&a, "a", 44);
	host_until(&a, CALL_REGISTER, FATE_GOOD);
	assert_int_equal(etcd.map->members[0]->flags & ~FLEET_MEMBER_BALANCES, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define ONE(name) cmocka_unit_test_setup_teardown(name, setup_one, teardown)
#define TWO(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown)
		ONE(test_first),
		ONE(test_word_from_before),
		ONE(test_word_needs_what_was_read),
		ONE(test_word_needs_both),
		ONE(test_workers_hang),
		ONE(test_register_again),
		ONE(test_key_lost),
		ONE(test_key_lost_away),
		TWO(test_outage),
		ONE(test_same_id),
		ONE(test_restart_waits),
		TWO(test_failover),
		TWO(test_return_after_loss),
		ONE(test_register_unknown),
		ONE(test_register_late),
		ONE(test_register_first_late),
		ONE(test_register_away_late),
		TWO(test_election_at_once),
		ONE(test_register_too_late),
		ONE(test_open_unknown),
		ONE(test_open_lost),
		ONE(test_open_late),
		ONE(test_session),
		ONE(test_restored),
		ONE(test_restored_elsewhere),
		ONE(test_replaced),
		ONE(test_map_gone),
		TWO(test_deposed),
		TWO(test_assign_unknown),
		TWO(test_target_lost),
		ONE(test_stop),
		ONE(test_stop_midway),
		ONE(test_stop_alone),
		ONE(test_row_changed),
		ONE(test_map_broken),
		TWO(test_move),
		TWO(test_give_unknown),
		TWO(test_give_late),
		ONE(test_return),
		TWO(test_return_late),
		TWO(test_return_frozen),
		TWO(test_target_returns),
		TWO(test_give_conflict),
		TWO(test_target_registers),
		TWO(test_move_key_lost),
		TWO(test_move_fails),
		TWO(test_asked_all_the_time),
		TWO(test_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
