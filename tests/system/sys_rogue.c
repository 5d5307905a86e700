/* SPDX-License-Identifier: MIT */
/*
 * A rogue client, which breaks kvd's protocol, for the system tests. It uses the device interface
 * directly instead of libkvd.
 *
 *	sys_rogue URL LOG all		runs all cases that fit the device
 *	sys_rogue URL LOG CASE...	runs these cases
 *
 * A case checks what the server does with this client. After each case the server has to log what
 * happened (LOG is its log file), and a good client, which uses libkvd, must be able to connect and
 * find `precious` = `intact`. And all that the server held for this client must come back: memory,
 * buffers, receives, windows, descriptors, ... (tests/support/held.h). Prints `ok` and `FAIL` lines
 * as tests/system/lib.sh does; the exit status is 0 if nothing failed.
 */
#include <errno.h>
#include <grp.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "common/wire.h"
#include "tests/support/held.h"
#include "tests/support/raw_peer.h"

#define STATS_BYTES (64u << 10)
/* The key that cases write, with a value of 1,000 bytes, as raw_fill() makes it. */
#define WRITTEN "kkkkk"
#define WRITTEN_LEN 5

static const char *expect_closed(struct raw_peer *p)
{
	const char *error = raw_wait(p, raw_is_closed) ? NULL : "the server kept the connection";

	raw_close(p);
	return error;
}

/*
 * Sends the first @bytes, for which the server must close the connection. The queue pair may
 * already be in error.
 */
static const char *send_and_expect_closed(struct raw_peer *p, size_t bytes)
{
	(void)raw_send(p, bytes);
	return expect_closed(p);
}

static const char *expect_ping(struct raw_peer *p)
{
	const struct wire_request head = { .op = WIRE_PING, .id = 99 };
	const char *error = NULL;

	if (raw_send(p, raw_fill(p, &head, 0, 0)) || !raw_wait(p, raw_is_responded) || p->closed ||
	    p->response.status || p->response.id != 99)
		error = "the connection does not work any more";
	raw_close(p);
	return error;
}

/* A connection by libkvd, or NULL: kvd_error(NULL) has the reason. */
static struct kvd *good_client_open(void)
{
	struct kvd_options options;
	struct kvd *db;

	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = (uint32_t)(RAW_DEADLINE_NS / 1000000);
	return kvd_open(&db, raw_url, &options) ? NULL : db;
}

/*
 * --- the connect request -----------------------------------------------------------------------
 */

static const char *expect_refused(const void *private_data, size_t bytes)
{
	const char *error = NULL;
	struct raw_peer p;

	raw_open(&p, false);
	raw_connect(&p, private_data, bytes);
	if (!p.refused || p.reject.magic != WIRE_MAGIC || p.reject.abi != WIRE_ABI ||
	    p.reject.reason != WIRE_REJECT_VERSION || !strstr(p.reject.text, "protocol"))
		error = "not refused with a reason";
	raw_close(&p);
	return error;
}

static const char *case_connect_empty(void)
{
	return expect_refused(NULL, 0);
}

static const char *case_connect_short(void)
{
	return expect_refused(&raw_good_connect, 8);
}

static const char *case_connect_magic(void)
{
	struct wire_connect hello = raw_good_connect;

	hello.magic++;
	return expect_refused(&hello, sizeof(hello));
}

/* The reason names both versions, and the side to update. */
static const char *connect_abi(uint32_t abi, const char *text)
{
	struct wire_connect hello = raw_good_connect;
	const char *error = NULL;
	struct raw_peer p;

	hello.abi = abi;
	raw_open(&p, false);
	raw_connect(&p, &hello, sizeof(hello));
	if (!p.refused || p.reject.reason != WIRE_REJECT_VERSION || p.reject.abi != WIRE_ABI ||
	    strcmp(p.reject.text, text))
		error = "not refused with both versions and the remedy";
	raw_close(&p);
	return error;
}

static const char *case_connect_abi(void)
{
	static_assert(WIRE_ABI == 13, "the texts below");
	const char *error = connect_abi(12, "the client has protocol version 12 and the server 13: "
					    "update the client");

	return error ? error :
		       connect_abi(14, "the client has protocol version 14 and the server 13: "
				       "update the server");
}

static const char *case_connect_reserved(void)
{
	struct wire_connect hello = raw_good_connect;

	hello.reserved = 1;
	return expect_refused(&hello, sizeof(hello));
}

static const char *case_connect_garbage(void)
{
	uint8_t bytes[CM_PRIVATE_MAX_CONNECT];

	memset(bytes, 0xa5, sizeof(bytes));
	return expect_refused(bytes, sizeof(bytes));
}

#define ABORTS 20

/* Disconnects before the server can respond. */
static const char *case_connect_abort(void)
{
	const struct cm_param param = {
		.private_data = &raw_good_connect,
		.private_len = sizeof(raw_good_connect),
		.min_rnr_timer = 12,
	};
	struct raw_peer p;
	int i;

	for (i = 0; i < ABORTS; i++) {
		raw_open(&p, false);
		if (p.dev->ops->connect(p.id, &param))
			return "connect failed";
		raw_close(&p);
	}
	return NULL;
}

/*
 * --- HELLO -------------------------------------------------------------------------------------
 */

static const char *case_silent(void)
{
	struct raw_peer p;

	raw_start(&p, false);
	return expect_closed(&p);
}

static const char *early(uint8_t op, size_t key_len, size_t value_len)
{
	const struct wire_request head = {
		.op = op,
		.key_len = (uint16_t)key_len,
		.value_len = (uint32_t)value_len,
	};
	struct raw_peer p;

	raw_start(&p, false);
	return send_and_expect_closed(&p, raw_fill(&p, &head, key_len, value_len));
}

static const char *case_early_get(void)
{
	return early(WIRE_GET, 5, 0);
}

static const char *case_early_put(void)
{
	return early(WIRE_PUT, 5, 5);
}

static const char *case_early_stats(void)
{
	return early(WIRE_STATS, 0, 0);
}

static const char *hello_closed(const struct wire_hello *hello)
{
	struct raw_peer p;

	raw_start(&p, false);
	raw_fill_hello(&p, hello);
	return send_and_expect_closed(&p, RAW_HELLO_BYTES);
}

static const char *case_hello_magic(void)
{
	struct wire_hello hello = raw_good_hello;

	hello.magic ^= 1;
	return hello_closed(&hello);
}

static const char *case_hello_small(void)
{
	struct wire_hello hello = raw_good_hello;

	hello.response_bytes = WIRE_RESPONSE_MIN - 1;
	return hello_closed(&hello);
}

static const char *case_hello_large(void)
{
	struct wire_hello hello = raw_good_hello;

	hello.response_bytes = UINT32_MAX;
	return hello_closed(&hello);
}

static const char *case_hello_short(void)
{
	const struct wire_request head = { .op = WIRE_HELLO, .value_len = 8 };
	struct raw_peer p;

	raw_start(&p, false);
	return send_and_expect_closed(&p, raw_fill(&p, &head, 0, 8));
}

/* With this identity and this first number that was not sent. */
static struct wire_hello hello_identified(uint8_t identity, uint64_t change_next)
{
	struct wire_hello hello = raw_good_hello;

	memset(hello.identity, identity, sizeof(hello.identity));
	hello.change_next = change_next;
	return hello;
}

static const char *case_hello_no_number(void)
{
	const struct wire_hello hello = hello_identified(1, 0);

	return hello_closed(&hello);
}

static const char *case_hello_no_identity(void)
{
	const struct wire_hello hello = hello_identified(0, 1);

	return hello_closed(&hello);
}

static const char *case_hello_left_out(void)
{
	const struct wire_hello hello = hello_identified(1, 7ull << 32);

	return hello_closed(&hello);
}

/* The client says that it never sent what it was answered. */
static const char *case_hello_number_below(void)
{
	const struct wire_request head = { .op = WIRE_PING, .change = 1 };
	const struct wire_hello hello = hello_identified(2, 1);
	struct raw_peer p;

	if (!raw_greet_with(&p, &hello) || raw_send(&p, raw_fill(&p, &head, 0, 0)) ||
	    !raw_wait(&p, raw_is_responded) || p.closed)
		return "no answer to the first change";
	raw_close(&p);
	return hello_closed(&hello);
}

static const char *change_closed(uint8_t identity, uint32_t change)
{
	const struct wire_request head = { .op = WIRE_PING, .change = change };
	const struct wire_hello hello = hello_identified(identity, identity ? 5 : 0);
	struct raw_peer p;

	if (!raw_greet_with(&p, &hello))
		return "no welcome";
	return send_and_expect_closed(&p, raw_fill(&p, &head, 0, 0));
}

static const char *case_change_gap(void)
{
	return change_closed(3, 6);
}

static const char *case_change_far(void)
{
	return change_closed(3, UINT32_MAX);
}

static const char *case_change_anonymous(void)
{
	return change_closed(0, 1);
}

static const char *case_hello_twice(void)
{
	struct raw_peer p;

	raw_greet(&p);
	raw_fill_hello(&p, &raw_good_hello);
	return send_and_expect_closed(&p, RAW_HELLO_BYTES);
}

/* The server responds with an error and grants nothing; it closes the connection later. */
static const char *case_hello_abi(void)
{
	struct wire_hello hello = raw_good_hello;
	struct raw_peer p;

	hello.abi++;
	raw_start(&p, false);
	raw_fill_hello(&p, &hello);
	if (raw_send(&p, RAW_HELLO_BYTES) || !raw_wait(&p, raw_is_responded) || p.closed)
		return "no response";
	if (p.response.status != WIRE_PROTOCOL || p.response.value_len)
		return "the response does not say that the protocol differs";
	return expect_closed(&p);
}

#define SECOND_AT 512 /* of the send buffer: for a message after HELLO */

/* Sends HELLO, and then a request without waiting for the welcome. */
static void hello_and(struct raw_peer *p, const struct wire_hello *hello,
		      const struct wire_request *head)
{
	size_t bytes = RAW_HELLO_BYTES;

	raw_start(p, false);
	if (head)
		bytes = raw_fill(p, head, 0, 0);
	else
		raw_fill_hello(p, hello);
	memcpy(p->memory + SECOND_AT, p->memory, bytes);
	raw_fill_hello(p, hello);
	(void)raw_send(p, RAW_HELLO_BYTES);
	(void)raw_send_at(p, SECOND_AT, bytes);
}

static bool is_responded_twice(const struct raw_peer *p)
{
	return p->closed || p->responses == 2;
}

/* A request sent after HELLO is executed after it, however long HELLO waits. */
static const char *case_hello_ping(void)
{
	const struct wire_request head = { .op = WIRE_PING, .id = 77 };
	struct raw_peer p;

	hello_and(&p, &raw_good_hello, &head);
	if (!raw_wait(&p, is_responded_twice) || p.closed || p.response.op != WIRE_PING ||
	    p.response.id != 77 || p.response.status)
		return "no response to the request after HELLO";
	return expect_ping(&p);
}

static const char *case_hello_and_hello(void)
{
	struct raw_peer p;

	hello_and(&p, &raw_good_hello, NULL);
	return expect_closed(&p);
}

/* The HELLO gives the client nothing, so the request after it is too early. */
static const char *case_hello_abi_ping(void)
{
	const struct wire_request head = { .op = WIRE_PING };
	struct wire_hello hello = raw_good_hello;
	struct raw_peer p;

	hello.abi++;
	hello_and(&p, &hello, &head);
	return expect_closed(&p);
}

#define GONE_TIMES 20

/* Clients that are gone before the control thread has answered. */
static const char *case_hello_gone(void)
{
	const struct wire_request head = { .op = WIRE_STATS };
	struct raw_peer p;
	unsigned int i;

	for (i = 0; i < GONE_TIMES; i++) {
		hello_and(&p, &raw_good_hello, &head);
		raw_close(&p);
		raw_greet(&p);
		(void)raw_send(&p, raw_fill(&p, &head, 0, 0));
		raw_close(&p);
	}
	return NULL;
}

/* The client posts no receives for the responses. */
static const char *case_deaf(void)
{
	struct raw_peer p;

	raw_start(&p, true);
	raw_fill_hello(&p, &raw_good_hello);
	return send_and_expect_closed(&p, RAW_HELLO_BYTES);
}

/*
 * --- malformed requests ------------------------------------------------------------------------
 */

/* Sends @head with a key and a value of these lengths, whatever lengths @head has. */
static const char *malformed(const struct wire_request *head, size_t key_len, size_t value_len)
{
	struct raw_peer p;

	raw_greet(&p);
	return send_and_expect_closed(&p, raw_fill(&p, head, key_len, value_len));
}

#define MALFORMED(name, key_bytes, value_bytes, ...)                                               \
	static const char *case_##name(void)                                                       \
	{                                                                                          \
		const struct wire_request head = { __VA_ARGS__ };                                  \
                                                                                                   \
		return malformed(&head, key_bytes, value_bytes);                                   \
	}

MALFORMED(op_0, 0, 0, .op = 0)
MALFORMED(op_above_max, 0, 0, .op = WIRE_OP_MAX + 1)
MALFORMED(op_255, 5, 0, .op = 255, .key_len = 5)
MALFORMED(flags, 5, 5, .op = WIRE_PUT, .flags = 0x80, .key_len = 5, .value_len = 5)
MALFORMED(change_of_get, 5, 0, .op = WIRE_GET, .key_len = 5, .change = 1)
MALFORMED(pull_get, 5, 0, .op = WIRE_GET, .flags = WIRE_F_PULL, .key_len = 5)
MALFORMED(pull_addr, 5, 5, .op = WIRE_PUT, .key_len = 5, .value_len = 5, .pull_addr = 4096)
MALFORMED(pull_rkey, 5, 5, .op = WIRE_PUT, .key_len = 5, .value_len = 5, .pull_rkey = 1)
MALFORMED(mode_of_put, 5, 5, .op = WIRE_PUT, .mode = WIRE_PUT_MAX + 1, .key_len = 5, .value_len = 5)
MALFORMED(mode_of_get, 5, 0, .op = WIRE_GET, .mode = 1, .key_len = 5)
MALFORMED(number_of_set, 5, 5, .op = WIRE_PUT, .version = 7, .key_len = 5, .value_len = 5)
MALFORMED(ttl_of_delete, 5, 0, .op = WIRE_DELETE, .ttl = 1, .key_len = 5)
MALFORMED(ttl_of_append, 5, 5, .op = WIRE_PUT, .mode = WIRE_APPEND, .ttl = 1, .key_len = 5,
	  .value_len = 5)
/* Uses, asked for of a server that does not evict. */
MALFORMED(uses_of_scan, 0, 0, .op = WIRE_SCAN, .flags = WIRE_F_USES)
MALFORMED(prefix_1025, 1025, 0, .op = WIRE_SCAN, .key_len = 1025)
MALFORMED(access_none, 0, 0, .op = WIRE_ACCESS)
MALFORMED(access_many, 0, 8 * (WIRE_ACCESS_MAX + 1), .op = WIRE_ACCESS,
	  .access_count = WIRE_ACCESS_MAX + 1)
MALFORMED(access_65535, 5, 8, .op = WIRE_GET, .key_len = 5, .access_count = UINT16_MAX)
MALFORMED(access_cut, 5, 15, .op = WIRE_GET, .key_len = 5, .access_count = 2)
MALFORMED(pull_empty, 5, 0, .op = WIRE_PUT, .flags = WIRE_F_PULL, .key_len = 5)
MALFORMED(key_none, 0, 0, .op = WIRE_GET)
MALFORMED(key_1025, 1025, 0, .op = WIRE_GET, .key_len = 1025)
MALFORMED(key_65535, 5, 0, .op = WIRE_GET, .key_len = 65535)
MALFORMED(key_cut, 5, 0, .op = WIRE_GET, .key_len = 6)
MALFORMED(key_surplus, 6, 0, .op = WIRE_DELETE, .key_len = 5)
MALFORMED(key_of_ping, 5, 0, .op = WIRE_PING, .key_len = 5)
MALFORMED(value_cut, 5, 9, .op = WIRE_PUT, .key_len = 5, .value_len = 10)
MALFORMED(value_huge, 5, 9, .op = WIRE_PUT, .key_len = 5, .value_len = UINT32_MAX)
MALFORMED(value_of_get, 5, 5, .op = WIRE_GET, .key_len = 5, .value_len = 5)
MALFORMED(length_of_nothing, 5, 0, .op = WIRE_GET, .flags = WIRE_F_NO_VALUE, .key_len = 5,
	  .length = 1)
MALFORMED(oversized, 5, 60000, .op = WIRE_PUT, .key_len = 5, .value_len = 60000)

static const char *truncated(size_t bytes)
{
	const struct wire_request head = { .op = WIRE_PING };
	struct raw_peer p;

	raw_greet(&p);
	raw_fill(&p, &head, 0, 0);
	return send_and_expect_closed(&p, bytes);
}

static const char *case_bytes_0(void)
{
	return truncated(0);
}

static const char *case_bytes_1(void)
{
	return truncated(1);
}

static const char *case_bytes_31(void)
{
	return truncated(31);
}

#define RANDOM_MESSAGES 12

static uint64_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* The seed is fixed; none of its messages is a valid request. */
static const char *case_random(void)
{
	uint64_t state = 20240229;
	const char *error = NULL;
	struct raw_peer p;
	size_t bytes, j;
	int i;

	for (i = 0; !error && i < RANDOM_MESSAGES; i++) {
		if (i % 2)
			raw_greet(&p);
		else
			raw_start(&p, false);
		bytes = 1 + random_next(&state) % 1500;
		for (j = 0; j < bytes; j++)
			p.memory[j] = (uint8_t)random_next(&state);
		p.memory[0] |= 8;
		error = send_and_expect_closed(&p, bytes);
	}
	return error;
}

/*
 * --- too much ----------------------------------------------------------------------------------
 */

/* Keeps the send queue full of requests, far more than the window. */
static const char *flood(const struct wire_request *head)
{
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;
	unsigned int posted = 0, done;
	struct raw_peer p;

	raw_greet(&p);
	p.sends_done = 0;
	raw_fill(&p, head, 0, 0);
	while (!p.closed && clock_ns() < end) {
		done = p.sends_done;
		while (posted - done < RAW_SENDS && !raw_send(&p, sizeof(*head)))
			posted++;
		raw_poll(&p);
		if (p.sends_done == done)
			usleep(RAW_PAUSE_US);
	}
	return expect_closed(&p);
}

static const char *case_flood(void)
{
	const struct wire_request head = { .op = WIRE_PING };

	return flood(&head);
}

/* Deferred SCANs count in the window, or this client would hold all receives. */
static const char *case_flood_of_scans(void)
{
	const struct wire_request head = { .op = WIRE_SCAN };

	return flood(&head);
}

/* Pulls that wait, in their place, count in the window likewise. None of them is served. */
static const char *case_flood_of_pulls(void)
{
	const struct wire_request head = {
		.op = WIRE_PUT, .flags = WIRE_F_PULL, .key_len = 5, .value_len = 100000
	};
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;
	struct raw_peer p;
	bool closed;
	size_t len;

	raw_greet(&p);
	len = raw_fill(&p, &head, 5, 0);
	((struct wire_request *)p.memory)->pull_addr = (uintptr_t)raw_data(&p);
	((struct wire_request *)p.memory)->pull_rkey = p.mr->rkey;
	for (unsigned int i = 0; i < RAW_SENDS && !raw_send(&p, len); i++)
		;
	while (!p.closed && clock_ns() < end)
		raw_poll_events(&p);
	closed = p.closed;
	raw_close(&p);
	return closed ? NULL : "the server did not close the connection";
}

/* A batch whose requests @requests, of @len bytes, are not what @count says. */
static const char *bad_batch(uint32_t count, const struct wire_batched *requests, size_t len)
{
	const struct wire_request head = { .op = WIRE_BATCH,
					   .count = count,
					   .value_len = (uint32_t)len };
	struct raw_peer p;

	raw_greet(&p);
	raw_fill(&p, &head, 0, len);
	memcpy(p.memory + sizeof(head), requests,
	       len < sizeof(*requests) ? len : sizeof(*requests));
	return send_and_expect_closed(&p, sizeof(head) + len);
}

/* The batch's last value is longer than the message. The requests before it are not executed. */
static const char *case_batch_overrun(void)
{
	const struct wire_batched put = { .op = WIRE_PUT, .key_len = 5, .value_len = UINT16_MAX };

	return bad_batch(1, &put, 500);
}

static const char *case_batch_many(void)
{
	const struct wire_batched ping = { .op = WIRE_PING };

	return bad_batch(WIRE_BATCH_MAX + 1, &ping, sizeof(ping));
}

static const char *case_batch_of_pulls(void)
{
	const struct wire_batched put = { .op = WIRE_PUT, .flags = WIRE_F_PULL, .key_len = 5 };

	return bad_batch(1, &put, sizeof(put) + 5);
}

static const char *case_batch_in_batch(void)
{
	const struct wire_batched batch = { .op = WIRE_BATCH, .value_len = 16 };

	return bad_batch(1, &batch, sizeof(batch) + 16);
}

/* Sends as many SCANs as the window allows, but one, and then a PING. */
static void scans_and_ping(struct raw_peer *p)
{
	struct wire_request head = { .op = WIRE_SCAN };
	uint32_t i;

	memcpy(p->memory, &head, sizeof(head));
	for (i = 1; i < p->welcome.window; i++)
		raw_send(p, sizeof(head));
	head = (struct wire_request){ .op = WIRE_PING };
	memcpy(p->memory + sizeof(head), &head, sizeof(head));
	raw_send_at(p, sizeof(head), sizeof(head));
}

static bool is_ping_responded(const struct raw_peer *p)
{
	return p->response.op == WIRE_PING || p->closed;
}

/* A client may send a whole window of them at once, and the responses come in order. */
static const char *case_window_of_scans(void)
{
	const char *error = NULL;
	struct raw_peer p;

	raw_greet(&p);
	scans_and_ping(&p);
	if (!raw_wait(&p, is_ping_responded) || p.closed)
		error = "no response to the PING";
	else if (p.responses != p.welcome.window)
		error = "PING was responded to before a SCAN";
	raw_close(&p);
	return error;
}

/* Posts @count PINGs at once. */
static void pings(struct raw_peer *p, uint32_t count)
{
	const struct wire_request head = { .op = WIRE_PING };

	memcpy(p->memory, &head, sizeof(head));
	while (count--)
		raw_send(p, sizeof(head));
}

static unsigned int wanted; /* responses */

static bool is_window_responded(const struct raw_peer *p)
{
	return p->responses >= wanted || p->closed;
}

/* Sends what the window allows, several times. NULL, or what went wrong. */
static const char *window_used_up(struct raw_peer *p, uint32_t window)
{
	unsigned int i;

	for (i = 0; i < 20; i++) {
		wanted = window;
		pings(p, window);
		if (!raw_wait(p, is_window_responded) || p->closed)
			return "no response to a window of PINGs";
	}
	return NULL;
}

/* Every response tells the window, which may be used up. */
static const char *case_window_told(void)
{
	const char *error;
	struct raw_peer p;

	raw_greet(&p);
	error = window_used_up(&p, p.welcome.window);
	if (!error && p.response.window != p.welcome.window)
		error = "the response has another window";
	raw_close(&p);
	return error;
}

/* One request more than the window, after SCANs, which are deferred, so that it is seen. */
static const char *case_window_exceeded(void)
{
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;
	struct raw_peer p;
	uint32_t i;

	raw_greet(&p);
	while (!p.closed && clock_ns() < end) {
		scans_and_ping(&p);
		wanted = 2 * p.welcome.window;
		for (i = 0; i < p.welcome.window && !p.closed; i++)
			raw_send(&p, sizeof(struct wire_request));
		raw_wait(&p, is_window_responded);
	}
	return expect_closed(&p);
}

/*
 * Clients that leave while their requests are deferred. More requests than the server has receives:
 * if a few of them got lost each time, the good client would find none.
 */
#define LEAVERS 100

static const char *case_scans_left(void)
{
	struct raw_peer p;
	int i;

	for (i = 0; i < LEAVERS; i++) {
		raw_greet(&p);
		scans_and_ping(&p);
		raw_close(&p);
	}
	return NULL;
}

/*
 * --- pulls -------------------------------------------------------------------------------------
 */

static size_t fill_pull(struct raw_peer *p, uint64_t addr, uint32_t rkey, uint32_t bytes)
{
	const struct wire_request head = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key_len = 5,
		.value_len = bytes,
		.id = 7,
		.pull_addr = addr,
		.pull_rkey = rkey,
	};

	return raw_fill(p, &head, 5, 0);
}

static const char *case_pull_wrong_rkey(void)
{
	struct raw_peer p;

	raw_greet(&p);
	return send_and_expect_closed(&p, fill_pull(&p, (uintptr_t)raw_data(&p),
						    p.mr->rkey ^ 0x5500, 100000));
}

static const char *case_pull_beyond(void)
{
	struct raw_peer p;

	raw_greet(&p);
	return send_and_expect_closed(
		&p, fill_pull(&p, (uintptr_t)raw_data(&p) + RAW_DATA_BYTES - 99, p.mr->rkey, 100));
}

static const char *case_pull_wrap(void)
{
	struct raw_peer p;

	raw_greet(&p);
	return send_and_expect_closed(&p, fill_pull(&p, UINT64_MAX - 10, p.mr->rkey, 100000));
}

/* The server can READ only the first pieces; the item must not get into the table. */
static const char *case_pull_half(void)
{
	struct raw_peer p;

	raw_greet(&p);
	return send_and_expect_closed(
		&p, fill_pull(&p, (uintptr_t)raw_data(&p) + RAW_DATA_BYTES / 2 + 200000, p.mr->rkey,
			      RAW_DATA_BYTES / 2));
}

static const char *case_pull_too_large(void)
{
	static const uint32_t over[] = { 1, 1u << 20, 1u << 29, UINT32_MAX };
	struct raw_peer p;
	uint64_t bytes;
	unsigned int i;

	raw_greet(&p);
	for (i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
		bytes = p.welcome.geometry.value_max + over[i];
		if (bytes > UINT32_MAX)
			bytes = UINT32_MAX;
		if (raw_send(&p,
			     fill_pull(&p, (uintptr_t)raw_data(&p), p.mr->rkey, (uint32_t)bytes)) ||
		    !raw_wait(&p, raw_is_responded) || p.closed || p.response.id != 7)
			return "no response";
		if (p.response.status != WIRE_TOO_LARGE)
			return "the response does not say that it is too large";
	}
	return expect_ping(&p);
}

/* Two pulls at once on one connection: the second one is refused, the first one is done. */
static const char *case_pull_twice(void)
{
	unsigned int busy = 0, done = 0;
	struct raw_peer p;
	size_t bytes;

	raw_greet(&p);
	bytes = fill_pull(&p, (uintptr_t)raw_data(&p), p.mr->rkey, 1u << 20);
	if (raw_send(&p, bytes) || raw_send(&p, bytes))
		return "can't send";
	while (busy + done < 2) {
		if (!raw_wait(&p, raw_is_responded) || p.closed || p.response.id != 7)
			return "no response";
		/* If both responses have come at once, only the last one is known. */
		busy += p.response.status == WIRE_BUSY;
		done += p.response.status == WIRE_OK;
		if (p.responses > 1 || busy > 1 ||
		    (p.response.status != WIRE_OK && p.response.status != WIRE_BUSY))
			break;
		p.responses = 0;
	}
	if (!done)
		return "neither of the two pulls was done";
	return expect_ping(&p);
}

static bool is_sent(const struct raw_peer *p)
{
	return p->sends_done || p->closed;
}

/* The sum of the statistics of these names. */
static uint64_t server_stats_sum(struct kvd *db, const char *const *names)
{
	static char text[STATS_BYTES];
	uint64_t sum = 0;
	const char *line;
	char start[64];

	if (kvd_server_stats(db, text, sizeof(text), NULL))
		raw_die(kvd_error(db), EIO);
	for (; *names; names++) {
		snprintf(start, sizeof(start), "\n%s ", *names);
		line = strstr(text, start);
		if (!line)
			raw_die(*names, ENOENT);
		sum += strtoull(line + strlen(start), NULL, 10);
	}
	return sum;
}

static uint64_t server_stat(struct kvd *db, const char *name)
{
	return server_stats_sum(db, (const char *const[]){ name, NULL });
}

/*
 * Sends twice as many requests as the window, and has no receives for the responses: one is posted
 * before so many more requests come that the server would close the connection.
 */
static bool ask_twice_the_window(struct raw_peer *p, struct kvd *db, uint64_t end)
{
	const struct wire_request head = { .op = WIRE_GET, .key_len = WRITTEN_LEN };
	const size_t len = raw_fill(p, &head, WRITTEN_LEN, 0);
	uint32_t sent = 0;

	while (sent < 2 * p->welcome.window && !p->closed && clock_ns() < end) {
		raw_poll_events(p);
		if (server_stat(db, "held.response_buffers") + p->welcome.window / 2 < sent)
			continue;
		if (raw_send(p, len))
			return false;
		sent++;
	}
	return sent == 2 * p->welcome.window;
}

/* Whether the server takes spare buffers and places of work requests for this client. */
static bool spares_are_taken(struct raw_peer *p, struct kvd *db, uint64_t end)
{
	while (!server_stat(db, "held.spare_buffers") || !server_stat(db, "held.spare_sends")) {
		raw_poll_events(p);
		if (p->closed || clock_ns() > end)
			return false;
	}
	return true;
}

/*
 * Leaves with responses beyond its window. On a busy machine the server may give them up before
 * they were seen: then another client tries.
 */
static const char *case_spares_left(void)
{
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;
	struct kvd *db = good_client_open();
	struct raw_peer p;
	bool taken;

	if (!db)
		return kvd_error(NULL);
	do {
		raw_greet_deaf(&p);
		taken = ask_twice_the_window(&p, db, end) && spares_are_taken(&p, db, end);
		raw_close(&p);
	} while (!taken && clock_ns() < end);
	kvd_close(db);
	return taken ? NULL : "the server took nothing that is spare";
}

/*
 * Waits until the server's READ of the value is posted or about to be. A verbs device serves it by
 * itself: all that can be known in time is that the server's device has the request. On softnic
 * this process would serve it in raw_poll(), so another connection asks how many pulls there are.
 */
static bool pull_begins(struct raw_peer *p, struct kvd *db, uint64_t pulls)
{
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;

	if (strncmp(raw_url, "softnic:", 8))
		return raw_wait(p, is_sent) && !p->closed;
	while (server_stat(db, "pulls") == pulls)
		if (clock_ns() > end || usleep(RAW_PAUSE_US))
			return false;
	return true;
}

/* Returns when the server pulls a second value of kkkkk, or why it does not. */
static const char *second_pull(struct raw_peer *p)
{
	struct kvd *db = good_client_open();
	uint64_t pulls;

	if (!db)
		return kvd_error(NULL);
	raw_greet(p);
	/* The first one is served, with the probe before it. */
	if (raw_send(p, fill_pull(p, (uintptr_t)raw_data(p), p->mr->rkey, 1u << 20)) ||
	    !raw_wait(p, raw_is_responded) || p->closed || p->response.status)
		return "the first pull is not done";
	if (kvd_delete(db, "kkkkk", 5))
		return "its key is not there";
	pulls = server_stat(db, "pulls");
	p->sends_done = 0;
	if (raw_send(p, fill_pull(p, (uintptr_t)raw_data(p), p->mr->rkey, 1u << 20)))
		return "can't send";
	if (!pull_begins(p, db, pulls))
		return "the server did not begin to pull";
	kvd_close(db);
	return NULL;
}

/* Dies while the server pulls. tests/system/crash.sh checks what the server does then. */
static const char *case_die_in_pull(void)
{
	struct raw_peer p;
	const char *why = second_pull(&p);

	if (why)
		return why;
	kill(getpid(), SIGKILL);
	return "alive after SIGKILL";
}

/* Whether the value that the server pulled is stored. */
static const char *second_pull_stored(struct raw_peer *p)
{
	static uint8_t value[1u << 20];
	struct kvd *db = good_client_open();
	struct kvd_item item = { 0 };
	bool same;

	if (!db)
		return kvd_error(NULL);
	same = !kvd_get(db, "kkkkk", 5, value, sizeof(value), &item) &&
	       item.value_len == sizeof(value) && !memcmp(value, raw_data(p), sizeof(value));
	kvd_close(db);
	return same ? NULL : "it is not stored";
}

/* Stops while the server pulls, until tests/system/stalls.sh lets it go on. */
static const char *case_stop_in_pull(void)
{
	struct raw_peer p;
	const char *why = second_pull(&p);

	if (why)
		return why;
	kill(getpid(), SIGSTOP);
	if (!raw_wait(&p, raw_is_responded) || p.closed)
		return "the connection was closed";
	why = p.response.status ? "the value was refused" : second_pull_stored(&p);
	raw_close(&p);
	return why;
}

/* Leaves a value that waits in limbo when it is replaced: large, but not too large for that. */
static const char *case_limbo_left(void)
{
	struct raw_peer p;

	raw_greet(&p);
	if (raw_send(&p, fill_pull(&p, (uintptr_t)raw_data(&p), p.mr->rkey, 40000)) ||
	    !raw_wait(&p, raw_is_responded) || p.closed || p.response.status)
		return "the value is not stored";
	raw_close(&p);
	return NULL;
}

/* Leaves a value that is pinned, which somebody else replaces. */
static const char *case_pin_left(void)
{
	const struct wire_request head = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PIN,
		.key_len = 5,
		.value_len = 100,
		.pin = 60,
		.id = 9,
	};
	struct raw_peer p;

	raw_greet(&p);
	if (raw_send(&p, raw_fill(&p, &head, 5, 100)) || !raw_wait(&p, raw_is_responded) ||
	    p.closed || p.response.status)
		return "the value is not pinned";
	raw_close(&p);
	return NULL;
}

/* A value that the protocol allows, but that is larger than max_value of this server. */
static const char *case_put_too_large(void)
{
	struct wire_request head = { .op = WIRE_PUT, .key_len = 5, .id = 3 };
	struct raw_peer p;

	raw_greet(&p);
	head.value_len = (uint32_t)p.welcome.geometry.value_max;
	if (raw_send(&p, raw_fill(&p, &head, 5, head.value_len)) ||
	    !raw_wait(&p, raw_is_responded) || p.closed || p.response.status)
		return "a value of max_value bytes is refused";
	head.value_len++;
	if (raw_send(&p, raw_fill(&p, &head, 5, head.value_len)) ||
	    !raw_wait(&p, raw_is_responded) || p.closed || p.response.status != WIRE_TOO_LARGE)
		return "one byte more is not refused";
	return expect_ping(&p);
}

/* On softnic the owner of the memory serves a READ when it polls; this client does not poll. */
static const char *case_pull_never(void)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;
	struct raw_peer p;

	raw_greet(&p);
	(void)raw_send(&p, fill_pull(&p, (uintptr_t)raw_data(&p), p.mr->rkey, 100000));
	while (!p.closed && clock_ns() < end) {
		raw_poll_events(&p);
		nanosleep(&pause, NULL);
	}
	return expect_closed(&p);
}

/*
 * Clients that ask for a pull each and never serve it, more than the memory has room for. Beside
 * them a client that has served one stores new keys, large and small.
 */
#define HOARDERS 80
#define HOARD_BYTES (1u << 20)
#define STALL_PROOF_BYTES (20u << 10)
#define STALLER_PAUSE_US 20000
#define STALLER_UID 61001
#define BESIDE_ROUNDS 8
#define BESIDE_LARGE_BYTES (512u << 10)
#define BESIDE_SMALL_BYTES 1000

/* @round's two values under new keys: the status of the first PUT that fails. */
static enum kvd_status put_beside(struct kvd *db, int round)
{
	static char value[BESIDE_LARGE_BYTES];
	enum kvd_status status;
	char key[32];

	memset(value, 'b', sizeof(value));
	snprintf(key, sizeof(key), "beside-large%d", round);
	status = kvd_put(db, key, strlen(key), value, BESIDE_LARGE_BYTES, NULL, NULL);
	if (status)
		return status;
	snprintf(key, sizeof(key), "beside-small%d", round);
	return kvd_put(db, key, strlen(key), value, BESIDE_SMALL_BYTES, NULL, NULL);
}

static void delete_beside(struct kvd *db, int rounds)
{
	char key[32];

	for (int i = 0; i < rounds; i++) {
		snprintf(key, sizeof(key), "beside-large%d", i);
		kvd_delete(db, key, strlen(key));
		snprintf(key, sizeof(key), "beside-small%d", i);
		kvd_delete(db, key, strlen(key));
	}
}

/* What the server does at once with a pull that it is asked for. */
static const char *const pull_fates[] = { "pulls", "pulls_probed", "pulls_waited", "put_no_space",
					  NULL };

/* Hoarders ask; then nobody polls their devices. False: the server did not take all requests. */
static bool hoarders_ask(struct raw_peer *hoarders, struct kvd *db)
{
	uint64_t end = clock_ns() + RAW_DEADLINE_NS, asked = server_stats_sum(db, pull_fates);
	int i;

	for (i = 0; i < HOARDERS; i++) {
		raw_greet(&hoarders[i]);
		if (raw_send(&hoarders[i],
			     fill_pull(&hoarders[i], (uintptr_t)raw_data(&hoarders[i]),
				       hoarders[i].mr->rkey, HOARD_BYTES)))
			return false;
	}
	while (server_stats_sum(db, pull_fates) < asked + HOARDERS)
		if (clock_ns() > end || usleep(RAW_PAUSE_US))
			return false;
	return true;
}

/* A client that has served no READ so far stores a large value: it waits for none of them. */
static const char *newcomer_beside(void)
{
	struct kvd *db = good_client_open();
	enum kvd_status status = db ? put_beside(db, BESIDE_ROUNDS) : KVD_ERR_UNREACHABLE;

	kvd_close(db);
	return status ? "a newcomer's PUT beside them failed" : NULL;
}

static const char *hoard_beside(struct raw_peer *hoarders, struct kvd *db)
{
	static char text[400];
	uint64_t longest_ns = 0, begin_ns;
	unsigned int failed = 0;
	int i;

	if (put_beside(db, 0))
		return kvd_error(db);
	if (!hoarders_ask(hoarders, db))
		return "the server did not take the pulls";
	*text = '\0';
	for (i = 1; i < BESIDE_ROUNDS; i++) {
		begin_ns = clock_ns();
		if (put_beside(db, i)) {
			snprintf(text, sizeof(text), "%u of %d PUTs beside them failed: %s",
				 ++failed, i, kvd_error(db));
		}
		begin_ns = clock_ns() - begin_ns;
		longest_ns = begin_ns > longest_ns ? begin_ns : longest_ns;
	}
	printf("      | %u of %d pairs of PUTs failed, the longest took %.1f ms\n", failed, i - 1,
	       (double)longest_ns / 1e6);
	return failed ? text : newcomer_beside();
}

static const char *case_pull_hoard(void)
{
	static struct raw_peer hoarders[HOARDERS];
	struct kvd *db = good_client_open();
	const char *error;
	int i;

	if (!db)
		return kvd_error(NULL);
	error = hoard_beside(hoarders, db);
	for (i = 0; i < HOARDERS; i++)
		raw_close(&hoarders[i]);
	delete_beside(db, BESIDE_ROUNDS + 1);
	kvd_close(db);
	return error;
}

/*
 * Processes of the user STALLER_UID that serve one pull, ask for a large one, and let that stand
 * still. When the server has closed its connection, a process ends, and another one comes in its
 * place, until this one is killed. It prints a line when all of the first ones have asked.
 */
static void staller_serve(struct raw_peer *p)
{
	raw_greet(p);
	if (!raw_send(p, fill_pull(p, (uintptr_t)raw_data(p), p->mr->rkey, STALL_PROOF_BYTES)))
		(void)raw_wait(p, raw_is_responded);
}

/* This one is not waited for. */
static void staller_stall(struct raw_peer *p)
{
	if (p->responses && !p->closed)
		(void)raw_send(p, fill_pull(p, (uintptr_t)raw_data(p), p->mr->rkey, HOARD_BYTES));
}

/*
 * A byte on @done for each step; the second one begins at the end of @go. The pipe has room for the
 * bytes of 32,768 processes, of which nobody reads those of later ones.
 */
static void staller_run(int done, int go)
{
	static struct raw_peer p;
	char byte = 0;

	/* The groups are dropped, too. The signal comes last: setuid() would take it back. */
	if (setgroups(0, NULL) || setgid(STALLER_UID) || setuid(STALLER_UID))
		raw_die("setuid", errno);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	staller_serve(&p);
	if (write(done, &byte, sizeof(byte)) < 0 || read(go, &byte, sizeof(byte)) < 0)
		raw_die("a pipe", errno);
	staller_stall(&p);
	if (write(done, &byte, sizeof(byte)) < 0)
		raw_die("a pipe", errno);
	while (!p.closed) {
		raw_poll_events(&p);
		usleep(STALLER_PAUSE_US);
	}
}

static void staller_start(const int done[2], const int go[2])
{
	pid_t pid = fork();

	if (pid < 0)
		raw_die("fork", errno);
	if (pid)
		return;
	close(go[1]);
	staller_run(done[1], go[0]);
	_exit(0);
}

static void stallers_await(int done)
{
	char byte;

	for (int i = 0; i < HOARDERS; i++)
		if (read(done, &byte, sizeof(byte)) != sizeof(byte))
			raw_die("a pipe", errno);
}

static const char *case_pull_stall(void)
{
	int done[2], go[2], i;

	if (pipe(done) || pipe(go))
		raw_die("pipe", errno);
	for (i = 0; i < HOARDERS; i++)
		staller_start(done, go);
	/* All serve before the first stalls: then none has to wait for the memory of others. */
	stallers_await(done[0]);
	close(go[1]);
	stallers_await(done[0]);
	printf("stalling\n");
	fflush(stdout);
	while (wait(NULL) > 0)
		staller_start(done, go);
	return NULL;
}

/* What the server holds before the first case. */
static struct held held;

/* Beside them values of another user's process arrive, and wait for none of them. */
static const char *case_beside_stall(void)
{
	struct kvd *db = good_client_open();
	const char *error = NULL;
	int i;

	if (!db)
		return kvd_error(NULL);
	/* All of them may wait; some had just been closed when it was noted. */
	held_set(&held, "held.pull_waits", HOARDERS);
	for (i = 0; i < BESIDE_ROUNDS && !error; i++)
		error = put_beside(db, i) ? "a PUT beside them failed" : NULL;
	delete_beside(db, BESIDE_ROUNDS);
	kvd_close(db);
	return error;
}

/*
 * Clients that append to a large value each, all at once: what they make would not fit the memory
 * together. Each append succeeds, and so does what another client stores meanwhile.
 */
#define BUILDERS 12
#define BUILD_BYTES (3u << 20)

/* Builder @i's key, as raw_fill() makes it. Returns its length. */
static size_t build_key(char *key, int i)
{
	memset(key, 'k', (size_t)i + 1);
	return (size_t)i + 1;
}

/* Stores the values that are appended to. */
static enum kvd_status builders_put(struct kvd *db)
{
	static char value[BUILD_BYTES];
	enum kvd_status status = KVD_OK;
	char key[BUILDERS];

	for (int i = 0; i < BUILDERS && !status; i++)
		status = kvd_put(db, key, build_key(key, i), value, sizeof(value), NULL, NULL);
	return status;
}

static bool builder_asks(struct raw_peer *p, int i)
{
	const struct wire_request head = {
		.op = WIRE_PUT,
		.mode = WIRE_APPEND,
		.key_len = (uint16_t)(i + 1),
		.value_len = 1,
		.id = 7,
	};

	return !raw_send(p, raw_fill(p, &head, head.key_len, head.value_len));
}

static bool builder_done(struct raw_peer *p, int i, struct kvd *db)
{
	static char value[BUILD_BYTES + 1];
	struct kvd_item item;
	char key[BUILDERS];

	return raw_wait(p, raw_is_responded) && !p->closed && !p->response.status &&
	       !kvd_get(db, key, build_key(key, i), value, sizeof(value), &item) &&
	       item.value_len == sizeof(value) && value[BUILD_BYTES] == 'v' &&
	       !kvd_delete(db, key, build_key(key, i));
}

static const char *build_beside(struct raw_peer *builders, struct kvd *db)
{
	int i;

	if (builders_put(db))
		return kvd_error(db);
	for (i = 0; i < BUILDERS; i++)
		raw_greet(&builders[i]);
	for (i = 0; i < BUILDERS; i++)
		if (!builder_asks(&builders[i], i))
			return "can't send";
	for (i = 0; i < BESIDE_ROUNDS; i++)
		if (put_beside(db, i))
			return kvd_error(db);
	for (i = 0; i < BUILDERS; i++)
		if (!builder_done(&builders[i], i, db))
			return "an append failed";
	return NULL;
}

static const char *case_append_hoard(void)
{
	static struct raw_peer builders[BUILDERS];
	struct kvd *db = good_client_open();
	const char *error;
	int i;

	if (!db)
		return kvd_error(NULL);
	error = build_beside(builders, db);
	for (i = 0; i < BUILDERS; i++)
		raw_close(&builders[i]);
	delete_beside(db, BESIDE_ROUNDS);
	kvd_close(db);
	return error;
}

#define STORM 25 /* each takes a tenth of a second */
#define STORM_LONG 100
#define STORM_TAKEN_MAX 100

/* Connects often; each time the server can't take the connection. */
static const char *storm(void)
{
	const char *is_long = getenv("KVD_TEST_LONG");
	int i, attempts = is_long && !strcmp(is_long, "1") ? STORM_LONG : STORM;
	struct raw_peer p;

	for (i = 0; i < attempts; i++) {
		raw_open(&p, false);
		raw_connect(&p, &raw_good_connect, sizeof(raw_good_connect));
		if (!p.refused && !p.closed)
			return "accepted";
		raw_close(&p);
	}
	return NULL;
}

/* First takes all that the server can take: before it no case could note what the server holds. */
static const char *case_storm(void)
{
	static struct kvd *taken[STORM_TAKEN_MAX];
	const char *error = "the server takes any number of connections";
	int i, n = 0;

	while (n < STORM_TAKEN_MAX && (taken[n] = good_client_open()))
		n++;
	if (n < STORM_TAKEN_MAX)
		error = storm();
	for (i = 0; i < n; i++)
		kvd_close(taken[i]);
	return error;
}

/*
 * A host that vanished: its queue pair drops all that arrives, and nothing tells the server so. (A
 * process that ends would: its kernel disconnects for it.)
 */
static const char *case_vanish(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct raw_peer p;

	raw_greet(&p);
	if (p.dev->ops->modify_qp(p.id->qp, &attr, IBV_QP_STATE))
		return "modify_qp failed";
	/* Transport retries may take longer than one deadline. */
	(void)raw_wait(&p, raw_is_closed);
	return expect_closed(&p);
}

/*
 * --- the region --------------------------------------------------------------------------------
 */

/* Reads the region's first bytes through another connection. */
static void region_read(uint8_t *bytes, size_t count)
{
	struct raw_peer p;

	raw_greet(&p);
	if (raw_rdma(&p, IBV_WR_RDMA_READ, p.welcome.region_addr, p.welcome.rkeys[0],
		     (uint32_t)count) ||
	    !raw_wait(&p, raw_is_rdma_done) || p.closed || p.status)
		raw_die("a good READ", EIO);
	memcpy(bytes, raw_data(&p), count);
	raw_close(&p);
}

/* The operation must fail and change no byte of the data. Closes the connection. */
static const char *rdma_fails(struct raw_peer *p, enum ibv_wr_opcode opcode, uint64_t addr,
			      uint32_t rkey, uint32_t bytes)
{
	const char *error = NULL;
	uint32_t i;

	memset(raw_data(p), 0xee, bytes);
	if (raw_rdma(p, opcode, addr, rkey, bytes)) {
		raw_close(p);
		return NULL;
	}
	if (!raw_wait(p, raw_is_rdma_done))
		error = "no completion";
	else if (p->rdma_done && p->status == IBV_WC_SUCCESS)
		error = "it worked";
	for (i = 0; !error && i < bytes; i++)
		if (raw_data(p)[i] != 0xee)
			error = "it failed but wrote bytes";
	raw_close(p);
	return error;
}

static const char *case_read_early(void)
{
	struct raw_peer good, p;
	const char *error;

	/* The address and key that this connection does not have come from another one. */
	raw_greet(&good);
	raw_start(&p, false);
	error = rdma_fails(&p, IBV_WR_RDMA_READ, good.welcome.region_addr, good.welcome.rkeys[0],
			   64);
	raw_close(&good);
	return error;
}

#define READ_FAILS(name, addr, rkey, bytes)                                                        \
	static const char *case_##name(void)                                                       \
	{                                                                                          \
		struct wire_welcome *w;                                                            \
		struct raw_peer p;                                                                 \
                                                                                                   \
		raw_greet(&p);                                                                     \
		w = &p.welcome;                                                                    \
		return rdma_fails(&p, IBV_WR_RDMA_READ, addr, rkey, bytes);                        \
	}

READ_FAILS(read_before, w->region_addr - 64, w->rkeys[0], 64)
READ_FAILS(read_across_start, w->region_addr - 1, w->rkeys[0], 64)
READ_FAILS(read_across_end, w->region_addr + w->geometry.region_bytes - 63, w->rkeys[0], 64)
READ_FAILS(read_beyond, w->region_addr + w->geometry.region_bytes, w->rkeys[0], 64)
READ_FAILS(read_wrap, w->region_addr + UINT64_MAX - 64, w->rkeys[0], 128)
READ_FAILS(read_wrong_rkey, w->region_addr, w->rkeys[0] ^ 0x5500, 64)
READ_FAILS(read_zero_rkey, w->region_addr, 0, 64)

static const char *write_fails(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint8_t before[4096], after[4096];
	const char *error;
	struct raw_peer p;

	region_read(before, sizeof(before));
	raw_greet(&p);
	error = rdma_fails(&p, opcode, p.welcome.region_addr, p.welcome.rkeys[0], bytes);
	region_read(after, sizeof(after));
	/* The clock and the number of items may change meanwhile. */
	if (!error && (memcmp(before, after, offsetof(struct superblock, clock_s)) ||
		       memcmp(before + 344, after + 344, sizeof(before) - 344)))
		error = "the region has changed";
	return error;
}

/* Bytes of the key of the sums that are looked for, wherever they begin in it. */
#define KEY_PART_BYTES 16u

/* Whether any part of the key is in the bytes. */
static bool has_key(const uint8_t *bytes, size_t count, const struct sum_key *key)
{
	size_t at;

	for (at = 0; at + KEY_PART_BYTES <= sizeof(key->secret); at += KEY_PART_BYTES)
		if (memmem(bytes, count, key->secret + at, KEY_PART_BYTES))
			return true;
	return false;
}

/* A client that may READ is given the key of the sums; no byte that it may READ has it. */
static const char *case_sum_key(void)
{
	static const struct sum_key none;
	const char *error = NULL;
	uint64_t at, bytes, overlap = KEY_PART_BYTES - 1;
	struct raw_peer p;

	raw_greet(&p);
	if (!memcmp(&p.welcome.sum_key, &none, sizeof(none)))
		error = "the welcome has no key";
	for (at = 0; !error && at + overlap < p.welcome.geometry.region_bytes;
	     at += bytes - overlap) {
		bytes = p.welcome.geometry.region_bytes - at;
		if (bytes > RAW_DATA_BYTES)
			bytes = RAW_DATA_BYTES;
		if (raw_rdma(&p, IBV_WR_RDMA_READ, p.welcome.region_addr + at, p.welcome.rkeys[0],
			     (uint32_t)bytes) ||
		    !raw_wait(&p, raw_is_rdma_done) || p.closed || p.status)
			raw_die("a READ of the region", EIO);
		if (has_key(raw_data(&p), bytes, &p.welcome.sum_key))
			error = "the key of the sums is in the region";
	}
	raw_close(&p);
	return error;
}

static const char *case_write(void)
{
	return write_fails(IBV_WR_RDMA_WRITE, 256);
}

static const char *case_write_imm(void)
{
	return write_fails(IBV_WR_RDMA_WRITE_WITH_IMM, 256);
}

static const char *case_compare_and_swap(void)
{
	return write_fails(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
}

static const char *case_fetch_and_add(void)
{
	return write_fails(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
}

/*
 * --- softnic's socket --------------------------------------------------------------------------
 */

static int socket_open(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", raw_url + strlen("softnic://"));
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		raw_die("the socket", errno);
	return fd;
}

#define SOCKETS 20

/* Garbage of all lengths instead of the handshake; the server may close, or wait for more. */
static const char *case_socket_garbage(void)
{
	uint64_t state = 4711;
	uint8_t bytes[2048];
	size_t i;
	int n, fd;

	for (n = 0; n < SOCKETS; n++) {
		for (i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random_next(&state);
		fd = socket_open();
		(void)!send(fd, bytes, 1 + (size_t)n * 100, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

static bool socket_closes(int fd)
{
	struct timeval limit = { .tv_sec = (time_t)(RAW_DEADLINE_NS / 1000000000) };
	char byte;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	while (recv(fd, &byte, 1, 0) > 0)
		;
	return errno != EAGAIN;
}

static const char *case_socket_garbage_held(void)
{
	uint8_t bytes[512];
	int fd = socket_open();
	bool closed;

	memset(bytes, 0x77, sizeof(bytes));
	(void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
	errno = 0;
	closed = socket_closes(fd);
	close(fd);
	return closed ? NULL : "the server kept the socket";
}

/*
 * --- the cases ---------------------------------------------------------------------------------
 */

#define REFUSED "connection refused: the client does not speak kvd's protocol"
#define REFUSED_ABI "connection refused: the client has protocol version 14 and the server 13"
#define EARLY "closed: a request before HELLO"
#define CHANGE "closed: a number of a change that is not the next one"
#define HELLO "closed: HELLO with values that the protocol does not allow"
#define ANY "-" /* the server need not log anything */

static const struct {
	const char *name, *device, *logged;
	const char *(*run)(void);
} cases[] = {
	{ "connect_empty", "any", REFUSED, case_connect_empty },
	/* InfiniBand pads it with zeros: then it is the ABI that is wrong. */
	{ "connect_short", "any", "connection refused: the client", case_connect_short },
	{ "connect_magic", "any", REFUSED, case_connect_magic },
	{ "connect_abi", "any", REFUSED_ABI, case_connect_abi },
	{ "connect_reserved", "any", "connection refused: the client's connect request",
	  case_connect_reserved },
	{ "connect_garbage", "any", REFUSED, case_connect_garbage },
	{ "connect_abort", "any", ANY, case_connect_abort },
	{ "silent", "any", "closed: no valid HELLO within server.handshake_timeout", case_silent },
	{ "early_get", "any", EARLY, case_early_get },
	{ "early_put", "any", EARLY, case_early_put },
	{ "early_stats", "any", EARLY, case_early_stats },
	{ "hello_magic", "any", HELLO, case_hello_magic },
	{ "hello_small", "any", HELLO, case_hello_small },
	{ "hello_large", "any", HELLO, case_hello_large },
	{ "hello_short", "any", "closed: HELLO of the wrong length", case_hello_short },
	{ "hello_no_number", "any", HELLO, case_hello_no_number },
	{ "hello_no_identity", "any", HELLO, case_hello_no_identity },
	{ "hello_left_out", "any", HELLO, case_hello_left_out },
	{ "hello_number_below", "any", "closed: HELLO with a number of changes that is below",
	  case_hello_number_below },
	{ "change_gap", "any", CHANGE, case_change_gap },
	{ "change_far", "any", CHANGE, case_change_far },
	{ "change_anonymous", "any", CHANGE, case_change_anonymous },
	{ "hello_twice", "any", HELLO, case_hello_twice },
	{ "hello_ping", "any", ANY, case_hello_ping },
	{ "hello_and_hello", "any", HELLO, case_hello_and_hello },
	{ "hello_abi_ping", "any", EARLY, case_hello_abi_ping },
	{ "hello_gone", "any", ANY, case_hello_gone },
	{ "hello_abi", "any", "closed: no valid HELLO within server.handshake_timeout",
	  case_hello_abi },
	{ "deaf", "any", "closed: .*(RNR|rnr|receiver not ready)", case_deaf },
	{ "op_0", "any", "closed: unknown operation", case_op_0 },
	{ "op_above_max", "any", "closed: unknown operation", case_op_above_max },
	{ "op_255", "any", "closed: unknown operation", case_op_255 },
	{ "flags", "any", "closed: unknown flag", case_flags },
	{ "change_of_get", "any", "closed: a number in an operation", case_change_of_get },
	{ "pull_get", "any", "closed: unknown flag", case_pull_get },
	{ "pull_addr", "any", "closed: arg_addr in an operation", case_pull_addr },
	{ "pull_rkey", "any", "closed: pull_rkey in an operation", case_pull_rkey },
	{ "mode_of_put", "any", "closed: mode out of range", case_mode_of_put },
	{ "mode_of_get", "any", "closed: mode out of range", case_mode_of_get },
	{ "number_of_set", "any", "closed: arg64 in an operation", case_number_of_set },
	{ "ttl_of_delete", "any", "closed: ttl in an operation", case_ttl_of_delete },
	{ "ttl_of_append", "any", "closed: ttl in an operation", case_ttl_of_append },
	{ "uses_of_scan", "special", "closed: a scan of uses, where", case_uses_of_scan },
	{ "prefix_1025", "any", "closed: key length", case_prefix_1025 },
	{ "access_none", "any", "closed: nothing reported", case_access_none },
	{ "access_many", "any", "closed: too many access records", case_access_many },
	{ "access_65535", "any", "closed: too many access records", case_access_65535 },
	{ "access_cut", "any", "closed: message length is not the sum", case_access_cut },
	{ "pull_empty", "any", "closed: pull of an empty value", case_pull_empty },
	{ "key_none", "any", "closed: key length", case_key_none },
	{ "key_1025", "any", "closed: key length", case_key_1025 },
	{ "key_65535", "any", "closed: key length", case_key_65535 },
	{ "key_cut", "any", "closed: message length is not the sum", case_key_cut },
	{ "key_surplus", "any", "closed: message length is not the sum", case_key_surplus },
	{ "key_of_ping", "any", "closed: key length", case_key_of_ping },
	{ "value_cut", "any", "closed: message length is not the sum", case_value_cut },
	{ "value_huge", "any", "closed: message length is not the sum", case_value_huge },
	{ "value_of_get", "any", "closed: value in an operation", case_value_of_get },
	{ "length_of_nothing", "any", "closed: arg32 in an operation", case_length_of_nothing },
	{ "oversized", "any", "closed: ", case_oversized },
	{ "bytes_0", "any", "closed: message shorter", case_bytes_0 },
	{ "bytes_1", "any", "closed: message shorter", case_bytes_1 },
	{ "bytes_31", "any", "closed: message shorter", case_bytes_31 },
	{ "random", "any", "closed: ", case_random },
	{ "flood", "any", "closed: ", case_flood },
	{ "flood_of_scans", "any", "closed: ", case_flood_of_scans },
	{ "flood_of_pulls", "any", "closed: ", case_flood_of_pulls },
	{ "batch_overrun", "any", "closed: batched request longer than", case_batch_overrun },
	{ "batch_many", "any", "closed: number of requests in a batch", case_batch_many },
	{ "batch_of_pulls", "any", "closed: operation that may not be", case_batch_of_pulls },
	{ "batch_in_batch", "any", "closed: operation that may not be", case_batch_in_batch },
	{ "window_of_scans", "any", ANY, case_window_of_scans },
	{ "window_told", "any", ANY, case_window_told },
	{ "window_exceeded", "any", "more requests outstanding than its window",
	  case_window_exceeded },
	{ "scans_left", "any", ANY, case_scans_left },
	{ "spares_left", "any", ANY, case_spares_left },
	{ "pull_wrong_rkey", "any", "closed: ", case_pull_wrong_rkey },
	{ "pull_beyond", "any", "closed: ", case_pull_beyond },
	{ "pull_wrap", "any", "closed: ", case_pull_wrap },
	{ "pull_half", "any", "closed: ", case_pull_half },
	{ "pull_too_large", "any", ANY, case_pull_too_large },
	{ "pull_twice", "any", ANY, case_pull_twice },
	{ "limbo_left", "any", ANY, case_limbo_left },
	{ "pin_left", "any", ANY, case_pin_left },
	{ "pull_never", "softnic", "closed: a large value was not read", case_pull_never },
	{ "pull_stalled", "special", "closed: the client served no READ of no bytes",
	  case_pull_never },
	{ "pull_hoard", "special", ANY, case_pull_hoard },
	{ "pull_stall", "special", ANY, case_pull_stall },
	{ "beside_stall", "special", ANY, case_beside_stall },
	{ "append_hoard", "special", ANY, case_append_hoard },
	{ "put_too_large", "special", ANY, case_put_too_large },
	{ "storm", "special", ANY, case_storm },
	{ "vanish", "special", "closed: (the client's device did not answer|transport retry)",
	  case_vanish },
	{ "die_in_pull", "special", ANY, case_die_in_pull },
	{ "stop_in_pull", "special", ANY, case_stop_in_pull },
	{ "read_early", "any", ANY, case_read_early },
	{ "read_before", "any", ANY, case_read_before },
	{ "read_across_start", "any", ANY, case_read_across_start },
	{ "read_across_end", "any", ANY, case_read_across_end },
	{ "read_beyond", "any", ANY, case_read_beyond },
	{ "read_wrap", "any", ANY, case_read_wrap },
	{ "read_wrong_rkey", "any", ANY, case_read_wrong_rkey },
	{ "read_zero_rkey", "any", ANY, case_read_zero_rkey },
	{ "sum_key", "any", ANY, case_sum_key },
	{ "write", "any", ANY, case_write },
	{ "write_imm", "any", ANY, case_write_imm },
	{ "compare_and_swap", "any", ANY, case_compare_and_swap },
	{ "fetch_and_add", "any", ANY, case_fetch_and_add },
	{ "socket_garbage", "softnic", ANY, case_socket_garbage },
	{ "socket_garbage_held", "softnic", ANY, case_socket_garbage_held },
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

/*
 * --- running them ------------------------------------------------------------------------------
 */

/*
 * The server logs at most 10 warnings of one kind in a second of its monotonic clock, and drops
 * others; a case would then wait for a line that never comes. So a case begins when there were few
 * warnings in the last second, however that second lies in the server's.
 */
#define WARNINGS_RECENT_MAX 4
#define RECENT_NS 1100000000ull
#define RECENT_BYTES 16384
#define LOG_BYTES_MAX (1u << 20)

static const char *log_path;

static long log_size(void)
{
	FILE *file = fopen(log_path, "r");
	long size;

	if (!file || fseek(file, 0, SEEK_END))
		raw_die(log_path, errno);
	size = ftell(file);
	fclose(file);
	return size;
}

/* Returns the log's text from @from on, in a static buffer. */
static const char *log_text(long from)
{
	static char text[LOG_BYTES_MAX + 1];
	FILE *file = fopen(log_path, "r");
	size_t n;

	if (!file || fseek(file, from, SEEK_SET))
		raw_die(log_path, errno);
	n = fread(text, 1, LOG_BYTES_MAX, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

#define LOG_TIME_LEN 23 /* like 2026-01-31T12:00:00.000, in UTC */

/* The time @before_ns ago as log lines begin with it. */
static void log_time(char *text, size_t size, uint64_t before_ns)
{
	struct timespec now;
	uint64_t ns;
	time_t seconds;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec - before_ns;
	seconds = (time_t)(ns / 1000000000ull);
	len = strftime(text, size, "%Y-%m-%dT%H:%M:%S", gmtime(&seconds));
	snprintf(text + len, size - len, ".%03u", (unsigned int)(ns / 1000000 % 1000));
}

/* The warnings in @text that are not older than @oldest. */
static unsigned int count_warnings(const char *text, const char *oldest)
{
	unsigned int lines = 0;

	for (; text && *text; text = strchr(text, '\n'), text = text ? text + 1 : NULL)
		lines += strncmp(text, oldest, LOG_TIME_LEN) >= 0 &&
			 strstr(text, "Z warn ") == text + LOG_TIME_LEN;
	return lines;
}

/* Waits until the server will log a warning again. @from: where to read the log. */
static void log_wait_for_room(long from)
{
	char oldest[32];

	do {
		log_time(oldest, sizeof(oldest), RECENT_NS);
	} while (count_warnings(log_text(from), oldest) > WARNINGS_RECENT_MAX && !usleep(20000));
}

/* Waits until a line after @from matches the pattern; false if the deadline passes first. */
static bool log_has(long from, const char *pattern)
{
	uint64_t end = clock_ns() + RAW_DEADLINE_NS;
	bool found;
	regex_t re;

	if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB | REG_NEWLINE))
		raw_die(pattern, EINVAL);
	do {
		found = !regexec(&re, log_text(from), 0, NULL, 0);
	} while (!found && clock_ns() < end && !usleep(10000));
	regfree(&re);
	return found;
}

static const char *good_client_works(void)
{
	static char text[400];
	struct kvd *db = good_client_open();
	struct kvd_item item = { 0 };
	enum kvd_status status;
	char value[16] = "";

	if (!db) {
		snprintf(text, sizeof(text), "a good client: %s", kvd_error(NULL));
		return text;
	}
	status = kvd_get(db, "precious", 8, value, sizeof(value), &item);
	snprintf(text, sizeof(text), "a good client: %s %s", kvd_status_text(status),
		 kvd_error(db));
	kvd_close(db);
	if (status)
		return text;
	return item.value_len == 6 && !memcmp(value, "intact", 6) ? NULL : "data is not intact";
}

/*
 * The key that cases write, and its value before the first one: after each it is put back, so that
 * only what leaked makes a difference.
 */
static char written[RAW_RECV_BYTES];
static size_t written_len;
static bool was_written;
/* Leaked memory does not come back: it is noted anew, and the next cases, which may leak more,
 * wait less. */
#define LEAKED_DEADLINE_NS 1000000000ull
static bool leaked;

static const char *written_restore(struct kvd *db)
{
	enum kvd_status status;

	if (was_written)
		status = kvd_put(db, WRITTEN, WRITTEN_LEN, written, written_len, NULL, NULL);
	else
		status = kvd_delete(db, WRITTEN, WRITTEN_LEN);
	return status == KVD_OK || status == KVD_NOT_FOUND ? NULL : "the key can't be put back";
}

/* Before the first case. */
static void note_all(void)
{
	struct kvd *db = good_client_open();
	struct kvd_item item = { 0 };

	if (!db)
		raw_die(kvd_error(NULL), 0);
	was_written = !kvd_get(db, WRITTEN, WRITTEN_LEN, written, sizeof(written), &item);
	written_len = item.value_len;
	if (!held_note(db, &held))
		raw_die("what the server holds", 0);
	kvd_close(db);
}

/* After each case. */
static const char *nothing_is_held(void)
{
	struct kvd *db = good_client_open();
	const char *error;

	if (!db)
		return "no good client can connect";
	error = written_restore(db);
	if (!error && !held_wait(db, &held, leaked ? LEAKED_DEADLINE_NS : RAW_DEADLINE_NS)) {
		error = "the server still holds something";
		leaked = true;
		(void)held_note(db, &held);
	}
	kvd_close(db);
	return error;
}

static bool run_case(size_t i)
{
	long from = log_size(), recent = from > RECENT_BYTES ? from - RECENT_BYTES : 0;
	const char *error;

	log_wait_for_room(recent);
	error = cases[i].run();
	if (!error && strcmp(cases[i].logged, ANY) && !log_has(from, cases[i].logged))
		error = "not logged within the deadline";
	if (!error)
		error = good_client_works();
	if (!error)
		error = nothing_is_held();
	printf("%s %s%s%s\n", error ? "FAIL " : "ok   ", cases[i].name, error ? ": " : "",
	       error ? error : "");
	if (error)
		printf("      | expected: %s; logged:\n%s", cases[i].logged, log_text(from));
	fflush(stdout);
	return !error;
}

/* "any" fits every device; a "special" case runs only by name, for a script that needs it. */
static bool fits(size_t i)
{
	const char *device = !strncmp(raw_url, "softnic:", 8) ? "softnic" : "verbs";

	return !strcmp(cases[i].device, "any") || !strcmp(cases[i].device, device);
}

static bool run_named(const char *name)
{
	bool found = false, good = true;
	size_t i;

	for (i = 0; i < CASES; i++) {
		if (strcmp(name, "all") ? strcmp(name, cases[i].name) : !fits(i))
			continue;
		found = true;
		good &= run_case(i);
	}
	if (!found)
		printf("FAIL  no case %s\n", name);
	return found && good;
}

int main(int argc, char **argv)
{
	bool good = true;
	int i;

	if (argc < 4) {
		fputs("usage: sys_rogue URL LOG all|CASE...\n", stderr);
		return 64;
	}
	raw_url = argv[1];
	log_path = argv[2];
	note_all();
	for (i = 3; i < argc; i++)
		good &= run_named(argv[i]);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
