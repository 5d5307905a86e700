/* SPDX-License-Identifier: MIT */
/*
 * Tests of what becomes of a device that failed: the order in which it is left, released, looked
 * for and set up again, and what is left when one of these steps fails. The devices, addresses and
 * workers are the test's; each call of theirs is a step of a text.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/control/conn_manager.h"
#include "server/control/endpoint.h"
#include "server/worker/nic.h"
#include "server/worker/worker_loop.h"
#include "tests/support/log_fixture.h"

static char steps[512];
static const char *fails; /* the step that does */

static int step(const char *name, unsigned int number)
{
	size_t used = strlen(steps);
	char text[32];

	snprintf(text, sizeof(text), "%s%u", name, number);
	snprintf(steps + used, sizeof(steps) - used, "%s ", text);
	return fails && !strcmp(fails, text) ? -ENODEV : 0;
}

static int test_reopen(struct endpoint *endpoint);
static int test_endpoint_init(struct endpoint *endpoint);
static int test_listen(struct endpoint *endpoint);
static void test_endpoint_release(struct endpoint *endpoint);
static void test_close(struct endpoint *endpoint);
static int test_nic_open(struct nic *nic, struct device *dev, const struct config *config,
			 const char *why);
static int test_nic_init(struct nic *nic, const struct config *config);
static void test_nic_release(struct nic *nic);
static int test_poller(struct worker *worker, const struct worker_env *env, unsigned int nic);
static void test_poller_release(struct worker *worker, unsigned int nic);
static int test_tenants(struct tenants *tenants, unsigned int number);
static void test_tenants_release(struct tenants *tenants, unsigned int number);
static void test_failed(struct net *net, struct nic *nic, const char *what);

#define endpoint_reopen test_reopen
#define endpoint_init test_endpoint_init
#define endpoint_listen test_listen
#define endpoint_release test_endpoint_release
#define endpoint_close test_close
#define nic_open test_nic_open
#define nic_init test_nic_init
#define tenants_register test_tenants
#define tenants_deregister test_tenants_release
#define nic_release test_nic_release
#define worker_init_poller test_poller
#define worker_release_poller test_poller_release
#define conn_manager_device_failed test_failed
#include "server/control/recovery.c"

#define WORKERS 2
#define NOW 1000000000000ull

static struct net net;
static struct worker workers[WORKERS];
static struct device devices[3]; /* of the addresses: two of the first device, one of the other */
static struct ibv_context contexts[2];
static struct ibv_device hardware;
static struct nic *const nic = &net.nics[0];

static unsigned int number_of(const struct endpoint *endpoint)
{
	return (unsigned int)(endpoint - net.endpoints);
}

static int test_reopen(struct endpoint *endpoint)
{
	assert_null(endpoint->dev);
	if (step("open", number_of(endpoint)))
		return -ENODEV;
	endpoint->dev = &devices[number_of(endpoint)];
	return 0;
}

static int test_endpoint_init(struct endpoint *endpoint)
{
	return step("channel", number_of(endpoint));
}

static int test_listen(struct endpoint *endpoint)
{
	return step("listen", number_of(endpoint));
}

static void test_endpoint_release(struct endpoint *endpoint)
{
	step("unlisten", number_of(endpoint));
}

static void test_close(struct endpoint *endpoint)
{
	endpoint->dev = NULL;
	step("close", number_of(endpoint));
}

static int test_nic_open(struct nic *of, struct device *dev, const struct config *config,
			 const char *why)
{
	assert_ptr_equal(config, net.env.config);
	*of = (struct nic){ .dev = dev, .why = why, .kind = dev->kind };
	memcpy(of->name, dev->name, sizeof(of->name));
	return step("nic", (unsigned int)(of - net.nics));
}

static int test_nic_init(struct nic *of, const struct config *config)
{
	assert_ptr_equal(config, net.env.config);
	return step("domain", (unsigned int)(of - net.nics));
}

static int test_tenants(struct tenants *tenants, unsigned int number)
{
	assert_ptr_equal(tenants, &net.tenants);
	return step("tenants", number);
}

static void test_tenants_release(struct tenants *tenants, unsigned int number)
{
	assert_ptr_equal(tenants, &net.tenants);
	step("-tenants", number);
}

static void test_nic_release(struct nic *of)
{
	of->dev = NULL;
	step("release", (unsigned int)(of - net.nics));
}

static int test_poller(struct worker *worker, const struct worker_env *env, unsigned int number)
{
	assert_ptr_equal(env, &net.env);
	assert_int_equal(number, 0);
	return step("poller", (unsigned int)(worker - workers));
}

static void test_poller_release(struct worker *worker, unsigned int number)
{
	assert_int_equal(number, 0);
	step("unpoll", (unsigned int)(worker - workers));
}

static int test_tenants(struct tenants *tenants, unsigned int number);
static void test_tenants_release(struct tenants *tenants, unsigned int number);
static void test_failed(struct net *of, struct nic *which, const char *what)
{
	assert_ptr_equal(of, &net);
	assert_string_equal(what, "it was removed");
	which->state = NIC_CLOSING;
}

static int setup(void **state)
{
	static struct config config;

	(void)state;
	rcu_register_thread();
	rcu_thread_offline();
	memset(&net, 0, sizeof(net));
	memset(workers, 0, sizeof(workers));
	steps[0] = '\0';
	fails = NULL;
	net.env.config = &config;
	net.workers = workers;
	net.worker_count = WORKERS;
	net.nic_count = 2;
	net.endpoint_count = 3;
	for (unsigned int i = 0; i < 3; i++) {
		devices[i] = (struct device){ .kind = DEVICE_RDMA_TCP,
					      .port_number = 1,
					      .verbs = &contexts[i / 2] };
		snprintf(devices[i].name, sizeof(devices[i].name), "fake%u", i / 2);
		net.endpoints[i].dev = &devices[i];
		net.endpoints[i].nic = &net.nics[i / 2];
	}
	for (unsigned int i = 0; i < 2; i++) {
		contexts[i].device = &hardware;
		net.nics[i] = (struct nic){ .dev = &devices[2 * i],
					    .why = "why",
					    .kind = DEVICE_RDMA_TCP };
		memcpy(net.nics[i].name, devices[2 * i].name, sizeof(net.nics[i].name));
		assert_int_equal(mailbox_init(&workers[i].mailbox), 0);
	}
	snprintf(hardware.dev_path, sizeof(hardware.dev_path), "%s", test_log_dir);
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	for (unsigned int i = 0; i < WORKERS; i++) {
		assert_null(mailbox_take(&workers[i].mailbox));
		mailbox_release(&workers[i].mailbox);
	}
	rcu_thread_online();
	rcu_unregister_thread();
	return 0;
}

static void steps_are(const char *expected)
{
	assert_string_equal(steps, expected);
	steps[0] = '\0';
}

/* Each worker has this note of its poller, and no other. */
static void noted(enum note_kind kind)
{
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct note *note = mailbox_take(&workers[i].mailbox);

		assert_non_null(note);
		assert_null(note->next);
		assert_int_equal(note->kind, kind);
		assert_ptr_equal(note->poller, &workers[i].pollers[0]);
	}
}

/* Until it is away. */
static void leave(uint64_t now_ns)
{
	nic->state = NIC_CLOSING;
	assert_false(recovery_run(&net, now_ns));
	noted(NOTE_DETACH);
	nic->workers_left = 0;
	assert_false(recovery_run(&net, now_ns));
	assert_int_equal(nic->state, NIC_AWAY);
	steps[0] = '\0';
}

/* First its connections end, then the workers leave it, then it is released; not the other one. */
static void is_left(void **state)
{
	(void)state;
	nic->state = NIC_CLOSING;
	nic->conns_count = 1;
	assert_false(recovery_run(&net, NOW));
	assert_int_equal(nic->state, NIC_CLOSING);
	nic->conns_count = 0;
	assert_false(recovery_run(&net, NOW));
	assert_int_equal(nic->state, NIC_DETACHING);
	assert_int_equal(nic->workers_left, WORKERS);
	noted(NOTE_DETACH);
	nic->workers_left--;
	assert_false(recovery_run(&net, NOW));
	assert_int_equal(nic->state, NIC_DETACHING);
	steps_are("");
	nic->workers_left--;
	assert_false(recovery_run(&net, NOW));
	steps_are("unpoll0 unpoll1 unlisten0 unlisten1 -tenants0 release0 close0 close1 ");
	assert_int_equal(nic->state, NIC_AWAY);
	assert_non_null(net.nics[1].dev);
	assert_logged("device fake0 is released");
}

/* The device is looked for once a second, and set up as at the start. */
static void is_back(void **state)
{
	(void)state;
	leave(NOW);
	assert_false(recovery_run(&net, NOW + LOOK_NS - 1));
	steps_are("");
	assert_true(recovery_run(&net, NOW + LOOK_NS));
	steps_are("open0 nic0 open1 domain0 tenants0 poller0 poller1 channel0 listen0 channel1 "
		  "listen1 ");
	assert_int_equal(nic->state, NIC_SERVES);
	assert_string_equal(nic->why, "why");
	assert_false(nic->gone);
	noted(NOTE_ATTACH);
	assert_logged("device fake0 is back");
	assert_false(recovery_run(&net, NOW + LOOK_NS));
	steps_are("");
}

/* Whatever fails, all is released, and it is tried again a second later. */
static void tries_again(void **state)
{
	static const char *const all[] = { "open0",    "nic0",	  "open1",    "domain0",
					   "tenants0", "poller1", "channel0", "listen1" };
	static const char end[] = "unpoll0 unpoll1 unlisten0 unlisten1 -tenants0 release0 "
				  "close0 close1 ";
	uint64_t now_ns = NOW;

	(void)state;
	leave(now_ns);
	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		now_ns += LOOK_NS;
		fails = all[i];
		assert_false(recovery_run(&net, now_ns));
		assert_string_equal(steps + strlen(steps) - strlen(end), end);
		assert_int_equal(nic->state, NIC_AWAY);
		steps[0] = '\0';
		assert_false(recovery_run(&net, now_ns + LOOK_NS - 1));
		steps_are("");
	}
	/* One of its addresses is of another device now. */
	fails = NULL;
	devices[1].port_number = 2;
	now_ns += LOOK_NS;
	assert_false(recovery_run(&net, now_ns));
	assert_string_equal(steps + strlen(steps) - strlen(end), end);
	steps[0] = '\0';
	devices[1].port_number = 1;
	/* Or of another device altogether. */
	snprintf(devices[0].name, sizeof(devices[0].name), "other");
	now_ns += LOOK_NS;
	assert_false(recovery_run(&net, now_ns));
	steps_are("open0 unpoll0 unpoll1 unlisten0 unlisten1 -tenants0 release0 close0 close1 ");
	snprintf(devices[0].name, sizeof(devices[0].name), "fake0");
	assert_true(recovery_run(&net, now_ns + LOOK_NS));
	noted(NOTE_ATTACH);
}

/* A device that is not listed any more has failed, even if nobody says so. */
static void not_listed(void **state)
{
	(void)state;
	recovery_run(&net, NOW);
	assert_int_equal(nic->state, NIC_SERVES);
	snprintf(hardware.dev_path, sizeof(hardware.dev_path), "%s/none", test_log_dir);
	recovery_run(&net, NOW + LOOK_NS - 1);
	assert_int_equal(nic->state, NIC_SERVES);
	/* softnic has no hardware. */
	net.nics[1].kind = DEVICE_SOFTNIC;
	recovery_run(&net, NOW + LOOK_NS);
	assert_int_equal(nic->state, NIC_CLOSING);
	assert_int_equal(net.nics[1].state, NIC_SERVES);
}

/* A server that stops releases everything by itself. */
static void stopping(void **state)
{
	(void)state;
	net.stopping = true;
	nic->state = NIC_CLOSING;
	assert_false(recovery_run(&net, NOW));
	assert_int_equal(nic->state, NIC_CLOSING);
	steps_are("");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(is_left), CASE(is_back), CASE(tries_again), CASE(not_listed), CASE(stopping),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
