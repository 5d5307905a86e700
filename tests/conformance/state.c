/* SPDX-License-Identifier: MIT */
/*
 * Conformance: destroying and disconnecting in every state a connection can be in. Nothing hangs,
 * and the other end always learns of the end.
 */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* The next event within @wait_ms, of whatever type. */
static bool event_within(struct side *side, struct cm_event *event, int wait_ms)
{
	int64_t deadline_us = conf_now_us() + wait_ms * 1000LL;
	int err;

	do {
		err = conf.ops->cm_get_event(side->cm, event);
		if (!err)
			return true;
		CHECK_INT(err, -EAGAIN);
		side_poll(side);
		sched_yield();
	} while (conf_now_us() < deadline_us);
	return false;
}

static void still_usable(struct pair *pair)
{
	pair_connect(pair, &PAIR_DEFAULTS);
	pair_ping(pair);
}

static void destroy_null(void)
{
	conf.ops->dealloc_pd(NULL);
	conf.ops->dereg_mr(NULL);
	conf.ops->destroy_comp_channel(NULL);
	conf.ops->destroy_cq(NULL);
	conf.ops->destroy_srq(NULL);
	conf.ops->destroy_qp(NULL);
	conf.ops->destroy_cm_channel(NULL);
	conf.ops->destroy_id(NULL);
	device_close(NULL);
}

static void destroy_unconnected(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	for (unsigned int i = 0; i < 3; i++) { /* the first id is resolved already on verbs */
		CHECK_OK(conf.ops->create_id(pair.client.cm, &pair.client.id));
		if (i > 0)
			side_create_qp(&pair.client, pair.client.id, 0, &PAIR_DEFAULTS);
		if (i > 1)
			CHECK_OK(conf.ops->disconnect(pair.client.id));
		side_destroy_id(&pair.client);
	}
	still_usable(&pair);
	pair_close(&pair);
}

/* A device that is opened and closed, and nothing else. */
static void open_and_close(void)
{
	struct device_addr addr = conf_listen_addr();
	struct device *server, *client;

	CHECK_OK(device_open(&server, &addr, DEVICE_LISTEN, CONF_WAIT_MS));
	if (conf.kind == DEVICE_VERBS) { /* softnic needs a listener to open */
		addr = conf_connect_addr(server);
		CHECK_OK(device_open(&client, &addr, DEVICE_CONNECT, CONF_WAIT_MS));
		device_close(client);
	}
	device_close(server);
}

/* What must not be done in a state is refused and does no harm. */
static void wrong_order(void)
{
	struct cm_param param = PAIR_DEFAULTS.param;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	CHECK_OK(conf.ops->create_id(pair.client.cm, &pair.client.id));
	CHECK(conf.ops->connect(pair.client.id, &param) < 0); /* no queue pair */
	side_create_qp(&pair.client, pair.client.id, 0, &PAIR_DEFAULTS);
	CHECK(conf.ops->accept(pair.client.id, &param) < 0);
	CHECK(conf.ops->reject(pair.client.id, NULL, 0) < 0);
	side_destroy_id(&pair.client);

	still_usable(&pair);
	CHECK(conf.ops->connect(pair.client.id, &param) < 0);
	CHECK(conf.ops->connect(pair.server.id, &param) < 0);
	CHECK(conf.ops->accept(pair.server.id, &param) < 0);
	CHECK(conf.ops->reject(pair.server.id, NULL, 0) < 0);
	pair_ping(&pair);
	pair_close(&pair);
}

/* The client goes away while its request waits. */
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
	/* The server may learn it from accept() or from an event after it. */
	if (conf.ops->accept(event.id, &param) == 0) {
		event = side_event(&pair.server, CM_DISCONNECTED);
		CHECK(event.id == pair.server.id);
	}
	side_destroy_id(&pair.server);
	while (event_within(&pair.server, &event, CONF_QUIET_MS))
		CHECK(event.id == NULL); /* none may come for an id that is no more */
	still_usable(&pair);
	pair_close(&pair);
}

/* The same with disconnect() instead of destroying: no ESTABLISHED for it any more. */
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
	CHECK_OK(conf.ops->disconnect(pair.client.id));
	if (conf.ops->accept(event.id, &param) == 0) {
		side_event_none(&pair.client); /* lets the client answer */
		CHECK(event_within(&pair.server, &event, CONF_WAIT_MS));
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

/* The server accepts and is gone before the client has looked. */
static void destroy_after_accept(void)
{
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	side_destroy_id(&pair.server);
	/* The client may have been connected for a moment, or hear only that it is over. */
	CHECK(event_within(&pair.client, &event, CONF_WAIT_MS));
	if (event.type == CM_ESTABLISHED)
		event = side_event(&pair.client, CM_DISCONNECTED);
	CHECK(event.type == CM_DISCONNECTED || event.type == CM_UNREACHABLE ||
	      event.type == CM_REJECTED);
	side_destroy_id(&pair.client);
	still_usable(&pair);
	pair_close(&pair);
}

/* The client goes away when it has been accepted but has not looked. */
static void destroy_with_answer_waiting(void)
{
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	side_destroy_id(&pair.client);
	CHECK(event_within(&pair.server, &event, CONF_WAIT_MS));
	if (event.type == CM_ESTABLISHED)
		event = side_event(&pair.server, CM_DISCONNECTED);
	CHECK_INT(event.type, CM_DISCONNECTED);
	CHECK(event.id == pair.server.id);
	side_destroy_id(&pair.server);
	still_usable(&pair);
	pair_close(&pair);
}

/* Without a disconnect: destroying is enough for the other end to know. */
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
	CHECK_OK(conf.ops->reject(event.id, "no", 2));
	conf.ops->destroy_id(event.id);
	side_event(&pair.client, CM_REJECTED);
	CHECK_OK(conf.ops->disconnect(pair.client.id));
	side_destroy_id(&pair.client);
	still_usable(&pair);
	pair_close(&pair);
}

/* The listener goes away with a request nobody has looked at. */
static void destroy_listener_with_request(void)
{
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	conf_sleep_us(CONF_QUIET_MS * 1000);
	conf.ops->destroy_id(pair.server.listener);
	pair.server.listener = NULL;
	CHECK(event_within(&pair.client, &event, CONF_WAIT_MS));
	CHECK(event.type == CM_UNREACHABLE || event.type == CM_REJECTED);
	pair_close(&pair);
}

/* Events that nobody took do not keep anything from being destroyed. */
static void destroy_with_events_waiting(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	side_event(&pair.client, CM_ESTABLISHED);
	conf_sleep_us(CONF_QUIET_MS * 1000); /* the server has ESTABLISHED, then DISCONNECTED */
	CHECK_OK(conf.ops->disconnect(pair.client.id));
	conf_sleep_us(CONF_QUIET_MS * 1000);
	pair_close(&pair);
}

/* The queue pair first, then the connection: with work under way and completions nobody polled. */
static void destroy_qp_first(void)
{
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	still_usable(&pair);
	pair.server.other = NULL;
	CHECK_OK(read_post(&pair.client, 1, 0, 16, 0, IBV_SEND_SIGNALED));
	CHECK_OK(send_post(&pair.client, 2, 0, 16, IBV_SEND_SIGNALED)); /* nobody receives */
	side_wc_none(&pair.server);
	conf.ops->destroy_qp(pair.client.id);
	CHECK(pair.client.id->qp == NULL);
	conf.ops->destroy_qp(pair.client.id);
	CHECK_OK(conf.ops->disconnect(pair.client.id));
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

const struct conf_case state_cases[] = {
	{ "destroy_null", destroy_null, CONF_BOTH },
	{ "open_and_close", open_and_close, CONF_BOTH },
	{ "destroy_unconnected", destroy_unconnected, CONF_BOTH },
	{ "wrong_order", wrong_order, CONF_BOTH },
	{ "destroy_while_connecting", destroy_while_connecting, CONF_BOTH },
	{ "disconnect_while_connecting", disconnect_while_connecting, CONF_BOTH },
	{ "destroy_after_accept", destroy_after_accept, CONF_BOTH },
	{ "destroy_with_answer_waiting", destroy_with_answer_waiting, CONF_BOTH },
	{ "destroy_connected", destroy_connected, CONF_BOTH },
	{ "destroy_rejected", destroy_rejected, CONF_BOTH },
	{ "destroy_listener_with_request", destroy_listener_with_request, CONF_BOTH },
	{ "destroy_with_events_waiting", destroy_with_events_waiting, CONF_BOTH },
	{ "destroy_qp_first", destroy_qp_first, CONF_BOTH },
	{ NULL, NULL, 0 },
};
