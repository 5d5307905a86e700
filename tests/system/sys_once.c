/* SPDX-License-Identifier: MIT */
/*
 * Clients that send changes again, for tests/system/once.sh. They speak the protocol by the device
 * interface, so that they can end a connection wherever they like.
 *
 *	sys_once URL cut KEY			connections that are cut between change and answer
 *	sys_once URL takeover KEY		a new connection while the old one's pull goes on
 *	sys_once URL twins			many connections with one identity, at once
 *	sys_once URL leave NAME COUNT		one change of client NAME; then as many other clients
 *	sys_once URL return NAME HOW RESULT	NAME comes back: HOW is known or unknown; its next
 *						change has this result
 *	sys_once URL hold NAME			one change of NAME, which stays connected until killed
 *	sys_once URL wait NAME			NAME's next connection, which stays until killed, too
 *	sys_once URL without			a server that has no room for identities
 *
 * Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/wire.h"
#include "tests/support/raw_peer.h"

#define CUTS 150
#define AT_ONCE 3
#define MESSAGE_BYTES 1024 /* of a message's place in the send buffer */
#define PULL_BYTES (256u << 10)
#define TWINS 20

static struct wire_hello hello_of(const char *name, uint64_t change_next)
{
	struct wire_hello hello = raw_good_hello;

	memcpy(hello.identity, name, strnlen(name, sizeof(hello.identity)));
	hello.change_next = change_next;
	return hello;
}

/* Sends a request with the key, and a value if there is one, from the place of number @n. */
static void send_change(struct raw_peer *p, struct wire_request head, uint64_t n, const char *key,
			const char *value)
{
	size_t at = n % AT_ONCE * MESSAGE_BYTES, value_len = value ? strlen(value) : 0;
	uint8_t *message = p->memory + at;

	head.key_len = (uint16_t)strlen(key);
	if (value)
		head.value_len = (uint32_t)value_len;
	head.change = (uint32_t)n;
	head.id = (uint32_t)n;
	memcpy(message, &head, sizeof(head));
	memcpy(message + sizeof(head), key, head.key_len);
	if (value)
		memcpy(message + sizeof(head) + head.key_len, value, value_len);
	(void)raw_send_at(p, at, sizeof(head) + head.key_len + value_len);
}

static void send_incr(struct raw_peer *p, const char *key, uint64_t n)
{
	/* An absent counter becomes 1 by the first change. */
	const struct wire_request incr = {
		.op = WIRE_ARITH,
		.flags = WIRE_F_CREATE,
		.delta = 1,
		.initial = 1,
	};

	send_change(p, incr, n, key, NULL);
}

/* The length of the key's value as a GET by request has it. */
static uint32_t value_length(struct raw_peer *p, const char *key)
{
	const struct wire_request get = { .op = WIRE_GET };

	send_change(p, get, 0, key, NULL);
	if (!raw_wait(p, raw_is_responded) || p->closed || p->response.status)
		raw_die("GET", EPROTO);
	return (uint32_t)p->response.result;
}

/*
 * Change n makes the counter n, so each answer shows that every change before was executed once.
 * Each connection sends some again and some new ones, and ends before it has all answers.
 */
static const char *cut(const char *key)
{
	uint64_t answered = 0, sent = 0, n, repeated = 0, waits;
	struct wire_hello hello;
	struct raw_peer p;

	for (unsigned int i = 0; i < CUTS; i++) {
		hello = hello_of(key, sent + 1);
		if (!raw_greet_with(&p, &hello))
			return "no welcome";
		if (p.welcome.identity_known != (i > 0) || !p.welcome.answers)
			return "not known, or known too early";
		if (p.welcome.change_last > sent || p.welcome.change_last < answered)
			return "the last change is not one of those without an answer";
		repeated += p.welcome.change_last - answered;
		for (n = answered + 1;
		     n <= answered + AT_ONCE && n < answered + 1 + p.welcome.window; n++)
			send_incr(&p, key, n);
		sent = n - 1 > sent ? n - 1 : sent;
		for (waits = i == CUTS - 1 ? AT_ONCE : i % AT_ONCE; waits && answered < n - 1;
		     waits--) {
			p.responses = 0;
			if (!raw_wait(&p, raw_is_responded) || p.closed || p.response.status)
				return "no answer";
			if (p.response.result != p.response.id)
				return "a change was executed twice, or not at all";
			answered = p.response.id;
		}
		raw_close(&p);
	}
	return repeated ? NULL : "no connection was cut between a change and its answer";
}

/* How many pulls the server has begun. */
static unsigned long pulls(void)
{
	struct wire_request head = { .op = WIRE_STATS };
	unsigned long found = 0;
	const char *line;
	struct raw_peer p;

	raw_greet(&p);
	do {
		if (raw_send(&p, raw_fill(&p, &head, 0, 0)) || !raw_wait(&p, raw_is_responded) ||
		    p.closed)
			raw_die("STATS", EPROTO);
		p.value[p.response.value_len] = 0;
		line = strstr((const char *)p.value, "\npulls ");
		found = line ? strtoul(line + strlen("\npulls "), NULL, 10) : found;
		head.first_line = p.response.next_line;
	} while (head.first_line);
	raw_close(&p);
	return found;
}

static void send_append(struct raw_peer *p, uint64_t n, const char *key)
{
	const struct wire_request put = {
		.op = WIRE_PUT,
		.mode = n == 1 ? WIRE_SET : WIRE_APPEND,
		.flags = WIRE_F_PULL,
		.value_len = PULL_BYTES,
		.pull_addr = (uintptr_t)raw_data(p),
		.pull_rkey = p->mr->rkey,
	};

	send_change(p, put, n, key, NULL);
}

/* On softnic the pull of the old connection, which does not serve it, is under way. */
static const char *takeover(const char *key)
{
	struct wire_hello hello = hello_of(key, 1);
	uint64_t tries = RAW_DEADLINE_NS / 1000 / RAW_PAUSE_US;
	const char *error = NULL;
	struct raw_peer old, p;

	if (!raw_greet_with(&old, &hello))
		return "no welcome";
	send_append(&old, 1, key);
	if (!raw_wait(&old, raw_is_responded) || old.response.status)
		return "the first pull failed";
	send_append(&old, 2, key);
	while (pulls() < 2)
		if (!--tries || usleep(RAW_PAUSE_US))
			return "the second pull was not begun";
	hello = hello_of(key, 3);
	if (!raw_greet_with(&p, &hello) || !p.welcome.identity_known)
		return "no welcome for the second connection";
	send_append(&p, 2, key);
	if (!raw_wait(&p, raw_is_responded) || p.closed || p.response.status || p.response.id != 2)
		error = "the change of the old connection was not executed";
	else if (value_length(&p, key) != 2 * PULL_BYTES)
		error = "the value was appended twice, or in part";
	else if (!raw_wait(&old, raw_is_closed))
		error = "the old connection was not closed";
	raw_close(&p);
	raw_close(&old);
	return error;
}

static unsigned int count(struct raw_peer *peers, bool (*is)(const struct raw_peer *))
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < TWINS; i++) {
		raw_poll(&peers[i]);
		n += is(&peers[i]);
	}
	return n;
}

static bool is_welcome(const struct raw_peer *p)
{
	return p->responses && !p->closed;
}

/* All HELLOs are sent before the first welcome: one of the connections stays, and works. */
static const char *twins(void)
{
	static struct raw_peer peers[TWINS];
	struct wire_hello hello = hello_of("twin", 1);
	uint64_t tries = RAW_DEADLINE_NS / 1000 / RAW_PAUSE_US;

	for (unsigned int i = 0; i < TWINS; i++)
		raw_start(&peers[i], false);
	for (unsigned int i = 0; i < TWINS; i++) {
		raw_fill_hello(&peers[i], &hello);
		(void)raw_send(&peers[i], RAW_HELLO_BYTES);
	}
	while (count(peers, raw_is_closed) < TWINS - 1 || count(peers, is_welcome) != 1)
		if (!--tries || usleep(RAW_PAUSE_US))
			return "not one connection stayed";
	for (unsigned int i = 0; i < TWINS; i++) {
		if (!peers[i].closed) {
			send_incr(&peers[i], "twins", 1);
			if (!raw_wait(&peers[i], raw_is_responded) || peers[i].closed ||
			    peers[i].response.status || peers[i].response.result != 1)
				return "the one that stayed does not work";
		}
		raw_close(&peers[i]);
	}
	return NULL;
}

/* A client that makes one change of a counter with its name, and disconnects. */
static const char *one_change(const char *name)
{
	struct wire_hello hello = hello_of(name, 1);
	const char *error = NULL;
	struct raw_peer p;

	if (!raw_greet_with(&p, &hello))
		return "no welcome";
	if (!p.welcome.answers || p.welcome.identity_known || p.welcome.change_last)
		error = "not a new identity";
	send_incr(&p, name, 1);
	if (!error && (!raw_wait(&p, raw_is_responded) || p.closed || p.response.status))
		error = "no answer";
	raw_close(&p);
	return error;
}

static const char *leave(const char *name, unsigned int others)
{
	const char *error = one_change(name);
	char other[32];

	for (unsigned int i = 0; i < others && !error; i++) {
		snprintf(other, sizeof(other), "%08x.%u", (unsigned int)getpid(), i);
		error = one_change(other);
	}
	return error;
}

/* What a client that is back finds: whether its first change is known, what the next does. */
static const char *changes_again(struct raw_peer *p, const char *name, bool known, uint64_t result)
{
	if (p->welcome.identity_known != known || p->welcome.change_last != 1)
		return known ? "it is not known" : "it is known";
	send_incr(p, name, 1);
	if (!raw_wait(p, raw_is_responded) || p->closed)
		return "no answer to the change that was sent again";
	if (known ? p->response.status || p->response.flags != WIRE_R_REPEATED ||
			    p->response.result != 1 :
		    p->response.status != WIRE_UNKNOWN)
		return "another answer to the change that was sent again";
	send_incr(p, name, 2);
	if (!raw_wait(p, raw_is_responded) || p->closed || p->response.status ||
	    p->response.flags || p->response.result != result)
		return "another result of the next change";
	return NULL;
}

/* A script may expect a failure: nothing is left then, or LeakSanitizer would report it. */
static const char *come_back(const char *name, bool known, uint64_t result)
{
	struct wire_hello hello = hello_of(name, 2);
	const char *error;
	struct raw_peer p;

	if (!raw_greet_with(&p, &hello)) {
		raw_close(&p);
		return "no welcome";
	}
	error = changes_again(&p, name, known, result);
	raw_close(&p);
	return error;
}

/* Prints @what, and serves the connection until this process is killed. */
_Noreturn static void stay(struct raw_peer *p, const char *what)
{
	puts(what);
	fflush(stdout);
	for (;;) {
		raw_poll(p);
		usleep(RAW_PAUSE_US);
	}
}

static const char *hold(const char *name)
{
	struct wire_hello hello = hello_of(name, 1);
	struct raw_peer p;

	if (!raw_greet_with(&p, &hello))
		return "no welcome";
	send_incr(&p, name, 1);
	if (!raw_wait(&p, raw_is_responded) || p.closed || p.response.status)
		return "no answer";
	stay(&p, "hold");
}

static const char *wait_for_welcome(const char *name)
{
	struct wire_hello hello = hello_of(name, 2);
	struct raw_peer p;

	raw_start(&p, false);
	raw_fill_hello(&p, &hello);
	if (raw_send(&p, RAW_HELLO_BYTES))
		return "can't send";
	stay(&p, "wait");
}

static const char *without(void)
{
	struct wire_hello hello = hello_of("no room", 5);
	struct wire_request put = { .op = WIRE_PUT };
	struct raw_peer p;

	if (!raw_greet_with(&p, &hello))
		return "no welcome";
	if (p.welcome.answers || p.welcome.change_last || p.welcome.identity_known)
		return "the welcome has an identity";
	send_change(&p, put, 0, "without", "x");
	if (!raw_wait(&p, raw_is_responded) || p.closed || p.response.status)
		return "a change without a number failed";
	send_change(&p, put, 5, "without", "y");
	if (!raw_wait(&p, raw_is_closed))
		return "a change with a number did not end the connection";
	raw_close(&p);
	return NULL;
}

static const char *run(int argc, char **argv)
{
	const char *what = argv[2];

	if (argc == 4 && !strcmp(what, "cut"))
		return cut(argv[3]);
	if (argc == 4 && !strcmp(what, "takeover"))
		return takeover(argv[3]);
	if (argc == 3 && !strcmp(what, "twins"))
		return twins();
	if (argc == 5 && !strcmp(what, "leave"))
		return leave(argv[3], (unsigned int)atoi(argv[4]));
	if (argc == 6 && !strcmp(what, "return"))
		return come_back(argv[3], !strcmp(argv[4], "known"), strtoull(argv[5], NULL, 10));
	if (argc == 4 && !strcmp(what, "hold"))
		return hold(argv[3]);
	if (argc == 4 && !strcmp(what, "wait"))
		return wait_for_welcome(argv[3]);
	if (argc == 3 && !strcmp(what, "without"))
		return without();
	return "usage: see the source";
}

int main(int argc, char **argv)
{
	const char *error;

	if (argc < 3)
		return 64;
	raw_url = argv[1];
	error = run(argc, argv);
	printf("%s %s%s%s\n", error ? "FAIL " : "ok   ", argv[2], error ? ": " : "",
	       error ? error : "");
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
