/* SPDX-License-Identifier: MIT */
/*
 * A client that gives other clients a hard time, for the measurement and the test of what these
 * notice of it (bench/noisy-neighbour.sh, tests/system/noisy.sh).
 *
 *	sys_noise URL KIND	does it until SIGTERM; prints `begins` when it has done it once, and
 *				at the end `KIND N`: how often
 *
 * The kinds are at the end of this file. Those that begin with mc- speak memcached's protocol;
 * their URL is memcached://127.0.0.1:PORT. What the server answers does not matter here: it may
 * refuse, be busy, or close the connection, and then a new one is opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "common/wire.h"
#include "tests/support/mc_client.h"
#include "tests/support/raw_peer.h"

#define LARGE_BYTES (1u << 20)
#define LARGE_KEYS 4
#define HUGE_BYTES (64u << 20) /* limits.max_value has to allow twice that */
#define PLACE_BYTES (8u << 20) /* limits.max_value has to allow it */
#define PLACE_EVERY 8
#define SMALL_BYTES 100
#define TOUCH_TTL_S 3600
#define STATS_BYTES (64u << 10)
#define PULLERS 16 /* connections that ask for a pull and serve none */
#define PULL_BYTES (1u << 20)
#define KEY_LEN 5
#define VALUE_BYTES 1000
#define FD_MAX 256
#define FLOOD_AT_ONCE 64
#define PAUSE_AFTER_ERROR_US 1000
#define MC_CONNECTIONS 16
#define MC_TEXT_BYTES 8192 /* twice a line that is longer than the server takes */
#define MC_ANSWERS_BYTES (256u << 10)
#define MC_TRICKLE_US 1000

static volatile sig_atomic_t stop;
static unsigned long long rounds;

static void on_term(int number)
{
	(void)number;
	stop = 1;
}

/* One more is done. */
static void did(void)
{
	if (rounds++)
		return;
	printf("begins\n");
	fflush(stdout);
}

/* A handle that works, or NULL after a pause. */
static struct kvd *handle_open(struct kvd *db)
{
	struct kvd_options options;

	if (db && kvd_ping(db) != KVD_ERR_DISCONNECTED)
		return db;
	kvd_close(db);
	kvd_options_init(&options);
	options.cache_bytes = 0;
	if (!kvd_open(&db, raw_url, &options))
		return db;
	usleep(PAUSE_AFTER_ERROR_US);
	return NULL;
}

/* Calls @call with a handle until the end; one that fails gets a new handle where it lost its. */
static void repeat(enum kvd_status (*call)(struct kvd *db))
{
	struct kvd *db = NULL;

	while (!stop) {
		db = handle_open(db);
		while (db && !stop && call(db) < KVD_ERR_INVALID)
			did();
	}
	kvd_close(db);
}

static int ignore_entry(void *arg, const struct kvd_entry *entry)
{
	(void)arg;
	(void)entry;
	return 0;
}

/* The prefix is nobody's: the server looks at every bucket and sends nothing. */
static enum kvd_status scan_part(struct kvd *db)
{
	static const struct kvd_scan_args args = { .prefix = "\xff\xff", .prefix_len = 2 };
	static uint64_t cursor;

	return kvd_scan(db, &cursor, &args, ignore_entry, NULL);
}

static void noise_scan(void)
{
	repeat(scan_part);
}

static enum kvd_status put_large(struct kvd *db)
{
	static char value[LARGE_BYTES];
	char key[16];
	int len = snprintf(key, sizeof(key), "noise%llu", rounds % LARGE_KEYS);

	return kvd_put(db, key, (size_t)len, value, sizeof(value), NULL, NULL);
}

static void noise_large(void)
{
	repeat(put_large);
}

/* Under a new key each time: in a full store, room has to be made for it. */
static enum kvd_status put_new(struct kvd *db, size_t bytes)
{
	static char value[PLACE_BYTES];
	char key[32];
	int len = snprintf(key, sizeof(key), "new%llu.%llu", (unsigned long long)getpid(), rounds);

	return kvd_put(db, key, (size_t)len, value, bytes, NULL, NULL);
}

static enum kvd_status put_place(struct kvd *db)
{
	return put_new(db, rounds % PLACE_EVERY ? LARGE_BYTES : PLACE_BYTES);
}

static void noise_places(void)
{
	repeat(put_place);
}

static enum kvd_status put_small(struct kvd *db)
{
	return put_new(db, SMALL_BYTES);
}

static void noise_small(void)
{
	repeat(put_small);
}

/* A value that a byte is appended to; it is put again when it has become too large. */
static const char huge_key[] = "noise-huge";

static enum kvd_status put_huge(struct kvd *db)
{
	char *value = calloc(1, HUGE_BYTES);
	enum kvd_status status;

	if (!value)
		raw_die("the value", ENOMEM);
	status = kvd_put(db, huge_key, strlen(huge_key), value, HUGE_BYTES, NULL, NULL);
	free(value);
	if (status == KVD_ERR_TOO_LARGE || status == KVD_ERR_NO_SPACE)
		raw_die(kvd_error(db), EFBIG);
	return status;
}

static enum kvd_status append_huge(struct kvd *db)
{
	static const struct kvd_put_args append = { .mode = KVD_PUT_APPEND };
	enum kvd_status status = kvd_put(db, huge_key, strlen(huge_key), "n", 1, &append, NULL);

	return status == KVD_NOT_FOUND || status == KVD_ERR_TOO_LARGE ? put_huge(db) : status;
}

static void noise_append(void)
{
	repeat(append_huge);
}

/* Appends a value that the server READs. */
static enum kvd_status extend_huge(struct kvd *db)
{
	static const struct kvd_put_args append = { .mode = KVD_PUT_APPEND };
	static char value[LARGE_BYTES];
	enum kvd_status status = kvd_put(db, huge_key, strlen(huge_key), value, sizeof(value),
					 &append, NULL);

	return status == KVD_NOT_FOUND || status == KVD_ERR_TOO_LARGE ? put_huge(db) : status;
}

static void noise_extend(void)
{
	repeat(extend_huge);
}

static enum kvd_status touch_huge(struct kvd *db)
{
	enum kvd_status status = kvd_touch(db, huge_key, strlen(huge_key), TOUCH_TTL_S, NULL);

	return status == KVD_NOT_FOUND ? put_huge(db) : status;
}

static void noise_touch(void)
{
	repeat(touch_huge);
}

static enum kvd_status read_stats(struct kvd *db)
{
	static char text[STATS_BYTES];

	return kvd_server_stats(db, text, sizeof(text), NULL);
}

static void noise_stats(void)
{
	repeat(read_stats);
}

static enum kvd_status flush(struct kvd *db)
{
	return kvd_flush_all(db);
}

static void noise_flush(void)
{
	repeat(flush);
}

static void noise_churn(void)
{
	struct kvd_options options;
	struct kvd *db;

	kvd_options_init(&options);
	options.cache_bytes = 0;
	while (!stop) {
		if (kvd_open(&db, raw_url, &options))
			usleep(PAUSE_AFTER_ERROR_US);
		else
			did();
		kvd_close(db);
	}
}

/* Connects and sends HELLO; false if the server did not want that. */
static bool greet(struct raw_peer *p)
{
	raw_open(p, false);
	raw_connect(p, &raw_good_connect, sizeof(raw_good_connect));
	raw_fill_hello(p, &raw_good_hello);
	if (!p->established || raw_send(p, RAW_HELLO_BYTES) || !raw_wait(p, raw_is_responded) ||
	    p->closed || p->response.status)
		return false;
	memcpy(&p->welcome, p->value, sizeof(p->welcome));
	return true;
}

/* Stores a value that a response needs a buffer for, under the key of raw_fill(). */
static bool put_value(struct raw_peer *p)
{
	const struct wire_request head = {
		.op = WIRE_PUT,
		.key_len = KEY_LEN,
		.value_len = VALUE_BYTES,
		.id = 2,
	};

	return !raw_send(p, raw_fill(p, &head, KEY_LEN, VALUE_BYTES)) &&
	       raw_wait(p, raw_is_responded) && !p->closed;
}

/* Sends GETs and polls for no response, until the server has enough of it. */
static void noise_deaf(void)
{
	const struct wire_request head = { .op = WIRE_GET, .key_len = KEY_LEN, .id = 2 };
	struct raw_peer p;
	unsigned int sent;

	while (!stop) {
		if (greet(&p) && put_value(&p)) {
			for (sent = 0; sent < RAW_SENDS / 2 && !stop && !p.closed; sent++) {
				if (raw_send(&p, raw_fill(&p, &head, KEY_LEN, 0)))
					break;
				raw_poll_events(&p);
				usleep(sent < p.welcome.window ? 0 : RAW_PAUSE_US);
				did();
			}
		}
		raw_close(&p);
	}
}

/* Asks for pulls, and polls no device, so that softnic, which needs the owner, serves none. */
static void noise_pulls(void)
{
	static struct raw_peer peers[PULLERS];
	bool open[PULLERS] = { false };
	struct wire_request head = {
		.op = WIRE_PUT,
		.flags = WIRE_F_PULL,
		.key_len = KEY_LEN,
		.value_len = PULL_BYTES,
		.id = 2,
	};
	size_t i;

	for (i = 0; !stop; i = (i + 1) % PULLERS) {
		struct raw_peer *p = &peers[i];

		usleep(PAUSE_AFTER_ERROR_US / PULLERS);
		if (open[i]) {
			raw_poll_events(p);
			if (!p->closed)
				continue;
			raw_close(p);
		}
		open[i] = true;
		p->closed = !greet(p);
		head.pull_addr = (uintptr_t)raw_data(p);
		head.pull_rkey = p->mr->rkey;
		if (!p->closed)
			(void)raw_send(p, raw_fill(p, &head, KEY_LEN, 0));
		did();
	}
	for (i = 0; i < PULLERS; i++)
		if (open[i])
			raw_close(&peers[i]);
}

static unsigned int wanted; /* responses */

static bool is_window_responded(const struct raw_peer *p)
{
	return p->responses >= wanted || p->closed;
}

/* Uses its window up with messages of as many requests as there may be. */
static void noise_batches(void)
{
	struct wire_request head = { .op = WIRE_BATCH, .count = WIRE_BATCH_MAX };
	struct request put = {
		.op = WIRE_PUT,
		.key = (const uint8_t *)"batch",
		.key_len = KEY_LEN,
		.value = (const uint8_t *)"of several",
		.value_len = 10,
	};
	struct raw_peer p;
	unsigned int i;

	if (!greet(&p))
		return;
	head.value_len = (uint32_t)(WIRE_BATCH_MAX * wire_batched_bytes(&put));
	memcpy(p.memory, &head, sizeof(head));
	for (i = 0; i < WIRE_BATCH_MAX; i++)
		wire_batched_write(&put, p.memory + sizeof(head) + i * wire_batched_bytes(&put));
	for (wanted = 1; !stop && !p.closed; wanted = p.response.window) {
		for (i = 0; i < wanted; i++)
			(void)raw_send(&p, sizeof(head) + head.value_len);
		(void)raw_wait(&p, is_window_responded);
		did();
	}
	raw_close(&p);
}

/* Writes to every descriptor that this process shares with the server: sockets and eventfds. */
static void noise_flood(void)
{
	static const uint64_t one = 1;
	int fds[FD_MAX], fd;
	struct raw_peer p;
	unsigned int i, n;
	struct stat stat;

	while (!stop) {
		if (greet(&p)) {
			for (n = 0, fd = STDERR_FILENO + 1; fd < FD_MAX; fd++)
				if (!fstat(fd, &stat) &&
				    (S_ISSOCK(stat.st_mode) || !(stat.st_mode & S_IFMT)) &&
				    !fcntl(fd, F_SETFL, O_NONBLOCK))
					fds[n++] = fd;
			while (n && !stop && !p.closed) {
				for (i = 0; i < n * FLOOD_AT_ONCE; i++)
					if (write(fds[i % n], &one, i % 2 ? 1 : sizeof(one)) > 0)
						did();
				raw_poll_events(&p);
			}
		}
		raw_close(&p);
	}
}

/* What each of many connections sends. */
struct mc_load {
	const char *first;
	const char *text; /* after that, without end */
	size_t len;
	useconds_t pause_us;
	bool deaf; /* takes no answers */
};

struct mc_sender {
	struct mc_client client;
	size_t at; /* of the load's text */
	bool open;
};

static bool mc_connect(struct mc_client *client)
{
	const char *port = strrchr(raw_url, ':');

	if (!port || strncmp(raw_url, "memcached://", 12))
		raw_die("the URL", EINVAL);
	if (!mc_client_open(client, (uint16_t)strtoul(port + 1, NULL, 10), false))
		return true;
	usleep(PAUSE_AFTER_ERROR_US);
	return false;
}

static void mc_store(const char *key, uint32_t len)
{
	static const char value[LARGE_BYTES];
	struct mc_client client;
	bool stored = false;

	while (!stored && !stop && mc_connect(&client)) {
		stored = mc_client_put(&client, "set", key, len, 0) &&
			 mc_client_send(&client, value, len) &&
			 mc_client_put_end(&client) == MC_ANSWER_OK;
		mc_client_close(&client);
	}
}

/* Sends on, and takes what answers there are. False: the connection has ended. */
static bool mc_go_on(struct mc_sender *sender, const struct mc_load *load)
{
	static char answers[MC_ANSWERS_BYTES];
	int fd = sender->client.fd;
	ssize_t n;

	n = send(fd, load->text + sender->at, load->len - sender->at, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN)
		return false;
	if (n > 0) {
		sender->at = (sender->at + (size_t)n) % load->len;
		did();
	}
	if (load->deaf)
		return true;
	n = recv(fd, answers, sizeof(answers), MSG_DONTWAIT);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

static void mc_send_on(struct mc_sender *sender, const struct mc_load *load)
{
	if (!sender->open) {
		sender->open = mc_connect(&sender->client);
		sender->at = 0;
		if (!sender->open)
			return;
		(void)mc_client_send(&sender->client, load->first, strlen(load->first));
	}
	if (mc_go_on(sender, load))
		return;
	mc_client_close(&sender->client);
	sender->open = false;
}

static void mc_send(const struct mc_load *load)
{
	static struct mc_sender senders[MC_CONNECTIONS];
	unsigned long long before;
	size_t i;

	while (!stop) {
		before = rounds;
		for (i = 0; i < MC_CONNECTIONS && !stop; i++)
			mc_send_on(&senders[i], load);
		if (load->pause_us || rounds == before)
			usleep(load->pause_us ? load->pause_us : RAW_PAUSE_US);
	}
}

/* Sends @unit again and again. */
static void mc_repeat(const char *first, const char *unit, bool deaf)
{
	static char text[MC_TEXT_BYTES];
	struct mc_load load = { .first = first, .text = text, .deaf = deaf };
	size_t len = strlen(unit);

	for (; load.len + len <= sizeof(text); load.len += len)
		memcpy(text + load.len, unit, len);
	mc_send(&load);
}

/* Pipelines of gets without end. */
static void noise_mc_gets(void)
{
	mc_store("noise-gets", VALUE_BYTES);
	mc_repeat("", "get noise-gets\r\n", false);
}

/* Gets of a large value; takes nothing of it. */
static void noise_mc_deaf(void)
{
	mc_store("noise-deaf", LARGE_BYTES);
	mc_repeat("", "get noise-deaf\r\n", true);
}

/* One line of keys that never ends. */
static void noise_mc_line(void)
{
	mc_repeat("get", " noise-line", false);
}

/* Large values that arrive byte by byte, and never as a whole. */
static void noise_mc_sets(void)
{
	static const struct mc_load load = {
		.first = "set noise-sets 0 0 1048576\r\n",
		.text = "x",
		.len = 1,
		.pause_us = MC_TRICKLE_US,
	};

	mc_send(&load);
}

/* Lines that are no commands, of 1, 2, 4, ... bytes; one becomes so long that the server closes. */
static void noise_mc_junk(void)
{
	static char text[MC_TEXT_BYTES];
	static const struct mc_load load = { .first = "", .text = text, .len = sizeof(text) };
	size_t i;

	memset(text, 0xff, sizeof(text));
	for (i = 1; i < sizeof(text); i *= 2)
		text[i] = '\n';
	mc_send(&load);
}

static void noise_mc_churn(void)
{
	/* By a reset, so that the client's ports are free again at once. */
	static const struct linger reset = { .l_onoff = 1 };
	struct mc_client client;

	while (!stop) {
		if (!mc_connect(&client))
			continue;
		setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		mc_client_close(&client);
		did();
	}
}

/* Uses a CPU and nothing else: what the noise of a process costs that is no client at all. */
static void noise_busy(void)
{
	while (!stop)
		did();
}

static const struct {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{ "busy", noise_busy },	      { "scan", noise_scan },	    { "churn", noise_churn },
	{ "large", noise_large },     { "deaf", noise_deaf },	    { "pulls", noise_pulls },
	{ "flood", noise_flood },     { "batches", noise_batches }, { "stats", noise_stats },
	{ "flush", noise_flush },     { "append", noise_append },   { "touch", noise_touch },
	{ "extend", noise_extend },   { "places", noise_places },   { "small", noise_small },
	{ "mc-gets", noise_mc_gets }, { "mc-line", noise_mc_line }, { "mc-deaf", noise_mc_deaf },
	{ "mc-sets", noise_mc_sets }, { "mc-junk", noise_mc_junk }, { "mc-churn", noise_mc_churn },
};

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_term };
	size_t i;

	for (i = 0; argc == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(argv[2], kinds[i].name))
			continue;
		raw_url = argv[1];
		sigaction(SIGTERM, &action, NULL);
		signal(SIGPIPE, SIG_IGN);
		kinds[i].run();
		printf("%s %llu\n", kinds[i].name, rounds);
		return EXIT_SUCCESS;
	}
	fputs("usage: sys_noise URL busy|scan|churn|large|append|extend|touch|places|small|deaf|"
	      "pulls|flood|stats|flush|batches\n"
	      "       sys_noise memcached://127.0.0.1:PORT "
	      "mc-gets|mc-line|mc-deaf|mc-sets|mc-junk|mc-churn\n",
	      stderr);
	return 2;
}
