/* SPDX-License-Identifier: MIT */
/*
 * Tests of what a poll looks at on softnic (scan.c): what was found does not wait for the bells of
 * many others, all have their turn, and a wait that has just begun makes no system call; CQs
 * without a channel, and two of one queue pair; that arming reaches all, and that nothing is missed
 * by those that are cold.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/queue_pair.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define MANY (2 * SN_SCAN_ON + 10)
#define ROUNDS 500
#define FEW (2 * SN_TICK_SCAN - 2)
#define COLD (SN_COLD_SCAN + 8)
#define FAKES (SN_HOT_SCAN + 5)

static struct end server, client;
static struct cm_id *ids[MANY];
static struct end_options private; /* memory without a file, so that none is passed */

static void ends_open(const struct end_options *server_options)
{
	char path[64];

	private = END_DEFAULTS;
	private.share = false;
	snprintf(path, sizeof(path), "%s", pair_path());
	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, server_options), 0);
	assert_int_equal(end_init(&client, DEVICE_CONNECT, path, &private), 0);
}

static void connect_one(unsigned int i)
{
	assert_int_equal(ends_connect(&server, &client, &ids[i], &END_DEFAULTS, &END_DEFAULTS), 0);
}

static void ends_start(unsigned int count)
{
	unsigned int i;

	ends_open(&END_DEFAULTS);
	for (i = 0; i < count; i++)
		connect_one(i);
}

/* The server's CQ is one that no channel belongs to. */
static void ends_open_without_channel(void)
{
	ends_open(&END_DEFAULTS);
	OPS->destroy_cq(server.cq);
	assert_int_equal(OPS->create_cq(server.dev, 1024, NULL, NULL, &server.cq), 0);
	server.recv_cq = server.cq;
}

static void ends_open_with_two(void)
{
	struct end_options two_cqs = END_DEFAULTS;

	two_cqs.two_cqs = true;
	ends_open(&two_cqs);
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

/* A scan ends soon after one with work, and the next one begins after that. */
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

/* Lets the next poll do the work of a tick, as in a wait that has lasted through one. */
static void tick(struct sn_cq *cq)
{
	cq->ticked = true;
	cq->waits = true;
	cq->wait_tick_ms = cq->tick_ms - 100;
}

static unsigned int failed_count(void)
{
	struct sn_qp *qp;
	unsigned int count = 0;

	TAILQ_FOREACH(qp, &dev_to_sn_context(server.dev)->qps, in_context)
		count += qp->verbs.state == IBV_QPS_ERR;
	return count;
}

/* As if the client's process had ended: its memory says nothing of it. */
static void client_vanishes(unsigned int i)
{
	shutdown(to_sn_qp(ids[i]->qp)->sock, SHUT_RDWR);
}

static void send_one(unsigned int i)
{
	assert_int_equal(end_post_send(&client, ids[i]->qp, 0, 8, IBV_SEND_SIGNALED), 0);
}

/* What the server has received is there at its first poll. */
static void received_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
}

/* Then a message waits until the test posts a receive. */
static void take_all_receives(void)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < PAIR_RECVS; i++) {
		send_one(0);
		assert_int_equal(end_wait(&server, NULL, &wc), 0);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
	}
	send_one(0);
	assert_int_equal(ibv_poll_cq(server.recv_cq, 1, &wc), 0);
}

static bool comp_readable(struct end *end)
{
	struct pollfd fd = { .fd = end->comp->fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* Takes what the handshake has left on the sockets, without a notification. */
static void comp_settle(struct end *end)
{
	struct ibv_cq *cq;

	while (comp_readable(end))
		assert_int_equal(OPS->get_cq_event(end->comp, &cq), -EAGAIN);
}

/* Without a channel nothing but the polls learns that a client is gone: of each, in its turn. */
static void test_without_a_channel_ends_are_noticed(void **state)
{
	struct ibv_wc wc;
	struct sn_cq *cq;
	unsigned int i, ticks;

	(void)state;
	ends_open_without_channel();
	cq = to_sn_cq(server.cq);
	for (i = 0; i <= FEW; i++) {
		tick(cq);
		assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
		if (i < FEW)
			connect_one(i);
	}
	for (i = 0; i < FEW; i++) {
		client_vanishes(FEW - 1 - i);
		for (ticks = 0; ticks < 2; ticks++) {
			tick(cq);
			assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
		}
		assert_int_equal(failed_count(), i + 1);
	}
	ends_stop(FEW);
}

/* A poller that is never idle does not put the scan off for ever. */
static void test_a_busy_poller_notices_ends(void **state)
{
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	ends_open_without_channel();
	connect_one(0);
	connect_one(1);
	client_vanishes(1);
	to_sn_cq(server.cq)->found_scans = 0;
	for (i = 0; !failed_count(); i++) {
		assert_true(i < 2 * SN_SERVE_AFTER);
		to_sn_cq(server.cq)->ticked = true;
		send_one(0);
		received_one(server.cq);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
	}
	ends_stop(2);
}

/* A queue without a channel can be armed, too, and is then looked at as before. */
static void test_without_a_channel_it_can_be_armed(void **state)
{
	unsigned int i;

	(void)state;
	ends_open_without_channel();
	connect_one(0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
		send_one(0);
		received_one(server.cq);
	}
	take_all_receives();
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
	assert_int_equal(end_post_recv(&server, 0), 0);
	received_one(server.cq);
	ends_stop(1);
}

/* The queue pair's other CQ has no channel. */
static void test_one_of_two_has_a_channel(void **state)
{
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;

	(void)state;
	ends_open_with_two();
	comp = server.cq->channel;
	OPS->destroy_cq(server.cq);
	OPS->destroy_comp_channel(comp);
	assert_int_equal(OPS->create_cq(server.dev, 64, NULL, NULL, &server.cq), 0);
	connect_one(0);
	comp_settle(&server);
	assert_int_equal(ibv_req_notify_cq(server.recv_cq, 0), 0);
	send_one(0);
	assert_true(comp_readable(&server));
	assert_int_equal(OPS->get_cq_event(server.comp, &cq), 0);
	assert_ptr_equal(cq, server.recv_cq);
	received_one(cq);
	ends_stop(1);
}

/* Polling one CQ wakes a thread that sleeps on the other. */
static void test_polling_one_of_two_leaves_the_other_armed(void **state)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;

	(void)state;
	ends_open_with_two();
	connect_one(0);
	comp_settle(&server);
	assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, 0), 0);
	assert_int_equal(ibv_req_notify_cq(server.recv_cq, 0), 0);
	/* The client has taken it, which the other CQ learns. */
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
	assert_false(comp_readable(&server));
	send_one(0);
	assert_true(comp_readable(&server));
	assert_int_equal(OPS->get_cq_event(server.comp, &cq), 0);
	received_one(cq);
	ends_stop(1);
}

/* A message that waits for a receive is delivered by polls of either CQ. */
static void test_waiting_is_seen_by_both(void **state)
{
	(void)state;
	ends_open_with_two();
	connect_one(0);
	take_all_receives();
	assert_int_equal(end_post_recv(&server, 0), 0);
	received_one(server.recv_cq);
	ends_stop(1);
}

/* A queue pair that goes leaves nothing in either: no place, no event, no completion. */
static void test_nothing_is_left_in_either(void **state)
{
	struct sn_cq *cqs[2];
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	ends_open_with_two();
	cqs[0] = to_sn_cq(server.cq);
	cqs[1] = to_sn_cq(server.recv_cq);
	connect_one(0);
	comp_settle(&server);
	take_all_receives();
	assert_int_equal(end_post_recv(&server, 0), 0);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0); /* it is in the other one */
	send_one(0);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0); /* and this waits again */
	assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	do
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
	while (wc.opcode != IBV_WC_RECV);
	sn_cq_scan(cqs[0], 1);
	assert_int_equal(cqs[0]->head - cqs[0]->tail, 1);
	OPS->destroy_qp(server.id);
	for (i = 0; i < 2; i++) {
		assert_int_equal(cqs[i]->hot_count, 0);
		assert_true(TAILQ_EMPTY(&cqs[i]->cold));
		assert_true(TAILQ_EMPTY(&cqs[i]->waiting));
		assert_int_equal(cqs[i]->reserved, 0);
		assert_int_equal(ibv_poll_cq(&cqs[i]->verbs, 1, &wc), 0);
	}
	client_vanishes(0);
	assert_false(comp_readable(&server));
	ends_stop(1);
}

/* A queue pair may have another place in each of its CQs: what was seen of it is noted there. */
static void test_each_of_two_has_its_own_places(void **state)
{
	struct ibv_cq *recv_cq;
	struct ibv_cq *taken;
	struct sn_cq *cq;

	(void)state;
	ends_open_with_two();
	recv_cq = server.recv_cq;
	server.recv_cq = server.cq; /* the first one has but one CQ */
	connect_one(0);
	server.recv_cq = recv_cq;
	connect_one(1);
	cq = to_sn_cq(recv_cq);
	assert_int_equal(cq->hot_count, 1);
	comp_settle(&server);
	assert_int_equal(ibv_req_notify_cq(recv_cq, 0), 0);
	send_one(1);
	assert_int_equal(OPS->get_cq_event(server.comp, &taken), 0);
	assert_int_equal(cq->hot_count, 1);
	assert_int_equal(cq->hot[0].seen, side_bell(cq->hot[0].theirs));
	received_one(recv_cq);
	ends_stop(2);
}

/* Arms the CQ after a time without traffic, which makes all queue pairs cold. */
static void arm_cold(struct sn_cq *cq)
{
	uint32_t i;

	for (i = 0; i < cq->hot_count; i++)
		cq->hot[i].active_ms -= SN_COLD_AFTER_MS;
	assert_int_equal(ibv_req_notify_cq(&cq->verbs, 0), 0);
	assert_int_equal(cq->hot_count, 0);
}

/*
 * Arming leaves those hot that had traffic lately: a poll finds what their peers do without asking
 * the channel, and the peers wake the thread if it sleeps.
 */
static void test_armed_ones_stay_hot(void **state)
{
	struct ibv_cq *taken;
	struct sn_cq *cq;
	unsigned int i;

	(void)state;
	ends_start(2);
	cq = to_sn_cq(server.cq);
	comp_settle(&server);
	cq->hot[0].active_ms -= SN_COLD_AFTER_MS;
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
	assert_int_equal(cq->hot_count, 1);
	assert_true(cq->hot[0].asleep);
	send_one(1);
	assert_true(comp_readable(&server));
	assert_int_equal(OPS->get_cq_event(server.comp, &taken), 0);
	received_one(server.cq);
	assert_false(cq->hot[0].asleep);
	for (i = 0; i < 2; i++) {
		assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
		assert_true(cq->hot[0].asleep);
		atomic_store(&cq->notify, SN_NOTIFY_NONE); /* it polls again */
		cq->unserved = 0;			   /* and does not ask the channel */
		send_one(1);
		received_one(server.cq);
		assert_false(cq->hot[0].asleep);
	}
	ends_stop(2);
}

/* What the peer did before a cold queue pair became hot is found by the next poll. */
static void test_warmed_with_work(void **state)
{
	struct sn_cq *cq;

	(void)state;
	ends_start(1);
	cq = to_sn_cq(server.cq);
	comp_settle(&server);
	arm_cold(cq);
	atomic_store(&cq->notify, SN_NOTIFY_NONE); /* it polls again */
	send_one(0);
	sn_cq_warm(cq, &to_sn_qp(server.id->qp)->members[0]);
	assert_int_equal(cq->hot_count, 1);
	received_one(server.cq);
	ends_stop(1);
}

/* A cold queue pair that sends while its thread polls is hot: the answer costs no wake-up. */
static void test_cold_one_sends_and_polls(void **state)
{
	struct sn_cq *cq;
	struct ibv_wc wc;

	(void)state;
	ends_start(1);
	cq = to_sn_cq(client.cq);
	comp_settle(&client);
	arm_cold(cq);
	atomic_store(&cq->notify, SN_NOTIFY_NONE); /* it polls again */
	send_one(0);
	assert_int_equal(cq->hot_count, 1);
	assert_false(cq->hot[0].asleep);
	received_one(server.cq);
	assert_false(comp_readable(&client));
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	ends_stop(1);
}

/* A cold queue pair that sends while its thread is about to sleep is woken for the answer. */
static void test_cold_one_sends(void **state)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;

	(void)state;
	ends_start(1);
	comp_settle(&client);
	arm_cold(to_sn_cq(client.cq));
	send_one(0);
	assert_false(comp_readable(&client));
	received_one(server.cq);
	assert_true(comp_readable(&client));
	assert_int_equal(OPS->get_cq_event(client.comp, &cq), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	ends_stop(1);
}

/* One that connects while a thread sleeps on the CQ wakes it. */
static void test_connected_when_armed(void **state)
{
	struct ibv_cq *cq;

	(void)state;
	ends_start(0);
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
	connect_one(0);
	comp_settle(&server);
	send_one(0);
	assert_true(comp_readable(&server));
	assert_int_equal(OPS->get_cq_event(server.comp, &cq), 0);
	received_one(server.cq);
	ends_stop(1);
}

/* Armed for all and for solicited ones only, in either order, it is armed for all. */
static void test_armed_for_all(void **state)
{
	struct ibv_cq *cq;
	int first;

	(void)state;
	ends_start(1);
	comp_settle(&server);
	for (first = 0; first < 2; first++) {
		assert_int_equal(ibv_req_notify_cq(server.cq, first), 0);
		assert_int_equal(ibv_req_notify_cq(server.cq, !first), 0);
		send_one(0);
		assert_true(comp_readable(&server));
		assert_int_equal(OPS->get_cq_event(server.comp, &cq), 0);
		received_one(server.cq);
	}
	ends_stop(1);
}

/* Should a wake-up be lost, ticks find what a cold one has, whichever it is. */
static void test_ticks_look_at_cold_ones(void **state)
{
	struct sn_member *last;
	struct ibv_wc wc;
	struct sn_cq *cq;

	(void)state;
	ends_start(COLD);
	cq = to_sn_cq(server.cq);
	arm_cold(cq);
	atomic_store(&cq->notify, SN_NOTIFY_NONE); /* it polls again */
	last = TAILQ_LAST(&cq->cold, sn_member_list);
	assert_ptr_equal(last->qp, to_sn_qp(server.id->qp)); /* the first that connected */
	sn_lock(&last->qp->lock);
	do_sn_qp_disarm(last->qp);
	sn_unlock(&last->qp->lock);
	send_one(0);
	cq->unserved = 0; /* the channel, which knows nothing of it, is not asked */
	tick(cq);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
	tick(cq);
	received_one(server.cq);
	ends_stop(COLD);
}

/*
 * With more hot ones than a poll looks at, the next poll goes on after the last. Most of them here
 * are one that says nothing, in many places.
 */
static void test_more_than_a_poll_looks_at(void **state)
{
	static struct sn_member fakes[FAKES];
	static struct link_side silent;
	static struct sn_qp fake;
	struct ibv_wc wc;
	struct sn_cq *cq;
	unsigned int i;

	(void)state;
	ends_start(0);
	cq = to_sn_cq(server.cq);
	fake.send_cq = fake.recv_cq = cq;
	fake.member_count = 2; /* never cold */
	atomic_store(&fake.theirs, &silent);
	sn_lock_init(&fake.lock, false);
	for (i = 0; i < FAKES; i++) {
		fakes[i].qp = &fake;
		assert_int_equal(sn_cq_reserve(cq), 0);
		sn_cq_add(cq, &fakes[i]);
	}
	connect_one(0);
	assert_int_equal(cq->hot_count, FAKES + 1);
	cq->hot_next = 0;
	send_one(0);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
	received_one(server.cq);
	for (i = 0; i < FAKES; i++) {
		sn_cq_remove(cq, &fakes[i]);
		sn_cq_unreserve(cq);
	}
	sn_lock_destroy(&fake.lock);
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
		cmocka_unit_test(test_without_a_channel_ends_are_noticed),
		cmocka_unit_test(test_a_busy_poller_notices_ends),
		cmocka_unit_test(test_without_a_channel_it_can_be_armed),
		cmocka_unit_test(test_one_of_two_has_a_channel),
		cmocka_unit_test(test_polling_one_of_two_leaves_the_other_armed),
		cmocka_unit_test(test_waiting_is_seen_by_both),
		cmocka_unit_test(test_nothing_is_left_in_either),
		cmocka_unit_test(test_each_of_two_has_its_own_places),
		cmocka_unit_test(test_armed_ones_stay_hot),
		cmocka_unit_test(test_warmed_with_work),
		cmocka_unit_test(test_cold_one_sends_and_polls),
		cmocka_unit_test(test_cold_one_sends),
		cmocka_unit_test(test_connected_when_armed),
		cmocka_unit_test(test_armed_for_all),
		cmocka_unit_test(test_ticks_look_at_cold_ones),
		cmocka_unit_test(test_more_than_a_poll_looks_at),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
