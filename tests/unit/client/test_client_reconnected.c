/* SPDX-License-Identifier: MIT */
/*
 * What a handle has when it is connected again: as many buffers and places as before, nothing of
 * the previous connection, server or clock; and what it says of that: log lines, texts.
 */
#include "tests/support/reconnect_test.h"

#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/libkvd/reconnect.h"
#include "common/util/clock.h"

#define LARGE_BYTES 100000u

static uint8_t large[LARGE_BYTES];
static char lines[4096]; /* that were logged, each with its level before it */

static void note_line(void *user, enum kvd_log_level level, const char *text)
{
	size_t used = strlen(lines);

	(void)user;
	snprintf(lines + used, sizeof(lines) - used, "%d %s\n", (int)level, text);
}

static void log_begin(void)
{
	lines[0] = '\0';
	assert_int_equal(kvd_set_log(KVD_LOG_INFO, note_line, NULL), KVD_OK);
}

static unsigned int logged(const char *text)
{
	unsigned int n = 0;
	const char *at;

	for (at = lines; (at = strstr(at, text)); at++)
		n++;
	return n;
}

/* The connection is lost with what is outstanding. */
static void lose(void)
{
	fake_device_lose(&server->fake);
	server->queued = 0;
	server->hold_all = false;
}

/* As many requests are outstanding as the window allows: more than a handle begins with. */
static void a_wide_window(void **state)
{
	unsigned int i, round;

	(void)state;
	kvd->conn.window = server->welcome.window = OPS;
	for (round = 0; round < 3; round++) {
		changes = 0;
		hold_puts(OPS);
		assert_int_equal(server->queued, OPS);
		server->hold_all = false;
		fake_server_answer(server, OPS);
		await_all();
		for (i = 0; i < OPS; i++) {
			assert_int_equal(ops[i].status, KVD_OK);
			assert_int_equal(ops[i].item.version, i + 1);
		}
		assert_int_equal(kvd->conn.message_count, OPS);
		assert_int_equal(kvd->conn.free_count, OPS);
		assert_int_equal(kvd->conn.recv_free_count, OPS);
		fake_device_lose(&server->fake);
		assert_int_equal(get(1), KVD_OK);
	}
}

/* A line for the loss, for the first, second and fourth try that failed, and for the end. */
static void what_is_logged(void **state)
{
	(void)state;
	log_begin();
	refusals = 5;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(logged("\n"), 5);
	assert_int_equal(logged("2 the connection to fake server is lost ("), 1);
	assert_int_equal(logged("2 try 1 to connect to fake server again failed: nobody listens"),
			 1);
	assert_int_equal(logged("2 try 2 to connect"), 1);
	assert_int_equal(logged("2 try 4 to connect"), 1);
	assert_int_equal(logged("4 connected again to fake server after "), 1);
	assert_int_equal(logged("s, 5 tries failed, the last one: nobody listens"), 1);
	/* The tries of the next loss are counted anew. */
	log_begin();
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(logged("\n"), 2);
	assert_int_equal(logged("s, 0 tries failed\n"), 1);
	kvd_set_log(KVD_LOG_OFF, NULL, NULL);
}

/* A server of another version is not asked again and again. */
static void another_version_has_the_longest_pause(void **state)
{
	(void)state;
	refusals = 1;
	reject = (struct wire_reject){ .magic = WIRE_MAGIC, .abi = WIRE_ABI + 1, .reason = 1 };
	fake_device_lose(&server->fake);
	while (!kvd->reconnect.tries)
		kvd_poll(kvd, done, OPS);
	assert_true(reconnect_pause_ns(kvd->reconnect.failures, 1) ==
		    reconnect_pause_ns(kvd->reconnect.failures + 1, 1));
}

static bool bad_welcome;

static uint64_t ahead_ns; /* of this host's clock */

static void accept_another(struct fake_device *fake)
{
	ahead_ns += 1000000000000u;
	accept_try(fake);
}

static void tell_clock(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->clock_ns = clock_raw_ns() + ahead_ns;
}

static void greet_badly_first(struct fake_server *p, struct wire_welcome *welcome)
{
	welcome->window = p->hellos == 1 && bad_welcome ? WIRE_WINDOW_MAX + 1 : WINDOW;
}

/*
 * What was known of the clock was another server's, of one whose welcome was refused, too: that the
 * next has another is no jump.
 */
static void the_clock_is_forgotten(void **state)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (i && teardown(state) + setup(state))
			fail();
		ahead_ns = 0;
		server->before_response = tell_clock;
		assert_int_equal(kvd_ping(kvd), KVD_OK);
		bad_welcome = i;
		server->greet = greet_badly_first;
		server->fake.connect = accept_another;
		fake_device_lose(&server->fake);
		kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
		assert_int_equal(kvd_ping(kvd), KVD_OK);
		assert_int_equal(server->hellos, i + 1);
		assert_int_equal(stats().clock_jumps, 0);
	}
}

/* A request for the clock that waits to be sent, and GETs that wait for its answer. */
static void a_loss_before_the_clock_is_asked(void **state)
{
	unsigned int i;

	(void)state;
	fake_server_put(server, 2, 20, FAKE_SERVER_CLOCK_S + 100);
	server->hold_all = true;
	kvd->conn.window = server->welcome.window = 1;
	submit_put(0, 3);
	submit_get(1, 2);
	for (i = 0; i < 10; i++)
		assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(stats().clock_asks, 1);
	assert_int_equal(server->pings, 0);
	lose();
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(get(2), KVD_OK);
}

static void hold_changes(struct fake_server *p, struct wire_response *response)
{
	p->hold_all = response->op == WIRE_PUT;
}

/* What waits for its turn is counted by the hash that its key has at the next server. */
static void a_get_behind_a_change_that_waits(void **state)
{
	unsigned int i;

	(void)state;
	server->hold_all = true;
	kvd->conn.window = server->welcome.window = 1;
	submit_put(0, 7);
	submit_put(1, 4);
	fake_server_restart(server);
	lose();
	server->before_response = hold_changes;
	while (!server->queued)
		kvd_poll(kvd, done, OPS);
	fake_server_delete(server, 4); /* as if it was not done yet */
	submit_get(2, 4);
	for (i = 0; i < 10; i++)
		kvd_poll(kvd, done, OPS);
	fake_server_put(server, 4, 20, 0);
	server->before_response = NULL;
	server->hold_all = false;
	fake_server_answer(server, 1);
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(ops[2].status, KVD_OK);
}

static unsigned int mute; /* HELLOs that are not answered; the connection ends by an event */

static void end_in_hello(struct fake_server *p, struct wire_response *response)
{
	if (response->op != WIRE_HELLO)
		return;
	p->hold_all = mute;
	if (!mute)
		return;
	mute--;
	p->queued = 0;
	fake_device_event(&p->fake, CM_DISCONNECTED, 0);
}

/* The end of a connection whose HELLO has no answer is noticed at once. */
static void an_end_before_the_welcome(void **state)
{
	(void)state;
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	kvd->options.connect_timeout_ms = 3600000;
	server->before_response = end_in_hello;
	mute = 1;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(server->hellos, 2);
}

/* The places of large values that were READ are free again. */
static void a_loss_while_a_large_value_is_read(void **state)
{
	unsigned int i;

	fake_server_put(server, 5, LARGE_BYTES, 0);
	for (i = 0; i < 2; i++) {
		server->fake.hold_reads = true;
		memset(large, 0, sizeof(large));
		kvd_prep_get(&ops[0], &keys[5], 8, large, sizeof(large));
		assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
		while (!server->fake.held_count)
			kvd_poll(kvd, done, OPS);
		fake_device_release(&server->fake);
		while (!server->fake.held_count)
			assert_int_equal(kvd_poll(kvd, done, OPS), 0);
		server->fake.hold_reads = false;
		lose();
		await_all();
		assert_int_equal(ops[0].status, KVD_OK);
		assert_int_equal(large[0], 5);
		assert_int_equal(large[LARGE_BYTES - 1], 5);
		assert_int_equal(kvd->transfer_count, 1);
		assert_false(list_empty(&kvd->transfers));
	}
	(void)state;
}

/* A GET that was canceled while the device wrote to registered memory ends with the connection. */
static void a_loss_behind_a_cancel(void **state)
{
	static uint8_t found[16384];
	struct kvd_mem *mem;

	(void)state;
	fake_server_put(server, 5, 8000, 0);
	assert_int_equal(kvd_register(kvd, found, sizeof(found), &mem), KVD_OK);
	assert_int_equal(get(5), KVD_ERR_BUFFER);
	server->fake.hold_reads = true;
	kvd_prep_get(&ops[0], &keys[5], 8, found, sizeof(found));
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	while (!server->fake.held_count)
		assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_OK);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	server->fake.hold_reads = false;
	lose();
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_CANCELED);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	assert_int_equal(get(1), KVD_OK);
}

/* What the server was to READ is not served any more: calls do not poll longer for it. */
static void values_are_not_served_any_more(void **state)
{
	(void)state;
	server->hold_all = true;
	kvd_prep_put(&ops[0], &keys[0], 8, large, sizeof(large), NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(kvd->served_bytes, sizeof(large));
	lose();
	await_all();
	assert_int_equal(kvd->served_bytes, 0);
}

/* Which of its two causes an unknown end has: nobody keeps answers, or they are gone. */
static void texts_of_unknown_ends(void **state)
{
	(void)state;
	hold_puts(1);
	lose();
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_non_null(strstr(kvd_error(kvd), "keeps no record of changes"));
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	server->welcome.answers = kvd->sent.limit = 16;
	hold_puts(1);
	lose();
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_non_null(strstr(kvd_error(kvd), "has restarted or forgot the change"));
}

static struct device_ops noting;
static const struct device_ops *fake_ops;
static struct ibv_qp_init_attr asked;
static struct cm_param offered;
static struct wire_connect first_words;
static unsigned int disconnects;

static int note_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access)
{
	asked = *attr;
	attr->cap.max_inline_data = 100;
	assert_int_equal(access, IBV_ACCESS_REMOTE_READ);
	return fake_ops->create_qp(id, pd, attr, access);
}

static int note_connect(struct cm_id *id, const struct cm_param *param)
{
	offered = *param;
	assert_int_equal(param->private_len, sizeof(first_words));
	memcpy(&first_words, param->private_data, sizeof(first_words));
	return fake_ops->connect(id, param);
}

static int note_disconnect(struct cm_id *id)
{
	disconnects++;
	return fake_ops->disconnect(id);
}

/* From now on. */
static void note_device(void)
{
	fake_ops = kvd->dev->ops;
	noting = *fake_ops;
	noting.create_qp = note_qp;
	noting.connect = note_connect;
	noting.disconnect = note_disconnect;
	kvd->dev->ops = &noting;
	disconnects = 0;
}

static enum ibv_wc_status (*send_before)(struct fake_device *fake, const struct ibv_send_wr *wr);

/* Inline as long as the queue pair takes it. */
static enum ibv_wc_status check_inline(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	assert_int_equal(!(wr->send_flags & IBV_SEND_INLINE), wr->sg_list->length > 100);
	return send_before(fake, wr);
}

/* The queue pair has room for all that may be posted, and the server is told what is understood. */
static void what_is_asked_of_device_and_server(void **state)
{
	static const char bytes[200];

	(void)state;
	note_device();
	send_before = server->fake.send;
	server->fake.send = check_inline;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(asked.cap.max_send_wr, READS_IN_FLIGHT_MAX + MESSAGES_MAX);
	assert_int_equal(asked.cap.max_recv_wr, MESSAGES_MAX);
	assert_int_equal(asked.cap.max_send_sge, READ_SGES_MAX);
	assert_int_equal(asked.cap.max_recv_sge, 1);
	assert_in_range(asked.cap.max_inline_data, 100, 1000);
	assert_in_range(offered.retry_count, 1, 6);
	assert_int_equal(offered.rnr_retry_count, 7);
	assert_in_range(offered.min_rnr_timer, 1, 31);
	assert_true(first_words.magic == WIRE_MAGIC);
	assert_int_equal(first_words.abi, WIRE_ABI);
	/* A message of 100 bytes, and one of 101. */
	for (size_t len = 40; len <= 48; len++)
		assert_int_equal(kvd_put(kvd, &keys[1], 8, bytes, len, NULL, NULL), KVD_OK);
}

/* The connect request as a whole, of a handle without a tenant and with one. */
static void the_tenant_is_asked_for(void **state)
{
	static const char *const names[] = { "", "alpha-1", "123456789012345678901234" };

	(void)state;
	note_device();
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct wire_connect expected = { .magic = WIRE_MAGIC, .abi = WIRE_ABI };

		memcpy(expected.tenant, names[i], strlen(names[i]));
		strcpy(kvd->tenant, names[i]);
		fake_device_lose(&server->fake);
		assert_int_equal(get(1), KVD_OK);
		assert_memory_equal(&first_words, &expected, sizeof(expected));
	}
}

static void lie(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->id += MESSAGES_MAX;
}

/* What ends a connection on this side ends it at once for the server, too. */
static void the_server_is_told_of_the_end(void **state)
{
	struct kvd_info info;

	(void)state;
	note_device();
	server->before_response = lie;
	kvd->options.reconnect = 0;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_PROTOCOL);
	assert_true(disconnects > 0);
	kvd_info(kvd, &info);
	assert_int_equal(info.reconnects, 0);
}

/*
 * An event of the connection makes the descriptor readable: of the first one, and of the next. One
 * of a connection that is lost does not, though a child may have its descriptors.
 */
static void the_descriptor_has_events(void **state)
{
	struct pollfd p = { .fd = kvd_fd(kvd), .events = POLLIN };
	struct kvd_info info;
	unsigned int round;
	int of_a_child[2];

	(void)state;
	for (round = 0; round < 2; round++) {
		while (kvd_poll(kvd, done, OPS) || kvd_arm(kvd))
			;
		assert_int_equal(poll(&p, 1, 0), 0);
		assert_int_equal(eventfd_write(server->fake.cm_channel.fd, 1), 0);
		assert_int_equal(poll(&p, 1, FAKE_TIMEOUT_MS), 1);
		of_a_child[round] = dup(server->fake.cm_channel.fd);
		fake_device_lose(&server->fake);
		assert_int_equal(get(1), KVD_OK);
	}
	kvd_info(kvd, &info);
	assert_int_equal(info.reconnects, 2);
	close(of_a_child[0]);
	close(of_a_child[1]);
}

/* On softnic completions and events come by one descriptor. */
static void one_descriptor_for_all(void **state)
{
	int fd = server->fake.cm_channel.fd;

	(void)state;
	server->fake.cm_channel.fd = server->fake.comp_channel.fd;
	assert_true(kvd_fd(kvd) >= 0);
	server->fake.cm_channel.fd = fd;
}

/* Without one there is no descriptor, and none is left open; later there may be. */
static void a_descriptor_that_can_not_be_made(void **state)
{
	int fd = server->fake.comp_channel.fd, before = dup(0), after;

	(void)state;
	assert_true(before >= 0);
	close(before);
	server->fake.comp_channel.fd = -1;
	assert_int_equal(kvd_fd(kvd), -1);
	assert_non_null(strstr(kvd_error(kvd), "descriptor"));
	server->fake.comp_channel.fd = fd;
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	assert_int_equal(kvd_arm(kvd), KVD_ERR_INVALID);
	assert_true(kvd_fd(kvd) >= 0);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
}

static unsigned int refused_hellos;

static void refuse_hello(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	if (response->op != WIRE_HELLO || !refused_hellos)
		return;
	refused_hellos--;
	response->status = WIRE_BUSY;
	response->value_len = 0;
}

/* A server that can't welcome the handle now is asked again, not waited for. */
static void a_hello_that_is_refused(void **state)
{
	(void)state;
	kvd->options.connect_timeout_ms = 3600000;
	server->before_response = refuse_hello;
	refused_hellos = 1;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(server->hellos, 2);
	assert_int_equal(stats().reconnects, 1);
}

/* A text that the server did not end is not read beyond its end. */
static void a_reason_without_an_end(void **state)
{
	const char *end;

	(void)state;
	refusals = 1;
	memset(&reject, 'x', sizeof(reject));
	reject.magic = WIRE_MAGIC;
	reject.abi = WIRE_ABI;
	reject.reason = 2;
	fake_device_lose(&server->fake);
	while (!kvd->reconnect.tries)
		kvd_poll(kvd, done, OPS);
	end = strchr(kvd->reconnect.why, 'x');
	assert_non_null(end);
	assert_int_equal(strlen(end), WIRE_REJECT_TEXT_BYTES - 1);
	assert_int_equal(strspn(end, "x"), WIRE_REJECT_TEXT_BYTES - 1);
}

static int no_events(struct cm_channel *channel, struct cm_event *event)
{
	return server->fake.connects == 1 ? -EIO : fake_ops->cm_get_event(channel, event);
}

/* A device that can't say how a try went has failed; here it is asked again. */
static void events_that_fail(void **state)
{
	(void)state;
	note_device();
	noting.cm_get_event = no_events;
	fake_device_lose(&server->fake);
	while (!kvd->reconnect.tries)
		assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(kvd->reconnect.status, KVD_ERR_DEVICE);
	assert_non_null(strstr(kvd->reconnect.why, "no events: Input/output error"));
	kvd->reconnect.device_died = false; /* there is no other one here */
	assert_int_equal(get(1), KVD_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_wide_window),
		CASE(what_is_logged),
		CASE(another_version_has_the_longest_pause),
		CASE(the_clock_is_forgotten),
		CASE(a_loss_before_the_clock_is_asked),
		CASE(a_get_behind_a_change_that_waits),
		CASE(an_end_before_the_welcome),
		CASE(a_loss_while_a_large_value_is_read),
		CASE(a_loss_behind_a_cancel),
		CASE(values_are_not_served_any_more),
		CASE(texts_of_unknown_ends),
		CASE(what_is_asked_of_device_and_server),
		CASE(the_tenant_is_asked_for),
		CASE(the_server_is_told_of_the_end),
		CASE(the_descriptor_has_events),
		CASE(one_descriptor_for_all),
		CASE(a_descriptor_that_can_not_be_made),
		CASE(a_hello_that_is_refused),
		CASE(a_reason_without_an_end),
		CASE(events_that_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
