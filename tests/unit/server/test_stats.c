/* SPDX-License-Identifier: MIT */
/*
 * Tests of the statistics that operators read (server/stats.h): each counter is in the line of its
 * name, those of the workers are added up, and a text that is too small has whole lines. The module
 * is compiled here, with CPU times of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/worker/worker_loop.h"

static uint64_t test_cpu_ns(const struct worker *worker);
static uint64_t test_lines_lost(void);
static uint64_t test_audit_lost(void);

#define worker_cpu_ns test_cpu_ns
#define log_writer_lost test_lines_lost
#define audit_file_lost test_audit_lost
#include "server/stats.c"
#undef worker_cpu_ns
#undef log_writer_lost
#undef audit_file_lost

#include "tests/support/default_tenant.h"
#include "tests/support/store_fixture.h"

#define REGION_BYTES (8u << 20)
#define WORKERS 2u
#define TEXT_BYTES (64u << 10)
#define SECOND_NS 1000000000ull

static struct store store;
static struct net net;
static struct worker workers[WORKERS];
static struct device devices[2] = {
	{ .kind = DEVICE_RDMA, .name = "mlx9", .address = "10.9.0.1:7471" },
	{ .kind = DEVICE_SOFTNIC, .name = "softnic", .address = "/run/kvd.sock" },
};
static struct fleet fleet;
static struct stats_source source = { .net = &net, .fleet = &fleet };
static struct tenant tenant;
static char text[TEXT_BYTES + 1];
static uint64_t cpu_ns[WORKERS];

static uint64_t test_cpu_ns(const struct worker *worker)
{
	return cpu_ns[worker - workers];
}

static uint64_t test_lines_lost(void)
{
	return 7;
}

static uint64_t test_audit_lost(void)
{
	return 8;
}

static int setup(void **state)
{
	(void)state;
	test_store_create(&store, REGION_BYTES, 6, 1);
	memset(&net, 0, sizeof(net));
	memset(workers, 0, sizeof(workers));
	memset(cpu_ns, 0, sizeof(cpu_ns));
	net.workers = workers;
	net.worker_count = net.workers_made = WORKERS;
	net.env.store = &store;
	default_tenant_init(&tenant, &store, workers, WORKERS);
	net.tenants.list[0] = &tenant;
	net.nic_count = 2;
	for (unsigned int i = 0; i < 2; i++) {
		net.nics[i] = (struct nic){
			.dev = &devices[i],
			.why = i ? "because" : "asked",
			.windows = !i,
			.state = i ? NIC_AWAY : NIC_SERVES,
			.kind = devices[i].kind,
		};
		memcpy(net.nics[i].name, devices[i].name, sizeof(devices[i].name));
		memcpy(net.nics[i].address, devices[i].address, sizeof(devices[i].address));
	}
	source.started_ns = clock_ns();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_store_destroy(&store);
	return 0;
}

static const struct principal *viewer;

static void print(void)
{
	uint32_t bytes = stats_print(&source, &tenant, viewer, text, TEXT_BYTES);

	assert_true(bytes <= TEXT_BYTES);
	text[bytes] = '\0';
}

static const char *line_of(const char *name);

/* When they are due, for all; whose they are, for an administrator and the owner. */
static void flushes_that_wait(void **state)
{
	static const struct principal one = { "user=one" }, other = { "user=other" };
	struct maintenance *maintenance = &store.maintenance;

	(void)state;
	maintenance->table = &store.table;
	print();
	assert_string_equal(line_of("flushes_waiting"), "0");
	maintenance_flush(maintenance, store_clock_ns(&store), 100000, one.name);
	maintenance_flush(maintenance, store_clock_ns(&store), 200000, other.name);
	for (unsigned int i = 0; i < 3; i++) {
		viewer = i == 1 ? &one : i ? &other : NULL;
		print();
		assert_string_equal(line_of("flushes_waiting"), "2");
		assert_in_range(atoll(line_of("flush.1.due_in_s")), 90000, 100000);
		assert_in_range(atoll(line_of("flush.2.due_in_s")), 190000, 200000);
		if (viewer != &other)
			assert_string_equal(line_of("flush.1.owner"), "user=one");
		if (viewer != &one)
			assert_string_equal(line_of("flush.2.owner"), "user=other");
		assert_int_equal(!strstr(text, "user=one"), viewer == &other);
		assert_int_equal(!strstr(text, "user=other"), viewer == &one);
	}
	viewer = NULL;
	memset(maintenance, 0, sizeof(*maintenance));
}

/* What stands in the line of that name, which is there once. */
static const char *line_of(const char *name)
{
	static char value[LINE_MAX_BYTES];
	size_t length = strlen(name);
	const char *at = text, *found = NULL;

	while (*at) {
		if (!strncmp(at, name, length) && at[length] == ' ') {
			assert_null(found);
			found = at + length + 1;
		}
		at = strchr(at, '\n') + 1;
	}
	if (!found)
		fail_msg("there is no line %s", name);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(found, "\n"), found);
	return value;
}

static uint64_t number_of(const char *name)
{
	return strtoull(line_of(name), NULL, 10);
}

static void assert_number(const char *name, uint64_t expected)
{
	if (number_of(name) != expected)
		fail_msg("%s is %s and not %llu", name, line_of(name),
			 (unsigned long long)expected);
}

/* Each counter of the workers has another value, and the line has their sum. */
static void sums_of_workers(void **state)
{
	uint64_t n = 0;

	(void)state;
#define X(name, help)                                                                              \
	n++;                                                                                       \
	stat_set(&workers[0].stats.name, n);                                                       \
	stat_set(&workers[1].stats.name, 1000 * n);
	WORKER_STATS(X)
#undef X
#define X(name, help)                                                                              \
	n++;                                                                                       \
	stat_set(&workers[0].held.name, n);                                                        \
	stat_set(&workers[1].held.name, 1000 * n);
	HELD_STATS(X)
#undef X
#define X(name, help)                                                                              \
	n++;                                                                                       \
	stat_set(&workers[0].part.commands.name, n);                                               \
	stat_set(&workers[1].part.commands.name, 1000 * n);
	MC_COUNTERS(X)
#undef X
#define X(name, help) stat_set(&net.stats.name, ++n);
	NET_STATS(X)
#undef X
	print();
	n = 0;
#define X(name, help) assert_number(#name, 1001 * ++n);
	WORKER_STATS(X)
#undef X
#define X(name, help) assert_number("held." #name, 1001 * ++n);
	HELD_STATS(X)
#undef X
#define X(name, help) assert_number("memcached." #name, 1001 * ++n);
	MC_COUNTERS(X)
#undef X
#define X(name, help) assert_number(#name, ++n);
	NET_STATS(X)
#undef X
}

/* What is held of budgets is that of all tenants, but of one that a job works on. */
static void sums_of_budgets(void **state)
{
	static struct tenant other, working;
	struct tenant *const all[] = { &tenant, &other, &working };

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		net.tenants.list[2 * i] = all[i];
		all[i]->state = i == 2 ? TENANT_WORKING : TENANT_SERVES;
		all[i]->pull_budget.all.passed = 1000 + i;
		all[i]->pull_budget.waits = 1 + i;
		all[i]->build_budget.all.passed = 100 + i;
		all[i]->build_budget.waits = 10 + i;
	}
	print();
	assert_number("held.pull_bytes", 2001);
	assert_number("held.pull_waits", 3);
	assert_number("held.build_bytes", 201);
	assert_number("held.build_waits", 21);
}

static void process_and_devices(void **state)
{
	(void)state;
	source.started_ns -= 100 * SECOND_NS;
	print();
	assert_string_equal(line_of("version"), KVD_SERVER_VERSION);
	assert_number("pid", (uint64_t)getpid());
	assert_in_range(number_of("uptime_s"), 100, 110);
	assert_number("workers", WORKERS);
	assert_number("log_lines_lost", 7);
	assert_number("audit_lines_lost", 8);
	assert_number("fleet_epoch", 0);
	assert_number("fleet_members", 0);
	assert_number("fleet_shards", 0);
	assert_string_equal(line_of("fleet_move_to"), "none");
	assert_string_equal(line_of("fleet_move_state"), "idle");
	assert_string_equal(line_of("fleet_move_why"), "none");
	assert_true(number_of("cpu_user_us") + number_of("cpu_system_us") > 0);
	assert_string_equal(line_of("device.0.kind"), "rdma");
	assert_string_equal(line_of("device.0.name"), "mlx9");
	assert_string_equal(line_of("device.0.address"), "10.9.0.1:7471");
	assert_string_equal(line_of("device.0.why"), "asked");
	assert_string_equal(line_of("device.1.kind"), "softnic");
	assert_string_equal(line_of("device.1.name"), "softnic");
	assert_string_equal(line_of("device.1.address"), "/run/kvd.sock");
	assert_string_equal(line_of("device.1.why"), "because");
	assert_string_equal(line_of("device.0.windows"), "yes");
	assert_string_equal(line_of("device.1.windows"), "no");
	assert_string_equal(line_of("device.0.state"), "serves");
	assert_string_equal(line_of("device.1.state"), "failed");
}

static void a_fleet(void **state)
{
	struct fleet_head head = { .epoch = 5, .members = 3 };
	struct fleet_map map = { .head = &head };
	struct fleet_view view = { .map = &map, .shards = 77 };

	(void)state;
	fleet.view = &view;
	print();
	assert_number("fleet_epoch", 5);
	assert_number("fleet_members", 3);
	assert_number("fleet_shards", 77);
	assert_number("fleet_moves_left", 0);
	assert_number("fleet_moved_shards", 0);
	assert_number("fleet_moves_failed", 0);
	assert_string_equal(line_of("fleet_lease_ms"), "none");
	assert_string_equal(line_of("fleet_move_state"), "idle");
	fleet = (struct fleet){ 0 };
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
		.move_why = "it was lost",
	};
}

static void moves_of_a_fleet(void **state)
{
	struct membership_thread *thread = (struct membership_thread *)&fleet;

	(void)state;
	source.membership = thread;
	source.fleet_name = "f";
	print();
	source.membership = NULL;
	assert_number("fleet_lease_ms", 1700);
	assert_number("fleet_moves_left", 700);
	assert_number("fleet_moved_shards", 1024);
	assert_number("fleet_moves_failed", 3);
	assert_string_equal(line_of("fleet_move_to"), "twenty-four-letters-long");
	assert_string_equal(line_of("fleet_move_state"), "copies");
	assert_string_equal(line_of("fleet_move_why"), "it was lost");
}

/* The parts of the region add up to it. */
static void memory_and_items(void **state)
{
	static const char *const parts[] = { "memory.superblock",   "memory.index",
					     "memory.free",	    "memory.item_slabs",
					     "memory.bucket_slabs", "memory.large",
					     "memory.pad" };
	static uint8_t value[200000];
	uint64_t sum = 0, live;

	(void)state;
	assert_int_equal(test_store_put(&store, "k", 1, value, 100, NULL), WIRE_OK);
	print();
	live = number_of("item_memory_live_bytes");
	assert_true(live >= 100);
	assert_int_equal(test_store_put(&store, "l", 1, value, sizeof(value), NULL), WIRE_OK);
	print();
	assert_number("items", 2);
	assert_number("index_buckets", 64);
	assert_number("index_bytes", 64 * BUCKET_BYTES);
	assert_number("region_bytes", store.region.bytes);
	assert_number("item_memory_bytes", memory_bytes(store.memory));
	assert_in_range(number_of("item_memory_live_bytes"), live + sizeof(value),
			live + sizeof(value) + 100);
	assert_true(number_of("memory.large") >= sizeof(value));
	for (unsigned int i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		sum += number_of(parts[i]);
	assert_true(sum == store.region.bytes);
	assert_string_equal(line_of("eviction"), "none");
	assert_number("pinned_items", 0);
}

/* Each class that has slabs is there, by the bytes of its blocks, and no other one. */
static void size_classes(void **state)
{
	static uint8_t value[1000];
	char name[64];
	uint32_t small = 0, long_bytes = 0;

	(void)state;
	print();
	assert_null(strstr(text, "size_class."));
	for (char key = 'a'; key < 'f'; key++)
		assert_int_equal(test_store_put(&store, &key, 1, value, 100, NULL), WIRE_OK);
	assert_int_equal(test_store_put(&store, "l", 1, value, sizeof(value), NULL), WIRE_OK);
	print();
	for (const char *at = text; (at = strstr(at, "size_class.")); at++) {
		long_bytes = (uint32_t)atoi(at + strlen("size_class."));
		small = small ? small : long_bytes;
	}
	assert_in_range(small, 100, 200);
	assert_in_range(long_bytes, 1000, 1100);
	snprintf(name, sizeof(name), "size_class.%u.slabs", small);
	assert_number(name, 1);
	snprintf(name, sizeof(name), "size_class.%u.bytes", small);
	assert_number(name, SLAB_BYTES_MIN);
	snprintf(name, sizeof(name), "size_class.%u.used", small);
	assert_number(name, 5);
	snprintf(name, sizeof(name), "size_class.%u.free", small);
	assert_number(name, SLAB_BYTES_MIN / small - 5);
	snprintf(name, sizeof(name), "size_class.%u.used", long_bytes);
	assert_number(name, 1);
	assert_int_equal(number_of("memory.item_slabs"), 2 * SLAB_BYTES_MIN);
	assert_int_equal(test_store_delete(&store, "l", 1), WIRE_OK);
	print();
	assert_number(name, 0);
}

/* The turns of all workers together: how many, how long, and the most that one had to do. */
static void turns(void **state)
{
	struct turn turn;

	(void)state;
	for (uint64_t i = 0; i < 20; i++) {
		turn = (struct turn){ .began_ns = 1, .completions = i, .batched = 100 - i };
		turn_end(&turn, &workers[(i + 1) % 2].turns, 1 + (i < 15 ? 500 : 100000 * i));
	}
	/* At the border of two classes it is of the shorter one. */
	turn = (struct turn){ .began_ns = 1 };
	turn_end(&turn, &workers[0].turns, 1 + 1000);
	print();
	assert_number("worker.turns", 21);
	assert_number("worker.turn_us_max", 1900);
	assert_number("worker.turn_completions_max", 19);
	assert_number("worker.turn_batched_max", 100);
	assert_in_range(number_of("worker.turn_ns_p50"), 490, 510);
	assert_in_range(number_of("worker.turn_ns_p99"), 1870000, 1900000);
	assert_in_range(number_of("worker.turn_ns_p99_9"), 1870000, 1900000);
	assert_number("worker.turns_1us", 16);
	assert_number("worker.turns_4us", 0);
	assert_number("worker.turns_1ms", 0);
	assert_number("worker.turns_4ms", 5);
	assert_number("worker.turns_more", 0);
	/* Each of its own: the first one had the turns of odd numbers, and the last one. */
	assert_number("worker.0.turns", 11);
	assert_number("worker.0.turn_us_max", 1900);
	assert_in_range(number_of("worker.0.turn_ns_p99"), 1870000, 1900000);
	assert_number("worker.1.turns", 10);
	assert_number("worker.1.turn_us_max", 1800);
	assert_in_range(number_of("worker.1.turn_ns_p99"), 1770000, 1800000);
}

/* What is not in turns is polling; a turn in which another thread ran is longer than its CPU. */
static void cpu_of_workers(void **state)
{
	(void)state;
	cpu_ns[0] = 9000000;
	stat_set(&workers[0].turns.ns_sum, 4000000);
	cpu_ns[1] = 2000000;
	stat_set(&workers[1].turns.ns_sum, 5000000);
	print();
	assert_number("worker.0.cpu_useful_us", 4000);
	assert_number("worker.0.cpu_polling_us", 5000);
	assert_number("worker.1.cpu_useful_us", 2000);
	assert_number("worker.1.cpu_polling_us", 0);
	assert_number("worker.cpu_useful_us", 6000);
	assert_number("worker.cpu_polling_us", 5000);
}

/* Whatever fits is whole lines, and how much there is of it is said anyway. */
static void small_text(void **state)
{
	static char small[TEXT_BYTES];
	uint32_t all, size, used;

	(void)state;
	print();
	all = (uint32_t)strlen(text);
	for (size = 0; size <= all; size += size < 300 ? 1 : 97) {
		memset(small, '#', sizeof(small));
		assert_in_range(stats_print(&source, &tenant, NULL, small, size), all - 100,
				all + 100);
		for (used = 0; small[used] != '#'; used++)
			;
		assert_true(used <= size);
		assert_true(!used || small[used - 1] == '\n');
		assert_true(used == size || !memchr(small + used, '\n', sizeof(small) - used));
		/* As many as fit: no line is that long. */
		assert_true(size < 200 || used > size - 200);
	}
}

/* A line that is too long is cut, and ends. */
static void long_line(void **state)
{
	static char why[2 * LINE_MAX_BYTES];
	size_t length;

	(void)state;
	memset(why, 'w', sizeof(why) - 1);
	net.nics[0].why = why;
	print();
	length = strcspn(strstr(text, "device.0.why "), "\n");
	assert_in_range(length, LINE_MAX_BYTES - 3, LINE_MAX_BYTES - 1);
	assert_string_equal(line_of("device.1.why"), "because");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(sums_of_workers),	CASE(sums_of_budgets),	CASE(process_and_devices),
		CASE(a_fleet),		CASE(memory_and_items), CASE(turns),
		CASE(moves_of_a_fleet), CASE(cpu_of_workers),	CASE(small_text),
		CASE(long_line),	CASE(size_classes),	CASE(flushes_that_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
