/* SPDX-License-Identifier: MIT */
/*
 * Each call, while the connection is lost: before it was sent, after, until its deadline, for ever
 * (kvd_options.reconnect 0); by each failure that a device reports; and in a child process. What it
 * returns and writes, what kvd_error() says, and that the handle goes on where kvd.h says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/calls.h"

static struct fake_server *server;
static struct kvd *kvd;

static void accept_try(struct fake_device *fake)
{
	server->hold_all = false;
	fake->hold_reads = false;
	server->queued = 0;
	fake_device_event(fake, CM_ESTABLISHED, 0);
}

static int setup(void **state)
{
	(void)state;
	server = calls_open();
	kvd = &server->kvd;
	return 0;
}

static const char *connection(void)
{
	struct kvd_info info;

	kvd_info(kvd, &info);
	return info.connection;
}

/* The call returned what it has to, and wrote nothing. */
static void judge(const struct call *call, enum kvd_status status, enum kvd_status want,
		  const char *text)
{
	if (status != want || !strstr(kvd_error(kvd), text) || !calls_untouched() ||
	    calls_others(want))
		fail_msg("%s: %s instead of %s: %s", call->name, kvd_status_text(status),
			 kvd_status_text(want), kvd_error(kvd));
	assert_int_equal(kvd_outstanding(kvd), 0);
}

static void assert_reconnected(const struct call *call)
{
	enum kvd_status status;

	server->fake.connect = accept_try;
	/* If a try is under way, it ends now: the next one begins. */
	if (!strcmp(connection(), "away")) {
		kvd->reconnect.next_ns = 0;
		assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
		kvd->reconnect.next_ns = 0;
	}
	status = kvd_ping(kvd);
	if (status || strcmp(connection(), "up") != 0)
		fail_msg("after %s: %s: %s", call->name, kvd_status_text(status), kvd_error(kvd));
	assert_int_equal(kvd->stats.reconnects, 1);
}

/* There is a first failure, which has a cause, and later ones, with others. */
static const char *closed(void)
{
	struct kvd_op op;

	assert_true(kvd_fd(kvd) >= 0);
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	assert_string_equal(connection(), "closed");
	kvd_prep_ping(&op);
	assert_int_equal(kvd_cancel(kvd, &op), KVD_ERR_INVALID);
	assert_null(strstr(kvd_error(kvd), "is lost"));
	return "is lost (Work Request Flushed Error)";
}

static void on_a_closed_handle(void **state)
{
	const struct call *call;
	const char *cause;

	for (call = calls; call < calls + call_count; call++) {
		calls_anew(state, setup);
		cause = closed();
		if (call->kind < CALL_LOCAL || !strcmp(call->name, "kvd_arm") ||
		    !strcmp(call->name, "kvd_register") || !strcmp(call->name, "kvd_alloc"))
			judge(call, call->run(kvd), KVD_ERR_DISCONNECTED, cause);
		else if (!strcmp(call->name, "kvd_cancel"))
			judge(call, call->run(kvd), KVD_ERR_INVALID, "not submitted");
		else
			assert_int_equal(call->run(kvd), KVD_OK);
		assert_string_equal(connection(), "closed");
		assert_int_equal(server->fake.connects, 0);
	}
}

/* Until its deadline each waits for a connection that does not come. Nothing was sent before. */
static void without_a_connection(void **state)
{
	const struct call *call;
	unsigned int requests;

	for (call = calls; call->kind < CALL_LOCAL; call++) {
		calls_anew(state, setup);
		kvd->options.reconnect = 1;
		kvd->options.timeout_ms = 20;
		requests = server->requests;
		fake_device_lose(&server->fake);
		assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
		judge(call, call->run(kvd), KVD_ERR_DISCONNECTED, "nothing was done");
		assert_non_null(strstr(kvd_error(kvd), "no connection to"));
		assert_non_null(strstr(kvd_error(kvd), "Work Request Flushed Error"));
		assert_int_equal(server->requests, requests);
		kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
		assert_reconnected(call);
	}
}

/* After the first that waited. */
static void while_the_server_is_away(void **state)
{
	const struct call *call;
	unsigned int requests;

	for (call = calls; call < calls + call_count; call++) {
		calls_anew(state, setup);
		kvd->options.reconnect = 1;
		kvd->options.timeout_ms = 20;
		assert_true(kvd_fd(kvd) >= 0);
		fake_device_lose(&server->fake);
		assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
		assert_string_equal(connection(), "away");
		requests = server->requests;
		kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
		if (call->kind < CALL_LOCAL)
			judge(call, call->run(kvd), KVD_ERR_AWAY, "nothing was done");
		else
			assert_int_equal(call->run(kvd), strcmp(call->name, "kvd_cancel") ?
								 KVD_OK :
								 KVD_ERR_INVALID);
		assert_int_equal(server->requests, requests);
		assert_reconnected(call);
	}
}

/* What is local does not wait: memory is the device's, which is there. */
static void without_a_connection_locally(void **state)
{
	const struct call *call;

	for (call = calls; call < calls + call_count; call++) {
		if (call->kind != CALL_LOCAL)
			continue;
		calls_anew(state, setup);
		kvd->options.reconnect = 1;
		assert_true(kvd_fd(kvd) >= 0);
		fake_device_lose(&server->fake);
		assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
		assert_int_equal(call->run(kvd),
				 strcmp(call->name, "kvd_cancel") ? KVD_OK : KVD_ERR_INVALID);
	}
}

static bool losing;

/* When the handle polls for what is held back. */
static void lose(struct fake_device *fake)
{
	if (!losing)
		return;
	losing = false;
	fake_device_lose(fake);
}

/* The connection is lost when the call has sent what it sends first. */
static void lose_under(bool reconnect, uint32_t answers)
{
	kvd->options.reconnect = reconnect;
	kvd->sent.limit = answers;
	server->welcome.answers = answers;
	server->welcome.identity_known = answers > 0;
	server->hold_all = server->fake.hold_reads = losing = true;
	server->fake.idle = lose;
}

/* The next connection answers; the server keeps no answers to changes. */
static void after_it_was_sent(void **state)
{
	const struct call *call;
	enum kvd_status status;

	for (call = calls; call->kind < CALL_LOCAL; call++) {
		calls_anew(state, setup);
		lose_under(true, 0);
		server->fake.connect = accept_try;
		status = call->run(kvd);
		assert_false(losing);
		if (call->kind == CALL_CHANGE)
			judge(call, status, KVD_ERR_UNKNOWN, "no record");
		else if (call->kind == CALL_KILL)
			judge(call, status, KVD_ERR_DISCONNECTED, "connects again by itself");
		else if (status || calls_others(KVD_OK))
			fail_msg("%s: %s: %s", call->name, kvd_status_text(status), kvd_error(kvd));
		assert_reconnected(call);
	}
}

/* A change that was sent may have taken effect; the others were not done. */
static void after_it_was_sent_without_another(void **state)
{
	const struct call *call;
	enum kvd_status status;

	for (call = calls; call->kind < CALL_LOCAL; call++) {
		calls_anew(state, setup);
		kvd->options.timeout_ms = 20;
		lose_under(true, 8);
		status = call->run(kvd);
		assert_false(losing);
		if (call->kind == CALL_CHANGE)
			judge(call, status, KVD_ERR_TIMEOUT, "may have taken effect");
		else if (call->kind == CALL_KILL)
			judge(call, status, KVD_ERR_DISCONNECTED, "connects again by itself");
		else
			judge(call, status, KVD_ERR_DISCONNECTED, "nothing was done");
		kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
		assert_reconnected(call);
	}
}

static void after_it_was_sent_for_ever(void **state)
{
	const struct call *call;

	for (call = calls; call->kind < CALL_LOCAL; call++) {
		calls_anew(state, setup);
		lose_under(false, 0);
		judge(call, call->run(kvd), KVD_ERR_DISCONNECTED, "is lost");
		assert_string_equal(connection(), "closed");
	}
}

static enum ibv_wc_status failure;

static enum ibv_wc_status failing(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	(void)fake, (void)wr;
	return failure;
}

/* What a completion says decides whose fault it is. */
static void completions_that_fail(void **state)
{
	static const struct {
		enum ibv_wc_status failure;
		enum kvd_status want;
		const char *text;
	} failures[] = {
		{ IBV_WC_WR_FLUSH_ERR, KVD_ERR_DISCONNECTED, "is lost" },
		{ IBV_WC_RETRY_EXC_ERR, KVD_ERR_DISCONNECTED, "is lost" },
		{ IBV_WC_RNR_RETRY_EXC_ERR, KVD_ERR_DISCONNECTED, "is lost" },
		{ IBV_WC_REM_ACCESS_ERR, KVD_ERR_DISCONNECTED, "no longer serves" },
		{ IBV_WC_REM_INV_REQ_ERR, KVD_ERR_DISCONNECTED, "no longer serves" },
		{ IBV_WC_REM_OP_ERR, KVD_ERR_DISCONNECTED, "no longer serves" },
		{ IBV_WC_LOC_LEN_ERR, KVD_ERR_DEVICE, "device" },
		{ IBV_WC_LOC_PROT_ERR, KVD_ERR_DEVICE, "device" },
		{ IBV_WC_FATAL_ERR, KVD_ERR_DEVICE, "device" },
	};
	const struct call *call;
	unsigned int i;

	for (i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		for (call = calls; call->kind < CALL_LOCAL; call++) {
			calls_anew(state, setup);
			failure = failures[i].failure;
			server->fake.read = server->fake.send = failing;
			judge(call, call->run(kvd), failures[i].want, failures[i].text);
			assert_non_null(strstr(kvd_error(kvd), ibv_wc_status_str(failure)));
			assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
			assert_non_null(strstr(kvd_error(kvd), ibv_wc_status_str(failure)));
		}
}

/* One of each operation that can be submitted; they fail, or are canceled, all. */
#define OPS 10u

static void submit_each(struct kvd_op ops[OPS])
{
	static const uint64_t keys[] = { 0, 2 };
	static uint8_t values[OPS][20];
	struct kvd_op *list[OPS];
	unsigned int i, code = 0;

	for (i = 0; i < OPS; i++, code++) {
		code += code == KVD_OP_SCAN;
		kvd_prep(&ops[i], (enum kvd_opcode)code, &keys[code == KVD_OP_GET], 8);
		if (code == KVD_OP_GET || code == KVD_OP_PUT || code >= KVD_OP_GET_BY_REQUEST)
			ops[i].value = values[i];
		if (ops[i].value)
			ops[i].value_len = sizeof(values[i]);
		list[i] = &ops[i];
	}
	assert_int_equal(kvd_submit(kvd, list, OPS), KVD_OK);
}

static void await_each(struct kvd_op ops[OPS], enum kvd_status want)
{
	struct kvd_op *done[OPS];
	unsigned int i;

	assert_int_equal(kvd_wait(kvd, done, OPS, OPS, UINT32_MAX), OPS);
	for (i = 0; i < OPS; i++)
		if (ops[i].status != want || ops[i].item.version)
			fail_msg("operation %u: %s instead of %s: %s", (unsigned int)ops[i].op,
				 kvd_status_text(ops[i].status), kvd_status_text(want),
				 kvd_error(kvd));
	assert_int_equal(kvd_outstanding(kvd), 0);
}

static void submitted_operations(void **state)
{
	static const struct {
		enum ibv_wc_status failure;
		enum kvd_status want;
	} failures[] = {
		{ IBV_WC_RETRY_EXC_ERR, KVD_ERR_DISCONNECTED },
		{ IBV_WC_LOC_PROT_ERR, KVD_ERR_DEVICE },
	};
	struct kvd_op ops[OPS];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		calls_anew(state, setup);
		failure = failures[i].failure;
		server->fake.read = server->fake.send = failing;
		submit_each(ops);
		await_each(ops, failures[i].want);
		assert_non_null(strstr(kvd_error(kvd), ibv_wc_status_str(failure)));
	}
	/* Without a connection nothing is sent, so that each can be canceled. */
	calls_anew(state, setup);
	kvd->options.reconnect = 1;
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	submit_each(ops);
	for (i = 0; i < OPS; i++)
		assert_int_equal(kvd_cancel(kvd, &ops[i]), KVD_OK);
	await_each(ops, KVD_ERR_CANCELED);
	assert_int_equal(server->requests, 0);
}

/* The cause of a loss is told until there is a connection, whatever failed in between. */
static void the_cause_stays(void **state)
{
	(void)state;
	kvd->options.reconnect = 1;
	kvd->options.timeout_ms = 20;
	handle_fail(kvd, KVD_ERR_DISCONNECTED, "the cause");
	assert_int_equal(kvd_get(kvd, "k", 0, NULL, 0, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
	assert_non_null(strstr(kvd_error(kvd), "no connection to"));
	assert_non_null(strstr(kvd_error(kvd), "the cause"));
}

/* Nothing of what the parent has is touched. */
static bool child_is_refused(void)
{
	struct kvd_op *done[1];
	const struct call *call;
	bool good = true;

	for (call = calls; call < calls + call_count; call++) {
		kvd->error[0] = '\0';
		if (call->run(kvd) == KVD_ERR_DISCONNECTED && calls_untouched() &&
		    !calls_others(KVD_ERR_DISCONNECTED) && strstr(kvd_error(kvd), "fork(2)"))
			continue;
		fprintf(stderr, "%s in a child: %s\n", call->name, kvd_error(kvd));
		good = false;
	}
	return good && kvd_fd(kvd) == -1 && !kvd_poll(kvd, done, 1) &&
	       !kvd_wait(kvd, done, 1, 1, UINT32_MAX);
}

static void in_a_child(void **state)
{
	unsigned int requests = server->requests;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(!child_is_refused());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(server->requests, requests);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, calls_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(on_a_closed_handle),
		CASE(without_a_connection),
		CASE(while_the_server_is_away),
		CASE(without_a_connection_locally),
		CASE(after_it_was_sent),
		CASE(after_it_was_sent_without_another),
		CASE(after_it_was_sent_for_ever),
		CASE(completions_that_fail),
		CASE(submitted_operations),
		CASE(the_cause_stays),
		CASE(in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
