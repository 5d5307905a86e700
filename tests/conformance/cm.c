/* SPDX-License-Identifier: MIT */
/* Conformance cases for making and ending connections. */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOBODY_HOST "203.0.113.1" /* RFC 5737: reserved for documents, so no host has it */

static void bytes_check(const struct cm_event *event, const uint8_t *bytes, size_t len)
{
	CHECK(event->private_len >= len);
	CHECK(memcmp(event->private_data, bytes, len) == 0);
	for (size_t i = len; i < sizeof(event->private_data); i++)
		CHECK_INT(event->private_data[i], 0);
}

/* The longest private data arrives whole, zero-padded; one byte more is refused. */
static void private_data_max(void)
{
	struct cm_param param = PAIR_DEFAULTS.param;
	uint8_t bytes[256];
	struct cm_event event;
	struct pair pair;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	pair_listen(&pair, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->create_id(pair.client.cm, &pair.client.id));
	side_create_qp(&pair.client, pair.client.id, 0, &PAIR_DEFAULTS);
	param.private_data = bytes;
	param.private_len = CM_PRIVATE_MAX_CONNECT + 1;
	CHECK(suite.ops->connect(pair.client.id, &param) < 0);
	param.private_len = CM_PRIVATE_MAX_CONNECT;
	CHECK_OK(suite.ops->connect(pair.client.id, &param));

	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	bytes_check(&event, bytes, CM_PRIVATE_MAX_CONNECT);
	pair.server.id = event.id;
	side_create_qp(&pair.server, pair.server.id, 0, &PAIR_DEFAULTS);
	param.private_data = bytes + 3;
	param.private_len = CM_PRIVATE_MAX_ACCEPT + 1;
	CHECK(suite.ops->accept(pair.server.id, &param) < 0);
	param.private_len = CM_PRIVATE_MAX_ACCEPT;
	CHECK_OK(suite.ops->accept(pair.server.id, &param));
	event = side_event(&pair.client, CM_ESTABLISHED);
	bytes_check(&event, bytes + 3, CM_PRIVATE_MAX_ACCEPT);
	side_event(&pair.server, CM_ESTABLISHED);
	pair_ping(&pair);
	pair_close(&pair);
}

/*
 * READs outstanding: each end gets the lesser of what it asked for and what the other allows. All
 * values differ, so that one in the wrong place is noticed.
 */
static void reads_negotiated(void)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &options);
	options.param.responder_resources = 2;
	options.param.initiator_depth = 5;
	side_connect(&pair.client, &options);
	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	CHECK_INT(event.responder_resources, 5);
	CHECK_INT(event.initiator_depth, 2);
	pair.server.id = event.id;
	side_create_qp(&pair.server, pair.server.id, IBV_ACCESS_REMOTE_READ, &options);
	options.param.responder_resources = 3;
	options.param.initiator_depth = 0; /* the most possible */
	side_hello_read(&pair.server, &event);
	CHECK_OK(suite.ops->accept(pair.server.id, &options.param));
	event = side_event(&pair.client, CM_ESTABLISHED);
	CHECK_INT(event.responder_resources, 2);
	CHECK_INT(event.initiator_depth, 3);
	event = side_event(&pair.server, CM_ESTABLISHED);
	CHECK_INT(event.responder_resources, 3);
	CHECK_INT(event.initiator_depth, 2);
	/* More READs than may be outstanding: they wait in the queue and succeed all the same. */
	for (unsigned int i = 0; i < 12; i++)
		CHECK_OK(read_post(&pair.server, i, i * 1024, 1024, 0, IBV_SEND_SIGNALED));
	for (unsigned int i = 0; i < 12; i++)
		side_wc_is(&pair.server, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* 0 on both ends means the most possible; otherwise READs would run one by one. */
static void reads_most_possible(void)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->query(pair.client.dev, &attr, &port));
	CHECK(attr.max_qp_rd_atom > 1);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	side_accept(&pair.server, &PAIR_DEFAULTS);
	event = side_event(&pair.client, CM_ESTABLISHED);
	CHECK(event.initiator_depth > 1 && event.responder_resources > 1);
	CHECK(event.initiator_depth >= (attr.max_qp_rd_atom < 16 ? attr.max_qp_rd_atom : 16));
	side_event(&pair.server, CM_ESTABLISHED);
	pair_close(&pair);
}

static void reject_with_reason(void)
{
	uint8_t reason[CM_PRIVATE_MAX_REJECT + 1];
	struct cm_event event;
	struct pair pair;

	for (size_t i = 0; i < sizeof(reason); i++)
		reason[i] = (uint8_t)(255 - i);
	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	CHECK(suite.ops->reject(event.id, reason, CM_PRIVATE_MAX_REJECT + 1) < 0);
	CHECK_OK(suite.ops->reject(event.id, reason, CM_PRIVATE_MAX_REJECT));
	suite.ops->destroy_id(event.id);
	event = side_event(&pair.client, CM_REJECTED);
	CHECK(event.id == pair.client.id);
	bytes_check(&event, reason, CM_PRIVATE_MAX_REJECT);
	side_event_none(&pair.client);
	side_event_none(&pair.server);
	pair_close(&pair);
}

/* A request is answered once: after a rejection nothing else is possible. */
static void reject_once(void)
{
	const struct cm_param param = PAIR_DEFAULTS.param;
	struct cm_event event;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	pair.server.id = event.id;
	side_create_qp(&pair.server, pair.server.id, 0, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->reject(pair.server.id, NULL, 0));
	CHECK_INT(suite.ops->reject(pair.server.id, NULL, 0), -ENOTCONN);
	CHECK_INT(suite.ops->accept(pair.server.id, &param), -ENOTCONN);
	side_event(&pair.client, CM_REJECTED);
	side_event_none(&pair.client);
	side_event_none(&pair.server);
	pair_close(&pair);
}

static void params_check(struct cm_id *id, int (*call)(struct cm_id *, const struct cm_param *))
{
	static const struct {
		uint8_t retries, rnr_retries, timer;
	} wrong[] = { { 8, 7, 12 }, { 255, 7, 12 }, { 7, 8, 12 }, { 7, 255, 12 },
		      { 7, 7, 0 },  { 7, 7, 32 },   { 7, 7, 255 } };
	struct cm_param param = PAIR_DEFAULTS.param;

	for (size_t i = 0; i < array_len(wrong); i++) {
		param.retry_count = wrong[i].retries;
		param.rnr_retry_count = wrong[i].rnr_retries;
		param.min_rnr_timer = wrong[i].timer;
		CHECK_INT(call(id, &param), -EINVAL);
	}
}

/* Numbers that do not fit the 3 or 5 bits that they have are refused, and do no harm. */
static void params_out_of_range(void)
{
	struct cm_param param = PAIR_DEFAULTS.param;
	struct pair pair;

	pair_listen(&pair, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->create_id(pair.client.cm, &pair.client.id));
	side_create_qp(&pair.client, pair.client.id, 0, &PAIR_DEFAULTS);
	params_check(pair.client.id, suite.ops->connect);
	param.retry_count = param.rnr_retry_count = 0;
	param.min_rnr_timer = 31;
	CHECK_OK(suite.ops->connect(pair.client.id, &param));
	pair.server.id = side_event(&pair.server, CM_CONNECT_REQUEST).id;
	side_create_qp(&pair.server, pair.server.id, 0, &PAIR_DEFAULTS);
	params_check(pair.server.id, suite.ops->accept);
	param.min_rnr_timer = 1;
	CHECK_OK(suite.ops->accept(pair.server.id, &param));
	side_event(&pair.client, CM_ESTABLISHED);
	side_event(&pair.server, CM_ESTABLISHED);
	pair_close(&pair);
}

/* A connect request that is destroyed without a response is refused: the client need not wait. */
static void request_destroyed(void)
{
	struct cm_event event;
	struct pair pair;
	int64_t deadline_us = suite_now_us() + SUITE_WAIT_MS * 1000LL;
	int err;

	pair_listen(&pair, &PAIR_DEFAULTS);
	side_connect(&pair.client, &PAIR_DEFAULTS);
	event = side_event(&pair.server, CM_CONNECT_REQUEST);
	suite.ops->destroy_id(event.id);
	do {
		err = suite.ops->cm_get_event(pair.client.cm, &event);
		sched_yield();
	} while (err == -EAGAIN && suite_now_us() < deadline_us);
	CHECK_OK(err);
	/* Not every device says whether the peer's program or its system refused. */
	CHECK(event.type == CM_REJECTED || event.type == CM_UNREACHABLE);
	pair_close(&pair);
}

static void connect_expect_unreachable(const struct device_addr *addr, int status)
{
	struct cm_event event;
	struct side client;

	side_open(&client, "client", addr, DEVICE_CONNECT, &PAIR_DEFAULTS);
	side_connect(&client, &PAIR_DEFAULTS);
	event = side_event(&client, CM_UNREACHABLE);
	CHECK(event.id == client.id);
	CHECK_INT(event.status, status);
	side_close(&client);
}

/*
 * Nobody listens. With verbs the host exists and its refusal comes as an event; a softnic server is
 * its socket, and without the socket there is no device to open.
 */
static void connect_to_nobody(void)
{
	struct device_addr listen = suite_listen_addr(), addr;
	struct side server;
	struct device *dev;
	int err;

	side_open(&server, "server", &listen, DEVICE_LISTEN, &PAIR_DEFAULTS);
	addr = suite_connect_addr(server.dev);
	side_close(&server);
	if (suite.kind != DEVICE_SOFTNIC) {
		connect_expect_unreachable(&addr, -ECONNREFUSED);
		return;
	}
	err = device_open(&dev, &addr, DEVICE_CONNECT, SUITE_WAIT_MS);
	CHECK(err == -ECONNREFUSED || err == -ENOENT);
}

/* A server has bound the address, but does not listen yet, or does not listen any more. */
static void connect_to_closed_listener(void)
{
	struct device_addr listen = suite_listen_addr(), addr;
	struct side server;

	side_open(&server, "server", &listen, DEVICE_LISTEN, &PAIR_DEFAULTS);
	addr = suite_connect_addr(server.dev);
	connect_expect_unreachable(&addr, -ECONNREFUSED);
	side_listen(&server);
	suite.ops->destroy_id(server.listener);
	server.listener = NULL;
	connect_expect_unreachable(&addr, -ECONNREFUSED);
	/* And again, on a new id bound to the same address. */
	side_listen(&server);
	side_close(&server);
}

/* Opening an address that cannot be reached fails. */
static void open_unreachable(void)
{
	struct device_addr addr = {
		.kind = suite.kind, .host = NOBODY_HOST, .port = 7471, .tls = suite_tls()
	};
	struct device *dev;
	int err = device_open(&dev, &addr, DEVICE_CONNECT, 1000);

	CHECK(err == -ENETUNREACH || err == -EHOSTUNREACH || err == -ETIMEDOUT || err == -ENODEV);
}

/* Addresses that no RDMA device has, or that do not mean one single device, are refused. */
static void open_wrong_address(void)
{
	static const char *const hosts[] = { "0.0.0.0", "::", "127.0.0.1", NOBODY_HOST,
					     "no-such-host.invalid" };
	struct device *dev;

	for (size_t i = 0; i < array_len(hosts); i++) {
		struct device_addr addr = { .kind = DEVICE_RDMA, .port = 7471 };

		snprintf(addr.host, sizeof(addr.host), "%s", hosts[i]);
		CHECK(device_open(&dev, &addr, DEVICE_LISTEN, 1000) < 0);
	}
}

static void open_auto(void)
{
	struct device_addr addr = {
		.kind = suite.kind, .host = "auto", .port = 0, .tls = suite_tls()
	};
	struct device *dev;

	CHECK_OK(device_open(&dev, &addr, DEVICE_LISTEN, SUITE_WAIT_MS));
	CHECK(dev->verbs && dev->name[0] && strcmp(dev->address, "auto") != 0);
	device_close(dev);
}

static void address_in_use(void)
{
	struct device_addr addr = suite_listen_addr();
	struct side server;
	struct device *dev;

	side_open(&server, "server", &addr, DEVICE_LISTEN, &PAIR_DEFAULTS);
	side_listen(&server);
	addr = suite_connect_addr(server.dev);
	CHECK_INT(device_open(&dev, &addr, DEVICE_LISTEN, SUITE_WAIT_MS), -EADDRINUSE);
	side_close(&server);
	/* The address is free again once the server is closed. */
	CHECK_OK(device_open(&dev, &addr, DEVICE_LISTEN, SUITE_WAIT_MS));
	device_close(dev);
}

/* One end disconnects: the other gets an event, both queue pairs are in error, all is flushed. */
static void disconnect_by(struct pair *pair, struct side *ender, struct side *other)
{
	CHECK_OK(send_post(ender, 1, 0, 16, IBV_SEND_SIGNALED)); /* no receive is posted */
	CHECK_OK(send_post(other, 2, 0, 16, IBV_SEND_SIGNALED));
	side_wc_none(ender);
	side_wc_none(other);
	CHECK_OK(suite.ops->disconnect(ender->id));
	side_wc_is(ender, 1, IBV_WC_WR_FLUSH_ERR);
	side_qp_in_error(ender);
	CHECK(side_event(other, CM_DISCONNECTED).id == other->id);
	side_wc_is(other, 2, IBV_WC_WR_FLUSH_ERR);
	side_qp_in_error(other);
	CHECK_OK(suite.ops->disconnect(other->id));
	CHECK_OK(suite.ops->disconnect(ender->id));
	side_event_none(other); /* the event comes once */
	pair_close(pair);
}

static void disconnect_by_client(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	disconnect_by(&pair, &pair.client, &pair.server);
}

static void disconnect_by_server(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	disconnect_by(&pair, &pair.server, &pair.client);
}

/* The peer is this process. */
static void peer_is_known(void)
{
	char expected[DEVICE_PEER_MAX];
	struct cm_peer peer;
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->query_peer(pair.server.id, &peer));
	if (suite.kind == DEVICE_SOFTNIC) {
		snprintf(expected, sizeof(expected), "pid:%d", (int)getpid());
		CHECK(!strcmp(peer.address, expected));
		CHECK(peer.uid_known);
		CHECK_INT(peer.uid, getuid());
	} else {
		CHECK(!strncmp(peer.address, getenv("KVD_RDMA_ADDR"),
			       strlen(getenv("KVD_RDMA_ADDR"))));
		CHECK(strrchr(peer.address, ':') && atoi(strrchr(peer.address, ':') + 1) > 0);
		CHECK(!peer.uid_known);
	}
	pair_close(&pair);
}

/* The end that disconnects gets no event for it. */
static void disconnect_not_echoed(void)
{
	struct pair pair;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_OK(suite.ops->disconnect(pair.client.id));
	side_event(&pair.server, CM_DISCONNECTED);
	side_event_none(&pair.client);
	pair_close(&pair);
}

/* Without an event every call returns at once. */
static void nothing_blocks(void)
{
	struct device_async_event async;
	struct cm_event event;
	struct ibv_cq *cq;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, &PAIR_DEFAULTS);
	CHECK_INT(suite.ops->cm_get_event(pair.client.cm, &event), -EAGAIN);
	CHECK_INT(suite.ops->cm_get_event(pair.server.cm, &event), -EAGAIN);
	CHECK_INT(suite.ops->get_async_event(pair.client.dev, &async), -EAGAIN);
	CHECK_INT(suite.ops->get_cq_event(pair.client.comp, &cq), -EAGAIN);
	CHECK_INT(ibv_poll_cq(pair.client.cq, 1, &wc), 0);
	pair_close(&pair);
}

const struct suite_case cm_cases[] = {
	{ "private_data_max", private_data_max, ALL_DEVICES },
	{ "reads_negotiated", reads_negotiated, ALL_DEVICES },
	{ "reads_most_possible", reads_most_possible, ALL_DEVICES },
	{ "reject_with_reason", reject_with_reason, ALL_DEVICES },
	{ "reject_once", reject_once, ALL_DEVICES },
	{ "params_out_of_range", params_out_of_range, ALL_DEVICES },
	{ "request_destroyed", request_destroyed, ALL_DEVICES },
	{ "connect_to_nobody", connect_to_nobody, ALL_DEVICES },
	{ "connect_to_closed_listener", connect_to_closed_listener, RDMA_DEVICES },
	{ "open_unreachable", open_unreachable, RDMA_DEVICES },
	{ "open_wrong_address", open_wrong_address, DEVICE_RDMA },
	{ "open_auto", open_auto, RDMA_DEVICES },
	{ "address_in_use", address_in_use, ALL_DEVICES },
	{ "peer_is_known", peer_is_known, ALL_DEVICES },
	{ "disconnect_by_client", disconnect_by_client, ALL_DEVICES },
	{ "disconnect_by_server", disconnect_by_server, ALL_DEVICES },
	{ "disconnect_not_echoed", disconnect_not_echoed, ALL_DEVICES },
	{ "nothing_blocks", nothing_blocks, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
