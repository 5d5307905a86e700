/* SPDX-License-Identifier: MIT */
/*
 * Tests of how devices and workers are set up together, started, asked whether they are alive, and
 * released (server/control/net.h). The module is compiled here; devices and workers are functions
 * that keep what was called.
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

#include "common/util/cpu.h"
#include "server/control/net.h"
#include "server/control/nic_address.h"
#include "server/worker/worker_loop.h"
#include "tests/support/log_fixture.h"
#include "tests/support/users_file.h"

#define WORKERS 3u

static char steps[400];
static const char *fails; /* the step that fails, or NULL */
static uint32_t devices;
static struct net test_net;
static struct config test_config;
static struct store test_store;
static bool warned;
static int cpus[WORKERS];
static unsigned int tcp_number;

/* Appends e.g. "open0 " */
static int step(const char *what, unsigned int number)
{
	char text[32];

	snprintf(text, sizeof(text), "%s%u ", what, number);
	assert_true(strlen(steps) + strlen(text) < sizeof(steps));
	strcat(steps, text);
	return fails && !strcmp(text, fails) ? -EIO : 0;
}

/* 0 verbs, 1 softnic, 2 rdma+tcp on the same RDMA device as verbs, 3 on another */
static unsigned int number_of(enum device_kind kind)
{
	return kind == DEVICE_SOFTNIC ? 1 : kind == DEVICE_RDMA ? 0 : tcp_number;
}

static void fake_addresses(struct nic_addresses *list, const struct config *of)
{
	static const enum device_kind kinds[] = { DEVICE_RDMA, DEVICE_RDMA_TCP, DEVICE_SOFTNIC };

	assert_ptr_equal(of, &test_config);
	*list = (struct nic_addresses){ .why = "the test says so" };
	for (unsigned int i = 0; i < 3; i++)
		if (devices & kinds[i])
			list->addr[list->count++].kind = kinds[i];
}

static int fake_address_check(const struct config *of, const struct device_addr *addr, bool warn)
{
	assert_ptr_equal(of, &test_config);
	warned = warn;
	return step("check", number_of(addr->kind));
}

static int fake_endpoint_open(struct endpoint *endpoint, const struct device_addr *addr,
			      const struct config *of)
{
	static struct device devs[] = {
		{ .kind = DEVICE_RDMA, .name = "mlx5_0", .port_number = 1 },
		{ .kind = DEVICE_SOFTNIC, .name = "softnic" },
		{ .kind = DEVICE_RDMA_TCP, .name = "mlx5_0", .port_number = 1 },
		{ .kind = DEVICE_RDMA_TCP, .name = "mlx5_0", .port_number = 2 }
	};

	assert_ptr_equal(of, &test_config);
	assert_ptr_equal(endpoint, &test_net.endpoints[test_net.endpoint_count]);
	*endpoint = (struct endpoint){ .dev = &devs[number_of(addr->kind)] };
	return step("bind", number_of(addr->kind));
}

static unsigned int endpoint_number(const struct endpoint *endpoint)
{
	return (unsigned int)(endpoint - test_net.endpoints);
}

static int fake_endpoint_init(struct endpoint *endpoint)
{
	return step("channel", endpoint_number(endpoint));
}

static int fake_endpoint_listen(struct endpoint *endpoint)
{
	return step("listen", endpoint_number(endpoint));
}

static void fake_endpoint_release(struct endpoint *endpoint)
{
	step("-listen", endpoint_number(endpoint));
}

static void fake_endpoint_close(struct endpoint *endpoint)
{
	step("-bind", endpoint_number(endpoint));
}

static int fake_nic_open(struct nic *nic, struct device *dev, const struct config *of,
			 const char *why)
{
	(void)of;
	assert_string_equal(why, "the test says so");
	assert_ptr_equal(nic, &test_net.nics[test_net.nic_count]);
	nic->dev = dev;
	return step("open", number_of(dev->kind));
}

static int fake_nic_init(struct nic *nic, const struct config *of)
{
	assert_ptr_equal(of, &test_config);
	return step("nic", (unsigned int)(nic - test_net.nics));
}

static void fake_nic_release(struct nic *nic)
{
	step("-nic", (unsigned int)(nic - test_net.nics));
}

static int fake_worker_init(struct worker *worker, const struct worker_env *env,
			    unsigned int number, int cpu)
{
	assert_ptr_equal(worker, &test_net.workers[number]);
	assert_ptr_equal(env, &test_net.env);
	assert_ptr_equal(env->control, &test_net.mailbox);
	assert_ptr_equal(env->nics, test_net.nics);
	assert_int_equal(env->nic_count, test_net.nic_count);
	assert_int_equal(env->workers, WORKERS);
	cpus[number] = cpu;
	if (mailbox_init(&worker->mailbox))
		return -EIO;
	return step("worker", number);
}

static void fake_worker_release(struct worker *worker)
{
	if (worker->mailbox.last)
		mailbox_release(&worker->mailbox);
	step("-worker", (unsigned int)(worker - test_net.workers));
}

static int fake_worker_start(struct worker *worker)
{
	return step("start", (unsigned int)(worker - test_net.workers));
}

static void fake_worker_stop(struct worker *worker)
{
	step("stop", (unsigned int)(worker - test_net.workers));
}

static int fake_cpu_number(unsigned int n)
{
	return 10 + (int)n;
}

static bool tenants_made;

static int fake_tenants_init(struct tenants *tenants, const struct worker_env *env,
			     struct worker *workers)
{
	assert_ptr_equal(tenants, &test_net.tenants);
	assert_ptr_equal(env, &test_net.env);
	assert_ptr_equal(workers, test_net.workers);
	tenants_made = true;
	return step("tenants", 0);
}

static void fake_tenants_release(struct tenants *tenants)
{
	assert_ptr_equal(tenants, &test_net.tenants);
	if (tenants_made)
		step("-tenants", 0);
	tenants_made = false;
}

static void fake_tenants_stop(struct tenants *tenants)
{
	(void)tenants;
	step("tenants-stop", 0);
}

#define nic_addresses(list, of) fake_addresses(list, of)
#define nic_address_check fake_address_check
#define endpoint_open fake_endpoint_open
#define endpoint_init fake_endpoint_init
#define endpoint_listen fake_endpoint_listen
#define endpoint_release fake_endpoint_release
#define endpoint_close fake_endpoint_close
#define nic_open fake_nic_open
#define nic_init fake_nic_init
#define nic_release fake_nic_release
#define worker_init fake_worker_init
#define worker_release fake_worker_release
#define worker_start fake_worker_start
#define worker_stop fake_worker_stop
#define cpu_number fake_cpu_number
#define tenants_init fake_tenants_init
#define tenants_release fake_tenants_release
#define tenants_stop fake_tenants_stop
#include "server/control/net.c"

static const struct worker_env env = { .config = &test_config, .store = &test_store };

static int setup(void **state)
{
	(void)state;
	memset(&test_net, 0, sizeof(test_net));
	memset(steps, 0, sizeof(steps));
	fails = NULL;
	config_init(&test_config);
	test_config.server.workers = WORKERS;
	devices = DEVICE_RDMA | DEVICE_SOFTNIC;
	tcp_number = 2;
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	return 0;
}

static void assert_steps(const char *expected)
{
	assert_string_equal(steps, expected);
	memset(steps, 0, sizeof(steps));
}

/* All addresses are checked, whatever is wrong with the first. */
static void checks_every_address(void **state)
{
	(void)state;
	assert_int_equal(net_check(&test_config, false), 0);
	assert_false(warned);
	assert_steps("check0 check1 ");
	fails = "check0 ";
	assert_int_equal(net_check(&test_config, true), -EIO);
	assert_true(warned);
	assert_steps("check0 check1 ");
	fails = "check1 ";
	assert_int_equal(net_check(&test_config, true), -EIO);
	fails = NULL;
	memset(steps, 0, sizeof(steps));
	devices = DEVICE_SOFTNIC;
	assert_int_equal(net_check(&test_config, true), 0);
	assert_steps("check1 ");
}

static void users_write(const char *text)
{
	snprintf(test_config.users.file, sizeof(test_config.users.file), "%s/users", test_log_dir);
	users_file_write(test_config.users.file, text, 0600);
}

/* Users whose memory is more than there is: seen before anything is made. */
static void checks_users(void **state)
{
	(void)state;
	users_write("[user alice]\nuid = 1\nrights = all\nmemory = 16m\n");
	test_config.tenants.memory = 16 << 20;
	assert_int_equal(net_check(&test_config, false), 0);
	test_config.tenants.memory--;
	assert_int_equal(net_check(&test_config, false), -EINVAL);
	assert_logged("need 16 MiB of memory, and tenants.memory is 15.9 MiB");
	unlink(test_config.users.file);
}

/* With a device of each kind or one of either, and workers on their CPUs. */
static void sets_all_up(void **state)
{
	static const struct {
		uint32_t chosen;
		unsigned int tcp;
		const char *opened, *made, *started, *released;
	} cases[] = {
		{ DEVICE_RDMA, 2, "bind0 open0 ", "nic0 channel0 ", "listen0 ",
		  "-listen0 -nic0 -bind0 " },
		{ DEVICE_SOFTNIC, 2, "bind1 open1 ", "nic0 channel0 ", "listen0 ",
		  "-listen0 -nic0 -bind0 " },
		{ DEVICE_RDMA | DEVICE_SOFTNIC, 2, "bind0 open0 bind1 open1 ",
		  "nic0 nic1 channel0 channel1 ", "listen0 listen1 ",
		  "-listen0 -listen1 -nic1 -nic0 -bind1 -bind0 " },
		/* Two ways to connect to one RDMA device, */
		{ DEVICE_RDMA | DEVICE_RDMA_TCP, 2, "bind0 open0 bind2 ", "nic0 channel0 channel1 ",
		  "listen0 listen1 ", "-listen0 -listen1 -nic0 -bind1 -bind0 " },
		/* and to two ports of it. */
		{ DEVICE_RDMA | DEVICE_RDMA_TCP, 3, "bind0 open0 bind3 open3 ",
		  "nic0 nic1 channel0 channel1 ", "listen0 listen1 ",
		  "-listen0 -listen1 -nic1 -nic0 -bind1 -bind0 " },
	};
	char expected[200];

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		devices = cases[i].chosen;
		tcp_number = cases[i].tcp;
		test_config.server.pin = i != 1;
		assert_int_equal(net_open(&test_net, &test_config), 0);
		assert_steps(cases[i].opened);
		assert_int_equal(net_init(&test_net, &env), 0);
		snprintf(expected, sizeof(expected), "%sworker0 worker1 worker2 tenants0 ",
			 cases[i].made);
		assert_steps(expected);
		assert_int_equal(test_net.worker_count, WORKERS);
		/* The tenants' stores are made later. */
		assert_true(test_net.starting);
		assert_ptr_equal(test_net.env.cancel, &test_net.jobs.cancels);
		for (unsigned int n = 0; n < WORKERS; n++)
			assert_int_equal(cpus[n], i != 1 ? 10 + (int)n : -1);
		assert_ptr_equal(test_net.endpoints[0].nic, &test_net.nics[0]);
		if (test_net.endpoint_count > 1)
			assert_ptr_equal(test_net.endpoints[1].nic,
					 &test_net.nics[test_net.nic_count - 1]);
		/* Room for every connection, and for administrators' beyond those. */
		assert_true(test_net.registry.count >=
			    test_config.server.max_connections + ADMIN_CONNECTIONS);
		assert_int_equal(test_net.identities.max, test_config.limits.identities);
		assert_true(test_net.identities.keep_ns == test_config.server.identity_time);
		/* A client that connects meets workers that run. */
		assert_int_equal(net_start(&test_net), 0);
		snprintf(expected, sizeof(expected), "start0 start1 start2 %s", cases[i].started);
		assert_steps(expected);
		net_stop(&test_net);
		assert_steps("stop0 stop1 stop2 tenants-stop0 ");
		net_release(&test_net);
		snprintf(expected, sizeof(expected), "-tenants0 -worker0 -worker1 -worker2 %s",
			 cases[i].released);
		assert_steps(expected);
		/* Nothing is released twice. */
		net_release(&test_net);
		assert_steps("");
	}
}

/* Whatever fails, no later step is made, and what was made before it is released. */
static void a_step_fails(void **state)
{
	static const char *const each[] = { "bind0 ",	"open0 ",   "bind1 ",	 "open1 ",
					    "nic0 ",	"nic1 ",    "channel0 ", "channel1 ",
					    "worker0 ", "worker1 ", "worker2 ",	 "tenants0 " };
	static const char *const released[] = {
		"",
		"-listen0 -bind0 ",
		"-listen0 -nic0 -bind0 ",
		"-listen0 -listen1 -nic0 -bind1 -bind0 ",
	};
	char before[200] = "", expected[200];

	(void)state;
	for (unsigned int i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		memset(&test_net, 0, sizeof(test_net));
		memset(steps, 0, sizeof(steps));
		fails = each[i];
		if (i < 4)
			assert_int_equal(net_open(&test_net, &test_config), -EIO);
		else
			assert_int_equal(net_open(&test_net, &test_config) ?:
						 net_init(&test_net, &env),
					 -EIO);
		strcat(before, each[i]);
		assert_steps(before);
		net_release(&test_net);
		/* What could not be opened has released itself. */
		snprintf(expected, sizeof(expected), "%s%s%s", i < 11 ? "" : "-tenants0 ",
			 i < 8 ? "" : "-worker0 -worker1 -worker2 ",
			 i < 4 ? released[i] : "-listen0 -listen1 -nic1 -nic0 -bind1 -bind0 ");
		assert_steps(expected);
		assert_int_equal(test_net.nic_count, 0);
		assert_int_equal(test_net.endpoint_count, 0);
		assert_null(test_net.workers);
	}
}

static void a_start_fails(void **state)
{
	(void)state;
	assert_int_equal(net_open(&test_net, &test_config), 0);
	assert_int_equal(net_init(&test_net, &env), 0);
	memset(steps, 0, sizeof(steps));
	fails = "start1 ";
	assert_int_equal(net_start(&test_net), -EIO);
	assert_steps("start0 start1 ");
	fails = "listen0 ";
	assert_int_equal(net_start(&test_net), -EIO);
	assert_steps("start0 start1 start2 listen0 ");
	net_release(&test_net);
}

/* A worker that has not looked at its mail since it was last asked is stuck, and named. */
static void stuck_workers(void **state)
{
	(void)state;
	assert_int_equal(net_open(&test_net, &test_config), 0);
	assert_int_equal(net_init(&test_net, &env), 0);
	assert_true(net_alive(&test_net));
	assert_int_equal(test_log_lines(), 0);
	for (unsigned int turn = 0; turn < 2; turn++) {
		/* All of them were woken, or those that sleep would look stuck. */
		for (unsigned int i = 0; i < WORKERS; i++) {
			assert_true(mailbox_pending(&test_net.workers[i].mailbox));
			if (i != turn)
				mailbox_take(&test_net.workers[i].mailbox);
		}
		assert_int_equal(test_log_begin(), 0);
		assert_false(net_alive(&test_net));
		assert_int_equal(test_log_lines(), 1);
		assert_logged(turn ? "worker 1 has not finished a turn" :
				     "worker 0 has not finished a turn");
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		mailbox_take(&test_net.workers[i].mailbox);
	assert_true(net_alive(&test_net));
	/* For as long as it is. */
	for (unsigned int i = 0; i < 3; i++)
		assert_false(net_alive(&test_net));
	net_release(&test_net);
}

static int renewed, renew_err;

static int fake_renew(struct device *dev, const struct tls_files *files, char *why)
{
	assert_int_equal(dev->kind, DEVICE_RDMA_TLS);
	assert_string_equal(files->psk, "/etc/kvd/keys");
	renewed++;
	snprintf(why, TLS_WHY_MAX, "the file says nothing");
	return renew_err;
}

/*
 * Devices with credentials read them again, each of them whatever becomes of another, and one that
 * is away does when it is back.
 */
static void renews_credentials(void **state)
{
	const struct device_ops none = { .name = "verbs" }, some = { .renew = fake_renew };
	struct device tls = { .kind = DEVICE_RDMA_TLS, .ops = &some, .address = "10.9.0.1:7473" };
	struct device other = { .kind = DEVICE_RDMA_TLS, .ops = &some, .address = "10.9.0.2:1" };
	struct device verbs = { .kind = DEVICE_RDMA, .ops = &none };

	(void)state;
	test_net.env.config = &test_config;
	strcpy(test_config.tls.psk, "/etc/kvd/keys");
	test_net.endpoints[0].dev = &verbs;
	test_net.endpoints[2].dev = &tls;
	test_net.endpoints[3].dev = &other;
	test_net.endpoint_count = 4;
	assert_int_equal(test_log_begin(), 0);
	net_renew(&test_net);
	assert_int_equal(renewed, 2);
	assert_logged("rdma+tls://10.9.0.1:7473: the files of [tls] were read again");
	renew_err = -EINVAL;
	assert_int_equal(test_log_begin(), 0);
	net_renew(&test_net);
	assert_int_equal(renewed, 4);
	assert_int_equal(test_log_lines(), 2);
	assert_logged("rdma+tls://10.9.0.1:7473: [tls] stays as it was: the file says nothing");
	memset(&test_net, 0, sizeof(test_net));
	*test_config.tls.psk = '\0';
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(checks_every_address), CASE(checks_users),	 CASE(sets_all_up),
		CASE(a_step_fails),	    CASE(a_start_fails), CASE(stuck_workers),
		CASE(renews_credentials),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
