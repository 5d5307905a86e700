/* SPDX-License-Identifier: MIT */
/*
 * A client of a server whose device has a fault, for tests/system/faults.sh:
 *
 *	sys_faults URL
 *
 * uses each path of the server once, on two handles. One fault may cost FAILED_MAX calls, each with
 * a status and a text, and none a timeout: nothing hangs. What follows, on the same handles and on
 * a new one, works.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"
#include "common/util/clock.h"

#define LARGE_BYTES 300000u
#define SUBMITTED 40
#define TIMEOUT_MS 300000
#define OPEN_NS 120000000000ull
#define PAUSE_NS 2000000
/* The operations that are submitted together fail together. */
#define FAILED_MAX (SUBMITTED + 1)

static const char *url;
static uint8_t large[LARGE_BYTES], value[LARGE_BYTES];
static unsigned int failed;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "sys_faults: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

/* Whether it succeeded. */
static bool took(const struct kvd *kvd, const char *what, enum kvd_status status)
{
	if (!status || status == KVD_NOT_FOUND)
		return !status;
	printf("%s: %s: %s\n", what, kvd_status_text(status), kvd_error(kvd));
	if (status == KVD_ERR_TIMEOUT)
		die(what, "it timed out");
	if (!strlen(kvd_error(kvd)))
		die(what, "no text");
	failed++;
	return false;
}

static struct kvd *open_handle(void)
{
	const struct timespec pause = { 0, PAUSE_NS };
	uint64_t until_ns = clock_ns() + OPEN_NS;
	struct kvd_options options;
	struct kvd *kvd;

	kvd_options_init(&options);
	options.timeout_ms = TIMEOUT_MS;
	while (kvd_open(&kvd, url, &options)) {
		if (clock_ns() > until_ns)
			die("kvd_open", kvd_error(NULL));
		nanosleep(&pause, NULL);
	}
	return kvd;
}

static void submit(struct kvd *kvd)
{
	struct kvd_op ops[SUBMITTED], *list[SUBMITTED];
	char keys[SUBMITTED][8];
	unsigned int i;

	for (i = 0; i < SUBMITTED; i++) {
		int len = snprintf(keys[i], sizeof(keys[i]), "k%u", i / 4);

		list[i] = &ops[i];
		if (i % 4 == 3)
			kvd_prep_get_by_request(&ops[i], keys[i], (size_t)len, value, 64);
		else
			kvd_prep_put(&ops[i], keys[i], (size_t)len, keys[i], (size_t)len, NULL);
	}
	if (!took(kvd, "kvd_submit", kvd_submit(kvd, list, SUBMITTED)))
		return;
	if (kvd_wait(kvd, list, SUBMITTED, SUBMITTED, TIMEOUT_MS) != SUBMITTED)
		die("kvd_wait", "operations did not end");
	for (i = 0; i < SUBMITTED; i++)
		took(kvd, "an operation", ops[i].status);
}

static void use_large(struct kvd *kvd, const void *from, void *to)
{
	took(kvd, "a large kvd_put", kvd_put(kvd, "l", 1, from, LARGE_BYTES, NULL, NULL));
	if (took(kvd, "a large kvd_get", kvd_get(kvd, "l", 1, to, LARGE_BYTES, NULL)) &&
	    memcmp(to, large, LARGE_BYTES) != 0)
		die("a large kvd_get", "another value");
	if (took(kvd, "a large kvd_get_by_request",
		 kvd_get_by_request(kvd, "l", 1, to, LARGE_BYTES, NULL)) &&
	    memcmp(to, large, LARGE_BYTES) != 0)
		die("a large kvd_get_by_request", "another value");
}

static void use_registered(struct kvd *kvd)
{
	struct kvd_mem *mem;
	void *addr;

	if (!took(kvd, "kvd_alloc", kvd_alloc(kvd, LARGE_BYTES, &addr, &mem)))
		return;
	memcpy(addr, large, LARGE_BYTES);
	use_large(kvd, addr, addr);
	if (kvd_free(mem))
		die("kvd_free", kvd_error(NULL));
}

static void use(struct kvd *kvd)
{
	static char list[65536];
	uint64_t number;

	took(kvd, "kvd_put", kvd_put(kvd, "s", 1, "Ada", 3, NULL, NULL));
	if (took(kvd, "kvd_get", kvd_get(kvd, "s", 1, value, 3, NULL)) &&
	    memcmp(value, "Ada", 3) != 0)
		die("kvd_get", "another value");
	took(kvd, "kvd_delete", kvd_delete(kvd, "n", 1));
	took(kvd, "kvd_put", kvd_put(kvd, "n", 1, "1", 1, NULL, NULL));
	took(kvd, "kvd_incr", kvd_incr(kvd, "n", 1, 1, NULL, &number, NULL));
	use_large(kvd, large, value);
	use_registered(kvd);
	submit(kvd);
	took(kvd, "kvd_client_list", kvd_client_list(kvd, list, sizeof(list), NULL));
}

int main(int argc, char **argv)
{
	struct kvd *handles[2], *fresh;

	if (argc != 2)
		die("usage", "sys_faults URL");
	url = argv[1];
	memset(large, 'x', sizeof(large));
	handles[0] = open_handle();
	handles[1] = open_handle();
	use(handles[0]);
	use(handles[1]);
	printf("%u calls failed\n", failed);
	if (failed > FAILED_MAX)
		die("calls", "more failed than one fault explains");
	failed = 0;
	fresh = open_handle();
	use(fresh);
	use(handles[0]);
	use(handles[1]);
	kvd_close(fresh);
	kvd_close(handles[0]);
	kvd_close(handles[1]);
	if (failed)
		die("what came after the fault", "it failed");
	return EXIT_SUCCESS;
}
