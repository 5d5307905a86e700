/* SPDX-License-Identifier: MIT */
/*
 * Tests of what a worker does for other members that move shards here, and for administrators of
 * the fleet (server/worker/move.h): each answer to MOVE and FLEET, and what the fleet's thread is
 * told; copies, which are stored only while their move is accepted (OWNER-7), whatever a hostile
 * client sends; and keys, flushes and scans while shards are frozen (OWNER-8).
 */
#include "server/worker/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/fleet/fleet.h"
#include "server/worker/permit.h"
#include "server/worker/pull.h"
#include "server/worker/pull_reads.h"
#include "server/worker/request.h"
#include "tests/support/fleet_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)
#define LARGE (2 * PULL_PIECE_BYTES)
#define MOVE_EPOCH 6u
#define OWN 12345

static struct test_conn *const conn = &test_conns[0], *const other = &test_conns[1];
/* Keys of this member, and of two shards of the other one: which come, and which does not. */
static char mine[16], comes[16], stays[16];
static struct fleet_inbox inbox;
static unsigned int woken;
static uint8_t value[LARGE];

/* What the store was told. */
static struct {
	unsigned int clears, raises;
	uint32_t segment;
	const uint64_t *parts;
	struct table *table;
	uint64_t counter;
} told;

void __wrap_moving_clear(struct store_thread *thread, uint32_t segment, const uint64_t *parts);
void __wrap_moving_clear(struct store_thread *thread, uint32_t segment, const uint64_t *parts)
{
	told.clears++;
	told.table = thread->table;
	told.segment = segment;
	told.parts = parts;
}

void __wrap_table_raise_versions(struct table *table, uint64_t counter);
void __wrap_table_raise_versions(struct table *table, uint64_t counter)
{
	told.raises++;
	told.table = table;
	told.counter = counter;
}

static void wake(void *thread)
{
	assert_ptr_equal(thread, &inbox);
	woken++;
}

static uint64_t hash_of(const char *key)
{
	return table_hash(&test_store.table, key, (uint32_t)strlen(key));
}

static uint64_t *row_of(const char *key)
{
	return (uint64_t *)(uintptr_t)&test_fleet.view->map->rows[fleet_shard(hash_of(key))];
}

static unsigned int key_find(char key[16], unsigned int from, uint32_t member)
{
	do
		snprintf(key, 16, "key%u", from++);
	while (fleet_row_owner(*row_of(key)) != member);
	return from;
}

static void shard_set(uint64_t shards[FLEET_SHARDS / 64], const char *key)
{
	uint32_t shard = fleet_shard(hash_of(key));

	shards[shard / 64] |= 1ull << shard % 64;
}

/* The other member has closed the row of a key, and the server accepts its shard. */
static void accept_it(void)
{
	struct fleet_accept *accept = &test_fleet.view->accepts[0];

	*row_of(comes) = fleet_row(0, false, MOVE_EPOCH);
	*accept = (struct fleet_accept){ .epoch = MOVE_EPOCH };
	shard_set(accept->shards, comes);
	test_fleet.view->accept_count = 1;
}

static int setup(void **state)
{
	unsigned int from;

	(void)state;
	test_fleet_create(2);
	assert_int_equal(test_worker_create(REGION_BYTES, 1u << 20), 0);
	inbox = (struct fleet_inbox){ .wake = wake, .thread = &inbox };
	pthread_mutex_init(&inbox.lock, NULL);
	test_fleet.inbox = &inbox;
	test_fleet.view->own = OWN;
	for (unsigned int i = 0; i < 2; i++) {
		test_conns[i].conn.client.fleet = &test_fleet;
		test_conns[i].conn.client.by_admin = true;
	}
	key_find(mine, 0, 1);
	from = key_find(comes, 0, 0);
	key_find(stays, from, 0);
	memset(&told, 0, sizeof(told));
	woken = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_conn_complete(conn);
	test_conn_complete(other);
	test_worker_destroy();
	pthread_mutex_destroy(&inbox.lock);
	test_fleet_destroy();
	return 0;
}

/* A message in receive @n of a connection; earlier responses are sent, unless it waits. */
static void receive_at(struct test_conn *c, uint32_t n, struct wire_request head, const char *key,
		       const char *bytes)
{
	uint32_t len = bytes ? (uint32_t)strlen(bytes) : 0;
	uint8_t *to = test_recv(n);

	if (!deferred_pending(&c->conn))
		test_conn_complete(c);
	head.id = n;
	head.key_len = key ? (uint16_t)strlen(key) : 0;
	if (!head.value_len)
		head.value_len = len;
	memcpy(to, &head, sizeof(head));
	if (key)
		memcpy(to + sizeof(head), key, head.key_len);
	if (len)
		memcpy(to + sizeof(head) + head.key_len, bytes, len);
	(void)test_receive(c, n, sizeof(head) + head.key_len + len);
}

/* The status of its answer. */
static enum wire_status answer(struct test_conn *c, struct wire_request head, const char *key,
			       const char *bytes)
{
	unsigned int before = c->responses;

	receive_at(c, 0, head, key, bytes);
	test_turns();
	assert_int_equal(c->responses, before + 1);
	assert_int_equal(c->response.op, head.op);
	return (enum wire_status)c->response.status;
}

#define ANSWER(c, key, bytes, ...) answer(c, (struct wire_request){ __VA_ARGS__ }, key, bytes)
#define MOVE(c, which, ...) ANSWER(c, NULL, NULL, .op = WIRE_MOVE, .mode = which, __VA_ARGS__)

static enum wire_status begin_in(struct test_conn *c, uint64_t epoch)
{
	return MOVE(c, WIRE_MOVE_BEGIN, .epoch = epoch,
		    .generation = test_fleet.view->map->head->generation);
}

static enum wire_status copy_in(struct test_conn *c, const char *key)
{
	return ANSWER(c, key, "copied", .op = WIRE_PUT, .mode = WIRE_COPY, .version = 7);
}

/* What the fleet's thread was told since the last time. */
static struct fleet_wants wants(void)
{
	struct fleet_wants taken;

	fleet_wants_take(&test_fleet, &taken);
	return taken;
}

static void assert_nothing_wanted(void)
{
	static const struct fleet_wants nothing;
	struct fleet_wants taken = wants();

	assert_memory_equal(&taken, &nothing, sizeof(nothing));
	assert_int_equal(woken, 0);
}

static void assert_accept_wanted(uint64_t generation, uint64_t epoch)
{
	struct fleet_wants taken = wants();

	assert_true(taken.accept_generation == generation && taken.accept_epoch == epoch);
	assert_true(!taken.look && !taken.change);
	assert_int_equal(woken, 1);
	woken = 0;
}

static void ask(void **state)
{
	(void)state;
	for (unsigned int takes = 0; takes < 2; takes++) {
		test_fleet.view->takes = takes;
		assert_int_equal(MOVE(conn, WIRE_MOVE_ASK, .id = 0), takes ? WIRE_OK : WIRE_BUSY);
		assert_true(conn->response.epoch == TEST_EPOCH);
		assert_true(wants().look);
		assert_int_equal(woken, takes + 1);
	}
}

/* Asked again later: another generation, an older map, what is not accepted yet. */
static void begin_is_busy(void **state)
{
	const uint64_t generation = test_fleet.view->map->head->generation;

	(void)state;
	accept_it();
	assert_int_equal(MOVE(conn, WIRE_MOVE_BEGIN, .epoch = MOVE_EPOCH,
			      .generation = generation + 1),
			 WIRE_BUSY);
	assert_accept_wanted(generation + 1, MOVE_EPOCH);
	assert_int_equal(begin_in(conn, TEST_EPOCH + 1), WIRE_BUSY);
	assert_accept_wanted(generation, TEST_EPOCH + 1);
	test_fleet.view->accept_count = 0;
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_BUSY);
	assert_accept_wanted(generation, MOVE_EPOCH);
	assert_int_equal(copy_in(conn, comes), WIRE_AWAY);
}

/* No row says so. */
static void begin_is_away(void **state)
{
	const uint64_t rows[] = {
		fleet_row(0, true, MOVE_EPOCH),
		fleet_row(1, false, MOVE_EPOCH),
		fleet_row(FLEET_NO_OWNER, false, MOVE_EPOCH),
		fleet_row(0, false, MOVE_EPOCH - 1),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		*row_of(comes) = rows[i];
		assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_AWAY);
		assert_true(conn->response.epoch == TEST_EPOCH);
		assert_nothing_wanted();
	}
}

static void begin_and_copy(void **state)
{
	(void)state;
	accept_it();
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_nothing_wanted();
	assert_int_equal(copy_in(conn, comes), WIRE_OK);
	assert_int_equal(store_items(&test_store), 1);
	/* The sender's word, and answers to changes, are of no concern. */
	test_fleet.end_ns = 1;
	assert_int_equal(copy_in(conn, comes), WIRE_OK);
	/* Nobody else may see it, or change it. */
	assert_int_equal(ANSWER(conn, comes, NULL, .op = WIRE_GET), WIRE_MOVED);
	assert_int_equal(ANSWER(conn, comes, "v", .op = WIRE_PUT), WIRE_MOVED);
}

/* Without BEGIN, after one that failed, on another connection, of other shards. */
static void copies_of_strangers(void **state)
{
	(void)state;
	accept_it();
	/* An accept of epoch 0 is none. */
	test_fleet.view->accepts[1] = test_fleet.view->accepts[0];
	test_fleet.view->accepts[1].epoch = 0;
	test_fleet.view->accept_count = 2;
	assert_int_equal(copy_in(conn, comes), WIRE_AWAY);
	assert_int_equal(begin_in(other, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(copy_in(conn, comes), WIRE_AWAY);
	assert_true(conn->response.epoch == TEST_EPOCH);
	assert_int_equal(copy_in(other, stays), WIRE_AWAY);
	assert_int_equal(begin_in(other, TEST_EPOCH), WIRE_AWAY);
	assert_int_equal(copy_in(other, comes), WIRE_AWAY);
	assert_int_equal(begin_in(conn, 0), WIRE_INVALID);
	assert_int_equal(MOVE(conn, WIRE_MOVE_CLEAR, .segment = 5), WIRE_AWAY);
	assert_int_equal(copy_in(conn, comes), WIRE_AWAY);
	assert_int_equal(stat_read(&test_worker.stats.fleet_away), 5);
	assert_int_equal(stat_read(&test_worker.stats.fleet_refused), 0);
	assert_int_equal(store_items(&test_store), 0);
}

/* Whatever the accept says; and a shard that was given to the server while copies arrive. */
static void copies_of_what_is_served(void **state)
{
	(void)state;
	accept_it();
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(copy_in(conn, mine), WIRE_AWAY);
	shard_set(test_fleet.view->accepts[0].shards, mine);
	assert_int_equal(copy_in(conn, mine), WIRE_AWAY);
	test_fleet_serve(hash_of(comes), true);
	assert_int_equal(copy_in(conn, comes), WIRE_AWAY);
	assert_int_equal(store_items(&test_store), 0);
}

static struct answers answers;

/* ANSWER-4 is about changes: a copy is none. */
static void copies_beside_refusals(void **state)
{
	(void)state;
	accept_it();
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(copy_in(conn, stays), WIRE_AWAY);
	assert_false(answers.refuses);
	assert_int_equal(ANSWER(conn, stays, "v", .op = WIRE_PUT, .change = 1), WIRE_MOVED);
	assert_true(answers.refuses);
	assert_int_equal(copy_in(conn, comes), WIRE_OK);
	assert_true(answers.last == 1 && answers.refuses);
}

/* The device has READ what the oldest READ asks for. */
static void serve_read(void)
{
	uint64_t wr_id = conn->reads[0].wr_id;

	assert_true(conn->read_count);
	memcpy((void *)(uintptr_t)conn->sges[0].addr,
	       (void *)(uintptr_t)conn->reads[0].wr.rdma.remote_addr, conn->sges[0].length);
	conn->read_count--;
	memmove(conn->reads, conn->reads + 1, conn->read_count * sizeof(conn->reads[0]));
	memmove(conn->sges, conn->sges + 1, conn->read_count * sizeof(conn->sges[0]));
	pull_done(&conn->conn, wr_id);
	deferred_wake(&conn->conn);
}

static void copy_large(uint32_t n, const char *key)
{
	receive_at(conn, n,
		   (struct wire_request){ .op = WIRE_PUT,
					  .mode = WIRE_COPY,
					  .flags = WIRE_F_PULL,
					  .value_len = LARGE,
					  .version = 7,
					  .pull_addr = (uintptr_t)value },
		   key, NULL);
}

static void read_all(void)
{
	while (conn->read_count) {
		serve_read();
		test_turns();
	}
}

/* A value that is READ: whether the move is still accepted is asked before it is stored, too. */
static void copies_that_are_pulled(void **state)
{
	(void)state;
	accept_it();
	copy_large(0, comes);
	test_turns();
	assert_int_equal(conn->response.status, WIRE_AWAY);
	assert_int_equal(conn->read_count, 0);
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	copy_large(0, comes);
	test_turns();
	read_all();
	assert_int_equal(conn->response.status, WIRE_OK);
	assert_int_equal(store_items(&test_store), 1);
	/* The second one is begun early, and that of another shard refused at once. */
	copy_large(0, comes);
	copy_large(1, comes);
	copy_large(2, stays);
	assert_int_equal(conn->conn.pulls, 2);
	test_fleet.view->accept_count = 0;
	conn->id_count = 0;
	read_all();
	test_turns();
	assert_int_equal(conn->id_count, 3);
	assert_int_equal(conn->response.status, WIRE_AWAY);
	assert_int_equal(stat_read(&test_worker.stats.fleet_away), 4);
	assert_int_equal(conn->conn.pull_ahead, 0);
}

/* The move ends while a copy waits, and after its value has arrived. */
static void copies_after_the_end(void **state)
{
	(void)state;
	accept_it();
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	receive_at(conn, 0, (struct wire_request){ .op = WIRE_SCAN }, NULL, NULL);
	receive_at(conn, 1,
		   (struct wire_request){ .op = WIRE_PUT, .mode = WIRE_COPY, .version = 7 }, comes,
		   "v");
	test_fleet.view->accept_count = 0;
	test_turns();
	assert_int_equal(conn->response.id, 1);
	assert_int_equal(conn->response.status, WIRE_AWAY);
	accept_it();
	copy_large(0, comes);
	test_turns();
	while (conn->read_count)
		serve_read();
	test_fleet.view->accept_count = 0;
	test_turns();
	assert_int_equal(conn->response.id, 0);
	assert_int_equal(conn->response.status, WIRE_AWAY);
	assert_int_equal(store_items(&test_store), 0);
	assert_int_equal(conn->conn.pull_ahead, 0);
}

static void clear(void **state)
{
	(void)state;
	accept_it();
	assert_int_equal(MOVE(conn, WIRE_MOVE_CLEAR, .segment = 5), WIRE_AWAY);
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(MOVE(other, WIRE_MOVE_CLEAR, .segment = 5), WIRE_AWAY);
	assert_int_equal(MOVE(conn, WIRE_MOVE_CLEAR, .segment = KEY_SEGMENTS), WIRE_INVALID);
	assert_int_equal(MOVE(conn, WIRE_MOVE_CLEAR, .segment = 1ull << 32), WIRE_INVALID);
	assert_int_equal(told.clears, 0);
	assert_int_equal(MOVE(conn, WIRE_MOVE_CLEAR, .segment = KEY_SEGMENTS - 1), WIRE_OK);
	assert_int_equal(told.clears, 1);
	assert_int_equal(told.segment, KEY_SEGMENTS - 1);
	assert_ptr_equal(told.parts, test_fleet.view->accepts[0].shards);
	assert_ptr_equal(told.table, &test_store.table);
	test_fleet.view->accept_count = 0;
	assert_int_equal(MOVE(conn, WIRE_MOVE_CLEAR, .segment = 5), WIRE_AWAY);
	assert_int_equal(told.clears, 1);
}

/* The highest counter that another server may have made an hour from now. */
static uint64_t counter_max(void)
{
	return version_clock_start(conn_thread(&conn->conn)->now_ns + 3600000000000ull, 0) >> 8;
}

static void end(void **state)
{
	uint64_t counter;

	(void)state;
	counter = counter_max();
	accept_it();
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 5), WIRE_AWAY);
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(MOVE(other, WIRE_MOVE_END, .counter = 5), WIRE_AWAY);
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = counter + (1ull << 32)),
			 WIRE_INVALID);
	test_fleet.view->own = 0;
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 5), WIRE_AWAY);
	assert_true(!conn->response.result);
	assert_int_equal(told.raises, 0);
	test_fleet.view->own = OWN;
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = counter), WIRE_OK);
	assert_true(conn->response.result == OWN);
	assert_int_equal(told.raises, 1);
	assert_true(told.counter == counter);
	assert_ptr_equal(told.table, &test_store.table);
	test_fleet.view->accept_count = 0;
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 6), WIRE_AWAY);
	assert_int_equal(told.raises, 1);
}

/* Copies that a flush has removed are not all that were sent. */
static void a_flush_meanwhile(void **state)
{
	struct table *table = &test_store.table;

	(void)state;
	accept_it();
	atomic_store(&table->flushing, 5);
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_BUSY);
	atomic_store(&table->flushing, 0);
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	atomic_store(&table->flushing, 5);
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 5), WIRE_AWAY);
	atomic_store(&table->flushing, 0);
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 5), WIRE_OK);
	atomic_fetch_add(&table->flushes, 1);
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 5), WIRE_AWAY);
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 5), WIRE_OK);
}

static void member_flags_set(uint32_t number, uint32_t flags)
{
	struct fleet_member *member =
		(struct fleet_member *)(uintptr_t)test_fleet.view->map->members[number];

	member->flags = flags;
}

static void assert_change_wanted(enum wire_fleet what, const char *id)
{
	struct fleet_wants taken = wants();
	char padded[FLEET_NAME_MAX] = { 0 };

	memcpy(padded, id, strlen(id));
	assert_true(taken.change && !taken.look && !taken.accept_epoch);
	assert_int_equal(taken.what, what);
	assert_memory_equal(taken.id, padded, sizeof(padded));
	assert_int_equal(woken, 1);
	woken = 0;
}

#define FLEET(key, which, ...) ANSWER(conn, key, NULL, .op = WIRE_FLEET, .mode = which, __VA_ARGS__)

static void drain(void **state)
{
	(void)state;
	assert_int_equal(FLEET("a", WIRE_FLEET_DRAIN, .epoch = 0), WIRE_BUSY);
	assert_true(conn->response.epoch == TEST_EPOCH);
	assert_change_wanted(WIRE_FLEET_DRAIN, "a");
	assert_int_equal(FLEET("a", WIRE_FLEET_UNDRAIN, .epoch = 0), WIRE_OK);
	assert_int_equal(FLEET("c", WIRE_FLEET_DRAIN, .epoch = 0), WIRE_NOT_FOUND);
	assert_int_equal(FLEET("a b", WIRE_FLEET_DRAIN, .epoch = 0), WIRE_NOT_FOUND);
	assert_int_equal(FLEET("aa", WIRE_FLEET_UNDRAIN, .epoch = 0), WIRE_NOT_FOUND);
	assert_nothing_wanted();
	member_flags_set(0, FLEET_MEMBER_DRAINED | FLEET_MEMBER_AWAY);
	assert_int_equal(FLEET("a", WIRE_FLEET_DRAIN, .epoch = 0), WIRE_OK);
	assert_nothing_wanted();
	assert_int_equal(FLEET("a", WIRE_FLEET_UNDRAIN, .epoch = TEST_EPOCH), WIRE_BUSY);
	assert_change_wanted(WIRE_FLEET_UNDRAIN, "a");
	/* The server itself. */
	assert_int_equal(FLEET("b", WIRE_FLEET_DRAIN, .epoch = 0), WIRE_BUSY);
	assert_change_wanted(WIRE_FLEET_DRAIN, "b");
}

/* A name that begins with that of a member. */
static void names_with_zeros(void **state)
{
	struct wire_request head = { .op = WIRE_FLEET, .mode = WIRE_FLEET_DRAIN, .key_len = 2 };

	(void)state;
	memcpy(test_recv(0), &head, sizeof(head));
	memcpy(test_recv(0) + sizeof(head), "a", 2);
	test_receive(conn, 0, sizeof(head) + 2);
	test_turns();
	assert_int_equal(conn->response.status, WIRE_NOT_FOUND);
	assert_nothing_wanted();
}

/* The next view has a map of the next epoch, in which the first member has these flags. */
static void publish(uint32_t flags)
{
	struct fleet_head *head = test_fleet.view->map->head;
	struct fleet_view *view;
	struct fleet_map *map;

	member_flags_set(0, flags);
	head->epoch++;
	head->sum = fleet_map_sum(head, test_fleet.view->map->bytes);
	assert_null(fleet_map_make(&map, head, test_fleet.view->map->bytes));
	view = fleet_view_make(map, test_fleet.id);
	assert_non_null(view);
	rcu_unregister_thread();
	fleet_publish(&test_fleet, view);
	rcu_register_thread();
}

/* OK while some member balances; also if all were done before the client asked again. */
static void rebalance(void **state)
{
	uint64_t first;

	(void)state;
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = 0), WIRE_BUSY);
	assert_change_wanted(WIRE_FLEET_REBALANCE, "");
	first = conn->response.epoch;
	assert_true(first == TEST_EPOCH);
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = first), WIRE_BUSY);
	publish(0);
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = first), WIRE_BUSY);
	publish(FLEET_MEMBER_BALANCES);
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = 0), WIRE_OK);
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = first), WIRE_OK);
	publish(0);
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = first), WIRE_OK);
	/* But who asks now wants another one. */
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = 0), WIRE_BUSY);
	first = conn->response.epoch;
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = first), WIRE_BUSY);
}

/* What only administrators of a fleet may send: its statuses, one after another. */
static void assert_refused(enum wire_status status)
{
	assert_int_equal(MOVE(conn, WIRE_MOVE_ASK, .id = 0), status);
	assert_int_equal(begin_in(conn, MOVE_EPOCH), status);
	assert_int_equal(MOVE(conn, WIRE_MOVE_CLEAR, .segment = 0), status);
	assert_int_equal(MOVE(conn, WIRE_MOVE_END, .counter = 0), status);
	assert_int_equal(FLEET("a", WIRE_FLEET_DRAIN, .epoch = 0), status);
	assert_int_equal(FLEET(NULL, WIRE_FLEET_REBALANCE, .epoch = 0), status);
	assert_nothing_wanted();
	assert_int_equal(told.clears + told.raises, 0);
	assert_int_equal(copy_in(conn, comes), status);
	copy_large(0, comes);
	test_turns();
	assert_int_equal(conn->response.status, status);
	assert_int_equal(conn->read_count, 0);
	assert_int_equal(store_items(&test_store), 0);
}

/* A server without users lets any client do it, as it lets any client flush. */
static void without_users(void **state)
{
	(void)state;
	accept_it();
	conn->conn.client.by_admin = false;
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(copy_in(conn, comes), WIRE_OK);
	assert_int_equal(FLEET("a", WIRE_FLEET_UNDRAIN, .epoch = 0), WIRE_OK);
}

static void rights_of_users(void **state)
{
	static struct user_account account;
	struct user user = { .name = "u", .rights = USER_ALL & ~USER_ADMIN };

	(void)state;
	accept_it();
	conn->conn.client.account = &account;
	atomic_store(&conn->conn.client.user, &user);
	assert_refused(WIRE_NOT_ALLOWED);
	/* No other right is needed, nor the kernel's word. */
	user.rights = USER_ADMIN;
	user.write.count = 1;
	conn->conn.client.by_admin = false;
	assert_int_equal(begin_in(conn, MOVE_EPOCH), WIRE_OK);
	assert_int_equal(copy_in(conn, comes), WIRE_OK);
	assert_int_equal(FLEET("a", WIRE_FLEET_UNDRAIN, .epoch = 0), WIRE_OK);
	assert_int_equal(ANSWER(conn, mine, "v", .op = WIRE_PUT), WIRE_NOT_ALLOWED);
	atomic_store(&conn->conn.client.user, NULL);
}

static void in_no_fleet(void **state)
{
	(void)state;
	accept_it();
	conn->conn.move_epoch = MOVE_EPOCH;
	conn->conn.client.fleet = NULL;
	assert_refused(WIRE_NOT_FOUND);
	assert_true(!conn->response.epoch);
}

/* A map of a file does not change; copies are no exception. */
static void in_a_fleet_of_a_file(void **state)
{
	(void)state;
	test_fleet.inbox = NULL;
	assert_int_equal(MOVE(conn, WIRE_MOVE_ASK, .id = 0), WIRE_INVALID);
	assert_int_equal(begin_in(conn, TEST_EPOCH), WIRE_INVALID);
	assert_int_equal(FLEET("a", WIRE_FLEET_DRAIN, .epoch = 0), WIRE_INVALID);
	assert_int_equal(copy_in(conn, comes), WIRE_INVALID);
	assert_int_equal(copy_in(conn, mine), WIRE_INVALID);
	assert_int_equal(store_items(&test_store), 0);
}

/* OWNER-8: the shard of a key, which the server owns, is frozen. */
static void freeze(const char *key, bool freezes)
{
	test_fleet_serve(hash_of(key), !freezes);
	memset(test_fleet.view->frozen, 0, sizeof(test_fleet.view->frozen));
	if (freezes)
		shard_set(test_fleet.view->frozen, key);
	test_fleet.view->freezes = freezes;
}

static void frozen_keys(void **state)
{
	static const uint8_t ops[] = { WIRE_GET, WIRE_PUT, WIRE_DELETE, WIRE_ARITH, WIRE_TOUCH };

	(void)state;
	answers_init(&answers, 1);
	conn->conn.answers = &answers;
	freeze(mine, true);
	for (size_t i = 0; i < sizeof(ops); i++) {
		assert_int_equal(ANSWER(conn, mine, NULL, .op = ops[i]), WIRE_MOVED);
		assert_true(conn->response.epoch == TEST_EPOCH);
	}
	/* As any refusal it is recorded, and later changes wait for the client. */
	assert_int_equal(ANSWER(conn, mine, "v", .op = WIRE_PUT, .change = 1), WIRE_MOVED);
	freeze(mine, false);
	assert_int_equal(ANSWER(conn, mine, "v", .op = WIRE_PUT, .change = 2), WIRE_MOVED);
	assert_int_equal(ANSWER(conn, mine, "v", .op = WIRE_PUT, .flags = WIRE_F_RESUME,
				.change = 3),
			 WIRE_OK);
	/* Without a word the server can't tell more than of its other shards. */
	freeze(mine, true);
	test_fleet.end_ns = 1;
	assert_int_equal(ANSWER(conn, mine, NULL, .op = WIRE_GET), WIRE_AWAY);
}

/* A pulled value that has arrived is not stored any more. */
static void frozen_before_the_commit(void **state)
{
	struct wire_request put = { .op = WIRE_PUT,
				    .flags = WIRE_F_PULL,
				    .value_len = LARGE,
				    .pull_addr = (uintptr_t)value };

	(void)state;
	receive_at(conn, 0, put, mine, NULL);
	test_turns();
	while (conn->read_count)
		serve_read();
	freeze(mine, true);
	test_turns();
	assert_int_equal(conn->response.status, WIRE_MOVED);
	assert_int_equal(store_items(&test_store), 0);
}

static void flushes_while_frozen(void **state)
{
	uint64_t ticket, later;

	(void)state;
	test_store.maintenance.table = &test_store.table;
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH, .ttl = 1000), WIRE_OK);
	later = conn->response.ticket;
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH), WIRE_OK);
	ticket = conn->response.ticket;
	freeze(mine, true);
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH), WIRE_BUSY);
	assert_true(!conn->response.ticket);
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH, .ttl = 1000), WIRE_BUSY);
	assert_int_equal(maintenance_waiting(&test_store.maintenance,
					     (struct flush[WIRE_FLUSHES_LATER_MAX]){ 0 }),
			 1);
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH, .mode = WIRE_FLUSH_CANCEL,
				.ticket = later),
			 WIRE_OK);
	/* That one is done: cancelled. */
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH, .ticket = later), WIRE_BUSY);
	assert_true(conn->response.ticket == later);
	freeze(mine, false);
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH, .ticket = later), WIRE_OK);
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_FLUSH), WIRE_OK);
	assert_true(conn->response.ticket >= ticket);
}

static void scans_while_frozen(void **state)
{
	(void)state;
	assert_int_equal(ANSWER(conn, mine, "v", .op = WIRE_PUT), WIRE_OK);
	freeze(stays, true);
	receive_at(conn, 0, (struct wire_request){ .op = WIRE_SCAN }, NULL, NULL);
	for (unsigned int i = 0; i < 10; i++)
		assert_true(test_turn());
	assert_int_equal(conn->responses, 1);
	freeze(stays, false);
	test_turns();
	assert_int_equal(conn->responses, 2);
	assert_int_equal(conn->response.status, WIRE_OK);
	/* The shard stays frozen for too long. */
	freeze(stays, true);
	receive_at(conn, 0, (struct wire_request){ .op = WIRE_SCAN }, NULL, NULL);
	assert_true(test_turn());
	test_poller->deferred[0].scan.busy_since_ns = 1;
	test_turns();
	assert_int_equal(conn->responses, 3);
	assert_int_equal(conn->response.status, WIRE_BUSY);
	assert_int_equal(conn->value_len, 0);
	/* After the word's end it is not even tried. */
	test_fleet.end_ns = 1;
	assert_int_equal(ANSWER(conn, NULL, NULL, .op = WIRE_SCAN), WIRE_AWAY);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ask),
		CASE(begin_is_busy),
		CASE(begin_is_away),
		CASE(begin_and_copy),
		CASE(copies_of_strangers),
		CASE(copies_of_what_is_served),
		CASE(copies_beside_refusals),
		CASE(copies_that_are_pulled),
		CASE(copies_after_the_end),
		CASE(clear),
		CASE(end),
		CASE(a_flush_meanwhile),
		CASE(drain),
		CASE(names_with_zeros),
		CASE(rebalance),
		CASE(without_users),
		CASE(rights_of_users),
		CASE(in_no_fleet),
		CASE(in_a_fleet_of_a_file),
		CASE(frozen_keys),
		CASE(frozen_before_the_commit),
		CASE(flushes_while_frozen),
		CASE(scans_while_frozen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
