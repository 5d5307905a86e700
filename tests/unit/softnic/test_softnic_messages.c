/* SPDX-License-Identifier: MIT */
/*
 * Tests of what softnic moves and of how it completes: messages and READs that are longer than a
 * ring, in pieces; the order and the statuses of completions, also after a request that failed;
 * that places are used again; receives that are missing or too short; READs that are refused, and
 * responses that a peer forges.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define LONG_BYTES 30000u /* of two pieces each, of which the first has */
#define FIRST_BYTES 9999u
#define SECOND_AT 50000u /* where the second is */
#define LONG_WAIT_NS 1000000000000ull

static struct end server, client;

/* READs of memory that is not shared are served: they go through the rings. */
static struct end_options silent, paired;

static int start(const struct end_options *of_client)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(&server, DEVICE_LISTEN, path, &silent);
	if (!ret)
		ret = end_init(&client, DEVICE_CONNECT, path, of_client);
	return ret ?: ends_connect(&server, &client, &client.id, &silent, of_client);
}

static int setup(void **state)
{
	(void)state;
	return start(&silent);
}

static int setup_paired(void **state)
{
	(void)state;
	return start(&paired);
}

static int teardown(void **state)
{
	(void)state;
	end_release(&client);
	end_release(&server);
	return 0;
}

/* A queue pair of the client's with a receive queue of its own, which reports every request. */
static int setup_own_receives(void **state)
{
	struct cm_param param = { .rnr_retry_count = 7, .min_rnr_timer = 12, .retry_count = 7 };
	const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct ibv_qp_init_attr attr;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "%s", pair_path());
	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, &silent), 0);
	assert_int_equal(end_init(&client, DEVICE_CONNECT, path, &silent), 0);
	attr = (struct ibv_qp_init_attr){
		.send_cq = client.cq,
		.recv_cq = client.cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = PAIR_SEND_WR,
			 .max_send_sge = 2,
			 .max_recv_wr = 4,
			 .max_recv_sge = 2 },
	};
	assert_int_equal(OPS->create_id(client.cm, &client.id), 0);
	assert_int_equal(OPS->create_qp(client.id, client.pd, &attr, IBV_ACCESS_REMOTE_READ), 0);
	assert_int_equal(OPS->connect(client.id, &param), 0);
	while (!client.connected || !server.connected) {
		end_serve_cm(&server, &silent);
		end_serve_cm(&client, &silent);
		assert_true(pair_now_ms() < deadline);
	}
	return 0;
}

static uint8_t pattern(unsigned int i)
{
	return (uint8_t)(i * 7 + i / 251);
}

static uint8_t *long_at(const struct end *end, unsigned int i)
{
	return end->mem + (i < FIRST_BYTES ? i : SECOND_AT + i - FIRST_BYTES);
}

static void long_fill(const struct end *end)
{
	for (unsigned int i = 0; i < LONG_BYTES; i++)
		*long_at(end, i) = pattern(i);
}

static void assert_long(const struct end *end)
{
	for (unsigned int i = 0; i < LONG_BYTES; i++)
		assert_int_equal(*long_at(end, i), pattern(i));
}

static void long_sges(const struct end *end, struct ibv_sge sges[2])
{
	sges[0] = (struct ibv_sge){ (uintptr_t)end->mem, FIRST_BYTES, end->mr->lkey };
	sges[1] = (struct ibv_sge){ (uintptr_t)end->mem + SECOND_AT, LONG_BYTES - FIRST_BYTES,
				    end->mr->lkey };
}

static bool has_event(void)
{
	struct ibv_cq *cq;

	return OPS->get_cq_event(client.comp, &cq) == 0;
}

/* The pieces of a message are put together, and the last one is the event that was asked for. */
static void long_messages(void **state)
{
	struct ibv_sge to[2], from[2];
	struct ibv_recv_wr recv = { .wr_id = 5, .sg_list = to, .num_sge = 2 }, *bad_recv;
	struct ibv_send_wr wr = { .wr_id = 77,
				  .sg_list = from,
				  .num_sge = 2,
				  .opcode = IBV_WR_SEND },
			   *bad;
	struct ibv_wc wc;

	(void)state;
	long_sges(&client, to);
	long_sges(&server, from);
	long_fill(&server);
	for (unsigned int solicited = 0; solicited < 2; solicited++) {
		memset(client.mem, 0, PAIR_MEM_BYTES / 2);
		assert_int_equal(ibv_post_recv(client.id->qp, &recv, &bad_recv), 0);
		assert_int_equal(ibv_req_notify_cq(client.cq, 1), 0);
		wr.send_flags = IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0);
		assert_int_equal(ibv_post_send(server.id->qp, &wr, &bad), 0);
		assert_int_equal(end_wait(&server, &client, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_SEND);
		assert_int_equal(wc.wr_id, 77);
		assert_int_equal(wc.qp_num, server.id->qp->qp_num);
		assert_int_equal(has_event(), solicited);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wr_id, 5);
		assert_int_equal(wc.byte_len, LONG_BYTES);
		assert_long(&client);
	}
}

static void long_reads(void **state)
{
	struct ibv_sge to[2];
	struct ibv_send_wr wr = {
		.wr_id = 78,
		.sg_list = to,
		.num_sge = 2,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { client.remote.addr, client.remote.rkey },
	}, *bad;
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	long_sges(&client, to);
	for (i = 0; i < LONG_BYTES; i++)
		server.mem[i] = pattern(i);
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.wr_id, 78);
	assert_int_equal(wc.byte_len, LONG_BYTES);
	assert_long(&client);
}

/* All are reported, though none asks for it. */
static void every_request_is_reported(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(end_post_send(&client, client.id->qp, i, 8, 0), 0);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.opcode, IBV_WC_SEND);
		assert_int_equal(wc.wr_id, i);
	}
}

/* As many as the queue pair may have, as often as one likes, while its queue grows and after. */
static void all_places_each_time(void **state)
{
	struct ibv_wc wc;
	unsigned int round, i;

	(void)state;
	for (round = 0; round < 3; round++) {
		for (i = 0; i < PAIR_SEND_WR; i++)
			assert_int_equal(end_post_send(&client, client.id->qp, 100 * round + i, 8,
						       IBV_SEND_SIGNALED),
					 0);
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED),
				 -ENOMEM);
		for (i = 0; i < PAIR_SEND_WR; i++) {
			assert_int_equal(end_wait(&server, NULL, &wc), 0);
			assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
		}
		for (i = 0; i < PAIR_SEND_WR; i++) {
			assert_int_equal(end_wait(&client, NULL, &wc), 0);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, 100 * round + i);
		}
	}
}

/* The peer's error fails the first request and flushes the rest; and that is an event. */
static void one_fails_the_others_are_flushed(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(
			end_post_send(&client, client.id->qp, i, 8, i ? IBV_SEND_SIGNALED : 0), 0);
	assert_int_equal(ibv_req_notify_cq(client.cq, 1), 0);
	assert_int_equal(OPS->modify_qp(server.id->qp, &attr, IBV_QP_STATE), 0);
	assert_true(has_event());
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
	}
}

/* A request that can't be executed fails when those before it have succeeded. */
static void a_wrong_key_fails_in_its_turn(void **state)
{
	struct ibv_sge sge = { (uintptr_t)client.mem, 8, client.mr->lkey ^ 0x1000 };
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc;

	(void)state;
	wr.opcode = IBV_WR_SEND;
	assert_int_equal(end_post_send(&client, client.id->qp, 1, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), 0);
	assert_int_equal(end_post_send(&client, client.id->qp, 3, 8, IBV_SEND_SIGNALED), 0);
	for (unsigned int i = 1; i < 4; i++) {
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, i == 1 ? IBV_WC_SUCCESS :
					    i == 2 ? IBV_WC_LOC_PROT_ERR :
						     IBV_WC_WR_FLUSH_ERR);
	}
}

/* A READ may not write to local memory that was registered for reading. */
static void a_read_needs_memory_to_write(void **state)
{
	static uint8_t to[64];
	struct device_mem mem = { .addr = to, .length = sizeof(to), .fd = -1 };
	struct ibv_sge sge = { (uintptr_t)to, sizeof(to), 0 };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { client.remote.addr, client.remote.rkey },
	}, *bad;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(OPS->reg_mr(client.pd, &mem, IBV_ACCESS_REMOTE_READ, &mr), 0);
	server.mem[0] = 1;
	sge.lkey = mr->lkey;
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(to[0], 0);
	OPS->dereg_mr(mr);
}

/* A receive that is too short fails at both ends, and takes the connection with it. */
static void a_message_too_long(void **state)
{
	struct ibv_sge to = { (uintptr_t)client.mem, 64, client.mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 5, .sg_list = &to, .num_sge = 1 }, *bad;
	struct ibv_wc wc;

	(void)state;
	memset(client.mem, 0, 128);
	memset(server.mem, 1, 128);
	assert_int_equal(ibv_post_recv(client.id->qp, &recv, &bad), 0);
	assert_int_equal(end_post_send(&server, server.id->qp, 0, 65, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(client.mem[64], 0);
	assert_int_equal(client.id->qp->state, IBV_QPS_ERR);
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
}

/* The receive of a message of which only the start is here ends with the connection. */
static void a_message_that_is_cut_off(void **state)
{
	struct ibv_sge to[2];
	struct ibv_recv_wr recv = { .wr_id = 5, .sg_list = to, .num_sge = 2 }, *bad;
	struct ibv_wc wc;

	(void)state;
	long_sges(&client, to);
	assert_int_equal(ibv_post_recv(client.id->qp, &recv, &bad), 0);
	recv.wr_id = 6;
	assert_int_equal(ibv_post_recv(client.id->qp, &recv, &bad), 0);
	assert_int_equal(end_post_send(&server, server.id->qp, 0, LONG_BYTES, 0), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_true(to_sn_qp(client.id->qp)->incoming.active);
	assert_int_equal(OPS->disconnect(server.id), 0);
	for (unsigned int i = 5; i < 7; i++) {
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
}

/* What a queue pair with @retry does when its peer says that a SEND found no receive. */
static enum ibv_qp_state after_rnr(uint8_t retry, uint32_t send, uint32_t count)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp), *peer = to_sn_qp(server.id->qp);
	struct ibv_wc wc;

	qp->rnr_retry = retry;
	side_store(&peer->mine->rnr_send, send);
	side_store(&peer->mine->rnr_count, count);
	peer->changed |= LINK_WAKE_EVENT;
	do_sn_qp_publish(peer);
	(void)!ibv_poll_cq(client.cq, 0, &wc);
	return qp->verbs.state;
}

/* A SEND is retried as often as the queue pair says, and 7 times is without an end. */
static void retries_are_counted(void **state)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	struct ibv_wc wc;

	(void)state;
	/* Nothing is outstanding. */
	assert_int_equal(after_rnr(2, 0, 100), IBV_QPS_RTS);
	/* Still true when there is something. */
	assert_int_equal(after_rnr(2, 0, 0), IBV_QPS_RTS);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(after_rnr(7, qp->sq.acked, UINT8_MAX), IBV_QPS_RTS);
	assert_int_equal(after_rnr(2, qp->sq.acked - 1, 100), IBV_QPS_RTS);
	assert_int_equal(after_rnr(2, qp->sq.acked, 2), IBV_QPS_RTS);
	assert_int_equal(after_rnr(2, qp->sq.acked, 3), IBV_QPS_ERR);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* A message that waits long enough for a receive fails; with retries without end it does not. */
static void no_receive_for_long(void **state)
{
	struct ibv_wc wc;

	(void)state;
	to_sn_qp(server.id->qp)->rnr_retry = 1;
	assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_wait(&server, &client, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* One wait has nothing to do with the next: each message has all its retries. */
static void each_wait_begins_anew(void **state)
{
	struct ibv_sge to = { (uintptr_t)client.mem, 64, client.mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 5, .sg_list = &to, .num_sge = 1 }, *bad;
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	struct ibv_wc wc;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(end_post_send(&server, server.id->qp, 0, 8, 0), 0);
		assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
		assert_true(qp->incoming.waiting);
		assert_true(sn_now_ns(CLOCK_MONOTONIC) - qp->incoming.waiting_since_ns <
			    LONG_WAIT_NS / 2);
		qp->incoming.waiting_since_ns -= LONG_WAIT_NS; /* as if it had lasted */
		assert_int_equal(ibv_post_recv(client.id->qp, &recv, &bad), 0);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_false(qp->incoming.waiting);
	}
}

/* A sleeper that waits for acknowledgements hears of them though nothing else comes. */
static void taken_messages_are_told(void **state)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	struct ibv_wc wc;
	uint32_t bell;

	(void)state;
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	bell = side_bell(atomic_load(&qp->theirs));
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_not_equal(side_bell(atomic_load(&qp->theirs)), bell);
	assert_int_equal(side_load(&qp->mine->wake), 0);
	assert_true(has_event());
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Memory that the peer may not read: it hears so, and the owner ends the connection. */
static void a_refused_read(void **state)
{
	static const uint8_t secret[4096] = { 1 };
	struct device_mem mem = { .addr = (void *)(uintptr_t)secret, .fd = -1 };
	struct device_async_event event;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	for (unsigned int i = 0; i < 2; i++) {
		if (i)
			assert_int_equal(setup(state), 0);
		mem.length = i ? 64 : sizeof(secret);
		assert_int_equal(OPS->reg_mr(server.pd, &mem,
					     i ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_LOCAL_WRITE,
					     &mr),
				 0);
		client.mem[0] = 0;
		assert_int_equal(end_post_read(&client, client.id->qp, 0, i ? 65 : 64,
					       (uintptr_t)secret, mr->rkey),
				 0);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(client.mem[0], 0);
		assert_int_equal(server.id->qp->state, IBV_QPS_ERR);
		assert_int_equal(OPS->get_async_event(server.dev, &event), 0);
		assert_int_equal(event.type, IBV_EVENT_QP_ACCESS_ERR);
		assert_ptr_equal(event.qp, server.id->qp);
		OPS->dereg_mr(mr);
		if (!i)
			teardown(state);
	}
}

/* A poll sees the peer's word before the socket ends, at which it does not look each time. */
static void a_disconnect_is_noticed_by_a_poll(void **state)
{
	struct sn_qp *peer = to_sn_qp(server.id->qp);
	struct ibv_wc wc;

	(void)state;
	side_store(&peer->mine->closed, 1);
	peer->changed |= LINK_WAKE_EVENT;
	do_sn_qp_publish(peer);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_int_equal(client.id->qp->state, IBV_QPS_ERR);
}

/* What the peer says of its response, and how much of it is in the ring. */
static const struct forged {
	const char *what;
	uint32_t wanted, length, published;
} forged[] = {
	{ "more than was asked for", 64, 65, 128 },
	{ "nothing", 64, 0, 64 },
	{ "too long a piece", 8000, LINK_PIECE_MAX + 1, 4160 },
	{ "more than is published", 200, 100, 64 },
	{ "a length that wraps", 64, ~0u - 7, 64 },
};

static void forged_responses(void **state)
{
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		const struct forged *f = &forged[i];
		struct link_response response = { .length = f->length };
		struct sn_qp *peer;
		struct ibv_wc wc;

		assert_int_equal(setup(NULL), 0);
		peer = to_sn_qp(server.id->qp);
		memset(client.mem, 0, PAIR_MEM_BYTES / 2);
		memset(peer->response_out.data, 0xee, RING_BYTES);
		assert_int_equal(end_post_read(&client, client.id->qp, 0, f->wanted,
					       client.remote.addr, client.remote.rkey),
				 0);
		ring_out_write(&peer->response_out, 0, &response, sizeof(response));
		peer->response_out.head += f->published;
		peer->changed |= LINK_WAKE_EVENT;
		do_sn_qp_publish(peer);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
		if (wc.status == IBV_WC_SUCCESS ||
		    !side_load(&to_sn_qp(client.id->qp)->mine->closed))
			fail_msg("%s was taken", f->what);
		assert_int_equal(client.mem[0], 0);
		assert_int_equal(client.mem[f->wanted], 0);
		teardown(state);
	}
}

static int group_setup(void **state)
{
	(void)state;
	paired = silent = END_DEFAULTS;
	silent.share = paired.share = false;
	paired.paired = true;
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

#define CASE(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(long_messages, setup_own_receives),
		CASE(long_reads, setup),
		CASE(every_request_is_reported, setup_own_receives),
		CASE(all_places_each_time, setup_paired),
		CASE(one_fails_the_others_are_flushed, setup),
		CASE(a_wrong_key_fails_in_its_turn, setup),
		CASE(a_read_needs_memory_to_write, setup),
		CASE(a_message_too_long, setup_own_receives),
		CASE(a_message_that_is_cut_off, setup_own_receives),
		CASE(retries_are_counted, setup),
		CASE(no_receive_for_long, setup_own_receives),
		CASE(each_wait_begins_anew, setup_own_receives),
		CASE(taken_messages_are_told, setup),
		CASE(a_refused_read, setup),
		CASE(a_disconnect_is_noticed_by_a_poll, setup),
		cmocka_unit_test(forged_responses),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
