/* SPDX-License-Identifier: MIT */
/*
 * Tests of large values in a worker's turns (server/net/pull.h, server/net/build.h): what has
 * arrived is summed and appended in pieces, one in each turn, and others have theirs in between;
 * READs don't run ahead of the sum; values that are made from others keep to their budget; the
 * response always has a place; a connection that ends in any of the pieces leaves nothing. The
 * device is a table of functions that keep what was posted; the test decides when it completes.
 */
#include "server/net/pull.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/net/deferred.h"
#include "server/net/build.h"
#include "server/net/keepalive.h"
#include "server/net/request.h"
#include "tests/support/store_fixture.h"

#define REGION_BYTES (512u << 20)
#define VALUE_BYTES (64u << 20)
#define MORE_BYTES (PULL_DEPTH * PULL_PIECE_BYTES) /* READ ahead of the sum */
#define RECVS 16
#define CONNS 3
#define WINDOW 4
#define BUILD_BYTES (100u << 20) /* one append to the value */
#define POSTED_MAX 64
#define PIECES_MAX 100000
/* Pieces of 20 us that 64 MiB surely take: none copies or sums 6 MiB in that time. */
#define PIECES_MIN 10
#define LONG_NS 3600000000000ull

struct test_conn {
	struct conn conn;
	struct ibv_qp qp;
	struct ibv_send_wr reads[POSTED_MAX]; /* posted and not completed, oldest first */
	struct ibv_sge sges[POSTED_MAX];
	unsigned int read_count;
	uint64_t probe;		/* the wr_id of a READ of no bytes, 0: none was posted */
	unsigned int responses; /* posted */
	struct wire_response response;
};

static struct store store;
static struct worker worker;
static struct worker_env env;
static struct mailbox control;
static struct device dev = { .name = "test" };
static struct nic nic = { .dev = &dev };
static struct poller *const poller = &worker.pollers[0];
static struct test_conn conns[CONNS];
static struct ibv_context verbs;
static struct ibv_srq srq;
static struct ibv_mr mr;
static uint8_t *value, *more, *both;
static const char key[] = "key";

static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	(void)wr;
	(void)bad;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct test_conn *c = caa_container_of(qp, struct test_conn, qp);

	(void)bad;
	for (; wr; wr = wr->next) {
		if (wr->opcode == IBV_WR_SEND) {
			memcpy(&c->response, (void *)(uintptr_t)wr->sg_list->addr,
			       sizeof(c->response));
			c->responses++;
			continue;
		}
		assert_int_equal(wr->opcode, IBV_WR_RDMA_READ);
		if (!wr->num_sge) {
			assert_int_equal(c->probe, 0);
			c->probe = wr->wr_id;
			continue;
		}
		assert_true(c->read_count < POSTED_MAX);
		c->reads[c->read_count] = *wr;
		c->sges[c->read_count++] = *wr->sg_list;
	}
	return 0;
}

static void conn_setup(struct test_conn *c)
{
	*c = (struct test_conn){
		.qp = { .context = &verbs },
		.conn = {
			.poller = poller,
			.qp = &c->qp,
			.window = WINDOW,
			.probes_answered = 1,
			.sent_first = BUFFER_NONE,
			.sent_last = BUFFER_NONE,
		},
	};
	TAILQ_INIT(&c->conn.deferred);
	c->conn.pull_hold.conn = &c->conn;
	for (unsigned int i = 0; i < NOTE_KINDS; i++)
		c->conn.notes[i] = (struct note){ .conn = &c->conn, .kind = (enum note_kind)i };
}

static int setup(void **state)
{
	(void)state;
	rcu_register_thread();
	test_store_create(&store, REGION_BYTES, 4, 1);
	store.region.geometry.value_max = VALUE_BYTES + CONNS * MORE_BYTES;
	memset(&worker, 0, sizeof(worker));
	env = (struct worker_env){ .store = &store, .control = &control };
	worker.env = &env;
	worker.limits = (struct worker_limits){ .pull_ns = LONG_NS, .pull_stall_ns = LONG_NS };
	TAILQ_INIT(&worker.deferred_conns);
	TAILQ_INIT(&worker.pulls);
	TAILQ_INIT(&worker.pulls_by_progress);
	budget_init(&worker.pull_budget, REGION_BYTES);
	budget_init(&worker.build_budget, BUILD_BYTES);
	verbs.ops.post_send = post_send;
	verbs.ops.post_srq_recv = post_srq_recv;
	srq.context = &verbs;
	nic.mr = &mr;
	nic.port.max_msg_sz = 1u << 30;
	*poller = (struct poller){
		.worker = &worker,
		.nic = &nic,
		.limits = { .srq_depth = RECVS, .signal_every = WINDOW },
		.srq = &srq,
		.mr = &mr,
		.inline_max = sizeof(struct wire_response),
	};
	for (unsigned int i = 0; i < CONNS; i++)
		conn_setup(&conns[i]);
	assert_int_equal(mailbox_init(&control), 0);
	assert_int_equal(deferred_init(poller), 0);
	return store_thread_init(&worker.store_thread, &store.table, 1);
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CONNS; i++) {
		assert_false(conns[i].conn.pull.active);
		assert_null(conns[i].conn.work);
		assert_int_equal(conns[i].conn.pull_hold.bytes, 0);
		assert_int_equal(conns[i].conn.pull.build.bytes, 0);
	}
	assert_int_equal(worker.build_budget.held[BUDGET_PROVEN], 0);
	assert_int_equal(worker.build_budget.waiting_count[BUDGET_PROVEN], 0);
	assert_true(TAILQ_EMPTY(&worker.pulls));
	assert_true(TAILQ_EMPTY(&worker.pulls_by_progress));
	assert_int_equal(stat_read(&worker.pulls_count), 0);
	deferred_release(poller);
	mailbox_release(&control);
	store_thread_release(&worker.store_thread);
	test_store_destroy(&store);
	rcu_unregister_thread();
	return 0;
}

static int group_setup(void **state)
{
	(void)state;
	value = malloc(VALUE_BYTES);
	more = malloc(MORE_BYTES);
	both = malloc(VALUE_BYTES + CONNS * MORE_BYTES);
	if (!value || !more || !both)
		return -1;
	for (uint32_t i = 0; i < VALUE_BYTES; i++)
		value[i] = (uint8_t)(i * 2654435761u >> 24);
	for (uint32_t i = 0; i < MORE_BYTES; i++)
		more[i] = (uint8_t)(i * 2246822519u >> 24);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	free(value);
	free(more);
	free(both);
	return 0;
}

static uint64_t hash(void)
{
	return table_hash(&store.table, key, sizeof(key));
}

/* The client asks for a pull of the bytes at @from. */
static bool ask(struct test_conn *c, enum wire_put mode, const uint8_t *from, uint32_t len)
{
	const struct request put = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.mode = (uint8_t)mode,
		.id = 7,
		.key = (const uint8_t *)key,
		.key_len = sizeof(key),
		.value_len = len,
		.pull_addr = (uintptr_t)from,
	};
	struct response_list responses = { .poller = poller };
	struct room room;
	bool done;

	room_init(&room);
	store_thread_clock(&worker.store_thread);
	do {
		done = pull_start(&responses, &c->conn, &put, hash(), &room);
		if (room_pending(&room))
			room_run(&room);
	} while (!done && room.bytes);
	responses_send(&responses);
	return done;
}

/* The device has read what the oldest READ asks for. */
static void serve_read(struct test_conn *c)
{
	uint64_t summed = c->conn.pull.steps.value_done;
	uint64_t wr_id = c->reads[0].wr_id;

	assert_true(c->read_count);
	memcpy((void *)(uintptr_t)c->sges[0].addr,
	       (void *)(uintptr_t)c->reads[0].wr.rdma.remote_addr, c->sges[0].length);
	c->read_count--;
	memmove(c->reads, c->reads + 1, c->read_count * sizeof(c->reads[0]));
	memmove(c->sges, c->sges + 1, c->read_count * sizeof(c->sges[0]));
	pull_done(&c->conn, wr_id);
	/* Not with the batch. */
	assert_int_equal(c->conn.pull.steps.value_done, summed);
	deferred_wake(&c->conn);
}

/* One turn of the worker, but for its batch. */
static bool turn(void)
{
	bool ran = deferred_run(&worker);

	rcu_quiescent_state();
	return ran;
}

/* Serves all READs, and runs all pieces. Returns these. */
static unsigned int pull_through(struct test_conn *c)
{
	unsigned int pieces = 0;

	while (c->read_count) {
		serve_read(c);
		while (turn())
			assert_true(++pieces < PIECES_MAX);
	}
	return pieces;
}

static void assert_value(const uint8_t *bytes, uint32_t len)
{
	struct store_value out;
	uint8_t *buffer = malloc(len);

	assert_non_null(buffer);
	assert_int_equal(test_store_get(&store, key, sizeof(key), buffer, len, &out), WIRE_OK);
	assert_int_equal(out.value_len, len);
	assert_memory_equal(buffer, bytes, len);
	free(buffer);
}

static void assert_responded(const struct test_conn *c, enum wire_status status)
{
	assert_int_equal(c->responses, 1);
	assert_int_equal(c->response.op, WIRE_PUT);
	assert_int_equal(c->response.id, 7);
	assert_int_equal(c->response.status, status);
}

static void put_value(void)
{
	assert_int_equal(test_store_put(&store, key, sizeof(key), value, VALUE_BYTES, NULL),
			 WIRE_OK);
}

/* What arrives is summed piece by piece, each in a turn of its own. */
static void sums_in_pieces(void **state)
{
	struct test_conn *c = &conns[0];

	(void)state;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	assert_false(turn());
	assert_true(pull_through(c) >= PIECES_MIN);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
	assert_int_equal(c->conn.sq_used, 1);
}

/* A worker that is late with the sum READs no more than PULL_DEPTH pieces ahead of it. */
static void reads_wait_for_the_sum(void **state)
{
	struct test_conn *c = &conns[0];
	unsigned int served = 0, pieces = 0;

	(void)state;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	for (; c->read_count; served++)
		serve_read(c);
	assert_int_equal(served, PULL_DEPTH);
	while (turn())
		pieces++;
	assert_true(pieces > 0);
	assert_int_equal(c->read_count, PULL_DEPTH);
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_value(value, VALUE_BYTES);
}

/* An append to a value of 64 MiB takes pieces, and so does the other connection in between. */
static void appends_in_pieces(void **state)
{
	struct test_conn *c = &conns[0], *other = &conns[1];
	unsigned int pieces = 0;

	(void)state;
	put_value();
	assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	while (c->conn.pull.steps.kind != LARGE_APPEND)
		assert_true(turn());
	/* Its small value needs two turns at most: this connection's, and then its own. */
	assert_true(ask(other, WIRE_SET, more, 1000));
	serve_read(other);
	assert_int_equal(other->responses, 0);
	assert_true(turn());
	assert_true(turn());
	assert_responded(other, WIRE_OK);
	assert_int_equal(c->responses, 0);
	/* It was another version then, of one key: the append is to that. */
	while (turn())
		pieces++;
	assert_responded(c, WIRE_OK);
	memcpy(both, more, 1000);
	memcpy(both + 1000, more, MORE_BYTES);
	assert_value(both, 1000 + MORE_BYTES);

	put_value();
	c->responses = 0;
	assert_true(ask(c, WIRE_PREPEND, more, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	for (pieces = 0; turn(); pieces++)
		;
	assert_true(pieces >= PIECES_MIN);
	assert_responded(c, WIRE_OK);
	memcpy(both, more, MORE_BYTES);
	memcpy(both + MORE_BYTES, value, VALUE_BYTES);
	assert_value(both, VALUE_BYTES + MORE_BYTES);
}

/* The response has a place even if all others are taken by responses that do not complete. */
static void response_has_a_place(void **state)
{
	struct response_list responses = { .poller = poller };
	struct test_conn *c = &conns[0];

	(void)state;
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	c->responses = 0;
	while (turn())
		;
	assert_responded(c, WIRE_OK);
	assert_true(c->conn.sq_used <= sq_share(&c->conn));
	assert_value(value, MORE_BYTES);
}

/* After any number of pieces. */
static void connection_ends(void **state)
{
	static const unsigned int ends[] = { 0, 1, 2, 3, 5, 10, 30, 100 };
	struct test_conn *c = &conns[0];
	uint64_t free_bytes;

	(void)state;
	put_value();
	free_bytes = memory_free_bytes(store.memory);
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		conn_setup(c);
		assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
		while (c->read_count)
			serve_read(c);
		for (unsigned int n = 0; n < ends[i] && !c->responses; n++)
			turn();
		if (c->responses) {
			put_value();
			continue;
		}
		c->conn.stopped = true;
		deferred_cancel(&c->conn);
		deferred_wake(&c->conn);
		assert_false(turn());
		pull_release(poller, &c->conn);
		response_release_all(poller, &c->conn);
		assert_int_equal(c->conn.sq_used, 0);
		assert_int_equal(memory_free_bytes(store.memory), free_bytes);
	}
}

/* A client stands still when a READ is outstanding, not when the worker is late with the sum. */
static void stands_still(void **state)
{
	struct test_conn *c = &conns[0];

	(void)state;
	worker.limits.pull_stall_ns = 0;
	assert_true(ask(c, WIRE_SET, value, VALUE_BYTES));
	while (c->read_count)
		serve_read(c);
	usleep(1);
	pull_expire(&worker);
	assert_false(c->conn.stopped);
	while (turn())
		;
	usleep(1);
	pull_expire(&worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&worker.stats.pulls_stalled), 1);
	deferred_cancel(&c->conn);
	pull_release(poller, &c->conn);
}

/* B5: who has served no READ yet is asked to, and has neither memory nor a place in the queue. */
static void probed_first(void **state)
{
	struct test_conn *c = &conns[0];

	(void)state;
	c->conn.probes_answered = 0;
	for (unsigned int i = 0; i < 3; i++)
		assert_false(ask(c, WIRE_SET, value, MORE_BYTES));
	assert_true(c->probe);
	assert_int_equal(c->read_count, 0);
	assert_int_equal(c->conn.pull_hold.bytes, 0);
	assert_true(TAILQ_EMPTY(&worker.pull_budget.waiting[BUDGET_UNPROVEN]));
	assert_int_equal(stat_read(&worker.stats.pulls_probed), 1);
	keepalive_answered(&c->conn, c->probe);
	pull_probed(&c->conn);
	/* From now on it has no deadline until it holds memory. */
	worker.limits.pull_stall_ns = 0;
	usleep(1);
	pull_expire(&worker);
	assert_false(c->conn.stopped);
	c->probe = 0;
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	pull_through(c);
	assert_responded(c, WIRE_OK);
	assert_int_equal(c->probe, 0);
}

static void probe_is_not_answered(void **state)
{
	struct test_conn *c = &conns[0];

	(void)state;
	c->conn.probes_answered = 0;
	worker.limits.pull_stall_ns = 0;
	assert_false(ask(c, WIRE_SET, value, MORE_BYTES));
	usleep(1);
	pull_expire(&worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&worker.stats.pulls_stalled), 1);
	pull_release(poller, &c->conn);
}

/* Connections that have ended otherwise are closed and counted as what they are. */
static void ended_otherwise(void **state)
{
	struct test_conn *c = &conns[0];

	(void)state;
	worker.limits.pull_stall_ns = 0;
	for (unsigned int i = 0; i < 2; i++) {
		conn_setup(c);
		c->conn.probes_answered = i;
		assert_int_equal(ask(c, WIRE_SET, value, MORE_BYTES), i);
		c->conn.stopped = true;
		usleep(1);
		pull_expire(&worker);
		deferred_cancel(&c->conn);
		pull_release(poller, &c->conn);
	}
	assert_int_equal(stat_read(&worker.stats.pulls_stalled), 0);
	assert_int_equal(stat_read(&worker.stats.connections_failed), 0);
}

/* The connection ends while its value has not arrived. */
static void ends_in_a_pull(struct test_conn *c)
{
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	c->conn.stopped = true;
	deferred_cancel(&c->conn);
	pull_release(poller, &c->conn);
	conn_setup(c);
}

/* B6: a peer that was late is served last, on each of its connections, until the time is over. */
static void late_peer_waits_for_others(void **state)
{
	struct test_conn *late = &conns[0], *also_late = &conns[1], *other = &conns[2];

	(void)state;
	strcpy(other->conn.peer.address, "10.0.0.2:1");
	budget_init(&worker.pull_budget, 2 * MORE_BYTES);
	/* One that waits already comes behind those that wait when its turn comes. */
	assert_true(ask(late, WIRE_SET, value, VALUE_BYTES));
	assert_false(ask(also_late, WIRE_SET, value, VALUE_BYTES));
	assert_false(ask(other, WIRE_SET, more, MORE_BYTES));
	late->conn.stopped = true;
	deferred_cancel(&late->conn);
	pull_release(poller, &late->conn);
	conn_setup(late);
	assert_false(ask(also_late, WIRE_SET, value, VALUE_BYTES));
	assert_true(ask(other, WIRE_SET, more, MORE_BYTES));
	assert_false(ask(late, WIRE_SET, value, 1 << 20));
	assert_int_equal(worker.pull_budget.waiting_count[BUDGET_LATE], 2);
	assert_int_equal(stat_read(&worker.stats.pulls_late), 2);
	pull_through(other);
	assert_responded(other, WIRE_OK);
	/* Nobody else waits any more, but for a pause of the others. */
	TAILQ_INSERT_TAIL(&also_late->conn.deferred, &poller->deferred[0], entry);
	assert_true(TAILQ_EMPTY(&worker.pulls));
	assert_true(pull_expires(&worker));
	pull_expire(&worker);
	assert_false(also_late->conn.deferred_runs);
	worker.pull_budget.used_ns -= LONG_NS;
	pull_expire(&worker);
	assert_true(also_late->conn.deferred_runs);
	TAILQ_REMOVE(&worker.deferred_conns, &also_late->conn, deferred_entry);
	also_late->conn.deferred_runs = false;
	TAILQ_INIT(&also_late->conn.deferred);
	assert_true(ask(also_late, WIRE_SET, value, VALUE_BYTES));
	pull_through(also_late);
	assert_responded(also_late, WIRE_OK);
	pull_wait_cancel(&late->conn);

	/* When the time is over, it waits as others do. */
	worker.limits.pull_ns = 0;
	ends_in_a_pull(late);
	assert_true(ask(other, WIRE_SET, value, VALUE_BYTES));
	assert_false(ask(late, WIRE_SET, value, 1 << 20));
	assert_int_equal(worker.pull_budget.waiting_count[BUDGET_LATE], 0);
	assert_int_equal(worker.pull_budget.waiting_count[BUDGET_UNPROVEN], 1);
	pull_wait_cancel(&late->conn);
	other->responses = 0;
	pull_through(other);
	assert_responded(other, WIRE_OK);
}

/* The same if the time ends while it waits. */
static void late_no_more(void **state)
{
	struct test_conn *late = &conns[0], *other = &conns[2];

	(void)state;
	strcpy(other->conn.peer.address, "10.0.0.2:1");
	budget_init(&worker.pull_budget, 2 * MORE_BYTES);
	ends_in_a_pull(late);
	assert_true(ask(other, WIRE_SET, value, VALUE_BYTES));
	assert_false(ask(late, WIRE_SET, value, 1 << 20));
	pull_expire(&worker);
	assert_false(late->conn.deferred_runs);
	worker.pull_peers = (struct pull_peers){ 0 };
	TAILQ_INSERT_TAIL(&late->conn.deferred, &poller->deferred[0], entry);
	pull_expire(&worker);
	assert_true(late->conn.deferred_runs);
	TAILQ_REMOVE(&worker.deferred_conns, &late->conn, deferred_entry);
	late->conn.deferred_runs = false;
	TAILQ_INIT(&late->conn.deferred);
	assert_false(ask(late, WIRE_SET, value, 1 << 20));
	assert_int_equal(worker.pull_budget.waiting_count[BUDGET_UNPROVEN], 1);
	pull_wait_cancel(&late->conn);
	pull_through(other);
}

/* B6: one that ends while room is made for its value was late; one that only waited was not. */
static void ends_while_room_is_made(void **state)
{
	const struct request put = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key = (const uint8_t *)key,
		.key_len = sizeof(key),
		.value_len = VALUE_BYTES,
	};
	struct response_list responses = { .poller = poller };
	struct test_conn *late = &conns[0], *waited = &conns[1];
	struct room room;

	(void)state;
	strcpy(late->conn.peer.address, "10.0.0.1:1");
	strcpy(waited->conn.peer.address, "10.0.0.2:1");
	budget_init(&worker.pull_budget, VALUE_BYTES);
	for (uint64_t other = 0; other < REGION_BYTES / VALUE_BYTES; other++)
		test_store_put(&store, &other, sizeof(other), value, VALUE_BYTES, NULL);
	store_thread_clock(&worker.store_thread);
	room_init(&room);
	assert_false(pull_start(&responses, &late->conn, &put, hash(), &room));
	assert_true(room_pending(&room));
	assert_true(late->conn.pull_hold.bytes > 0);
	assert_false(ask(waited, WIRE_SET, value, VALUE_BYTES));
	room_cancel(&room);
	pull_release(poller, &waited->conn);
	pull_release(poller, &late->conn);
	assert_true(pull_peers_has(&worker.pull_peers, &late->conn.peer, clock_ns()));
	assert_false(pull_peers_has(&worker.pull_peers, &waited->conn.peer, clock_ns()));
}

/* A peer is a host, or a process on this one; some of them are remembered, each for its time. */
static void peers(void **state)
{
	static const struct cm_peer host = { .address = "10.0.0.1:4711" },
				    again = { .address = "10.0.0.1:7" },
				    longer = { .address = "10.0.0.11:4711" },
				    process = { .address = "pid:4711", .uid_known = true },
				    another = { .address = "pid:471", .uid_known = true };
	static struct pull_peers known;
	struct cm_peer peer;

	(void)state;
	assert_false(pull_peers_has(&known, &host, 0));
	pull_peers_add(&known, &host, 10);
	assert_true(pull_peers_has(&known, &again, 9));
	assert_false(pull_peers_has(&known, &again, 10));
	assert_false(pull_peers_has(&known, &longer, 9));
	pull_peers_add(&known, &process, 20);
	assert_true(pull_peers_has(&known, &process, 19));
	assert_false(pull_peers_has(&known, &another, 19));
	assert_false(pull_peers_has(&known, &again, 19));
	pull_peers_add(&known, &again, 21);
	for (unsigned int i = 0; i < PULL_PEERS_MAX - 1; i++) {
		peer = (struct cm_peer){ 0 };
		snprintf(peer.address, sizeof(peer.address), "10.0.1.%u:1", i);
		pull_peers_add(&known, &peer, 30);
		assert_true(pull_peers_has(&known, &peer, 29));
	}
	/* The process's time was the shortest. */
	assert_true(pull_peers_has(&known, &host, 15));
	assert_false(pull_peers_has(&known, &process, 15));
}

/*
 * One that has served all its READs is not closed, whatever time the rest takes; and a server that
 * stops still sees its pull.
 */
static void arrived(void **state)
{
	struct test_conn *c = &conns[0];

	(void)state;
	worker.limits.pull_ns = 0;
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	usleep(1);
	pull_expire(&worker);
	assert_false(c->conn.stopped);
	assert_int_equal(stat_read(&worker.pulls_count), 1);
	while (turn())
		;
	assert_responded(c, WIRE_OK);
	assert_int_equal(stat_read(&worker.pulls_count), 0);
	assert_true(ask(c, WIRE_SET, value, MORE_BYTES));
	usleep(1);
	pull_expire(&worker);
	assert_true(c->conn.stopped);
	assert_int_equal(stat_read(&worker.stats.pulls_stalled), 1);
	deferred_cancel(&c->conn);
	pull_release(poller, &c->conn);
}

/* So many connections build something. */
static unsigned int builders(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < CONNS; i++)
		n += conns[i].conn.pull.build.bytes || poller->deferred[i].large.hold.bytes;
	return n;
}

/* Runs all pieces, in each of which one connection at most builds something. */
static unsigned int build_all(void)
{
	unsigned int n = 0;

	for (; turn(); n++)
		assert_true(builders() <= 1);
	return n;
}

/*
 * Appends of several clients to one value, of which the budget has room for one: the others wait
 * without memory, and are done one after the other, though each needs more than the one before.
 */
static void appends_wait_for_memory(void **state)
{
	(void)state;
	put_value();
	for (unsigned int i = 0; i < CONNS; i++) {
		assert_true(ask(&conns[i], WIRE_APPEND, more, MORE_BYTES));
		while (conns[i].read_count)
			serve_read(&conns[i]);
	}
	build_all();
	for (unsigned int i = 0; i < CONNS; i++)
		assert_responded(&conns[i], WIRE_OK);
	assert_int_equal(stat_read(&worker.stats.large_waited), CONNS - 1);
	memcpy(both, value, VALUE_BYTES);
	for (unsigned int i = 0; i < CONNS; i++)
		memcpy(both + VALUE_BYTES + i * MORE_BYTES, more, MORE_BYTES);
	assert_value(both, VALUE_BYTES + CONNS * MORE_BYTES);
}

/* The connection asks for one byte to be appended, in a message, which is in receive @buffer. */
static void append_byte(struct test_conn *c, uint32_t buffer)
{
	static const uint8_t byte = 'x';
	const struct request put = {
		.op = WIRE_PUT,
		.mode = WIRE_APPEND,
		.id = 7,
		.key = (const uint8_t *)key,
		.key_len = sizeof(key),
		.value = &byte,
		.value_len = 1,
	};
	struct response_list responses = { .poller = poller };

	atomic_store(&c->conn.hello_done, true);
	store_thread_clock(&worker.store_thread);
	assert_false(request_execute(&responses, &c->conn, &put, hash(), buffer));
	assert_int_equal(responses.count, 0);
}

/* The same with values that came in messages, beside one that is pulled meanwhile. */
static void requests_wait_for_memory(void **state)
{
	(void)state;
	put_value();
	assert_true(ask(&conns[0], WIRE_APPEND, more, MORE_BYTES));
	append_byte(&conns[1], 1);
	append_byte(&conns[2], 2);
	while (!builders())
		assert_true(turn());
	while (conns[0].read_count)
		serve_read(&conns[0]);
	build_all();
	for (unsigned int i = 0; i < CONNS; i++)
		assert_responded(&conns[i], WIRE_OK);
	assert_int_equal(stat_read(&worker.stats.large_waited), CONNS - 1);
	memcpy(both, value, VALUE_BYTES);
	memset(both + VALUE_BYTES, 'x', 2);
	memcpy(both + VALUE_BYTES + 2, more, MORE_BYTES);
	assert_value(both, VALUE_BYTES + MORE_BYTES + 2);
}

/* One whose client takes no responses any more does not keep the memory for that. */
static void no_room_while_building(void **state)
{
	struct response_list responses = { .poller = poller };
	struct test_conn *c = &conns[1];

	(void)state;
	put_value();
	append_byte(c, 1);
	append_byte(&conns[2], 2);
	while (!builders())
		assert_true(turn());
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	c->responses = 0;
	build_all();
	assert_responded(c, WIRE_OK);
	assert_responded(&conns[2], WIRE_OK);
	assert_true(c->conn.sq_used <= sq_share(&c->conn));
}

/*
 * A connection fails while what it has pulled is being appended: the others have the memory at
 * once, though its queue pair is not destroyed yet.
 */
static void fails_while_building(void **state)
{
	struct test_conn *c = &conns[0];
	uint64_t free_bytes;

	(void)state;
	put_value();
	free_bytes = memory_free_bytes(store.memory);
	assert_true(ask(c, WIRE_APPEND, more, MORE_BYTES));
	while (c->read_count)
		serve_read(c);
	while (!c->conn.pull.build.bytes)
		assert_true(turn());
	append_byte(&conns[1], 1);
	while (!worker.build_budget.waiting_count[BUDGET_PROVEN])
		assert_true(turn());
	c->conn.stopped = true;
	deferred_cancel(&c->conn);
	assert_int_equal(c->conn.pull_hold.bytes, 0);
	assert_true(memory_free_bytes(store.memory) >= free_bytes);
	build_all();
	assert_responded(&conns[1], WIRE_OK);
	pull_release(poller, &c->conn);
	response_release_all(poller, &c->conn);
	assert_int_equal(c->conn.sq_used, 0);
}

/* Puts large values under other keys, until there is no memory for another one. */
static void fill_memory(void)
{
	uint64_t other = 0;

	while (test_store_put(&store, &other, sizeof(other), value, VALUE_BYTES / 2, NULL) ==
	       WIRE_OK)
		other++;
	assert_true(other > 1);
}

/*
 * A pull that holds its part of the budget while room is made for it keeps a place for its
 * response: others take all places before its first piece, and it is done, though its own client
 * takes no responses.
 */
static void room_has_a_place(void **state)
{
	const struct request put = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.id = 7,
		.key = (const uint8_t *)key,
		.key_len = sizeof(key),
		.value_len = VALUE_BYTES,
		.pull_addr = (uintptr_t)value,
	};
	struct response_list responses = { .poller = poller };
	struct test_conn *c = &conns[0];

	(void)state;
	fill_memory();
	atomic_store(&c->conn.hello_done, true);
	store_thread_clock(&worker.store_thread);
	worker.store_thread.now_ns += LONG_NS; /* making room did not fail just now */
	assert_false(request_execute(&responses, &c->conn, &put, hash(), 1));
	assert_int_equal(responses.count, 0);
	assert_true(c->conn.pull_hold.bytes > 0);
	assert_true(room_pending(&poller->deferred[1].room));
	while (sq_room(&c->conn)) {
		response_start(&responses, &c->conn, WIRE_PING, 1);
		responses_send(&responses);
	}
	c->responses = 0;
	for (unsigned int n = 0; !c->responses; n++) {
		assert_true(n < PIECES_MAX);
		assert_true(turn());
	}
	assert_responded(c, WIRE_NO_SPACE);
	assert_true(c->conn.sq_used <= sq_share(&c->conn));
	assert_int_equal(c->conn.pull_hold.bytes, 0);
}

/* Connections that end leave the budget to the others, whether they hold some or wait. */
static void builders_end(void **state)
{
	uint64_t free_bytes;

	(void)state;
	put_value();
	free_bytes = memory_free_bytes(store.memory);
	assert_true(ask(&conns[0], WIRE_APPEND, more, MORE_BYTES));
	while (conns[0].read_count)
		serve_read(&conns[0]);
	append_byte(&conns[1], 1);
	append_byte(&conns[2], 2);
	while (worker.build_budget.waiting_count[BUDGET_PROVEN] < CONNS - 1)
		assert_true(turn());
	assert_int_equal(builders(), 1);
	for (unsigned int i = 0; i < CONNS - 1; i++) {
		conns[i].conn.stopped = true;
		deferred_cancel(&conns[i].conn);
		pull_release(poller, &conns[i].conn);
		response_release_all(poller, &conns[i].conn);
		assert_int_equal(conns[i].conn.sq_used, 0);
	}
	assert_true(memory_free_bytes(store.memory) >= free_bytes);
	build_all();
	assert_responded(&conns[2], WIRE_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sums_in_pieces),
		CASE(reads_wait_for_the_sum),
		CASE(appends_in_pieces),
		CASE(response_has_a_place),
		CASE(connection_ends),
		CASE(stands_still),
		CASE(ended_otherwise),
		CASE(arrived),
		CASE(late_peer_waits_for_others),
		CASE(late_no_more),
		CASE(ends_while_room_is_made),
		cmocka_unit_test(peers),
		CASE(appends_wait_for_memory),
		CASE(requests_wait_for_memory),
		CASE(no_room_while_building),
		CASE(room_has_a_place),
		CASE(fails_while_building),
		CASE(builders_end),
		CASE(probed_first),
		CASE(probe_is_not_answered),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
