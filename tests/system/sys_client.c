/* SPDX-License-Identifier: MIT */
/*
 * A client for the system tests that uses only libkvd: for what would take too many calls of kvctl,
 * or has to run while something else happens. Prints `ok` and `FAIL` lines as tests/system/lib.sh
 * does; the exit status is 0 if nothing failed.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define CACHE_BYTES (16u << 20) /* more than the index of any server here */
#define CONNECTIONS_MAX 4096
#define STATS_BYTES (64u << 10)
#define FDS_MAX 1024

/* Exit status of loop if the connection is lost; 0 after SIGTERM, 1 after a wrong value. */
#define EXIT_LOST 3

static volatile sig_atomic_t stop, asked;

/*
 * SYS_TIMEOUT_MS is short where a test waits until clients give up. With SYS_AGAIN a loop does not
 * give up a server that is there and too slow for that.
 */
static uint32_t timeout_ms(void)
{
	const char *text = getenv("SYS_TIMEOUT_MS");

	return text ? (uint32_t)atoi(text) : SYS_TIMEOUT_MS;
}

static enum kvd_status connect_with(struct kvd **db, const char *url, size_t cache_bytes)
{
	struct kvd_options options;

	kvd_options_init(&options);
	options.timeout_ms = timeout_ms();
	options.connect_timeout_ms = SYS_TIMEOUT_MS;
	options.cache_bytes = cache_bytes;
	return kvd_open(db, url, &options);
}

static struct kvd *must_connect(const char *url)
{
	struct kvd *db;

	if (connect_with(&db, url, CACHE_BYTES))
		die("connect", kvd_error(NULL));
	return db;
}

/* Bytes that depend on @seed: those of two seeds differ nearly everywhere. */
static void fill(uint8_t *p, size_t bytes, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
	size_t i;

	for (i = 0; i < bytes; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (uint8_t)(x >> 32);
	}
}

static bool filled(const uint8_t *p, size_t bytes, uint64_t seed)
{
	uint8_t *want = malloc(bytes + 1);
	bool same;

	fill(want, bytes, seed);
	same = !memcmp(p, want, bytes);
	free(want);
	return same;
}

/*
 * --- values: PUT and GET of lengths around each limit at which the code path changes -----------
 */

#define LENGTHS_MAX 64
/* The longest item whose length a slot can encode, and the unit of that length. */
#define SLOT_BYTES_MAX 262080u
#define SLOT_UNIT 64u
#define REQUEST_HEADER 32u
#define ITEM_HEADER 40u /* of a long one */

struct values {
	struct kvd *writer, *reader;
	uint8_t key[KVD_KEY_MAX];
	size_t key_len;
	uint8_t *value, *got;
	size_t max;
	size_t lengths[LENGTHS_MAX];
	unsigned int count;
};

static void add_around(struct values *v, size_t border, size_t by)
{
	size_t length;

	for (length = border - by; length <= border + by; length += by)
		if (length <= v->max && v->count < LENGTHS_MAX)
			v->lengths[v->count++] = length;
}

static void choose_lengths(struct values *v, uint32_t request_bytes)
{
	size_t inline_max = request_bytes - REQUEST_HEADER - v->key_len;

	v->count = 0;
	v->lengths[v->count++] = 0;
	v->lengths[v->count++] = 1;
	v->lengths[v->count++] = 100;
	add_around(v, inline_max, 1);
	/* The most that fits into a response of the same size. */
	add_around(v, request_bytes - 40, 1);
	add_around(v, 4096 - 40, 1);
	add_around(v, SLOT_BYTES_MAX - ITEM_HEADER - v->key_len, 1);
	add_around(v, SLOT_BYTES_MAX - ITEM_HEADER - v->key_len, SLOT_UNIT);
	add_around(v, SLOT_BYTES_MAX, 1);
	v->lengths[v->count++] = v->max - 1;
	v->lengths[v->count++] = v->max;
}

static const char *value_read(struct values *v, struct kvd *db, size_t length, uint64_t seed)
{
	struct kvd_item item;
	enum kvd_status status;

	memset(v->got, 0x5a, length + 1);
	status = kvd_get(db, v->key, v->key_len, v->got, length, &item);
	if (status)
		return kvd_status_text(status);
	if (item.value_len != length || item.flags != (uint32_t)seed)
		return "wrong length or flags";
	if (!filled(v->got, length, seed))
		return "wrong bytes";
	return v->got[length] == 0x5a ? NULL : "bytes were written after the value";
}

static const char *value_too_long(struct values *v, struct kvd *db, size_t length)
{
	struct kvd_item item;

	if (!length)
		return NULL;
	if (kvd_get(db, v->key, v->key_len, v->got, length - 1, &item) != KVD_ERR_BUFFER)
		return "a buffer one byte too short was not refused";
	return item.value_len == length ? NULL : "the length that is needed is wrong";
}

static const char *value_round(struct values *v, size_t length, uint64_t seed)
{
	struct kvd_put_args args = { .flags = (uint32_t)seed };
	uint64_t version;
	const char *error;

	fill(v->value, length, seed);
	if (kvd_put(v->writer, v->key, v->key_len, v->value, length, &args, &version))
		return kvd_error(v->writer);
	error = value_read(v, v->writer, length, seed);
	/* The reader's cache still points to the previous value. */
	if (!error)
		error = value_read(v, v->reader, length, seed);
	if (!error)
		error = value_too_long(v, v->reader, length);
	return error;
}

static void values_of_key(struct values *v, size_t key_len, uint32_t request_bytes)
{
	const char *error = NULL;
	unsigned int i, j;

	v->key_len = key_len;
	fill(v->key, key_len, key_len);
	choose_lengths(v, request_bytes);
	for (i = 0; !error && i < v->count; i++)
		error = value_round(v, v->lengths[i], 1000 * key_len + i);
	check(!error, "key of %zu bytes: values of %u lengths, each over the previous one%s%s",
	      key_len, v->count, error ? ": " : "", error ? error : "");
	/* Short and long in turn: the memory of one is used again for the other. */
	for (i = 0, j = v->count - 1; !error && i < j; i++, j--) {
		error = value_round(v, v->lengths[j], 2000 * key_len + j);
		if (!error)
			error = value_round(v, v->lengths[i], 2000 * key_len + i);
	}
	check(!error, "key of %zu bytes: long and short in turn%s%s", key_len, error ? ": " : "",
	      error ? error : "");
	check(kvd_delete(v->writer, v->key, key_len) == KVD_OK &&
		      kvd_get(v->reader, v->key, key_len, NULL, 0, NULL) == KVD_NOT_FOUND &&
		      kvd_delete(v->reader, v->key, key_len) == KVD_NOT_FOUND,
	      "key of %zu bytes: deleted once, not found by anyone", key_len);
}

static int command_values(char **words)
{
	struct values v = { .writer = must_connect(words[0]), .reader = must_connect(words[0]) };
	struct kvd_info info;

	kvd_info(v.writer, &info);
	v.max = info.value_max;
	v.value = malloc(v.max + 1);
	v.got = malloc(v.max + 1);
	if (!v.value || !v.got)
		die("values", "no memory");
	values_of_key(&v, 1, info.request_bytes);
	values_of_key(&v, 19, info.request_bytes);
	values_of_key(&v, KVD_KEY_MAX, info.request_bytes);
	check(kvd_put(v.writer, "k", 1, v.value, v.max + 1, NULL, NULL) == KVD_ERR_TOO_LARGE &&
		      strstr(kvd_error(v.writer), "limits.max_value"),
	      "one byte more than max_value: %s", kvd_error(v.writer));
	check(kvd_put(v.writer, v.key, KVD_KEY_MAX + 1, "", 0, NULL, NULL) == KVD_ERR_INVALID &&
		      kvd_get(v.writer, v.key, KVD_KEY_MAX + 1, NULL, 0, NULL) == KVD_ERR_INVALID &&
		      kvd_delete(v.writer, v.key, 0) == KVD_ERR_INVALID,
	      "keys of 0 and 1025 bytes: %s", kvd_error(v.writer));
	check(!kvd_ping(v.writer) && !kvd_ping(v.reader), "both connections still work");
	kvd_close(v.writer);
	kvd_close(v.reader);
	free(v.value);
	free(v.got);
	return check_status();
}

/*
 * --- connections -------------------------------------------------------------------------------
 */

/*
 * Opens up to @count connections. Each READs immediately after its HELLO, when the server has just
 * granted the right to. Sets *@why to the reason of a failure.
 */
static unsigned int open_many(struct kvd **list, const char *url, unsigned int count,
			      const char **why)
{
	unsigned int i;

	*why = "";
	for (i = 0; i < count; i++) {
		if (connect_with(&list[i], url, 0)) {
			*why = kvd_error(NULL);
			break;
		}
		if (kvd_get(list[i], "nothing", 7, NULL, 0, NULL) != KVD_NOT_FOUND) {
			printf("FAIL  the first GET of a connection: %s\n", kvd_error(list[i]));
			exit(EXIT_FAILURE);
		}
	}
	return i;
}

static unsigned int ping_many(struct kvd **list, unsigned int count)
{
	unsigned int i, good = 0;

	for (i = 0; i < count; i++)
		good += !kvd_ping(list[i]);
	return good;
}

static void close_many(struct kvd **list, unsigned int count)
{
	while (count)
		kvd_close(list[--count]);
}

/* URL, TOTAL, AT_ONCE: opens and closes TOTAL connections, AT_ONCE at a time. */
static int command_connections(char **words)
{
	static struct kvd *list[CONNECTIONS_MAX];
	unsigned int total = (unsigned int)atoi(words[1]), at_once = (unsigned int)atoi(words[2]);
	unsigned int done = 0, opened, good;
	const char *why;

	while (done < total) {
		opened = open_many(list, words[0], at_once, &why);
		good = ping_many(list, opened);
		close_many(list, opened);
		done += opened;
		if (opened < at_once || good < opened) {
			check(false, "after %u connections: %u of %u opened, %u responded: %s",
			      done, opened, at_once, good, why);
			return EXIT_FAILURE;
		}
	}
	check(true, "%u connections, %u at a time, opened, used and closed", done, at_once);
	return EXIT_SUCCESS;
}

/*
 * URL, COUNT: opens COUNT connections, or as many as the server accepts, and prints how many; holds
 * them until the standard input ends; then prints how many still work.
 */
static int command_hold(char **words)
{
	static struct kvd *list[CONNECTIONS_MAX];
	unsigned int count = (unsigned int)atoi(words[1]), opened, good;
	const char *why;
	char byte;

	opened = open_many(list, words[0], count, &why);
	if (opened < count)
		printf("refused after %u: %s\n", opened, why);
	printf("holding %u\n", opened);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	good = ping_many(list, opened);
	printf("alive %u\n", good);
	close_many(list, opened);
	return good == opened ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * --- loop: operations that run while something else happens ------------------------------------
 */

static void on_term(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

struct loop {
	struct kvd *db;
	const char *key;
	size_t bytes;
	uint8_t *value, *got;
	uint64_t rounds;
};

/* The first 8 bytes of a value are its round; the others depend on it. */
static void value_make(uint8_t *value, size_t bytes, uint64_t round)
{
	memcpy(value, &round, sizeof(round));
	fill(value + sizeof(round), bytes - sizeof(round), round);
}

static bool value_whole(const uint8_t *value, size_t bytes, uint64_t *round)
{
	memcpy(round, value, sizeof(*round));
	return filled(value + sizeof(*round), bytes - sizeof(*round), *round);
}

static enum kvd_status loop_put(struct loop *l)
{
	value_make(l->value, l->bytes, l->rounds);
	return kvd_put(l->db, l->key, strlen(l->key), l->value, l->bytes, NULL, NULL);
}

/* The value must be whole, whoever wrote it; with @exact it must be the last one of this loop. */
static enum kvd_status loop_get(struct loop *l, bool exact)
{
	struct kvd_item item;
	uint64_t round;
	enum kvd_status status = kvd_get(l->db, l->key, strlen(l->key), l->got, l->bytes, &item);

	if (status)
		return status;
	if (item.value_len != l->bytes || !value_whole(l->got, l->bytes, &round) ||
	    (exact && round != l->rounds)) {
		printf("wrong value of %s in round %" PRIu64 "\n", l->key, l->rounds);
		exit(EXIT_FAILURE);
	}
	return KVD_OK;
}

static enum kvd_status loop_step(struct loop *l, const char *mode)
{
	enum kvd_status status = KVD_OK;

	if (strcmp(mode, "get"))
		status = loop_put(l);
	if (!status && strcmp(mode, "put"))
		status = loop_get(l, !strcmp(mode, "mix"));
	return status;
}

static enum kvd_status loop_round(struct loop *l, const char *mode)
{
	enum kvd_status status;

	do
		status = loop_step(l, mode);
	while (status == KVD_ERR_TIMEOUT && getenv("SYS_AGAIN"));
	return status;
}

/* After SIGUSR1 a loop prints a line, when its call under way has ended. */
static void on_usr1(int signal_number)
{
	(void)signal_number;
	asked = 1;
}

static void loop_report(const struct loop *l)
{
	if (!asked)
		return;
	asked = 0;
	printf("round %" PRIu64 "\n", l->rounds);
	fflush(stdout);
}

/* URL, put|get|mix, KEY, BYTES, PAUSE_US: repeats until SIGTERM or a call fails. */
static int command_loop(char **words)
{
	struct loop l = { .db = must_connect(words[0]),
			  .key = words[2],
			  .bytes = (size_t)atol(words[3]) };
	useconds_t pause_us = (useconds_t)atoi(words[4]);
	uint64_t start = clock_ns();
	enum kvd_status status;

	l.value = malloc(l.bytes);
	l.got = malloc(l.bytes);
	signal(SIGTERM, on_term);
	signal(SIGUSR1, on_usr1);
	status = loop_round(&l, "put");
	while (!status && !stop) {
		start = clock_ns();
		l.rounds++;
		status = loop_round(&l, words[1]);
		loop_report(&l);
		if (l.rounds == 1 && !status) {
			printf("looping\n");
			fflush(stdout);
		}
		if (pause_us)
			usleep(pause_us);
	}
	if (status)
		printf("lost after %" PRIu64 " rounds, %" PRIu64 " ms: %s: %s\n", l.rounds,
		       (clock_ns() - start) / 1000000, kvd_status_text(status), kvd_error(l.db));
	else
		printf("ended well after %" PRIu64 " rounds\n", l.rounds);
	free(l.value);
	free(l.got);
	kvd_close(l.db);
	return status ? EXIT_LOST : EXIT_SUCCESS;
}

/*
 * --- fill: fills the memory and empties it again -----------------------------------------------
 */

struct fill {
	struct kvd *db;
	size_t bytes;
	uint8_t *value, *got;
	unsigned int count; /* keys that are stored */
};

static size_t fill_key(char *key, unsigned int n)
{
	return (size_t)sprintf(key, "fill%08u", n);
}

static enum kvd_status fill_put(struct fill *f, unsigned int n, uint64_t seed)
{
	char key[32];
	size_t len = fill_key(key, n);

	fill(f->value, f->bytes, seed);
	return kvd_put(f->db, key, len, f->value, f->bytes, NULL, NULL);
}

/* Counts the keys whose value is that of seed n + @seed. */
static unsigned int fill_intact(struct fill *f, uint64_t seed)
{
	unsigned int n, good = 0;
	struct kvd_item item;
	char key[32];

	for (n = 0; n < f->count; n++) {
		size_t len = fill_key(key, n);

		good += !kvd_get(f->db, key, len, f->got, f->bytes, &item) &&
			item.value_len == f->bytes && filled(f->got, f->bytes, n + seed);
	}
	return good;
}

#define FILL_KEYS_MAX 1000000u

static void fill_up(struct fill *f)
{
	enum kvd_status status = KVD_OK;

	for (f->count = 0; !status && f->count < FILL_KEYS_MAX; f->count++)
		status = fill_put(f, f->count, f->count);
	f->count--;
	check(status == KVD_ERR_NO_SPACE && strstr(kvd_error(f->db), "memory.size"),
	      "%zu bytes: after %u keys: %s", f->bytes, f->count, kvd_error(f->db));
}

static void fill_delete(struct fill *f, unsigned int first, unsigned int count)
{
	unsigned int n, good = 0;
	char key[32];

	for (n = first; n < first + count; n++)
		good += !kvd_delete(f->db, key, fill_key(key, n));
	check(good == count, "%u of %u deleted", good, count);
}

/* A pulled value needs memory before that of the old value is free. */
static void fill_over_full(struct fill *f, bool pulled)
{
	enum kvd_status status = KVD_OK;
	unsigned int n;

	if (pulled) {
		status = fill_put(f, 0, 7);
		check(status == KVD_ERR_NO_SPACE && fill_intact(f, 0) == f->count,
		      "a long value over another is refused, and the old one stays: %s",
		      kvd_status_text(status));
		return;
	}
	for (n = 0; !status && n < f->count; n++)
		status = fill_put(f, n, n + 7);
	check(!status && fill_intact(f, 7) == f->count, "every value can be replaced in place: %s",
	      kvd_status_text(status));
}

static void fill_work(struct fill *f, bool pulled)
{
	unsigned int n, all, seed = pulled ? 0 : 7;
	enum kvd_status status = KVD_OK;

	fill_up(f);
	check(f->count > 100 && fill_intact(f, 0) == f->count, "every old value is readable");
	fill_over_full(f, pulled);
	check(fill_put(f, f->count, 0) == KVD_ERR_NO_SPACE, "a new key is still refused");
	all = f->count;
	fill_delete(f, all - all / 4, all / 4);
	for (n = all - all / 4; !status && n < all; n++)
		status = fill_put(f, n, n + seed);
	check(!status && fill_intact(f, seed) == all, "after deletes as many PUTs work again: %s",
	      kvd_status_text(status));
	fill_delete(f, 0, all);
}

/* URL, BYTES: fills the server with values of that length, twice. */
static int command_fill(char **words)
{
	struct fill f = { .db = must_connect(words[0]), .bytes = (size_t)atol(words[1]) };
	struct kvd_info info;
	unsigned int first;

	kvd_info(f.db, &info);
	f.value = malloc(f.bytes);
	f.got = malloc(f.bytes);
	fill_work(&f, f.bytes + KVD_KEY_MAX > info.request_bytes);
	first = f.count;
	fill_up(&f);
	check(f.count >= first - first / 50, "as many keys fit the second time: %u, then %u", first,
	      f.count);
	fill_delete(&f, 0, f.count);
	free(f.value);
	free(f.got);
	kvd_close(f.db);
	return check_status();
}

/*
 * --- gets: what GETs cost the server -----------------------------------------------------------
 */

static uint64_t stat_named(const char *text, const char *name)
{
	const char *line = text;
	size_t len = strlen(name);

	while (line && *line) {
		if (!strncmp(line, name, len) && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	die("the statistics have no", name);
}

/* What the server has counted. */
struct served {
	uint64_t requests, gets; /* by request; those by READ are told with these statistics */
};

static struct served served_now(struct kvd *db)
{
	static char text[STATS_BYTES];

	if (kvd_server_stats(db, text, sizeof(text), NULL))
		die("statistics", kvd_error(db));
	return (struct served){ .requests = stat_named(text, "requests"),
				.gets = stat_named(text, "gets") -
					stat_named(text, "gets_reported") };
}

#define GETS_KEYS 1000
#define GETS_BYTES 1000

static void gets_round(struct kvd *db, bool put)
{
	uint8_t value[GETS_BYTES];
	enum kvd_status status;
	unsigned int n;
	char key[32];

	for (n = 0; n < GETS_KEYS; n++) {
		size_t len = fill_key(key, n);

		if (put) {
			fill(value, sizeof(value), n);
			status = kvd_put(db, key, len, value, sizeof(value), NULL, NULL);
		} else {
			status = kvd_get(db, key, len, value, sizeof(value), NULL);
		}
		if (status)
			die("gets", kvd_error(db));
		if (!put && !filled(value, sizeof(value), n))
			die("gets", "a wrong value");
	}
}

/* Returns when the process has stopped. */
static void process_stop(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	if (kill(pid, SIGSTOP))
		die("SIGSTOP", strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'T') {
		file = fopen(path, "r");
		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			die(path, "can't be read");
		fclose(file);
	}
}

/* What this process has sent by sockets and nobody has taken: wake-ups, while the server stands. */
static unsigned int bytes_not_taken(void)
{
	unsigned int sum = 0;
	int fd, bytes;

	for (fd = 0; fd < FDS_MAX; fd++)
		if (!ioctl(fd, SIOCOUTQ, &bytes) && bytes > 0)
			sum += (unsigned int)bytes;
	return sum;
}

/*
 * URL, PID, ROUNDS: GETs while the server with that pid is stopped. So they cost it no time at all;
 * and afterwards it finds no request, and nothing that wakes it up.
 */
static int command_gets(char **words)
{
	struct kvd *db = must_connect(words[0]);
	pid_t pid = (pid_t)atoi(words[1]);
	unsigned int i, rounds = (unsigned int)atoi(words[2]), left;
	struct served first, second, last;
	struct kvd_stats before, after;
	double gets, reads;

	gets_round(db, true);
	gets_round(db, false);
	first = served_now(db);
	second = served_now(db);
	kvd_stats(db, &before);
	process_stop(pid);
	left = bytes_not_taken();
	for (i = 0; i < rounds; i++)
		gets_round(db, false);
	left = bytes_not_taken() - left;
	kill(pid, SIGCONT);
	kvd_stats(db, &after);
	last = served_now(db);
	gets = (double)(after.gets - before.gets);
	reads = (double)(after.reads - before.reads);
	check(after.gets - before.gets == (uint64_t)rounds * GETS_KEYS && !left,
	      "%.0f GETs while the server is stopped, and %u bytes that wake it up", gets, left);
	check(last.requests - second.requests == second.requests - first.requests &&
		      last.gets == second.gets,
	      "the server took %" PRIu64 " requests, all for these statistics",
	      last.requests - second.requests);
	check(reads / gets >= 0.999 && reads / gets <= 1.05, "%.4f READs per GET", reads / gets);
	check(after.fallbacks == before.fallbacks && after.misses == before.misses,
	      "no GET used a request, none missed");
	kvd_close(db);
	return check_status();
}

static const struct {
	const char *name;
	int words;
	int (*run)(char **words);
} commands[] = {
	{ "values", 1, command_values }, { "connections", 3, command_connections },
	{ "hold", 2, command_hold },	 { "loop", 5, command_loop },
	{ "fill", 2, command_fill },	 { "gets", 3, command_gets },
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name) && argc == commands[i].words + 2)
			return commands[i].run(argv + 2);
	fputs("usage: sys_client values URL\n"
	      "       sys_client connections URL TOTAL AT_ONCE\n"
	      "       sys_client hold URL COUNT\n"
	      "       sys_client loop URL put|get|mix KEY BYTES PAUSE_US\n"
	      "       sys_client fill URL BYTES\n"
	      "       sys_client gets URL PID ROUNDS\n",
	      stderr);
	return 64;
}
