/* SPDX-License-Identifier: MIT */
/*
 * The fixture for the tests of connections set up over TCP (common/rdma/tcp/): a listening and a
 * connecting device with real TCP sockets on 127.0.0.1, whose queue pairs the test simulates. The
 * files under test are compiled here, and so are a clock and a timer that follows it: nothing
 * waits. A test may also be one of the two ends itself, with a socket. Threads: none.
 */
#ifndef KVD_TESTS_SUPPORT_TCP_TEST_H
#define KVD_TESTS_SUPPORT_TCP_TEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/inet.h"
#include "common/rdma/tcp/tcp.h"
#include "common/util/clock.h"
#include "common/util/heap.h"

#define DEADLINE_MS 300000 /* of what is on its way */
#define QUIET_TRIES 1000
#define TIMERS_MAX 4
#define EVENTS_MAX 8
#define GID_INDEX 3
#define SECOND_NS 1000000000ull
#define SETUP_NS (60 * SECOND_NS) /* SETUP_MS of tcp/setup.c */

/* What the ports may have of READs, each number another one. */
#define SERVER_RESPONDER 12
#define SERVER_INITIATOR 14
#define CLIENT_RESPONDER 16
#define CLIENT_INITIATOR 10

static struct ibv_context context;
static struct ibv_pd test_pd;

/* A queue pair, with what it was told last for each state. */
struct test_qp {
	struct ibv_qp qp;
	struct ibv_qp_attr told[IBV_QPS_ERR + 1];
};

static unsigned int qps, blocks; /* how many there are: queue pairs, pieces of the heap */
static uint32_t qp_num_last;
static enum ibv_qp_state modify_fails_to; /* it fails with ENOMEM */
static int gid_err;
static bool gid_with_peer; /* of the last choice */
static struct sockaddr_storage gid_local;

/* As a device: only the transitions that there are. */
static inline int test_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	assert_true(mask & IBV_QP_STATE);
	if (attr->qp_state == modify_fails_to)
		return ENOMEM;
	if (attr->qp_state != IBV_QPS_ERR && attr->qp_state != of->state + 1)
		return EINVAL;
	of->state = attr->qp_state;
	((struct test_qp *)of)->told[of->state] = *attr;
	return 0;
}

static inline bool test_qp_failed(const struct ibv_qp *of)
{
	return of && of->state == IBV_QPS_ERR;
}

static inline int test_qp_create(struct device *dev, struct ibv_pd *of,
				 struct ibv_qp_init_attr *attr, struct ibv_qp **qp)
{
	struct test_qp *made = calloc(1, sizeof(*made));

	(void)dev, (void)attr;
	assert_ptr_equal(of, &test_pd);
	assert_non_null(made);
	made->qp.qp_num = ++qp_num_last;
	*qp = &made->qp;
	qps++;
	return 0;
}

static inline int test_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	qps--;
	return 0;
}

static inline void test_qp_destroy(struct device *dev, struct ibv_qp *qp)
{
	(void)dev;
	if (qp)
		(void)test_destroy_qp(qp);
}

static inline int test_query_port(struct ibv_context *of, uint8_t number,
				  struct ibv_port_attr *attr)
{
	assert_ptr_equal(of, &context);
	assert_int_equal(number, 1);
	*attr = (struct ibv_port_attr){ .active_mtu = IBV_MTU_1024 };
	return 0;
}

static inline int test_gid_choose(const struct verbs_port *port,
				  const struct sockaddr_storage *local, const struct tcp_end *peer,
				  struct ibv_gid_entry *entry)
{
	(void)port;
	gid_local = *local;
	gid_with_peer = peer;
	*entry = (struct ibv_gid_entry){ .gid_type = IBV_GID_TYPE_ROCE_V2, .gid_index = GID_INDEX };
	return gid_err;
}

static uint64_t test_now_ns;
static struct test_timer {
	int fd;
	uint64_t at_ns; /* 0: never */
} timers[TIMERS_MAX];

static inline uint64_t test_clock_ns(void)
{
	return test_now_ns;
}

/* Sets the real timer: at once, which is the end of it, or never. */
static inline void timer_let(struct test_timer *timer)
{
	struct itimerspec when = { 0 };

	if (timer->at_ns && timer->at_ns <= test_now_ns) {
		when.it_value.tv_nsec = 1;
		timer->at_ns = 0;
	}
	assert_int_equal(timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &when, NULL), 0);
}

static inline int test_timer_settime(int fd, int flags, const struct itimerspec *when,
				     struct itimerspec *old)
{
	unsigned int i = 0;

	assert_int_equal(flags, TFD_TIMER_ABSTIME);
	assert_null(old);
	while (i < TIMERS_MAX - 1 && timers[i].fd && timers[i].fd != fd)
		i++;
	assert_true(!timers[i].fd || timers[i].fd == fd);
	timers[i] = (struct test_timer){ fd, (uint64_t)when->it_value.tv_sec * SECOND_NS +
						     (uint64_t)when->it_value.tv_nsec };
	timer_let(&timers[i]);
	return 0;
}

static inline void time_pass(uint64_t ns)
{
	test_now_ns += ns;
	for (unsigned int i = 0; i < TIMERS_MAX && timers[i].fd; i++)
		if (timers[i].at_ns && timers[i].at_ns <= test_now_ns)
			timer_let(&timers[i]);
}

#undef ibv_query_port
#define ibv_modify_qp test_modify_qp
#define ibv_destroy_qp test_destroy_qp
#define ibv_query_port test_query_port
#define verbs_qp_create test_qp_create
#define verbs_qp_destroy test_qp_destroy
#define verbs_qp_failed test_qp_failed
#define tcp_gid_choose test_gid_choose
#define clock_ns test_clock_ns
#define timerfd_settime test_timer_settime
#include "common/rdma/tcp/cm.c"
#include "common/rdma/tcp/qp.c"
#include "common/rdma/tcp/setup.c"
#include "tests/support/descriptors.h"
#undef ibv_modify_qp
#undef ibv_destroy_qp
#undef ibv_query_port
#undef verbs_qp_create
#undef verbs_qp_failed
#undef verbs_qp_destroy
#undef tcp_gid_choose
#undef clock_ns
#undef timerfd_settime

/* One of the ends, with the events that were taken and that no test has looked at yet. */
struct end {
	struct tcp_device od;
	struct cm_channel *channel;
	struct cm_event events[EVENTS_MAX];
	unsigned int count;
};

static struct end server, client;
static struct cm_id *listener;
static unsigned int fds_before, blocks_before;

static inline void *count_alloc(void *user, size_t bytes)
{
	(void)user;
	blocks++;
	return malloc(bytes);
}

static inline void *count_realloc(void *user, void *memory, size_t bytes)
{
	(void)user;
	blocks += !memory;
	return realloc(memory, bytes);
}

static inline void count_free(void *user, void *memory)
{
	(void)user;
	blocks -= memory != NULL;
	free(memory);
}

static inline struct sockaddr_storage loopback(void)
{
	struct sockaddr_storage addr = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&addr;

	v4->sin_family = AF_INET;
	v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return addr;
}

static inline void end_begin(struct end *end, enum device_role role, uint8_t responder_max,
			     uint8_t initiator_max)
{
	*end = (struct end){
		.od = { .port = { .dev = { .kind = DEVICE_RDMA_TCP,
					   .ops = &tcp_ops,
					   .verbs = &context,
					   .name = "fake0",
					   .port_number = 1,
					   .address = "here" },
				  .link_layer = IBV_LINK_LAYER_ETHERNET,
				  .responder_resources_max = responder_max,
				  .initiator_depth_max = initiator_max },
			.role = role,
			.addr = loopback(),
			.bound_fd = -1 },
	};
	assert_int_equal(tcp_create_cm_channel(&end->od.port.dev, &end->channel), 0);
}

/* A server that listens, and a device that connects to it. */
static inline int tcp_test_setup(void **state)
{
	int fd;

	(void)state;
	fds_before = descriptors();
	blocks_before = blocks;
	qps = 0;
	test_now_ns = 1000 * SECOND_NS;
	memset(timers, 0, sizeof(timers));
	modify_fails_to = IBV_QPS_UNKNOWN;
	gid_err = 0;
	end_begin(&server, DEVICE_LISTEN, SERVER_RESPONDER, SERVER_INITIATOR);
	end_begin(&client, DEVICE_CONNECT, CLIENT_RESPONDER, CLIENT_INITIATOR);
	assert_int_equal(inet_bind(&server.od.addr, &fd), 0);
	server.od.bound_fd = fd;
	client.od.addr = server.od.addr;
	assert_int_equal(tcp_listen(server.channel, 300, &listener), 0);
	assert_int_equal(server.od.bound_fd, -1);
	return 0;
}

/* Nothing may be left when a test has destroyed its ids and closed its sockets. */
static inline int tcp_test_teardown(void **state)
{
	(void)state;
	tcp_destroy_id(listener);
	tcp_destroy_cm_channel(server.channel);
	tcp_destroy_cm_channel(client.channel);
	assert_int_equal(server.count + client.count, 0);
	assert_int_equal(qps, 0);
	assert_int_equal(blocks, blocks_before);
	assert_int_equal(descriptors(), fds_before);
	return 0;
}

static inline void take_events(struct end *end)
{
	int err;

	for (;;) {
		assert_true(end->count < EVENTS_MAX);
		err = tcp_cm_get_event(end->channel, &end->events[end->count]);
		if (err)
			break;
		end->count++;
	}
	assert_int_equal(err, -EAGAIN);
}

/* Lets both ends do what they can; waits until there is something, of @fd (-1: none), too. */
static inline void go_on(int fd, short events)
{
	struct pollfd fds[] = { { server.channel->fd, POLLIN, 0 },
				{ client.channel->fd, POLLIN, 0 },
				{ fd, events, 0 } };

	if (poll(fds, 3, DEADLINE_MS) <= 0)
		fail_msg("nothing happens any more");
	take_events(&server);
	take_events(&client);
}

static inline struct cm_event next_event(struct end *end)
{
	struct cm_event event;

	while (!end->count)
		go_on(-1, 0);
	event = end->events[0];
	memmove(end->events, end->events + 1, --end->count * sizeof(event));
	return event;
}

/* The end's next event has to be this one; returns its id. */
static inline struct cm_id *expect(struct end *end, enum cm_event_type type, int status)
{
	struct cm_event event = next_event(end);

	assert_int_equal(event.type, type);
	assert_int_equal(event.status, status);
	return event.id;
}

/* Neither end has an event, and when all has arrived that is on its way, nothing to do. */
static inline void quiet(void)
{
	struct pollfd fds[] = { { server.channel->fd, POLLIN, 0 },
				{ client.channel->fd, POLLIN, 0 } };
	unsigned int tries = QUIET_TRIES;

	do {
		take_events(&server);
		take_events(&client);
		assert_int_equal(server.count + client.count, 0);
	} while (poll(fds, 2, 0) && --tries);
	assert_true(tries);
}

static const struct cm_param param_plain = { .min_rnr_timer = 12 };

static inline void give_qp(struct cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	assert_int_equal(tcp_create_qp(id, &test_pd, &attr, IBV_ACCESS_REMOTE_READ), 0);
	assert_int_equal(id->qp->state, IBV_QPS_INIT);
}

/* What the queue pair was told for this state, the one that it is in. */
static inline const struct ibv_qp_attr *in_state(const struct cm_id *id, enum ibv_qp_state state)
{
	assert_int_equal(id->qp->state, state);
	return &((const struct test_qp *)id->qp)->told[state];
}

/* An id of the client with a queue pair, which connects. */
static inline struct cm_id *connecting(void)
{
	struct cm_id *id;

	assert_int_equal(tcp_create_id(client.channel, &id), 0);
	give_qp(id);
	assert_int_equal(tcp_connect(id, &param_plain), 0);
	return id;
}

/* The next request at the server, which has a queue pair now. */
static inline struct cm_id *asked(void)
{
	struct cm_id *id = expect(&server, CM_CONNECT_REQUEST, 0);

	give_qp(id);
	return id;
}

static inline struct cm_id *accepted(void)
{
	struct cm_id *id = asked();

	assert_int_equal(tcp_accept(id, &param_plain), 0);
	in_state(id, IBV_QPS_RTS);
	return id;
}

/* Both ends of a connection. */
static inline struct cm_id *connected(struct cm_id **at_server)
{
	struct cm_id *id = connecting();

	*at_server = accepted();
	assert_ptr_equal(expect(&client, CM_ESTABLISHED, 0), id);
	assert_ptr_equal(expect(&server, CM_ESTABLISHED, 0), *at_server);
	return id;
}

/* The server can be connected to, and the connection ended. */
static inline void server_works(void)
{
	struct cm_id *at_server, *id = connected(&at_server);

	tcp_destroy_id(id);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -ECONNRESET), at_server);
	tcp_destroy_id(at_server);
	quiet();
}

static inline unsigned int setups(void)
{
	return tcp_channel_of(server.channel)->setups.count;
}

/* A peer of the test's own: a socket that is connected to the server. */
static inline int raw_connect_from(uint32_t address)
{
	const struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr = { htonl(address) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&server.od.addr,
				 inet_len(&server.od.addr)),
			 0);
	return fd;
}

static inline int raw_connect(void)
{
	return raw_connect_from(INADDR_LOOPBACK);
}

/* A server of the test's own, which the client connects to: the listening socket. */
static inline int raw_listen(void)
{
	struct sockaddr_storage addr = loopback();
	int fd;

	assert_int_equal(inet_bind(&addr, &fd), 0);
	assert_int_equal(listen(fd, 1), 0);
	client.od.addr = addr;
	return fd;
}

/* The connection of the client, which has sent its request. */
static inline int raw_accept(int listening)
{
	int fd;

	while ((fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) < 0) {
		assert_int_equal(errno, EAGAIN);
		go_on(listening, POLLIN);
	}
	return fd;
}

static inline struct tcp_message raw_message(enum tcp_kind kind)
{
	return (struct tcp_message){
		.kind = kind,
		.end = { .qp_num = 0x77,
			 .psn = 0x88,
			 .link_layer = IBV_LINK_LAYER_ETHERNET,
			 .gid_type = IBV_GID_TYPE_ROCE_V2,
			 .mtu = IBV_MTU_512,
			 .responder_resources = 5,
			 .initiator_depth = 6 },
	};
}

static inline void raw_write(int fd, const void *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

static inline void raw_send(int fd, enum tcp_kind kind)
{
	const struct tcp_message message = raw_message(kind);
	uint8_t bytes[TCP_MESSAGE_BYTES];

	tcp_message_print(bytes, &message);
	raw_write(fd, bytes, sizeof(bytes));
}

/* The next message that the other end sends. */
static inline struct tcp_message raw_receive(int fd)
{
	uint8_t bytes[TCP_MESSAGE_BYTES];
	struct tcp_message message;
	ssize_t got;

	while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_PEEK)) !=
	       (ssize_t)sizeof(bytes)) {
		if (got == 0 || (got < 0 && errno != EAGAIN))
			fail_msg("the connection has ended");
		go_on(fd, got < 0 ? POLLIN : 0);
	}
	assert_int_equal(recv(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	assert_null(tcp_message_parse(&message, bytes));
	return message;
}

/* Whether the other end has closed it, as far as is known now. */
static inline bool raw_has_ended(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);

	assert_true(got <= 0);
	return got == 0 || errno != EAGAIN;
}

/* The other end closes it, without a message. */
static inline void raw_ended(int fd)
{
	while (!raw_has_ended(fd))
		go_on(fd, POLLIN);
	close(fd);
}

/* Each test with a server and a client, and nothing left. */
#define TCP_CASE(f) cmocka_unit_test_setup_teardown(f, tcp_test_setup, tcp_test_teardown)

static inline void tcp_test_heap(void)
{
	static const struct heap_functions counting = { count_alloc, count_realloc, count_free,
							NULL };

	if (heap_set(&counting))
		abort();
}

#endif /* KVD_TESTS_SUPPORT_TCP_TEST_H */
