/* SPDX-License-Identifier: MIT */
/*
 * Calls on what is in use: on a handle in the middle of another call, from its callbacks and from
 * another thread; and what operations that are under way, and memory that they use, do not allow.
 * Nothing is done, a text says why, and what is under way is not disturbed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/calls.h"

static struct fake_server *server;
static struct kvd *kvd;
static uint64_t key = 2;

static int setup(void **state)
{
	(void)state;
	server = calls_open();
	kvd = &server->kvd;
	return 0;
}

/* Calls on a handle that is in use. */
static const char *in_use_text; /* what kvd_error(NULL) has to say */
static unsigned int refused;

/* All that can be called, but those that @submits leaves to a callback. */
static void all_refused(bool submits)
{
	struct kvd_op *done[1];
	const struct call *call;
	enum kvd_status status;

	for (call = calls; call < calls + call_count; call++) {
		if (submits &&
		    (strstr(call->name, "kvd_submit") || strstr(call->name, "kvd_cancel")))
			continue;
		calls_reset();
		status = call->run(kvd);
		if (status != KVD_ERR_INVALID || !calls_untouched() ||
		    calls_others(KVD_ERR_INVALID) || !strstr(kvd_error(NULL), in_use_text))
			fprintf(stderr, "%s: %s: %s\n", call->name, kvd_status_text(status),
				kvd_error(NULL));
		else
			refused++;
	}
	refused += kvd_fd(kvd) == -1;
	refused += !kvd_poll(kvd, done, 1);
	refused += !kvd_wait(kvd, done, 1, 1, UINT32_MAX);
	kvd_open(NULL, NULL, NULL); /* another text */
	kvd_close(kvd);
	refused += strstr(kvd_error(NULL), in_use_text) != NULL;
}

static void *other_thread(void *arg)
{
	(void)arg;
	in_use_text = "another thread's call";
	all_refused(false);
	return NULL;
}

static void traced(void *user, const struct kvd_trace_event *event)
{
	pthread_t thread;

	if (event->ended)
		return;
	if (user) {
		assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
		pthread_join(thread, NULL);
	} else {
		in_use_text = "a callback may only";
		all_refused(false);
	}
}

static int scanned(void *arg, const struct kvd_entry *entry)
{
	(void)arg, (void)entry;
	in_use_text = "a callback may only";
	all_refused(false);
	return 1;
}

static void done(struct kvd_op *op, void *user)
{
	struct kvd_op *list[] = { user };

	(void)op;
	in_use_text = "a callback may only";
	all_refused(true);
	kvd_prep_ping(user);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(kvd_cancel(kvd, op), KVD_ERR_INVALID);
}

static void entry_of(struct fake_server *p, const struct request *request,
		     struct wire_response *response, uint8_t *value)
{
	const struct wire_entry entry = { .version = 1, .key_len = 1 };

	calls_respond(p, request, response, value);
	if (request->op != WIRE_SCAN)
		return;
	memcpy(value, &entry, sizeof(entry));
	value[sizeof(entry)] = 'k';
	response->value_len = sizeof(entry) + 1;
	response->entries = 1;
}

/* The call that is under way is not disturbed, and its text is its own. */
static void while_in_use(void **state)
{
	struct kvd_op ping, other, *list[] = { &ping };
	uint64_t cursor = 0;
	int thread = 0;

	(void)state;
	server->respond = entry_of;
	assert_int_equal(kvd_trace(kvd, traced, NULL), KVD_OK);
	refused = 0;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(refused, call_count + 4);
	assert_int_equal(kvd_trace(kvd, traced, &thread), KVD_OK);
	refused = 0;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(refused, call_count + 4);
	assert_int_equal(kvd_trace(kvd, NULL, NULL), KVD_OK);

	refused = 0;
	assert_int_equal(kvd_scan(kvd, &cursor, NULL, scanned, NULL), KVD_OK);
	assert_int_equal(refused, call_count + 4);

	kvd_prep_ping(&ping);
	ping.done = done;
	ping.user = &other;
	refused = 0;
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	while (kvd_outstanding(kvd))
		kvd_wait(kvd, list, 1, 1, UINT32_MAX);
	assert_int_equal(refused, call_count + 2);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* What operations that are under way or have ended don't allow: KVD_ERR_BUSY, and why. */
static void while_operations_are_outstanding(void **state)
{
	struct kvd_op put, *list[] = { &put }, *ended[1];

	(void)state;
	assert_true(kvd_fd(kvd) >= 0);
	server->hold_all = true;
	kvd_prep_put(&put, &key, 8, "x", 1, NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(kvd), "is submitted already"));
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "are outstanding"));
	assert_null(kvd->observing);
	kvd->error[0] = '\0';
	assert_int_equal(kvd_trace(kvd, traced, NULL), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "are outstanding"));
	assert_null(kvd->observing);
	assert_int_equal(kvd_cancel(kvd, &put), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "was sent"));
	fake_server_answer(server, 1);
	assert_int_equal(kvd_arm(kvd), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "kvd_poll()"));
	assert_int_equal(kvd_cancel(kvd, &put), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(kvd), "has ended"));
	assert_int_equal(kvd_poll(kvd, ended, 1), 1);
	assert_int_equal(put.status, KVD_OK);
	assert_int_equal(kvd_cancel(kvd, &put), KVD_ERR_INVALID);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
}

/*
 * An operation of each kind that was sent, or READs: what changes nothing can be canceled, and the
 * answer that comes later disturbs nothing. The others end as if they had not been.
 */
static void cancel_of_each_operation(void **state)
{
	static uint8_t value[20];
	struct kvd_op op, *list[] = { &op }, *ended[1];
	unsigned int code;
	bool changes;

	for (code = KVD_OP_GET; code <= KVD_OP_GET_RANGE; code++) {
		if (code == KVD_OP_SCAN)
			continue;
		calls_anew(state, setup);
		changes = code != KVD_OP_GET && code != KVD_OP_GET_BY_REQUEST &&
			  code != KVD_OP_PING && code != KVD_OP_EXISTS && code != KVD_OP_GET_RANGE;
		server->hold_all = server->fake.hold_reads = true;
		kvd_prep(&op, (enum kvd_opcode)code, &key, 8);
		if (code == KVD_OP_GET || code == KVD_OP_PUT || code == KVD_OP_GET_BY_REQUEST ||
		    code == KVD_OP_GET_AND_TOUCH || code == KVD_OP_GET_RANGE) {
			op.value = value;
			op.value_len = sizeof(value);
		}
		memset(value, 0, sizeof(value));
		assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
		assert_int_equal(server->queued + server->fake.held_count, 1);
		kvd->error[0] = '\0';
		if (kvd_cancel(kvd, &op) != (changes ? KVD_ERR_BUSY : KVD_OK))
			fail_msg("operation %u: %s", code, kvd_error(kvd));
		assert_int_equal(!!strstr(kvd_error(kvd), "was sent"), changes);
		assert_int_equal(kvd_poll(kvd, ended, 1), !changes);
		server->hold_all = server->fake.hold_reads = false;
		fake_server_answer(server, server->queued);
		fake_device_release(&server->fake);
		assert_int_equal(kvd_wait(kvd, ended, 1, 1, FAKE_TIMEOUT_MS), changes);
		assert_int_equal(op.status, changes ? KVD_OK : KVD_ERR_CANCELED);
		assert_int_equal(value[19], code == KVD_OP_GET_AND_TOUCH ? 2 : 0);
		assert_int_equal(kvd_cancel(kvd, &op), KVD_ERR_INVALID);
		/* The operation again, to its end. */
		assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
		assert_int_equal(kvd_wait(kvd, ended, 1, 1, UINT32_MAX), 1);
		assert_int_equal(op.status, KVD_OK);
		assert_int_equal(kvd->conn.outstanding, 0);
	}
}

/* Memory that operations use can't be ended, and does not end. */
static void while_memory_is_used(void **state)
{
	struct kvd_op put, *list[] = { &put }, *ended[1];
	struct kvd_mem *mem;
	void *addr;

	(void)state;
	assert_int_equal(kvd_alloc(kvd, CALLS_LARGE_BYTES, &addr, &mem), KVD_OK);
	server->hold_all = true;
	kvd_prep_put(&put, &key, 8, addr, CALLS_LARGE_BYTES, NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(kvd_free(mem), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(NULL), "1 operations still use this memory"));
	memset(addr, 1, CALLS_LARGE_BYTES);
	fake_server_answer(server, 1);
	assert_int_equal(kvd_poll(kvd, ended, 1), 1);
	assert_int_equal(kvd_free(mem), KVD_OK);
}

/* 64 memories, and no more; one that is ended makes room. */
static void many_memories(void **state)
{
	static char arena[65];
	struct kvd_mem *mems[64], *mem;
	unsigned int i;

	(void)state;
	for (i = 0; i < 64; i++)
		assert_int_equal(kvd_register(kvd, &arena[i], 1, &mems[i]), KVD_OK);
	assert_int_equal(kvd_register(kvd, &arena[64], 1, &mem), KVD_ERR_NO_MEMORY);
	assert_null(mem);
	assert_non_null(strstr(kvd_error(kvd), "64 memories are registered"));
	assert_int_equal(kvd_deregister(mems[5]), KVD_OK);
	assert_int_equal(kvd_register(kvd, &arena[64], 1, &mems[5]), KVD_OK);
	for (i = 0; i < 64; i++)
		assert_int_equal(kvd_deregister(mems[i]), KVD_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, calls_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(while_in_use),
		CASE(while_operations_are_outstanding),
		CASE(cancel_of_each_operation),
		CASE(while_memory_is_used),
		CASE(many_memories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
