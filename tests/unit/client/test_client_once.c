/* SPDX-License-Identifier: MIT */
/*
 * Changes that were sent when the connection was lost, and a server that keeps the answers to them:
 * each is executed once, or the handle says that it does not know. Their numbers and bounds; those
 * that another member of a fleet has to execute.
 */
#include "tests/support/reconnect_test.h"
#include "tests/support/test_clock.h"

/* From now on the server knows the handle's identity. */
static void number_changes(void)
{
	server->welcome.answers = 16;
	kvd->sent.limit = 16;
}

static bool knows_it;

static void greet(struct fake_server *p, struct wire_welcome *welcome)
{
	(void)p;
	welcome->identity_known = knows_it;
	welcome->change_last = recorded;
}

/* The connection is lost with the answers; @known: the server has the identity afterwards. */
static void lose_answers(bool known)
{
	fake_device_lose(&server->fake);
	server->queued = 0;
	server->hold_all = false;
	knows_it = known;
	server->greet = greet;
}

/* Changes that were sent and not answered are sent again and not executed again. */
static void exactly_once(void **state)
{
	unsigned int i;

	(void)state;
	number_changes();
	assert_int_equal(put(7), KVD_OK);
	hold_puts(OPS);
	assert_int_equal(changes, 1 + WINDOW);
	lose_answers(true);
	await_all();
	for (i = 0; i < OPS; i++) {
		assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(ops[i].item.version, i + 2);
	}
	assert_int_equal(changes, 1 + OPS);
	assert_int_equal(twice, WINDOW);
	assert_int_equal(stats().resent, WINDOW);
	assert_int_equal(stats().repeated, WINDOW);
	assert_int_equal(stats().unknown, 0);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
}

/* Changes after one whose answer came are executed exactly once, too. */
static void exactly_once_after_an_answer(void **state)
{
	unsigned int i;

	(void)state;
	number_changes();
	hold_puts(WINDOW);
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, UINT32_MAX), 1);
	lose_answers(true);
	await_all();
	for (i = 0; i < WINDOW; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(changes, WINDOW);
	assert_int_equal(twice, WINDOW - 1);
	assert_int_equal(stats().resent, WINDOW - 1);
}

static void greet_narrow(struct fake_server *p, struct wire_welcome *welcome)
{
	greet(p, welcome);
	welcome->window = 1;
}

/* A value that the server was to READ is sent with the message that the next one takes. */
static void exactly_once_in_a_message(void **state)
{
	static uint8_t value[FAKE_SERVER_BUFFER_BYTES / 2 + 1];

	(void)state;
	number_changes();
	kvd->conn.request_bytes = FAKE_SERVER_BUFFER_BYTES / 2;
	server->hold_all = true;
	kvd_prep_put(&ops[0], &keys[0], 8, value, sizeof(value), NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(change_flags, WIRE_F_PULL);
	lose_answers(true);
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(twice, 1);
	assert_int_equal(change_flags, 0);
}

/* A new window of one lets changes be sent again one by one, although nothing else is sent. */
static void exactly_once_one_by_one(void **state)
{
	unsigned int i;

	(void)state;
	number_changes();
	hold_puts(WINDOW);
	lose_answers(true);
	server->greet = greet_narrow;
	await_all();
	for (i = 0; i < WINDOW; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(changes, WINDOW);
	assert_int_equal(twice, WINDOW);
}

/* As many as the server keeps answers of: sent again they need no number more. */
static void exactly_once_at_the_bound(void **state)
{
	unsigned int i;

	(void)state;
	number_changes();
	server->welcome.answers = kvd->sent.limit = WINDOW;
	hold_puts(WINDOW);
	assert_int_equal(changes_room(&kvd->sent), 0);
	lose_answers(true);
	await_all();
	for (i = 0; i < WINDOW; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(changes, WINDOW);
	assert_int_equal(twice, WINDOW);
}

/* One whose answer came before that of an earlier one is not sent again. */
static void exactly_once_around_an_answer(void **state)
{
	struct fake_server_response first;
	unsigned int i;

	(void)state;
	number_changes();
	hold_puts(3);
	first = server->queue[0];
	server->queue[0] = server->queue[1];
	server->queue[1] = first;
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, OPS, 1, UINT32_MAX), 1);
	assert_ptr_equal(done[0], &ops[1]);
	lose_answers(true);
	await_all();
	for (i = 0; i < 3; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(changes, 3);
	assert_int_equal(twice, 2);
	assert_int_equal(stats().resent, 2);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
}

/* The answers are lost, and the server has forgotten the client, or is another one. */
static void a_forgotten_identity(void **state)
{
	unsigned int i;

	(void)state;
	number_changes();
	hold_puts(OPS);
	lose_answers(false);
	await_all();
	for (i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, i < WINDOW ? KVD_ERR_UNKNOWN : KVD_OK);
	assert_int_equal(twice, 0);
	assert_int_equal(changes, OPS);
}

/* GETs that waited for the connection look where the new server has the keys, and find them. */
static void unknown_changes_and_lookups(void **state)
{
	unsigned int i;

	(void)state;
	number_changes();
	hold_puts(2);
	fake_server_restart(server);
	for (i = 0; i < OPS; i++)
		fake_server_put(server, i, 20, 0);
	lose_answers(false);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	for (i = 2; i < OPS; i++)
		submit_get(i, i);
	await_all();
	for (i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, i < 2 ? KVD_ERR_UNKNOWN : KVD_OK);
}

#define LONG_BYTES 3000 /* more than a response has room for */
static uint8_t long_value[LONG_BYTES];
static unsigned int touches; /* that came with a GET */
static enum ibv_wc_status (*send_before)(struct fake_device *fake, const struct ibv_send_wr *wr);

static void count_touch(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	touches += response->op == WIRE_TOUCH;
}

/* A GET and touch has its first part, and waits for the second. */
static void touch_long(void)
{
	number_changes();
	touches = 0;
	memset(long_value, 0, sizeof(long_value));
	fake_server_put(server, 1, LONG_BYTES, 0);
	server->before_response = count_touch;
	server->hold_all = true;
	kvd_prep_get_and_touch(&ops[0], &keys[1], 8, 5, long_value, LONG_BYTES);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	fake_server_answer(server, 1);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(server->queued, 1);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
	assert_int_equal(server->gets, 2);
	recorded = 1; /* the touch */
}

/*
 * While its value is awaited, and there is no connection, it can't be canceled; at its deadline it
 * may have taken effect. So may a change that was sent; one that was not sent did nothing, and a
 * GET of which a part has come, neither.
 */
static void deadlines_of_what_was_sent(void **state)
{
	static uint8_t value[LONG_BYTES];
	struct fake_server_response first;

	(void)state;
	touch_long();
	kvd_prep_get_by_request(&ops[2], &keys[1], 8, value, LONG_BYTES);
	assert_int_equal(kvd_submit(kvd, &list[2], 1), KVD_OK);
	assert_int_equal(server->queued, 2);
	first = server->queue[0];
	server->queue[0] = server->queue[1];
	server->queue[1] = first;
	fake_server_answer(server, 1);
	assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(server->queued, 2);
	refusals = UINT32_MAX;
	fake_device_lose(&server->fake);
	while (kvd->up)
		assert_int_equal(kvd_poll(kvd, done, OPS), 0);
	assert_int_equal(kvd_cancel(kvd, &ops[0]), KVD_ERR_BUSY);
	test_clock_stop();
	test_clock_pass(FAKE_TIMEOUT_MS * 1000000ull);
	test_clock_start();
	assert_int_equal(kvd_wait(kvd, done, 2, 2, UINT32_MAX), 2);
	assert_int_equal(ops[0].status, KVD_ERR_TIMEOUT);
	assert_int_equal(ops[2].status, KVD_ERR_DISCONNECTED);
	kvd->options.timeout_ms = 1;
	submit_put(1, 2);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
	assert_int_equal(ops[1].status, KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(kvd), "nothing was done"));
}

/* The touch was answered, so it is not done again, unless what it touched is not there any more. */
static void lose_a_part(void (*then)(struct fake_server *server), unsigned int count,
			enum kvd_status status)
{
	touch_long();
	then(server);
	lose_answers(true);
	await_all();
	assert_int_equal(ops[0].status, status);
	assert_int_equal(long_value[LONG_BYTES - 1], status ? 0 : 1);
	assert_int_equal(touches, count);
	assert_int_equal(stats().unknown, 0);
	assert_int_equal(stats().reconnects, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

static void replace_key(struct fake_server *p)
{
	fake_server_put(p, 1, LONG_BYTES, 0);
}

static void delete_key(struct fake_server *p)
{
	fake_server_delete(p, 1);
}

static void change_another_key(struct fake_server *p)
{
	fake_server_put(p, 2, 20, 0);
}

static void a_touched_item_is_replaced(void **state)
{
	(void)state;
	lose_a_part(replace_key, 2, KVD_OK);
}

static void a_touched_item_is_deleted(void **state)
{
	(void)state;
	lose_a_part(delete_key, 2, KVD_NOT_FOUND);
}

static void a_touched_item_stays(void **state)
{
	(void)state;
	lose_a_part(change_another_key, 1, KVD_OK);
}

/* A server that says fewer answers than there are changes without one: no more are numbered. */
static void fewer_answers_than_before(void **state)
{
	(void)state;
	kvd->sent.limit = 4;
	kvd->sent.next = kvd->sent.first + 3;
	assert_int_equal(changes_room(&kvd->sent), 1);
	kvd->sent.limit = 2;
	assert_int_equal(changes_room(&kvd->sent), 0);
	kvd->sent.next = kvd->sent.first;
}

/* The number of a change that was given up is sent again as a PING, before later ones. */
static void a_number_that_was_given_up(void **state)
{
	(void)state;
	number_changes();
	kvd->options.timeout_ms = 1;
	server->hold_all = true;
	assert_int_equal(put(1), KVD_ERR_TIMEOUT);
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	submit_put(0, 2);
	assert_int_equal(kvd->sent.next - kvd->sent.first, 2);
	lose_answers(true);
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(server->pings, 1);
	assert_int_equal(changes, 2);
	assert_int_equal(twice, 1);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
	assert_int_equal(put(3), KVD_OK);
	assert_int_equal(recorded, 3);
}

/* A PING with a number takes the place of the change. */
static enum ibv_wc_status record_ping(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	struct wire_request head;

	memcpy(&head, (const void *)(uintptr_t)wr->sg_list->addr, sizeof(head));
	if (head.op == WIRE_PING && head.change)
		assert_int_equal(head.change, ++recorded);
	return send_before(fake, wr);
}

/* The server got none of the changes: the PING has the number, and waits for its turn. */
static void a_number_that_was_not_executed(void **state)
{
	(void)state;
	number_changes();
	server->hold_all = true;
	submit_put(0, 0);
	kvd->options.timeout_ms = 1;
	assert_int_equal(put(1), KVD_ERR_TIMEOUT);
	kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
	submit_put(1, 2);
	changes = recorded = 0;
	send_before = server->fake.send;
	server->fake.send = record_ping;
	lose_answers(true);
	server->greet = greet_narrow;
	server->outstanding_max = 0;
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(server->pings, 1);
	assert_int_equal(recorded, 3);
	assert_int_equal(changes, 2);
	assert_int_equal(server->outstanding_max, 1);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
}

/* Nobody knows what a change did whose value can't be sent again; later changes go on. */
static void no_memory_to_send_a_value_again(void **state)
{
	static uint8_t large[10000];

	(void)state;
	number_changes();
	server->hold_all = true;
	kvd_prep_put(&ops[0], &keys[0], 8, large, sizeof(large), NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	submit_put(1, 2);
	lose_answers(true);
	/* As of a device that was opened anew, and registers less. */
	kvd->shared_device->bounces.mr_max = 4096;
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_non_null(strstr(kvd_error(kvd), "no memory"));
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(stats().unknown, 1);
	assert_int_equal(server->pings, 1);
	assert_int_equal(kvd->bounces, 0);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
}

/* The number of changes without an answer is bounded by what the server keeps. */
static void answers_bound_changes(void **state)
{
	(void)state;
	server->welcome.answers = kvd->sent.limit = 2;
	hold_puts(OPS);
	assert_int_equal(server->queued, 2);
	server->hold_all = false;
	fake_server_answer(server, 2);
	await_all();
	assert_int_equal(changes, OPS);
}

/* The bound holds for changes that are submitted together, and could share a message. */
static void answers_bound_batches(void **state)
{
	static const uint32_t limits[] = { 1, 2, 3, OPS - 1, OPS };
	unsigned int i, l;

	(void)state;
	for (l = 0; l < sizeof(limits) / sizeof(limits[0]); l++) {
		server->welcome.answers = kvd->sent.limit = limits[l];
		server->hold_all = true;
		changes = 0;
		for (i = 0; i < OPS; i++)
			kvd_prep_put(&ops[i], &keys[i], 8, "12345678901234567890", 20, NULL);
		assert_int_equal(kvd_submit(kvd, list, OPS), KVD_OK);
		while (kvd_outstanding(kvd)) {
			assert_in_range(kvd->sent.next - kvd->sent.first, 1, limits[l]);
			if (server->queued)
				fake_server_answer(server, 1);
			kvd_wait(kvd, done, OPS, 1, 0);
		}
		for (i = 0; i < OPS; i++)
			assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(changes, OPS);
		assert_int_equal(kvd->sent.first, kvd->sent.next);
	}
}

/* A number has the place of another one, 128 before it, which was answered. */
static void exactly_once_after_many_changes(void **state)
{
	unsigned int i, before = 0;

	(void)state;
	number_changes();
	/* The answers come one by one, while earlier ones are still outstanding. */
	while (kvd->sent.next <= CHANGES_MAX + WINDOW) {
		hold_puts(WINDOW);
		fake_server_answer(server, WINDOW);
		await_all();
		before += WINDOW;
	}
	assert_int_equal(changes, before);
	hold_puts(WINDOW);
	lose_answers(true);
	await_all();
	for (i = 0; i < WINDOW; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(twice, WINDOW);
	assert_int_equal(stats().resent, WINDOW);
	assert_int_equal(changes, before + WINDOW);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
}

/* Sent again one by one, messages that had several are more than the window lets out at once. */
static void more_to_send_again_than_the_window(void **state)
{
	unsigned int i;

	(void)state;
	number_changes();
	server->hold_all = true;
	for (i = 0; i < OPS; i++)
		kvd_prep_put(&ops[i], &keys[i], 8, "12345678901234567890", 20, NULL);
	assert_int_equal(kvd_submit(kvd, list, OPS), KVD_OK);
	assert_int_equal(changes, OPS);
	assert_true(list_empty(&kvd->requests));
	lose_answers(true);
	await_all();
	for (i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(changes, OPS);
	assert_int_equal(twice, OPS);
}

static unsigned int bad_batches;

static void fail_a_batch(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	if (response->op == WIRE_BATCH && bad_batches) {
		bad_batches--;
		response->status = WIRE_NO_SPACE;
	}
}

/* A response that can't be used answers nothing: the server is asked again. */
static void a_malformed_answer_to_a_batch(void **state)
{
	(void)state;
	number_changes();
	knows_it = true;
	server->greet = greet;
	server->before_response = fail_a_batch;
	bad_batches = 1;
	put_together();
	assert_int_equal(stats().reconnects, 1);
	assert_int_equal(stats().unknown, 0);
}

static void answer_as_repeated(struct fake_server *p, struct wire_response *response)
{
	count_touch(p, response);
	if (response->op == WIRE_TOUCH && touches > 1) {
		response->flags |= WIRE_R_REPEATED;
		response->value_len = 0;
	}
}

/* A GET and touch that was executed, and whose answer was lost: its value is asked for by a GET. */
static void a_touch_that_was_executed_before(void **state)
{
	(void)state;
	number_changes();
	touches = 0;
	server->before_response = answer_as_repeated;
	server->hold_all = true;
	kvd_prep_get_and_touch(&ops[0], &keys[1], 8, 5, values[1], 32);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	recorded = 1;
	submit_put(1, 2);
	lose_answers(true);
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(values[1][19], 1);
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(touches, 2);
	assert_int_equal(server->gets, 3);
	assert_int_equal(kvd->sent.next, 3);
	assert_int_equal(stats().unknown, 0);
}

/* A change of the same key that was sent before it is sent again before it. */
static void a_touch_after_a_change(void **state)
{
	(void)state;
	number_changes();
	server->hold_all = true;
	submit_put(0, 1);
	kvd_prep_get_and_touch(&ops[1], &keys[1], 8, 5, values[1], 32);
	assert_int_equal(kvd_submit(kvd, &list[1], 1), KVD_OK);
	assert_int_equal(server->queued, 2);
	changes = recorded = 0;
	lose_answers(true);
	await_all();
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(ops[1].status, KVD_OK);
	assert_int_equal(changes, 1);
}

/* What asks for the server's clock is no change: it takes no number. */
static void the_clock_takes_no_number(void **state)
{
	(void)state;
	number_changes();
	fake_server_put(server, 2, 20, FAKE_SERVER_CLOCK_S + 100);
	assert_int_equal(get(2), KVD_OK);
	assert_int_equal(stats().clock_asks, 1);
	assert_int_equal(kvd->sent.next, 1);
}

static void greet_with_an_old_record(struct fake_server *p, struct wire_welcome *welcome)
{
	welcome->identity_known = p->hellos == 2; /* the first after that of kvd_open() */
	welcome->change_last = 0;
}

/* A server that lacks changes that have answers would refuse all: the handle takes another name. */
static void a_server_with_an_old_record(void **state)
{
	uint8_t identity[WIRE_IDENTITY_BYTES];

	(void)state;
	number_changes();
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(put(1), KVD_OK);
	memcpy(identity, kvd->sent.identity, sizeof(identity));
	server->greet = greet_with_an_old_record;
	server->hellos = 1;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(server->hellos, 3);
	assert_memory_not_equal(kvd->sent.identity, identity, sizeof(identity));
}

/* A server may keep more answers than a handle has places for, or, after an update, none. */
static void answers_of_the_next_welcome(void **state)
{
	(void)state;
	number_changes();
	server->welcome.answers = 1000;
	fake_device_lose(&server->fake);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(kvd->sent.limit, CHANGES_MAX - 1);
	hold_puts(1);
	server->welcome.answers = 0;
	lose_answers(true);
	await_all();
	assert_int_equal(ops[0].status, KVD_ERR_UNKNOWN);
	assert_int_equal(kvd->sent.limit, 0);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
	assert_int_equal(twice, 0);
	recorded = 0;
	assert_int_equal(put(2), KVD_OK);
	assert_int_equal(recorded, 0); /* without a number */
}

/* Whether a record lacks changes that have answers; the number between is one that none has. */
static void records_that_lack_changes(void **state)
{
	const uint64_t wrap = 1ull << 32;

	(void)state;
	kvd->sent.first = 6;
	assert_false(changes_are_missing(&kvd->sent, 5));
	assert_true(changes_are_missing(&kvd->sent, 4));
	kvd->sent.first = wrap + 1;
	assert_false(changes_are_missing(&kvd->sent, wrap - 1));
	assert_true(changes_are_missing(&kvd->sent, wrap - 2));
	kvd->sent.first = wrap + 2;
	assert_true(changes_are_missing(&kvd->sent, wrap - 1));
	assert_false(changes_are_missing(&kvd->sent, wrap + 1));
	kvd->sent.first = kvd->sent.next;
}

/* What was sent with a number, in order. */
static struct wire_request numbered[4 * OPS];
static unsigned int numbered_count;
/* Changes from this number to that are refused, when they come. */
static uint32_t moved_first, moved_last;

static enum ibv_wc_status record_numbered(struct fake_device *fake, const struct ibv_send_wr *wr)
{
	struct wire_request head;

	memcpy(&head, (const void *)(uintptr_t)wr->sg_list->addr, sizeof(head));
	if (head.change)
		numbered[numbered_count++] = head;
	return send_before(fake, wr);
}

static void execute_some(struct fake_server *p, const struct request *request,
			 struct wire_response *response, uint8_t *value)
{
	if (request->change < moved_first || request->change > moved_last) {
		execute(p, request, response, value);
		return;
	}
	recorded = request->change;
	response->status = WIRE_MOVED;
}

static void refuse(uint32_t first, uint32_t last)
{
	number_changes();
	moved_first = first;
	moved_last = last;
	numbered_count = 0;
	send_before = server->fake.send;
	server->fake.send = record_numbered;
	server->respond = execute_some;
}

/* The message sent as the @i-th with a number had this one, and the flag or not. */
static void assert_numbered(unsigned int i, enum wire_op op, uint32_t change, bool resumes)
{
	assert_true(i < numbered_count);
	assert_int_equal(numbered[i].op, op);
	assert_int_equal(numbered[i].change, change);
	assert_int_equal(numbered[i].flags & WIRE_F_RESUME, resumes ? WIRE_F_RESUME : 0);
}

/*
 * After a refusal no change is sent until all that were sent are answered; then the next one says
 * so, and no other.
 */
static void after_a_refusal(void **state)
{
	(void)state;
	refuse(1, WINDOW);
	hold_puts(OPS);
	for (unsigned int i = 0; i < WINDOW; i++) {
		assert_int_equal(numbered_count, WINDOW);
		fake_server_answer(server, 1);
		kvd_poll(kvd, done, OPS);
	}
	for (unsigned int i = 0; i < WINDOW; i++)
		assert_numbered(i, WIRE_PUT, i + 1, false);
	assert_numbered(WINDOW, WIRE_BATCH, WINDOW + 1, true);
	server->hold_all = false;
	fake_server_answer(server, 1);
	await_all();
	for (unsigned int i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, i < WINDOW ? KVD_ERR_MOVED : KVD_OK);
	/* Until the next refusal. */
	assert_int_equal(put(1), KVD_OK);
	assert_numbered(WINDOW + 1, WIRE_PUT, OPS + 1, false);
	moved_first = moved_last = OPS + 2;
	assert_int_equal(put(1), KVD_ERR_MOVED);
	assert_int_equal(get(1), KVD_OK);
	assert_int_equal(put(1), KVD_OK);
	assert_numbered(WINDOW + 3, WIRE_PUT, OPS + 3, true);
}

/* Sent again a change has the flag that it had, and so has the PING in its place. */
static void after_a_refusal_and_a_loss(void **state)
{
	(void)state;
	for (unsigned int given_up = 0; given_up < 2; given_up++) {
		const uint32_t first = (uint32_t)kvd->sent.next;

		refuse(first, first);
		assert_int_equal(put(0), KVD_ERR_MOVED);
		server->hold_all = true;
		if (given_up) {
			kvd->options.timeout_ms = 1;
			assert_int_equal(put(1), KVD_ERR_TIMEOUT);
			kvd->options.timeout_ms = FAKE_TIMEOUT_MS;
		} else {
			submit_put(0, 1);
		}
		submit_put(1, 2);
		lose_answers(true);
		await_all();
		assert_int_equal(ops[1].status, KVD_OK);
		for (unsigned int i = 1; i < 5; i++)
			assert_numbered(i, i == 3 && given_up ? WIRE_PING : WIRE_PUT,
					first + 2 - i % 2, i % 2);
		server->fake.send = send_before;
	}
}

/* A refusal among the results of a BATCH; the next BATCH has the flag as a whole. */
static void after_a_refusal_in_a_batch(void **state)
{
	const unsigned int half = OPS / 2;

	(void)state;
	refuse(2, 3);
	server->hold_all = true;
	for (unsigned int i = 0; i < OPS; i++)
		kvd_prep_put(&ops[i], &keys[i], 8, "12345678901234567890", 20, NULL);
	assert_int_equal(kvd_submit(kvd, list, half), KVD_OK);
	server->hold_all = false;
	fake_server_answer(server, 1);
	kvd_poll(kvd, done, OPS);
	assert_int_equal(kvd_submit(kvd, list + half, half), KVD_OK);
	await_all();
	assert_int_equal(numbered_count, 2);
	assert_numbered(0, WIRE_BATCH, 1, false);
	assert_numbered(1, WIRE_BATCH, half + 1, true);
	for (unsigned int i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, i == 1 || i == 2 ? KVD_ERR_MOVED : KVD_OK);
}

/* No number has a low half of 0, the next one that HELLO names included. */
static void numbers_wrap(void **state)
{
	(void)state;
	number_changes();
	kvd->sent.first = kvd->sent.next = kvd->sent.resend = UINT32_MAX;
	recorded = UINT32_MAX - 1;
	assert_int_equal(put(1), KVD_OK);
	assert_int_equal(recorded, UINT32_MAX);
	assert_int_equal(kvd->sent.next, UINT32_MAX + 2ull);
	assert_int_equal(kvd->sent.first, kvd->sent.next);
	assert_int_equal(changes_room(&kvd->sent), 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(exactly_once),
		CASE(exactly_once_after_an_answer),
		CASE(exactly_once_in_a_message),
		CASE(exactly_once_one_by_one),
		CASE(exactly_once_at_the_bound),
		CASE(exactly_once_around_an_answer),
		CASE(a_forgotten_identity),
		CASE(unknown_changes_and_lookups),
		CASE(deadlines_of_what_was_sent),
		CASE(the_clock_takes_no_number),
		CASE(a_touched_item_is_replaced),
		CASE(a_touched_item_is_deleted),
		CASE(a_touched_item_stays),
		CASE(fewer_answers_than_before),
		CASE(a_number_that_was_given_up),
		CASE(a_number_that_was_not_executed),
		CASE(no_memory_to_send_a_value_again),
		CASE(answers_bound_changes),
		CASE(answers_bound_batches),
		CASE(exactly_once_after_many_changes),
		CASE(more_to_send_again_than_the_window),
		CASE(a_malformed_answer_to_a_batch),
		CASE(a_touch_that_was_executed_before),
		CASE(a_touch_after_a_change),
		CASE(a_server_with_an_old_record),
		CASE(answers_of_the_next_welcome),
		CASE(records_that_lack_changes),
		CASE(after_a_refusal),
		CASE(after_a_refusal_and_a_loss),
		CASE(after_a_refusal_in_a_batch),
		CASE(numbers_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
