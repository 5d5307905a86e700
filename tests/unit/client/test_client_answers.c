/* SPDX-License-Identifier: MIT */
/*
 * Each status that a server may answer an operation with: what the call returns, and the operation
 * that was submitted, alone or in a batch; what kvd_error() says; that no result is written; and
 * whether the handle goes on. Answers that break the protocol end the connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/calls.h"

#define UNTOUCHED 0x5555555555555555u

static struct fake_server *server;
static struct kvd *kvd;
static const uint64_t keys[] = { 0, 1, 2, 3 };
static uint8_t buffer[100];
static uint8_t answer;	      /* to each change and GET by request */
static uint16_t answer_flags; /* of the response */

static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	calls_respond(p, request, response, value);
	response->status = answer;
	response->flags = answer_flags;
}

static void refuse_get(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	if (response->op != WIRE_GET && response->op != WIRE_TOUCH && response->op != WIRE_PING)
		return;
	*response = (struct wire_response){
		.op = response->op,
		.id = response->id,
		.clock_ns = response->clock_ns,
		.window = response->window,
		.status = answer,
		.flags = answer_flags,
	};
}

static int setup(void **state)
{
	(void)state;
	server = calls_open();
	kvd = &server->kvd;
	server->respond = respond;
	answer = WIRE_OK;
	answer_flags = 0;
	return 0;
}

static const struct call *call_named(const char *name)
{
	const struct call *call;

	for (call = calls; call < calls + call_count; call++)
		if (!strcmp(call->name, name))
			return call;
	fail_msg("there is no call %s", name);
	return NULL;
}

struct answer {
	uint8_t status;
	uint16_t flags;
	enum kvd_status want;
	const char *text; /* NULL: no failure, and so no text */
};

#define NOT_FOUND                                                                                  \
	{                                                                                          \
		WIRE_NOT_FOUND, 0, KVD_NOT_FOUND, NULL                                             \
	}
#define TOO_LARGE                                                                                  \
	{                                                                                          \
		WIRE_TOO_LARGE, 0, KVD_ERR_TOO_LARGE, "at most 1 MiB"                              \
	}
#define NO_SPACE                                                                                   \
	{                                                                                          \
		WIRE_NO_SPACE, 0, KVD_ERR_NO_SPACE, "memory.size"                                  \
	}
#define BUSY                                                                                       \
	{                                                                                          \
		WIRE_BUSY, 0, KVD_ERR_BUSY, "try again later"                                      \
	}
#define LIMIT                                                                                      \
	{                                                                                          \
		WIRE_LIMIT, 0, KVD_ERR_LIMIT, "over its limit"                                     \
	}
#define FLUSHES                                                                                    \
	{                                                                                          \
		WIRE_BUSY, 0, KVD_ERR_BUSY, "kvctl flush --cancel"                                 \
	}
#define PINNED                                                                                     \
	{                                                                                          \
		WIRE_BUSY, WIRE_R_PINS, KVD_ERR_BUSY, "memory.pin_share"                           \
	}
#define EXISTS                                                                                     \
	{                                                                                          \
		WIRE_EXISTS, 0, KVD_ERR_EXISTS, "nothing was changed"                              \
	}
#define NOT_A_NUMBER                                                                               \
	{                                                                                          \
		WIRE_NOT_A_NUMBER, 0, KVD_ERR_NOT_A_NUMBER, "1 to 20 digits"                       \
	}
#define PIN_TOO_LONG                                                                               \
	{                                                                                          \
		WIRE_INVALID, 0, KVD_ERR_INVALID, "memory.pin_time_max"                            \
	}
#define UNKNOWN                                                                                    \
	{                                                                                          \
		WIRE_UNKNOWN, 0, KVD_ERR_UNKNOWN, "no record of it"                                \
	}
#define PROTOCOL                                                                                   \
	{                                                                                          \
		WIRE_PROTOCOL, 0, KVD_ERR_PROTOCOL, "same version of kvd"                          \
	}

/* As kvd.h has them. WIRE_OK ends them. */
static const struct {
	const char *name;
	struct answer answers[12];
} documented[] = {
	{ "kvd_get_by_request", { NOT_FOUND, BUSY, LIMIT, PROTOCOL } },
	{ "kvd_get_by_request of a large value", { NOT_FOUND, BUSY, LIMIT, PROTOCOL } },
	{ "kvd_get_and_touch", { NOT_FOUND, BUSY, LIMIT, UNKNOWN, PROTOCOL } },
	{ "kvd_get_and_touch of a large value", { NOT_FOUND, BUSY, LIMIT, UNKNOWN, PROTOCOL } },
	{ "kvd_put",
	  { NOT_FOUND, EXISTS, TOO_LARGE, NO_SPACE, BUSY, LIMIT, PINNED, PIN_TOO_LONG, UNKNOWN,
	    PROTOCOL } },
	{ "kvd_put of a large value",
	  { NOT_FOUND, EXISTS, TOO_LARGE, NO_SPACE, BUSY, LIMIT, PINNED, PIN_TOO_LONG, UNKNOWN,
	    PROTOCOL } },
	{ "kvd_putv",
	  { NOT_FOUND, EXISTS, TOO_LARGE, NO_SPACE, BUSY, LIMIT, PINNED, PIN_TOO_LONG, UNKNOWN,
	    PROTOCOL } },
	{ "kvd_delete", { NOT_FOUND, BUSY, LIMIT, UNKNOWN, PROTOCOL } },
	{ "kvd_delete_if", { NOT_FOUND, EXISTS, BUSY, LIMIT, UNKNOWN, PROTOCOL } },
	{ "kvd_incr",
	  { NOT_FOUND, NOT_A_NUMBER, TOO_LARGE, NO_SPACE, BUSY, LIMIT, PINNED, UNKNOWN,
	    PROTOCOL } },
	{ "kvd_decr",
	  { NOT_FOUND, NOT_A_NUMBER, TOO_LARGE, NO_SPACE, BUSY, LIMIT, PINNED, UNKNOWN,
	    PROTOCOL } },
	{ "kvd_touch", { NOT_FOUND, BUSY, LIMIT, UNKNOWN, PROTOCOL } },
	{ "kvd_flush_start", { FLUSHES, LIMIT, UNKNOWN, PROTOCOL } },
	{ "kvd_flush_done", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_flush_cancel", { NOT_FOUND, LIMIT, PROTOCOL } },
	{ "kvd_flush_all", { BUSY, LIMIT, UNKNOWN, PROTOCOL } },
	{ "kvd_scan", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_ping", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_server_stats", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_client_list", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_whoami", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_server_report", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_sample", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_config_get", { BUSY, LIMIT, PROTOCOL } },
	{ "kvd_client_kill", { NOT_FOUND, BUSY, LIMIT, PROTOCOL } },
	{ "kvd_revoke", { NOT_FOUND, BUSY, LIMIT, PROTOCOL } },
};
#define DOCUMENTED (sizeof(documented) / sizeof(documented[0]))

/* An earlier text must not pass for that of the answer. */
static void begin(const struct answer *want)
{
	answer = want->status;
	answer_flags = want->flags;
	server->before_response = refuse_get;
	kvd->error[0] = '\0';
	calls_reset();
}

/* After KVD_ERR_PROTOCOL the connection is closed, else the handle works. */
static void assert_goes_on(const char *name, const struct answer *want)
{
	enum kvd_status status;

	answer = WIRE_OK;
	answer_flags = 0;
	server->before_response = NULL;
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	status = kvd_ping(kvd);
	if (status != (want->want == KVD_ERR_PROTOCOL ? KVD_ERR_DISCONNECTED : KVD_OK))
		fail_msg("after %s and %s: %s", name, kvd_status_text(want->want),
			 kvd_status_text(status));
}

static void judge(const char *name, enum kvd_status status, const struct answer *want)
{
	const char *text = kvd_error(kvd);

	if (status != want->want || !(want->text ? !!strstr(text, want->text) : !*text))
		fail_msg("%s: %s instead of %s: %s", name, kvd_status_text(status),
			 kvd_status_text(want->want), text);
}

static void of_calls(void **state)
{
	const struct answer *want;
	const struct call *call;

	for (size_t i = 0; i < DOCUMENTED; i++)
		for (want = documented[i].answers; want->status; want++) {
			calls_anew(state, setup);
			call = call_named(documented[i].name);
			/* Some calls try again until then. */
			if (want->status == WIRE_BUSY)
				kvd->options.timeout_ms = 20;
			begin(want);
			judge(call->name, call->run(kvd), want);
			assert_true(calls_untouched());
			assert_int_equal(kvd->stats.unknown, want->want == KVD_ERR_UNKNOWN);
			assert_int_equal(kvd->bounces, 0);
			assert_goes_on(call->name, want);
		}
}

/* The operations that can be submitted, and which row says what they are answered. */
#define OPS 10
static const struct {
	enum kvd_opcode code;
	const char *as;
} submitted[OPS] = {
	{ KVD_OP_GET_BY_REQUEST, "kvd_get_by_request" },
	{ KVD_OP_GET_AND_TOUCH, "kvd_get_and_touch" },
	{ KVD_OP_PUT, "kvd_put" },
	{ KVD_OP_PUT, "kvd_put of a large value" },
	{ KVD_OP_PUT, "kvd_putv" },
	{ KVD_OP_DELETE, "kvd_delete_if" },
	{ KVD_OP_INCR, "kvd_incr" },
	{ KVD_OP_DECR, "kvd_decr" },
	{ KVD_OP_TOUCH, "kvd_touch" },
	{ KVD_OP_PING, "kvd_ping" },
};

static void prepare(struct kvd_op *op, unsigned int n)
{
	static uint8_t large[CALLS_LARGE_BYTES];
	static const struct iovec iov[2] = { { large, 10 }, { large + 50, 30 } };

	kvd_prep(op, submitted[n].code, &keys[0], 8);
	op->item.version = op->number = UNTOUCHED;
	if (op->op == KVD_OP_GET_BY_REQUEST || op->op == KVD_OP_GET_AND_TOUCH) {
		op->value = buffer;
		op->value_len = sizeof(buffer);
	} else if (!strcmp(submitted[n].as, "kvd_putv")) {
		op->iov = iov;
		op->iov_count = 2;
		op->value_len = 40;
	} else if (op->op == KVD_OP_PUT) {
		op->value = large;
		op->value_len = strcmp(submitted[n].as, "kvd_put") ? sizeof(large) : 1;
	} else if (op->op == KVD_OP_DELETE) {
		op->mode = KVD_PUT_IF_VERSION;
		op->if_version = 3;
	}
}

/* @count times the same, so that more than one share a message where they may. */
static void submit(unsigned int n, unsigned int count, const struct answer *want)
{
	struct kvd_op ops[4], *list[4], *done[4];
	unsigned int i;

	for (i = 0; i < count; i++) {
		prepare(&ops[i], n);
		list[i] = &ops[i];
	}
	begin(want);
	assert_int_equal(kvd_submit(kvd, list, count), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 4, count, UINT32_MAX), count);
	for (i = 0; i < count; i++) {
		/* The first one's answer has ended the connection. */
		if (want->want == KVD_ERR_PROTOCOL && i && ops[i].status == KVD_ERR_DISCONNECTED)
			continue;
		judge(submitted[n].as, ops[i].status, want);
		assert_true(ops[i].item.version == UNTOUCHED && ops[i].number == UNTOUCHED);
	}
	assert_int_equal(kvd_outstanding(kvd), 0);
	assert_goes_on(submitted[n].as, want);
}

static const struct answer *answers_of(const char *name)
{
	for (size_t i = 0; i < DOCUMENTED; i++)
		if (!strcmp(documented[i].name, name))
			return documented[i].answers;
	fail_msg("no answers of %s", name);
	return NULL;
}

static void of_submitted_operations(void **state)
{
	const struct answer *want;
	unsigned int n;

	for (n = 0; n < OPS; n++)
		for (want = answers_of(submitted[n].as); want->status; want++) {
			calls_anew(state, setup);
			submit(n, 1, want);
		}
}

static void of_operations_in_a_batch(void **state)
{
	const struct answer *want;
	unsigned int n, batches = 0;

	/* Of the first and the last the fake server decides about the results in a batch. */
	for (n = 1; n < OPS - 1; n++)
		for (want = answers_of(submitted[n].as); want->status; want++) {
			calls_anew(state, setup);
			submit(n, 4, want);
			batches += server->batches;
		}
	assert_true(batches > 0);
}

/* How a response may break the protocol. */
static void another_request(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->id ^= MESSAGES_MAX;
}

static void another_operation(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->op = response->op == WIRE_PING ? WIRE_TOUCH : WIRE_PING;
	response->value_len = 0;
}

static void no_such_status(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->status = 200;
}

static void of_another_kind(void **state)
{
	static void (*const breaks[])(struct fake_server *, struct wire_response *) = {
		another_request,
		another_operation,
		no_such_status,
	};
	const struct call *call;
	enum kvd_status status;
	unsigned int i;

	for (i = 0; i < 3; i++)
		for (call = calls; call->kind < CALL_LOCAL; call++) {
			if (call->kind == CALL_LOOKUP)
				continue;
			calls_anew(state, setup);
			server->before_response = breaks[i];
			status = call->run(kvd);
			if (status != KVD_ERR_PROTOCOL || !strstr(kvd_error(kvd), "fake server") ||
			    !calls_untouched())
				fail_msg("%s, break %u: %s: %s", call->name, i,
					 kvd_status_text(status), kvd_error(kvd));
			assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
			assert_int_equal(kvd->conn.lost, KVD_ERR_PROTOCOL);
		}
}

/* A GET ends the connection if it is answered as only changes are. */
static void of_changes_to_a_get(void **state)
{
	static const uint8_t statuses[] = { WIRE_INVALID, WIRE_TOO_LARGE, WIRE_NO_SPACE,
					    WIRE_EXISTS, WIRE_NOT_A_NUMBER };
	static const char *const names[] = { "kvd_get_by_request",
					     "kvd_get_by_request of a large value",
					     "kvd_get_and_touch",
					     "kvd_get_and_touch of a large value" };
	enum kvd_status status;
	unsigned int i, n;

	for (i = 0; i < sizeof(statuses); i++)
		for (n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
			calls_anew(state, setup);
			server->before_response = refuse_get;
			answer = statuses[i];
			status = call_named(names[n])->run(kvd);
			if (status != KVD_ERR_PROTOCOL || !strstr(kvd_error(kvd), "no GET has") ||
			    !calls_untouched())
				fail_msg("%s, status %u: %s: %s", names[n], statuses[i],
					 kvd_status_text(status), kvd_error(kvd));
			assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
		}
}

/* The lengths around that of the value; the item is told with it all the same. */
static void of_a_buffer_too_small(void **state)
{
	struct kvd_op op, *list[] = { &op }, *done[1];
	struct kvd_get_request request = { .key = &keys[2], .key_len = 8, .value = buffer };
	const struct iovec iov[2] = { { buffer, 10 }, { buffer + 20, 9 } };
	struct kvd_item item;

	(void)state;
	for (size_t size = 0; size <= 20; size++) {
		enum kvd_status want = size < 20 ? KVD_ERR_BUFFER : KVD_OK;

		memset(&item, 0, sizeof(item));
		assert_int_equal(kvd_get(kvd, &keys[2], 8, buffer, size, &item), want);
		assert_int_equal(item.value_len, 20);
		if (want)
			assert_non_null(strstr(kvd_error(kvd), "a value of 20 bytes"));
		kvd->error[0] = '\0';
		memset(&item, 0, sizeof(item));
		assert_int_equal(kvd_get_by_request(kvd, &keys[2], 8, buffer, size, &item), want);
		assert_int_equal(item.value_len, 20);
		memset(&item, 0, sizeof(item));
		assert_int_equal(kvd_get_and_touch(kvd, &keys[2], 8, 5, buffer, size, &item), want);
		assert_int_equal(item.value_len, 20);
		request.value_size = size;
		assert_int_equal(kvd_get_many(kvd, &request, 1), KVD_OK);
		assert_int_equal(request.status, want);
		assert_int_equal(request.item.value_len, 20);
		for (unsigned int n = 0; n < 3; n++) {
			kvd_prep(&op,
				 n == 0 ? KVD_OP_GET :
				 n == 1 ? KVD_OP_GET_BY_REQUEST :
					  KVD_OP_GET_AND_TOUCH,
				 &keys[2], 8);
			op.value = buffer;
			op.value_len = size;
			assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
			assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
			assert_int_equal(op.status, want);
			assert_int_equal(op.item.value_len, 20);
		}
	}
	memset(&item, 0, sizeof(item));
	assert_int_equal(kvd_getv(kvd, &keys[2], 8, iov, 2, &item), KVD_ERR_BUFFER);
	assert_int_equal(item.value_len, 20);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, calls_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(of_calls),
		CASE(of_submitted_operations),
		CASE(of_operations_in_a_batch),
		CASE(of_another_kind),
		CASE(of_changes_to_a_get),
		CASE(of_a_buffer_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
