/* SPDX-License-Identifier: MIT */
/*
 * Tests of how softnic connects: what both ends agree on and report, which parameters and calls are
 * refused, what the connecting end hears of a listening end that does not accept it, when each step
 * is over, and what both ends do if one of them fails.
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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/timer.h"
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

/* Whether the next epoll_ctl(2), or the next one that does this if it is not 0, fails. */
static bool watch_fails;
static int watch_fails_op;

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (!watch_fails || (watch_fails_op && op != watch_fails_op))
		return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
	watch_fails = false;
	errno = ENOMEM;
	return -1;
}

/* Whether the next memfd_create(2) fails. */
static bool memory_fails;

int memfd_create(const char *name, unsigned int flags)
{
	if (!memory_fails)
		return (int)syscall(SYS_memfd_create, name, flags);
	memory_fails = false;
	errno = EMFILE;
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
	watch_fails = memory_fails = false;
	watch_fails_op = 0;
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

/* Each direction has as many READs as both ends allow; each end retries as it was told. */
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
		/* At once, not when its time is over. */
		assert_int_not_equal(event_of(&client, CM_UNREACHABLE).status, -ETIMEDOUT);
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
			fail_msg("descriptor %d is left open for an executed program", fd);
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

/* After a failure the listener rests a while, and then accepts the clients that wait. */
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

static int descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < FDS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Memory of connections. */
static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	int count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, "memfd:softnic (") != NULL;
	fclose(file);
	return count;
}

static bool has_deadline(const struct sn_id *id)
{
	return id->deadline.when_ns && id->deadline.delay == SN_DELAY_HANDSHAKE;
}

/* Lets the server accept the connection, and no more. */
static struct sn_id *half_open(void)
{
	struct sn_cm_channel *channel = sn_id_channel(to_sn_id(server.listener));
	struct cm_event event;

	assert_int_equal(OPS->connect(client.id, &good), 0);
	assert_int_equal(OPS->cm_get_event(server.cm, &event), -EAGAIN);
	assert_int_equal(channel->half_open_count, 1);
	return TAILQ_FIRST(&channel->half_open);
}

/* While it waits for its peer, and only then. */
static void each_step_has_a_deadline(void **state)
{
	struct sn_id *at_client = to_sn_id(client.id), *at_server;

	(void)state;
	assert_false(has_deadline(at_client));
	at_server = half_open();
	assert_true(has_deadline(at_client));
	assert_true(has_deadline(at_server));
	server.id = event_of(&server, CM_CONNECT_REQUEST).id;
	assert_ptr_equal(to_sn_id(server.id), at_server);
	assert_int_equal(at_server->deadline.when_ns, 0);
	assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
	assert_int_equal(OPS->accept(server.id, &good), 0);
	assert_true(has_deadline(at_server));
	assert_true(has_deadline(at_client));
	event_of(&client, CM_ESTABLISHED);
	assert_int_equal(at_client->deadline.when_ns, 0);
	assert_true(has_deadline(at_server));
	event_of(&server, CM_ESTABLISHED);
	assert_int_equal(at_server->deadline.when_ns, 0);
}

/* As if all the time of the step had passed. */
static void let_pass(struct sn_id *id)
{
	struct sn_cm_channel *channel = sn_id_channel(id);

	pthread_mutex_lock(&channel->lock);
	do_sn_id_set_timer(id, &id->deadline, SN_DELAY_SOON);
	pthread_mutex_unlock(&channel->lock);
}

static void no_answer_in_time(void **state)
{
	(void)state;
	half_open();
	let_pass(to_sn_id(client.id));
	assert_int_equal(event_of(&client, CM_UNREACHABLE).status, -ETIMEDOUT);
}

/* Nobody hears of a client that connects and asks for nothing; its place is free again. */
static void no_request_in_time(void **state)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	const int before = descriptors(), ids = atomic_load(&ctx->objects[SN_OBJECT_ID]);
	const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct cm_event event;
	struct sn_id *id = half_open();
	struct link_message request;

	(void)state;
	link_receive(id->sock, &request, NULL); /* as if it had not been sent */
	let_pass(id);
	while (atomic_load(&ctx->objects[SN_OBJECT_ID]) > ids) {
		assert_int_equal(OPS->cm_get_event(server.cm, &event), -EAGAIN);
		assert_true(pair_now_ms() < deadline);
	}
	assert_int_equal(descriptors(), before + 1); /* the client's */
	event_of(&client, CM_UNREACHABLE);
}

/* The client has its answer and does not say that it is ready. */
static void not_ready_in_time(void **state)
{
	(void)state;
	request();
	assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
	assert_int_equal(OPS->accept(server.id, &good), 0);
	let_pass(to_sn_id(server.id));
	event_of(&server, CM_DISCONNECTED);
	assert_int_equal(server.id->qp->state, IBV_QPS_ERR);
}

/* Looks at the client's socket as often as it has something, without taking an event. */
static void look(struct sn_id *id, enum cm_event_type until)
{
	const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;

	while (!(id->pending & 1u << until)) {
		end_serve_cm(&server, &END_DEFAULTS);
		pthread_mutex_lock(&sn_id_channel(id)->lock);
		if (id->state != SN_ID_ESTABLISHED || link_hung_up(id->sock))
			do_sn_handshake(id, EPOLLIN);
		pthread_mutex_unlock(&sn_id_channel(id)->lock);
		assert_true(pair_now_ms() < deadline);
	}
}

/* A connection that ends before ESTABLISHED was reported has both events, in their order. */
static void two_events_at_once(void **state)
{
	struct sn_id *id = to_sn_id(client.id);

	(void)state;
	assert_int_equal(OPS->connect(client.id, &good), 0);
	look(id, CM_ESTABLISHED);
	while (!server.connected)
		end_serve_cm(&server, &END_DEFAULTS);
	shutdown(to_sn_id(server.id)->sock, SHUT_RDWR);
	look(id, CM_DISCONNECTED);
	event_of(&client, CM_ESTABLISHED);
	event_of(&client, CM_DISCONNECTED);
}

/* A connection that was destroyed with an event pending reports nothing. */
static void destroyed_with_an_event(void **state)
{
	struct sn_cm_channel *channel = sn_id_channel(to_sn_id(client.id));
	struct cm_event event;

	(void)state;
	assert_int_equal(OPS->connect(client.id, &good), 0);
	look(to_sn_id(client.id), CM_ESTABLISHED);
	assert_false(TAILQ_EMPTY(&channel->ready));
	OPS->destroy_id(client.id);
	client.id = NULL;
	assert_true(TAILQ_EMPTY(&channel->ready));
	assert_int_equal(OPS->cm_get_event(client.cm, &event), -EAGAIN);
}

/* The end of a device is reported once for each known connection, and for no other. */
static void a_device_that_is_gone(void **state)
{
	struct link_message request;
	struct cm_event event;

	(void)state;
	link_receive(half_open()->sock, &request, NULL); /* as if it had not been sent */
	sn_context_kill(dev_to_sn_context(server.dev));
	assert_ptr_equal(event_of(&server, CM_DEVICE_REMOVED).id, server.listener);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(OPS->cm_get_event(server.cm, &event), -EAGAIN);
}

/* The client gave up its queue pair before it was accepted, or that has failed. */
static void no_queue_pair_to_connect(void **state)
{
	const int before = mappings();

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		if (i)
			assert_int_equal(setup(state), 0);
		request();
		assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
		assert_int_equal(OPS->accept(server.id, &good), 0);
		if (i)
			assert_int_equal(OPS->modify_qp(client.id->qp, &attr, IBV_QP_STATE), 0);
		else
			OPS->destroy_qp(client.id);
		assert_int_equal(event_of(&client, CM_UNREACHABLE).status, -EINVAL);
		assert_int_equal(mappings(), before + 1); /* the server's */
		event_of(&server, CM_DISCONNECTED);
		if (!i)
			teardown(state);
	}
}

/* A server that can't accept learns why, and keeps nothing of it. */
static void accept_that_fails(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	const int before = mappings();
	int open;

	(void)state;
	request();
	assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
	open = descriptors();
	memory_fails = true;
	assert_int_equal(OPS->accept(server.id, &good), -EMFILE);
	assert_int_equal(OPS->modify_qp(server.id->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(OPS->accept(server.id, &good), -EINVAL);
	assert_int_equal(mappings(), before);
	assert_int_equal(descriptors(), open);
	OPS->destroy_id(server.id);
	server.id = NULL;
	event_of(&client, CM_REJECTED);
}

/* An end that could not be woken is none: of either side, by either of its channels. */
static void established_and_not_watched(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct end *failing = i < 2 ? &client : &server;

		if (i)
			assert_int_equal(setup(state), 0);
		request();
		assert_int_equal(end_create_qp(&server, server.id, &END_DEFAULTS), 0);
		assert_int_equal(OPS->accept(server.id, &good), 0);
		if (failing == &server)
			event_of(&client, CM_ESTABLISHED);
		watch_fails_op = i % 2 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
		watch_fails = true;
		if (failing == &client)
			assert_int_equal(event_of(&client, CM_UNREACHABLE).status, -ENOMEM);
		else
			event_of(&server, CM_DISCONNECTED);
		assert_false(watch_fails);
		if (i < 3)
			teardown(state);
	}
}

static void connecting_and_not_watched(void **state)
{
	(void)state;
	watch_fails = true;
	assert_int_equal(OPS->connect(client.id, &good), 0);
	assert_false(watch_fails);
	assert_int_equal(event_of(&client, CM_UNREACHABLE).status, -ENOMEM);
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
		CASE(each_step_has_a_deadline),
		CASE(no_answer_in_time),
		CASE(no_request_in_time),
		CASE(not_ready_in_time),
		CASE(two_events_at_once),
		CASE(destroyed_with_an_event),
		CASE(a_device_that_is_gone),
		CASE(no_queue_pair_to_connect),
		CASE(accept_that_fails),
		CASE(established_and_not_watched),
		CASE(connecting_and_not_watched),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
