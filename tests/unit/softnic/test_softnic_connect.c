/* SPDX-License-Identifier: MIT */
/*
 * Tests of how softnic connects: what both ends agree on and report, which parameters and calls are
 * refused, and what the connecting end hears of a listening end that does not accept it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/softnic.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define FDS_MAX 256

static struct end server, client;
static const uint8_t data[CM_PRIVATE_MAX_ACCEPT + CM_PRIVATE_MAX_CONNECT] = { 7, 8, 9 };

/* What the next accept4(2) fails with, and how many there were. */
static int accept_error;
static unsigned int accepts;

int accept4(int sock, struct sockaddr *restrict addr, socklen_t *restrict length, int flags)
{
	accepts++;
	if (!accept_error)
		return (int)syscall(SYS_accept4, sock, addr, length, flags);
	errno = accept_error;
	accept_error = 0;
	return -1;
}

/* Whether the next epoll_ctl(2) fails. */
static bool watch_fails;

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (!watch_fails)
		return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
	watch_fails = false;
	errno = ENOMEM;
	return -1;
}

static bool inherited[FDS_MAX];

static const struct cm_param good = { .retry_count = 7, .rnr_retry_count = 3, .min_rnr_timer = 5 };

static int setup(void **state)
{
	char path[64];
	int ret;

	(void)state;
	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS);
	ret = ret ?: end_init(&client, DEVICE_CONNECT, path, &END_DEFAULTS);
	ret = ret ?: OPS->create_id(client.cm, &client.id);
	return ret ?: end_create_qp(&client, client.id, &END_DEFAULTS);
}

static int teardown(void **state)
{
	(void)state;
	end_release(&client);
	end_release(&server);
	return 0;
}

/* The next event of @end, which must be of this type. */
static struct cm_event event_of(struct end *end, enum cm_event_type type)
{
	const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct cm_event event;
	int ret;

	while ((ret = OPS->cm_get_event(end->cm, &event)) == -EAGAIN)
		assert_true(pair_now_ms() < deadline);
	assert_int_equal(ret, 0);
	assert_int_equal(event.type, type);
	return event;
}

/* Connects so far that the server can accept or refuse. */
static struct cm_event request(void)
{
	struct cm_event event;

	assert_int_equal(OPS->connect(client.id, &good), 0);
	event = event_of(&server, CM_CONNECT_REQUEST);
	server.id = event.id;
	return event;
}

static void assert_reads(const struct cm_event *event, unsigned int responder,
			 unsigned int initiator)
{
	assert_int_equal(event->responder_resources, responder);
	assert_int_equal(event->initiator_depth, initiator);
}

static void assert_qp(const struct end *end, unsigned int reads, unsigned int retry,
		      unsigned int timer)
{
	struct ibv_qp_attr attr;

	assert_int_equal(OPS->query_qp(end->id->qp, &attr, 0), 0);
	assert_int_equal(attr.max_rd_atomic, reads);
	assert_int_equal(attr.rnr_retry, retry);
	assert_int_equal(attr.min_rnr_timer, timer);
}

/* Of READs in each direction there are as many as both ends allow; each retries as it was told. */
static void what_is_agreed(void **state)
{
	struct cm_param param = good;
	struct cm_event event;

	(void)state;
	param.responder_resources = 5;
	param.initiator_depth = 9;
	param.private_data = data;
	param.private_len = CM_PRIVATE_MAX_CONNECT;
	assert_int_equal(OPS->connect(client.id, &param), 0);
	event = event_of(&server, CM_CONNECT_REQUEST);
	assert_reads(&event, 9, 5);
	assert_int_equal(event.private_len, CM_PRIVATE_MAX_CONNECT);
	assert_memory_equal(event.private_data, data, CM_PRIVATE_MAX_CONNECT);
	server.id = event.id;
	assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
	param.responder_resources = 3;
	param.initiator_depth = 20;
	param.rnr_retry_count = 4;
	param.min_rnr_timer = 6;
	param.private_len = CM_PRIVATE_MAX_ACCEPT;
	assert_int_equal(OPS->accept(server.id, &param), 0);
	event = event_of(&client, CM_ESTABLISHED);
	assert_reads(&event, 5, 3);
	assert_int_equal(event.private_len, CM_PRIVATE_MAX_ACCEPT);
	assert_memory_equal(event.private_data, data, CM_PRIVATE_MAX_ACCEPT);
	event = event_of(&server, CM_ESTABLISHED);
	assert_reads(&event, 3, 5);
	assert_int_equal(event.private_len, 0);
	assert_qp(&client, 3, 3, 5);
	assert_qp(&server, 5, 4, 6);
}

static void peers(void **state)
{
	char expected[32];
	struct cm_peer peer;

	(void)state;
	request();
	assert_int_equal(OPS->query_peer(server.id, &peer), 0);
	snprintf(expected, sizeof(expected), "pid:%d", (int)getpid());
	assert_string_equal(peer.address, expected);
	assert_true(peer.uid_known);
	assert_int_equal(peer.uid, geteuid());
}

/* Each of the parameters, beyond what it may be. */
static void parameters_that_are_refused(void **state)
{
	struct cm_param params[6];

	(void)state;
	for (unsigned int i = 0; i < 6; i++)
		params[i] = good;
	params[0].retry_count = 8;
	params[1].rnr_retry_count = 8;
	params[2].min_rnr_timer = 0;
	params[3].min_rnr_timer = 32;
	params[4].private_len = 1; /* of nothing */
	params[5].private_data = data;
	params[5].private_len = CM_PRIVATE_MAX_CONNECT + 1;
	for (unsigned int i = 0; i < 6; i++)
		assert_int_equal(OPS->connect(client.id, &params[i]), -EINVAL);
	request();
	assert_int_equal(OPS->accept(server.id, &good), -EINVAL); /* without a queue pair */
	assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
	params[5].private_len = CM_PRIVATE_MAX_ACCEPT + 1;
	for (unsigned int i = 0; i < 6; i++)
		assert_int_equal(OPS->accept(server.id, &params[i]), -EINVAL);
	assert_int_equal(OPS->reject(server.id, data, CM_PRIVATE_MAX_REJECT + 1), -EINVAL);
	assert_int_equal(OPS->reject(server.id, NULL, 1), -EINVAL);
	/* None of them broke anything. */
	assert_int_equal(OPS->accept(server.id, &good), 0);
	event_of(&client, CM_ESTABLISHED);
}

/* Each step once, and in order. */
static void steps_that_are_refused(void **state)
{
	(void)state;
	assert_int_equal(OPS->accept(client.id, &good), -EINVAL);
	request();
	assert_int_equal(OPS->connect(client.id, &good), -EINVAL);
	assert_int_equal(OPS->reject(server.id, data, 3), 0);
	assert_int_equal(OPS->reject(server.id, data, 3), -ENOTCONN);
	assert_int_equal(event_of(&client, CM_REJECTED).private_len, 3);
	assert_int_equal(OPS->connect(client.id, &good), -EINVAL);
}

/* To destroy a request is to reject it. */
static void a_request_that_is_destroyed(void **state)
{
	(void)state;
	request();
	OPS->destroy_id(server.id);
	server.id = NULL;
	event_of(&client, CM_REJECTED);
}

/* With its listener end those that it has not seen, and those that it has not reported. */
static void a_listener_that_goes(void **state)
{
	(void)state;
	for (unsigned int seen = 0; seen < 2; seen++) {
		struct cm_event event;

		if (seen)
			assert_int_equal(setup(state), 0);
		assert_int_equal(OPS->connect(client.id, &good), 0);
		/* One step: the connection is accepted, its request not yet looked at. */
		if (seen)
			assert_int_equal(OPS->cm_get_event(server.cm, &event), -EAGAIN);
		OPS->destroy_id(server.listener);
		server.listener = NULL;
		assert_true(event_of(&client, CM_UNREACHABLE).status < 0);
		if (!seen)
			teardown(state);
	}
}

/* A server that has stopped refuses, as one without a listener does, and is not "no such file". */
static void a_server_that_has_stopped(void **state)
{
	(void)state;
	end_release(&server);
	assert_int_equal(OPS->connect(client.id, &good), 0);
	assert_int_equal(event_of(&client, CM_UNREACHABLE).status, -ECONNREFUSED);
}

/*
 * None of the ends' descriptors is left to a program that either executes: a connection would not
 * end with its client.
 */
static void descriptors_end_with_their_program(void **state)
{
	struct sn_qp *qp;

	(void)state;
	request();
	assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
	assert_int_equal(OPS->accept(server.id, &good), 0);
	event_of(&client, CM_ESTABLISHED);
	event_of(&server, CM_ESTABLISHED);
	/* The client's files, too, that it has passed. */
	qp = to_sn_qp(server.id->qp);
	sn_lock(&qp->lock);
	do_sn_qp_drain(qp, true);
	sn_unlock(&qp->lock);
	assert_true(dev_to_sn_context(server.dev)->file_count > 0);
	for (int fd = 3; fd < FDS_MAX; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && !(flags & FD_CLOEXEC) && !inherited[fd])
			fail_msg("descriptor %d is left to who is executed", fd);
	}
}

/* A server that is asked once does not accept; whether it looks at its listener any more. */
static void assert_not_accepted(bool looks)
{
	struct cm_event event;

	assert_int_equal(OPS->connect(client.id, &good), 0);
	assert_int_equal(OPS->cm_get_event(server.cm, &event), -EAGAIN);
	assert_int_equal(to_sn_id(server.listener)->watched, looks);
}

/* After a failure it rests a while, and then accepts who is waiting. */
static void accepting_that_fails(void **state)
{
	static const struct {
		int error;
		bool looks;
	} failures[] = {
		{ EMFILE, false }, { EAGAIN, true }, { ECONNABORTED, true }, { EINTR, true }
	};

	for (unsigned int i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		if (i)
			assert_int_equal(setup(state), 0);
		accept_error = failures[i].error;
		assert_not_accepted(failures[i].looks);
		assert_int_equal(accept_error, 0);
		server.id = event_of(&server, CM_CONNECT_REQUEST).id;
		if (i + 1 < sizeof(failures) / sizeof(failures[0]))
			teardown(state);
	}
}

/* The client is not left waiting, and another one can connect. */
static void assert_closed(void)
{
	assert_int_equal(event_of(&client, CM_UNREACHABLE).status, -ECONNRESET);
	OPS->destroy_id(client.id);
	assert_int_equal(OPS->create_id(client.cm, &client.id), 0);
	assert_int_equal(end_create_qp(&client, client.id, &END_DEFAULTS), 0);
	request();
}

/* The next one of a server that has as many as it may. */
static void no_place_to_accept(void **state)
{
	_Atomic int *ids = &dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID];

	(void)state;
	atomic_fetch_add(ids, SN_ID_MAX);
	assert_not_accepted(false);
	atomic_fetch_sub(ids, SN_ID_MAX);
	assert_closed();
}

/* One whose socket can't be watched takes no place. */
static void accepted_and_not_watched(void **state)
{
	_Atomic int *ids = &dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID];
	const int before = atomic_load(ids);
	struct cm_event event;

	(void)state;
	assert_int_equal(OPS->connect(client.id, &good), 0);
	watch_fails = true;
	assert_int_equal(OPS->cm_get_event(server.cm, &event), -EAGAIN);
	assert_false(watch_fails);
	assert_int_equal(atomic_load(ids), before);
	assert_closed();
}

static void too_many_that_are_not_reported(void **state)
{
	struct sn_cm_channel *channel = sn_id_channel(to_sn_id(server.listener));

	(void)state;
	accepts = 0;
	channel->unreported += SN_UNREPORTED_MAX;
	assert_not_accepted(false);
	assert_int_equal(accepts, 0);
	channel->unreported -= SN_UNREPORTED_MAX;
	server.id = event_of(&server, CM_CONNECT_REQUEST).id;
}

static int group_setup(void **state)
{
	(void)state;
	for (int fd = 0; fd < FDS_MAX; fd++)
		inherited[fd] = fcntl(fd, F_GETFD) >= 0;
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_agreed),
		CASE(peers),
		CASE(parameters_that_are_refused),
		CASE(steps_that_are_refused),
		CASE(a_request_that_is_destroyed),
		CASE(a_listener_that_goes),
		CASE(a_server_that_has_stopped),
		CASE(descriptors_end_with_their_program),
		CASE(accepting_that_fails),
		CASE(no_place_to_accept),
		CASE(accepted_and_not_watched),
		CASE(too_many_that_are_not_reported),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
