/* SPDX-License-Identifier: MIT */
/*
 * Statuses that kvd.h documents and that a server alone does not cause: a device that fails, a text
 * that does not fit; and what works on a lost connection, too. After each the handle is what kvd.h
 * says.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/reconnect.h"
#include "common/util/clock.h"
#include "tests/support/fake_server.h"

#define LARGE_BYTES 200000u

static struct fake_server *server;
static struct kvd *kvd;
static struct device_ops ops;
static const struct device_ops *fake_ops;
static uint64_t keys[3] = { 0, 1, 2 };
static uint8_t found[LARGE_BYTES], large[LARGE_BYTES];

static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	(void)p;
	response->status = WIRE_OK;
	if (request->op == WIRE_STATS || request->op == WIRE_CLIENTS) {
		memcpy(value, "a 1\nbc 22\n", 10);
		response->value_len = 10;
	} else if (request->op != WIRE_SCAN) {
		response->version = 5;
	}
}

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(2, 2, 0, 0, NULL);
	kvd = &server->kvd;
	server->respond = respond;
	fake_ops = kvd->dev->ops;
	ops = *fake_ops;
	kvd->dev->ops = &ops;
	fake_server_put(server, 1, LARGE_BYTES, 0);
	fake_server_put(server, 2, 20, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	kvd_observe(NULL, 0);
	return 0;
}

/* The calls. */
static enum kvd_status get(void)
{
	return kvd_get(kvd, &keys[2], 8, found, sizeof(found), NULL);
}

static enum kvd_status get_large(void)
{
	return kvd_get(kvd, &keys[1], 8, found, sizeof(found), NULL);
}

static enum kvd_status put(void)
{
	return kvd_put(kvd, &keys[0], 8, "x", 1, NULL, NULL);
}

static enum kvd_status put_large(void)
{
	return kvd_put(kvd, &keys[0], 8, large, sizeof(large), NULL, NULL);
}

static enum kvd_status ping(void)
{
	return kvd_ping(kvd);
}

static int each(void *arg, const struct kvd_entry *entry)
{
	(void)arg, (void)entry;
	return 0;
}

static enum kvd_status scan(void)
{
	uint64_t cursor = 0;

	return kvd_scan(kvd, &cursor, NULL, each, NULL);
}

static enum kvd_status stats(void)
{
	char text[100];

	return kvd_server_stats(kvd, text, sizeof(text), NULL);
}

/* What a device's calls return. */
static struct ibv_context_ops real;

static int failing_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return EIO;
}

static int failing_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	*bad = wr;
	return EIO;
}

static int failing_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wcs)
{
	(void)cq, (void)count, (void)wcs;
	return -1;
}

static int failing_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	return EIO;
}

static int failing_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	(void)channel, (void)fd, (void)timeout_ms;
	return -EIO;
}

static void fail_post_send(void)
{
	server->fake.context.ops.post_send = failing_post_send;
}

static void fail_post_recv(void)
{
	server->fake.context.ops.post_recv = failing_post_recv;
}

static void fail_poll_cq(void)
{
	server->fake.context.ops.poll_cq = failing_poll_cq;
}

/* Nothing comes at once: the call goes to sleep. */
static void fail_req_notify_cq(void)
{
	server->hold_all = server->fake.hold_reads = true;
	server->fake.context.ops.req_notify_cq = failing_req_notify_cq;
}

static void fail_sleep(void)
{
	server->hold_all = server->fake.hold_reads = true;
	ops.sleep = failing_sleep;
}

static enum ibv_wc_status bad_read(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	(void)fake, (void)wr;
	return IBV_WC_LOC_PROT_ERR;
}

static void fail_completions(void)
{
	server->fake.read = bad_read;
	server->fake.send = bad_read;
}

/* Every call that uses the device ends with KVD_ERR_DEVICE, and the handle does not go on. */
static void a_device_that_fails(void **state)
{
	static const struct {
		const char *name;
		void (*begin)(void);
		bool reads; /* a GET meets it, too */
	} failures[] = {
		{ "ibv_post_send", fail_post_send, true },
		{ "ibv_post_recv", fail_post_recv, false },
		{ "ibv_poll_cq", fail_poll_cq, true },
		{ "ibv_req_notify_cq", fail_req_notify_cq, true },
		{ "can't sleep", fail_sleep, true },
		{ "local protection error", fail_completions, true },
	};
	static enum kvd_status (*const runs[])(void) = { get,  get_large, put,	put_large,
							 ping, scan,	  stats };
	enum kvd_status status;
	size_t f, r;

	for (f = 0; f < sizeof(failures) / sizeof(failures[0]); f++)
		for (r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
			if (r < 2 && !failures[f].reads)
				continue;
			if (teardown(state) + setup(state))
				fail();
			/* All receives that one call takes are posted anew. */
			kvd->options.spin_us = 0;
			real = server->fake.context.ops;
			failures[f].begin();
			status = runs[r]();
			server->fake.context.ops = real;
			ops.sleep = fake_ops->sleep;
			if (status != KVD_ERR_DEVICE || !strstr(kvd_error(kvd), failures[f].name))
				fail_msg("%s, call %zu: %s: %s", failures[f].name, r,
					 kvd_status_text(status), kvd_error(kvd));
			assert_int_equal(ping(), KVD_ERR_DISCONNECTED);
		}
}

/* Around the length of the text, whose end and length are only written if it fits. */
static void texts_that_do_not_fit(void **state)
{
	static enum kvd_status (*const texts[])(struct kvd *, char *, size_t, size_t *) = {
		kvd_server_stats,
		kvd_client_list,
	};
	static const char *const needs[] = {
		"the statistics need more than",
		"the list needs more than",
	};
	size_t i, len, size;
	char text[32];

	(void)state;
	for (i = 0; i < 2; i++) {
		for (size = 0; size <= 12; size++) {
			enum kvd_status want = !size	  ? KVD_ERR_INVALID :
					       size <= 10 ? KVD_ERR_BUFFER :
							    KVD_OK;

			memset(text, 'x', sizeof(text));
			len = 77;
			assert_int_equal(texts[i](kvd, text, size, &len), want);
			assert_int_equal(len, want ? 77 : 10);
			/* Nothing past @size is touched. */
			assert_int_equal(text[size], 'x');
			if (!want)
				assert_string_equal(text, "a 1\nbc 22\n");
			else if (size)
				assert_non_null(strstr(kvd_error(kvd), needs[i]));
			else
				assert_non_null(strstr(kvd_error(kvd), "no room for the "));
		}
		assert_int_equal(texts[i](kvd, NULL, 10, &len), KVD_ERR_INVALID);
		assert_int_equal(texts[i](kvd, text, sizeof(text), NULL), KVD_OK);
	}
	assert_int_equal(ping(), KVD_OK);
}

static void refuse_busy(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->status = WIRE_BUSY;
	response->value_len = 0;
}

static void next_line_again(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	if (response->op == WIRE_STATS)
		response->next_line = 7;
	else
		response->cursor = 7;
}

static void texts_that_are_refused(void **state)
{
	char text[100];

	server->before_response = refuse_busy;
	assert_int_equal(stats(), KVD_ERR_BUSY);
	server->before_response = NULL;
	assert_int_equal(stats(), KVD_OK);
	/* A page that does not get on would never end. */
	server->before_response = next_line_again;
	assert_int_equal(stats(), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "fake server sent the same statistics twice"));
	assert_int_equal(stats(), KVD_ERR_DISCONNECTED);
	if (teardown(state) + setup(state))
		fail();
	server->before_response = next_line_again;
	assert_int_equal(kvd_client_list(kvd, text, sizeof(text), NULL), KVD_ERR_PROTOCOL);
	assert_non_null(strstr(kvd_error(kvd), "fake server sent the same list twice"));
}

/* All of kvd_info(), with a bucket cache and without; the connection's states are below. */
static void what_a_handle_is_connected_to(void **state)
{
	struct kvd_options options;
	struct kvd_info info;

	for (unsigned int cached = 0; cached < 2; cached++) {
		teardown(state);
		kvd_options_init(&options);
		options.cache_bytes = cached ? 5000 : 0;
		server = fake_server_open(3, 6, 50, 1000, &options);
		kvd = &server->kvd;
		fake_ops = kvd->dev->ops;
		memset(&info, 0, sizeof(info));
		kvd_info(kvd, &info);
		assert_string_equal(info.device_kind, "softnic");
		assert_string_equal(info.device_name, "fake server");
		assert_non_null(strstr(info.device_why, "asks for it"));
		assert_true(info.incarnation == server->geometry.incarnation);
		assert_int_equal(info.region_bytes, FAKE_SERVER_REGION_BYTES);
		assert_int_equal(info.value_max, server->geometry.value_max);
		assert_int_equal(info.window, 6);
		assert_int_equal(info.request_bytes, FAKE_SERVER_BUFFER_BYTES);
		assert_int_equal(info.cache_bytes, cached ? 4096 : 0);
		assert_int_equal(info.buckets, 8);
		assert_int_equal(info.access_rate, 50);
		assert_string_equal(info.connection, "up");
		assert_int_equal(info.reconnects, 0);
	}
}

static void accept_try(struct fake_device *fake)
{
	fake_device_event(fake, CM_ESTABLISHED, 0);
}

/* A device that takes no request for a notification is a loss, as any other failure of it. */
static void arming_a_device_that_fails(void **state)
{
	for (unsigned int reconnect = 0; reconnect < 2; reconnect++) {
		if (teardown(state) + setup(state))
			fail();
		kvd->options.reconnect = reconnect;
		server->fake.connect = accept_try;
		assert_true(kvd_fd(kvd) >= 0);
		real = server->fake.context.ops;
		server->fake.context.ops.req_notify_cq = failing_req_notify_cq;
		assert_int_equal(kvd_arm(kvd), reconnect ? KVD_OK : KVD_ERR_DISCONNECTED);
		assert_non_null(strstr(kvd_error(kvd), "ibv_req_notify_cq"));
		server->fake.context.ops = real;
		assert_int_equal(ping(), reconnect ? KVD_OK : KVD_ERR_DISCONNECTED);
		assert_int_equal(kvd_arm(kvd), reconnect ? KVD_OK : KVD_ERR_DISCONNECTED);
	}
}

static void trace(void *user, const struct kvd_trace_event *event)
{
	(void)user, (void)event;
}

/* The server's clock advances with this host's, and is unknown when that stood still. */
static void the_clock_of_the_server(void **state)
{
	const uint64_t low_ns = 1700000000000000000ull, width_ns = 1000;
	uint64_t before_ns, clock_ns, after_ns;

	(void)state;
	before_ns = clock_raw_ns();
	kvd->clock = (struct server_clock){
		.low_ns = low_ns,
		.high_ns = low_ns + width_ns,
		.at_ns = before_ns,
		.slept_ns = clock_slept_ns(),
		.known = true,
	};
	clock_ns = kvd_clock_ns(kvd) - low_ns;
	after_ns = clock_raw_ns() - before_ns;
	assert_in_range(clock_ns, width_ns / 2, width_ns + after_ns + after_ns / 100);
	kvd->clock.slept_ns -= 1000000000;
	assert_int_equal(kvd_clock_ns(kvd), 0);
	kvd->clock.slept_ns += 1000000000;
	kvd->clock.known = false;
	assert_int_equal(kvd_clock_ns(kvd), 0);
	assert_int_equal(kvd_clock_ns(NULL), 0);
}

/* What says so in kvd.h. @connection: kvd_info.connection. */
static void assert_works(const char *connection)
{
	struct kvd_op_stats op;
	struct kvd_stats done;
	struct kvd_info info;
	char text[8192];

	memset(&info, 0, sizeof(info));
	kvd_info(kvd, &info);
	assert_string_equal(info.connection, connection);
	assert_string_equal(info.device_kind, "softnic");
	assert_string_equal(info.device_name, "fake server");
	assert_true(strlen(info.device_why) > 0);
	assert_true(info.incarnation == server->geometry.incarnation);
	assert_true(info.region_bytes == FAKE_SERVER_REGION_BYTES);
	assert_true(info.value_max == server->geometry.value_max);
	assert_int_equal(info.buckets, 4);
	kvd_stats(kvd, &done);
	assert_int_equal(done.gets, 1);
	assert_int_equal(done.puts, 1);
	assert_true(kvd_latency_ns(kvd, KVD_OP_PUT, 0.5) > 0);
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_PUT, KVD_PATH_REQUEST, &op, sizeof(op)), KVD_OK);
	assert_int_equal(op.count, 1);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, text, sizeof(text), NULL), KVD_OK);
	assert_non_null(strstr(text, "puts 1\n"));
	assert_int_equal(kvd_trace(kvd, trace, NULL), KVD_OK);
	assert_int_equal(kvd_trace(kvd, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OFF), KVD_OK);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_outstanding(kvd), 0);
}

static void on_a_lost_connection(void **state)
{
	(void)state;
	kvd->options.reconnect = 1;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(get(), KVD_OK);
	assert_int_equal(put(), KVD_OK);
	assert_works("up");
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	assert_works("waiting");
	/* The next try has no answer. */
	kvd->reconnect.next_ns = 0;
	assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	assert_int_equal(server->fake.connects, 1);
	assert_works("connecting");
}

static void on_a_closed_handle(void **state)
{
	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(get(), KVD_OK);
	assert_int_equal(put(), KVD_OK);
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_poll(kvd, NULL, 0), 0);
	assert_works("closed");
	assert_int_equal(kvd_arm(kvd), KVD_ERR_INVALID);
	assert_int_equal(ping(), KVD_ERR_DISCONNECTED);
	assert_works("closed");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_device_that_fails),	  CASE(texts_that_do_not_fit),
		CASE(texts_that_are_refused),	  CASE(what_a_handle_is_connected_to),
		CASE(arming_a_device_that_fails), CASE(on_a_lost_connection),
		CASE(on_a_closed_handle),	  CASE(the_clock_of_the_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
