/* SPDX-License-Identifier: MIT */
/*
 * Unit tests of server/control/tenant_manager.c: changes of tenants, step by step and one after the
 * other; who may ask, and what is answered; and that what fails leaves memory and tenants as they
 * were.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/control/net.h"
#include "server/worker/conn.h"
#include "tests/support/log_fixture.h"

#define MIB (1ull << 20)
#define WORKERS 2u
#define CONNS 4u
#define TEXT_BYTES 1000u

static struct net test_net;
static struct worker workers[WORKERS];
static struct conn conns[CONNS];
static struct tenant_part parts[WORKERS];
static struct store test_store;
static struct config config;
static const struct store_options options = { .value_max = 64 * MIB };
static unsigned int answered, closed, detached, jobs_begun, destroyed;
static struct tenant_job begun;
static int begin_error;

static void fake_answered(struct conn *conn)
{
	assert_null(conn->queries);
	answered |= 1u << (conn - conns);
}

static void fake_forget(struct conn *conn)
{
	assert_non_null(conn->queries);
	TAILQ_REMOVE(conn->queries, conn, query_entry);
	conn->queries = NULL;
}

static void fake_close_tenant(struct net *of, const struct tenant *tenant)
{
	(void)of;
	assert_int_equal(tenant->state, TENANT_CLOSING);
	closed++;
}

static void fake_send(struct mailbox *mailbox, struct note *note)
{
	assert_ptr_equal(mailbox, &workers[note->part - parts].mailbox);
	assert_int_equal(note->kind, NOTE_TENANT_DETACH);
	detached++;
}

static int fake_begin(struct tenant_jobs *jobs, const struct tenant_job *job)
{
	assert_false(jobs->runs);
	if (begin_error)
		return begin_error;
	assert_int_equal(job->tenant->state, TENANT_WORKING);
	jobs->runs = true;
	jobs->job = begun = *job;
	jobs_begun++;
	return 0;
}

static void fake_drop(struct tenant *tenant, const struct worker_env *env)
{
	(void)env;
	tenant->now.store = NULL;
	destroyed++;
}

#define conn_manager_answered fake_answered
#define conn_manager_forget_query fake_forget
#define conn_manager_close_tenant fake_close_tenant
#define mailbox_send fake_send
#define tenant_jobs_begin fake_begin
#define tenant_store_drop fake_drop
#include "server/control/tenant_manager.c"

static struct tenant *tenant_of(const char *name)
{
	return tenants_find(&test_net.tenants, name);
}

static int setup(void **state)
{
	(void)state;
	memset(&test_net, 0, sizeof(test_net));
	memset(conns, 0, sizeof(conns));
	memset(parts, 0, sizeof(parts));
	memset(workers, 0, sizeof(workers));
	answered = closed = detached = jobs_begun = destroyed = 0;
	begin_error = 0;
	config_init(&config);
	config.tenants.memory = 100 * MIB;
	test_net.env.config = &config;
	test_net.env.store = &test_store;
	test_net.env.store_options = &options;
	test_net.env.workers = WORKERS;
	test_net.workers = workers;
	test_net.worker_count = WORKERS;
	test_net.nic_count = 1;
	TAILQ_INIT(&test_net.tenant_queries);
	assert_int_equal(tenants_init(&test_net.tenants, &test_net.env, workers), 0);
	test_net.tenants.list[0]->state = TENANT_SERVES;
	for (unsigned int i = 0; i < WORKERS; i++)
		workers[i].part.tenant = test_net.tenants.list[0];
	assert_int_equal(conn_registry_init(&test_net.registry, CONNS), 0);
	for (unsigned int i = 0; i < CONNS; i++) {
		conns[i].client.part = &workers[0].part;
		conns[i].client.by_admin = true;
		conns[i].query.text = malloc(TEXT_BYTES);
		conns[i].query.size = TEXT_BYTES;
		conns[i].client.number = conn_registry_add(&test_net.registry, &conns[i].client);
	}
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CONNS; i++)
		free(conns[i].query.text);
	conn_registry_release(&test_net.registry);
	for (unsigned int i = 1; i < TENANTS_MAX; i++)
		free(test_net.tenants.list[i]);
	free(test_net.tenants.list[0]);
	users_put(test_net.users);
	return 0;
}

static void ask(unsigned int n, enum wire_tenant mode, const char *name, uint64_t bytes)
{
	struct query *query = &conns[n].query;

	query->mode = mode;
	query->arg = bytes;
	snprintf(query->tenant, sizeof(query->tenant), "%s", name);
	query->status = WIRE_PROTOCOL;
	conns[n].queries = &test_net.tenant_queries;
	TAILQ_INSERT_TAIL(&test_net.tenant_queries, &conns[n], query_entry);
	answered &= ~(1u << n);
	tenant_manager_run(&test_net);
}

static bool is_answered(unsigned int n)
{
	return answered & 1u << n;
}

static void assert_answer(unsigned int n, enum wire_status status, const char *text)
{
	assert_true(is_answered(n));
	conns[n].query.text[conns[n].query.len] = '\0';
	assert_int_equal(conns[n].query.status, status);
	if (!strstr(conns[n].query.text, text) || (!*text && conns[n].query.len))
		fail_msg("'%s' instead of '%s'", conns[n].query.text, text);
}

/* The job has ended so. */
static void job_ends(int err)
{
	test_net.jobs.job.err = err;
	test_net.jobs.runs = false;
	/* The job has made the store. */
	if (!err)
		begun.tenant->now.store = &test_store;
	tenant_manager_run(&test_net);
}

/* A tenant that serves, as after a job. */
static struct tenant *made(const char *name, uint64_t bytes)
{
	struct tenant *tenant;

	ask(0, WIRE_TENANT_CREATE, name, bytes);
	tenant = tenant_of(name);
	tenant->now.store = &test_store;
	for (unsigned int i = 0; i < WORKERS; i++) {
		tenant->now.parts[i] = &parts[i];
		parts[i].tenant = tenant;
	}
	job_ends(0);
	assert_answer(0, WIRE_OK, "");
	return tenant;
}

static void creates(void **state)
{
	(void)state;
	ask(1, WIRE_TENANT_CREATE, "a", 40 * MIB);
	assert_false(is_answered(1));
	assert_int_equal(jobs_begun, 1);
	assert_int_equal(begun.kind, TENANT_JOB_CREATE);
	assert_true(begun.bytes == 40 * MIB);
	assert_int_equal(tenant_of("a")->state, TENANT_WORKING);
	assert_true(test_net.tenants.used == 40 * MIB);
	job_ends(0);
	assert_answer(1, WIRE_OK, "");
	assert_int_equal(tenant_of("a")->state, TENANT_SERVES);
	/* One that the host has no memory for. */
	ask(1, WIRE_TENANT_CREATE, "b", 16 * MIB);
	job_ends(-ENOMEM);
	assert_answer(1, WIRE_NO_SPACE, "not enough memory: the log says");
	assert_null(tenant_of("b"));
	assert_true(test_net.tenants.used == 40 * MIB);
	/* Or no thread. */
	begin_error = -EAGAIN;
	ask(1, WIRE_TENANT_CREATE, "b", 16 * MIB);
	assert_answer(1, WIRE_INVALID, "Resource temporarily unavailable");
	assert_null(tenant_of("b"));
	assert_true(test_net.tenants.used == 40 * MIB);
}

static void refuses(void **state)
{
	static const struct user reader = { .name = "ann", .rights = USER_READ };
	(void)state;
	made("a", 64 * MIB);
	jobs_begun = 0;
	ask(1, WIRE_TENANT_CREATE, "a", 16 * MIB);
	assert_answer(1, WIRE_EXISTS, "there is already a tenant a");
	ask(1, WIRE_TENANT_CREATE, "b", 37 * MIB);
	assert_answer(1, WIRE_NO_SPACE,
		      "37 MiB wanted, 36 MiB of tenants.memory (100 MiB) are free");
	ask(1, WIRE_TENANT_CREATE, "b", 16 * MIB - 1);
	assert_answer(1, WIRE_INVALID, "16m to 512g");
	ask(1, WIRE_TENANT_CREATE, "b", UINT64_MAX);
	assert_answer(1, WIRE_INVALID, "16m to 512g");
	ask(1, WIRE_TENANT_CREATE, "b c", 16 * MIB);
	assert_answer(1, WIRE_INVALID, "1 to 24 letters");
	ask(1, WIRE_TENANT_DROP, "b", 0);
	assert_answer(1, WIRE_NOT_FOUND, "no such tenant");
	ask(1, WIRE_TENANT_RESIZE, "default", 16 * MIB);
	assert_answer(1, WIRE_INVALID, "as long as the server runs");
	ask(1, WIRE_TENANT_RESIZE, "a", 37 * MIB);
	assert_answer(1, WIRE_NO_SPACE, "exist together while items are moved: 37 MiB wanted");
	ask(1, WIRE_TENANT_RESIZE, "a", 16 * MIB - 1);
	assert_answer(1, WIRE_INVALID, "16m to 512g");
	conns[2].client.part = &parts[0];
	ask(2, WIRE_TENANT_DROP, "a", 0);
	assert_answer(2, WIRE_INVALID, "ask from another one");
	conns[3].client.by_admin = false;
	ask(3, WIRE_TENANT_DROP, "a", 0);
	assert_answer(3, WIRE_INVALID, "tenants are for administrators");
	ask(3, WIRE_TENANT_LIST, "", 0);
	assert_answer(3, WIRE_INVALID, "tenants are for administrators");
	/* The file of users was read after the worker had asked for the right. */
	conns[3].client.by_admin = true;
	atomic_store(&conns[3].client.user, &reader);
	ask(3, WIRE_TENANT_DROP, "a", 0);
	assert_answer(3, WIRE_INVALID, "tenants are for administrators");
	assert_int_equal(jobs_begun, 0);
	assert_int_equal(closed, 0);
	assert_true(test_net.tenants.used == 64 * MIB);
	assert_int_equal(tenant_of("a")->state, TENANT_SERVES);
}

/* Each step waits for its own condition: connections, workers, devices, the job. */
static void drops(void **state)
{
	struct tenant *tenant;

	(void)state;
	tenant = made("a", 64 * MIB);
	jobs_begun = 0;
	tenant->conns_count = 1;
	ask(1, WIRE_TENANT_DROP, "a", 0);
	assert_int_equal(closed, 1);
	assert_int_equal(detached, 0);
	tenant->conns_count = 0;
	tenant_manager_run(&test_net);
	assert_int_equal(detached, WORKERS);
	assert_int_equal(tenant->state, TENANT_CLOSING);
	test_net.command.workers_left--;
	tenant_manager_run(&test_net);
	assert_int_equal(jobs_begun, 0);
	test_net.command.workers_left--;
	test_net.nics[0].state = NIC_DETACHING;
	tenant_manager_run(&test_net);
	assert_int_equal(jobs_begun, 0);
	test_net.nics[0].state = NIC_AWAY;
	tenant_manager_run(&test_net);
	assert_int_equal(jobs_begun, 1);
	assert_int_equal(begun.kind, TENANT_JOB_DESTROY);
	assert_false(is_answered(1));
	job_ends(0);
	assert_answer(1, WIRE_OK, "");
	assert_null(tenant_of("a"));
	assert_int_equal(test_net.tenants.used, 0);
	/* Without a thread to be had it is dropped all the same. */
	made("a", 64 * MIB);
	begin_error = -EAGAIN;
	ask(1, WIRE_TENANT_DROP, "a", 0);
	test_net.command.workers_left = 0;
	tenant_manager_run(&test_net);
	assert_int_equal(destroyed, 1);
	assert_answer(1, WIRE_OK, "");
	assert_null(tenant_of("a"));
}

/* Both sizes are reserved meanwhile; then the one that is there. */
static void resizes(void **state)
{
	static const int errors[] = { 0, -ENOSPC, -E2BIG, -ENOMEM };
	static const char *const texts[] = { "", "not all of its items fit",
					     "a value of more than 7.67 MiB, the most that",
					     "not enough" };
	struct tenant *tenant;

	(void)state;
	tenant = made("a", 32 * MIB);
	for (unsigned int i = 0; i < 4; i++) {
		ask(1, WIRE_TENANT_RESIZE, "a", 64 * MIB);
		assert_true(test_net.tenants.used == 96 * MIB);
		test_net.command.workers_left = 0;
		tenant_manager_run(&test_net);
		assert_int_equal(begun.kind, TENANT_JOB_RESIZE);
		assert_true(begun.bytes == 64 * MIB);
		job_ends(errors[i]);
		assert_answer(1,
			      !errors[i]	  ? WIRE_OK :
			      errors[i] == -E2BIG ? WIRE_INVALID :
						    WIRE_NO_SPACE,
			      texts[i]);
		assert_int_equal(tenant->state, TENANT_SERVES);
		assert_true(tenant->bytes == (i ? 32 : 64) * MIB);
		assert_true(test_net.tenants.used == tenant->bytes);
		if (i)
			continue;
		test_net.tenants.used = tenant->bytes = 32 * MIB;
	}
}

/* One after the other; lists are answered at once, and who has gone gets no answer. */
static void one_after_the_other(void **state)
{
	(void)state;
	ask(0, WIRE_TENANT_CREATE, "a", 16 * MIB);
	ask(1, WIRE_TENANT_CREATE, "b", 16 * MIB);
	ask(2, WIRE_TENANT_CREATE, "a", 16 * MIB);
	assert_int_equal(jobs_begun, 1);
	ask(3, WIRE_TENANT_LIST, "", 0);
	assert_answer(3, WIRE_OK, "name=a bytes=16777216 state=working connections=0\n");
	assert_int_equal(conns[3].query.cursor, 0);
	conns[0].stage = CONN_FLUSHING;
	job_ends(0);
	assert_false(is_answered(0));
	assert_int_equal(tenant_of("a")->state, TENANT_SERVES);
	assert_int_equal(jobs_begun, 2);
	job_ends(0);
	assert_answer(1, WIRE_OK, "");
	/* The second request could be refused only now. */
	assert_answer(2, WIRE_EXISTS, "there is already a tenant a");
	assert_null(TAILQ_FIRST(&test_net.tenant_queries));
	/* A server that stops begins nothing more. */
	test_net.stopping = true;
	ask(1, WIRE_TENANT_CREATE, "c", 16 * MIB);
	assert_false(is_answered(1));
	assert_int_equal(jobs_begun, 2);
}

/* The file of users is read again. Its changes begin at the next turn. */
static void users_are(const char *text)
{
	char why[USERS_WHY_MAX] = "";

	users_put(test_net.users);
	test_net.users = NULL;
	if (users_parse(&test_net.users, text, strlen(text), NULL, why))
		fail_msg("%s", why);
	test_net.users_sized = 0;
}

#define OF(name, uid, more) "[user " name "]\nuid = " uid "\nrights = all\n" more

/* As made(), by a user's memory. */
static struct tenant *made_of_user(const char *name)
{
	struct tenant *tenant;

	tenant_manager_run(&test_net);
	tenant = tenant_of(name);
	assert_non_null(tenant);
	assert_int_equal(tenant->state, TENANT_WORKING);
	tenant->now.store = &test_store;
	for (unsigned int i = 0; i < WORKERS; i++)
		tenant->now.parts[i] = &parts[i];
	return tenant;
}

/* A new user gets its tenant; another size is another store; a user that has gone leaves it. */
static void users_have_tenants(void **state)
{
	struct tenant *alice;

	(void)state;
	users_are(OF("alice", "1", "memory = 24m\n") OF("bob", "2", "")
			  OF("carol", "3", "tenant = beta\n"));
	alice = made_of_user("alice");
	assert_int_equal(begun.kind, TENANT_JOB_CREATE);
	assert_true(begun.bytes == 24 * MIB);
	job_ends(0);
	assert_int_equal(alice->state, TENANT_SERVES);
	assert_logged("tenant alice: created");
	assert_logged("users.file: user carol can't connect: there is no tenant beta, and no user "
		      "with its memory");
	assert_int_equal(jobs_begun, 1);
	/* Without a change there is nothing to do. */
	users_are(OF("bob", "2", "") OF("alice", "1", "memory = 24m\n"));
	tenant_manager_run(&test_net);
	assert_int_equal(jobs_begun, 1);
	assert_int_equal(closed, 0);
	users_are(OF("bob", "2", "") OF("alice", "1", "memory = 32m\n"));
	tenant_manager_run(&test_net);
	assert_int_equal(closed, 1);
	assert_int_equal(alice->state, TENANT_CLOSING);
	assert_true(test_net.tenants.used == 56 * MIB);
	test_net.command.workers_left = 0;
	tenant_manager_run(&test_net);
	assert_int_equal(begun.kind, TENANT_JOB_RESIZE);
	assert_true(begun.bytes == 32 * MIB);
	job_ends(0);
	assert_int_equal(alice->state, TENANT_SERVES);
	assert_true(alice->bytes == 32 * MIB);
	assert_true(test_net.tenants.used == 32 * MIB);
	users_are(OF("bob", "2", ""));
	tenant_manager_run(&test_net);
	assert_int_equal(jobs_begun, 2);
	assert_int_equal(closed, 1);
	assert_ptr_equal(tenant_of("alice"), alice);
	/* From now on it is an administrator's. */
	ask(1, WIRE_TENANT_DROP, "alice", 0);
	assert_int_equal(alice->state, TENANT_CLOSING);
}

/* What can't be done is said, and what follows is done. */
static void users_without_room(void **state)
{
	struct tenant *alice, *bob;

	(void)state;
	users_are(OF("alice", "1", "memory = 24m\n"));
	alice = made_of_user("alice");
	job_ends(0);
	users_are(OF("alice", "1", "memory = 80m\n")
			  OF("carol", "3", "tenant = team\nmemory = 80m\n")
				  OF("bob", "2", "tenant = bobs\nmemory = 16m\n"));
	bob = made_of_user("bobs");
	assert_logged("users.file: the tenant alice can't be resized: the old and the new "
		      "store exist together while items are moved: 80 MiB wanted, 76 MiB of "
		      "tenants.memory (100 MiB) are free: drop a tenant, or raise tenants.memory; "
		      "the next SIGHUP tries again");
	assert_logged("users.file: the tenant team can't be created: 80 MiB wanted");
	assert_null(tenant_of("team"));
	assert_int_equal(closed, 0);
	assert_int_equal(alice->state, TENANT_SERVES);
	assert_true(alice->bytes == 24 * MIB);
	/* The host has no memory, either. */
	job_ends(-ENOMEM);
	assert_logged("users.file: the tenant bobs can't be created: there is not enough memory: "
		      "the log says what is missing; the next SIGHUP tries again");
	assert_null(tenant_of("bobs"));
	assert_true(test_net.tenants.used == 24 * MIB);
	test_net.users_sized = 0;
	bob = made_of_user("bobs");
	job_ends(0);
	assert_int_equal(bob->state, TENANT_SERVES);
	/* A server that stops begins nothing more. */
	jobs_begun = 0;
	test_net.stopping = true;
	users_are(OF("dave", "4", "memory = 16m\n"));
	tenant_manager_run(&test_net);
	assert_int_equal(jobs_begun, 0);
}

/* Users' tenants come first, and then what administrators ask for. */
static void users_and_administrators(void **state)
{
	(void)state;
	ask(1, WIRE_TENANT_CREATE, "a", 16 * MIB);
	users_are(OF("alice", "1", "memory = 16m\n") OF("bob", "2", "memory = 16m\n"));
	ask(2, WIRE_TENANT_CREATE, "bob", 24 * MIB);
	assert_int_equal(jobs_begun, 1);
	job_ends(0);
	assert_answer(1, WIRE_OK, "");
	assert_int_equal(jobs_begun, 2);
	assert_ptr_equal(begun.tenant, tenant_of("alice"));
	job_ends(0);
	assert_false(is_answered(2));
	assert_ptr_equal(begun.tenant, tenant_of("bob"));
	assert_true(begun.bytes == 16 * MIB);
	job_ends(0);
	assert_answer(2, WIRE_EXISTS, "there is already a tenant bob");
}

/* A user's clients would find no store, and the next SIGHUP would undo another size. */
static void users_keep_tenants(void **state)
{
	struct tenant *alpha, *alice;

	(void)state;
	users_are(OF("alice", "1", "memory = 16m\n") OF("bob", "2", "tenant = alpha\n"));
	alice = made_of_user("alice");
	job_ends(0);
	alpha = made("alpha", 16 * MIB);
	ask(1, WIRE_TENANT_DROP, "alice", 0);
	assert_answer(1, WIRE_INVALID,
		      "it is the tenant of user alice in users.file: change that, send kvd SIGHUP, "
		      "and drop it then");
	ask(1, WIRE_TENANT_DROP, "alpha", 0);
	assert_answer(1, WIRE_INVALID, "it is the tenant of user bob in users.file");
	ask(1, WIRE_TENANT_RESIZE, "alice", 24 * MIB);
	assert_answer(1, WIRE_INVALID,
		      "users.file sets its size, with user alice: change that, and send "
		      "kvd SIGHUP");
	assert_int_equal(closed, 0);
	assert_int_equal(alice->state, TENANT_SERVES);
	assert_int_equal(alpha->state, TENANT_SERVES);
	ask(1, WIRE_TENANT_RESIZE, "alpha", 24 * MIB);
	assert_int_equal(alpha->state, TENANT_CLOSING);
}

static void starts_anew(void)
{
	test_net.starting = true;
	test_net.start_err = 0;
	test_net.users_sized = 0;
	test_net.tenants.list[0]->state = TENANT_WORKING;
	jobs_begun = 0;
	tenant_manager_run(&test_net);
}

/* The job makes this one, and nothing else is done until it has ended. */
static void assert_makes(const char *name, uint64_t bytes)
{
	assert_true(test_net.starting);
	assert_int_equal(begun.kind, TENANT_JOB_CREATE);
	assert_ptr_equal(begun.tenant, tenant_of(name));
	assert_true(begun.bytes == bytes);
	assert_int_equal(begun.tenant->state, TENANT_WORKING);
	jobs_begun--;
	tenant_manager_run(&test_net);
	assert_int_equal(jobs_begun, 0);
}

/* `default`, then what users have, one after another; then it serves. */
static void starts(void **state)
{
	(void)state;
	users_are(OF("alpha", "1", "memory = 24m\n") OF("bob", "2", "tenant = default\n")
			  OF("delta", "3", "memory = 20m\n"));
	config.memory.size = 7;
	test_net.tenants.list[0]->bytes = 7;
	starts_anew();
	assert_makes("default", 7);
	job_ends(0);
	assert_int_equal(tenant_of("default")->state, TENANT_SERVES);
	assert_makes("alpha", 24 * MIB);
	job_ends(0);
	assert_makes("delta", 20 * MIB);
	job_ends(0);
	assert_int_equal(closed, 0);
	assert_false(test_net.starting);
	assert_int_equal(test_net.start_err, 0);
	assert_true(test_net.tenants.used == 44 * MIB);
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		assert_true(!test_net.tenants.list[i] ||
			    test_net.tenants.list[i]->state != TENANT_WORKING);
}

/* SIGHUP during the start: what was made stays, and gets its new size when workers run. */
static void starts_with_new_users(void **state)
{
	struct tenant *alpha;

	(void)state;
	users_are(OF("alpha", "1", "memory = 16m\n") OF("beta", "2", "memory = 16m\n"));
	test_net.tenants.list[0]->bytes = 7;
	starts_anew();
	assert_makes("default", 7);
	job_ends(0);
	assert_makes("alpha", 16 * MIB);
	alpha = tenant_of("alpha");
	alpha->now.store = &test_store;
	for (unsigned int i = 0; i < WORKERS; i++)
		alpha->now.parts[i] = &parts[i];
	job_ends(0);
	assert_makes("beta", 16 * MIB);
	users_are(OF("alpha", "1", "memory = 24m\n") OF("gamma", "3", "memory = 16m\n"));
	job_ends(0);
	assert_makes("gamma", 16 * MIB);
	job_ends(0);
	assert_false(test_net.starting);
	assert_int_equal(test_net.start_err, 0);
	assert_int_equal(closed, 0);
	tenant_manager_run(&test_net);
	assert_int_equal(alpha->state, TENANT_CLOSING);
	assert_true(test_net.command.bytes == 24 * MIB);
}

/* Whichever can't be made ends the start; and so does a signal, with nothing begun any more. */
static void a_start_fails(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(test_log_begin(), 0);
		users_are(OF("alpha", "1", "memory = 16m\n"));
		starts_anew();
		if (i == 1)
			job_ends(0);
		begin_error = i == 2 ? -EAGAIN : 0;
		job_ends(i == 2 ? 0 : -ENOMEM);
		begin_error = 0;
		assert_int_equal(test_net.start_err, i == 2 ? -EAGAIN : -ENOMEM);
		assert_logged(
			i == 0 ? "tenant default: can't be created: there is not enough memory" :
			i == 1 ? "tenant alpha: can't be created: there is not enough memory" :
				 "tenant alpha: can't be created: Resource temporarily");
		assert_true(test_net.starting);
		tenant_manager_run(&test_net);
		assert_int_equal(jobs_begun, i == 1 ? 2 : 1);
		if (i)
			tenants_remove(&test_net.tenants, tenant_of("alpha"));
	}
	/* tenants.memory is not enough. */
	users_are(OF("alpha", "1", "memory = 101m\n"));
	starts_anew();
	job_ends(0);
	assert_int_equal(test_net.start_err, -ENOMEM);
	assert_logged("tenant alpha: can't be created: 101 MiB wanted");
	users_are(OF("alpha", "1", "memory = 16m\n"));
	starts_anew();
	test_net.stopping = true;
	job_ends(0);
	assert_int_equal(jobs_begun, 1);
	assert_true(test_net.starting);
}

/* All of them, however many pages it takes. */
static void lists(void **state)
{
	char name[16];
	unsigned int seen = 0, pages = 0;
	uint64_t cursor = 0;

	(void)state;
	for (unsigned int i = 1; i < TENANTS_MAX; i++) {
		snprintf(name, sizeof(name), "tenant-%u", i);
		assert_non_null(tenants_add(&test_net.tenants, name, MIB, NULL, 0));
	}
	do {
		ask(1, WIRE_TENANT_LIST, "", cursor);
		assert_answer(1, WIRE_OK, "name=");
		for (const char *at = conns[1].query.text; (at = strchr(at, '\n')); at++)
			seen++;
		assert_true(!conns[1].query.cursor || conns[1].query.cursor > cursor);
		cursor = conns[1].query.cursor;
		pages++;
	} while (cursor);
	assert_int_equal(seen, TENANTS_MAX);
	assert_true(pages > 1);
	ask(1, WIRE_TENANT_LIST, "", UINT64_MAX);
	assert_answer(1, WIRE_OK, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(creates),
		CASE(refuses),
		CASE(drops),
		CASE(resizes),
		CASE(one_after_the_other),
		CASE(lists),
		CASE(starts),
		CASE(starts_with_new_users),
		CASE(a_start_fails),
		CASE(users_have_tenants),
		CASE(users_without_room),
		CASE(users_and_administrators),
		CASE(users_keep_tenants),
#undef CASE
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
