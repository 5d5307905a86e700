/* SPDX-License-Identifier: MIT */
/*
 * The fixture for the tests of the worker's loop: server/worker/worker_loop.c is compiled here, and
 * run by the test's own thread, on a device of functions that say what has completed.
 */
#ifndef KVD_TESTS_SUPPORT_WORKER_LOOP_TEST_H
#define KVD_TESTS_SUPPORT_WORKER_LOOP_TEST_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/thread.h"
#include "server/worker/worker.h"

static void quiescent(void);
static int test_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

#undef rcu_quiescent_state
#define rcu_quiescent_state quiescent
#define thread_start test_start
#include "server/worker/worker_loop.c"
#undef thread_start

#include "tests/support/log_fixture.h"
#include "tests/support/store_fixture.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (8u << 20)
#define VALUE_MAX_BYTES (1u << 20)
#define SECOND_NS 1000000000ull

static struct ibv_cq cq;

/* What the next poll finds. */
static struct ibv_wc completions[BATCH_MAX];
static unsigned int completion_count;

/* Called by each poll; it may add completions. */
static void (*on_poll)(void);

static unsigned int polls, notifies; /* notifies: requested, and not polled since */

static unsigned int quiescents;

static inline void quiescent(void)
{
	quiescents++;
	urcu_qsbr_quiescent_state();
}

/* Name and result of the thread to be started. */
static char started_name[THREAD_NAME_BYTES];
static int create_error;

static inline int test_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	(void)run;
	(void)arg;
	strcpy(started_name, name);
	*thread = pthread_self();
	return create_error;
}

static inline int poll_cq(struct ibv_cq *from, int max, struct ibv_wc *wcs)
{
	int n;

	assert_ptr_equal(from, &cq);
	polls++;
	if (on_poll)
		on_poll();
	notifies = 0;
	n = (int)completion_count;
	assert_true(n <= max);
	memcpy(wcs, completions, completion_count * sizeof(*wcs));
	completion_count = 0;
	return n;
}

static inline uint32_t qp_num_of(const struct test_conn *c)
{
	return (uint32_t)(c - test_conns) + 100;
}

static inline int setup(void **state)
{
	(void)state;
	test_worker_create(REGION_BYTES, VALUE_MAX_BYTES);
	region_publish_geometry(&test_store.region);
	completion_count = polls = notifies = 0;
	on_poll = NULL;
	cq.context = test_conns[0].qp.context;
	cq.context->ops.poll_cq = poll_cq;
	cq.cqe = 1000;
	test_poller->cq = &cq;
	test_poller->conns = cds_lfht_new(16, 16, 16, 0, NULL);
	TAILQ_INIT(&test_poller->marked);
	TAILQ_INIT(&test_poller->unmarked);
	TAILQ_INIT(&test_poller->windows.active);
	test_worker.poller_count = 1;
	test_worker.attached[0] = true;
	assert_int_equal(mailbox_init(&test_worker.mailbox), 0);
	for (unsigned int i = 0; i < TEST_CONNS; i++) {
		test_conns[i].conn.qp_num = qp_num_of(&test_conns[i]);
		test_conns[i].conn.serial = i + 1;
		test_conns[i].conn.window_active = true;
		test_conns[i].conn.window_next = TEST_WINDOW;
		conn_table_add(&test_conns[i].conn);
	}
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	rcu_read_lock();
	for (unsigned int i = 0; i < TEST_CONNS; i++)
		conn_table_remove(&test_conns[i].conn);
	rcu_read_unlock();
	rcu_thread_offline();
	assert_int_equal(cds_lfht_destroy(test_poller->conns, NULL), 0);
	rcu_thread_online();
	mailbox_release(&test_worker.mailbox);
	assert_null(test_store_check(&test_store, NULL));
	test_worker_destroy();
	return 0;
}

static inline struct ibv_wc *add_completion(const struct test_conn *c, uint64_t wr_id)
{
	struct ibv_wc *wc = &completions[completion_count++];

	*wc = (struct ibv_wc){ .wr_id = wr_id, .qp_num = qp_num_of(c) };
	return wc;
}

/* The message has arrived in @recv, with a key unless it is NULL. */
static inline struct ibv_wc *add_request(const struct test_conn *c, uint32_t recv,
					 struct wire_request wire, const char *key)
{
	struct ibv_wc *wc = add_completion(c, wr_id_make(WR_RECV, 0, 0, recv));

	wire.key_len = key ? (uint16_t)strlen(key) : 0;
	memcpy(test_recv(recv), &wire, sizeof(wire));
	if (key)
		memcpy(test_recv(recv) + sizeof(wire), key, wire.key_len);
	wc->byte_len = (uint32_t)sizeof(wire) + wire.key_len;
	return wc;
}

#define ADD(c, recv, key, ...) add_request(c, recv, (struct wire_request){ __VA_ARGS__ }, key)

/* @count receives, from number 0 on, were posted again, each once. */
static inline void assert_posted(unsigned int count)
{
	for (unsigned int i = 0; i < TEST_RECVS; i++)
		if (test_recvs[i] != (i < count))
			fail_msg("receive %u was posted %u times", i, test_recvs[i]);
}

/* A message with nothing but an access record. */
static inline void add_access(const struct test_conn *c, uint32_t recv)
{
	const uint64_t hash = 1;

	ADD(c, recv, NULL, .op = WIRE_ACCESS, .access_count = 1)->byte_len += sizeof(hash);
	memcpy(test_recv(recv) + sizeof(struct wire_request), &hash, sizeof(hash));
}

static inline void assert_activity(enum activity expected)
{
	assert_int_equal(poller_poll(test_poller), expected);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif /* KVD_TESTS_SUPPORT_WORKER_LOOP_TEST_H */
