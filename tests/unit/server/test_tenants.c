/* SPDX-License-Identifier: MIT */
/*
 * Unit tests of server/control/tenants.c: the list of tenants and the account of their memory;
 * stores that are made with all that workers and devices need of them, and released; and that a
 * step that fails leaves nothing.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/config/config.h"
#include "server/control/tenants.h"
#include "server/fleet/fleet_stores.h"
#include "server/worker/worker_loop.h"
#include "tests/support/log_fixture.h"

#define MIB (1ull << 20)
/* The longest value that fits 12 % of the item memory of 16 MiB. */
#define FITS_16 config_value_fits(&config, 16 * MIB, INDEX_LEVEL_MIN)
#define WORKERS 3u
#define NICS 2u

static unsigned int steps, fails, objects;

static bool step_fails(void)
{
	return ++steps == fails;
}

static void *counted_calloc(size_t count, size_t size)
{
	void *memory = step_fails() ? NULL : calloc(count, size);

	objects += memory != NULL;
	return memory;
}

static void counted_free(void *memory)
{
	objects -= memory != NULL;
	free(memory);
}

static int test_store_create(struct store *store, const struct store_options *options)
{
	int err = step_fails() ? -ENOMEM : store_create(store, options);

	objects += !err;
	return err;
}

static void test_store_destroy(struct store *store)
{
	objects -= store->region.base != NULL;
	store_destroy(store);
}

static int test_part_init(struct tenant_part *part, struct store *store, unsigned int number)
{
	int err = step_fails() ? -ENOMEM : part_init(part, store, number);

	objects += !err;
	return err;
}

static void test_thread_release(struct store_thread *thread)
{
	objects -= thread->table != NULL;
	store_thread_release(thread);
}

static int test_store_start(struct store *store, const struct store *from)
{
	int err = step_fails() ? -EAGAIN : store_start(store, from);

	objects += !err;
	return err;
}

static void test_store_stop(struct store *store)
{
	objects -= store->maintenance.started;
	store_stop(store);
}

static struct ibv_mr mrs[32];
static unsigned int mr_count;

static int test_nic_register(struct nic *nic, const struct region *region, uint32_t count,
			     struct ibv_mr **to)
{
	if (step_fails())
		return -ENOMEM;
	assert_non_null(nic->pd);
	assert_int_equal(count, 1);
	mrs[mr_count] = (struct ibv_mr){ .addr = region->base, .pd = nic->pd };
	to[0] = &mrs[mr_count++];
	objects++;
	return 0;
}

static void dereg_mr(struct ibv_mr *mr)
{
	assert_non_null(mr->addr);
	mr->addr = NULL;
	objects--;
}

#define calloc counted_calloc
#define free counted_free
#define store_create test_store_create
#define store_destroy test_store_destroy
#define part_init test_part_init
#define store_thread_release test_thread_release
#define store_start test_store_start
#define store_stop test_store_stop
#define nic_register test_nic_register
#include "server/control/tenants.c"
#undef calloc
#undef free

static const struct device_ops ops = { .dereg_mr = dereg_mr };
static struct device dev = { .ops = &ops };
static struct ibv_pd pd;
static struct config config;
static struct store store;
static struct store_options options;
static struct nic nics[NICS];
static struct worker workers[WORKERS];
static struct worker_env env;
static struct tenants tenants;

static int setup(void **state)
{
	(void)state;
	memset(workers, 0, sizeof(workers));
	memset(&store, 0, sizeof(store));
	steps = fails = objects = mr_count = 0;
	config_init(&config);
	config.memory.size = 64 * MIB;
	config.tenants.memory = 64 * MIB;
	options = (struct store_options){
		.bytes = config.memory.size,
		.hugepages = HUGEPAGES_OFF,
		.level = INDEX_LEVEL_MIN,
		.value_max = 3 * MIB,
		.fill = 65,
		.sweep_share = 1,
	};
	for (unsigned int i = 0; i < NICS; i++)
		nics[i] = (struct nic){ .dev = &dev, .pd = &pd, .windows = true };
	store.table.clock_base = 12345;
	env = (struct worker_env){
		.config = &config,
		.store = &store,
		.store_options = &options,
		.nics = nics,
		.nic_count = NICS,
		.workers = WORKERS,
	};
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	tenants_release(&tenants);
	assert_int_equal(objects, 0);
	return 0;
}

static void assert_complete(const struct tenant *tenant, uint64_t bytes, uint64_t value_max)
{
	const struct tenant_store *now = &tenant->now;

	assert_true(tenant->bytes == bytes);
	assert_true(now->store->region.bytes == bytes);
	assert_true(now->store->region.geometry.value_max == value_max);
	assert_true(now->store->table.clock_base == store.table.clock_base);
	assert_true(now->store->table.thread_count >= WORKERS);
	assert_true(now->store->maintenance.started);
	for (unsigned int i = 0; i < WORKERS; i++) {
		assert_ptr_equal(now->parts[i]->tenant, tenant);
		assert_ptr_equal(now->parts[i]->store, now->store);
		assert_ptr_equal(now->parts[i]->thread.table, &now->store->table);
		assert_int_equal(now->parts[i]->thread.id,
				 (uint8_t)(now->store->table.version_start + i));
	}
	/* Of its own memory, not of the server's. */
	assert_true(tenant->pull_budget.share ==
		    memory_bytes(now->store->memory) / 100 * config.memory.pull_share);
	assert_true(tenant->build_budget.share == tenant->pull_budget.share);
	assert_true(mem_class_bytes(item_bytes_for(KEY_MAX, value_max, 0)) <=
		    tenant->pull_budget.share);
	for (unsigned int i = 0; i < NICS; i++)
		assert_ptr_equal(now->mrs[i][0]->addr, now->store->region.base);
}

/* Makes its store, as a job does. */
static int make_store(struct tenant *tenant)
{
	int err = tenant_store_create(&tenant->now, tenant, &env, tenant->bytes, true);

	if (!err)
		tenant_budgets_init(tenant, &env);
	tenant->state = TENANT_SERVES;
	return err;
}

static struct tenant *made(const char *name, uint64_t bytes)
{
	char why[192];
	struct tenant *tenant = tenants_add(&tenants, name, bytes, why, sizeof(why));

	assert_non_null(tenant);
	assert_int_equal(make_store(tenant), 0);
	return tenant;
}

/*
 * The default one is there, and its store, the server's, is made as all others are, with the
 * workers' own parts, and released, whatever step fails.
 */
static void the_default_one(void **state)
{
	struct tenant *tenant;
	unsigned int all;

	(void)state;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	tenant = tenants_find(&tenants, "default");
	assert_non_null(tenant);
	assert_ptr_equal(tenant, tenants.list[0]);
	assert_int_equal(tenant->state, TENANT_WORKING);
	assert_null(store.region.base);
	assert_null(tenants_find(&tenants, "defaul"));
	assert_null(tenants_find(&tenants, "default2"));
	assert_int_equal(tenants.used, 0);
	options.value_max = 7 * MIB;
	steps = 0;
	assert_int_equal(make_store(tenant), 0);
	all = steps;
	/* store, parts, registrations, maintenance */
	assert_int_equal(all, 1 + WORKERS + NICS + 1);
	assert_ptr_equal(tenant->now.store, &store);
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_ptr_equal(tenant->now.parts[i], &workers[i].part);
	assert_complete(tenant, 64 * MIB, 7 * MIB);
	tenant_store_destroy(&tenant->now, &env);
	tenant_store_destroy(&tenant->now, &env);
	assert_int_equal(objects, 1);
	for (unsigned int n = 1; n <= all; n++) {
		steps = mr_count = 0;
		fails = n;
		assert_true(make_store(tenant) < 0);
		assert_int_equal(objects, 1);
		assert_null(tenant->now.mrs[0][0]);
	}
	fails = 0;
	mr_count = 0;
	assert_int_equal(make_store(tenant), 0);
	assert_complete(tenant, 64 * MIB, 7 * MIB);
}

/* A store that is being made ends early when all is to end, the server's own, too. */
static void cancelled(void **state)
{
	const _Atomic bool cancel = true;
	char why[192];
	struct tenant *tenant;

	(void)state;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	env.cancel = &cancel;
	options.prefault = true;
	assert_int_equal(make_store(tenants.list[0]), -ECANCELED);
	tenant = tenants_add(&tenants, "a", 16 * MIB, why, sizeof(why));
	assert_int_equal(make_store(tenant), -ECANCELED);
	assert_null(tenant->now.store);
	assert_int_equal(objects, 2);
}

/* No more than tenants.memory, and the refusal has the figures. */
static void memory_is_accounted_for(void **state)
{
	char why[192] = "";
	struct tenant *a, *b;

	(void)state;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	a = tenants_add(&tenants, "a", 40 * MIB, why, sizeof(why));
	assert_non_null(a);
	assert_int_equal(a->state, TENANT_WORKING);
	assert_null(tenants_add(&tenants, "b", 24 * MIB + 1, why, sizeof(why)));
	assert_string_equal(why,
			    "24.0 MiB wanted, 24 MiB of tenants.memory (64 MiB) are free: drop "
			    "a tenant, or raise tenants.memory");
	b = tenants_add(&tenants, "b", 24 * MIB, why, sizeof(why));
	assert_non_null(b);
	assert_true(tenants.used == 64 * MIB);
	assert_null(tenants_add(&tenants, "a", 0, why, sizeof(why)));
	assert_string_equal(why, "there is already a tenant a");
	tenants_remove(&tenants, a);
	assert_true(tenants.used == 24 * MIB);
	assert_null(tenants_find(&tenants, "a"));
	assert_ptr_equal(tenants_find(&tenants, "b"), b);
	assert_true(tenants_reserve(&tenants, 40 * MIB, why, sizeof(why)));
	assert_false(tenants_reserve(&tenants, 1, why, sizeof(why)));
	tenants_unreserve(&tenants, 40 * MIB);
	fails = steps + 1;
	assert_null(tenants_add(&tenants, "c", 40 * MIB, why, sizeof(why)));
	assert_string_equal(why, "no memory");
	assert_true(tenants.used == 24 * MIB);
	tenants_remove(&tenants, b);
	assert_int_equal(tenants.used, 0);
}

static void at_most_so_many(void **state)
{
	char name[16], why[192];

	(void)state;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	for (unsigned int i = 1; i < TENANTS_MAX; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_non_null(tenants_add(&tenants, name, 1, why, sizeof(why)));
	}
	assert_null(tenants_add(&tenants, "more", 1, why, sizeof(why)));
	assert_string_equal(why, "there are already 64 tenants, the maximum: drop one");
	assert_int_equal(tenants.used, TENANTS_MAX - 1);
	tenants_remove(&tenants, tenants_find(&tenants, "t7"));
	assert_non_null(tenants_add(&tenants, "more", 1, why, sizeof(why)));
	for (unsigned int i = 1; i < TENANTS_MAX; i++)
		tenants_remove(&tenants, tenants.list[i]);
}

/* Several, each with all that belongs to it. */
static void several(void **state)
{
	struct tenant *alpha, *beta;

	(void)state;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	assert_int_equal(make_store(tenants.list[0]), 0);
	alpha = made("alpha", 16 * MIB);
	/* Of 16 MiB memory.pull_share is less than the 3 MiB of the server's values. */
	beta = made("beta", 32 * MIB);
	assert_complete(alpha, 16 * MIB, FITS_16);
	assert_complete(beta, 32 * MIB, 3 * MIB);
	assert_true(alpha->now.store->region.geometry.incarnation !=
		    beta->now.store->region.geometry.incarnation);
	assert_true(alpha->now.store->region.geometry.hash_seed !=
		    beta->now.store->region.geometry.hash_seed);
	assert_true(tenants.used == 48 * MIB);
	tenants_tick(&tenants);
	assert_true(region_superblock(&beta->now.store->region)->clock_s > 0);
	/* A device that has failed, and comes back. */
	tenants_deregister(&tenants, 1);
	assert_null(alpha->now.mrs[1][0]);
	assert_non_null(alpha->now.mrs[0][0]);
	tenants_deregister(&tenants, 1);
	assert_int_equal(tenants_register(&tenants, 1), 0);
	assert_complete(alpha, 16 * MIB, FITS_16);
	assert_complete(beta, 32 * MIB, 3 * MIB);
	assert_complete(tenants.list[0], 64 * MIB, 3 * MIB);
	tenants_stop(&tenants);
	assert_false(alpha->now.store->maintenance.started);
	assert_false(store.maintenance.started);
}

static bool is_listed(struct fleet_stores *stores, const struct store *wanted)
{
	struct fleet_word word;
	struct store *each;

	TAILQ_FOREACH(each, &stores->list, entry)
		if (each == wanted)
			return store_word(each, &word) && word.epoch == 7;
	return false;
}

/* The fleet's list has each store that is started, until it is stopped. */
static void in_a_fleet(void **state)
{
	struct tenant *first, *second;
	struct fleet_stores stores;
	struct store *gone;

	(void)state;
	fleet_stores_init(&stores);
	fleet_stores_word(&stores, &(struct fleet_word){ 3, 7, UINT64_MAX, 0 });
	env.fleet_stores = &stores;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	first = tenants_find(&tenants, "default");
	assert_int_equal(make_store(first), 0);
	second = made("a", 16 * MIB);
	assert_true(is_listed(&stores, first->now.store));
	assert_true(is_listed(&stores, second->now.store));
	gone = second->now.store;
	tenant_store_destroy(&second->now, &env);
	assert_false(is_listed(&stores, gone));
	assert_true(is_listed(&stores, first->now.store));
	tenants_remove(&tenants, second);
	second = made("b", 16 * MIB);
	tenants_stop(&tenants);
	assert_true(TAILQ_EMPTY(&stores.list));
	tenants_release(&tenants);
	fleet_stores_release(&stores);
	env.fleet_stores = NULL;
}

/* A device that is away when a tenant is made gets it when it is back. */
static void a_device_is_away(void **state)
{
	struct tenant *tenant;

	(void)state;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	nics[0].pd = NULL;
	assert_int_equal(make_store(tenants.list[0]), 0);
	tenant = made("alpha", 16 * MIB);
	assert_null(tenant->now.mrs[0][0]);
	assert_null(tenants.list[0]->now.mrs[0][0]);
	nics[0].pd = &pd;
	assert_int_equal(tenants_register(&tenants, 0), 0);
	assert_complete(tenant, 16 * MIB, FITS_16);
	assert_complete(tenants.list[0], 64 * MIB, 3 * MIB);
}

/* What has no windows could not keep clients of one tenant from the memory of another. */
static void a_device_without_windows(void **state)
{
	struct tenant *tenant;

	(void)state;
	nics[1].windows = false;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	assert_int_equal(make_store(tenants.list[0]), 0);
	tenant = made("alpha", 16 * MIB);
	for (unsigned int i = 0; i < 2; i++) {
		assert_null(tenant->now.mrs[1][0]);
		assert_non_null(tenant->now.mrs[0][0]);
		assert_complete(tenants.list[0], 64 * MIB, 3 * MIB);
		tenants_deregister(&tenants, 1);
		assert_null(tenants.list[0]->now.mrs[1][0]);
		assert_int_equal(tenants_register(&tenants, 1), 0);
	}
}

/* Whatever step fails: no object is left. */
static void a_step_fails(void **state)
{
	struct tenant tenant = { .name = "x", .bytes = 16 * MIB };
	unsigned int all;

	(void)state;
	assert_int_equal(tenants_init(&tenants, &env, workers), 0);
	steps = 0;
	assert_int_equal(make_store(&tenant), 0);
	all = steps;
	/* store, region, each part's memory and thread, each registration, maintenance */
	assert_int_equal(all, 2 + 2 * WORKERS + NICS + 1);
	tenant_store_destroy(&tenant.now, &env);
	tenant_store_destroy(&tenant.now, &env);
	assert_int_equal(objects, 1);
	for (unsigned int n = 1; n <= all; n++) {
		steps = mr_count = 0;
		fails = n;
		assert_true(make_store(&tenant) < 0);
		assert_int_equal(steps, n);
		assert_int_equal(objects, 1);
		assert_null(tenant.now.store);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(the_default_one), CASE(memory_is_accounted_for),
		CASE(at_most_so_many), CASE(several),
		CASE(in_a_fleet),      CASE(a_device_is_away),
		CASE(a_step_fails),    CASE(a_device_without_windows),
		CASE(cancelled),
#undef CASE
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
