/* SPDX-License-Identifier: MIT */
/*
 * Tests of the control thread's loop: what it waits for and how long, what it does each second, and
 * when a server that stops closes its connections and ends. The loop is compiled here, with a clock
 * and a wait of the test's own; what it starts, stops and tells systemd is kept as text.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/detach.h"
#include "server/notify.h"
#include "server/reload.h"
#include "server/server.h"
#include "server/worker/conn.h"
#include "tests/support/default_tenant.h"
#include "tests/support/log_fixture.h"
#include "tests/support/store_fixture.h"

static uint64_t test_now;
static int test_wait(int fd, struct epoll_event *events, int max, int timeout_ms);

static uint64_t test_clock_ns(void)
{
	return test_now;
}

static int test_step(const char *name);
static void test_notify(const char *format, ...);
static uint64_t test_watchdog_ns(void);
static bool test_alive(void);
static void test_manager_run(struct net *net);

#define clock_ns test_clock_ns
#define epoll_wait test_wait
#define notify_send test_notify
#define notify_watchdog_ns test_watchdog_ns
#define notify_reloading() test_step("reloading ")
#define reload(server) ((void)(server), test_step("reload "))
#define net_alive(net) ((void)(net), test_alive())
#define tenant_manager_run test_manager_run
#define net_start(net) ((void)(net), test_step("net "))
#define net_stop(net) ((void)(net), test_step("-net "))
#define detach_ready() test_step("detached ")
#include "server/control_loop.c"
#undef clock_ns
#undef epoll_wait

#define SECOND_NS 1000000000ull
#define MS_NS 1000000ull
#define REGION_BYTES (8u << 20)
#define DRAIN_NS (5 * SECOND_NS) /* does not fit 32 bits */
#define BEGUN_NS (1000 * SECOND_NS)

static struct server server;
static struct loop loop;
static struct worker worker;
static struct tenant tenant;
static struct conn conn;
static struct cm_id id;
static unsigned int disconnects, waits, stop_after;

/* What the loop has done, in order; and the step of it that fails, or NULL. */
static char steps[400];
static const char *fails;
static uint64_t watchdog_ns;
static bool alive;
/* Instead of a wait, if it is not NULL. */
static int (*on_wait)(struct epoll_event *events, int timeout_ms);

static int test_step(const char *name)
{
	assert_true(strlen(steps) + strlen(name) < sizeof(steps));
	strcat(steps, name);
	return fails && !strcmp(name, fails) ? -EIO : 0;
}

/* What the manager does at the start; NULL: nothing. */
static void (*on_manager)(struct net *net);

static void test_manager_run(struct net *net)
{
	if (on_manager)
		on_manager(net);
}

/* The first word of what systemd is told. */
static void test_notify(const char *format, ...)
{
	char word[32];

	snprintf(word, sizeof(word), "%.*s ", (int)strcspn(format, "\n"), format);
	test_step(word);
}

static uint64_t test_watchdog_ns(void)
{
	return watchdog_ns;
}

static bool test_alive(void)
{
	test_step("alive? ");
	return alive;
}

static int disconnect(struct cm_id *of)
{
	assert_ptr_equal(of, &id);
	disconnects++;
	return 0;
}

static const struct device_ops ops = { .disconnect = disconnect };
static struct device dev = { .name = "fake0", .ops = &ops };

static const struct superblock *superblock(void)
{
	return region_superblock(&server.store.region);
}

static int setup(void **state)
{
	(void)state;
	memset(&server, 0, sizeof(server));
	memset(&worker, 0, sizeof(worker));
	memset(&conn, 0, sizeof(conn));
	test_store_create(&server.store, REGION_BYTES, 6, 1);
	server.config.server.drain_timeout = DRAIN_NS;
	server.net.env.config = &server.config;
	server.net.env.store = &server.store;
	server.net.workers = &worker;
	server.net.worker_count = 1;
	assert_int_equal(identities_init(&server.net.identities, 4, SECOND_NS), 0);
	conn_manager_init(&server.net);
	worker.pollers[0].worker = &worker;
	worker.pollers[0].nic = &server.net.nics[0];
	server.net.nics[0].dev = &dev;
	id.dev = &dev;
	default_tenant_init(&tenant, &server.store, &worker, 1);
	server.net.tenants.list[0] = &tenant;
	server.ready = true;
	on_manager = NULL;
	conn.client.worker = &worker;
	conn.client.part = &worker.part;
	conn.id = &id;
	conn.poller = &worker.pollers[0];
	server.net.conns = &conn;
	server.net.stats.connections = 1;
	loop = (struct loop){ .server = &server, .epoll_fd = -1, .signal_fd = -1 };
	test_now = BEGUN_NS;
	disconnects = waits = 0;
	steps[0] = '\0';
	fails = NULL;
	watchdog_ns = 0;
	on_wait = NULL;
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	identities_release(&server.net.identities);
	test_store_destroy(&server.store);
	return 0;
}

/* Before its time it goes on, and at its time it closes the connections, once. */
static void assert_closes_at(uint64_t at)
{
	assert_false(stopping_done(&server, at - 1));
	assert_int_equal(disconnects, 0);
	assert_int_equal(server.force_until_ns, 0);
	assert_false(stopping_done(&server, at));
	assert_int_equal(disconnects, 1);
	assert_int_equal(conn.stage, CONN_FLUSHING);
	assert_false(stopping_done(&server, at + 1));
	assert_int_equal(disconnects, 1);
}

static void goes_on(void **state)
{
	(void)state;
	assert_false(stopping_done(&server, UINT64_MAX));
	assert_int_equal(disconnects, 0);
	assert_int_equal(conn.stage, CONN_LIVE);
}

/* Requests that have arrived are executed for a while; then, without pulls, it ends at once. */
/* SHUTDOWN is one signal, however often it comes. */
static void stops_when_asked(void **state)
{
	(void)state;
	stop_if_asked(&server);
	assert_false(server.net.stopping);
	server.net.stop_asked = true;
	stop_if_asked(&server);
	assert_true(server.net.stopping);
	stop_if_asked(&server);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
}

static void drains(void **state)
{
	(void)state;
	stop(&server);
	assert_true(server.net.stopping);
	assert_true(server.net.jobs.cancels);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
	server.net.conns = NULL;
	assert_true(stopping_done(&server, BEGUN_NS + RESPOND_NS + 2));
}

/* Values that are being pulled have until server.drain_timeout. */
static void drains_pulls(void **state)
{
	(void)state;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_closes_at(BEGUN_NS + DRAIN_NS);
}

/* When the last one has ended nothing is waited for any more. */
static void pulls_end(void **state)
{
	(void)state;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_false(stopping_done(&server, BEGUN_NS + 2 * SECOND_NS));
	stat_set(&worker.pulls_count, 0);
	assert_false(stopping_done(&server, BEGUN_NS + 2 * SECOND_NS));
	assert_int_equal(disconnects, 1);
}

/* Pulls that end early leave requests their time to be executed. */
static void pulls_end_early(void **state)
{
	(void)state;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_false(stopping_done(&server, BEGUN_NS + 1));
	stat_set(&worker.pulls_count, 0);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
}

/* Without time for pulls, or with little, requests that have arrived are executed all the same. */
static void no_time_to_drain(void **state)
{
	(void)state;
	server.config.server.drain_timeout = 0;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
}

/* A second signal ends all waiting. */
static void told_twice(void **state)
{
	(void)state;
	server.drain_until_ns = server.force_until_ns = disconnects = 0;
	conn.stage = CONN_LIVE;
	stat_set(&worker.pulls_count, 1);
	stop(&server);
	assert_false(stopping_done(&server, BEGUN_NS + 1));
	assert_int_equal(disconnects, 0);
	stop(&server);
	assert_false(stopping_done(&server, BEGUN_NS + 2));
	assert_int_equal(disconnects, 1);
	conn_timer_cancel(&server.net.timers, &conn);
}

/* A connection that does not close keeps the server for FORCE_NS, which is logged. */
static void connections_that_stay(void **state)
{
	(void)state;
	stop(&server);
	assert_closes_at(BEGUN_NS + RESPOND_NS);
	assert_false(stopping_done(&server, BEGUN_NS + RESPOND_NS + FORCE_NS));
	assert_true(stopping_done(&server, BEGUN_NS + RESPOND_NS + FORCE_NS + 1));
	assert_logged("1 connections did not close within 5 s");
}

/* The clock and the number of keys that clients read, by the store that they are of. */
static void assert_superblock(uint64_t late_s)
{
	uint64_t clock_s = store_clock_ns(&server.store) / SECOND_NS;

	assert_in_range(superblock()->clock_s, clock_s - late_s, clock_s);
}

static int test_epoll_fd; /* of the last wait */

/* A wait of at most a second: the store's clock goes on with the loop's. */
static int test_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	test_epoll_fd = fd;
	assert_int_equal(max, EVENTS_MAX);
	if (on_wait)
		return on_wait(events, timeout_ms);
	assert_in_range(timeout_ms, 1, TICK_MS);
	if (!waits)
		assert_int_equal(superblock()->clock_s, 0);
	/* Written in the last second, or two if a wait has just ended. */
	if (waits > 1)
		assert_superblock(2);
	assert_in_range(superblock()->items, waits / 4 > 2 ? waits / 4 - 2 : 0, waits / 4);
	if (++waits % 4 == 0)
		assert_int_equal(test_store_put(&server.store, &waits, sizeof(waits), "v", 1, NULL),
				 WIRE_OK);
	/* Events come at any time, and are no reason to put a tick off. */
	if (waits % 3)
		timeout_ms = timeout_ms / 3 + 1;
	test_now += (uint64_t)timeout_ms * MS_NS;
	server.store.table.clock_base += (uint64_t)timeout_ms * MS_NS;
	if (waits == stop_after) {
		server.net.conns = NULL;
		server.drain_until_ns = server.force_until_ns = 1;
	}
	return 0;
}

/* Once a second the superblock has the clock and the number of keys, with and without events. */
static void ticks(void **state)
{
	uint64_t clock_s = store_clock_ns(&server.store) / SECOND_NS;

	(void)state;
	stop_after = 100;
	assert_int_equal(loop_run(&loop), 0);
	assert_int_equal(waits, stop_after);
	assert_in_range(superblock()->clock_s, clock_s + 50, clock_s + 100);
	assert_superblock(1);
	assert_in_range(superblock()->items, stop_after / 4 - 2, stop_after / 4);
}

static int waited_ms, wait_errno;

static int keep_timeout(struct epoll_event *events, int timeout_ms)
{
	(void)events;
	waited_ms = timeout_ms;
	errno = wait_errno;
	return wait_errno ? -1 : 0;
}

static void assert_waits(int expected_ms)
{
	assert_int_equal(loop_wait(&loop), 0);
	assert_int_equal(waited_ms, expected_ms);
}

/* A second at most; less while something ends, or systemd or a client's query waits. */
static void how_long_it_waits(void **state)
{
	(void)state;
	on_wait = keep_timeout;
	wait_errno = 0;
	assert_waits(TICK_MS);
	conn_timer_set(&server.net.timers, &conn, CONN_TIMER_FLUSH, test_now);
	assert_waits(TICK_FLUSHING_MS);
	conn_timer_cancel(&server.net.timers, &conn);
	server.drain_until_ns = 1;
	assert_waits(TICK_FLUSHING_MS);
	server.drain_until_ns = 0;
	loop.health_ns = 300 * MS_NS;
	assert_waits(300);
	loop.health_ns = 5 * SECOND_NS;
	assert_waits(TICK_MS);
	loop.health_ns = 0;
	TAILQ_INSERT_TAIL(&server.net.stats_queries, &conn, query_entry);
	assert_waits(0);
	TAILQ_REMOVE(&server.net.stats_queries, &conn, query_entry);
	wait_errno = EINTR;
	assert_int_equal(loop_wait(&loop), 0);
	wait_errno = EBADF;
	assert_int_equal(loop_wait(&loop), -EBADF);
	assert_logged("epoll_wait: Bad file descriptor; kvd stops");
	assert_int_equal(loop_run(&loop), -EBADF);
}

/* Two devices, and what was taken of the events of each. */
static struct device two_devs[2];
static struct ibv_context verbs[2];
static struct cm_channel channels[2];
static unsigned int cm_taken[2], async_taken[2];

static int cm_get_event(struct cm_channel *from, struct cm_event *event)
{
	(void)event;
	cm_taken[from - channels]++;
	return -EAGAIN;
}

static int get_async_event(struct device *from, struct device_async_event *event)
{
	(void)event;
	async_taken[from - two_devs]++;
	return -EAGAIN;
}

static void two_devices_begin(void)
{
	static const struct device_ops two_ops = { .disconnect = disconnect,
						   .cm_get_event = cm_get_event,
						   .get_async_event = get_async_event };

	server.net.nic_count = server.net.endpoint_count = 2;
	memset(cm_taken, 0, sizeof(cm_taken));
	memset(async_taken, 0, sizeof(async_taken));
	for (unsigned int i = 0; i < 2; i++) {
		verbs[i].async_fd = eventfd(0, EFD_NONBLOCK);
		two_devs[i] =
			(struct device){ .ops = &two_ops, .verbs = &verbs[i], .address = "here" };
		channels[i] = (struct cm_channel){ &two_devs[i], eventfd(0, EFD_NONBLOCK) };
		server.net.nics[i].dev = &two_devs[i];
		server.net.endpoints[i] = (struct endpoint){ .dev = &two_devs[i],
							     .nic = &server.net.nics[i],
							     .channel = &channels[i] };
	}
	assert_int_equal(mailbox_init(&server.net.mailbox), 0);
}

static void two_devices_end(void)
{
	mailbox_release(&server.net.mailbox);
	for (unsigned int i = 0; i < 2; i++) {
		close(verbs[i].async_fd);
		close(channels[i].fd);
	}
}

/* Events that were left over are taken at once, of each device, and are then no more. */
static void events_left(void **state)
{
	(void)state;
	two_devices_begin();
	on_wait = keep_timeout;
	wait_errno = 0;
	server.net.events_left = true;
	assert_waits(0);
	assert_false(server.net.events_left);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(cm_taken[i], 1);
		assert_int_equal(async_taken[i], 1);
	}
	assert_waits(TICK_MS);
	assert_int_equal(cm_taken[0], 1);
	two_devices_end();
}

/* As the kernel says. */
static int wait_real(struct epoll_event *events, int timeout_ms)
{
	(void)timeout_ms;
	return epoll_pwait(loop.epoll_fd, events, EVENTS_MAX, 0, NULL);
}

static sigset_t signals_before;

static void signals_begin(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &signals_before);
}

/* Whatever becomes readable, it is taken, and of the device whose it is. */
static void each_source(void **state)
{
	static const int numbers[] = { SIGTERM, SIGINT };
	static struct note note = { .conn = &conn, .kind = NOTE_FAILED };

	(void)state;
	two_devices_begin();
	signals_begin();
	assert_int_equal(loop_init(&loop, &server), 0);
	on_wait = wait_real;
	for (unsigned int i = 0; i < 2; i++) {
		eventfd_write(channels[i].fd, 1);
		assert_int_equal(loop_wait(&loop), 0);
		assert_int_equal(cm_taken[i], 1);
		assert_int_equal(cm_taken[!i], i);
		assert_int_equal(async_taken[i], 0);
		eventfd_read(channels[i].fd, &(eventfd_t){ 0 });
		eventfd_write(verbs[i].async_fd, 1);
		assert_int_equal(loop_wait(&loop), 0);
		assert_int_equal(async_taken[i], 1);
		assert_int_equal(async_taken[!i], i);
		eventfd_read(verbs[i].async_fd, &(eventfd_t){ 0 });
	}
	mailbox_send(&server.net.mailbox, &note);
	assert_int_equal(loop_wait(&loop), 0);
	assert_int_equal(conn.stage, CONN_FLUSHING);
	conn_timer_cancel(&server.net.timers, &conn);
	/* After a reload the server is ready again, unless it stops. */
	kill(getpid(), SIGHUP);
	assert_int_equal(loop_wait(&loop), 0);
	assert_string_equal(steps, "reloading reload READY=1 ");
	assert_false(server.net.stopping);
	for (unsigned int i = 0; i < 2; i++) {
		server.net.stopping = false;
		server.drain_until_ns = 0;
		steps[0] = '\0';
		kill(getpid(), numbers[i]);
		assert_int_equal(loop_wait(&loop), 0);
		assert_string_equal(steps, "STOPPING=1 ");
		assert_true(server.net.stopping);
		assert_true(server.drain_until_ns == BEGUN_NS + DRAIN_NS);
	}
	kill(getpid(), SIGHUP);
	assert_int_equal(loop_wait(&loop), 0);
	assert_string_equal(steps, "STOPPING=1 reloading reload ");
	loop_release(&loop);
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
	two_devices_end();
}

/* Four times in what systemd waits the workers are asked, and it is told if all are alive. */
static void watchdog(void **state)
{
	(void)state;
	two_devices_begin();
	watchdog_ns = 8 * SECOND_NS;
	assert_int_equal(loop_init(&loop, &server), 0);
	assert_true(loop.health_ns == 2 * SECOND_NS);
	alive = true;
	health_check(&loop, BEGUN_NS);
	assert_string_equal(steps, "alive? WATCHDOG=1 ");
	health_check(&loop, BEGUN_NS + 2 * SECOND_NS - 1);
	assert_string_equal(steps, "alive? WATCHDOG=1 ");
	alive = false;
	health_check(&loop, BEGUN_NS + 2 * SECOND_NS);
	assert_string_equal(steps, "alive? WATCHDOG=1 alive? ");
	loop_release(&loop);
	/* No less than it can wait, and without a watchdog never. */
	watchdog_ns = 1;
	assert_int_equal(loop_init(&loop, &server), 0);
	assert_true(loop.health_ns == 0);
	loop_release(&loop);
	watchdog_ns = 1000;
	assert_int_equal(loop_init(&loop, &server), 0);
	assert_true(loop.health_ns == MS_NS);
	loop_release(&loop);
	watchdog_ns = 0;
	assert_int_equal(loop_init(&loop, &server), 0);
	steps[0] = '\0';
	health_check(&loop, UINT64_MAX);
	assert_string_equal(steps, "");
	loop_release(&loop);
	two_devices_end();
}

static int stop_at_once(struct epoll_event *events, int timeout_ms)
{
	(void)events;
	(void)timeout_ms;
	test_step("serves ");
	server.net.conns = NULL;
	server.net.stats.connections = 0;
	server.drain_until_ns = server.force_until_ns = 1;
	return 0;
}

static int run_server(void)
{
	int err;

	server.net.conns = NULL;
	server.net.stats.connections = 0;
	server.drain_until_ns = server.force_until_ns = 0;
	server.net.stopping = server.ready = false;
	server.net.starting = true;
	steps[0] = '\0';
	/* server_run() registers the thread by itself. */
	err = server_run(&server);
	return err;
}

static bool time_goes_on;    /* with each wait */
static unsigned int filling; /* turns of the loop until all stores are there */
static int start_err;

/* The stores are made while the loop runs: then its next turn serves. */
static void fills(struct net *net)
{
	if (filling && !--filling) {
		test_step("filled ");
		net->start_err = start_err;
		net->starting = start_err != 0;
	}
}

/* A wait while the stores are made is one with signals; nothing is served. */
static int signals_while_filling(struct epoll_event *events, int timeout_ms)
{
	if (!filling)
		return stop_at_once(events, timeout_ms);
	test_step("waits ");
	if (time_goes_on)
		test_now += RESPOND_NS / 4;
	return epoll_pwait(test_epoll_fd, events, EVENTS_MAX, 0, NULL);
}

/* The loop reports when it is ready, and whatever fails, it stops what it may have started. */
static void runs_and_stops(void **state)
{
	(void)state;
	two_devices_begin();
	signals_begin();
	on_wait = signals_while_filling;
	on_manager = fills;
	start_err = 0;
	filling = 3;
	assert_int_equal(run_server(), 0);
	assert_string_equal(steps, "waits waits filled net READY=1 detached serves -net ");
	assert_logged("ready: 1 workers");
	fails = "net ";
	filling = 2;
	assert_int_equal(run_server(), -EIO);
	assert_string_equal(steps, "waits filled net -net ");
	fails = NULL;
	/* A store can't be made. */
	start_err = -ENOMEM;
	filling = 2;
	assert_int_equal(run_server(), -ENOMEM);
	assert_string_equal(steps, "waits filled -net ");
	start_err = 0;
	filling = 0;
	on_wait = keep_timeout;
	wait_errno = EBADF;
	assert_int_equal(run_server(), -EBADF);
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
	two_devices_end();
}

/* A signal ends a server whose memory is being filled; SIGHUP is taken, and it goes on. */
static void signalled_while_it_fills(void **state)
{
	static const int numbers[] = { SIGTERM, SIGINT };

	(void)state;
	two_devices_begin();
	signals_begin();
	on_wait = signals_while_filling;
	on_manager = fills;
	start_err = 0;
	for (unsigned int i = 0; i < 2; i++) {
		filling = 1000;
		server.config.server.drain_timeout = 0;
		kill(getpid(), numbers[i]);
		time_goes_on = true;
		assert_int_equal(run_server(), 0);
		time_goes_on = false;
		assert_non_null(strstr(steps, "STOPPING=1 "));
		assert_null(strstr(steps, "net READY"));
		assert_true(filling > 900);
		assert_false(server.ready);
	}
	filling = 3;
	kill(getpid(), SIGHUP);
	assert_int_equal(run_server(), 0);
	assert_string_equal(steps, "waits reload waits filled net READY=1 detached serves "
				   "-net ");
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
	two_devices_end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(goes_on),
		CASE(stops_when_asked),
		CASE(drains),
		CASE(drains_pulls),
		CASE(pulls_end),
		CASE(pulls_end_early),
		CASE(no_time_to_drain),
		CASE(told_twice),
		CASE(connections_that_stay),
		CASE(ticks),
		CASE(how_long_it_waits),
		CASE(events_left),
		CASE(each_source),
		CASE(watchdog),
		CASE(runs_and_stops),
		CASE(signalled_while_it_fills),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
