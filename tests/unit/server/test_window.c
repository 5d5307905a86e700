/* SPDX-License-Identifier: MIT */
/*
 * Tests of windows: the shares of active connections, what is set aside for those that are not
 * there, when a smaller window is counted back; and a model of clients, whose half is libkvd's,
 * with messages that take their time, which checks WINDOW-1 and WINDOW-2 of server/worker/window.h
 * after every step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/rpc.h"
#include "common/util/stat.h"
#include "server/worker/window.h"
#include "server/worker/worker.h"

#define SRQ_DEPTH 64u
#define WINDOW 8u
#define CONNS_MAX 20u
#define ADMINS 2u
#define LENDABLE (SRQ_DEPTH - ADMINS - CONNS_MAX) /* 42 */
#define SECOND 1000000000ull

static struct worker worker;
static struct poller *const poller = &worker.pollers[0];
static struct conn conns[CONNS_MAX + ADMINS];
static uint64_t now_ns;

static void conn_open(struct conn *conn)
{
	*conn = (struct conn){
		.poller = poller,
		.client.worker = &worker,
		.window = 1,
		.window_told = 1,
		.window_next = 1,
	};
}

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	now_ns = 1000 * SECOND;
	worker.part.thread.now_ns = now_ns;
	*poller = (struct poller){
		.worker = &worker,
		.limits = { .srq_depth = SRQ_DEPTH,
			    .window = WINDOW,
			    .conns_max = CONNS_MAX,
			    .admins_max = ADMINS },
	};
	window_pool_init(poller);
	for (i = 0; i < CONNS_MAX + ADMINS; i++)
		conn_open(&conns[i]);
	return 0;
}

static void advance(uint64_t ns)
{
	now_ns += ns;
	worker.part.thread.now_ns = now_ns;
}

static void request(struct conn *conn)
{
	stat_add(&conn->client.requests, 1);
	stat_set(&conn->client.active_ns, now_ns);
	window_request(conn);
}

static uint32_t respond(struct conn *conn)
{
	conn->responses++;
	return window_tell(conn);
}

static uint32_t exchange(struct conn *conn)
{
	request(conn);
	return respond(conn);
}

/* WINDOW-1. A connection that is not there has a receive set aside, like one with a window of 1. */
static void assert_all_covered(void)
{
	uint32_t sum = ADMINS, i;

	for (i = 0; i < CONNS_MAX; i++)
		sum += conns[i].window;
	assert_int_equal(sum + poller->windows.left, SRQ_DEPTH);
}

static void expire(void)
{
	unsigned int i;

	/* More than one call may be needed: each is bounded. */
	for (i = 0; i <= CONNS_MAX; i++)
		window_expire(poller, now_ns);
}

/* The first client has the largest window at once, though many may come. */
static void the_first_client(void **state)
{
	(void)state;
	request(&conns[0]);
	assert_int_equal(window_welcome(&conns[0]), WINDOW);
	assert_int_equal(exchange(&conns[0]), WINDOW);
	assert_int_equal(stat_read(&conns[0].window_shown), WINDOW);
	assert_all_covered();
}

/* Six have all (6 x 7 = 42); with a seventh everybody has 1 + 42 / 7. */
static void shares(void **state)
{
	unsigned int i, round;

	(void)state;
	for (i = 0; i < 6; i++)
		assert_int_equal(exchange(&conns[i]), WINDOW);
	assert_int_equal(poller->windows.left, 0);
	/* None is left, until those that were told less know it. */
	assert_int_equal(exchange(&conns[6]), 1);
	for (round = 0; round < 2 * WINDOW; round++)
		for (i = 0; i < 7; i++) {
			assert_int_equal(exchange(&conns[i]),
					 i < 6 || round >= WINDOW ? 7 : conns[i].window);
			assert_all_covered();
		}
	for (i = 0; i < 7; i++)
		assert_int_equal(conns[i].window, 7);
	/* The last newcomer gets in, too, and in the end all have a share. */
	for (round = 0; round < 2 * WINDOW; round++)
		for (i = 0; i < CONNS_MAX; i++)
			assert_true(exchange(&conns[i]) >= 1);
	for (i = 0; i < CONNS_MAX; i++)
		assert_int_equal(conns[i].window, 1 + LENDABLE / CONNS_MAX);
	assert_all_covered();
}

/*
 * WINDOW-3: not before so many requests have arrived that the client must have taken the response.
 */
static void a_smaller_window_is_known(void **state)
{
	struct conn *conn = &conns[0];
	unsigned int i;

	(void)state;
	assert_int_equal(exchange(conn), WINDOW);
	for (i = 1; i < 7; i++)
		exchange(&conns[i]);
	/* The client sends a whole window before it takes the response with the smaller one. */
	for (i = 0; i < WINDOW - 1; i++)
		request(conn);
	assert_int_equal(respond(conn), 7);
	assert_int_equal(conn->responses, 2);
	request(conn);
	assert_int_equal(conn->client.requests, 1 + WINDOW);
	assert_int_equal(conn->window, WINDOW);
	for (i = 0; i < WINDOW - 1; i++)
		respond(conn);
	assert_int_equal(conn->window, WINDOW);
	request(conn);
	assert_int_equal(conn->client.requests, 2 + WINDOW);
	assert_int_equal(conn->window, 7);
	assert_int_equal(stat_read(&worker.stats.windows_shrunk), 1);
	assert_all_covered();
}

/* What was told less gets more again: nothing is counted back then. */
static void a_smaller_window_is_revoked(void **state)
{
	struct conn *conn = &conns[0];
	unsigned int i;

	(void)state;
	for (i = 0; i < 7; i++)
		exchange(&conns[i]);
	assert_int_equal(exchange(conn), 7);
	window_release(&conns[6]);
	assert_int_equal(exchange(conn), WINDOW);
	for (i = 0; i < 3 * WINDOW; i++)
		assert_int_equal(exchange(conn), WINDOW);
	assert_int_equal(conn->window, WINDOW);
	assert_int_equal(stat_read(&worker.stats.windows_shrunk), 0);
	assert_all_covered();
}

/* Shares that change back and forth do not put off what is known: the larger one is. */
static void shares_change(void **state)
{
	struct conn *conn = &conns[0];
	unsigned int i;

	(void)state;
	assert_int_equal(exchange(conn), WINDOW);
	for (i = 1; i < 7; i++)
		exchange(&conns[i]);
	/* 7 connections share, and an eighth comes and goes, and comes. */
	for (i = 0; i < WINDOW; i++) {
		assert_int_equal(exchange(conn), 7 - i % 2);
		if (i % 2 == 0)
			exchange(&conns[7]);
		else if (i < WINDOW - 1)
			window_release(&conns[7]);
	}
	assert_int_equal(conn->window, WINDOW);
	/* The smaller one follows once the client is sure to know that, too. */
	for (i = 0; i < WINDOW - 1; i++) {
		assert_int_equal(exchange(conn), 6);
		assert_int_equal(conn->window, 7);
		assert_all_covered();
	}
	exchange(conn);
	assert_int_equal(conn->window, 6);
	assert_all_covered();
}

/*
 * WINDOW-5: clients that send as seldom as they may keep a larger share for 2 x WINDOW requests,
 * though others come and go, so that the share changes all the time.
 */
static void slow_senders(void **state)
{
	const unsigned int stay = 14;
	unsigned int i, round;

	(void)state;
	for (i = 0; i < 6; i++)
		assert_int_equal(exchange(&conns[i]), WINDOW);
	assert_int_equal(poller->windows.left, 0);
	for (round = 0; round < 2 * WINDOW; round++) {
		advance(WINDOW_IDLE_NS);
		for (i = 6; i < CONNS_MAX; i++)
			if (i >= stay && round % 2)
				window_release(&conns[i]);
			else
				assert_true(exchange(&conns[i]) >= 1);
		for (i = 0; i < 6; i++)
			exchange(&conns[i]);
		expire();
		assert_all_covered();
	}
	for (i = 0; i < stay; i++)
		assert_true(conns[i].window <= 1 + LENDABLE / stay);
	for (i = 0; i < stay; i++)
		assert_int_equal(exchange(&conns[i]), 1 + LENDABLE / stay);
}

static void idle_connections(void **state)
{
	struct conn *conn = &conns[0];

	(void)state;
	exchange(&conns[1]);
	for (unsigned int i = 0; i < 3 * WINDOW; i++)
		exchange(conn);
	advance(WINDOW_IDLE_NS - SECOND / 2);
	exchange(&conns[1]);
	expire();
	assert_int_equal(conn->window, WINDOW);
	advance(SECOND / 2 + 1);
	/* The window was looked at half a second ago; the next look finds it. */
	expire();
	advance(SECOND);
	expire();
	assert_int_equal(conn->window, 1);
	assert_int_equal(stat_read(&conn->window_shown), 1);
	assert_int_equal(conns[1].window, WINDOW);
	assert_int_equal(poller->windows.active_count, 1);
	assert_true(window_any_active(poller));
	advance(2 * WINDOW_IDLE_NS);
	expire();
	assert_false(window_any_active(poller));
	assert_int_equal(poller->windows.left, LENDABLE);
	assert_int_equal(stat_read(&worker.stats.windows_lapsed), 2);
	/* The first request brings it back, and the first response tells it. */
	request(conn);
	request(conn);
	assert_int_equal(conn->window, WINDOW);
	assert_int_equal(respond(conn), WINDOW);
	assert_all_covered();
}

/* Requests that are not answered, a pull, or a connection that ends: the window stays. */
static void not_idle(void **state)
{
	(void)state;
	exchange(&conns[0]);
	conns[0].deferred_count = 1;
	exchange(&conns[1]);
	/* A pull's value may have arrived, and be worked at (pull_since_ns is 0 then). */
	conns[1].deferred_count = 1;
	exchange(&conns[2]);
	conns[2].stopped = true;
	advance(10 * WINDOW_IDLE_NS);
	expire();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(conns[i].window, WINDOW);
		window_release(&conns[i]);
		assert_int_equal(conns[i].window, 1);
		/* Once more is harmless. */
		window_release(&conns[i]);
	}
	assert_int_equal(poller->windows.left, LENDABLE);
	assert_int_equal(poller->windows.active_count, 0);
	assert_false(window_any_active(poller));
}

/* What it has outstanding has to find places beyond its window of 1, or the window stays. */
static void responses_outstanding(void **state)
{
	struct conn *conn = &conns[0];

	(void)state;
	exchange(conn);
	conn->sq_used = WINDOW + SENDS_BESIDE_WINDOW + 2;
	poller->spare_sends = WINDOW - 2;
	advance(2 * WINDOW_IDLE_NS);
	expire();
	assert_int_equal(conn->window, WINDOW);
	assert_int_equal(poller->spare_sends, WINDOW - 2);
	/* Two of them complete, which were beyond the window; the rest fits. */
	sq_put(conn, 2);
	assert_int_equal(poller->spare_sends, WINDOW);
	advance(2 * SECOND);
	expire();
	assert_int_equal(conn->window, 1);
	assert_int_equal(poller->spare_sends, 1);
	sq_put(conn, conn->sq_used);
	assert_int_equal(poller->spare_sends, WINDOW);
	/* Buffers: */
	exchange(conn);
	conn->buffers = 4;
	poller->spare_buffers = 2;
	advance(2 * WINDOW_IDLE_NS);
	expire();
	assert_int_equal(conn->window, WINDOW);
	poller->spare_buffers = 3;
	advance(2 * SECOND);
	expire();
	assert_int_equal(conn->window, 1);
	assert_int_equal(poller->spare_buffers, 0);
	exchange(conn);
	assert_int_equal(poller->spare_buffers, 3);
}

static void administrators(void **state)
{
	struct conn *conn = &conns[CONNS_MAX];

	(void)state;
	conn_open(conn);
	conn->admin = true;
	request(conn);
	assert_int_equal(window_welcome(conn), 1);
	assert_int_equal(respond(conn), 1);
	/* Nor does it take from the share of others. */
	assert_int_equal(exchange(&conns[0]), WINDOW);
	assert_int_equal(exchange(conn), 1);
	window_release(&conns[0]);
	assert_int_equal(poller->windows.left, LENDABLE);
	window_release(conn);
	assert_int_equal(poller->windows.left, LENDABLE);
	assert_int_equal(poller->windows.lendable, LENDABLE);
}

/* As many connections as receives: nothing to lend. */
static void no_receive_to_spare(void **state)
{
	(void)state;
	poller->limits.srq_depth = CONNS_MAX + ADMINS;
	window_pool_init(poller);
	for (unsigned int i = 0; i < CONNS_MAX; i++)
		assert_int_equal(exchange(&conns[i]), 1);
	advance(10 * WINDOW_IDLE_NS);
	expire();
	assert_int_equal(exchange(&conns[0]), 1);
}

/* A call looks at a bounded number, and nobody is left out. */
static void looks_are_bounded(void **state)
{
	unsigned int i, calls = 0, lapsed = 0, before;

	(void)state;
	for (i = 0; i < CONNS_MAX; i++)
		exchange(&conns[i]);
	advance(2 * WINDOW_IDLE_NS);
	do {
		before = lapsed;
		window_expire(poller, now_ns);
		lapsed = (unsigned int)stat_read(&worker.stats.windows_lapsed);
		assert_true(lapsed - before <= 16);
		calls++;
	} while (lapsed > before);
	assert_int_equal(lapsed, CONNS_MAX);
	assert_true(calls > 2);
}

/*
 * --- the model ---------------------------------------------------------------------------------
 */

#define STEPS 400000
#define QUEUE 64 /* more than a window */
/* How long a message may take, less than WINDOW-4 allows. */
#define DELAY_NS_MAX (WINDOW_IDLE_NS - WIRE_WINDOW_LAPSE_MS * 1000000ull - 1)

/* Messages in one direction, in order. */
struct queue {
	struct {
		uint64_t arrives_ns;
		uint16_t window; /* of a response */
	} messages[QUEUE];
	unsigned int first, count;
};

struct peer {
	struct conn *conn;
	struct kvd client;
	struct queue requests, responses;
	uint32_t pending;     /* requests that the server has not answered */
	uint32_t outstanding; /* as the client sees it */
	bool busy;	      /* it sends as much as it may */
};

static struct peer peers[CONNS_MAX];

static uint64_t random_delay(void)
{
	return rand() % 200 ? (uint64_t)(rand() % 20000) : (uint64_t)rand() % DELAY_NS_MAX;
}

static void queue_push(struct queue *queue, uint16_t window)
{
	unsigned int at = (queue->first + queue->count) % QUEUE;
	unsigned int last = (queue->first + queue->count + QUEUE - 1) % QUEUE;
	uint64_t arrives_ns = now_ns + random_delay();

	assert_true(queue->count < QUEUE);
	if (queue->count && queue->messages[last].arrives_ns > arrives_ns)
		arrives_ns = queue->messages[last].arrives_ns;
	queue->messages[at].arrives_ns = arrives_ns;
	queue->messages[at].window = window;
	queue->count++;
}

static bool queue_pop(struct queue *queue, uint16_t *window)
{
	if (!queue->count || queue->messages[queue->first].arrives_ns > now_ns)
		return false;
	*window = queue->messages[queue->first].window;
	queue->first = (queue->first + 1) % QUEUE;
	queue->count--;
	return true;
}

/* As libkvd does. */
static void client_posts(struct peer *peer)
{
	window_look(&peer->client.conn, now_ns);
	if (peer->outstanding >= peer->client.conn.window)
		return;
	window_posted(&peer->client.conn, now_ns);
	peer->outstanding++;
	queue_push(&peer->requests, 0);
}

static void client_takes(struct peer *peer)
{
	struct response response = { 0 };
	uint16_t window;

	if (!queue_pop(&peer->responses, &window))
		return;
	response.window = window;
	assert_int_equal(window_learn(&peer->client, &response), KVD_OK);
	peer->outstanding--;
}

/* The check is that of the worker, which ends the connection. */
static bool server_receives(struct peer *peer)
{
	uint16_t window;

	if (!queue_pop(&peer->requests, &window))
		return false;
	request(peer->conn);
	peer->conn->deferred_count = ++peer->pending;
	assert_true(peer->pending <= peer->conn->window);
	return true;
}

static void server_responds(struct peer *peer)
{
	if (!peer->pending)
		return;
	peer->conn->deferred_count = --peer->pending;
	queue_push(&peer->responses, (uint16_t)respond(peer->conn));
}

/* Connects anew; the welcome has come. */
static void peer_open(struct peer *peer)
{
	window_release(peer->conn);
	conn_open(peer->conn);
	peer->requests.count = peer->responses.count = 0;
	peer->pending = peer->outstanding = 0;
	request(peer->conn);
	peer->conn->responses++;
	peer->client.conn.window = window_welcome(peer->conn);
	window_posted(&peer->client.conn, now_ns);
}

static void model_step(void)
{
	struct peer *peer = &peers[rand() % CONNS_MAX];
	unsigned int i;

	switch (rand() % 16) {
	case 0 ... 4:
		if (peer->busy)
			client_posts(peer);
		break;
	case 5 ... 7:
		server_receives(peer);
		break;
	case 8 ... 10:
		server_responds(peer);
		break;
	case 11 ... 13:
		client_takes(peer);
		break;
	case 14:
		advance((uint64_t)(rand() % 10000));
		for (i = 0; i < CONNS_MAX; i++)
			while (server_receives(&peers[i]))
				;
		window_expire(poller, now_ns);
		break;
	default:
		if (!(rand() % 20))
			peer->busy = !peer->busy;
		if (!(rand() % 200))
			peer_open(peer);
		if (!(rand() % 50))
			advance((uint64_t)rand() % (3 * SECOND));
	}
}

/*
 * WINDOW-2: no client has more requests on their way or not answered than the server has receives
 * for.
 */
static void clients_and_messages(void **state)
{
	unsigned int step, i;

	(void)state;
	srand(5);
	memset(peers, 0, sizeof(peers));
	for (i = 0; i < CONNS_MAX; i++) {
		peers[i].conn = &conns[i];
		peers[i].busy = i % 2;
		peer_open(&peers[i]);
	}
	for (step = 0; step < STEPS; step++) {
		model_step();
		for (i = 0; i < CONNS_MAX; i++)
			assert_true(peers[i].requests.count + peers[i].pending <= conns[i].window);
		assert_all_covered();
	}
	/* All of it happened. */
	assert_true(stat_read(&worker.stats.windows_grown) > 100);
	assert_true(stat_read(&worker.stats.windows_shrunk) > 100);
	assert_true(stat_read(&worker.stats.windows_lapsed) > 100);
}

/* Receives are set aside for more connections as they are given back, and lent again for fewer. */
static void reserves(void **state)
{
	const uint32_t all = SRQ_DEPTH - ADMINS, lent = all - CONNS_MAX, more = lent / 2;
	unsigned int i, round;

	(void)state;
	atomic_init(&poller->conns_wanted, CONNS_MAX);
	atomic_init(&poller->conns_reserved, CONNS_MAX);
	assert_false(window_reserves(poller));
	for (i = 0; i < 6; i++)
		assert_int_equal(exchange(&conns[i]), WINDOW);
	assert_int_equal(poller->windows.left, 0);
	atomic_store(&poller->conns_wanted, CONNS_MAX + more);
	assert_true(window_reserves(poller));
	window_reserve(poller);
	assert_int_equal(poller->conns_reserved, CONNS_MAX);
	assert_int_equal(poller->windows.lendable, lent - more);
	for (round = 0; round < 2 * WINDOW; round++)
		for (i = 0; i < 6; i++) {
			exchange(&conns[i]);
			window_reserve(poller);
		}
	assert_int_equal(poller->conns_reserved, CONNS_MAX + more);
	assert_false(window_reserves(poller));
	assert_int_equal(poller->windows.left_max, lent - more);
	atomic_store(&poller->conns_wanted, CONNS_MAX);
	assert_true(window_reserves(poller));
	window_reserve(poller);
	assert_false(window_reserves(poller));
	assert_int_equal(poller->windows.lendable, lent);
	assert_int_equal(poller->windows.left_max, lent);
	assert_all_covered();
}

/* A change that is taken back before all are set aside leaves nothing lent to nobody. */
static void reserves_for_a_while(void **state)
{
	const uint32_t lent = SRQ_DEPTH - ADMINS - CONNS_MAX;
	unsigned int i;

	(void)state;
	atomic_init(&poller->conns_wanted, CONNS_MAX);
	atomic_init(&poller->conns_reserved, CONNS_MAX);
	for (i = 0; i < 6; i++)
		exchange(&conns[i]);
	atomic_store(&poller->conns_wanted, CONNS_MAX + 5);
	window_reserve(poller);
	assert_int_equal(poller->conns_reserved, CONNS_MAX);
	atomic_store(&poller->conns_wanted, CONNS_MAX);
	assert_true(window_reserves(poller));
	window_reserve(poller);
	assert_false(window_reserves(poller));
	assert_int_equal(poller->windows.lendable, lent);
	assert_all_covered();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_client, setup),
		cmocka_unit_test_setup(shares, setup),
		cmocka_unit_test_setup(a_smaller_window_is_known, setup),
		cmocka_unit_test_setup(a_smaller_window_is_revoked, setup),
		cmocka_unit_test_setup(shares_change, setup),
		cmocka_unit_test_setup(slow_senders, setup),
		cmocka_unit_test_setup(idle_connections, setup),
		cmocka_unit_test_setup(not_idle, setup),
		cmocka_unit_test_setup(responses_outstanding, setup),
		cmocka_unit_test_setup(administrators, setup),
		cmocka_unit_test_setup(no_receive_to_spare, setup),
		cmocka_unit_test_setup(looks_are_bounded, setup),
		cmocka_unit_test_setup(clients_and_messages, setup),
		cmocka_unit_test_setup(reserves, setup),
		cmocka_unit_test_setup(reserves_for_a_while, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
