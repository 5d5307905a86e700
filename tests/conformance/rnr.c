/* SPDX-License-Identifier: MIT */
/* Conformance cases for receivers that are not ready and for the shared receive queue's limit. */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIMIT 4
#define LIMIT_MAX 32

/* A message waits for its receive; with rnr_retry 7, for ever. */
static void rnr_waits(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	mem_fill(&pair.client, 0, 256, 1);
	CHECK_OK(send_post(&pair.client, 1, 0, 256, IBV_SEND_SIGNALED));
	side_wc_none(&pair.client);
	side_wc_none(&pair.server);
	CHECK_OK(recv_post(&pair.server, 2, 0, 256));
	side_wc_is(&pair.server, 2, IBV_WC_SUCCESS);
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	mem_check(&pair.server, 0, 256, 1);
	pair_close(&pair);
}

/*
 * READs need no receive, but a READ after a waiting message waits too: requests keep their order.
 */
static void rnr_keeps_order(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(send_post(&pair.client, 1, 0, 16, IBV_SEND_SIGNALED));
	CHECK_OK(read_post(&pair.client, 2, 0, 16, 0, IBV_SEND_SIGNALED));
	CHECK_OK(send_post(&pair.client, 3, 0, 16, IBV_SEND_SIGNALED));
	side_wc_none(&pair.client);
	CHECK_OK(recv_post(&pair.server, 4, 0, 16));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	side_wc_is(&pair.client, 2, IBV_WC_SUCCESS);
	side_wc_none(&pair.client);
	CHECK_OK(recv_post(&pair.server, 5, 0, 16));
	side_wc_is(&pair.client, 3, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void rnr_exhausted_after(uint8_t retries)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	struct ibv_qp_attr attr;

	options.param.rnr_retry_count = retries;
	pair_open(&pair, &options);
	/* The time of a retry: it is the receiver that says it. */
	CHECK_OK(suite.ops->query_qp(pair.server.id->qp, &attr, IBV_QP_MIN_RNR_TIMER));
	CHECK_INT(attr.min_rnr_timer, options.param.min_rnr_timer);
	CHECK_OK(send_post(&pair.client, 1, 0, 16, IBV_SEND_SIGNALED));
	CHECK_OK(send_post(&pair.client, 2, 0, 16, 0));
	side_wc_is(&pair.client, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	side_wc_is(&pair.client, 2, IBV_WC_WR_FLUSH_ERR);
	side_qp_in_error(&pair.client);
	/* A receive that is posted too late does not get the message. */
	CHECK_OK(recv_post(&pair.server, 3, 0, 16));
	side_wc_none(&pair.server);
	pair_close(&pair);
}

static void rnr_exhausted(void)
{
	rnr_exhausted_after(0);
	rnr_exhausted_after(1);
	rnr_exhausted_after(6);
}

/* In either direction the sender's own retry count applies. */
static void rnr_retry_is_senders(void)
{
	struct pair_options mine = PAIR_DEFAULTS, other = PAIR_DEFAULTS;
	struct device_addr addr = suite_listen_addr();
	struct pair pair;

	other.param.rnr_retry_count = 1; /* the server's; the client has 7, for ever */
	side_open(&pair.server, "server", &addr, DEVICE_LISTEN, &other);
	side_listen(&pair.server);
	addr = suite_connect_addr(pair.server.dev);
	side_open(&pair.client, "client", &addr, DEVICE_CONNECT, &mine);
	pair.server.other = &pair.client;
	pair.client.other = &pair.server;
	side_connect(&pair.client, &mine);
	side_accept(&pair.server, &other);
	side_event(&pair.client, CM_ESTABLISHED);
	side_event(&pair.server, CM_ESTABLISHED);

	CHECK_OK(send_post(&pair.client, 1, 0, 16, IBV_SEND_SIGNALED));
	side_wc_none(&pair.client);
	CHECK_OK(recv_post(&pair.server, 2, 0, 16));
	side_wc_is(&pair.client, 1, IBV_WC_SUCCESS);
	side_wc_is(&pair.server, 2, IBV_WC_SUCCESS);
	CHECK_OK(send_post(&pair.server, 3, 0, 16, IBV_SEND_SIGNALED));
	side_wc_is(&pair.server, 3, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_close(&pair);
}

static void limit_arm(struct side *side)
{
	struct ibv_srq_attr attr = { .srq_limit = LIMIT };

	CHECK_OK(suite.ops->modify_srq(side->srq, &attr, IBV_SRQ_LIMIT));
}

/* The client sends @count messages, each of which uses up a receive of the server. */
static void receives_use(struct pair *pair, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		CHECK_OK(send_post(&pair->client, i, 0, 16, IBV_SEND_SIGNALED));
		side_wc_is(&pair->client, i, IBV_WC_SUCCESS);
		side_wc(&pair->server);
	}
}

static void receives_post(struct side *side, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		CHECK_OK(recv_post(side, i, 0, 64));
}

/* Falling below the limit gives one event, and another one only if armed again. */
static void srq_limit(void)
{
	struct device_async_event event;
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	receives_post(&pair.server, 8);
	limit_arm(&pair.server);
	receives_use(&pair, 8 - LIMIT); /* LIMIT are left: not below */
	CHECK(!side_async_seen(&pair.server, IBV_EVENT_SRQ_LIMIT_REACHED, SUITE_QUIET_MS));
	receives_use(&pair, 1);
	event = side_async(&pair.server, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.srq == pair.server.srq && !event.qp && !event.cq);
	receives_use(&pair, 1);
	CHECK(!side_async_seen(&pair.server, IBV_EVENT_SRQ_LIMIT_REACHED, SUITE_QUIET_MS));

	receives_post(&pair.server, 8);
	receives_use(&pair, 8); /* below again, but not armed */
	CHECK(!side_async_seen(&pair.server, IBV_EVENT_SRQ_LIMIT_REACHED, SUITE_QUIET_MS));

	receives_post(&pair.server, 8);
	limit_arm(&pair.server);
	receives_use(&pair, 8);
	side_async(&pair.server, IBV_EVENT_SRQ_LIMIT_REACHED);
	pair_close(&pair);
}

/*
 * A queue pair in the error state takes no more receives from the shared queue, and an event says
 * so on softnic and hardware; not on rxe, so nothing may wait for the event before it destroys.
 */
static void last_wqe_reached(void)
{
	struct device_async_event event;
	struct pair pair;
	bool seen;

	pair_open(&pair, &PAIR_DEFAULTS);
	receives_post(&pair.server, 4);
	receives_use(&pair, 1);
	CHECK_OK(suite.ops->disconnect(pair.server.id));
	if (suite.kind == DEVICE_SOFTNIC) {
		event = side_async(&pair.server, IBV_EVENT_QP_LAST_WQE_REACHED);
		CHECK(event.qp == pair.server.id->qp && !event.srq && !event.cq);
	} else {
		seen = side_async_seen(&pair.server, IBV_EVENT_QP_LAST_WQE_REACHED, 1000);
		fprintf(stderr, "LAST_WQE_REACHED: %s\n", seen ? "yes" : "no");
	}
	side_wc_none(&pair.server); /* the receives stay for other queue pairs */
	pair_close(&pair);
}

/* No more receives fit than were asked for (or granted). */
static void srq_full(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct pair pair;
	unsigned int posted = 0;
	int err = 0;

	options.recv_wr = LIMIT_MAX;
	pair_open(&pair, &options);
	while (!err && posted < 64 * LIMIT_MAX) {
		err = recv_post(&pair.server, posted, 0, 64);
		posted += !err;
	}
	CHECK_INT(err, ENOMEM);
	CHECK(posted >= LIMIT_MAX);
	receives_use(&pair, posted); /* and each of them receives a message */
	pair_close(&pair);
}

/* Two connections take from one queue, in order of arrival; qp_num says which connection it was. */
static void srq_shared(void)
{
	struct pair pair;
	struct side second;
	struct device_addr addr;
	struct cm_id *first_id;
	uint32_t first_qp, second_qp;

	pair_open(&pair, &PAIR_DEFAULTS);
	first_id = pair.server.id;
	addr = suite_connect_addr(pair.server.dev);
	side_open(&second, "second", &addr, DEVICE_CONNECT, &PAIR_DEFAULTS);
	second.other = &pair.server;
	pair.server.other = &second; /* which has to take events to connect */
	side_connect(&second, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	side_event(&second, CM_ESTABLISHED);
	side_event(&pair.server, CM_ESTABLISHED);
	pair.server.other = &pair.client;
	first_qp = first_id->qp->qp_num;
	second_qp = pair.server.id->qp->qp_num;
	CHECK(first_qp != second_qp);

	receives_post(&pair.server, 4);
	for (unsigned int i = 0; i < 4; i++) {
		struct side *from = i % 2 ? &second : &pair.client;

		CHECK_OK(send_post(from, i, 0, 16, IBV_SEND_SIGNALED));
		side_wc_is(from, i, IBV_WC_SUCCESS);
		CHECK_INT(side_wc(&pair.server).qp_num, i % 2 ? second_qp : first_qp);
	}
	/* One connection ends, the other goes on. */
	side_close(&second);
	side_event(&pair.server, CM_DISCONNECTED);
	side_destroy_id(&pair.server);
	pair.server.id = first_id;
	pair_ping(&pair);
	pair_close(&pair);
}

const struct suite_case rnr_cases[] = {
	{ "rnr_waits", rnr_waits, ALL_DEVICES },
	{ "rnr_keeps_order", rnr_keeps_order, ALL_DEVICES },
	{ "rnr_exhausted", rnr_exhausted, ALL_DEVICES },
	{ "rnr_retry_is_senders", rnr_retry_is_senders, ALL_DEVICES },
	{ "srq_limit", srq_limit, ALL_DEVICES },
	{ "last_wqe_reached", last_wqe_reached, ALL_DEVICES },
	{ "srq_full", srq_full, ALL_DEVICES },
	{ "srq_shared", srq_shared, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
