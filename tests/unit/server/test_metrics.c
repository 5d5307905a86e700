/* SPDX-License-Identifier: MIT */
/*
 * Tests of the metrics (server/http/metrics.h): each number is in the sample of its name and
 * labels, also for fleets and RDMA devices, which tests/system/http.sh has not; and of what the
 * control thread says of its connections (server/control/census.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/stat.h"
#include "server/config/config.h"
#include "server/http/metrics.h"
#include "server/worker/conn.h"
#include "tests/support/default_tenant.h"
#include "tests/support/store_fixture.h"

#define REGION_BYTES (8u << 20)
#define SECOND_NS 1000000000ull
#define WORKERS 2u

static struct store store;
static struct config config;
static struct net net;
static struct worker workers[WORKERS];
static struct tenant tenant;
static struct fleet fleet;
static struct census census;
static struct census_report report;
static struct gathered gathered;
static char folder[] = "/tmp/test_metrics.XXXXXX";
static char *text;

static uint64_t lines_lost(void)
{
	return 7;
}

static struct metrics_source source = {
	.net = &net,
	.fleet = &fleet,
	.fleet_name = "f",
	.devices_folder = folder,
	.log_lines_lost = lines_lost,
	.audit_lines_lost = lines_lost,
	.started_unix_ns = 1700000000500000000,
};

static int setup(void **state)
{
	(void)state;
	test_store_create(&store, REGION_BYTES, 6, 1);
	memset(&net, 0, sizeof(net));
	memset(workers, 0, sizeof(workers));
	config.server.max_connections = 99;
	net.env.config = &config;
	net.workers = workers;
	net.worker_count = net.workers_made = WORKERS;
	LIST_INIT(&net.sessions);
	default_tenant_init(&tenant, &store, workers, WORKERS);
	tenant.conns_count = 12;
	net.tenants.list[0] = &tenant;
	census_init(&census);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	census_release(&census);
	test_store_destroy(&store);
	return 0;
}

static void write_metrics(bool starts)
{
	struct exposition out = { 0 };

	census_take(&census, &net);
	census_read(&census, &report);
	metrics_write(&out, &source, &gathered, &report, starts);
	assert_false(out.failed);
	free(text);
	text = strndup(out.text, out.bytes);
	assert_non_null(text);
	free(out.text);
}

/* The sample is there once, with this value. */
static void assert_sample(const char *sample, const char *value)
{
	char line[512];
	const char *found;

	snprintf(line, sizeof(line), "\n%s %s\n", sample, value);
	found = strstr(text, line);
	if (!found)
		fail_msg("there is no sample '%s %s'", sample, value);
	snprintf(line, sizeof(line), "\n%s ", sample);
	assert_null(strstr(found + 1, line));
}

static void assert_number(const char *sample, uint64_t value)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
	assert_sample(sample, number);
}

/* Each family stands together, as its format demands. */
static void assert_families(void)
{
	char line[512];
	const char *next;

	for (const char *at = text; (at = strstr(at, "# TYPE ")); at++) {
		snprintf(line, sizeof(line), "%.*s ", (int)strcspn(at + 7, " ") + 7, at);
		next = strstr(at + 1, line);
		if (next)
			fail_msg("a family is repeated: %s", line);
	}
}

/* In seconds. */
static double uptime(void)
{
	static const char name[] = "\nkvd_uptime_seconds ";
	const char *found = strstr(text, name);

	assert_non_null(found);
	return strtod(found + sizeof(name) - 1, NULL);
}

static void of_the_server(void **state)
{
	double before;

	(void)state;
	net.stats.connections = 4;
	net.stats.connections_total = 5;
	net.stats.connections_over_limit = 6;
	net.stats.identities = 3;
	net.tenants.used = 1000;
	net.tenants.memory = 2000;
	write_metrics(true);
	assert_families();
	assert_number("kvd_log_lines_lost_total", 7);
	assert_number("kvd_audit_lines_lost_total", 7);
	assert_sample("kvd_start_time_seconds", "1700000000.5");
	before = uptime();
	source.started_ns -= 100 * SECOND_NS;
	write_metrics(true);
	assert_true(uptime() >= before + 100);
	assert_number("kvd_connections", 4);
	assert_number("kvd_connections_total", 5);
	assert_number("kvd_connections_over_limit_total", 6);
	assert_number("kvd_connections_max", 99);
	assert_number("kvd_identities", 3);
	assert_number("kvd_tenants", 1);
	assert_number("kvd_tenants_bytes", 1000);
	assert_number("kvd_tenants_max_bytes", 2000);
	assert_non_null(strstr(text, "\nprocess_open_fds "));
	assert_non_null(strstr(text, "\nprocess_resident_memory_bytes "));
	/* No store is looked at while the stores are made, and no fleet is there. */
	assert_null(strstr(text, "kvd_items"));
	assert_null(strstr(text, "kvd_fleet_epoch"));
}

static void of_stores(void **state)
{
	static uint8_t value[1000];

	(void)state;
	for (char key = 'a'; key < 'f'; key++)
		assert_int_equal(test_store_put(&store, &key, 1, value, 100, NULL), WIRE_OK);
	write_metrics(false);
	assert_families();
	assert_number("kvd_items{tenant=\"default\"}", 5);
	assert_number("kvd_inserts_total{tenant=\"default\"}", 5);
	assert_number("kvd_region_bytes{tenant=\"default\"}", store.region.bytes);
	assert_number("kvd_memory_bytes{tenant=\"default\",part=\"item_slabs\"}", SLAB_BYTES_MIN);
	assert_number("kvd_tenant_connections{tenant=\"default\"}", 12);
	assert_sample("kvd_eviction_info{tenant=\"default\",policy=\"none\"}", "1");
	assert_null(strstr(text, "kvd_evictions_youngest_seconds{"));
	assert_number("kvd_index_bytes{tenant=\"default\"}", 64 * BUCKET_BYTES);
	/* A job has it: nobody may look at its store. */
	tenant.state = TENANT_WORKING;
	tenant.now.store = NULL;
	write_metrics(false);
	assert_null(strstr(text, "kvd_items{"));
}

#define COMMAND(command, status, front)                                                            \
	"command=\"" command "\",status=\"" status "\",front=\"" front "\""

static void of_workers(void **state)
{
	struct turn turn = { .began_ns = 1, .completions = 9, .batched = 8 };

	(void)state;
	workers[0].commands.of[FRONT_SOFTNIC][WIRE_PUT][WIRE_OK] = 3;
	workers[1].commands.of[FRONT_SOFTNIC][WIRE_PUT][WIRE_OK] = 4;
	workers[1].commands.of[FRONT_MEMCACHED][WIRE_DELETE][WIRE_NOT_FOUND] = 5;
	workers[1].stats.requests = 6;
	workers[0].stats.pull_bytes = 7;
	workers[0].held.windows = 8;
	workers[1].part.commands.get_hits = 9;
	workers[1].part.commands.bytes_read = 10;
	tenant.pull_budget.all.passed = 1000;
	turn_end(&turn, &workers[1].turns, 1 + 3000);
	turn = (struct turn){ .began_ns = 1 };
	turn_end(&turn, &workers[1].turns, 1 + 20000000);
	write_metrics(false);
	assert_families();
	assert_number("kvd_commands_total{" COMMAND("put", "ok", "softnic") "}", 7);
	assert_number("kvd_commands_total{" COMMAND("put", "ok", "rdma") "}", 0);
	assert_number("kvd_commands_total{" COMMAND("put", "no_space", "rdma") "}", 0);
	assert_number("kvd_commands_total{" COMMAND("delete", "not_found", "memcached") "}", 5);
	/* What is 0 has no series, but for the commands of keys that are OK. */
	assert_null(strstr(text, COMMAND("delete", "not_found", "rdma")));
	assert_null(strstr(text, "command=\"ping\""));
	assert_number("kvd_requests_total", 6);
	assert_number("kvd_worker_requests_total{worker=\"1\"}", 6);
	assert_number("kvd_pull_bytes_total", 7);
	assert_number("kvd_held_windows", 8);
	assert_number("kvd_held_pull_bytes", 1000);
	assert_number("kvd_memcached_commands_total{command=\"get\",status=\"hit\"}", 9);
	assert_number("kvd_memcached_bytes_read_total", 10);
	assert_number("kvd_worker_turn_seconds_bucket{worker=\"1\",le=\"0.000001\"}", 0);
	assert_number("kvd_worker_turn_seconds_bucket{worker=\"1\",le=\"0.000004\"}", 1);
	assert_number("kvd_worker_turn_seconds_bucket{worker=\"1\",le=\"0.016\"}", 1);
	assert_number("kvd_worker_turn_seconds_bucket{worker=\"1\",le=\"+Inf\"}", 2);
	assert_number("kvd_worker_turn_seconds_count{worker=\"0\"}", 0);
	assert_sample("kvd_worker_turn_seconds_sum{worker=\"1\"}", "0.020003");
	assert_sample("kvd_worker_turn_max_seconds{worker=\"1\"}", "0.02");
	assert_number("kvd_worker_turn_completions_max{worker=\"1\"}", 9);
}

static void of_a_fleet(void **state)
{
	struct fleet_head head = { .epoch = 5, .members = 3, .name = "blue" };
	struct fleet_map map = { .head = &head };
	struct fleet_view view = { .map = &map, .shards = 77 };

	(void)state;
	fleet.view = &view;
	memcpy(fleet.id, "me", 3);
	write_metrics(false);
	fleet = (struct fleet){ 0 };
	assert_sample("kvd_fleet_info{fleet=\"blue\",member=\"me\"}", "1");
	assert_number("kvd_fleet_epoch", 5);
	assert_number("kvd_fleet_members", 3);
	assert_number("kvd_fleet_shards_served", 77);
	assert_sample("kvd_fleet_move_info{state=\"idle\",to=\"\"}", "1");
	assert_null(strstr(text, "kvd_fleet_lease_seconds"));
}

void __wrap_membership_thread_status(struct membership_thread *thread,
				     struct membership_status *status, uint64_t *now_ns);
void __wrap_membership_thread_status(struct membership_thread *thread,
				     struct membership_status *status, uint64_t *now_ns)
{
	(void)thread;
	*now_ns = 1;
	*status = (struct membership_status){
		.end_ns = 1700000001,
		.moves_left = 700,
		.moved = 1024,
		.moves_failed = 3,
		.move_to = "twenty-four-letters-long",
		.move_state = "copies",
		.waits = "etcd is away",
		.controller = true,
	};
}

static void of_a_fleet_in_etcd(void **state)
{
	(void)state;
	source.membership = (struct membership_thread *)&fleet;
	write_metrics(false);
	source.membership = NULL;
	assert_families();
	assert_sample("kvd_fleet_info{fleet=\"f\",member=\"\"}", "1");
	assert_sample("kvd_fleet_lease_seconds", "1.7");
	assert_number("kvd_fleet_moves_left", 700);
	assert_number("kvd_fleet_moved_shards_total", 1024);
	assert_number("kvd_fleet_moves_failed_total", 3);
	assert_number("kvd_fleet_waiting", 1);
	assert_number("kvd_fleet_controller", 1);
	assert_sample("kvd_fleet_move_info{state=\"copies\",to=\"twenty-four-letters-long\"}", "1");
}

static void file_write(const char *path, const char *content)
{
	char name[256];
	FILE *file;

	snprintf(name, sizeof(name), "%s/%s", folder, path);
	file = fopen(name, "we");
	assert_non_null(file);
	fputs(content, file);
	fclose(file);
}

static void folder_make(const char *path)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", folder, path);
	assert_int_equal(mkdir(name, 0700), 0);
}

/* Two ports of one RDMA device: each counter once; what is no number is none. */
static void of_devices(void **state)
{
	char command[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	folder_make("mlx9");
	folder_make("mlx9/ports");
	folder_make("mlx9/ports/1");
	folder_make("mlx9/ports/1/counters");
	folder_make("mlx9/ports/1/hw_counters");
	folder_make("mlx9/ports/2");
	folder_make("mlx9/ports/2/counters");
	file_write("mlx9/ports/1/counters/port_xmit_data", "1234\n");
	file_write("mlx9/ports/1/hw_counters/out_of_sequence", "5\n");
	file_write("mlx9/ports/2/counters/port_xmit_data", "18446744073709551615\n");
	file_write("mlx9/ports/2/counters/link", "N/A (no PMA)\n");
	net.nic_count = 3;
	for (unsigned int i = 0; i < 3; i++) {
		net.nics[i] = (struct nic){
			.kind = i < 2 ? DEVICE_RDMA : DEVICE_SOFTNIC,
			.state = i == 1 ? NIC_AWAY : NIC_SERVES,
			.windows = !i,
		};
		strcpy(net.nics[i].name, i < 2 ? "mlx9" : "softnic");
		snprintf(net.nics[i].address, sizeof(net.nics[i].address), "at %u", i);
	}
	write_metrics(true);
	assert_families();
	assert_sample("kvd_device_info{device=\"mlx9\",address=\"at 0\",kind=\"rdma\","
		      "windows=\"yes\"}",
		      "1");
	assert_number("kvd_device_up{device=\"mlx9\",address=\"at 0\"}", 1);
	assert_number("kvd_device_up{device=\"mlx9\",address=\"at 1\"}", 0);
	assert_number("kvd_device_up{device=\"softnic\",address=\"at 2\"}", 1);
	assert_number("kvd_device_port_counter_total{device=\"mlx9\",port=\"1\","
		      "counter=\"port_xmit_data\"}",
		      1234);
	assert_number("kvd_device_port_counter_total{device=\"mlx9\",port=\"1\","
		      "counter=\"out_of_sequence\"}",
		      5);
	assert_number("kvd_device_port_counter_total{device=\"mlx9\",port=\"2\","
		      "counter=\"port_xmit_data\"}",
		      UINT64_MAX);
	assert_null(strstr(text, "counter=\"link\""));
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

/* The users with the most connections are named, and the connections of all are there. */
static void of_users(void **state)
{
	enum { USERS = CENSUS_USERS_MAX + 8, CONNS = USERS * (USERS + 1) / 2 + 2 };
	static struct user list[USERS];
	static char names[USERS][8];
	static struct users users = { .list = list, .count = USERS };
	static struct conn conns[CONNS];
	char sample[128];
	unsigned int at = 0;

	(void)state;
	memset(conns, 0, sizeof(conns));
	/* User i has i + 1 connections; they are added in an order that is not sorted. */
	for (unsigned int i = 0; i < USERS; i++) {
		snprintf(names[i], sizeof(names[i]), "u%u", i);
		list[i].name = names[i];
		for (unsigned int k = 0; k <= (i * 7) % USERS; k++)
			atomic_store(&conns[at++].client.user, &list[(i * 7) % USERS]);
	}
	/* One that has to give a password, and one without a user. */
	atomic_store(&conns[at++].client.user, &user_unauthenticated);
	at++;
	assert_int_equal(at, CONNS);
	for (unsigned int i = 0; i < CONNS; i++) {
		conns[i].client.users = &users;
		conns[i].client.kind = i % 2 ? DEVICE_SOFTNIC : DEVICE_RDMA_TLS;
		conns[i].next = i + 1 < CONNS ? &conns[i + 1] : NULL;
	}
	net.conns = conns;
	net.users = &users;
	write_metrics(true);
	assert_families();
	for (unsigned int i = USERS - CENSUS_USERS_MAX; i < USERS; i++) {
		snprintf(sample, sizeof(sample), "kvd_user_connections{user=\"u%u\"}", i);
		assert_number(sample, i + 1);
	}
	assert_number("kvd_user_connections{user=\"\"}", 8 * 9 / 2 + 2);
	assert_null(strstr(text, "user=\"u7\""));
	assert_number("kvd_connections_by_way{way=\"softnic\"}", CONNS / 2);
	assert_number("kvd_connections_by_way{way=\"rdma+tls\"}", CONNS - CONNS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_the_server, setup, teardown),
		cmocka_unit_test_setup_teardown(of_stores, setup, teardown),
		cmocka_unit_test_setup_teardown(of_workers, setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_fleet, setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_fleet_in_etcd, setup, teardown),
		cmocka_unit_test_setup_teardown(of_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(of_users, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
