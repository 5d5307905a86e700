/* SPDX-License-Identifier: MIT */
/*
 * A session of a client for tests/system/nth.py: it uses each function of libkvd once on a server.
 * One of its own calls may fail (tests/nth/interpose.h), or one of the server's.
 *
 *	client URL       a call may end with an error and a text, never by a timeout; then nothing
 *	                 fails any more, and all works on the same handles and on a new one
 *	client URL all   the fault stays: calls may also time out
 *	client URL sleep the handles sleep at once, instead of polling first
 *	client URL server one of the server's calls fails, whenever: it may be after the end of
 *	                 what this client knows to be the fault; with all it goes on failing
 *	client URL ping  only connects, and says which process serves
 *
 * Prints a line `refused: CALL: STATUS: TEXT` for each call that failed. Status 1: an error without
 * a text, a wrong value, a call that hung, or something that does not work afterwards.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "client/kvd.h"
#include "tests/nth/interpose.h"

#define LARGE_BYTES 300000u
#define MANY 200
#define SUBMITTED 80
#define TIMEOUT_MS 300000
#define TIMEOUT_ALL_MS 200
#define PAUSE_NS 2000000
#define TEXT_BYTES (1u << 20)
#define TRIES_MS 60000

static const char *url;
static bool all_after, sleeps, of_server, well; /* well: no error is expected any more */
static unsigned int failed;
static uint8_t large[LARGE_BYTES], value[LARGE_BYTES];
static char text[TEXT_BYTES];

static void die(const char *what, const char *why)
{
	printf("client: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

/* Whether it succeeded. */
static bool took(const struct kvd *kvd, const char *what, enum kvd_status status)
{
	if (!status || status == KVD_NOT_FOUND)
		return !status;
	/* Of two changes of a key, the first may have been refused. */
	if (!well && (status == KVD_ERR_EXISTS || status == KVD_ERR_NOT_A_NUMBER))
		return false;
	printf("refused: %s: %s: %s\n", what, kvd_status_text(status), kvd_error(kvd));
	if (well)
		die(what, "it fails after the fault");
	if (status == KVD_ERR_TIMEOUT && !all_after)
		die(what, "it timed out");
	if (!strlen(kvd_error(kvd)))
		die(what, "no text");
	failed++;
	return false;
}

static void value_is(const char *what, const void *want, size_t len)
{
	if (memcmp(value, want, len) != 0)
		die(what, "another value");
}

static void options_of(struct kvd_options *options)
{
	kvd_options_init(options);
	options->timeout_ms = all_after && !well ? TIMEOUT_ALL_MS : TIMEOUT_MS;
	options->connect_timeout_ms = options->timeout_ms;
	options->cache_bytes = 1u << 20;
	options->spin_us = sleeps ? 0 : 50;
}

/* NULL: the server, or this process, can't. */
static struct kvd *open_handle(void)
{
	const struct timespec pause = { 0, PAUSE_NS };
	struct kvd_options options;
	enum kvd_status status;
	struct kvd *kvd;
	int tries = all_after ? 2 : TRIES_MS / 2;

	options_of(&options);
	for (; tries; tries--) {
		status = kvd_open(&kvd, url, &options);
		if (!status)
			return kvd;
		if (kvd)
			die("kvd_open", "a handle with an error");
		if (!well)
			took(NULL, "kvd_open", status);
		nanosleep(&pause, NULL);
	}
	if (well || !all_after)
		die("kvd_open", kvd_error(NULL));
	return NULL;
}

static void use_small(struct kvd *kvd)
{
	struct iovec pieces[2] = { { value, 2 }, { value + 2, 100 } };
	struct kvd_put_args args = { .mode = KVD_PUT_IF_VERSION };
	uint64_t number, version;
	struct kvd_item item = { 0 };
	bool stored;
	int i;

	took(kvd, "kvd_ping", kvd_ping(kvd));
	took(kvd, "kvd_delete", kvd_delete(kvd, "s", 1));
	stored = took(kvd, "kvd_put", kvd_put(kvd, "s", 1, "Ada", 3, NULL, &version));
	for (i = 0; i < 3; i++)
		if (took(kvd, "kvd_get", kvd_get(kvd, "s", 1, value, 100, &item)) && stored)
			value_is("kvd_get", "Ada", 3);
	if (took(kvd, "kvd_get_by_request", kvd_get_by_request(kvd, "s", 1, value, 100, &item)) &&
	    stored)
		value_is("kvd_get_by_request", "Ada", 3);
	if (took(kvd, "kvd_getv", kvd_getv(kvd, "s", 1, pieces, 2, &item)) && stored)
		value_is("kvd_getv", "Ada", 3);
	if (took(kvd, "kvd_get_range", kvd_get_range(kvd, "s", 1, 1, value, 100, &item)) && stored)
		value_is("kvd_get_range", "da", 2);
	args.if_version = item.version ? item.version : 1;
	memset(&item, 0, sizeof(item));
	took(kvd, "kvd_put of a version", kvd_put(kvd, "s", 1, "Bob", 3, &args, &version));
	args = (struct kvd_put_args){ .mode = KVD_PUT_APPEND };
	took(kvd, "kvd_put that appends", kvd_put(kvd, "s", 1, "by", 2, &args, &version));
	took(kvd, "kvd_get_and_touch", kvd_get_and_touch(kvd, "s", 1, 100, value, 100, &item));
	took(kvd, "kvd_touch", kvd_touch(kvd, "s", 1, 200, &version));
	took(kvd, "kvd_delete_if", kvd_delete_if(kvd, "s", 1, version));
	took(kvd, "kvd_delete", kvd_delete(kvd, "n", 1));
	took(kvd, "kvd_put", kvd_put(kvd, "n", 1, "1", 1, NULL, NULL));
	took(kvd, "kvd_incr", kvd_incr(kvd, "n", 1, 5, NULL, &number, NULL));
	took(kvd, "kvd_decr", kvd_decr(kvd, "n", 1, 2, NULL, &number, NULL));
	pieces[0] = (struct iovec){ large, 1000 };
	pieces[1] = (struct iovec){ large + 1000, 1000 };
	took(kvd, "kvd_putv", kvd_putv(kvd, "v", 1, pieces, 2, NULL, NULL));
}

static void use_large(struct kvd *kvd, const void *from, void *to)
{
	struct iovec pieces[2] = { { value, 1000 }, { value + 1000, LARGE_BYTES - 1000 } };

	took(kvd, "a large kvd_put", kvd_put(kvd, "l", 1, from, LARGE_BYTES, NULL, NULL));
	memset(to, 'x', LARGE_BYTES);
	if (took(kvd, "a large kvd_get", kvd_get(kvd, "l", 1, to, LARGE_BYTES, NULL)) &&
	    memcmp(to, large, LARGE_BYTES) != 0)
		die("a large kvd_get", "another value");
	if (took(kvd, "a large kvd_get_by_request",
		 kvd_get_by_request(kvd, "l", 1, to, LARGE_BYTES, NULL)) &&
	    memcmp(to, large, LARGE_BYTES) != 0)
		die("a large kvd_get_by_request", "another value");
	took(kvd, "a large kvd_getv", kvd_getv(kvd, "l", 1, pieces, 2, NULL));
}

static void use_registered(struct kvd *kvd)
{
	static uint8_t own[LARGE_BYTES] __attribute__((aligned(4096)));
	struct kvd_mem *mem;
	void *addr;

	if (took(kvd, "kvd_alloc", kvd_alloc(kvd, LARGE_BYTES, &addr, &mem))) {
		memcpy(addr, large, LARGE_BYTES);
		use_large(kvd, addr, addr);
		if (kvd_free(mem))
			die("kvd_free", kvd_error(NULL));
	}
	if (took(kvd, "kvd_register", kvd_register(kvd, own, sizeof(own), &mem))) {
		memcpy(own, large, LARGE_BYTES);
		use_large(kvd, own, own);
		if (kvd_deregister(mem))
			die("kvd_deregister", kvd_error(NULL));
	}
}

static void use_many(struct kvd *kvd)
{
	static struct kvd_get_request requests[MANY];
	static struct kvd_exists exists[MANY];
	static struct kvd_key keys[MANY];
	static char names[MANY][8], values[MANY][8];
	size_t n;
	int i;

	for (i = 0; i < MANY; i++) {
		size_t len = (size_t)snprintf(names[i], sizeof(names[i]), "m%d", i);

		keys[i] = (struct kvd_key){ names[i], len };
		requests[i] = (struct kvd_get_request){ .key = names[i],
							.key_len = len,
							.value = values[i],
							.value_size = sizeof(values[i]) };
		if (i % 8 == 0)
			took(kvd, "kvd_put",
			     kvd_put(kvd, names[i], len, names[i], len, NULL, NULL));
	}
	took(kvd, "kvd_get_many", kvd_get_many(kvd, requests, MANY));
	for (i = 0; i < MANY; i++)
		if (!requests[i].status && memcmp(values[i], names[i], keys[i].key_len) != 0)
			die("kvd_get_many", "another value");
	took(kvd, "kvd_exists_many", kvd_exists_many(kvd, keys, MANY, exists, &n));
	took(kvd, "kvd_exists_leading", kvd_exists_leading(kvd, keys, MANY, &n));
}

static void submit(struct kvd *kvd)
{
	static struct kvd_op ops[SUBMITTED];
	struct kvd_op *list[SUBMITTED];
	char keys[SUBMITTED][8];
	enum kvd_status status;
	unsigned int i;

	for (i = 0; i < SUBMITTED; i++) {
		size_t len = (size_t)snprintf(keys[i], sizeof(keys[i]), "k%u", i / 8);

		list[i] = &ops[i];
		switch (i % 8) {
		case 0:
			kvd_prep_put(&ops[i], keys[i], len, large, LARGE_BYTES, NULL);
			break;
		case 3:
			kvd_prep_get_by_request(&ops[i], keys[i], len, value, LARGE_BYTES);
			break;
		case 5:
			kvd_prep_get(&ops[i], keys[i], len, value, LARGE_BYTES);
			break;
		case 6:
			kvd_prep_delete(&ops[i], keys[i], len);
			break;
		default:
			kvd_prep_put(&ops[i], keys[i], len, keys[i], len, NULL);
		}
	}
	if (!took(kvd, "kvd_submit", kvd_submit(kvd, list, SUBMITTED)))
		return;
	if (kvd_fd(kvd) < 0)
		took(kvd, "kvd_fd", KVD_ERR_NO_MEMORY);
	else if ((status = kvd_arm(kvd)) != KVD_ERR_BUSY) /* it has operations that ended */
		took(kvd, "kvd_arm", status);
	if (kvd_wait(kvd, list, SUBMITTED, SUBMITTED, TIMEOUT_MS) != SUBMITTED)
		die("kvd_wait", "operations did not end");
	for (i = 0; i < SUBMITTED; i++)
		if (ops[i].status != KVD_NOT_FOUND)
			took(kvd, "an operation", ops[i].status);
}

static int entry(void *arg, const struct kvd_entry *found)
{
	(void)arg;
	(void)found;
	return 0;
}

/* For administrators, which no client on an RDMA device is. */
static void use_config(struct kvd *kvd)
{
	if (strncmp(url, "softnic://", strlen("softnic://")) != 0)
		return;
	took(kvd, "kvd_config_get", kvd_config_get(kvd, text, sizeof(text), NULL));
	took(kvd, "kvd_config_set", kvd_config_set(kvd, "server.spin_time=60us"));
	took(kvd, "kvd_config_rewrite", kvd_config_rewrite(kvd, text, sizeof(text), NULL));
}

static void use_admin(struct kvd *kvd)
{
	const struct kvd_scan_args args = { .values = 1 };
	uint64_t cursor = 0;

	do {
		if (!took(kvd, "kvd_scan", kvd_scan(kvd, &cursor, &args, entry, NULL)))
			break;
	} while (cursor);
	took(kvd, "kvd_server_stats", kvd_server_stats(kvd, text, sizeof(text), NULL));
	took(kvd, "kvd_client_list", kvd_client_list(kvd, text, sizeof(text), NULL));
	use_config(kvd);
	took(NULL, "kvd_stats_text",
	     kvd_stats_text(kvd, KVD_STATS_PROMETHEUS, text, sizeof(text), NULL));
	took(kvd, "kvd_flush_all", kvd_flush_all(kvd));
}

static void use(struct kvd *kvd)
{
	took(kvd, "kvd_observe", kvd_observe(kvd, KVD_OBSERVE_OPS));
	use_small(kvd);
	use_large(kvd, large, value);
	use_registered(kvd);
	use_many(kvd);
	submit(kvd);
	use_admin(kvd);
}

int main(int argc, char **argv)
{
	struct kvd *handles[2], *fresh;
	int i, round;

	if (argc < 2)
		die("usage", "client URL [all | sleep | server | ping]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	url = argv[1];
	all_after = argc > 2 && strstr(argv[2], "all");
	of_server = argc > 2 && strstr(argv[2], "server");
	sleeps = argc > 2 && strstr(argv[2], "sleep");
	memset(large, 'v', sizeof(large));
	if (argc > 2 && !strcmp(argv[2], "ping")) {
		well = true;
		fresh = open_handle();
		took(fresh, "kvd_ping", kvd_ping(fresh));
		kvd_close(fresh);
		return EXIT_SUCCESS;
	}
	for (i = 0; i < 2; i++) {
		handles[i] = open_handle();
		if (handles[i])
			use(handles[i]);
	}
	nth_disarm();
	for (round = 0; !(of_server && all_after); round++) {
		unsigned int before = failed;

		well = !of_server || round;
		fresh = open_handle();
		use(fresh);
		kvd_close(fresh);
		for (i = 0; i < 2; i++)
			if (handles[i] && !all_after)
				use(handles[i]);
		if (failed == before)
			break;
	}
	for (i = 0; i < 2; i++)
		kvd_close(handles[i]);
	printf("%u calls failed\n", failed);
	return EXIT_SUCCESS;
}
