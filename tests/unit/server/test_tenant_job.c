/* SPDX-License-Identifier: MIT */
/*
 * Unit tests of server/control/tenant_job.c: in which order a tenant's store is made, filled and
 * put in the old one's place; and that whatever step fails the old one goes on, and the next job is
 * done.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/control/tenant_job.h"
#include "server/control/tenants.h"
#include "server/fleet/fleet_stores.h"
#include "tests/support/log_fixture.h"

#define WORKERS 2u
#define BYTES 12345u
#define WAIT_MS 300000

static struct store old_store, new_store;
static struct tenant_part parts[WORKERS];
static struct tenant test_tenant;
static struct mailbox control;
static const struct config test_config; /* nothing is kept */
static struct worker_env test_env = {
	.config = &test_config,
	.control = &control,
	.workers = WORKERS,
};
static struct tenant_jobs test_jobs;

/* What the job has done, in order; and the step of it that fails, or NULL. */
static char steps[200];
static const char *fails;

static int step(const char *name)
{
	assert_true(strlen(steps) + strlen(name) < sizeof(steps));
	strcat(steps, name);
	return fails && !strcmp(fails, name) ? -ENOSPC : 0;
}

static int fake_create(struct tenant_store *to, struct tenant *of, const struct worker_env *with,
		       uint64_t bytes, bool start)
{
	int err = step(start ? "create, start; " : "create; ");

	assert_ptr_equal(of, &test_tenant);
	assert_ptr_equal(with, &test_env);
	assert_int_equal(bytes, BYTES);
	*to = (struct tenant_store){ 0 };
	if (!err)
		*to = (struct tenant_store){
			.store = &new_store,
			.parts = { &parts[0], &parts[1] },
		};
	return err;
}

static void fake_destroy(struct tenant_store *store, const struct worker_env *with)
{
	assert_ptr_equal(with, &test_env);
	step(store->store == &new_store ? "destroy new; " : "destroy old; ");
	*store = (struct tenant_store){ 0 };
}

static void fake_drop(struct tenant *tenant, const struct worker_env *with)
{
	step("drop: ");
	fake_destroy(&tenant->now, with);
}

static int fake_fill(struct store_thread *const *threads, unsigned int count,
		     const struct table *from, const _Atomic bool *stop)
{
	assert_int_equal(count, WORKERS);
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_ptr_equal(threads[i], &parts[i].thread);
	assert_ptr_equal(from, &old_store.table);
	assert_ptr_equal(stop, &test_jobs.cancels);
	return step("fill; ");
}

static int fake_store_start(struct store *store, const struct store *from)
{
	assert_ptr_equal(store, &new_store);
	assert_ptr_equal(from, &old_store);
	return step("start; ");
}

static int fake_maintenance_start(struct maintenance *maintenance)
{
	assert_ptr_equal(maintenance, &old_store.maintenance);
	return step("maintain old; ");
}

static void fake_maintenance_stop(struct maintenance *maintenance)
{
	assert_ptr_equal(maintenance, &old_store.maintenance);
	step("stop old; ");
}

static void fake_budgets_init(struct tenant *of, const struct worker_env *with)
{
	assert_ptr_equal(of, &test_tenant);
	assert_ptr_equal(of->now.store, &new_store);
	assert_ptr_equal(with, &test_env);
	step("budgets; ");
}

static struct fleet_stores *fleet;

static void fake_replace(struct fleet_stores *stores, struct store *old, struct store *store)
{
	assert_ptr_equal(stores, fleet);
	assert_ptr_equal(old, &old_store);
	assert_ptr_equal(store, &new_store);
	step("replace; ");
}

#define fleet_stores_replace fake_replace
#define tenant_budgets_init fake_budgets_init
#define tenant_store_create fake_create
#define tenant_store_destroy fake_destroy
#define tenant_store_drop fake_drop
#define resize_fill fake_fill
#define store_start fake_store_start
#define maintenance_start fake_maintenance_start
#define maintenance_stop fake_maintenance_stop
#include "server/control/tenant_job.c"

static int setup(void **state)
{
	(void)state;
	test_tenant = (struct tenant){ .now.store = &old_store };
	fails = NULL;
	assert_int_equal(test_log_begin(), 0);
	assert_int_equal(mailbox_init(&control), 0);
	return tenant_jobs_init(&test_jobs, &test_env);
}

static int teardown(void **state)
{
	(void)state;
	tenant_jobs_stop(&test_jobs);
	tenant_jobs_release(&test_jobs);
	mailbox_release(&control);
	return 0;
}

/* Waits for the job's end, as the control thread does. */
static void assert_job(enum tenant_job_kind kind, int err, const char *does)
{
	const struct tenant_job job = { .kind = kind, .tenant = &test_tenant, .bytes = BYTES };
	struct pollfd fd = { control.event_fd, POLLIN, 0 };

	steps[0] = '\0';
	assert_int_equal(tenant_jobs_begin(&test_jobs, &job), 0);
	assert_true(test_jobs.runs);
	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	assert_ptr_equal(mailbox_take(&control), &test_jobs.note);
	assert_int_equal(test_jobs.note.kind, NOTE_TENANT_DONE);
	assert_int_equal(test_jobs.job.err, err);
	assert_string_equal(steps, does);
}

static void creates_and_destroys(void **state)
{
	(void)state;
	test_tenant.now.store = NULL;
	fails = "create, start; ";
	assert_job(TENANT_JOB_CREATE, -ENOSPC, "create, start; ");
	assert_null(test_tenant.now.store);
	fails = NULL;
	assert_job(TENANT_JOB_CREATE, 0, "create, start; budgets; ");
	assert_ptr_equal(test_tenant.now.store, &new_store);
	assert_job(TENANT_JOB_DESTROY, 0, "drop: destroy new; ");
	assert_null(test_tenant.now.store);
}

static void resizes(void **state)
{
	(void)state;
	assert_job(TENANT_JOB_RESIZE, 0, "create; stop old; fill; start; destroy old; budgets; ");
	assert_ptr_equal(test_tenant.now.store, &new_store);
	assert_ptr_equal(test_tenant.now.parts[1], &parts[1]);
}

/* The fleet knows the new store before the old one, which may still drop something, is gone. */
static void resizes_in_a_fleet(void **state)
{
	static struct fleet_stores stores;

	(void)state;
	test_env.fleet_stores = fleet = &stores;
	assert_job(TENANT_JOB_RESIZE, 0,
		   "create; stop old; fill; start; replace; destroy old; budgets; ");
	test_env.fleet_stores = NULL;
}

/* The tenant is as it was: its maintenance runs, too, and a later resize is done. */
static void a_resize_fails(void **state)
{
	static const char *const each[][2] = {
		{ "create; ", "create; " },
		{ "fill; ", "create; stop old; fill; destroy new; maintain old; " },
		{ "start; ", "create; stop old; fill; start; destroy new; maintain old; " },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		fails = each[i][0];
		assert_job(TENANT_JOB_RESIZE, -ENOSPC, each[i][1]);
		assert_ptr_equal(test_tenant.now.store, &old_store);
	}
	fails = NULL;
	resizes(state);
}

/* What still runs is told to end early. */
static void stopped(void **state)
{
	(void)state;
	resizes(state);
	assert_false(test_jobs.cancels);
	tenant_jobs_cancel(&test_jobs);
	assert_true(test_jobs.cancels);
	test_jobs.cancels = false;
	tenant_jobs_stop(&test_jobs);
	assert_true(test_jobs.cancels);
	assert_false(test_jobs.started);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(creates_and_destroys), CASE(resizes), CASE(resizes_in_a_fleet),
		CASE(a_resize_fails),	    CASE(stopped),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
