/* SPDX-License-Identifier: MIT */
/*
 * Conformance cases for destroying and disconnecting in every state a connection can have: nothing
 * hangs, and the other end always gets an event.
 */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* The next event within @wait_ms, of whatever type. */
static bool event_within(struct side *side, struct cm_event *event, int wait_ms)
{
	int64_t deadline_us = suite_now_us() + wait_ms * 1000LL;
	int err;

	do {
		err = suite.ops->cm_get_event(side->cm, event);
		if (!err)
			return true;
		CHECK_INT(err, -EAGAIN);
		side_poll(side);
		sched_yield();
	} while (suite_now_us() < deadline_us);
	return false;
}

static void still_usable(struct pair *pair)
{
	pair_connect(pair, &PAIR_DEFAULTS);
	pair_ping(pair);
}

static void destroy_null(void)
{
	suite.ops->dealloc_pd(NULL);
	suite.ops->dereg_mr(NULL);
	suite.ops->destroy_comp_channel(NULL);
	suite.ops->destroy_cq(NULL);
	suite.ops->destroy_srq(NULL);
	suite.ops->destroy_qp(NULL);
	suite.ops->destroy_cm_channel(NULL);
	suite.ops->destroy_id(NULL);
	device_close(NULL);
}

static void destroy_unconnected(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < 3; i++) { /* the first id is resolved already on verbs */
		CHECK_OK(suite.ops->create_id(pair.client.cm, &pair.client.id));
		if (i > 0)
			side_create_qp(&pair.client, pair.client.id, 0, &PAIR_DEFAULTS);
		if (i > 1)
			CHECK_OK(suite.ops->disconnect(pair.client.id));
		side_destroy_id(&pair.client);
	}
	still_usable(&pair);
	pair_close(&pair);
}

/* A device that is opened and closed without any use. */
static void open_and_close(void)
{
	struct device_addr addr = suite_listen_addr();
	struct device *server, *client;

	CHECK_OK(device_open(&server, &addr, DEVICE_LISTEN, SUITE_WAIT_MS));
	if (suite.kind != DEVICE_SOFTNIC) { /* softnic needs a listener to open */
		addr = suite_connect_addr(server);
		CHECK_OK(device_open(&client, &addr, DEVICE_CONNECT, SUITE_WAIT_MS));
		device_close(client);
	}
	device_close(server);
}

/* Calls that a state does not allow are refused and do no harm. */
static void wrong_order(void)
{
	struct cm_param param = PAIR_DEFAULTS.param;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->create_id(pair.client.cm, &pair.client.id));
	CHECK(suite.ops->connect(pair.client.id, &param) < 0); /* no queue pair */
	side_create_qp(&pair.client, pair.client.id, 0, &PAIR_DEFAULTS);
	CHECK(suite.ops->accept(pair.client.id, &param) < 0);
	CHECK(suite.ops->reject(pair.client.id, NULL, 0) < 0);
	side_destroy_id(&pair.client);

	still_usable(&pair);
	CHECK(suite.ops->connect(pair.client.id, &param) < 0);
	CHECK(suite.ops->connect(pair.server.id, &param) < 0);
	CHECK(suite.ops->accept(pair.server.id, &param) < 0);
	CHECK(suite.ops->reject(pair.server.id, NULL, 0) < 0);
	pair_ping(&pair);
	pair_close(&pair);
}

/* The client destroys its id while its request waits. */
static void destroy_while_connecting(void)
{
	struct cm_param param = PAIR_DEFAULTS.param;
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	pair.server.id = event.id;
	side_create_qp(&pair.server, event.id, 0, &PAIR_DEFAULTS);
	side_destroy_id(&pair.client);
	/* accept() may fail, or an event after it reports the end. */
	if (suite.ops->accept(event.id, &param) == 0) {
		event = side_event(&pair.server, CM_DISCONNECTED);
		CHECK(event.id == pair.server.id);
	}
	side_destroy_id(&pair.server);
	while (event_within(&pair.server, &event, SUITE_QUIET_MS))
		CHECK(event.id == NULL); /* none may come for an id that was destroyed */
	still_usable(&pair);
	pair_close(&pair);
}

/* disconnect() instead of destroying: no ESTABLISHED may come. */
static void disconnect_while_connecting(void)
{
	struct cm_param param = PAIR_DEFAULTS.param;
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	pair.server.id = event.id;
	side_create_qp(&pair.server, event.id, 0, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	if (suite.ops->accept(event.id, &param) == 0) {
		side_event_none(&pair.client); /* lets the client respond */
		CHECK(event_within(&pair.server, &event, SUITE_WAIT_MS));
		if (event.type == CM_ESTABLISHED)
			event = side_event(&pair.server, CM_DISCONNECTED);
		CHECK_INT(event.type, CM_DISCONNECTED);
	}
	side_qp_in_error(&pair.client);
	side_event_none(&pair.client);
	side_destroy_id(&pair.client);
	side_destroy_id(&pair.server);
	still_usable(&pair);
	pair_close(&pair);
}

/* The server accepts and destroys its id before the client takes an event. */
static void destroy_after_accept(void)
{
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	side_destroy_id(&pair.server);
	/* The client may have been connected for a moment, or see only the end. */
	CHECK(event_within(&pair.client, &event, SUITE_WAIT_MS));
	if (event.type == CM_ESTABLISHED)
		event = side_event(&pair.client, CM_DISCONNECTED);
	CHECK(event.type == CM_DISCONNECTED || event.type == CM_UNREACHABLE ||
	      event.type == CM_REJECTED);
	side_destroy_id(&pair.client);
	still_usable(&pair);
	pair_close(&pair);
}

/* The client destroys its id when it was accepted but has not taken the event. */
static void destroy_with_response_waiting(void)
{
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	side_destroy_id(&pair.client);
	CHECK(event_within(&pair.server, &event, SUITE_WAIT_MS));
	if (event.type == CM_ESTABLISHED)
		event = side_event(&pair.server, CM_DISCONNECTED);
	CHECK_INT(event.type, CM_DISCONNECTED);
	CHECK(event.id == pair.server.id);
	side_destroy_id(&pair.server);
	still_usable(&pair);
	pair_close(&pair);
}

/* Without a disconnect: destroying is enough for the other end to get an event. */
static void destroy_connected(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	still_usable(&pair);
	CHECK_OK(send_post(&pair.server, 1, 0, 16, 0));
	side_destroy_id(&pair.client);
	CHECK(side_event(&pair.server, CM_DISCONNECTED).id == pair.server.id);
	side_wc_is(&pair.server, 1, IBV_WC_WR_FLUSH_ERR);
	side_destroy_id(&pair.server);
	still_usable(&pair);
	pair_close(&pair);
}

static void destroy_rejected(void)
{
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	CHECK_OK(suite.ops->reject(event.id, "no", 2));
	suite.ops->destroy_id(event.id);
	side_event(&pair.client, CM_REJECTED);
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	side_destroy_id(&pair.client);
	still_usable(&pair);
	pair_close(&pair);
}

/* The listener is destroyed with a request that nobody has taken. */
static void destroy_listener_with_request(void)
{
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	suite_sleep_us(SUITE_QUIET_MS * 1000);
	suite.ops->destroy_id(pair.server.listener);
	pair.server.listener = NULL;
	CHECK(event_within(&pair.client, &event, SUITE_WAIT_MS));
	CHECK(event.type == CM_UNREACHABLE || event.type == CM_REJECTED);
	pair_close(&pair);
}

/* Pending events keep nothing from being destroyed. */
static void destroy_with_events_waiting(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	side_event(&pair.client, CM_ESTABLISHED);
	suite_sleep_us(SUITE_QUIET_MS * 1000); /* the server has ESTABLISHED, then DISCONNECTED */
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	suite_sleep_us(SUITE_QUIET_MS * 1000);
	pair_close(&pair);
}

/*
 * The queue pair first, then the connection: with requests outstanding and completions not polled.
 */
static void destroy_qp_first(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	still_usable(&pair);
	pair.server.other = NULL;
	CHECK_OK(read_post(&pair.client, 1, 0, 16, 0, IBV_SEND_SIGNALED));
	CHECK_OK(send_post(&pair.client, 2, 0, 16, IBV_SEND_SIGNALED)); /* no receive is posted */
	side_wc_none(&pair.server);
	suite.ops->destroy_qp(pair.client.id);
	CHECK(pair.client.id->qp == NULL);
	suite.ops->destroy_qp(pair.client.id);
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	pair.server.other = &pair.client;
	side_event(&pair.server, CM_DISCONNECTED);
	side_destroy_id(&pair.client);
	side_destroy_id(&pair.server);
	/* A device may drop a queue pair's completions with it, or keep them (rxe). */
	side_poll(&pair.client);
	pair.client.stash_head = pair.client.stash_tail;
	still_usable(&pair);
	pair_close(&pair);
}

const struct suite_case state_cases[] = {
	{ "destroy_null", destroy_null, ALL_DEVICES },
	{ "open_and_close", open_and_close, ALL_DEVICES },
	{ "destroy_unconnected", destroy_unconnected, ALL_DEVICES },
	{ "wrong_order", wrong_order, ALL_DEVICES },
	{ "destroy_while_connecting", destroy_while_connecting, ALL_DEVICES },
	{ "disconnect_while_connecting", disconnect_while_connecting, ALL_DEVICES },
	{ "destroy_after_accept", destroy_after_accept, ALL_DEVICES },
	{ "destroy_with_response_waiting", destroy_with_response_waiting, ALL_DEVICES },
	{ "destroy_connected", destroy_connected, ALL_DEVICES },
	{ "destroy_rejected", destroy_rejected, ALL_DEVICES },
	{ "destroy_listener_with_request", destroy_listener_with_request, ALL_DEVICES },
	{ "destroy_with_events_waiting", destroy_with_events_waiting, ALL_DEVICES },
	{ "destroy_qp_first", destroy_qp_first, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
