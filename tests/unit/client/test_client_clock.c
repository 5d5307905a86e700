/* SPDX-License-Identifier: MIT */
/*
 * The server's clock as the client knows it (client/libkvd/clock.h), and GETs of items that expire:
 * a hit, "not found" and a request to the server, each only where it is right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "tests/support/fake_server.h"

#define S 1000000000ull
#define MS 1000000ull
#define US 1000ull

/* How far each clock of this host is set ahead: the program and libkvd in it see these. */
static struct {
	uint64_t mono_ns, raw_ns, boot_ns;
} ahead;

/*
 * Each reading moves all clocks on by this much, and nothing else does: a test that does not get
 * the CPU for some milliseconds sees none of that.
 */
#define READING_NS 20u
static uint64_t readings;

int clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t ns = 1000 * S + readings++ * READING_NS;

	ns += id == CLOCK_MONOTONIC	? ahead.mono_ns :
	      id == CLOCK_MONOTONIC_RAW ? ahead.raw_ns :
	      id == CLOCK_BOOTTIME	? ahead.boot_ns :
					  0;
	now->tv_sec = (time_t)(ns / S);
	now->tv_nsec = (long)(ns % S);
	return 0;
}

static void nothing_is_known_at_first(void **state)
{
	struct server_clock clock = { 0 };

	(void)state;
	assert_true(server_clock_low(&clock, 5) == 0);
	assert_true(server_clock_high(&clock, 5) == UINT64_MAX);
	assert_true(server_clock_width(&clock, 5) == UINT64_MAX);
	assert_int_equal(server_clock_judge(&clock, 1, 3, 5), EXPIRY_UNKNOWN);
}

static void a_response_bounds_it(void **state)
{
	struct server_clock clock = { 0 };

	(void)state;
	server_clock_learn(&clock, 500 * S, 100 * S, 100 * S + 10 * US);
	assert_true(server_clock_low(&clock, 100 * S + 10 * US) >= 500 * S - 1);
	assert_true(server_clock_low(&clock, 100 * S + 10 * US) <= 500 * S);
	assert_in_range(server_clock_high(&clock, 100 * S + 10 * US), 500 * S + 10 * US,
			500 * S + 10 * US + 100);
	/* A second later: a second, give or take two thousandths. */
	assert_in_range(server_clock_low(&clock, 101 * S), 500 * S + 997 * MS, 501 * S - 1999 * US);
	assert_in_range(server_clock_high(&clock, 101 * S), 501 * S + 2000 * US,
			501 * S + 2012 * US);
	assert_in_range(server_clock_width(&clock, 102 * S + 500 * MS), 10 * MS, 10 * MS + 20 * US);
	/* A second before. */
	assert_in_range(server_clock_low(&clock, 99 * S), 498 * S + 997 * MS, 499 * S - 2000 * US);
	assert_in_range(server_clock_high(&clock, 99 * S), 499 * S, 499 * S + 2012 * US);
}

/* With any allowed clock rates and any delays, the server's clock is inside the interval. */
static void the_truth_is_inside(void **state)
{
	static const int64_t rates[] = { -2000, -500, 0, 500, 1999 };
	uint64_t x = 88172645463325252, local, sent, at, server;
	struct server_clock clock;

	(void)state;
	for (unsigned int r = 0; r < 5; r++) {
		memset(&clock, 0, sizeof(clock));
		for (local = S; local < 100 * S;) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			sent = local;
			at = sent + x % (2 * MS);
			local = at + (x >> 24) % (2 * MS);
			server = (uint64_t)((__int128)at * (1000000 + rates[r]) / 1000000) + 7 * S;
			server_clock_learn(&clock, server, sent, local);
			assert_true(server_clock_width(&clock, local) <= 4 * MS + 10 * US);
			/* At any time before the next response. */
			at = local + (x >> 40) % (200 * MS);
			server = (uint64_t)((__int128)at * (1000000 + rates[r]) / 1000000) + 7 * S;
			assert_true(server_clock_low(&clock, at) <= server);
			assert_true(server_clock_high(&clock, at) >= server);
			local = at;
		}
	}
}

static void responses_narrow_each_other(void **state)
{
	struct server_clock clock = { 0 };
	uint64_t width;

	(void)state;
	server_clock_learn(&clock, 500 * S, 100 * S, 100 * S + 5 * US);
	width = server_clock_width(&clock, 100 * S + 1 * MS);
	/* A slow response right after: the interval before is narrower, and stays. */
	server_clock_learn(&clock, 500 * S + 500 * US, 100 * S + 5 * US, 100 * S + 1 * MS);
	assert_true(server_clock_width(&clock, 100 * S + 1 * MS) <= width + 4);
	/* After a minute the slow response gives the narrower one. */
	server_clock_learn(&clock, 560 * S + 500 * US, 160 * S, 160 * S + 1 * MS);
	assert_true(server_clock_width(&clock, 160 * S + 1 * MS) <= 1 * MS + 4 * US);
	/* A response that contradicts the interval replaces it: a clock stood still. */
	assert_false(server_clock_learn(&clock, 300 * S, 161 * S, 161 * S + 1 * US));
	assert_in_range(server_clock_low(&clock, 161 * S + 1 * US), 300 * S - 1, 300 * S);
	server_clock_learn(&clock, 900 * S, 162 * S, 162 * S + 1 * US);
	assert_in_range(server_clock_low(&clock, 162 * S + 1 * US), 900 * S - 1, 900 * S);
	/* One too wide to be used does not narrow the next, or a stop of the past would last. */
	assert_true(server_clock_learn(&clock, 1900 * S + 900 * MS, 1162 * S, 1162 * S + 1 * MS));
	assert_in_range(server_clock_low(&clock, 1162 * S + 1 * MS), 1900 * S + 900 * MS - 1,
			1900 * S + 900 * MS);
}

static void extremes_do_not_wrap(void **state)
{
	struct server_clock clock = { 0 };

	(void)state;
	server_clock_learn(&clock, UINT64_MAX, 1, 5);
	assert_true(server_clock_high(&clock, 10) == UINT64_MAX);
	assert_true(server_clock_low(&clock, 10) > UINT64_MAX / 2);
	server_clock_learn(&clock, 0, 5, 6);
	assert_true(server_clock_low(&clock, 1) == 0);
	assert_int_equal(server_clock_judge(&clock, UINT32_MAX, 0, 7), EXPIRY_VALID);
}

/* Low is 499.9..., high 500.01 s at 100 s. */
static void judgements(void **state)
{
	const struct server_clock clock = {
		.low_ns = 500 * S,
		.high_ns = 500 * S + 10 * MS,
		.at_ns = 100 * S,
		.known = true,
	};

	(void)state;
	assert_int_equal(server_clock_judge(&clock, 501, 0, 100 * S), EXPIRY_VALID);
	assert_int_equal(server_clock_judge(&clock, 501, 99 * S, 100 * S + 985 * MS), EXPIRY_VALID);
	assert_int_equal(server_clock_judge(&clock, 501, 0, 100 * S + 995 * MS), EXPIRY_UNKNOWN);
	assert_int_equal(server_clock_judge(&clock, 501, 0, 101 * S + 3 * MS), EXPIRY_REREAD);
	/* The READ may have been before the item expired. */
	assert_int_equal(server_clock_judge(&clock, 501, 101 * S, 101 * S + 3 * MS), EXPIRY_REREAD);
	assert_int_equal(server_clock_judge(&clock, 501, 101 * S + 3 * MS, 101 * S + 4 * MS),
			 EXPIRY_EXPIRED);
}

static struct fake_server *server;
static struct kvd *kvd;
static uint8_t found[256];
static uint64_t key = 7;
static unsigned int seen;

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(2, 1, 0, 0, NULL);
	kvd = &server->kvd;
	seen = 0;
	memset(&ahead, 0, sizeof(ahead));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static void assert_get(enum kvd_status status)
{
	struct kvd_item item = { 0 };

	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), &item), status);
	if (!status)
		assert_int_equal(item.expires_s, fake_server_item(server, key)->expires);
}

/* As if the server's clock were @from to @to nanoseconds from the item's expiry time. */
static void know(int64_t from, int64_t to)
{
	uint64_t expires = fake_server_item(server, key)->expires * S;

	kvd->clock = (struct server_clock){
		.low_ns = expires + (uint64_t)from,
		.high_ns = expires + (uint64_t)to,
		.at_ns = clock_raw_ns(),
		.slept_ns = kvd->clock.slept_ns,
		.known = true,
	};
}

static void what_never_expires_needs_no_clock(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, 0);
	assert_get(KVD_OK);
	assert_int_equal(server->requests, 0);
	assert_false(kvd->clock.known);
}

static void the_clock_is_requested_once(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 1000);
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 1);
	assert_int_equal(server->pings, 1);
	assert_int_equal(kvd->stats.reads, 3);
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 1);
	assert_int_equal(kvd->stats.reads, 4);
	assert_true(kvd->clock.known);
	/* Three seconds without a response: 12 ms are too wide. Another handle knows better. */
	kvd->clock.at_ns -= 3 * S;
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 1);
	kvd->clock.at_ns -= 3 * S;
	kvd->server->clock.at_ns -= 3 * S;
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 2);
	/* The response to any request narrows it. */
	kvd->clock.at_ns -= 3 * S;
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 2);
	assert_int_equal(kvd->stats.fallbacks, 0);
}

static void before_expiry_it_is_a_hit(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 5);
	know(-(int64_t)(2 * S), -(int64_t)(2 * S) + 1000);
	assert_get(KVD_OK);
	assert_int_equal(server->requests, 0);
	assert_int_equal(kvd->stats.expired, 0);
}

/* A hit, READ again: the first READ may have been before it expired. */
static void after_expiry_it_is_a_miss(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 5);
	know(1000, 2000);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.expired, 1);
	assert_int_equal(kvd->stats.misses, 1);
	assert_int_equal(kvd->stats.reads, 3);
	assert_int_equal(server->requests, 0);
	/* Cached by now. */
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.reads, 5);
}

static void in_between_the_server_is_asked(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 5);
	know(-(int64_t)(4 * MS), 4 * MS);
	assert_get(KVD_OK);
	assert_int_equal(server->gets, 1);
	assert_int_equal(kvd->stats.fallbacks, 1);
	server->clock_ns += 5 * S;
	know(-(int64_t)(4 * MS), 4 * MS);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(server->gets, 2);
	assert_int_equal(kvd->stats.clock_asks, 0);
}

/* Replaced before it expired, right after it was READ: the key was never absent. */
static void replace_after_item(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)to;
	if (bytes == BUCKET_BYTES || seen++)
		return;
	p->after_read = NULL;
	fake_server_put(p, key, 30, 0);
	(void)offset;
}

static void a_miss_is_not_made_of_an_old_read(void **state)
{
	struct kvd_item item;

	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 5);
	know(1000, 2000);
	server->after_read = replace_after_item;
	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), &item), KVD_OK);
	assert_int_equal(item.value_len, 30);
	assert_int_equal(item.expires_s, 0);
}

/* Each time it is READ it has just expired: the tries are bounded. */
static void ever_expiring(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	struct item *item = (struct item *)(void *)to;
	uint64_t now;

	if (bytes == BUCKET_BYTES)
		return;
	seen++;
	fake_server_item(p, key)->expires += 3;
	fake_server_seal(p, key);
	*item = *fake_server_item(p, key);
	now = item->expires * S;
	kvd->clock = (struct server_clock){ now, now + 1000, clock_raw_ns(), kvd->clock.slept_ns,
					    true };
	(void)offset;
}

static void reading_again_ends(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 5);
	server->after_read = ever_expiring;
	assert_int_equal(kvd_get(kvd, &key, 8, found, sizeof(found), NULL), KVD_OK);
	assert_int_equal(server->gets, 1);
	assert_int_equal(seen, kvd->options.get_tries);
}

/* On a network so slow that a PING narrows nothing, it is sent only once. */
static void a_response_that_is_too_slow(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 100);
	know(-(int64_t)(100 * S), -(int64_t)(50 * S));
	server->clock_ns = 0;
	kvd->clock.at_ns = clock_raw_ns();
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 1);
}

static void refuse_ping(struct fake_server *p, struct wire_response *response)
{
	if (response->op == WIRE_PING)
		response->status = WIRE_BUSY;
	(void)p;
}

/* A server that refuses the request for its clock has told it. */
static void a_refusal_has_the_clock(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 100);
	server->before_response = refuse_ping;
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 1);
	assert_int_equal(server->pings, 1);
	assert_string_equal(kvd_error(kvd), "");
	assert_int_equal(kvd_ping(kvd), KVD_ERR_BUSY);
}

static void break_ping(struct fake_server *p, struct wire_response *response)
{
	if (response->op == WIRE_PING)
		response->status = WIRE_PROTOCOL;
	(void)p;
}

/* Any other refusal is one of the connection. */
static void a_failure_has_no_clock(void **state)
{
	(void)state;
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 100);
	server->before_response = break_ping;
	assert_get(KVD_ERR_PROTOCOL);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
}

/* One that comes while the request for the clock is outstanding waits for the same answer. */
static void one_more_waits_for_the_clock(void **state)
{
	struct kvd_op ops[2], *list[] = { &ops[0], &ops[1] }, *done[2];
	uint64_t keys[] = { 7, 8 };
	unsigned int i;

	(void)state;
	kvd->conn.window = server->welcome.window = 4;
	server->hold_all = true;
	for (i = 0; i < 2; i++) {
		fake_server_put(server, keys[i], 20, FAKE_SERVER_CLOCK_S + 100);
		kvd_prep_get(&ops[i], &keys[i], 8, found + 100 * i, 100);
		assert_int_equal(kvd_submit(kvd, list + i, 1), KVD_OK);
		assert_int_equal(kvd_poll(kvd, done, 2), 0);
		assert_int_equal(kvd_poll(kvd, done, 2), 0);
	}
	assert_int_equal(server->pings, 1);
	server->hold_all = false;
	fake_server_answer(server, 1);
	assert_int_equal(kvd_wait(kvd, done, 2, 2, FAKE_TIMEOUT_MS), 2);
	for (i = 0; i < 2; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 1);
	assert_int_equal(server->pings, 1);
}

/* What expires counts for large values as for others. */
static void large_values_expire(void **state)
{
	static uint8_t large[100000];

	(void)state;
	fake_server_put(server, key, sizeof(large), FAKE_SERVER_CLOCK_S + 100);
	assert_int_equal(kvd_get(kvd, &key, 8, large, sizeof(large), NULL), KVD_OK);
	assert_int_equal(large[sizeof(large) - 1], 7);
	assert_int_equal(kvd->stats.clock_asks, 1);
	know(S, S + 1000);
	assert_int_equal(kvd_get(kvd, &key, 8, large, sizeof(large), NULL), KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.expired, 1);
	assert_int_equal(kvd->stats.fallbacks, 0);
}

static void many_ask_once(void **state)
{
	static struct kvd_get_request list[GETS_MAX];
	static uint64_t keys[GETS_MAX];
	static uint8_t values[GETS_MAX][32];

	(void)state;
	for (unsigned int i = 0; i < GETS_MAX; i++) {
		keys[i] = i;
		fake_server_put(server, i, 20, FAKE_SERVER_CLOCK_S + (i % 2 ? 100 : 0));
		list[i] =
			(struct kvd_get_request){ &keys[i], 8, values[i], 32, KVD_ERR_BUSY, { 0 } };
	}
	assert_int_equal(kvd_get_many(kvd, list, GETS_MAX), KVD_OK);
	for (unsigned int i = 0; i < GETS_MAX; i++)
		assert_int_equal(list[i].status, i % 2 ? KVD_OK : KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.clock_asks, 1);
	assert_int_equal(kvd->stats.expired, GETS_MAX / 2);
}

/* An item that lives for two seconds, and one response: the client knows the server's clock. */
static void put_for_two_seconds(void)
{
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 2);
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 1);
}

/* Time passes: for the server, and on this host's clocks. */
static void pass(uint64_t server_ns, uint64_t raw_ns, uint64_t mono_ns, uint64_t boot_ns)
{
	server->clock_ns += server_ns;
	ahead.raw_ns += raw_ns;
	ahead.mono_ns += mono_ns;
	ahead.boot_ns += boot_ns;
}

static uint64_t shown_error_ns(void)
{
	struct kvd_info info;

	kvd_info(kvd, &info);
	return info.clock_error_ns;
}

static uint64_t response_took_ns;

static void take_time(struct fake_server *p, struct wire_response *response)
{
	(void)p, (void)response;
	pass(response_took_ns, response_took_ns, response_took_ns, response_took_ns);
}

/*
 * kvd_info.clock_error_ns: the round trip of the last response, plus 0.4 % of the time since;
 * without a response nothing is known. Readings of the clock take some of the time themselves.
 */
static void the_error_that_is_shown(void **state)
{
	static const uint64_t took_ns[] = { 10 * US, MS, 30 * MS };
	static const uint64_t since_ns[] = { 0, MS, S, 2 * S, 1000 * S };
	uint64_t want, error;
	size_t t, s;

	for (t = 0; t < 3; t++)
		for (s = 0; s < 5; s++) {
			if (t + s && teardown(state) + setup(state))
				fail();
			assert_true(shown_error_ns() == UINT64_MAX);
			response_took_ns = took_ns[t];
			server->before_response = take_time;
			assert_int_equal(kvd_ping(kvd), KVD_OK);
			pass(since_ns[s], since_ns[s], since_ns[s], since_ns[s]);
			want = took_ns[t] + took_ns[t] / 500 + since_ns[s] / 250;
			error = shown_error_ns();
			if (error < want || error > want + US)
				fail_msg("%llu after %llu: %llu, not %llu",
					 (unsigned long long)took_ns[t],
					 (unsigned long long)since_ns[s], (unsigned long long)error,
					 (unsigned long long)want);
		}
}

/* NTP slews this host's clock by as much as the kernel lets it, in either direction. */
static void slewing_does_not_matter(void **state)
{
	(void)state;
	put_for_two_seconds();
	pass(1990 * MS, 1990 * MS, 2189 * MS, 2189 * MS);
	assert_get(KVD_OK);
	pass(20 * MS, 20 * MS, 0, 0);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.clock_asks, 1);
	assert_int_equal(kvd->stats.fallbacks, 0);
	assert_int_equal(kvd->stats.clock_jumps, 0);
	fake_server_put(server, key, 20, FAKE_SERVER_CLOCK_S + 4);
	pass(1980 * MS, 1980 * MS, 1782 * MS, 1782 * MS);
	pass(20 * MS, 20 * MS, 0, 0);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.clock_jumps, 0);
}

/* This host is suspended: it sees that, and asks before it believes its clock. */
static void a_suspended_client_asks(void **state)
{
	(void)state;
	put_for_two_seconds();
	pass(3 * S, 0, 0, 3 * S);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.clock_asks, 2);
	assert_int_equal(kvd->stats.clock_jumps, 1);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.clock_asks, 2);
}

/*
 * A virtual machine is stopped and its clocks with it: nothing tells. libkvd(3) says that the item
 * may be returned as much later as the stop was long, until the next response, or for 2.5 s.
 */
static void a_stopped_client_is_late(void **state)
{
	(void)state;
	put_for_two_seconds();
	pass(3 * S, 0, 0, 0);
	assert_get(KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd->stats.clock_jumps, 1);
	assert_get(KVD_NOT_FOUND);
	assert_get(KVD_NOT_FOUND);
}

static void a_stopped_client_asks_after_a_while(void **state)
{
	(void)state;
	put_for_two_seconds();
	fake_server_item(server, key)->expires = FAKE_SERVER_CLOCK_S + 20;
	fake_server_seal(server, key);
	pass(30 * S, 0, 0, 0);
	pass(2600 * MS, 2600 * MS, 2600 * MS, 2600 * MS);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd->stats.clock_asks, 2);
	assert_int_equal(kvd->stats.clock_jumps, 1);
}

/* The server is stopped: the item may be missed as much too early, until the next response. */
static void a_stopped_server_is_early(void **state)
{
	(void)state;
	put_for_two_seconds();
	pass(0, 2200 * MS, 2200 * MS, 2200 * MS);
	assert_get(KVD_NOT_FOUND);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(kvd->stats.clock_jumps, 1);
	assert_get(KVD_OK);
	pass(0, 2600 * MS, 2600 * MS, 2600 * MS);
	assert_get(KVD_OK);
	assert_int_equal(kvd->stats.clock_asks, 2);
	assert_int_equal(kvd->stats.clock_jumps, 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_at_first),
		cmocka_unit_test(a_response_bounds_it),
		cmocka_unit_test(the_truth_is_inside),
		cmocka_unit_test(responses_narrow_each_other),
		cmocka_unit_test(extremes_do_not_wrap),
		cmocka_unit_test(judgements),
		CASE(what_never_expires_needs_no_clock),
		CASE(the_clock_is_requested_once),
		CASE(before_expiry_it_is_a_hit),
		CASE(after_expiry_it_is_a_miss),
		CASE(in_between_the_server_is_asked),
		CASE(a_miss_is_not_made_of_an_old_read),
		CASE(reading_again_ends),
		CASE(a_response_that_is_too_slow),
		CASE(a_refusal_has_the_clock),
		CASE(a_failure_has_no_clock),
		CASE(one_more_waits_for_the_clock),
		CASE(large_values_expire),
		CASE(many_ask_once),
		CASE(the_error_that_is_shown),
		CASE(slewing_does_not_matter),
		CASE(a_suspended_client_asks),
		CASE(a_stopped_client_is_late),
		CASE(a_stopped_client_asks_after_a_while),
		CASE(a_stopped_server_is_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
