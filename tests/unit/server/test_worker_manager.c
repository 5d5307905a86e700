/* SPDX-License-Identifier: MIT */
/*
 * Tests of workers that come and go (server/control/worker_manager.h): what is against it, that all
 * of several come or none, in what order workers go and for what they wait, and how connections are
 * divided among those that are left.
 */
#include "server/control/worker_manager.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "server/control/conn_manager.h"
#include "server/control/session_manager.h"
#include "server/control/traces.h"
#include "server/worker/worker_loop.h"

#define WORKERS 6u
#define CONNS 12u

static struct net test_net;
static struct worker test_workers[WORKERS];
static struct config test_config;
static char steps[400], test_why[WORKERS_WHY_MAX];
static const char *fails; /* the step that fails */
static uint64_t time_ns;

static int step(const char *name, unsigned int number)
{
	char text[20];

	snprintf(text, sizeof(text), "%s%u ", name, number);
	strcat(steps, text);
	return fails && !strcmp(fails, text) ? -EMFILE : 0;
}

static void assert_steps(const char *expected)
{
	assert_string_equal(steps, expected);
	*steps = '\0';
}

static int fake_worker_init(struct worker *worker, unsigned int number)
{
	const struct poller_limits limits = { .conns_max = conns_share(&test_config,
								       test_net.env.workers) };
	int err = step("init", number);

	worker->number = number;
	if (err)
		return err;
	if (!worker->env)
		assert_int_equal(mailbox_init(&worker->mailbox), 0);
	worker->env = &test_net.env;
	worker->pollers[0] = (struct poller){ .limits = limits, .conns_fit = CONNS };
	worker->pollers[0].conns_wanted = worker->pollers[0].conns_reserved = limits.conns_max;
	return 0;
}

static int fake_worker_start(struct worker *worker)
{
	int err = step("start", worker->number);

	worker->started = !err;
	return err;
}

static void fake_worker_stop(struct worker *worker)
{
	step("stop", worker->number);
	worker->started = false;
}

#define clock_ns() time_ns
#define worker_init(worker, env, number, cpu) ((void)(cpu), fake_worker_init(worker, number))
#define worker_start fake_worker_start
#define worker_stop fake_worker_stop
#define worker_retire(worker) (void)step("retire", (worker)->number)
#define tenants_add_worker(tenants, worker) step("parts", (worker)->number)
#define tenants_rest_worker(tenants, worker) (void)step("rest", (worker)->number)
#define traces_take(net) (void)step("traces", (net)->worker_count)
#define conn_manager_close_workers(net, first) (void)step("close", first)
#define session_manager_close_workers(net, first) (void)step("cut", first)
#include "server/control/worker_manager.c"

#include "tests/support/log_fixture.h"

static bool set_to(unsigned int count)
{
	test_config.server.workers = count;
	*test_why = '\0';
	return worker_manager_set(&test_net, &test_config, test_why, sizeof(test_why));
}

static int setup(void **state)
{
	(void)state;
	memset(&test_net, 0, sizeof(test_net));
	memset(test_workers, 0, sizeof(test_workers));
	config_init(&test_config);
	test_config.server.max_connections = CONNS;
	test_net.workers = test_workers;
	test_net.env.config = &test_config;
	test_net.nic_count = 1;
	test_net.env.workers = test_net.worker_count = test_net.workers_made = 1;
	fails = NULL;
	time_ns = 1000000000ull;
	assert_int_equal(fake_worker_init(&test_workers[0], 0), 0);
	fake_worker_start(&test_workers[0]);
	*steps = '\0';
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < test_net.workers_made; i++)
		mailbox_release(&test_workers[i].mailbox);
	return 0;
}

/* What the threads of the workers do. */
static void workers_reserve(void)
{
	for (unsigned int i = 0; i < test_net.env.workers; i++)
		test_workers[i].pollers[0].conns_reserved = test_workers[i].pollers[0].conns_wanted;
}

/* WORKERS-1 */
static void obstacles(void **state)
{
	(void)state;
	assert_true(set_to(1));
	test_net.stopping = true;
	assert_false(set_to(2));
	assert_string_equal(test_why, "the server is stopping");
	test_net.stopping = false;
	test_net.command.step = COMMAND_WORKING;
	assert_false(set_to(2));
	assert_memory_equal(test_why, "a tenant is being created", 25);
	test_net.command.step = COMMAND_NONE;
	test_net.nics[0].state = NIC_DETACHING;
	assert_false(set_to(2));
	assert_memory_equal(test_why, "a device has failed", 19);
	test_net.nics[0].state = NIC_AWAY;
	test_workers[0].started = false;
	assert_false(set_to(2));
	assert_memory_equal(test_why, "the server is starting", 22);
	test_workers[0].started = true;
	assert_steps("");
	assert_true(set_to(2));
	assert_true(set_to(1));
	assert_false(set_to(3));
	assert_memory_equal(test_why, "workers are being taken away", 28);
	assert_int_equal(test_net.env.workers, 1);
}

static void come(void **state)
{
	(void)state;
	assert_true(set_to(3));
	assert_steps("init1 parts1 start1 init2 parts2 start2 ");
	assert_int_equal(test_net.worker_count, 3);
	assert_int_equal(test_net.env.workers, 3);
	assert_int_equal(test_net.workers_made, 3);
	/* The first worker has its share at once, since it lends the rest. */
	assert_int_equal(test_workers[0].pollers[0].limits.conns_max, CONNS / 3);
	assert_int_equal(test_workers[0].pollers[0].conns_wanted, CONNS / 3);
	assert_int_equal(test_workers[0].limits.workers, 3);
}

/* One that has more connections than its share keeps them. */
static void connections_stay(void **state)
{
	(void)state;
	test_workers[0].pollers[0].conns_count = 7;
	assert_true(set_to(3));
	assert_int_equal(test_workers[0].pollers[0].limits.conns_max, 7);
	assert_int_equal(test_workers[0].pollers[0].conns_wanted, 7);
}

static void all_or_none(void **state)
{
	static const struct {
		const char *fails, *steps;
		unsigned int made;
	} cases[] = {
		{ "init2 ", "init1 parts1 start1 init2 stop1 traces2 rest1 retire1 ", 2 },
		{ "parts2 ",
		  "init1 parts1 start1 init2 parts2 retire2 stop1 traces2 rest1 retire1 ", 3 },
		{ "start2 ",
		  "init1 parts1 start1 init2 parts2 start2 retire2 stop1 traces2 rest1 retire1 ",
		  3 },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fails = cases[i].fails;
		assert_false(set_to(3));
		assert_steps(cases[i].steps);
		assert_non_null(strstr(test_why, "worker 2 can't be added: Too many open files: "));
		assert_non_null(strstr(test_why, "ulimit -n"));
		assert_int_equal(test_net.worker_count, 1);
		assert_int_equal(test_net.env.workers, 1);
		assert_int_equal(test_net.workers_made, cases[i].made);
		assert_int_equal(test_workers[0].pollers[0].limits.conns_max, CONNS);
		assert_false(net_workers_leave(&test_net));
	}
	fails = NULL;
	assert_true(set_to(3));
}

/* WORKERS-5: the others have room for the connections before those are closed. */
static void go(void **state)
{
	(void)state;
	assert_true(set_to(3));
	workers_reserve();
	*steps = '\0';
	test_workers[1].pollers[0].conns_count = test_workers[2].pollers[0].conns_count = 1;
	test_net.sessions_count[2] = 1;
	assert_true(set_to(1));
	assert_int_equal(test_net.env.workers, 1);
	assert_int_equal(test_net.worker_count, 3);
	time_ns += RESPOND_NS;
	worker_manager_run(&test_net, time_ns);
	assert_steps("");
	assert_int_equal(test_workers[0].pollers[0].limits.conns_max, CONNS / 3);
	test_workers[0].pollers[0].conns_reserved = CONNS / 2;
	worker_manager_run(&test_net, time_ns);
	assert_steps("");
	assert_int_equal(test_workers[0].pollers[0].limits.conns_max, CONNS / 2);
	workers_reserve();
	worker_manager_run(&test_net, time_ns - 1);
	assert_steps("");
	worker_manager_run(&test_net, time_ns);
	assert_steps("close1 ");
	assert_int_equal(test_workers[0].pollers[0].limits.conns_max, CONNS);
	time_ns += FINISH_NS - 1;
	worker_manager_run(&test_net, time_ns);
	assert_steps("");
	worker_manager_run(&test_net, ++time_ns);
	assert_steps("cut1 ");
	test_workers[1].pollers[0].conns_count = test_workers[2].pollers[0].conns_count = 0;
	worker_manager_run(&test_net, time_ns);
	assert_steps("cut1 ");
	test_net.sessions_count[2] = 0;
	*steps = '\0';
	worker_manager_run(&test_net, time_ns);
	assert_steps("cut1 stop2 traces3 rest2 retire2 stop1 traces2 rest1 retire1 ");
	assert_int_equal(test_net.worker_count, 1);
	assert_int_equal(test_net.workers_made, 3);
	assert_false(net_workers_change(&test_net));
	worker_manager_run(&test_net, time_ns);
	assert_steps("");
}

/* A client that gives no receive back does not keep a worker. */
static void go_without_receives(void **state)
{
	(void)state;
	assert_true(set_to(3));
	workers_reserve();
	assert_true(set_to(2));
	*steps = '\0';
	time_ns += RESERVE_NS - 1;
	worker_manager_run(&test_net, time_ns);
	assert_steps("");
	worker_manager_run(&test_net, ++time_ns);
	assert_steps("close2 ");
	worker_manager_run(&test_net, time_ns);
	assert_steps("stop2 traces3 rest2 retire2 ");
	/* Later they get the connections all the same. */
	assert_true(net_workers_change(&test_net));
	workers_reserve();
	worker_manager_run(&test_net, time_ns);
	assert_int_equal(test_workers[1].pollers[0].limits.conns_max, CONNS / 2);
	assert_false(net_workers_change(&test_net));
}

static void stopping(void **state)
{
	(void)state;
	assert_true(set_to(2));
	assert_true(set_to(1));
	*steps = '\0';
	test_net.stopping = true;
	worker_manager_run(&test_net, time_ns + RESERVE_NS);
	assert_steps("");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(obstacles),   CASE(come), CASE(connections_stay),
		CASE(all_or_none), CASE(go),   CASE(go_without_receives),
		CASE(stopping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
