/* SPDX-License-Identifier: MIT */
/*
 * Tests of libkvd on a device whose calls fail: of a handle that is opened, used and closed, the
 * N-th call of each kind fails, for each N. No call crashes or hangs, each that fails says so by a
 * status and a text, nothing leaks, and what follows on the same handle works: it connects again.
 * Then the same where a completion does not come. The server is another process, and has no faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/kvd.h"
#include "common/rdma/softnic/fault.h"
#include "tests/support/descriptors.h"
#include "tests/support/server_process.h"

#define LARGE_BYTES 200000u
#define SUBMITTED 6
#define WAIT_MS 300000
#define CALLS_MAX 1000
#define POLLED_STEP 9 /* of calls that poll, one in 9 fails, and of the first 120 only */
#define POLLED_MAX 120
#define LOST_MAX 200

static const char *url;
static const struct fault_plan *plan;
static uint8_t large[LARGE_BYTES], values[SUBMITTED][LARGE_BYTES];

static bool has_failed(void)
{
	return plan->fail_at && fault_count(plan->fail_call) >= plan->fail_at;
}

static void fail_with(const char *what, enum kvd_status status, const char *why)
{
	fault_reset();
	fail_msg("%s, where %s number %u fails, or completion %u is lost: %s: %s", what,
		 fault_call_name(plan->fail_call), (unsigned int)plan->fail_at,
		 (unsigned int)plan->lose_at, kvd_status_text(status), why);
}

/*
 * What a call may say to that. A timeout would be a hang: no call waits for anything but the fault.
 * UNKNOWN is not among them, as the server keeps its answers.
 */
static bool is_expected(enum kvd_status status)
{
	return !status || status == KVD_NOT_FOUND || status == KVD_ERR_NO_MEMORY ||
	       status == KVD_ERR_DEVICE || status == KVD_ERR_DISCONNECTED;
}

static bool expect(const struct kvd *kvd, const char *what, enum kvd_status status)
{
	if (!is_expected(status))
		fail_with(what, status, kvd_error(kvd));
	if (status && status != KVD_NOT_FOUND && !strlen(kvd_error(kvd)))
		fail_with(what, status, "no text");
	return !status;
}

static void submit(struct kvd *kvd)
{
	struct kvd_op ops[SUBMITTED], *list[SUBMITTED], *done[SUBMITTED];
	size_t n;

	kvd_prep_put(&ops[0], "a", 1, "1", 1, NULL);
	kvd_prep_get(&ops[1], "a", 1, values[1], 10);
	kvd_prep_put(&ops[2], "l", 1, large, sizeof(large), NULL);
	kvd_prep_get(&ops[3], "l", 1, values[3], sizeof(large));
	kvd_prep_incr(&ops[4], "a", 1, 1, NULL);
	kvd_prep_get(&ops[5], "a", 1, values[5], 10);
	for (n = 0; n < SUBMITTED; n++)
		list[n] = &ops[n];
	if (!expect(kvd, "kvd_submit", kvd_submit(kvd, list, SUBMITTED)))
		return;
	n = kvd_wait(kvd, done, SUBMITTED, SUBMITTED, WAIT_MS);
	if (n != SUBMITTED)
		fail_with("kvd_wait", KVD_ERR_TIMEOUT, "operations did not end");
	while (n--)
		if (!is_expected(done[n]->status))
			fail_with("an operation", done[n]->status, kvd_error(kvd));
	if (!ops[3].status)
		assert_memory_equal(values[3], large, sizeof(large));
	/* The two that come after a PUT of "a", which also was executed once. */
	if (!ops[0].status && !ops[4].status && !ops[5].status)
		assert_memory_equal(values[5], "2", 1);
}

static void use_registered(struct kvd *kvd)
{
	struct kvd_mem *mem;
	void *addr;

	if (!expect(kvd, "kvd_alloc", kvd_alloc(kvd, sizeof(large), &addr, &mem)))
		return;
	memcpy(addr, large, sizeof(large));
	expect(kvd, "a PUT from registered memory",
	       kvd_put(kvd, "l", 1, addr, sizeof(large), NULL, NULL));
	if (expect(kvd, "a GET to registered memory",
		   kvd_get(kvd, "l", 1, addr, sizeof(large), NULL)))
		assert_memory_equal(addr, large, sizeof(large));
	assert_int_equal(kvd_free(mem), KVD_OK);
}

static void use(struct kvd *kvd)
{
	struct kvd_item item;

	expect(kvd, "kvd_put", kvd_put(kvd, "s", 1, "Ada", 3, NULL, NULL));
	if (expect(kvd, "kvd_get", kvd_get(kvd, "s", 1, values[0], 100, &item)))
		assert_memory_equal(values[0], "Ada", 3);
	expect(kvd, "kvd_get_by_request", kvd_get_by_request(kvd, "s", 1, values[0], 100, &item));
	expect(kvd, "a long kvd_put", kvd_put(kvd, "l", 1, large, sizeof(large), NULL, NULL));
	if (expect(kvd, "a long kvd_get", kvd_get(kvd, "l", 1, values[0], sizeof(large), &item)))
		assert_memory_equal(values[0], large, sizeof(large));
	submit(kvd);
	use_registered(kvd);
	expect(kvd, "kvd_delete", kvd_delete(kvd, "s", 1));
}

/* Without faults. */
static void works(struct kvd *kvd)
{
	enum kvd_status status;
	struct kvd_item item;

	status = kvd_put(kvd, "s", 1, "Bob", 3, NULL, NULL);
	if (!status)
		status = kvd_get(kvd, "s", 1, values[0], 100, &item);
	if (!status)
		status = kvd_put(kvd, "l", 1, large, sizeof(large), NULL, NULL);
	memset(values[0], 0, sizeof(values[0]));
	if (!status)
		status = kvd_get(kvd, "l", 1, values[0], sizeof(large), &item);
	if (status)
		fail_with("what came after the fault", status, kvd_error(kvd));
	assert_memory_equal(values[0], large, sizeof(large));
}

/* Under the plan: opens a handle, uses it, uses it again after the fault, and closes it. */
static void session(void)
{
	unsigned int before = descriptors();
	struct kvd_options options;
	enum kvd_status status;
	struct kvd *kvd;

	kvd_options_init(&options);
	options.cache_bytes = 1u << 20;
	options.timeout_ms = options.connect_timeout_ms = WAIT_MS;
	fault_set(plan);
	status = kvd_open(&kvd, url, &options);
	if (expect(NULL, "kvd_open", status)) {
		use(kvd);
		if (has_failed() || plan->lose_at)
			works(kvd);
	}
	kvd_close(kvd);
	fault_reset();
	if (descriptors() != before)
		fail_with("descriptors", KVD_OK, "they leak");
}

static bool call_polls(enum fault_call call)
{
	return call == FAULT_poll_cq || call == FAULT_cm_get_event || call == FAULT_get_cq_event ||
	       call == FAULT_get_async_event || call == FAULT_req_notify_cq;
}

static void each_call_fails(void **state)
{
	struct fault_plan each = { .seed = 1 };
	unsigned int call, calls = 0, kinds = 0;

	(void)state;
	plan = &each;
	for (call = 0; call < FAULT_CALL_COUNT; call++) {
		unsigned int step = call_polls(call) ? POLLED_STEP : 1;
		unsigned int max = call_polls(call) ? POLLED_MAX : CALLS_MAX;

		each.fail_call = call;
		for (each.fail_at = 1; each.fail_at <= max; each.fail_at += step) {
			session();
			if (!has_failed())
				break;
			calls++;
		}
		kinds += each.fail_at > 1;
		if (!call_polls(call))
			assert_true(each.fail_at <= CALLS_MAX);
	}
	print_message("%u calls of %u kinds failed\n", calls, kinds);
	assert_true(kinds >= 15);
}

/* Each completion in turn, until a session has had fewer. */
static void each_completion_is_lost(void **state)
{
	struct fault_plan each = { .seed = 1, .lose_ns = 2000000 };

	(void)state;
	plan = &each;
	for (each.lose_at = 1; each.lose_at < LOST_MAX; each.lose_at++) {
		session();
		if (fault_completions_count() < each.lose_at)
			break;
	}
	print_message("%u completions were lost\n", (unsigned int)each.lose_at - 1);
	assert_in_range(each.lose_at, 15, LOST_MAX - 1);
}

int main(void)
{
	static const char *const options[] = { "memory.size=64m", "limits.max_value=1m", NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails),
		cmocka_unit_test(each_completion_is_lost),
	};
	struct server_process server = { .pid = -1 };
	int failures;

	if (!server_process_start(&server, options))
		return EXIT_FAILURE;
	url = server.url;
	memset(large, 'x', sizeof(large));
	failures = cmocka_run_group_tests(tests, NULL, NULL);
	return !server_process_stop(&server) || failures;
}
