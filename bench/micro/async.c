/* SPDX-License-Identifier: MIT */
/*
 * Measures operations that are under way together; bench/async.sh runs it in turn with what it is
 * compared with.
 *
 *	micro async put|get -a URL [-m] [-v VALUE_BYTES] [-d DEPTH] [-k KEYS] [-t MS]
 *	micro async memcpy|memcpy-put [-v VALUE_BYTES] [-k KEYS] [-t MS]
 *	micro async exists -a URL [-k KEYS] [-t MS]
 *	micro async handles -a URL -k HANDLES
 *
 * put, get: at softnic:// and rdma:// operations are submitted, and each that ends is submitted
 *	again for the next key: DEPTH are always under way. At memcached:// DEPTH commands go out
 *	with one system call and their responses are taken; with ?pipeline=N behind the address N
 *	go out one by one before the responses are taken. Prints operations per second. -m: values
 *	lie in memory of kvd_alloc().
 * memcpy: copies KEYS values of VALUE_BYTES in turn to one buffer, in the direction of GETs. Prints
 *	copies per second.
 * memcpy-put: copies one value to KEYS buffers in turn, in the direction of PUTs.
 * exists: kvd_exists_many() of KEYS keys whose buckets are cached. Prints us for each key.
 * handles: what each further handle of a process takes after a PUT and a GET, which is the
 *	difference of HANDLES and one. Prints KiB of private memory and descriptors.
 *
 * Each key is stored before the clock starts, so no PUT creates its key. Values are not checked:
 * the tests do that, and a check would cost the same for all stores.
 */
#include "bench/micro/micro.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/db.h"

#define KEY_BYTES 16
#define DEPTH_MAX 64u
#define KEYS_MAX 1000000u
#define VALUE_MAX (64u << 20)
#define MS_NS 1000000u
#define CACHE_BYTES (64u << 20)
#define TIMEOUT_MS 20000

static struct {
	const char *url;
	unsigned int value_bytes, depth, keys, ms;
	bool registered;
} run = { .value_bytes = 64, .depth = 1, .keys = 1, .ms = 500 };

static char (*keys)[KEY_BYTES + 1];
static uint8_t *values; /* one buffer for each operation under way */

static void keys_make(void)
{
	unsigned int i;

	keys = calloc(run.keys, sizeof(*keys));
	if (!keys)
		errx(1, "no memory for %u keys", run.keys);
	for (i = 0; i < run.keys; i++)
		snprintf(keys[i], sizeof(keys[i]), "key-%012u", i);
}

static void *value_of(unsigned int i)
{
	return values + (size_t)i * run.value_bytes;
}

/* The next key; all keys are used in turn. */
static const char *key_next(void)
{
	static unsigned int next;

	if (next == run.keys)
		next = 0;
	return keys[next++];
}

static struct kvd *kvd_connect(size_t cache_bytes)
{
	struct kvd_options options;
	struct kvd *db;

	kvd_options_init(&options);
	options.depth = run.depth;
	options.timeout_ms = TIMEOUT_MS;
	options.cache_bytes = cache_bytes;
	if (kvd_open(&db, run.url, &options))
		errx(1, "%s", kvd_error(NULL));
	return db;
}

/* Writes all bytes: untouched pages would all be the one zero page, which is in the cache. */
static void *memory(size_t bytes)
{
	uint8_t *at = malloc(bytes);

	if (!at)
		errx(1, "no memory for values");
	memset(at, 'v', bytes);
	return at;
}

static void kvd_prepare(struct kvd_op *op, enum kvd_opcode code, unsigned int i)
{
	if (code == KVD_OP_PUT)
		kvd_prep_put(op, key_next(), KEY_BYTES, value_of(i), run.value_bytes, NULL);
	else
		kvd_prep_get(op, key_next(), KEY_BYTES, value_of(i), run.value_bytes);
}

/* Runs until @count have ended and @end_ns has passed; returns how many have ended. */
static uint64_t kvd_loop(struct kvd *db, enum kvd_opcode code, uint64_t count, uint64_t end_ns)
{
	static struct kvd_op ops[DEPTH_MAX];
	struct kvd_op *list[DEPTH_MAX];
	uint64_t ended = 0;
	size_t n, i;

	for (n = 0; n < run.depth; n++) {
		memset(&ops[n], 0, sizeof(ops[n]));
		list[n] = &ops[n];
	}
	while (n) {
		for (i = 0; i < n; i++)
			kvd_prepare(list[i], code, (unsigned int)(list[i] - ops));
		if (kvd_submit(db, list, n))
			errx(1, "%s", kvd_error(db));
		n = kvd_wait(db, list, run.depth, 1, UINT32_MAX);
		for (i = 0; i < n; i++)
			if (list[i]->status)
				errx(1, "%s", kvd_status_text(list[i]->status));
		ended += n;
		if (ended >= count && clock_ns() >= end_ns)
			break;
	}
	while (kvd_outstanding(db))
		ended += kvd_wait(db, list, run.depth, run.depth, UINT32_MAX);
	return ended;
}

static uint64_t rival_loop(struct db *db, enum kvd_opcode code, uint64_t count, uint64_t end_ns)
{
	struct kvd_get_request gets[DEPTH_MAX];
	struct db_change puts[DEPTH_MAX];
	uint64_t ended = 0;
	unsigned int i;

	while (ended < count || clock_ns() < end_ns) {
		for (i = 0; i < run.depth; i++) {
			gets[i] = (struct kvd_get_request){
				.key = key_next(),
				.key_len = KEY_BYTES,
				.value = value_of(i),
				.value_size = run.value_bytes,
			};
			puts[i] = (struct db_change){ gets[i].key, KEY_BYTES, value_of(i),
						      run.value_bytes };
		}
		if (code == KVD_OP_PUT && db_put(db, puts, run.depth))
			errx(1, "set: %s", db_error(db));
		if (code == KVD_OP_GET)
			db_get(db, gets, run.depth);
		for (i = 0; code == KVD_OP_GET && i < run.depth; i++)
			if (gets[i].status)
				errx(1, "get: %s: %s", kvd_status_text(gets[i].status),
				     db_error(db));
		ended += run.depth;
	}
	return ended;
}

static void rate_print(uint64_t count, uint64_t begin_ns)
{
	printf("%.1f\n", (double)count * 1e9 / (double)(clock_ns() - begin_ns));
}

static uint64_t end_of(uint64_t begin_ns)
{
	return begin_ns + (uint64_t)run.ms * MS_NS;
}

static void values_allocate(struct kvd *db, struct kvd_mem **mem)
{
	size_t bytes = (size_t)run.depth * run.value_bytes;
	void *at;

	if (!run.registered) {
		values = memory(bytes);
		return;
	}
	if (kvd_alloc(db, bytes, &at, mem))
		errx(1, "%s", kvd_error(db));
	memset(at, 'v', bytes);
	values = at;
}

static void values_free(struct kvd_mem *mem)
{
	if (mem)
		kvd_free(mem);
	else
		free(values);
}

static void kvd_rate(enum kvd_opcode code)
{
	struct kvd *db = kvd_connect(CACHE_BYTES);
	struct kvd_mem *mem = NULL;
	uint64_t begin_ns;

	values_allocate(db, &mem);
	kvd_loop(db, KVD_OP_PUT, run.keys, 0);
	/* This also fills the bucket cache and maps the pages. */
	kvd_loop(db, code, run.keys, 0);
	begin_ns = clock_ns();
	rate_print(kvd_loop(db, code, 0, end_of(begin_ns)), begin_ns);
	values_free(mem);
	kvd_close(db);
}

static void rival_rate(enum kvd_opcode code)
{
	struct kvd_options options;
	char error[DB_ERROR_MAX];
	struct db_target target;
	uint64_t begin_ns;
	struct db *db;

	kvd_options_init(&options);
	options.timeout_ms = TIMEOUT_MS;
	if (db_target_parse(&target, "memcached", run.url, error) ||
	    db_open(&db, &target, &options, error))
		errx(1, "%s: %s", run.url, error);
	values = memory((size_t)run.depth * run.value_bytes);
	rival_loop(db, KVD_OP_PUT, run.keys, 0);
	rival_loop(db, code, run.keys, 0);
	begin_ns = clock_ns();
	rate_print(rival_loop(db, code, 0, end_of(begin_ns)), begin_ns);
	db_close(db);
	free(values);
}

static void rate(enum kvd_opcode code)
{
	if (strncmp(run.url, "memcached:", 10))
		kvd_rate(code);
	else
		rival_rate(code);
}

static void copies(bool as_put)
{
	uint8_t *many = memory((size_t)run.keys * run.value_bytes), *one = memory(run.value_bytes);
	uint64_t begin_ns = clock_ns(), end_ns = end_of(begin_ns), count;
	uint8_t *at;

	for (count = 0; clock_ns() < end_ns; count++) {
		at = many + (size_t)(count % run.keys) * run.value_bytes;
		memcpy(as_put ? at : one, as_put ? one : at, run.value_bytes);
		__asm__ volatile("" : : "r"(at), "r"(one) : "memory");
	}
	rate_print(count, begin_ns);
	free(many);
	free(one);
}

static void exists(void)
{
	struct kvd *db = kvd_connect(CACHE_BYTES);
	struct kvd_key *list = calloc(run.keys, sizeof(*list));
	struct kvd_exists *results = calloc(run.keys, sizeof(*results));
	uint64_t begin_ns = 0, end_ns, count = 0;
	size_t present;
	unsigned int i;

	if (!list || !results)
		errx(1, "no memory for %u keys", run.keys);
	for (i = 0; i < run.keys; i++) {
		list[i] = (struct kvd_key){ keys[i], KEY_BYTES };
		if (kvd_put(db, keys[i], KEY_BYTES, keys[i], KEY_BYTES, NULL, NULL))
			errx(1, "%s", kvd_error(db));
	}
	/* The first round fills the cache. */
	for (end_ns = 0; !begin_ns || clock_ns() < end_ns; count += run.keys) {
		if (kvd_exists_many(db, list, run.keys, results, &present) || present != run.keys)
			errx(1, "kvd_exists_many: %s", kvd_error(db));
		if (!begin_ns) {
			begin_ns = clock_ns();
			end_ns = end_of(begin_ns);
			count = 0;
		}
	}
	count -= run.keys;
	printf("%.4f\n", (double)(clock_ns() - begin_ns) / 1000 / (double)count);
	kvd_close(db);
	free(list);
	free(results);
}

/* KiB of this process's own memory. */
static unsigned long private_kib(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0, n;
	char line[256];

	if (!file)
		err(1, "/proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Private_Clean: %lu", &n) == 1 ||
		    sscanf(line, "Private_Dirty: %lu", &n) == 1)
			kib += n;
	fclose(file);
	return kib;
}

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	if (!dir)
		err(1, "/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void handle_use(struct kvd *db)
{
	char value[100] = "";

	if (kvd_put(db, "key", 3, value, sizeof(value), NULL, NULL) ||
	    kvd_get(db, "key", 3, value, sizeof(value), NULL))
		errx(1, "%s", kvd_error(db));
}

static void handles(void)
{
	unsigned long kib = 0;
	unsigned int fds = 0, i;
	struct kvd **list = calloc(run.keys, sizeof(struct kvd *));

	if (!list)
		errx(1, "no memory for %u handles", run.keys);
	descriptors_allow(run.keys);
	kib = private_kib();
	fds = descriptors();
	for (i = 0; i < run.keys; i++) {
		list[i] = kvd_connect(0);
		handle_use(list[i]);
		if (!i && run.keys > 1) {
			kib = private_kib();
			fds = descriptors();
		}
	}
	i = run.keys > 1 ? run.keys - 1 : 1;
	printf("%.1f %.2f\n", (double)(private_kib() - kib) / i, (double)(descriptors() - fds) / i);
	while (run.keys)
		kvd_close(list[--run.keys]);
	free(list);
}

static void usage(void)
{
	errx(2, "usage: micro async put|get|exists|handles|memcpy|memcpy-put [-a URL] [-m]\n"
		"                   [-v VALUE_BYTES] [-d DEPTH] [-k KEYS] [-t MS]");
}

static void options_take(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "a:d:k:mt:v:")) != -1) {
		switch (option) {
		case 'a':
			run.url = optarg;
			break;
		case 'd':
			run.depth = number(optarg, 1, DEPTH_MAX);
			break;
		case 'k':
			run.keys = number(optarg, 1, KEYS_MAX);
			break;
		case 'm':
			run.registered = true;
			break;
		case 't':
			run.ms = number(optarg, 1, 3600000);
			break;
		case 'v':
			run.value_bytes = number(optarg, 1, VALUE_MAX);
			break;
		default:
			usage();
		}
	}
	if (optind != argc)
		usage();
}

int async_main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	options_take(argc - 1, argv + 1);
	if (!run.url && strcmp(mode, "memcpy") != 0 && strcmp(mode, "memcpy-put") != 0)
		usage();
	keys_make();
	if (!strcmp(mode, "put"))
		rate(KVD_OP_PUT);
	else if (!strcmp(mode, "get"))
		rate(KVD_OP_GET);
	else if (!strcmp(mode, "exists"))
		exists();
	else if (!strcmp(mode, "handles"))
		handles();
	else if (!strcmp(mode, "memcpy"))
		copies(false);
	else if (!strcmp(mode, "memcpy-put"))
		copies(true);
	else
		usage();
	free(keys);
	return 0;
}
