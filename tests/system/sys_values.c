/* SPDX-License-Identifier: MIT */
/*
 * A client for the system tests of the ways of values: registered memory, pieces, ranges, bounce
 * memory, changes and touches that are sent again. It compares each value with what was stored, and
 * what the library counted with the way that it should have taken. Prints `ok` and `FAIL` lines as
 * tests/system/lib.sh does.
 *
 *	sys_values URL		all of these
 *	sys_values URL locked	it may lock little memory (RLIMIT_MEMLOCK): what fails says so
 *	sys_values URL dies	its device dies: a fault plan of softnic kills it, sooner or later
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvd.h"
#include "common/layout.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define ARENA_BYTES (2u << 20)
#define VALUE_BYTES (700u << 10)
#define GUARD 0xee
#define KEYS 300u
#define TOUCHES 40u
#define HANDLES 2u
#define PUTS_EACH 4u
#define PARTED_MIN 3u /* rounds */
#define REPEATED_MIN 5u
#define KILL_PAUSE_NS 2000000
#define TTL_S 1000u
#define DEADLINE_NS 300000000000ull

static const char *url;
static _Atomic bool kill_stop;
static struct kvd *db, *other;
static uint8_t source[VALUE_BYTES + 1], target[VALUE_BYTES];

static void must(enum kvd_status status, struct kvd *handle, const char *what)
{
	if (status)
		die(what, kvd_error(handle));
}

static struct kvd_stats stats_of(const struct kvd *handle)
{
	struct kvd_stats stats;

	kvd_stats(handle, &stats);
	return stats;
}

static uint64_t count_of(enum kvd_opcode op, enum kvd_path path)
{
	struct kvd_op_stats stats;

	must(kvd_op_stats(db, op, path, &stats, sizeof(stats)), db, "statistics");
	return stats.count;
}

static bool all_are(const uint8_t *from, size_t bytes, uint8_t byte)
{
	while (bytes && *from == byte)
		from++, bytes--;
	return !bytes;
}

/* Another handle finds these bytes, in memory that is not registered. */
static bool is_stored(const char *key, const uint8_t *want, size_t bytes)
{
	struct kvd_item item;

	memset(target, 0, bytes);
	return !kvd_get(other, key, strlen(key), target, sizeof(target), &item) &&
	       item.value_len == bytes && !memcmp(target, want, bytes);
}

/*
 * The value goes from its place, if @puts_directly, and comes to it; nothing else of the memory is
 * written.
 */
static void direct(uint8_t *arena, size_t bytes, const char *memory, bool puts_directly)
{
	const uint64_t puts = count_of(KVD_OP_PUT, KVD_PATH_DIRECT);
	const uint64_t gets = count_of(KVD_OP_GET, KVD_PATH_DIRECT);
	const uint64_t counted = stats_of(db).direct_bytes;
	uint8_t *at = arena + 4099;
	struct kvd_item item;

	memset(arena, GUARD, ARENA_BYTES);
	memcpy(at, source + 1, bytes);
	must(kvd_put(db, "direct", 6, at, bytes, NULL, NULL), db, "PUT");
	check(is_stored("direct", source + 1, bytes), "%zu bytes from %s are stored", bytes,
	      memory);
	memset(at, GUARD, bytes);
	must(kvd_get(db, "direct", 6, at, bytes, &item), db, "GET");
	check(item.value_len == bytes && !memcmp(at, source + 1, bytes) &&
		      all_are(arena, 4099, GUARD) &&
		      all_are(at + bytes, ARENA_BYTES - 4099 - bytes, GUARD),
	      "%zu bytes are read to %s, and nothing beside them", bytes, memory);
	check(count_of(KVD_OP_PUT, KVD_PATH_DIRECT) == puts + puts_directly &&
		      count_of(KVD_OP_GET, KVD_PATH_DIRECT) == gets + 1 &&
		      stats_of(db).direct_bytes == counted + (1 + puts_directly) * bytes,
	      "the statistics say that %s not copied", puts_directly ? "both were" : "one was");
}

static void registered(void)
{
	const bool is_softnic = !strncmp(url, "softnic:", 8);
	uint8_t *own = malloc(ARENA_BYTES);
	struct kvd_mem *mem;
	void *addr;

	if (!own)
		die("malloc", "no memory");
	must(kvd_register(db, own, ARENA_BYTES, &mem), db, "register");
	direct(own, 100001, "registered memory", !is_softnic);
	direct(own, VALUE_BYTES, "registered memory", !is_softnic);
	must(kvd_deregister(mem), NULL, "deregister");
	free(own);
	must(kvd_alloc(db, ARENA_BYTES, &addr, &mem), db, "alloc");
	direct(addr, 100001, "memory of kvd_alloc()", true);
	direct(addr, VALUE_BYTES, "memory of kvd_alloc()", true);
	must(kvd_free(mem), NULL, "free");
}

/* Divides @memory among @count pieces, in the opposite order, with gaps. */
static void cut(struct iovec *iov, uint32_t count, uint8_t *memory, size_t bytes)
{
	size_t left = bytes, part = bytes / count;
	uint32_t i;

	for (i = 0; i < count; i++) {
		iov[i].iov_len = i + 1 == count ? left : part - i % 2;
		iov[i].iov_base = memory + (count - 1 - i) * (part + 128);
		left -= iov[i].iov_len;
	}
}

static bool pieces_are(const struct iovec *iov, uint32_t count, const uint8_t *want)
{
	uint32_t i;

	for (i = 0; i < count; want += iov[i++].iov_len)
		if (memcmp(iov[i].iov_base, want, iov[i].iov_len) != 0)
			return false;
	return true;
}

static void pieces(uint8_t *memory, uint32_t count, size_t bytes, bool is_direct)
{
	const uint64_t gets = count_of(KVD_OP_GET, KVD_PATH_DIRECT);
	const uint8_t *from = source;
	struct iovec iov[KVD_IOV_MAX];
	struct kvd_item item;
	uint32_t i;

	cut(iov, count, memory, bytes);
	for (i = 0; i < count; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	must(kvd_putv(db, "pieces", 6, iov, count, NULL, NULL), db, "PUT of pieces");
	check(is_stored("pieces", source, bytes), "%zu bytes in %u pieces are stored", bytes,
	      count);
	memset(memory, GUARD, ARENA_BYTES);
	must(kvd_getv(db, "pieces", 6, iov, count, &item), db, "GET to pieces");
	check(item.value_len == bytes && pieces_are(iov, count, source),
	      "%zu bytes go to %u pieces%s", bytes, count, is_direct ? ", registered" : "");
	check((count_of(KVD_OP_GET, KVD_PATH_DIRECT) > gets) == is_direct, "they are%s copied",
	      is_direct ? " not" : "");
}

static void all_pieces(void)
{
	static const uint32_t counts[] = { 1, 2, KVD_IOV_MAX };
	struct kvd_mem *mem;
	uint8_t *own = malloc(ARENA_BYTES);
	unsigned int i;
	void *addr;

	if (!own)
		die("malloc", "no memory");
	must(kvd_alloc(db, ARENA_BYTES, &addr, &mem), db, "alloc");
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		pieces(own, counts[i], 3000, false);
		pieces(own, counts[i], 600000, false);
		pieces(addr, counts[i], 600000, true);
	}
	must(kvd_free(mem), NULL, "free");
	free(own);
}

/* Several values of two handles are in bounce memory together. */
static void bounced(void)
{
	struct kvd *handles[HANDLES] = { db, other };
	struct kvd_op ops[HANDLES * PUTS_EACH], *op;
	char keys[HANDLES * PUTS_EACH][16];
	const uint64_t pulled = count_of(KVD_OP_PUT, KVD_PATH_PULL);
	unsigned int i, good = 0;

	for (i = 0; i < HANDLES * PUTS_EACH; i++) {
		snprintf(keys[i], sizeof(keys[i]), "bounce%u", i);
		op = &ops[i];
		kvd_prep_put(op, keys[i], strlen(keys[i]), source + i, 300000 + i, NULL);
		must(kvd_submit(handles[i % HANDLES], &op, 1), handles[i % HANDLES], "submit");
	}
	for (i = 0; i < HANDLES; i++)
		while (kvd_outstanding(handles[i]))
			kvd_wait(handles[i], &op, 1, 1, UINT32_MAX);
	for (i = 0; i < HANDLES * PUTS_EACH; i++)
		good += !ops[i].status && is_stored(keys[i], source + i, 300000 + i);
	check(good == HANDLES * PUTS_EACH, "%u of %u values that two handles PUT together", good,
	      HANDLES * PUTS_EACH);
	check(count_of(KVD_OP_PUT, KVD_PATH_PULL) == pulled + PUTS_EACH,
	      "the server READ them from bounce memory");
}

static struct kvd_op counts[KEYS], touches[TOUCHES];
static char count_keys[KEYS][16], touch_values[TOUCHES][16];

/* Closes all connections all the time. */
static void *kill_all_the_time(void *arg)
{
	const struct timespec pause = { .tv_nsec = KILL_PAUSE_NS };
	struct kvd *own = must_open(url);

	while (!atomic_load(&kill_stop)) {
		connections_kill(own);
		nanosleep(&pause, NULL);
	}
	kvd_close(own);
	return arg;
}

/* Whether changes were sent again when a part of what was submitted had been answered. */
static bool round_is_parted(uint64_t round)
{
	static const struct kvd_arith_args create = { .create = 1, .initial = 1 };
	struct kvd_op *list[KEYS + TOUCHES], *done[KEYS + TOUCHES];
	unsigned int i, n = 0;
	uint64_t resent;

	for (i = 0; i < KEYS; i++) {
		kvd_prep_incr(&counts[i], count_keys[i], strlen(count_keys[i]), 1, &create);
		list[n++] = &counts[i];
		if (i >= TOUCHES)
			continue;
		memset(touch_values[i], 0, sizeof(touch_values[i]));
		kvd_prep_get_and_touch(&touches[i], "touched", 7, TTL_S + i, touch_values[i],
				       sizeof(touch_values[i]));
		list[n++] = &touches[i];
	}
	must(kvd_submit(db, list, n), db, "submit");
	kvd_wait(db, done, n, 1 + round % 100, UINT32_MAX);
	resent = stats_of(db).resent;
	while (kvd_outstanding(db))
		kvd_wait(db, done, n, 1, UINT32_MAX);
	return stats_of(db).resent > resent;
}

static unsigned int round_wrong(uint64_t round)
{
	unsigned int i, wrong = 0;

	for (i = 0; i < KEYS; i++)
		wrong += counts[i].status || counts[i].number != round;
	for (i = 0; i < TOUCHES; i++)
		wrong += touches[i].status || strcmp(touch_values[i], "value") != 0 ||
			 !touches[i].item.expires_s;
	return wrong;
}

static void losses(void)
{
	const uint64_t until = clock_ns() + DEADLINE_NS;
	struct kvd_item item;
	unsigned int i, wrong = 0, parted = 0;
	pthread_t killer;
	uint64_t round;

	for (i = 0; i < KEYS; i++)
		snprintf(count_keys[i], sizeof(count_keys[i]), "count%u", i);
	must(kvd_put(db, "touched", 7, "value", 5, NULL, NULL), db, "PUT");
	if (pthread_create(&killer, NULL, kill_all_the_time, NULL))
		die("pthread_create", "no thread");
	for (round = 1;
	     (parted < PARTED_MIN || stats_of(db).repeated < REPEATED_MIN) && clock_ns() < until;
	     round++) {
		parted += round_is_parted(round);
		wrong += round_wrong(round);
	}
	atomic_store(&kill_stop, true);
	pthread_join(killer, NULL);
	check(parted >= PARTED_MIN && stats_of(db).repeated >= REPEATED_MIN,
	      "changes that were partly answered are sent again, also some that were executed");
	check(!wrong, "each was executed once, and each touch answered: %u were not", wrong);
	must(kvd_get(db, "touched", 7, target, sizeof(target), &item), db, "GET");
	check(item.expires_s != 0, "the key that was touched again and again has its time to live");
}

static bool says_the_limit(const struct kvd *handle)
{
	const char *text = kvd_error(handle);
	const char *const parts[] = { "this process may lock ", "KiB of memory (RLIMIT_MEMLOCK)",
				      "ulimit -l", "LimitMEMLOCK=", "CAP_IPC_LOCK" };
	unsigned int i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]) && strstr(text, parts[i]); i++)
		;
	if (i < sizeof(parts) / sizeof(parts[0]))
		printf("no '%s' in: %s\n", parts[i], text);
	return i == sizeof(parts) / sizeof(parts[0]);
}

/* Another process has stored VALUE_BYTES of 'x' as "large". */
static void locked(void)
{
	uint8_t *own = malloc(8 * (size_t)ARENA_BYTES);
	struct kvd_item item;
	struct kvd_mem *mem;
	void *addr;

	if (!own)
		die("malloc", "no memory");
	memset(own, 1, 8 * (size_t)ARENA_BYTES);
	check(kvd_register(db, own, 8 * (size_t)ARENA_BYTES, &mem) == KVD_ERR_NO_MEMORY &&
		      says_the_limit(db),
	      "kvd_register() names the limit");
	check(kvd_alloc(db, 8 * (size_t)ARENA_BYTES, &addr, &mem) == KVD_ERR_NO_MEMORY &&
		      says_the_limit(db),
	      "kvd_alloc() names the limit");
	check(kvd_put(db, "key", 3, own, VALUE_BYTES, NULL, NULL) == KVD_ERR_NO_MEMORY &&
		      says_the_limit(db),
	      "a PUT without bounce memory names the limit");
	check(!kvd_put(db, "key", 3, "Ada", 3, NULL, NULL), "a short PUT is done");
	check(!kvd_get(db, "large", 5, target, sizeof(target), &item) &&
		      item.value_len == VALUE_BYTES && all_are(target, VALUE_BYTES, 'x'),
	      "a large value is read, through little memory");
	free(own);
}

/* Any value, by any way, until the device has died, and then again. */
static void dies(void)
{
	const uint64_t until = clock_ns() + DEADLINE_NS;
	uint8_t *memory;
	struct kvd_mem *mem, *again;
	unsigned int wrong = 0, rounds = 0, after = 0;
	void *addr;

	must(kvd_alloc(db, ARENA_BYTES, &addr, &mem), db, "alloc");
	memory = addr;
	while (after < 20 && clock_ns() < until) {
		memcpy(memory, source + rounds % 2, 300000);
		wrong += kvd_put(db, "direct", 6, memory, 300000, NULL, NULL) != KVD_OK ||
			 kvd_put(db, "plain", 5, source + rounds % 2, 300000, NULL, NULL) != KVD_OK;
		wrong += !is_stored("direct", source + rounds % 2, 300000) ||
			 !is_stored("plain", source + rounds % 2, 300000) ||
			 kvd_get(db, "plain", 5, memory, 300000, NULL) != KVD_OK ||
			 memcmp(memory, source + rounds % 2, 300000) != 0;
		rounds++;
		after += stats_of(db).reconnects && stats_of(other).reconnects;
	}
	check(after == 20, "the device dies, and both handles have another one");
	check(!wrong, "each value of %u rounds is stored and read", rounds);
	must(kvd_register(db, memory, ARENA_BYTES, &again), db, "register");
	direct(memory, 300000, "memory that was registered again", false);
	must(kvd_deregister(again), NULL, "deregister");
	must(kvd_free(mem), NULL, "free");
}

/* Of a value of @len bytes: each of these ends, where pieces or the value begin or end. */
static bool ranges_are(const uint8_t *want, size_t len, uint8_t *memory)
{
	const size_t last = len ? (len - 1) / PIECE_BYTES * PIECE_BYTES : 0;
	const size_t ends[] = { 0, 1, PIECE_BYTES - 1, PIECE_BYTES, last, last + 1, len - 1, len };
	const size_t count = sizeof(ends) / sizeof(ends[0]);
	struct kvd_range range = { .key = "range", .key_len = 5, .value = memory + 1 };
	bool right = true;

	for (size_t i = 0; i < count * count; i++) {
		const size_t at = ends[i / count], end = ends[i % count];

		if (at > end || end > len)
			continue;
		range.offset = at;
		/* A byte more than the value has, where it ends. */
		range.value_size = end - at + (end == len);
		memset(memory, GUARD, end - at + 3);
		right &= !kvd_get_ranges(db, &range, 1) && !range.status &&
			 range.item.value_len == len && memory[0] == GUARD &&
			 !memcmp(memory + 1, want + at, end - at) &&
			 all_are(memory + 1 + end - at, 2, GUARD);
	}
	return right;
}

/* A value that is READ whole, others with a last piece of each kind, and the longest there is. */
static void ranges(void)
{
	size_t lens[] = { 6000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 0 };
	const size_t count = sizeof(lens) / sizeof(lens[0]);
	uint8_t *want, *memory;
	struct kvd_info info;

	kvd_info(db, &info);
	lens[count - 1] = info.value_max;
	want = malloc(info.value_max);
	memory = malloc(info.value_max + 3);
	if (!want || !memory)
		die("malloc", "no memory");
	for (size_t i = 0; i < info.value_max; i++)
		want[i] = (uint8_t)(i * 31 + i / 251);
	for (size_t i = 0; i < count; i++) {
		must(kvd_put(other, "range", 5, want, lens[i], NULL, NULL), other, "PUT");
		check(ranges_are(want, lens[i], memory), "ranges of a value of %zu bytes", lens[i]);
	}
	must(kvd_delete(other, "range", 5), other, "DELETE");
	free(want);
	free(memory);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "all";
	unsigned int i;

	if (argc < 2)
		die("usage", "sys_values URL [locked|dies]");
	url = argv[1];
	for (i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 31 + i / 251);
	db = must_open(url);
	other = must_open(url);
	must(kvd_observe(db, KVD_OBSERVE_OPS), db, "observe");
	if (!strcmp(what, "locked")) {
		locked();
	} else if (!strcmp(what, "dies")) {
		dies();
	} else {
		registered();
		all_pieces();
		ranges();
		bounced();
		losses();
	}
	kvd_close(db);
	kvd_close(other);
	return check_status();
}
