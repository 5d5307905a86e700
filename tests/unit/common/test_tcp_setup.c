/* SPDX-License-Identifier: MIT */
/*
 * Tests of connections set up over TCP between two ends that both run kvd's code: what each end
 * learns of the other, how connections are rejected and closed, and that an id in any state frees
 * everything (common/rdma/tcp/cm.c, setup.c). test_tcp_peer.c has the peers that break the rules.
 */
#include <netinet/tcp.h>

#include "tests/support/tcp_test.h"

static int socket_option(const struct cm_id *id, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = -1;

	assert_int_equal(getsockopt(((const struct tcp_id *)id)->fd, level, name, &value, &len), 0);
	return value;
}

static void assert_private(const struct cm_event *event, const char *text)
{
	static const uint8_t zeros[sizeof(event->private_data)];
	size_t len = strlen(text);

	assert_int_equal(event->private_len, len);
	assert_memory_equal(event->private_data, text, len);
	assert_memory_equal(event->private_data + len, zeros, sizeof(zeros) - len);
}

/* Private data, and READs: of each direction the least of what both ends want and can. */
static void sets_up(void **state)
{
	const struct cm_param asks = { .private_data = "hello",
				       .private_len = 5,
				       .responder_resources = 9,
				       .initiator_depth = 0,
				       .retry_count = 3,
				       .rnr_retry_count = 4,
				       .min_rnr_timer = 5 };
	const struct cm_param answers = { .private_data = "welcome!",
					  .private_len = 8,
					  .responder_resources = 0,
					  .initiator_depth = 7,
					  .retry_count = 1,
					  .rnr_retry_count = 2,
					  .min_rnr_timer = 6 };
	const struct ibv_qp_attr *mine, *peers;
	struct cm_id *id, *at_server;
	struct cm_event event;

	(void)state;
	assert_int_equal(tcp_create_id(client.channel, &id), 0);
	give_qp(id);
	assert_int_equal(tcp_connect(id, &asks), 0);
	assert_int_equal(tcp_connect(id, &asks), -EISCONN);
	event = next_event(&server);
	assert_int_equal(event.type, CM_CONNECT_REQUEST);
	assert_private(&event, "hello");
	assert_int_equal(event.responder_resources, CLIENT_INITIATOR);
	assert_int_equal(event.initiator_depth, 9);
	assert_false(gid_with_peer);
	assert_int_equal(((struct sockaddr_in *)&gid_local)->sin_addr.s_addr,
			 htonl(INADDR_LOOPBACK));

	at_server = event.id;
	assert_ptr_equal(at_server->dev, &server.od.port.dev);
	assert_ptr_equal(at_server->channel, server.channel);
	give_qp(at_server);
	assert_int_equal(tcp_accept(at_server, &answers), 0);
	assert_true(gid_with_peer);
	assert_int_equal(tcp_accept(at_server, &answers), -ENOTCONN);
	assert_int_equal(tcp_reject(at_server, NULL, 0), -ENOTCONN);
	event = next_event(&client);
	assert_int_equal(event.type, CM_ESTABLISHED);
	assert_ptr_equal(event.id, id);
	assert_private(&event, "welcome!");
	assert_int_equal(event.responder_resources, 7);
	assert_int_equal(event.initiator_depth, CLIENT_INITIATOR);
	event = next_event(&server);
	assert_int_equal(event.type, CM_ESTABLISHED);
	assert_ptr_equal(event.id, at_server);
	assert_private(&event, "");
	assert_int_equal(event.responder_resources, CLIENT_INITIATOR);
	assert_int_equal(event.initiator_depth, 7);

	/* Each queue pair is told of the other one. */
	mine = in_state(id, IBV_QPS_RTS) - IBV_QPS_RTS;
	peers = in_state(at_server, IBV_QPS_RTS) - IBV_QPS_RTS;
	assert_int_equal(mine[IBV_QPS_RTR].dest_qp_num, at_server->qp->qp_num);
	assert_int_equal(peers[IBV_QPS_RTR].dest_qp_num, id->qp->qp_num);
	assert_int_equal(mine[IBV_QPS_RTR].rq_psn, peers[IBV_QPS_RTS].sq_psn);
	assert_int_equal(peers[IBV_QPS_RTR].rq_psn, mine[IBV_QPS_RTS].sq_psn);
	assert_int_equal(mine[IBV_QPS_RTR].path_mtu, IBV_MTU_1024);
	assert_int_equal(mine[IBV_QPS_RTR].ah_attr.grh.sgid_index, GID_INDEX);
	assert_int_equal(mine[IBV_QPS_RTR].max_dest_rd_atomic, 7);
	assert_int_equal(peers[IBV_QPS_RTS].max_rd_atomic, 7);
	assert_int_equal(peers[IBV_QPS_RTR].max_dest_rd_atomic, CLIENT_INITIATOR);
	assert_int_equal(mine[IBV_QPS_RTS].max_rd_atomic, CLIENT_INITIATOR);
	assert_int_equal(mine[IBV_QPS_RTS].retry_cnt, 3);
	assert_int_equal(mine[IBV_QPS_RTS].rnr_retry, 4);
	assert_int_equal(mine[IBV_QPS_RTR].min_rnr_timer, 5);
	assert_int_equal(peers[IBV_QPS_RTS].retry_cnt, 1);
	assert_int_equal(peers[IBV_QPS_RTS].rnr_retry, 2);
	assert_int_equal(peers[IBV_QPS_RTR].min_rnr_timer, 6);
	assert_int_equal(tcp_connect(id, &asks), -EISCONN);
	quiet();
	tcp_destroy_id(id);
	tcp_destroy_id(expect(&server, CM_DISCONNECTED, -ECONNRESET));
}

/* The server's own limits, where the client can more. */
static void reads_of_the_server(void **state)
{
	struct cm_event event;
	struct cm_id *id;

	(void)state;
	client.od.port.responder_resources_max = 200;
	client.od.port.initiator_depth_max = 200;
	id = connecting();
	event = next_event(&server);
	assert_int_equal(event.responder_resources, SERVER_RESPONDER);
	assert_int_equal(event.initiator_depth, SERVER_INITIATOR);
	give_qp(event.id);
	assert_int_equal(tcp_accept(event.id, &param_plain), 0);
	event = next_event(&client);
	assert_int_equal(event.responder_resources, SERVER_INITIATOR);
	assert_int_equal(event.initiator_depth, SERVER_RESPONDER);
	tcp_destroy_id(expect(&server, CM_ESTABLISHED, 0));
	tcp_destroy_id(expect(&client, CM_DISCONNECTED, -ECONNRESET));
	assert_ptr_equal(event.id, id);
}

/* A dead host is noticed, and no message waits for more of them. */
static void socket_options(void **state)
{
	struct cm_id *ids[2];
	struct cm_peer peer;
	char expected[DEVICE_PEER_MAX];
	struct sockaddr_storage local;

	(void)state;
	ids[0] = connected(&ids[1]);
	for (int i = 0; i < 2; i++) {
		assert_true(socket_option(ids[i], IPPROTO_TCP, TCP_NODELAY));
		assert_true(socket_option(ids[i], SOL_SOCKET, SO_KEEPALIVE));
		assert_int_equal(socket_option(ids[i], IPPROTO_TCP, TCP_KEEPIDLE), 10);
		assert_int_equal(socket_option(ids[i], IPPROTO_TCP, TCP_KEEPINTVL), 5);
		assert_int_equal(socket_option(ids[i], IPPROTO_TCP, TCP_KEEPCNT), 3);
		assert_int_equal(socket_option(ids[i], IPPROTO_TCP, TCP_USER_TIMEOUT), 20000);
		assert_true(fcntl(tcp_id_of(ids[i])->fd, F_GETFD) & FD_CLOEXEC);
		assert_true(fcntl(tcp_id_of(ids[i])->fd, F_GETFL) & O_NONBLOCK);
	}
	assert_int_equal(inet_local(tcp_id_of(ids[0])->fd, &local), 0);
	inet_text(&local, expected, sizeof(expected));
	assert_int_equal(tcp_query_peer(ids[1], &peer), 0);
	assert_string_equal(peer.address, expected);
	assert_false(peer.uid_known);
	tcp_destroy_id(ids[0]);
	tcp_destroy_id(expect(&server, CM_DISCONNECTED, -ECONNRESET));
}

static void rejects(void **state)
{
	uint8_t reason[CM_PRIVATE_MAX_REJECT + 1];
	struct cm_id *id, *at_server;
	struct cm_event event;

	(void)state;
	memset(reason, 'r', sizeof(reason));
	id = connecting();
	at_server = expect(&server, CM_CONNECT_REQUEST, 0);
	assert_int_equal(tcp_reject(at_server, reason, sizeof(reason)), -EINVAL);
	assert_int_equal(tcp_reject(at_server, reason, sizeof(reason) - 1), 0);
	assert_int_equal(tcp_reject(at_server, NULL, 0), -ENOTCONN);
	event = next_event(&client);
	assert_int_equal(event.type, CM_REJECTED);
	assert_ptr_equal(event.id, id);
	reason[CM_PRIVATE_MAX_REJECT] = '\0';
	assert_private(&event, (const char *)reason);
	give_qp(at_server);
	assert_int_equal(tcp_accept(at_server, &param_plain), -ENOTCONN);
	/* An id is for one try. */
	assert_int_equal(tcp_connect(id, &param_plain), -ENOTCONN);
	assert_int_equal(tcp_disconnect(id), 0);
	quiet();
	tcp_destroy_id(id);
	tcp_destroy_id(at_server);
}

/* A server that does not want a request need not say so: the peer learns it. */
static void rejects_without_a_word(void **state)
{
	struct cm_id *at_server;
	struct cm_event event;

	(void)state;
	for (int i = 0; i < 2; i++) {
		connecting();
		at_server = expect(&server, CM_CONNECT_REQUEST, 0);
		if (i)
			assert_int_equal(tcp_disconnect(at_server), 0);
		tcp_destroy_id(at_server);
		event = next_event(&client);
		assert_int_equal(event.type, CM_REJECTED);
		assert_private(&event, "");
		tcp_destroy_id(event.id);
		quiet();
	}
}

/* The other end's queue pair is in error, too; the end that disconnects gets no event. */
static void disconnects(void **state)
{
	struct cm_id *ids[2], *peer;

	(void)state;
	for (int i = 0; i < 2; i++) {
		ids[0] = connected(&ids[1]);
		peer = ids[!i];
		assert_int_equal(tcp_disconnect(ids[i]), 0);
		in_state(ids[i], IBV_QPS_ERR);
		assert_ptr_equal(expect(i ? &client : &server, CM_DISCONNECTED, -ECONNRESET), peer);
		in_state(peer, IBV_QPS_ERR);
		assert_int_equal(tcp_disconnect(ids[i]), 0);
		assert_int_equal(tcp_disconnect(peer), 0);
		quiet();
		tcp_destroy_id(ids[0]);
		tcp_destroy_id(ids[1]);
	}
}

/* Neither event is mixed up with another connection's. */
static void several(void **state)
{
	struct cm_id *ids[3], *at_server[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		ids[i] = connected(&at_server[i]);
	tcp_destroy_id(ids[1]);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -ECONNRESET), at_server[1]);
	in_state(at_server[0], IBV_QPS_RTS);
	in_state(at_server[2], IBV_QPS_RTS);
	quiet();
	tcp_destroy_id(at_server[2]);
	assert_ptr_equal(expect(&client, CM_DISCONNECTED, -ECONNRESET), ids[2]);
	tcp_destroy_id(at_server[0]);
	assert_ptr_equal(expect(&client, CM_DISCONNECTED, -ECONNRESET), ids[0]);
	tcp_destroy_id(at_server[1]);
	tcp_destroy_id(ids[0]);
	tcp_destroy_id(ids[2]);
}

/* Nobody listens: by an event, since connect() does not wait. */
static void refused(void **state)
{
	struct sockaddr_storage addr = loopback();
	struct cm_id *id;
	int fd;

	(void)state;
	assert_int_equal(inet_bind(&addr, &fd), 0);
	client.od.addr = addr;
	id = connecting();
	assert_ptr_equal(expect(&client, CM_UNREACHABLE, -ECONNREFUSED), id);
	in_state(id, IBV_QPS_INIT);
	assert_int_equal(tcp_connect(id, &param_plain), -ENOTCONN);
	quiet();
	tcp_destroy_id(id);
	close(fd);
}

/* connect() fails at once: by an event as well, to each of the ids, but not if it is gone. */
static void fails_at_once(void **state)
{
	struct cm_id *ids[4];

	(void)state;
	client.od.addr.ss_family = AF_UNIX; /* not of TCP */
	for (int i = 0; i < 4; i++)
		ids[i] = connecting();
	assert_int_equal(tcp_connect(ids[0], &param_plain), -EISCONN);
	tcp_destroy_id(ids[0]);
	assert_int_equal(tcp_disconnect(ids[2]), 0);
	assert_ptr_equal(expect(&client, CM_UNREACHABLE, -EPROTONOSUPPORT), ids[1]);
	assert_ptr_equal(expect(&client, CM_UNREACHABLE, -EPROTONOSUPPORT), ids[3]);
	quiet();
	for (int i = 1; i < 4; i++)
		tcp_destroy_id(ids[i]);
}

/* What a call may not be given. */
static void invalid(void **state)
{
	struct cm_param param = param_plain;
	struct cm_id *id, *at_server;

	(void)state;
	assert_int_equal(tcp_listen(client.channel, 1, &id), -EINVAL);
	assert_int_equal(tcp_create_id(server.channel, &id), -EINVAL);
	assert_int_equal(tcp_create_id(client.channel, &id), 0);
	assert_int_equal(tcp_connect(id, &param), -EINVAL); /* no queue pair */
	give_qp(id);
	param.private_data = "";
	param.private_len = CM_PRIVATE_MAX_CONNECT + 1;
	assert_int_equal(tcp_connect(id, &param), -EINVAL);
	assert_int_equal(tcp_accept(id, &param_plain), -EINVAL);
	assert_int_equal(tcp_reject(id, NULL, 0), -EINVAL);
	assert_int_equal(tcp_connect(id, &param_plain), 0);
	at_server = expect(&server, CM_CONNECT_REQUEST, 0);
	assert_int_equal(tcp_accept(at_server, &param_plain), -EINVAL); /* no queue pair */
	give_qp(at_server);
	assert_int_equal(tcp_connect(at_server, &param_plain), -EINVAL);
	param.private_len = CM_PRIVATE_MAX_ACCEPT + 1;
	assert_int_equal(tcp_accept(at_server, &param), -EINVAL);
	/* The request can still be answered. */
	assert_int_equal(tcp_accept(at_server, &param_plain), 0);
	expect(&client, CM_ESTABLISHED, 0);
	tcp_destroy_id(expect(&server, CM_ESTABLISHED, 0));
	tcp_destroy_id(expect(&client, CM_DISCONNECTED, -ECONNRESET));
	tcp_destroy_id(NULL);
}

/* The server's queue pair: it can still reject, as when there is no GID for the peer. */
static void accept_fails(void **state)
{
	struct cm_id *at_server, *id;

	(void)state;
	id = connecting();
	at_server = asked();
	gid_err = -EADDRNOTAVAIL;
	assert_int_equal(tcp_accept(at_server, &param_plain), -EADDRNOTAVAIL);
	gid_err = 0;
	modify_fails_to = IBV_QPS_RTR;
	assert_int_equal(tcp_accept(at_server, &param_plain), -ENOMEM);
	quiet();
	assert_int_equal(tcp_reject(at_server, "no", 2), 0);
	assert_ptr_equal(expect(&client, CM_REJECTED, 0), id);
	tcp_destroy_id(id);
	tcp_destroy_id(at_server);
}

/* The client's queue pair: both ends learn it. */
static void client_fails(void **state)
{
	struct cm_id *at_server, *id;

	(void)state;
	id = connecting();
	at_server = accepted();
	modify_fails_to = IBV_QPS_RTS;
	assert_ptr_equal(expect(&client, CM_UNREACHABLE, -ENOMEM), id);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -ECONNRESET), at_server);
	in_state(at_server, IBV_QPS_ERR);
	tcp_destroy_id(id);
	tcp_destroy_id(at_server);
	/* There is no GID. */
	modify_fails_to = IBV_QPS_UNKNOWN;
	gid_err = -EADDRNOTAVAIL;
	tcp_destroy_id((connecting(), expect(&client, CM_UNREACHABLE, -EADDRNOTAVAIL)));
	gid_err = 0;
	/* The queue pair was destroyed meanwhile. */
	id = connecting();
	tcp_destroy_qp(id);
	tcp_destroy_id(expect(&client, CM_UNREACHABLE, -EINVAL));
	server_works();
}

static void listens_again(void **state)
{
	struct cm_id *second;

	(void)state;
	assert_int_equal(tcp_listen(server.channel, 1, &second), -EADDRINUSE);
	server_works();
	tcp_destroy_id(listener);
	assert_int_equal(tcp_listen(server.channel, 1, &listener), 0);
	server_works();
}

/* Each state that an id may be destroyed in; the teardown looks for what is left. */
static void destroyed_in_each_state(void **state)
{
	struct cm_id *id, *at_server;

	(void)state;
	assert_int_equal(tcp_create_id(client.channel, &id), 0);
	tcp_destroy_id(id);
	tcp_destroy_id(connecting()); /* the server meets a connection without a request */
	id = connecting();
	while (tcp_id_of(id)->state != TCP_REQUESTED)
		go_on(-1, 0);
	tcp_destroy_id(id);
	at_server = expect(&server, CM_CONNECT_REQUEST, 0);
	tcp_destroy_id(at_server);
	/* Accepted, and the client has not read it. */
	id = connecting();
	tcp_destroy_id(accepted());
	take_events(&server);
	take_events(&client);
	while (client.count)
		(void)next_event(&client);
	tcp_destroy_id(id);
	/* Up, with events that nobody takes. */
	id = connected(&at_server);
	tcp_destroy_id(id);
	tcp_destroy_id(at_server);
	/* Asked, when the listener is destroyed. */
	connecting();
	id = asked();
	tcp_destroy_id(listener);
	listener = NULL;
	tcp_destroy_id(id);
	tcp_destroy_id(expect(&client, CM_REJECTED, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TCP_CASE(sets_up),
		TCP_CASE(reads_of_the_server),
		TCP_CASE(socket_options),
		TCP_CASE(rejects),
		TCP_CASE(rejects_without_a_word),
		TCP_CASE(disconnects),
		TCP_CASE(several),
		TCP_CASE(refused),
		TCP_CASE(fails_at_once),
		TCP_CASE(invalid),
		TCP_CASE(accept_fails),
		TCP_CASE(client_fails),
		TCP_CASE(listens_again),
		TCP_CASE(destroyed_in_each_state),
	};

	tcp_test_heap();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
