/* SPDX-License-Identifier: MIT */
/*
 * Tests of connections set up over TCP with a peer that goes away, is slow, is silent or breaks the
 * protocol, and of too many such connections: nothing of them is left, and other peers are served
 * (common/rdma/tcp/setup.c).
 */
#include "tests/support/tcp_test.h"

#define SETUPS 256u /* silent peers that there may be */

/* Silent peers, one each: the server has taken all of them. */
static int *silent(unsigned int count)
{
	static int fds[SETUPS + 1];
	unsigned int before;

	for (unsigned int i = 0; i < count; i++) {
		before = setups();
		fds[i] = raw_connect();
		while (setups() == before)
			go_on(-1, 0);
	}
	return fds;
}

/* A socket that can still be used for a request. */
static void still_served(int fd)
{
	struct cm_id *at_server;

	raw_send(fd, TCP_REQUEST);
	at_server = accepted();
	assert_int_equal(raw_receive(fd).kind, TCP_ACCEPT);
	raw_send(fd, TCP_READY);
	assert_ptr_equal(expect(&server, CM_ESTABLISHED, 0), at_server);
	close(fd);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -ECONNRESET), at_server);
	tcp_destroy_id(at_server);
}

/* Byte by byte: what the server and the client say is what message.h says. */
static void in_pieces(void **state)
{
	const struct tcp_message request = raw_message(TCP_REQUEST);
	const struct tcp_message ready = raw_message(TCP_READY);
	const struct tcp_message accept = raw_message(TCP_ACCEPT);
	uint8_t bytes[TCP_MESSAGE_BYTES];
	struct tcp_message message;
	struct cm_id *at_server, *id;
	int fd = raw_connect(), listening;

	(void)state;
	tcp_message_print(bytes, &request);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		quiet();
		raw_write(fd, bytes + i, 1);
	}
	at_server = accepted();
	message = raw_receive(fd);
	assert_int_equal(message.kind, TCP_ACCEPT);
	assert_int_equal(message.end.qp_num, at_server->qp->qp_num);
	tcp_message_print(bytes, &ready);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		quiet();
		raw_write(fd, bytes + i, 1);
	}
	assert_ptr_equal(expect(&server, CM_ESTABLISHED, 0), at_server);
	in_state(at_server, IBV_QPS_RTS);
	/* The device has refused what the peer tried. */
	at_server->qp->state = IBV_QPS_ERR;
	close(fd);
	tcp_destroy_id(expect(&server, CM_DISCONNECTED, -EACCES));

	listening = raw_listen();
	id = connecting();
	fd = raw_accept(listening);
	message = raw_receive(fd);
	assert_int_equal(message.kind, TCP_REQUEST);
	assert_int_equal(message.end.qp_num, id->qp->qp_num);
	tcp_message_print(bytes, &accept);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		quiet();
		raw_write(fd, bytes + i, 1);
	}
	assert_ptr_equal(expect(&client, CM_ESTABLISHED, 0), id);
	assert_int_equal(raw_receive(fd).kind, TCP_READY);
	close(fd);
	close(listening);
	tcp_destroy_id(expect(&client, CM_DISCONNECTED, -ECONNRESET));
}

/* The client of a server goes away at each stage. */
static void client_goes(void **state)
{
	struct cm_id *at_server;
	int fd;

	(void)state;
	/* The peer has sent nothing, or half a message. */
	close(raw_connect());
	fd = raw_connect();
	raw_write(fd, "kvdQ", 4);
	close(fd);
	server_works();
	/* The peer has asked: nobody is left to answer. */
	fd = raw_connect();
	raw_send(fd, TCP_REQUEST);
	at_server = asked();
	close(fd);
	while (tcp_id_of(at_server)->state == TCP_ASKED)
		go_on(-1, 0);
	assert_int_equal(tcp_accept(at_server, &param_plain), -ENOTCONN);
	in_state(at_server, IBV_QPS_INIT);
	tcp_destroy_id(at_server);
	quiet();
	/* What can't be sent to it is an error, and no signal. */
	fd = raw_connect();
	raw_send(fd, TCP_REQUEST);
	at_server = asked();
	assert_int_equal(shutdown(tcp_id_of(at_server)->fd, SHUT_WR), 0);
	assert_int_equal(tcp_accept(at_server, &param_plain), -EPIPE);
	tcp_destroy_id(at_server);
	close(fd);
	quiet();
	/* The peer was accepted, and does not send that it is ready; or half of that. */
	for (int i = 0; i < 2; i++) {
		fd = raw_connect();
		raw_send(fd, TCP_REQUEST);
		at_server = accepted();
		(void)raw_receive(fd);
		if (i)
			raw_write(fd, "kvdQ", 4);
		close(fd);
		assert_ptr_equal(expect(&server, CM_DISCONNECTED, -ECONNRESET), at_server);
		in_state(at_server, IBV_QPS_ERR);
		tcp_destroy_id(at_server);
	}
	server_works();
}

/* The server of a client goes away at each stage. */
static void server_goes(void **state)
{
	int listening = raw_listen(), fd;
	struct cm_id *id;

	(void)state;
	for (int stage = 0; stage < 3; stage++) {
		id = connecting();
		fd = raw_accept(listening);
		(void)raw_receive(fd);
		if (stage == 1)
			raw_write(fd, "kvdQ", 4);
		if (stage == 2) {
			raw_send(fd, TCP_ACCEPT);
			assert_ptr_equal(expect(&client, CM_ESTABLISHED, 0), id);
			(void)raw_receive(fd);
		}
		close(fd);
		if (stage < 2) {
			assert_ptr_equal(expect(&client, CM_UNREACHABLE, -ECONNRESET), id);
			in_state(id, IBV_QPS_INIT);
		} else {
			assert_ptr_equal(expect(&client, CM_DISCONNECTED, -ECONNRESET), id);
			in_state(id, IBV_QPS_ERR);
		}
		quiet();
		tcp_destroy_id(id);
	}
	close(listening);
}

/* READs that the server grants more of than were asked for are not used. */
static void accept_grants_too_much(void **state)
{
	struct cm_param param = param_plain;
	int listening = raw_listen(), fd;
	struct cm_event event;
	struct cm_id *id;

	(void)state;
	param.responder_resources = param.initiator_depth = 2;
	assert_int_equal(tcp_create_id(client.channel, &id), 0);
	give_qp(id);
	assert_int_equal(tcp_connect(id, &param), 0);
	fd = raw_accept(listening);
	raw_send(fd, TCP_ACCEPT);
	event = next_event(&client);
	assert_int_equal(event.type, CM_ESTABLISHED);
	assert_int_equal(event.responder_resources, 2);
	assert_int_equal(event.initiator_depth, 2);
	tcp_destroy_id(id);
	close(fd);
	close(listening);
}

/* What is no request is closed; another connection and another set-up go on. */
static void not_a_request(void **state)
{
	static const struct {
		unsigned int offset;
		uint8_t byte;
	} wrong[] = {
		{ 0, 'K' },	   /* magic */
		{ 5, 2 },	   /* version */
		{ 6, TCP_ACCEPT }, /* kinds */
		{ 6, TCP_REJECT }, { 6, TCP_READY }, { 6, 0 }, { 6, TCP_READY + 1 },
		{ 35, 6 },   /* MTU */
		{ 38, 255 }, /* private data */
	};
	const struct tcp_message request = raw_message(TCP_REQUEST);
	struct cm_id *at_server, *id = connected(&at_server);
	uint8_t bytes[TCP_MESSAGE_BYTES];
	int waiting = raw_connect(), fd;

	(void)state;
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		tcp_message_print(bytes, &request);
		bytes[wrong[i].offset] = wrong[i].byte;
		fd = raw_connect();
		raw_write(fd, bytes, sizeof(bytes));
		raw_ended(fd);
		quiet();
	}
	memset(bytes, 'G', sizeof(bytes));
	fd = raw_connect();
	raw_write(fd, bytes, sizeof(bytes));
	raw_ended(fd);
	in_state(id, IBV_QPS_RTS);
	in_state(at_server, IBV_QPS_RTS);
	still_served(waiting);
	tcp_destroy_id(id);
	tcp_destroy_id(expect(&server, CM_DISCONNECTED, -ECONNRESET));
}

/* One end has InfiniBand, the other one Ethernet: they have no network in common. */
static void other_link_layer(void **state)
{
	struct tcp_message request = raw_message(TCP_REQUEST);
	uint8_t bytes[TCP_MESSAGE_BYTES];
	int fd = raw_connect();

	(void)state;
	request.end.link_layer = IBV_LINK_LAYER_INFINIBAND;
	tcp_message_print(bytes, &request);
	raw_write(fd, bytes, sizeof(bytes));
	raw_ended(fd);
	client.od.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	connecting();
	tcp_destroy_id(expect(&client, CM_UNREACHABLE, -ECONNRESET));
	quiet();
	client.od.port.link_layer = IBV_LINK_LAYER_ETHERNET;
	server_works();
}

/* The second request waits until the first one is answered, and then ends the connection. */
static void second_request(void **state)
{
	struct cm_id *at_server;
	int fd = raw_connect();

	(void)state;
	raw_send(fd, TCP_REQUEST);
	raw_send(fd, TCP_REQUEST);
	at_server = asked();
	quiet();
	assert_int_equal(tcp_accept(at_server, &param_plain), 0);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -EPROTO), at_server);
	in_state(at_server, IBV_QPS_ERR);
	tcp_destroy_id(at_server);
	close(fd);
	/* When it is up. */
	fd = raw_connect();
	raw_send(fd, TCP_REQUEST);
	at_server = accepted();
	raw_send(fd, TCP_READY);
	assert_ptr_equal(expect(&server, CM_ESTABLISHED, 0), at_server);
	raw_send(fd, TCP_READY);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -EPROTO), at_server);
	in_state(at_server, IBV_QPS_ERR);
	tcp_destroy_id(at_server);
	close(fd);
	quiet();
}

/* A client takes one ACCEPT or REJECT, and nothing else. */
static void not_an_answer(void **state)
{
	static const enum tcp_kind kinds[] = { TCP_REQUEST, TCP_READY, TCP_READY + 1 };
	int listening = raw_listen(), fd;
	struct cm_id *id;

	(void)state;
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		id = connecting();
		fd = raw_accept(listening);
		(void)raw_receive(fd);
		raw_send(fd, kinds[i]);
		assert_ptr_equal(expect(&client, CM_UNREACHABLE, -EPROTO), id);
		in_state(id, IBV_QPS_INIT);
		tcp_destroy_id(id);
		raw_ended(fd);
	}
	id = connecting();
	fd = raw_accept(listening);
	(void)raw_receive(fd);
	raw_send(fd, TCP_ACCEPT);
	assert_ptr_equal(expect(&client, CM_ESTABLISHED, 0), id);
	(void)raw_receive(fd);
	raw_send(fd, TCP_REJECT);
	assert_ptr_equal(expect(&client, CM_DISCONNECTED, -EPROTO), id);
	in_state(id, IBV_QPS_ERR);
	tcp_destroy_id(id);
	raw_ended(fd);
	close(listening);
}

/* A silent peer is closed after 60 s, even within a message; one that has asked is not. */
static void silence(void **state)
{
	int first, second, half, fd;
	struct cm_id *at_server;

	(void)state;
	first = silent(1)[0];
	half = silent(1)[0];
	fd = raw_connect();
	raw_send(fd, TCP_REQUEST);
	at_server = asked();
	time_pass(SETUP_NS - 2 * SECOND_NS);
	second = silent(1)[0];
	time_pass(2 * SECOND_NS - 2);
	raw_write(half, "kvdQ", 4);
	quiet();
	assert_false(raw_has_ended(first));
	time_pass(2);
	raw_ended(first);
	raw_ended(half);
	quiet();
	assert_false(raw_has_ended(second));
	time_pass(SETUP_NS - 2 * SECOND_NS - 1);
	quiet();
	assert_false(raw_has_ended(second));
	time_pass(1);
	raw_ended(second);
	/* Much later. */
	time_pass(10 * SETUP_NS);
	quiet();
	assert_int_equal(tcp_accept(at_server, &param_plain), 0);
	raw_send(fd, TCP_READY);
	assert_ptr_equal(expect(&server, CM_ESTABLISHED, 0), at_server);
	close(fd);
	tcp_destroy_id(expect(&server, CM_DISCONNECTED, -ECONNRESET));
	/* Nobody was silent for a while: the timer is set again. */
	first = silent(1)[0];
	time_pass(SETUP_NS - 1);
	quiet();
	assert_false(raw_has_ended(first));
	time_pass(1);
	raw_ended(first);
	server_works();
}

/* A server that stops closes those that have said nothing. */
static void silent_at_the_end(void **state)
{
	struct pollfd ended = { silent(1)[0], POLLIN, 0 };

	(void)state;
	tcp_destroy_id(listener);
	listener = NULL;
	tcp_destroy_cm_channel(server.channel);
	server.channel = NULL;
	assert_int_equal(poll(&ended, 1, DEADLINE_MS), 1);
	assert_true(raw_has_ended(ended.fd));
	close(ended.fd);
}

/* Closes those from the @first to the @last, and has the server notice. */
static void silent_end(const int *fds, unsigned int first, unsigned int last)
{
	for (unsigned int i = first; i <= last; i++)
		close(fds[i]);
	while (setups())
		go_on(-1, 0);
}

/* For one more than there may be the oldest goes; those that have asked don't count. */
static void too_many_silent(void **state)
{
	struct cm_id *at_server, *id = connected(&at_server);
	int *fds = silent(SETUPS);

	(void)state;
	assert_false(raw_has_ended(fds[0]));
	fds[SETUPS] = raw_connect();
	raw_ended(fds[0]);
	assert_false(raw_has_ended(fds[1]));
	quiet();
	/* The newest, and the oldest of those that are left. */
	still_served(fds[SETUPS]);
	still_served(fds[1]);
	/* Now there is room for two. */
	server_works();
	fds[0] = raw_connect();
	fds[1] = raw_connect();
	quiet();
	assert_false(raw_has_ended(fds[2]));
	in_state(id, IBV_QPS_RTS);
	tcp_destroy_id(id);
	tcp_destroy_id(expect(&server, CM_DISCONNECTED, -ECONNRESET));
	silent_end(fds, 0, SETUPS - 1);
}

/* Silent peers do not push out one that has begun to speak; those that speak do. */
static void speaking_stays(void **state)
{
	int *fds = silent(SETUPS);

	(void)state;
	raw_write(fds[0], "k", 1);
	quiet();
	time_pass(SECOND_NS);
	fds[SETUPS] = raw_connect();
	raw_ended(fds[1]);
	assert_false(raw_has_ended(fds[0]));
	for (unsigned int i = 2; i <= SETUPS; i++)
		raw_write(fds[i], "k", 1);
	quiet();
	fds[1] = raw_connect();
	raw_ended(fds[0]);
	assert_false(raw_has_ended(fds[2]));
	silent_end(fds, 1, SETUPS);
}

/* What has arrived counts, also before it is handled; and who has just connected may be slow. */
static void arrived_is_said(void **state)
{
	int *fds = silent(SETUPS), honest;

	(void)state;
	for (unsigned int i = 0; i < SETUPS; i++)
		raw_write(fds[i], "k", 1);
	quiet();
	honest = raw_connect();
	fds[SETUPS] = raw_connect();
	raw_ended(fds[0]);
	raw_ended(fds[1]);
	assert_false(raw_has_ended(honest));
	time_pass(SECOND_NS);
	raw_write(honest, "k", 1);
	fds[0] = raw_connect();
	fds[1] = raw_connect();
	/* The other one that came late has said nothing. */
	raw_ended(fds[SETUPS]);
	raw_ended(fds[2]);
	assert_false(raw_has_ended(honest));
	close(honest);
	silent_end(fds, 0, SETUPS);
}

/* A host with more than half of the set-ups pushes out its own, whatever they say. */
static void others_stay(void **state)
{
	int *fds, others[4];

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		others[i] = raw_connect_from(INADDR_LOOPBACK + 1 + i);
	quiet();
	fds = silent(SETUPS - 4);
	for (unsigned int i = 0; i < SETUPS - 4; i++)
		raw_write(fds[i], "k", 1);
	quiet();
	for (unsigned int i = 0; i < 4; i++) {
		fds[SETUPS - 4 + i] = raw_connect();
		raw_write(fds[SETUPS - 4 + i], "k", 1);
		raw_ended(fds[i]);
	}
	for (unsigned int i = 0; i < 4; i++) {
		assert_false(raw_has_ended(others[i]));
		still_served(others[i]);
	}
	silent_end(fds, 0, SETUPS - 1);
}

/* No further descriptor can be made. Returns the limit as it was. */
static struct rlimit descriptors_end(void)
{
	struct rlimit limit, low;
	int next = dup(STDIN_FILENO);

	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = (struct rlimit){ (rlim_t)next, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(dup(STDIN_FILENO), -1);
	return limit;
}

/*
 * Connections are closed instead of waiting, as long as it is so; then the server serves again. A
 * client's connection can't be begun: by an event.
 */
static void no_descriptor_left(void **state)
{
	int fds[3];
	unsigned int tries;
	struct rlimit limit;
	struct cm_id *id;

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++)
			fds[i] = raw_connect();
		limit = descriptors_end();
		tries = QUIET_TRIES;
		while (tries &&
		       !(raw_has_ended(fds[0]) && raw_has_ended(fds[1]) && raw_has_ended(fds[2]))) {
			go_on(-1, 0);
			tries--;
		}
		assert_true(tries);
		/* The listener does not keep the server busy. */
		quiet();
		if (round) {
			id = connecting();
			assert_ptr_equal(expect(&client, CM_UNREACHABLE, -EMFILE), id);
			tcp_destroy_id(id);
		}
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		for (int i = 0; i < 3; i++)
			close(fds[i]);
		server_works();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TCP_CASE(in_pieces),
		TCP_CASE(client_goes),
		TCP_CASE(server_goes),
		TCP_CASE(accept_grants_too_much),
		TCP_CASE(not_a_request),
		TCP_CASE(other_link_layer),
		TCP_CASE(second_request),
		TCP_CASE(not_an_answer),
		TCP_CASE(silence),
		TCP_CASE(silent_at_the_end),
		TCP_CASE(too_many_silent),
		TCP_CASE(speaking_stays),
		TCP_CASE(arrived_is_said),
		TCP_CASE(others_stay),
		TCP_CASE(no_descriptor_left),
	};

	tcp_test_heap();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
