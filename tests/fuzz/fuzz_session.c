/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of sessions of memcached's protocol (server/memcached/sockets.c and all below it), on
 * a store in memory. For each input the worker comes to rest, answers are of the protocol, and
 * nothing is left of a session that has ended. However the bytes of a single session are cut, its
 * answers are those to the bytes as a whole.
 *
 * The input: a byte of options, the number of steps, the steps, and what the clients send. A byte
 * 0xfe there begins the second client's, and 0xff with N stands for N KiB of a value. A step has an
 * operation in its low bits, enum step, and an argument above them. After the last one the clients
 * send what is left in pieces, read all answers, and end their input.
 */
#include <errno.h>
#include <sys/socket.h>

#include "common/util/clock.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/session_fixture.h"
#include "tests/support/test_clock.h"
#include "tests/support/worker_fixture.h"

#define REGION_BYTES (4u << 20)
#define VALUE_MAX_BYTES (192u << 10)
#define SHARE_BYTES (256u << 10) /* of large values that come in, and of those that go out */
#define INPUT_MAX 8192
#define SENT_MAX (1u << 20)  /* by each client */
#define TAKEN_MAX (4u << 20) /* a client that gets more closes its connection */
#define FILLER_BYTES (255u << 10)
#define WORD_MAX 100 /* with a part of a filler it is no key that is too long */
#define TAKE_BYTES (64u << 10)
#define TURNS_MAX 100000
#define PIECES_MAX 4096
#define SECOND_NS 1000000000ull
#define NOW_NS 1800000000500000000ull /* in the middle of a second */
#define NARROW_BYTES 4096
#define VERSION_FIRST 1000000u

enum option { OPTION_LOCKED = 1, OPTION_NARROW = 2, OPTION_LONG_KEYS = 4, OPTION_PIECE_SHIFT = 3 };

/* The argument has STEP_ARG_BITS. */
enum step {
	STEP_SEND,   /* a piece, by the first client */
	STEP_SEND_2, /* by the second one */
	STEP_TURNS,
	STEP_READ, /* the first client takes answers */
	STEP_READ_2,
	STEP_REST,
	STEP_ANSWER, /* the control thread and the maintenance thread do what was asked for */
	STEP_OTHER,
};

#define STEP_MASK 7
#define STEP_SHIFT 3

enum other {
	OTHER_CLOSE,
	OTHER_CLOSE_2,
	OTHER_CUT,
	OTHER_CUT_2,
	OTHER_SHUT,
	OTHER_SHUT_2,
	OTHER_SECOND_PASSES,
	OTHER_HOURS_PASS,
	OTHER_TIME_PASSES, /* from here on: the argument in us */
};

struct side {
	uint8_t *sent; /* what it sends */
	size_t at, len, sent_room;
	bool long_word; /* a key may be too long */
	bool shut;	/* it sends no more */
	bool whole;	/* it has taken its answers to their end */
	uint8_t *answers;
	size_t answers_len, answers_room;
};

struct run {
	uint8_t options;
	const uint8_t *steps;
	size_t step_count;
	unsigned int sides_count;
	struct side sides[TEST_SESSIONS];
	bool disturbed; /* answers depend on more than what was sent */
};

/* Stands still: absolute times of expiry mean the same in each run. */
time_t time(time_t *to)
{
	time_t now = (time_t)(NOW_NS / SECOND_NS);

	if (to)
		*to = now;
	return now;
}

static size_t piece_bytes(unsigned int arg)
{
	return arg < 16 ? arg + 1 : (size_t)1 << (arg - 11);
}

/* What 0xff stands for; with spaces, so that no key is too long: is_definite(). */
static uint8_t filler[FILLER_BYTES];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	for (size_t i = 0; i < FILLER_BYTES; i++)
		filler[i] = i % 61 == 60 ? ' ' : (uint8_t)('a' + (i * 7 + i / 61) % 26);
	return 0;
}

static void buffer_grow(uint8_t **bytes, size_t *room, size_t wanted)
{
	if (wanted <= *room)
		return;
	*room = 2 * wanted;
	*bytes = realloc(*bytes, *room);
	must(*bytes);
}

static const uint8_t *side_read(struct side *side, const uint8_t *at, const uint8_t *end)
{
	size_t bytes, token = 0;

	buffer_grow(&side->sent, &side->sent_room, 1);
	buffer_grow(&side->answers, &side->answers_room, 1);
	while (at < end && *at != 0xfe) {
		bool fills = *at == 0xff && end - at > 1;

		bytes = fills ? (size_t)at[1] << 10 : 1;
		if (side->len + bytes > SENT_MAX)
			return end;
		buffer_grow(&side->sent, &side->sent_room, side->len + bytes);
		memcpy(side->sent + side->len, fills ? filler : at, bytes);
		token = *at == ' ' || *at == '\n' || fills ? 0 : token + 1;
		side->long_word |= token > WORD_MAX;
		side->len += bytes;
		at += fills ? 2 : 1;
	}
	return at < end ? at + 1 : end;
}

/* False: it is no input. */
static bool run_read(struct run *run, const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size, *at;

	memset(run, 0, sizeof(*run));
	if (size < 2 || size > INPUT_MAX)
		return false;
	run->options = data[0];
	run->step_count = data[1] < size - 2 ? data[1] : size - 2;
	run->steps = data + 2;
	at = data + 2 + run->step_count;
	while (run->sides_count < TEST_SESSIONS && (at < end || !run->sides_count))
		at = side_read(&run->sides[run->sides_count++], at, end);
	return true;
}

static void run_free(struct run *run)
{
	for (unsigned int i = 0; i < run->sides_count; i++) {
		free(run->sides[i].sent);
		free(run->sides[i].answers);
	}
}

static void side_send(struct run *run, unsigned int i, size_t bytes)
{
	struct side *side = &run->sides[i];
	ssize_t n;

	if (i >= run->sides_count || side->shut || test_sessions[i].fd < 0)
		return;
	if (bytes > side->len - side->at)
		bytes = side->len - side->at;
	n = send(test_sessions[i].fd, side->sent + side->at, bytes, MSG_NOSIGNAL);
	must(n >= 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
	if (n >= 0)
		side->at += (size_t)n;
	else if (errno != EAGAIN)
		side->shut = true;
}

static void side_close(struct run *run, unsigned int i)
{
	test_session_close(i);
	run->disturbed = true;
}

/* False: nothing has come. */
static bool side_take(struct run *run, unsigned int i, size_t bytes)
{
	struct side *side = &run->sides[i];
	ssize_t n;

	if (i >= run->sides_count || side->whole || test_sessions[i].fd < 0)
		return false;
	if (bytes > TAKE_BYTES)
		bytes = TAKE_BYTES;
	buffer_grow(&side->answers, &side->answers_room, side->answers_len + bytes);
	n = recv(test_sessions[i].fd, side->answers + side->answers_len, bytes, 0);
	if (n < 0 && errno == EAGAIN)
		return false;
	/* The session has ended before it took all that was sent. */
	must(n >= 0 || errno == ECONNRESET);
	if (n <= 0)
		side->whole = true;
	else
		side->answers_len += (size_t)n;
	if (side->answers_len > TAKEN_MAX)
		side_close(run, i);
	return n > 0;
}

static void side_shut(struct run *run, unsigned int i)
{
	if (i >= run->sides_count || test_sessions[i].fd < 0)
		return;
	run->sides[i].shut = true;
	shutdown(test_sessions[i].fd, SHUT_WR);
}

static void others_answer(void)
{
	test_sessions_answer();
	if (!test_sessions_flushing())
		return;
	/* So that the flush may begin, and that its end is looked for. */
	test_clock_pass(2 * FLUSH_NS_MIN);
	test_sessions_flush();
	test_clock_pass(2 * FLUSH_NS_MIN);
}

static void step_other(struct run *run, unsigned int arg)
{
	unsigned int i = arg & 1;

	if (arg < OTHER_SECOND_PASSES && i >= run->sides_count)
		return;
	switch (arg) {
	case OTHER_CLOSE:
	case OTHER_CLOSE_2:
		side_close(run, i);
		break;
	case OTHER_CUT:
	case OTHER_CUT_2:
		test_session_cut(i);
		run->disturbed = true;
		break;
	case OTHER_SHUT:
	case OTHER_SHUT_2:
		side_shut(run, i);
		run->disturbed = true;
		break;
	case OTHER_SECOND_PASSES:
		test_clock_pass(SECOND_NS);
		break;
	case OTHER_HOURS_PASS:
		test_clock_pass(7200 * SECOND_NS);
		break;
	default:
		test_clock_pass(arg * 1000);
		break;
	}
}

static void step(struct run *run, uint8_t byte)
{
	unsigned int arg = byte >> STEP_SHIFT;

	switch ((enum step)(byte & STEP_MASK)) {
	case STEP_SEND:
	case STEP_SEND_2:
		side_send(run, (byte & STEP_MASK) == STEP_SEND_2, piece_bytes(arg));
		test_sessions_turn();
		break;
	case STEP_TURNS:
		for (unsigned int i = 0; i <= arg; i++)
			test_sessions_turn();
		break;
	case STEP_READ:
	case STEP_READ_2:
		side_take(run, (byte & STEP_MASK) == STEP_READ_2, piece_bytes(arg));
		break;
	case STEP_REST:
		test_sessions_rest(TURNS_MAX);
		break;
	case STEP_ANSWER:
		others_answer();
		break;
	case STEP_OTHER:
		step_other(run, arg);
		break;
	}
}

static bool any_left(void)
{
	for (unsigned int i = 0; i < TEST_SESSIONS; i++)
		if (test_sessions[i].session)
			return true;
	return false;
}

/* Clients send what is left, in pieces, take all answers, and end. */
static void run_end(struct run *run)
{
	size_t piece = piece_bytes(run->options >> OPTION_PIECE_SHIFT);
	unsigned int tries = 0;

	while (any_left()) {
		for (unsigned int i = 0; i < run->sides_count; i++) {
			struct side *side = &run->sides[i];

			side_send(run, i,
				  piece > side->len / PIECES_MAX ? piece : side->len / PIECES_MAX);
			if (side->at == side->len && !side->shut)
				side_shut(run, i);
		}
		test_sessions_rest(TURNS_MAX);
		others_answer();
		for (unsigned int i = 0; i < run->sides_count; i++)
			while (side_take(run, i, TAKE_BYTES))
				;
		must(++tries < TURNS_MAX);
	}
	for (unsigned int i = 0; i < run->sides_count; i++)
		while (side_take(run, i, TAKE_BYTES))
			;
}

/* Items get the same versions in each run. */
static void versions_set(void)
{
	for (unsigned int i = 0; i < test_store.table.thread_count; i++) {
		test_store.table.threads[i]->clock = VERSION_FIRST;
		test_store.table.threads[i]->id = (uint8_t)i;
	}
}

/* Runs all; returns the second in which that ended. */
static uint64_t run_all(struct run *run)
{
	uint64_t second;

	test_sessions_create(REGION_BYTES, VALUE_MAX_BYTES, SHARE_BYTES, SHARE_BYTES);
	versions_set();
	test_clock_stop();
	test_store.table.clock_base = NOW_NS - clock_raw_ns();
	store_thread_clock(&test_worker.part.thread);
	for (unsigned int i = 0; i < run->sides_count; i++)
		test_session_open(i, run->options & OPTION_LONG_KEYS ? KEY_MAX : 250,
				  run->options & OPTION_LOCKED,
				  run->options & OPTION_NARROW ? NARROW_BYTES : 0);
	for (size_t i = 0; i < run->step_count; i++)
		step(run, run->steps[i]);
	run_end(run);
	second = store_clock_ns(&test_store) / SECOND_NS;
	test_clock_start();
	test_sessions_destroy();
	return second;
}

static bool text_is(const uint8_t *at, size_t len, const char *text)
{
	return len == strlen(text) && !memcmp(at, text, len);
}

static bool text_begins(const uint8_t *at, size_t len, const char *text)
{
	return len >= strlen(text) && !memcmp(at, text, strlen(text));
}

/* The number that is word @n of the line, and must be one. */
static uint64_t word_number(const uint8_t *at, size_t len, unsigned int n)
{
	const uint8_t *end = at + len;
	uint64_t number = 0;

	for (; n; n--) {
		at = memchr(at, ' ', (size_t)(end - at));
		must(at);
		at++;
	}
	must(at < end && *at >= '0' && *at <= '9');
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		number = number * 10 + *at - '0';
	must(at == end || *at == ' ');
	return number;
}

/* Whether the line is one that answers a command, and has no value. */
static bool line_is_answer(const uint8_t *at, size_t len)
{
	static const char *const lines[] = {
		"STORED",  "NOT_STORED", "EXISTS", "NOT_FOUND",
		"DELETED", "TOUCHED",	 "END",	   "OK",
		"MN",	   "EN",	 "ERROR",  "ERROR: shutdown not enabled",
	};
	/* Flags of the answer to a meta command may follow. */
	static const char *const codes[] = { "HD", "EN", "NF", "NS", "EX" };
	static const char *const begins[] = { "CLIENT_ERROR ", "SERVER_ERROR ", "VERSION ", "STAT ",
					      "ME " };
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (text_is(at, len, lines[i]))
			return true;
	for (i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (text_begins(at, len, codes[i]) && (len == 2 || at[2] == ' '))
			return true;
	for (i = 0; i < sizeof(begins) / sizeof(*begins); i++)
		if (text_begins(at, len, begins[i]))
			return true;
	for (i = 0; i < len && at[i] >= '0' && at[i] <= '9'; i++)
		;
	return len && i == len;
}

/* All answers are of the protocol; the last one may be cut off, unless they are @whole. */
static void answers_check(const uint8_t *at, size_t len, bool whole)
{
	const uint8_t *end = at + len, *newline;
	uint64_t value_len;
	size_t line_len;
	bool value;

	while (at < end) {
		newline = memchr(at, '\n', (size_t)(end - at));
		if (!newline)
			break;
		must(newline > at && newline[-1] == '\r');
		line_len = (size_t)(newline - 1 - at);
		value = true;
		if (text_begins(at, line_len, "VALUE "))
			value_len = word_number(at, line_len, 3);
		else if (text_begins(at, line_len, "VA "))
			value_len = word_number(at, line_len, 1);
		else
			value = false;
		must(value || line_is_answer(at, line_len));
		at = newline + 1;
		if (!value)
			continue;
		if ((uint64_t)(end - at) < value_len + 2)
			break;
		at += value_len;
		must(!memcmp(at, "\r\n", 2));
		at += 2;
	}
	must(at == end || !whole);
}

/*
 * Whether the answers depend on nothing but the bytes that were sent: there was memory for all, and
 * no key is too long, for which a line of keys loses those answers that were not sent before.
 */
static bool is_definite(const struct run *run, uint64_t second)
{
	const struct side *side = &run->sides[0];
	const char *full = "SERVER_ERROR out of memory";

	if (run->disturbed || run->sides_count > 1 || second != NOW_NS / SECOND_NS)
		return false;
	return !side->long_word && !memmem(side->answers, side->answers_len, full, strlen(full));
}

static void answers_compare(const struct run *cut, const uint8_t *data, size_t size)
{
	struct run whole;

	must(run_read(&whole, data, size));
	whole.step_count = 0;
	whole.options |= 31 << OPTION_PIECE_SHIFT;
	whole.options &= (uint8_t)~OPTION_NARROW;
	if (is_definite(&whole, run_all(&whole))) {
		must(whole.sides[0].answers_len == cut->sides[0].answers_len);
		must(!memcmp(whole.sides[0].answers, cut->sides[0].answers,
			     whole.sides[0].answers_len));
	}
	run_free(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run run;
	uint64_t second;

	if (!run_read(&run, data, size))
		return 0;
	second = run_all(&run);
	for (unsigned int i = 0; i < run.sides_count; i++)
		answers_check(run.sides[i].answers, run.sides[i].answers_len,
			      run.sides[i].whole && !run.disturbed);
	if (is_definite(&run, second))
		answers_compare(&run, data, size);
	run_free(&run);
	return 0;
}
