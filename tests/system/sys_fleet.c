/* SPDX-License-Identifier: MIT */
/*
 * A client of a fleet. Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 *
 *	sys_fleet keys URL	all calls on one key and on many, and how they reach the members
 *	sys_fleet order URL	changes of keys in the order of submission
 *	sys_fleet maps URL	waits for a line before each round, until one is "end"; the members
 *				are restarted with other maps meanwhile
 *	sys_fleet away URL	one member is killed, and started again
 *	sys_fleet differ URL	one member has another map than the others
 *	sys_fleet registered URL	values go to and come from registered memory
 *	sys_fleet observed URL	the path of operations, and closing in the middle of some
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"
#include "tests/support/checks.h"

#define KEYS 600u
#define KEY_BYTES 24
#define LARGE_BYTES 300000u
#define LARGE_KEYS 6u
#define APPENDS 10u

static size_t key_of(char key[KEY_BYTES], unsigned int n)
{
	return (size_t)snprintf(key, KEY_BYTES, "fleet:%u", n);
}

static size_t value_of(char value[KEY_BYTES], unsigned int n, unsigned int round)
{
	return (size_t)snprintf(value, KEY_BYTES, "%u of round %u", n, round);
}

/*
 * A change may be the first thing that notices that its member has left for ever: then nobody knows
 * whether that executed it. It is made again.
 */
static enum kvd_status key_put(struct kvd *db, unsigned int n, unsigned int round)
{
	char key[KEY_BYTES], value[KEY_BYTES];
	enum kvd_status status = KVD_ERR_UNKNOWN;

	for (unsigned int i = 0; i < 2 && status == KVD_ERR_UNKNOWN; i++)
		status = kvd_put(db, key, key_of(key, n), value, value_of(value, n, round), NULL,
				 NULL);
	return status;
}

/* How many keys are stored; @late, unless NULL, gets how many timed out, and may be. */
static unsigned int keys_put(struct kvd *db, unsigned int round, unsigned int *late)
{
	unsigned int n, done = 0;
	enum kvd_status status;

	for (n = 0; n < KEYS; n++) {
		status = key_put(db, n, round);
		done += status == KVD_OK;
		if (late)
			*late += status == KVD_ERR_TIMEOUT;
	}
	return done;
}

/* How many keys have their value; the others are counted by their status. */
static unsigned int keys_get(struct kvd *db, unsigned int round, unsigned int statuses[32])
{
	char key[KEY_BYTES], value[KEY_BYTES], found[KEY_BYTES];
	enum kvd_status status;
	unsigned int n, good = 0;
	struct kvd_item item;
	size_t len;

	for (n = 0; n < KEYS; n++) {
		len = value_of(value, n, round);
		status = kvd_get(db, key, key_of(key, n), found, sizeof(found), &item);
		if (status)
			statuses[status % 32]++;
		else if (item.value_len == len && !memcmp(found, value, len))
			good++;
	}
	return good;
}

struct many {
	struct kvd_get_request requests[KEYS];
	struct kvd_key keys[KEYS];
	char names[KEYS][KEY_BYTES], values[KEYS][KEY_BYTES];
};

static void many_make(struct many *many)
{
	unsigned int n;

	for (n = 0; n < KEYS; n++) {
		many->keys[n].key = many->names[n];
		many->keys[n].key_len = key_of(many->names[n], n);
		many->requests[n] = (struct kvd_get_request){
			.key = many->names[n],
			.key_len = many->keys[n].key_len,
			.value = many->values[n],
			.value_size = KEY_BYTES,
		};
	}
}

static unsigned int many_good(const struct many *many, unsigned int round)
{
	const struct kvd_get_request *request;
	unsigned int n, good = 0;
	char value[KEY_BYTES];

	for (n = 0; n < KEYS; n++) {
		request = &many->requests[n];
		good += !request->status && request->item.value_len == value_of(value, n, round) &&
			!memcmp(request->value, value, request->item.value_len);
	}
	return good;
}

struct scanned {
	unsigned int keys, seen[KEYS];
};

static int scan_take(void *arg, const struct kvd_entry *entry)
{
	struct scanned *scanned = arg;
	char name[KEY_BYTES] = "";
	unsigned int n;

	if (entry->key_len < sizeof(name))
		memcpy(name, entry->key, entry->key_len);
	if (sscanf(name, "fleet:%u", &n) == 1 && n < KEYS && !scanned->seen[n]++)
		scanned->keys++;
	return 0;
}

static unsigned int scan_count(struct kvd *db, uint32_t step)
{
	const struct kvd_scan_args args = { .count = step, .prefix = "fleet:", .prefix_len = 6 };
	struct scanned scanned = { 0 };
	uint64_t cursor = 0;

	do {
		if (kvd_scan(db, &cursor, &args, scan_take, &scanned))
			die("scan", kvd_error(db));
	} while (cursor);
	return scanned.keys;
}

static void large_check(struct kvd *db)
{
	uint8_t *stored = malloc(LARGE_BYTES), *found = malloc(LARGE_BYTES);
	unsigned int n, good = 0;
	struct kvd_item item;
	char key[KEY_BYTES];
	size_t len;

	for (n = 0; n < LARGE_KEYS; n++) {
		len = (size_t)snprintf(key, sizeof(key), "large:%u", n);
		memset(stored, (int)n + 1, LARGE_BYTES);
		if (!kvd_put(db, key, len, stored, LARGE_BYTES, NULL, NULL) &&
		    !kvd_get(db, key, len, found, LARGE_BYTES, &item))
			good += item.value_len == LARGE_BYTES &&
				!memcmp(stored, found, LARGE_BYTES);
		kvd_delete(db, key, len);
	}
	check(good == LARGE_KEYS, "%u of %u large values are stored and read", good, LARGE_KEYS);
	free(stored);
	free(found);
}

static void others_check(struct kvd *db)
{
	const struct kvd_arith_args create = { .create = 1, .initial = 5 };
	uint64_t number = 0, version = 0;
	struct kvd_item item;
	char value[KEY_BYTES];
	bool good = true;

	good &= !kvd_incr(db, "n", 1, 1, &create, &number, NULL) && number == 5;
	good &= !kvd_incr(db, "n", 1, 2, NULL, &number, &version) && number == 7;
	good &= !kvd_touch(db, "n", 1, 1000, NULL);
	good &= !kvd_get_and_touch(db, "n", 1, 0, value, sizeof(value), &item) &&
		item.value_len == 1 && *value == '7';
	good &= !kvd_get_by_request(db, "n", 1, value, sizeof(value), &item) &&
		item.version == version;
	good &= kvd_delete_if(db, "n", 1, version + 1) == KVD_ERR_EXISTS;
	good &= !kvd_delete_if(db, "n", 1, version) && kvd_delete(db, "n", 1) == KVD_NOT_FOUND;
	good &= !kvd_ping(db);
	check(good, "INCR, TOUCH, GETs by request, conditional DELETE, PING: %s", kvd_error(db));
}

/* Requests other than reports of GETs, with which messages of their own are sent, too. */
static uint64_t requests_of(const struct kvd_stats *stats)
{
	return stats->requests - stats->access_messages;
}

/* One READ a warm GET, as of one server, and no request. */
static void reads_check(struct kvd *db, unsigned int round)
{
	unsigned int statuses[32] = { 0 }, good;
	struct kvd_stats before, after;

	keys_get(db, round, statuses);
	kvd_stats(db, &before);
	good = keys_get(db, round, statuses);
	kvd_stats(db, &after);
	check(good == KEYS && after.gets - before.gets == KEYS && after.hits - before.hits == KEYS,
	      "%u of %u keys are read", good, KEYS);
	check(after.reads - before.reads == KEYS && requests_of(&after) == requests_of(&before),
	      "by %" PRIu64 " READs and %" PRIu64 " requests", after.reads - before.reads,
	      requests_of(&after) - requests_of(&before));
}

static void many_check(struct kvd *db, struct many *many)
{
	size_t present, leading;
	enum kvd_status status;

	many_make(many);
	status = kvd_get_many(db, many->requests, KEYS);
	check(!status && many_good(many, 1) == KEYS, "kvd_get_many() reads %u of %u keys",
	      many_good(many, 1), KEYS);
	status = kvd_exists_many(db, many->keys, KEYS, NULL, &present);
	check(!status && present == KEYS, "kvd_exists_many() finds %zu", present);
	kvd_delete(db, many->keys[KEYS / 2].key, many->keys[KEYS / 2].key_len);
	status = kvd_exists_leading(db, many->keys, KEYS, &leading);
	check(!status && leading == KEYS / 2, "kvd_exists_leading() finds %zu", leading);
}

/* Members with so few keys that one response has all of them. */
static void few_check(struct kvd *db)
{
	char key[KEY_BYTES];
	unsigned int n;

	for (n = 10; n < KEYS; n++)
		kvd_delete(db, key, key_of(key, n));
	check(scan_count(db, 0) == 10, "a scan of few keys finds each");
}

static int keys(struct kvd *db)
{
	unsigned int statuses[32] = { 0 };
	struct many *many = calloc(1, sizeof(*many));
	unsigned int done = keys_put(db, 1, NULL);

	check(done == KEYS, "%u of %u keys are stored: %s", done, KEYS, kvd_error(db));
	reads_check(db, 1);
	check(scan_count(db, 7) == KEYS, "a scan finds each key");
	check(scan_count(db, 0) == KEYS, "and one in larger steps");
	many_check(db, many);
	few_check(db);
	large_check(db);
	others_check(db);
	check(!kvd_flush_all(db), "all members are flushed: %s", kvd_error(db));
	keys_get(db, 1, statuses);
	check(statuses[KVD_NOT_FOUND] == KEYS, "no key is left: %u misses",
	      statuses[KVD_NOT_FOUND]);
	check(kvd_server_stats(db, many->names[0], KEY_BYTES, NULL) == KVD_ERR_INVALID &&
		      strstr(kvd_error(db), "one server"),
	      "a call about one server says so: %s", kvd_error(db));
	free(many);
	return check_status();
}

/* More changes than the handle has slots come before a scan, and before a flush. */
static void flush_check(struct kvd *db, struct kvd_op *ops, struct kvd_op **list)
{
	unsigned int i, found;

	for (i = 0; i < KEYS * APPENDS; i++)
		list[i] = &ops[i];
	if (kvd_flush_all(db) || kvd_submit(db, list, KEYS))
		die("flush", kvd_error(db));
	found = scan_count(db, 0);
	check(found == KEYS, "a scan finds %u of %u keys that were submitted before it", found,
	      KEYS);
	while (kvd_outstanding(db))
		kvd_wait(db, list, KEYS, 1, SYS_TIMEOUT_MS);
	for (i = 0; i < KEYS; i++)
		list[i] = &ops[i];
	if (kvd_submit(db, list, KEYS) || kvd_flush_all(db))
		die("submit", kvd_error(db));
	while (kvd_outstanding(db))
		kvd_wait(db, list, KEYS, 1, SYS_TIMEOUT_MS);
	found = scan_count(db, 0);
	check(!found, "%u keys are left of changes before a flush", found);
}

static int order(struct kvd *db)
{
	static const struct kvd_put_args append = { .mode = KVD_PUT_APPEND };
	struct kvd_op *ops = calloc(KEYS * APPENDS, sizeof(*ops)), *op = ops, **list;
	static const char digits[] = "0123456789";
	char(*names)[KEY_BYTES] = calloc(KEYS, KEY_BYTES), found[KEY_BYTES];
	unsigned int n, i, failed = 0, good = 0;
	struct kvd_item item;
	size_t ended = 0;

	list = calloc(KEYS * APPENDS, sizeof(struct kvd_op *));
	for (i = 0; i < APPENDS; i++)
		for (n = 0; n < KEYS; n++, op++) {
			kvd_prep_put(op, names[n], key_of(names[n], n), digits + i, 1,
				     i ? &append : NULL);
			list[op - ops] = op;
		}
	if (kvd_submit(db, list, KEYS * APPENDS))
		die("submit", kvd_error(db));
	while (ended < KEYS * APPENDS)
		ended += kvd_wait(db, list, KEYS * APPENDS, 1, SYS_TIMEOUT_MS);
	for (op = ops; op < ops + (size_t)KEYS * APPENDS; op++)
		failed += op->status != KVD_OK;
	for (n = 0; n < KEYS; n++)
		good += !kvd_get(db, names[n], key_of(names[n], n), found, sizeof(found), &item) &&
			item.value_len == APPENDS && !memcmp(found, digits, APPENDS);
	check(!failed && !kvd_outstanding(db), "%u submitted changes failed: %s", failed,
	      kvd_error(db));
	check(good == KEYS, "%u of %u keys have their changes in order", good, KEYS);
	flush_check(db, ops, list);
	free(ops);
	free(list);
	free(names);
	return check_status();
}

static bool line_wait(const char *what)
{
	char line[64];

	printf("%s\n", what);
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0;
}

/* The store is empty after each restart. */
static int maps(struct kvd *db)
{
	unsigned int round = 1, done, good;

	do {
		unsigned int statuses[32] = { 0 };

		done = keys_put(db, round, NULL);
		good = keys_get(db, round, statuses);
		check(done == KEYS && good == KEYS,
		      "round %u: %u of %u keys are stored, %u read, %u moved: %s", round, done,
		      KEYS, good, statuses[KVD_ERR_MOVED], kvd_error(db));
		reads_check(db, round++);
	} while (line_wait("ready"));
	return check_status();
}

/* A count without statuses must not take the keys of a member that is away for absent. */
static void away_check(struct kvd *db, unsigned int good)
{
	struct many *many = calloc(1, sizeof(*many));
	struct kvd_exists *results = calloc(KEYS, sizeof(*results));
	unsigned int n, unknown = 0;
	enum kvd_status status;
	size_t present = 0;

	many_make(many);
	status = kvd_exists_many(db, many->keys, KEYS, results, &present);
	for (n = 0; n < KEYS; n++)
		unknown += results[n].status == KVD_ERR_AWAY;
	check(!status && present == good && present + unknown == KEYS,
	      "kvd_exists_many() finds %zu keys, %u have the status of their member", present,
	      unknown);
	status = kvd_exists_many(db, many->keys, KEYS, NULL, &present);
	check(status == KVD_ERR_AWAY, "and fails without statuses of the keys: %s", kvd_error(db));
	free(results);
	free(many);
}

/* Keys of the member that is away fail, each with a status that says so, and no others. */
static int away(struct kvd *db)
{
	unsigned int statuses[32] = { 0 }, good, first;

	keys_put(db, 1, NULL);
	line_wait("ready");
	good = keys_get(db, 1, statuses);
	first = statuses[KVD_ERR_DISCONNECTED];
	check(good > KEYS / 2 && good + first + statuses[KVD_ERR_AWAY] == KEYS && first == 1,
	      "%u of %u keys are read, %u fails at its deadline, %u at once: %s", good, KEYS, first,
	      statuses[KVD_ERR_AWAY], kvd_error(db));
	away_check(db, good);
	line_wait("ready");
	while (kvd_ping(db))
		;
	good = keys_put(db, 2, NULL);
	check(good == KEYS, "it is back: %u of %u keys are stored: %s", good, KEYS, kvd_error(db));
	memset(statuses, 0, sizeof(statuses));
	good = keys_get(db, 2, statuses);
	check(good == KEYS, "and %u are read", good);
	return check_status();
}

/* Submitted PUTs of registered memory that no member takes leave it once, and can be canceled. */
static void refused_check(struct kvd *db)
{
	struct kvd_op ops[LARGE_KEYS * 4], *list[LARGE_KEYS * 4];
	unsigned int n, moved = 0, canceled = 0, stored = 0, late = 0, away = 0;
	const size_t count = sizeof(ops) / sizeof(ops[0]);
	char keys[LARGE_KEYS * 4][KEY_BYTES];
	struct kvd_mem *mem;
	void *addr;

	if (kvd_alloc(db, LARGE_BYTES, &addr, &mem))
		die("alloc", kvd_error(db));
	memset(addr, 1, LARGE_BYTES);
	for (n = 0; n < count; n++) {
		kvd_prep_put(&ops[n], keys[n], key_of(keys[n], n), addr, LARGE_BYTES, NULL);
		ops[n].timeout_ms = n % 2 ? SYS_TIMEOUT_MS : 300;
		list[n] = &ops[n];
	}
	if (kvd_submit(db, list, count))
		die("submit", kvd_error(db));
	/* What is left after its timeout waits for a map by which some member takes it. */
	while (kvd_wait(db, list, count, 1, 1000))
		;
	/* While a member is asked, an operation can't be canceled; it waits again once refused. */
	for (n = 0; n < count; n++)
		while (kvd_cancel(db, &ops[n]) == KVD_ERR_BUSY)
			kvd_wait(db, list, count, 1, 1);
	while (kvd_outstanding(db))
		kvd_wait(db, list, count, 1, 1000);
	for (n = 0; n < count; n++) {
		stored += ops[n].status == KVD_OK;
		moved += ops[n].status == KVD_ERR_MOVED;
		canceled += ops[n].status == KVD_ERR_CANCELED;
		late += ops[n].status == KVD_ERR_TIMEOUT;
		away += ops[n].status == KVD_ERR_AWAY;
	}
	/*
	 * At their timeout they wait for a map, or a member is just asked. An RDMA device may read
	 * the memory until that connection is closed, and the member is away soon after that.
	 */
	check(stored && moved + late && canceled &&
		      stored + moved + canceled + late + away == count,
	      "of %zu submitted PUTs %u are done, %u end with their timeout, %u are canceled, of "
	      "%u the member is away",
	      count, stored, moved + late, canceled, away);
	check(!kvd_free(mem), "none uses the registered memory any more: %s", kvd_error(NULL));
}

/* A key is stored and read, or the status says that no member has it; never is it missing. */
static int differ(struct kvd *db)
{
	unsigned int stored, statuses[32] = { 0 }, others[32] = { 0 }, good, older, late = 0;

	/* By the end of the first pass the handle has met the newer map. */
	keys_put(db, 2, NULL);
	stored = keys_put(db, 3, &late);
	good = keys_get(db, 3, statuses);
	/* On a busy host some calls may be late; what was not stored has its earlier value. */
	older = keys_get(db, 2, others);
	check(stored && good <= stored + late && good + statuses[KVD_ERR_TIMEOUT] >= stored &&
		      statuses[KVD_ERR_MOVED] && older <= KEYS - stored && !others[KVD_NOT_FOUND] &&
		      !statuses[KVD_NOT_FOUND] &&
		      good + older + statuses[KVD_ERR_MOVED] + statuses[KVD_ERR_TIMEOUT] >= KEYS,
	      "%u keys are stored, %u read, %u have no member, %u missing: %s", stored, good,
	      statuses[KVD_ERR_MOVED], statuses[KVD_NOT_FOUND], kvd_error(db));
	refused_check(db);
	return check_status();
}

static int registered(struct kvd *db)
{
	unsigned int n, good = 0;
	struct kvd_stats before, after;
	struct kvd_item item;
	struct kvd_mem *mem, *own;
	char key[KEY_BYTES];
	uint8_t *memory;
	void *addr;
	size_t len;

	if (kvd_alloc(db, LARGE_BYTES, &addr, &mem))
		die("alloc", kvd_error(db));
	memory = aligned_alloc(4096, 1 << 19);
	if (kvd_register(db, memory, 1 << 19, &own))
		die("register", kvd_error(db));
	kvd_stats(db, &before);
	for (n = 0; n < 3 * LARGE_KEYS; n++) {
		len = (size_t)snprintf(key, sizeof(key), "registered:%u", n);
		memset(addr, (int)n + 1, LARGE_BYTES);
		if (!kvd_put(db, key, len, addr, LARGE_BYTES, NULL, NULL) &&
		    !kvd_get(db, key, len, memory, 1 << 19, &item))
			good += item.value_len == LARGE_BYTES && !memcmp(addr, memory, LARGE_BYTES);
	}
	kvd_stats(db, &after);
	check(good == 3 * LARGE_KEYS, "%u values from and to registered memory", good);
	check(after.direct_bytes - before.direct_bytes >= 6ull * LARGE_KEYS * LARGE_BYTES,
	      "%" PRIu64 " bytes were not copied", after.direct_bytes - before.direct_bytes);
	check(kvd_free(own) == KVD_ERR_INVALID && !kvd_deregister(own) && !kvd_free(mem),
	      "both are ended: %s", kvd_error(NULL));
	check(kvd_deregister(own) == KVD_ERR_INVALID && kvd_free(mem) == KVD_ERR_INVALID,
	      "once only: %s", kvd_error(NULL));
	free(memory);
	return check_status();
}

struct traced {
	unsigned int warm, reads, ends;
};

static void trace_take(void *user, const struct kvd_trace_event *event)
{
	struct traced *traced = user;

	traced->ends += event->ended;
	traced->warm += event->path == KVD_PATH_WARM;
	traced->reads += event->reads;
}

/* The READs of a fleet's GETs are seen; operations under way at the end are not. */
static int observed(struct kvd *db)
{
	struct kvd_op *ops = calloc(KEYS, sizeof(*ops)), **list;
	unsigned int n, statuses[32] = { 0 };
	char(*names)[KEY_BYTES] = calloc(KEYS, KEY_BYTES);
	struct traced traced = { 0 };

	keys_put(db, 1, NULL);
	if (kvd_trace(db, trace_take, &traced))
		die("trace", kvd_error(db));
	keys_get(db, 1, statuses);
	check(traced.warm == KEYS && traced.reads == KEYS && traced.ends == KEYS,
	      "of %u GETs %u are warm, with %u READs", traced.ends, traced.warm, traced.reads);
	list = calloc(KEYS, sizeof(struct kvd_op *));
	for (n = 0; n < KEYS; n++) {
		kvd_prep_put(&ops[n], names[n], key_of(names[n], n), "x", 1, NULL);
		list[n] = &ops[n];
	}
	if (kvd_trace(db, NULL, NULL) || kvd_observe(db, KVD_OBSERVE_OPS))
		die("observe", kvd_error(db));
	keys_get(db, 1, statuses);
	if (kvd_submit(db, list, KEYS))
		die("submit", kvd_error(db));
	kvd_close(db);
	free(ops);
	free(list);
	free(names);
	return check_status();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(struct kvd *db);
		uint32_t timeout_ms; /* 0: SYS_TIMEOUT_MS */
	} modes[] = {
		{ "keys", keys, 0 },	     { "order", order, 0 },
		{ "maps", maps, 0 },	     { "registered", registered, 0 },
		{ "away", away, 3000 },	     { "differ", differ, 30 },
		{ "observed", observed, 0 },
	};
	struct kvd_options options;
	struct kvd *db;
	unsigned int i;
	int status;

	for (i = 0; argc == 3 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		kvd_options_init(&options);
		options.timeout_ms = modes[i].timeout_ms ? modes[i].timeout_ms : SYS_TIMEOUT_MS;
		options.connect_timeout_ms = SYS_TIMEOUT_MS;
		if (kvd_open(&db, argv[2], &options))
			die("open", kvd_error(NULL));
		status = modes[i].run(db);
		/* observed() has closed it. */
		if (modes[i].run != observed)
			kvd_close(db);
		return status;
	}
	die("usage", "sys_fleet keys|order|maps|registered|away|differ URL");
}
