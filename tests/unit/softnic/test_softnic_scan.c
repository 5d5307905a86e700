/* SPDX-License-Identifier: MIT */
/*
 * Tests of what a poll looks at on softnic (scan.c): what was found does not wait for the bells of
 * many others, all have their turn, and a wait that has just begun makes no system call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/softnic/softnic.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define MANY (2 * SN_SCAN_ON + 10)
#define ROUNDS 500

static struct end server, client;
static struct cm_id *ids[MANY];
static struct end_options private; /* memory without a file, so that none is passed */

static void ends_start(unsigned int count)
{
	char path[64];
	unsigned int i;

	private = END_DEFAULTS;
	private.share = false;
	snprintf(path, sizeof(path), "%s", pair_path());
	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS), 0);
	assert_int_equal(end_init(&client, DEVICE_CONNECT, path, &private), 0);
	for (i = 0; i < count; i++)
		assert_int_equal(
			ends_connect(&server, &client, &ids[i], &END_DEFAULTS, &END_DEFAULTS), 0);
}

static void ends_stop(unsigned int count)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	unsigned int i;

	for (i = 0; i < count; i++)
		OPS->destroy_id(ids[i]);
	end_release(&client);
	while (atomic_load(&dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID]) > 1) {
		end_serve_cm(&server, &END_DEFAULTS);
		assert_true(pair_now_ms() < deadline);
	}
	end_release(&server);
}

/* The server's place, among its hot ones, of the queue pair to which @id is connected. */
static uint32_t place_of(struct cm_id *id)
{
	struct sn_cq *cq = to_sn_cq(server.cq);
	const struct sn_qp *qp = to_sn_qp(id->qp);
	uint32_t i;

	for (i = 0; i < cq->hot_count; i++)
		if (cq->hot_members[i]->qp->request_in.head == 0 && qp->request_out.head != 0 &&
		    atomic_load(&cq->hot[i].theirs->request_head) == qp->request_out.head)
			return i;
	fail();
	return 0;
}

/* A scan ends soon after one with work, and the next one begins behind that. */
static void test_found_does_not_wait(void **state)
{
	struct ibv_wc wc[4];
	struct sn_cq *cq;
	uint32_t place;

	(void)state;
	ends_start(MANY);
	cq = to_sn_cq(server.cq);
	assert_int_equal(cq->hot_count, MANY);
	assert_int_equal(end_post_send(&client, ids[5]->qp, 0, 8, 0), 0);
	place = place_of(ids[5]);
	cq->hot_next = place;
	assert_int_equal(end_post_send(&client, ids[5 + SN_SCAN_ON + 2]->qp, 0, 100, 0), 0);
	assert_int_equal(ibv_poll_cq(server.cq, 4, wc), 1);
	assert_int_equal(wc[0].byte_len, 8);
	assert_int_equal(cq->hot_next, place + 1);
	assert_int_equal(end_post_recv(&server, (unsigned int)wc[0].wr_id), 0);
	assert_int_equal(ibv_poll_cq(server.cq, 4, wc), 1);
	assert_int_equal(wc[0].byte_len, 100);
	ends_stop(MANY);
}

/*
 * All send again as soon as they were served: each is served equally often. Not beside the work of
 * a tick, which changes their order: it makes those cold that had no turn while we had no CPU.
 */
static void test_all_have_their_turn(void **state)
{
	unsigned int served[MANY] = { 0 }, i, polls;
	struct ibv_wc wc;

	(void)state;
	ends_start(MANY);
	for (i = 0; i < MANY; i++)
		assert_int_equal(end_post_send(&client, ids[i]->qp, 0, 8 + i, 0), 0);
	for (polls = 0; polls < ROUNDS * 2; polls++) {
		to_sn_cq(server.cq)->found_scans = 0; /* no tick */
		if (ibv_poll_cq(server.cq, 1, &wc) != 1)
			continue;
		i = wc.byte_len - 8;
		served[i]++;
		assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
		assert_int_equal(end_post_send(&client, ids[i]->qp, 0, 8 + i, 0), 0);
	}
	for (i = 0; i < MANY; i++)
		assert_in_range(served[i], served[0] - 1, served[0] + 1);
	ends_stop(MANY);
}

/* The work of a clock tick, a system call, waits for a wait that lasts through it. */
static void test_short_waits_do_no_tick(void **state)
{
	struct ibv_wc wc;
	struct sn_cq *cq;

	(void)state;
	ends_start(1);
	cq = to_sn_cq(client.cq);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	cq->waits = false; /* as if that poll had found something, long ago */
	cq->tick_ms -= 100;
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_true(cq->ticked);
	cq->wait_tick_ms -= 100; /* as if the wait had begun then */
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_false(cq->ticked);
	ends_stop(1);
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found_does_not_wait),
		cmocka_unit_test(test_all_have_their_turn),
		cmocka_unit_test(test_short_waits_do_no_tick),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
