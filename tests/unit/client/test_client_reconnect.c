/* SPDX-License-Identifier: MIT */
/*
 * A handle that connects again: what becomes of operations in each state when the connection is
 * lost, tries that fail in each way, another start of the server, deadlines, and how tries spread.
 */
#include "tests/support/reconnect_test.h"

#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/libkvd/reconnect.h"
#include "common/util/clock.h"

#define SHORT_MS 60

static void assert_connection(const char *text)
{
	struct kvd_info info;

	kvd_info(kvd, &info);
	assert_string_equal(info.connection, text);
}

/* The next call meets the loss, and nobody notices it. */
static void a_loss_between_calls(void **state)
{
	(void)state;
	assert_int_equal(get(1), KVD_OK);
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(values[1][0], 1);
	assert_int_equal(stats().reconnects, 1);
	assert_int_equal(server->hellos, 1);
	assert_connection("up");
}

/* A connection that was idle is looked at before a change is sent: so it is not sent in vain. */
static void a_loss_before_send(void **state)
{
	(void)state;
	kvd->conn.posted_ns = 0;
	fake_device_event(&server->fake, CM_DISCONNECTED, 0);
	assert_int_equal(put(2), KVD_OK);
	assert_int_equal(changes, 1);
	assert_int_equal(server->hellos, 1);
	assert_int_equal(stats().unknown, 0);
	assert_int_equal(get(2), KVD_OK);
}

/* Each event that means a loss is noticed, also after events that mean none. */
static void events_before_send(void **state)
{
	static const struct {
		enum cm_event_type first, second;
		const char *why;
	} cases[] = {
		{ CM_DISCONNECTED, CM_DISCONNECTED, "disconnected" },
		{ CM_DEVICE_REMOVED, CM_DISCONNECTED, "removed" },
		{ CM_ESTABLISHED, CM_DISCONNECTED, "disconnected" },
		{ CM_ESTABLISHED, CM_DEVICE_REMOVED, "removed" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (i && teardown(state) + setup(state))
			fail();
		kvd->conn.posted_ns = 0;
		fake_device_event(&server->fake, cases[i].first, 0);
		fake_device_event(&server->fake, cases[i].second, 0);
		assert_int_equal(put(2), KVD_OK);
		assert_int_equal(changes, 1);
		assert_int_equal(server->hellos, 1);
		assert_int_equal(stats().reconnects, 1);
		assert_int_equal(stats().unknown, 0);
		assert_int_equal(stats().resent, 0);
		assert_non_null(strstr(kvd->reconnect.why, cases[i].why));
	}
}

/* After a loss requests share messages as before. */
static void batches_after_a_loss(void **state)
{
	unsigned int round;

	(void)state;
	for (round = 0; round < 3; round++) {
		server->batches = 0;
		changes = 0;
		put_together();
		assert_int_equal(server->batches, 2);
		fake_device_lose(&server->fake);
		assert_int_equal(get(1), KVD_OK);
		assert_int_equal(stats().reconnects, round + 1);
	}
}

/* Changes that were sent have an unknown result; later ones are done on the next connection. */
static void a_loss_after_send(void **state)
{
	unsigned int i;

	(void)state;
	hold_puts(OPS - 1);
	submit_get(OPS - 1, 1);
	assert_int_equal(server->queued, WINDOW);
	fake_device_lose(&server->fake);
	server->queued = 0;
	server->hold_all = false;
	await_all();
	for (i = 0; i < OPS - 1; i++)
		assert_int_equal(ops[i].status, i < WINDOW ? KVD_ERR_UNKNOWN : KVD_OK);
	assert_int_equal(ops[OPS - 1].status, KVD_OK);
	assert_int_equal(changes, OPS - 1);
	assert_int_equal(stats().unknown, WINDOW);
	assert_int_equal(put(1), KVD_OK);
}

static void a_loss_while_reading(void **state)
{
	(void)state;
	server->fake.hold_reads = true;
	submit_get(0, 1);
	submit_get(1, 3);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(server->fake.held_count, 2);
	fake_device_lose(&server->fake);
	server->fake.hold_reads = false;
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(ops[1].status, KVD_NOT_FOUND);
	assert_int_equal(values[1][19], 1);
}

/* Requests that change nothing are sent again. */
static void requests_are_repeated(void **state)
{
	(void)state;
	server->hold_all = true;
	kvd_prep_ping(&ops[0]);
	kvd_prep_get_by_request(&ops[1], &keys[3], 8, values[3], 32);
	kvd_prep_get_and_touch(&ops[2], &keys[3], 8, 5, values[3], 32);
	assert_int_equal(kvd_submit(kvd, list, 3), KVD_OK);
	fake_device_lose(&server->fake);
	server->queued = 0;
	server->hold_all = false;
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(ops[1].status, KVD_NOT_FOUND);
	assert_int_equal(ops[2].status, KVD_ERR_UNKNOWN);
	assert_int_equal(stats().resent, 2);
}

static struct device_ops noting_ops;
static const struct device_ops *fake_ops;
static unsigned int bounces_then; /* when the queue pair was destroyed */

static void noting_destroy_qp(struct cm_id *id)
{
	bounces_then = kvd->bounces;
	fake_ops->destroy_qp(id);
}

/* From now on. */
static void note_destroy_qp(void)
{
	bounces_then = 0;
	fake_ops = kvd->dev->ops;
	noting_ops = *fake_ops;
	noting_ops.destroy_qp = noting_destroy_qp;
	kvd->dev->ops = &noting_ops;
}

static void a_value_that_the_server_reads(void **state)
{
	static uint8_t large[10000];

	(void)state;
	server->hold_all = true;
	kvd_prep_put(&ops[0], &keys[0], 8, large, sizeof(large), NULL);
	kvd_prep_put(&ops[1], &keys[2], 8, large, sizeof(large), NULL);
	assert_int_equal(kvd_submit(kvd, list, 2), KVD_OK);
	assert_int_equal(server->queued, 2);
	assert_int_equal(kvd->bounces, 2);
	fake_device_lose(&server->fake);
	server->queued = 0;
	server->hold_all = false;
	note_destroy_qp();
	await_all();
	/* As long as there was a queue pair, the server could READ them. */
	assert_int_equal(bounces_then, 2);
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_int_equal(ops[1].status, KVD_ERR_UNKNOWN);
	/* Nothing READs the values of the lost connection. */
	assert_int_equal(kvd->bounces, 0);
	assert_int_equal(kvd_put(kvd, &keys[0], 8, large, sizeof(large), NULL, NULL), KVD_OK);
	assert_int_equal(kvd->bounces, 0);
}

static void nobody_listens_at_first(void **state)
{
	(void)state;
	refusals = 3;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(server->fake.connects, 4);
	assert_int_equal(stats().reconnects, 1);
}

static void the_server_is_full_at_first(void **state)
{
	(void)state;
	refusals = 2;
	reject = (struct wire_reject){ .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = 2 };
	fake_device_lose(&server->fake);
	assert_int_equal(put(1), KVD_ERR_UNKNOWN);
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(server->fake.connects, 3);
}

static void reject_for(enum wire_reject_reason reason, const char *text)
{
	reject = (struct wire_reject){ .magic = WIRE_MAGIC, .abi = WIRE_ABI, .reason = reason };
	snprintf(reject.text, sizeof(reject.text), "%s", text);
}

/* Tries from now on that are refused for that. */
static void user_gone(unsigned int tries)
{
	refusals = tries;
	reject_for(WIRE_REJECT_USER, "users.file has no user for uid 7");
}

/* Refusals for these reasons may end at any time, so the next try may succeed. */
static void other_refusals_at_first(void **state)
{
	static const enum wire_reject_reason reasons[] = { WIRE_REJECT_STOPPING, WIRE_REJECT_ERROR,
							   WIRE_REJECT_LIMIT, WIRE_REJECT_TENANT };

	(void)state;
	for (unsigned int i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		refusals = 2;
		reject_for(reasons[i], "not now");
		fake_device_lose(&server->fake);
		assert_int_equal(get(1), KVD_OK);
		assert_int_equal(server->fake.connects, 3 * (i + 1));
	}
}

/* One try tells the call that it is in vain; the next call has another one. */
static void a_user_that_is_gone(void **state)
{
	(void)state;
	user_gone(2);
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_ERR_AUTH);
	assert_int_equal(server->fake.connects, 1);
	assert_non_null(strstr(kvd_error(kvd), "no user for uid 7; nothing was done"));
	assert_int_equal(put(1), KVD_ERR_AUTH);
	assert_int_equal(server->fake.connects, 2);
	assert_int_equal(changes, 0);
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(server->fake.connects, 3);
	assert_int_equal(stats().reconnects, 1);
	assert_int_equal(stats().unknown, 0);
}

/* Operations in flight, those that wait for a slot, and those that may have been executed. */
static void submitted_by_a_user_that_is_gone(void **state)
{
	struct kvd_op more, *last[] = { &more };

	(void)state;
	hold_puts(OPS - 1);
	submit_get(OPS - 1, 1);
	kvd_prep_get(&more, &keys[1], 8, values[1], sizeof(values[1]));
	assert_int_equal(kvd_submit(kvd, last, 1), KVD_OK);
	assert_int_equal(server->queued, WINDOW);
	user_gone(1);
	fake_device_lose(&server->fake);
	server->queued = 0;
	server->hold_all = false;
	await_all();
	for (unsigned int i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, i < WINDOW ? KVD_ERR_UNKNOWN : KVD_ERR_AUTH);
	assert_int_equal(more.status, KVD_ERR_AUTH);
	assert_int_equal(server->fake.connects, 1);
	assert_int_equal(stats().unknown, WINDOW);
	assert_int_equal(changes, WINDOW);
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(get(1), KVD_OK);
}

/* The first 32 find out for the others. */
static void a_batch_of_a_user_that_is_gone(void **state)
{
	struct kvd_get_request requests[GETS_MAX + 1];

	(void)state;
	for (unsigned int i = 0; i <= GETS_MAX; i++)
		requests[i] = (struct kvd_get_request){ .key = &keys[1], .key_len = 8 };
	user_gone(UINT32_MAX);
	fake_device_lose(&server->fake);
	assert_int_equal(kvd_get_many(kvd, requests, GETS_MAX + 1), KVD_ERR_AUTH);
	for (unsigned int i = 0; i <= GETS_MAX; i++)
		assert_int_equal(requests[i].status, KVD_ERR_AUTH);
	assert_int_equal(server->fake.connects, 1);
}

static void refuse_credentials(struct fake_device *fake)
{
	if (fake->connects > 1) {
		fake_device_event(fake, CM_ESTABLISHED, 0);
		return;
	}
	fake_device_event(fake, CM_UNREACHABLE, -EKEYREJECTED);
	strcpy((char *)fake->events[0].private_data, "certificate revoked");
}

static void a_certificate_that_is_refused(void **state)
{
	(void)state;
	server->fake.connect = refuse_credentials;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_ERR_AUTH);
	assert_int_equal(server->fake.connects, 1);
	assert_non_null(strstr(kvd_error(kvd), "certificate revoked"));
	assert_int_equal(get(1), KVD_OK);
}

static unsigned int renewals;

/* The third try finds files that can be used again. */
static int renew_third(struct device *dev, const struct tls_files *files, char *why)
{
	assert_ptr_equal(dev, kvd->dev);
	assert_ptr_equal(files, &kvd->credentials);
	strcpy(why, "the key k: it is not the certificate's");
	return ++renewals < 3 ? -EINVAL : 0;
}

/* Each try uses what the files say then; without those that can be used it is not made. */
static void credentials_of_each_try(void **state)
{
	(void)state;
	renewals = 0;
	note_destroy_qp();
	noting_ops.renew = renew_third;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(renewals, 3);
	assert_int_equal(server->fake.connects, 1);
	assert_non_null(strstr(kvd->reconnect.why, "credentials: the key k: it is not"));
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(renewals, 4);
}

/* A call whose deadline comes before the next try has the reason of the last one. */
static void a_pause_behind_a_refusal(void **state)
{
	(void)state;
	user_gone(1);
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_ERR_AUTH);
	kvd->reconnect.next_ns = clock_ns() + 3600000000000;
	kvd->options.timeout_ms = 1;
	assert_int_equal(get(1), KVD_ERR_AUTH);
	assert_non_null(
		strstr(kvd_error(kvd), "nothing was done: the server at fake server refuses"));
	assert_non_null(strstr(kvd_error(kvd), "no user for uid 7"));
	assert_int_equal(server->fake.connects, 1);
}

static void lose_in_hello(struct fake_server *p, struct wire_response *response)
{
	if (response->op == WIRE_HELLO && p->hellos < 3)
		fake_device_lose(&p->fake);
}

static void a_loss_in_hello(void **state)
{
	(void)state;
	server->before_response = lose_in_hello;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(server->hellos, 3);
	assert_int_equal(stats().reconnects, 1);
}

static void no_answer(struct fake_device *fake)
{
	if (fake->connects > 1)
		fake_device_event(fake, CM_ESTABLISHED, 0);
}

static void a_try_has_a_deadline(void **state)
{
	(void)state;
	kvd->options.connect_timeout_ms = 20;
	server->fake.connect = no_answer;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_true(server->fake.connects >= 2);
}

/* Each operation has its own deadline, until one of the handle's passes; the handle goes on. */
static void deadlines(void **state)
{
	unsigned int i;

	(void)state;
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	while (!kvd->reconnect.tries)
		kvd_poll(kvd, done, OPS);
	for (i = 0; i < 3; i++) {
		kvd_prep_get(&ops[i], &keys[1], 8, values[i], sizeof(values[i]));
		ops[i].timeout_ms = i + 1;
	}
	assert_int_equal(kvd_submit(kvd, list, 3), KVD_OK);
	await_all();
	for (i = 0; i < 3; i++)
		assert_int_equal(ops[i].status, KVD_ERR_DISCONNECTED);
	submit_put(0, 2);
	submit_get(1, 1);
	kvd->options.timeout_ms = SHORT_MS;
	assert_int_equal(get(1), KVD_ERR_DISCONNECTED);
	assert_non_null(strstr(kvd_error(kvd), "no connection to fake server for "));
	assert_non_null(strstr(kvd_error(kvd), "nobody listens"));
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_AWAY);
	assert_int_equal(ops[1].status, KVD_ERR_AWAY);
	assert_int_equal(put(1), KVD_ERR_AWAY);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_AWAY);
	assert_int_equal(changes, 0);
	assert_int_equal(stats().reconnects, 0);
	refusals = 0;
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	kvd->reconnect.next_ns = 0;
	assert_int_equal(put(2), KVD_OK);
	assert_int_equal(get(2), KVD_OK);
}

/* Each try waits for the end of the pause that was chosen before it, whoever calls. */
static void pauses_are_waited_for(void **state)
{
	uint64_t next_ns = 0, begin_ns;
	unsigned int tries = 0;

	(void)state;
	refusals = 7;
	fake_device_lose(&server->fake);
	while (!kvd->up || !server->fake.connects) {
		kvd_poll(kvd, done, OPS);
		if (server->fake.connects == tries) {
			next_ns = kvd->reconnect.next_ns;
			continue;
		}
		begin_ns = clock_ns();
		assert_int_equal(server->fake.connects, ++tries);
		assert_true(!next_ns || begin_ns >= next_ns);
		next_ns = kvd->reconnect.next_ns;
	}
	assert_int_equal(tries, 8);
	assert_int_equal(put(1), KVD_OK);
}

static void another_version_for_a_while(void **state)
{
	(void)state;
	refusals = 1;
	reject = (struct wire_reject){ .magic = WIRE_MAGIC, .abi = WIRE_ABI + 1, .reason = 1 };
	kvd->reconnect.random = 1;
	fake_device_lose(&server->fake);
	while (!kvd->reconnect.tries)
		kvd_poll(kvd, done, OPS);
	assert_int_equal(kvd->reconnect.status, KVD_ERR_PROTOCOL);
	assert_int_equal(get(1), KVD_OK);
}

/* Another start: nothing that was cached counts, and hashes have another seed. */
static void a_restarted_server(void **state)
{
	struct kvd_info info;
	unsigned int i;

	(void)state;
	assert_int_equal(get(1), KVD_OK);
	server->hold_all = true;
	submit_put(0, 4);
	submit_get(1, 4);
	submit_get(2, 1);
	fake_server_restart(server);
	fake_device_lose(&server->fake);
	server->queued = 0;
	server->hold_all = false;
	assert_true(kvd_poll(kvd, done, OPS) > 0);
	submit_put(3, 1);
	submit_get(4, 1);
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_int_equal(ops[1].status, KVD_NOT_FOUND);
	assert_int_equal(ops[3].status, KVD_OK);
	assert_int_equal(ops[4].status, KVD_OK);
	for (i = 0; i < 1 << CHANGE_FILTER_BITS; i++)
		assert_int_equal(kvd->change_filter[i], 0);
	kvd_info(kvd, &info);
	assert_int_equal(info.incarnation, server->geometry.incarnation);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(get(4), KVD_NOT_FOUND);
}

/* The key of the sums is that of the last welcome, and none when there is no connection. */
static void the_key_of_the_sums(void **state)
{
	static const struct sum_key none;

	(void)state;
	assert_memory_equal(&kvd->sum_key, &server->sum_key, sizeof(none));
	fake_server_restart(server);
	assert_memory_not_equal(&kvd->sum_key, &server->sum_key, sizeof(none));
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_NOT_FOUND);
	assert_memory_equal(&kvd->sum_key, &server->sum_key, sizeof(none));
	kvd->options.reconnect = 0;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_ERR_DISCONNECTED);
	assert_memory_equal(&kvd->sum_key, &none, sizeof(none));
}

/* Nothing is kept that was shared of the server before: it could not say other things now. */
static void the_last_start_is_let_go(void **state)
{
	struct geometry other = server->geometry;
	struct shared_server *shared;

	(void)state;
	assert_int_equal(get(1), KVD_OK);
	other.hash_seed++;
	assert_int_equal(shared_server_get(&shared, kvd->shared_device->url, &other), -EPROTO);
	fake_server_restart(server);
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_NOT_FOUND);
	assert_int_equal(shared_server_get(&shared, kvd->shared_device->url, &other), 0);
	shared_server_put(shared);
}

static bool restarts; /* the server, when it is asked whether the flush is done */

static void respond_flush(struct fake_server *p, const struct request *request,
			  struct wire_response *response, uint8_t *value)
{
	(void)value;
	response->ticket = 7;
	if (!request->ticket)
		return;
	response->status = WIRE_BUSY;
	if (!restarts)
		return;
	restarts = false;
	fake_server_restart(p);
	fake_device_lose(&p->fake);
}

/* What was there before the flush is gone with the server that had it. */
static void a_flush_and_a_restart(void **state)
{
	(void)state;
	server->respond = respond_flush;
	restarts = true;
	assert_int_equal(kvd_flush_all(kvd), KVD_OK);
	assert_int_equal(stats().reconnects, 1);
	kvd->options.timeout_ms = SHORT_MS;
	assert_int_equal(kvd_flush_all(kvd), KVD_ERR_TIMEOUT);
}

static void without_reconnect(void **state)
{
	(void)state;
	kvd->options.reconnect = 0;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_ERR_DISCONNECTED);
	assert_int_equal(put(1), KVD_ERR_DISCONNECTED);
	kvd_prep_get(&ops[0], &keys[1], 8, values[1], 32);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_ERR_DISCONNECTED);
	assert_int_equal(server->fake.connects, 0);
	assert_connection("closed");
}

/* An operation that timed out before the loss leaves nothing. */
static void a_timeout_before_the_loss(void **state)
{
	(void)state;
	server->hold_all = true;
	kvd->options.timeout_ms = 1;
	assert_int_equal(put(1), KVD_ERR_TIMEOUT);
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	server->queued = 0;
	server->hold_all = false;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(kvd->conn.outstanding, 0);
	assert_int_equal(stats().unknown, 0);
}

/* kvd_fd() stays the same and leads to the new connection. */
static void the_descriptor(void **state)
{
	int fd = kvd_fd(kvd), tries;
	struct kvd_stats s;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(kvd_arm(kvd), KVD_OK);
	refusals = 1;
	fake_device_lose(&server->fake);
	submit_get(0, 1);
	for (tries = 0; kvd_outstanding(kvd); tries++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (kvd_poll(kvd, done, OPS) || kvd_arm(kvd))
			continue;
		assert_int_equal(poll(&p, 1, FAKE_TIMEOUT_MS), 1);
	}
	assert_int_equal(ops[0].status, KVD_OK);
	s = stats();
	assert_int_equal(s.reconnects, 1);
	assert_int_equal(kvd_fd(kvd), fd);
	/* A response that comes while nobody polls makes it readable. */
	server->hold_all = true;
	submit_put(0, 1);
	while (kvd_arm(kvd))
		kvd_poll(kvd, done, OPS);
	server->hold_all = false;
	fake_server_answer(server, 1);
	assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, FAKE_TIMEOUT_MS),
			 1);
	await_all();
}

/* A child leaves the parent's connection alone, also where the kernel does not mark its pages. */
static void a_child(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	kvd->owner_page = NULL;
	pid = fork();
	if (!pid) {
		fake_device_lose(&server->fake);
		kvd_poll(kvd, done, OPS);
		_exit(get(1) != KVD_ERR_DISCONNECTED || server->fake.connects ||
		      put(1) != KVD_ERR_DISCONNECTED);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(get(1), KVD_OK);
}

/*
 * Thousands of clients lose their server at once. Of each length of the pause, every tenth gets
 * a tenth of them, within what is likely to one in 10^9 (six deviations of 100 +- 9.5).
 */
static void tries_spread(void **state)
{
	unsigned int failures, i, counts[10];
	uint64_t most = RECONNECT_PAUSE_NS_MIN, ns;

	(void)state;
	for (failures = 0; failures < 12; failures++) {
		memset(counts, 0, sizeof(counts));
		for (i = 0; i < 1000; i++) {
			ns = reconnect_pause_ns(failures, i * 4099 + 1);
			assert_true(ns < most);
			counts[ns * 10 / most]++;
		}
		for (i = 0; i < 10; i++)
			assert_in_range(counts[i], 43, 157);
		most = most * 2 < RECONNECT_PAUSE_NS_MAX ? most * 2 : RECONNECT_PAUSE_NS_MAX;
	}
}

/* A server that drops each connection at once is not asked again and again. */
static void a_connection_that_does_nothing(void **state)
{
	(void)state;
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	server->before_response = lose_in_hello;
	refusals = 2;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(kvd->reconnect.failures, 4);
	/* This one did something. */
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(kvd->reconnect.failures, 0);
}

/* The server welcomes the handle, and drops the connection before anything was done. */
static void a_welcome_and_a_loss(void **state)
{
	unsigned int lost;

	(void)state;
	refusals = 2;
	fake_device_lose(&server->fake);
	while (kvd_poll(kvd, done, OPS) || !kvd->up || !stats().reconnects)
		;
	assert_int_equal(kvd->reconnect.failures, 2);
	for (lost = 1; lost <= 3; lost++) {
		fake_device_lose(&server->fake);
		while (kvd->up)
			kvd_poll(kvd, done, OPS);
		assert_int_equal(kvd->reconnect.failures, 2);
		while (!kvd->up)
			kvd_poll(kvd, done, OPS);
		assert_int_equal(stats().reconnects, 1 + lost);
	}
	/* One request that is answered is enough for the shortest pause again. */
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	fake_device_lose(&server->fake);
	while (kvd->up)
		kvd_poll(kvd, done, OPS);
	assert_int_equal(kvd->reconnect.failures, 0);
}

/*
 * A PUT from registered memory that times out ends the connection at once. What comes next, and
 * what waited for it, is done on the next connection.
 */
static void a_timeout_of_registered_memory(void **state)
{
	static uint8_t large[16384], longer[100000];
	struct kvd_mem *mem;

	(void)state;
	fake_server_put(server, 5, sizeof(longer), 0);
	assert_int_equal(kvd_get(kvd, &keys[5], 8, longer, sizeof(longer), NULL), KVD_OK);
	assert_int_equal(kvd_register(kvd, large, sizeof(large), &mem), KVD_OK);
	server->hold_all = true;
	kvd->options.timeout_ms = 1;
	assert_int_equal(kvd_put(kvd, &keys[0], 8, large, sizeof(large), NULL, NULL),
			 KVD_ERR_TIMEOUT);
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	server->queued = 0;
	server->hold_all = false;
	assert_int_equal(kvd_get(kvd, &keys[5], 8, longer, sizeof(longer), NULL), KVD_OK);
	assert_int_equal(stats().reconnects, 1);

	server->hold_all = true;
	kvd->options.timeout_ms = 1;
	kvd_prep_put(&ops[0], &keys[1], 8, large, sizeof(large), NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	submit_get(1, 1);
	server->queued = 0;
	server->hold_all = false;
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_TIMEOUT);
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(stats().reconnects, 2);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
}

static unsigned int killed;

static void take_kill(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	killed += response->op == WIRE_KILL;
}

static void ignore(struct fake_server *p, const struct request *request,
		   struct wire_response *response, uint8_t *value)
{
	(void)p, (void)request, (void)response, (void)value;
}

/*
 * A KILL that was not sent waits for the next connection; but what has the same number at another
 * server is another client.
 */
static void a_kill_is_for_one_server(void **state)
{
	(void)state;
	server->respond = ignore;
	server->before_response = take_kill;
	killed = 0;
	kvd->conn.posted_ns = 0;
	fake_device_event(&server->fake, CM_DISCONNECTED, 0);
	assert_int_equal(kvd_client_kill(kvd, 7), KVD_OK);
	assert_int_equal(killed, 1);
	assert_int_equal(stats().reconnects, 1);
	kvd->conn.posted_ns = 0;
	fake_device_event(&server->fake, CM_DISCONNECTED, 0);
	fake_server_restart(server);
	assert_int_equal(kvd_client_kill(kvd, 7), KVD_ERR_DISCONNECTED);
	assert_int_equal(killed, 1);
	assert_int_equal(stats().reconnects, 2);
}

static unsigned int page_at_loss; /* the connection is lost when this page is asked for, */
static unsigned int pages;
static bool loss_follows; /* or right after the response with the page before it */
static bool other_start;

static void respond_page(struct fake_server *p, const struct request *request,
			 struct wire_response *response, uint8_t *value)
{
	uint64_t page = request->op == WIRE_STATS ? request->first_line : request->cursor;

	pages++;
	value[0] = (uint8_t)('a' + page);
	value[1] = '\n';
	response->value_len = 2;
	if (page < 2 && request->op == WIRE_STATS)
		response->next_line = (uint32_t)page + 1;
	else if (page < 2)
		response->cursor = page + 1;
	if (page != page_at_loss || p->hellos)
		return;
	if (other_start)
		fake_server_restart(p);
	if (!loss_follows)
		fake_device_lose(&p->fake);
}

/* The response and the end of the connection are found by one poll. */
static void answer_and_lose(struct fake_device *fake)
{
	if (!server->queued)
		return;
	fake_server_answer(server, 1);
	if (pages == page_at_loss + 1 && !server->hellos)
		fake_device_lose(fake);
}

/* The rest of a text is on one connection only; what is the first page is asked for again. */
static void a_loss_between_pages(void **state)
{
	enum kvd_status want, status;
	unsigned int i;
	char text[200];

	for (i = 0; i < 24; i++) {
		enum kvd_status (*call)(struct kvd *, char *, size_t,
					size_t *) = i % 2 ? kvd_server_stats : kvd_client_list;
		size_t len = 77;

		other_start = i & 2;
		loss_follows = i & 4;
		page_at_loss = i / 8;
		if (i && teardown(state) + setup(state))
			fail();
		pages = 0;
		server->respond = respond_page;
		server->hold_all = loss_follows;
		if (loss_follows)
			server->fake.idle = answer_and_lose;
		memset(text, 'x', sizeof(text));
		status = call(kvd, text, sizeof(text), &len);
		/* After the last page, or before the first has come, nothing is missing. */
		want = page_at_loss == (loss_follows ? 2 : 0) ? KVD_OK : KVD_ERR_DISCONNECTED;
		if (status != want)
			fail_msg("case %u: %s: %s", i, kvd_status_text(status), kvd_error(kvd));
		assert_int_equal(len, want ? 77 : 6);
		if (!want)
			assert_string_equal(text, "a\nb\nc\n");
		else
			assert_non_null(strstr(kvd_error(kvd), "lost"));
		assert_int_equal(call(kvd, text, sizeof(text), &len), KVD_OK);
		assert_string_equal(text, "a\nb\nc\n");
		assert_int_equal(stats().reconnects, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_loss_between_calls),
		CASE(a_loss_before_send),
		CASE(events_before_send),
		CASE(batches_after_a_loss),
		CASE(a_loss_after_send),
		CASE(a_loss_while_reading),
		CASE(requests_are_repeated),
		CASE(a_value_that_the_server_reads),
		CASE(nobody_listens_at_first),
		CASE(the_server_is_full_at_first),
		CASE(other_refusals_at_first),
		CASE(a_user_that_is_gone),
		CASE(submitted_by_a_user_that_is_gone),
		CASE(a_batch_of_a_user_that_is_gone),
		CASE(a_certificate_that_is_refused),
		CASE(credentials_of_each_try),
		CASE(a_pause_behind_a_refusal),
		CASE(a_loss_in_hello),
		CASE(a_try_has_a_deadline),
		CASE(deadlines),
		CASE(pauses_are_waited_for),
		CASE(another_version_for_a_while),
		CASE(a_restarted_server),
		CASE(the_key_of_the_sums),
		CASE(the_last_start_is_let_go),
		CASE(a_flush_and_a_restart),
		CASE(without_reconnect),
		CASE(a_timeout_before_the_loss),
		CASE(the_descriptor),
		CASE(a_child),
		CASE(a_timeout_of_registered_memory),
		CASE(a_kill_is_for_one_server),
		cmocka_unit_test(tries_spread),
		CASE(a_connection_that_does_nothing),
		CASE(a_welcome_and_a_loss),
		CASE(a_loss_between_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
