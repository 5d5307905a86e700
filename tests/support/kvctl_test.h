/* SPDX-License-Identifier: MIT */
/*
 * kvctl with a libkvd of the test: functions that note their calls and end as the test says. Each
 * run is a child process (tests/support/program_run.h). The Makefile has the linker put each
 * __wrap_NAME of this file in the place of NAME, in tests whose names begin with test_kvctl.
 */
#ifndef KVD_TESTS_SUPPORT_KVCTL_TEST_H
#define KVD_TESTS_SUPPORT_KVCTL_TEST_H

#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/kvctl/kvctl.h"
#include "client/kvd.h"
#include "tests/support/program_run.h"

#define URL "softnic:///default"
#define OPENED "open " URL " 2000 5000\n"
#define CLOSED "close\n"
#define HANDLE ((struct kvd *)(uintptr_t)&behaviour)
#define KEYS_A_PAGE 2
#define UNDER_WAY_MAX 8

/* The linker looks for them; nothing declares them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_clock_gettime(clockid_t id, struct timespec *time);

/* What libkvd and the C library do in the next runs. */
static struct {
	enum kvd_status open, call; /* these end with */
	enum kvd_status clients;    /* and lists of clients */
	enum kvd_status stopped;    /* and kvd_open() after kvd_shutdown() */
	const char *error;	    /* of the call */
	unsigned int calls_good;    /* pings, scans and submitted PUTs that do not end so */
	struct kvd_item item;	    /* of GETs; its value is the letters from a to z, repeated */
	uint64_t number;	    /* of incr and decr */
	uint64_t clock_ns;	    /* of the server */
	const char *link;	    /* the connection's path, of which softnic has none */
	const struct kvd_entry *entries;
	size_t entry_count;
	const struct kvd_used *used; /* of scans of uses */
	size_t used_count;
	size_t memory_max;    /* longest memory that can be allocated; 0: any */
	const char *texts[4]; /* of the server, one after the other */
	size_t text_count, text_at;
	const char *tenant; /* that the handle asks for */
	bool terminal;	    /* the standard output is one */
	size_t value_max;   /* of the server; 0: large */
	uint32_t members;   /* of the fleet "f": a, b, c... at softnic:///a...; 0: it is none */
	char away;	    /* the one that can't be reached; 0: none */
} behaviour;

static uint64_t now_ns;

static void note_bytes(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	if (len > 40) {
		program_note(" <%zu bytes>", len);
		return;
	}
	program_note(" ");
	for (size_t i = 0; i < len; i++)
		program_note(isgraph(p[i]) ? "%c" : "\\x%02x", p[i]);
}

/* The begin of each call's line: its name and key. */
static void note_call(const struct kvd *handle, const char *call, const void *key, size_t key_len)
{
	program_note("%s%s", handle == HANDLE ? "" : "another handle! ", call);
	note_bytes(key, key_len);
}

enum kvd_status __wrap_kvd_open(struct kvd **handle, const char *url,
				const struct kvd_options *options)
{
	struct kvd_options usual;

	kvd_options_init(&usual);
	usual.timeout_ms = options->timeout_ms;
	usual.connect_timeout_ms = options->connect_timeout_ms;
	usual.tenant = behaviour.tenant;
	if (options->tenant && behaviour.tenant && !strcmp(options->tenant, behaviour.tenant))
		usual.tenant = options->tenant;
	program_note("open %s %u %u%s\n", url, options->timeout_ms, options->connect_timeout_ms,
		     memcmp(&usual, options, sizeof(usual)) ? " other options!" : "");
	if (behaviour.away && !strncmp(url, "softnic:///", 11) && url[11] == behaviour.away) {
		*handle = NULL;
		return KVD_ERR_UNREACHABLE;
	}
	*handle = behaviour.open ? NULL : HANDLE;
	return behaviour.open;
}

void __wrap_kvd_close(struct kvd *handle)
{
	program_note(handle == HANDLE ? CLOSED : "close of another handle!");
}

const char *__wrap_kvd_error(const struct kvd *handle)
{
	if (behaviour.error)
		return behaviour.error;
	return handle ? "" : "no socket there";
}

static enum kvd_status get_answer(void *value, size_t size, struct kvd_item *item)
{
	memset(item, 0xff, sizeof(*item)); /* of a call that fails it says nothing */
	if (behaviour.call)
		return behaviour.call;
	*item = behaviour.item;
	if (item->value_len > size)
		return KVD_ERR_BUFFER;
	for (size_t i = 0; i < item->value_len; i++)
		((char *)value)[i] = (char)('a' + i % 26);
	return KVD_OK;
}

enum kvd_status __wrap_kvd_get(struct kvd *handle, const void *key, size_t key_len, void *value,
			       size_t size, struct kvd_item *item)
{
	note_call(handle, "get", key, key_len);
	program_note(" %zu\n", size);
	return get_answer(value, size, item);
}

enum kvd_status __wrap_kvd_get_by_request(struct kvd *handle, const void *key, size_t key_len,
					  void *value, size_t size, struct kvd_item *item)
{
	note_call(handle, "request", key, key_len);
	program_note(" %zu\n", size);
	return get_answer(value, size, item);
}

enum kvd_status __wrap_kvd_get_range(struct kvd *handle, const void *key, size_t key_len,
				     size_t offset, void *value, size_t size, struct kvd_item *item)
{
	enum kvd_status status;

	note_call(handle, "range", key, key_len);
	program_note(" %zu %zu\n", offset, size);
	status = get_answer(value, size, item);
	return status == KVD_ERR_BUFFER ? KVD_OK : status;
}

enum kvd_status __wrap_kvd_get_and_touch(struct kvd *handle, const void *key, size_t key_len,
					 uint32_t ttl_s, void *value, size_t size,
					 struct kvd_item *item)
{
	note_call(handle, "gat", key, key_len);
	program_note(" ttl %u %zu\n", ttl_s, size);
	return get_answer(value, size, item);
}

/* Every second key exists, from the first one on. */
enum kvd_status __wrap_kvd_exists_many(struct kvd *handle, const struct kvd_key *keys, size_t count,
				       struct kvd_exists *results, size_t *present)
{
	note_call(handle, "exists", "", 0);
	for (size_t i = 0; i < count; i++) {
		note_bytes(keys[i].key, keys[i].key_len);
		results[i] = (struct kvd_exists){ .status = i % 2 ? KVD_NOT_FOUND : KVD_OK,
						  .item = behaviour.item };
	}
	program_note("\n");
	if (present)
		*present = (count + 1) / 2;
	return behaviour.call;
}

uint64_t __wrap_kvd_clock_ns(const struct kvd *handle)
{
	note_call(handle, "clock", "", 0);
	program_note("\n");
	return behaviour.clock_ns;
}

static const char *const put_modes[] = {
	"set", "absent", "present", "version", "append", "prepend"
};

enum kvd_status __wrap_kvd_put(struct kvd *handle, const void *key, size_t key_len,
			       const void *value, size_t value_len, const struct kvd_put_args *args,
			       uint64_t *version)
{
	*version = 42;
	note_call(handle, put_modes[args->mode], key, key_len);
	note_bytes(value, value_len);
	program_note(" flags %u ttl %u pin %u low %d if %llu\n", args->flags, args->ttl_s,
		     args->pin_s, args->priority == KVD_PRIORITY_LOW,
		     (unsigned long long)args->if_version);
	return behaviour.call;
}

/* PUTs that are under way. */
static struct {
	struct kvd_op *ops[UNDER_WAY_MAX];
	size_t count;
} under_way;

enum kvd_status __wrap_kvd_submit(struct kvd *handle, struct kvd_op *const *ops, size_t count)
{
	struct kvd_op *op = *ops;
	char call[32];

	assert_true(count == 1 && op->op == KVD_OP_PUT && under_way.count < UNDER_WAY_MAX);
	under_way.ops[under_way.count++] = op;
	snprintf(call, sizeof(call), "submit %s", put_modes[op->mode]);
	note_call(handle, call, op->key, op->key_len);
	note_bytes(op->value, op->value_len);
	program_note(" flags %u ttl %u pin %u low %d if %llu\n", op->flags, op->ttl_s, op->pin_s,
		     op->priority == KVD_PRIORITY_LOW, (unsigned long long)op->if_version);
	return KVD_OK;
}

/* All of them end. */
size_t __wrap_kvd_wait(struct kvd *handle, struct kvd_op **done, size_t max, size_t min,
		       uint32_t timeout_ms)
{
	const size_t count = under_way.count;

	(void)handle, (void)min, (void)timeout_ms;
	assert_true(max >= count);
	for (size_t i = 0; i < count; i++) {
		done[i] = under_way.ops[i];
		done[i]->status = behaviour.call && !behaviour.calls_good-- ? behaviour.call :
									      KVD_OK;
	}
	under_way.count = 0;
	return count;
}

size_t __wrap_kvd_outstanding(const struct kvd *handle)
{
	(void)handle;
	return under_way.count;
}

static enum kvd_status arith_answer(const char *call, struct kvd *handle, const void *key,
				    size_t key_len, uint64_t delta,
				    const struct kvd_arith_args *args, uint64_t *number)
{
	note_call(handle, call, key, key_len);
	program_note(" by %llu create %u flags %u ttl %u initial %llu\n", (unsigned long long)delta,
		     args->create, args->flags, args->ttl_s, (unsigned long long)args->initial);
	*number = behaviour.number;
	return behaviour.call;
}

enum kvd_status __wrap_kvd_incr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
				const struct kvd_arith_args *args, uint64_t *number,
				uint64_t *version)
{
	*version = 42;
	return arith_answer("incr", handle, key, key_len, delta, args, number);
}

enum kvd_status __wrap_kvd_decr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
				const struct kvd_arith_args *args, uint64_t *number,
				uint64_t *version)
{
	*version = 42;
	return arith_answer("decr", handle, key, key_len, delta, args, number);
}

enum kvd_status __wrap_kvd_touch(struct kvd *handle, const void *key, size_t key_len,
				 uint32_t ttl_s, uint64_t *version)
{
	*version = 42;
	note_call(handle, "touch", key, key_len);
	program_note(" ttl %u\n", ttl_s);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_delete(struct kvd *handle, const void *key, size_t key_len)
{
	note_call(handle, "delete", key, key_len);
	program_note("\n");
	return behaviour.call;
}

/* The cursor is the number of the page. What is wanted of a page stands in the notes. */
enum kvd_status __wrap_kvd_scan(struct kvd *handle, uint64_t *cursor,
				const struct kvd_scan_args *args, kvd_entry_fn each, void *arg)
{
	const size_t from = *cursor * KEYS_A_PAGE;
	size_t i;

	note_call(handle, "scan", args->prefix, args->prefix_len);
	program_note(" %llu%s\n", (unsigned long long)*cursor, args->values ? " values" : "");
	if (behaviour.call && !behaviour.calls_good--)
		return behaviour.call;
	for (i = from; i < from + KEYS_A_PAGE && i < behaviour.entry_count; i++)
		if (each(arg, &behaviour.entries[i]))
			return KVD_OK;
	*cursor = i < behaviour.entry_count ? *cursor + 1 : 0;
	return KVD_OK;
}

enum kvd_status __wrap_kvd_scan_uses(struct kvd *handle, uint64_t *cursor,
				     const struct kvd_scan_args *args, kvd_used_fn each, void *arg)
{
	const size_t from = *cursor * KEYS_A_PAGE;
	size_t i;

	note_call(handle, "uses", args->prefix, args->prefix_len);
	program_note(" %llu%s\n", (unsigned long long)*cursor, args->values ? " values!" : "");
	if (behaviour.call && !behaviour.calls_good--)
		return behaviour.call;
	for (i = from; i < from + KEYS_A_PAGE && i < behaviour.used_count; i++)
		if (each(arg, &behaviour.used[i]))
			return KVD_OK;
	*cursor = i < behaviour.used_count ? *cursor + 1 : 0;
	return KVD_OK;
}

enum kvd_status __wrap_kvd_flush_start(struct kvd *handle, uint32_t delay_s, uint64_t *ticket)
{
	(void)ticket;
	note_call(handle, "flush in", "", 0);
	program_note("%u\n", delay_s);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_flush_cancel(struct kvd *handle, uint64_t ticket, int any_owner,
					uint64_t *cancelled)
{
	note_call(handle, any_owner ? "cancel any" : "cancel own", "", 0);
	program_note("%llu\n", (unsigned long long)ticket);
	*cancelled = 3;
	return behaviour.call;
}

enum kvd_status __wrap_kvd_flush_all(struct kvd *handle)
{
	note_call(handle, "flush all", "", 0);
	program_note("\n");
	return behaviour.call;
}

static enum kvd_status text_answer(const char *call, struct kvd *handle, char *text, size_t size)
{
	note_call(handle, call, "", 0);
	program_note("%zu\n", size);
	memset(text, 'x', size); /* what a failed call leaves is nobody's text */
	if (!behaviour.call && behaviour.text_count)
		snprintf(text, size, "%s",
			 behaviour.texts[behaviour.text_count > 1 ? behaviour.text_at++ : 0]);
	else if (!behaviour.call)
		snprintf(text, size, "%s of a server\n", call);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_client_list(struct kvd *handle, char *text, size_t size, size_t *len)
{
	const enum kvd_status status = text_answer("clients", handle, text, size);

	(void)len;
	return behaviour.clients ? behaviour.clients : status;
}

enum kvd_status __wrap_kvd_server_stats(struct kvd *handle, char *text, size_t size, size_t *len)
{
	(void)len;
	return text_answer("stats", handle, text, size);
}

enum kvd_status __wrap_kvd_tenant_list(struct kvd *handle, char *text, size_t size, size_t *len)
{
	(void)len;
	return text_answer("tenants", handle, text, size);
}

enum kvd_status __wrap_kvd_tenant_create(struct kvd *handle, const char *name, uint64_t bytes)
{
	note_call(handle, "create", "", 0);
	program_note("%s %llu\n", name, (unsigned long long)bytes);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_tenant_resize(struct kvd *handle, const char *name, uint64_t bytes)
{
	note_call(handle, "resize", "", 0);
	program_note("%s %llu\n", name, (unsigned long long)bytes);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_tenant_drop(struct kvd *handle, const char *name)
{
	note_call(handle, "drop", "", 0);
	program_note("%s\n", name);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_shutdown(struct kvd *handle)
{
	note_call(handle, "shutdown", "", 0);
	program_note("\n");
	behaviour.open = behaviour.call ? KVD_OK : behaviour.stopped;
	return behaviour.call;
}

enum kvd_status __wrap_kvd_whoami(struct kvd *handle, char *text, size_t size, size_t *len)
{
	(void)len;
	note_call(handle, "whoami", "", 0);
	program_note("\n");
	if (!behaviour.call)
		snprintf(text, size, "%s", behaviour.texts[0]);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_server_report(struct kvd *handle, enum kvd_report report, char *text,
					 size_t size, size_t *len)
{
	static const char *const names[] = {
		[KVD_REPORT_SLOW] = "slow log",
		[KVD_REPORT_RESET] = "reset",
		[KVD_REPORT_LOG] = "log",
		[KVD_REPORT_PROCESS] = "process",
	};
	const enum kvd_status status = text_answer(names[report], handle, text, size);

	if (!status && len)
		*len = strlen(text);
	return status;
}

/* Each call takes the next text; the cursor is 10 after the first one. */
enum kvd_status __wrap_kvd_sample(struct kvd *handle, uint32_t every, uint64_t *cursor, char *text,
				  size_t size, size_t *len)
{
	char call[32];

	(void)len;
	snprintf(call, sizeof(call), "sample %u from %llu", every, (unsigned long long)*cursor);
	*cursor = 10;
	return text_answer(call, handle, text, size);
}

enum kvd_status __wrap_kvd_config_get(struct kvd *handle, char *text, size_t size, size_t *len)
{
	(void)len;
	note_call(handle, "config get", "", 0);
	program_note("\n");
	if (!behaviour.call)
		snprintf(text, size, "%s", behaviour.texts[0]);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_config_set(struct kvd *handle, const char *assignments)
{
	note_call(handle, "config set", assignments, strlen(assignments));
	program_note("\n");
	return behaviour.call;
}

enum kvd_status __wrap_kvd_config_rewrite(struct kvd *handle, char *text, size_t size, size_t *len)
{
	note_call(handle, "config rewrite", "", 0);
	program_note("\n");
	if (!behaviour.call)
		*len = (size_t)snprintf(text, size, "%s", behaviour.texts[0]);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_client_kill(struct kvd *handle, uint64_t id)
{
	note_call(handle, "kill", "", 0);
	program_note("%llu\n", (unsigned long long)id);
	return behaviour.call;
}

enum kvd_status __wrap_kvd_revoke(struct kvd *handle, const char *who, uint64_t *closed)
{
	note_call(handle, "revoke", who, strlen(who));
	program_note("\n");
	*closed = 7;
	return behaviour.call;
}

enum kvd_status __wrap_kvd_fleet_info(struct kvd *handle, struct kvd_fleet_info *info, size_t size)
{
	assert_true(handle == HANDLE && size == sizeof(*info));
	*info = (struct kvd_fleet_info){
		.name = "f", .epoch = 9, .shards = 16384, .members = behaviour.members
	};
	return behaviour.members ? KVD_OK : KVD_ERR_INVALID;
}

enum kvd_status __wrap_kvd_fleet_member(struct kvd *handle, uint32_t number,
					struct kvd_fleet_member *member, size_t size)
{
	assert_true(handle == HANDLE && size == sizeof(*member) && number < behaviour.members);
	*member = (struct kvd_fleet_member){ .weight = 1, .shards = 16384 / behaviour.members };
	snprintf(member->id, sizeof(member->id), "%c", 'a' + (int)number);
	snprintf(member->urls, sizeof(member->urls), "rdma://%c,softnic:///%c", 'a' + (int)number,
		 'a' + (int)number);
	return KVD_OK;
}

void __wrap_kvd_info(const struct kvd *handle, struct kvd_info *info)
{
	assert_ptr_equal(handle, HANDLE);
	*info = (struct kvd_info){
		.tenant = behaviour.tenant ? behaviour.tenant : "",
		.device_kind = "softnic",
		.device_name = "softnic0",
		.device_why = "the URL says so",
		.device_link = behaviour.link ? behaviour.link : "",
		.incarnation = 0xabcdef0123456,
		.region_bytes = 1ull << 40,
		.value_max = behaviour.value_max ? behaviour.value_max : 1ull << 33,
		.window = 11,
		.request_bytes = 8192,
		.cache_bytes = 1ull << 34,
		.buckets = 1ull << 35,
		.clock_error_ns = 5000000000,
		.access_rate = 16,
	};
}

/* Takes 1.25 us, and the next one as much more. */
enum kvd_status __wrap_kvd_ping(struct kvd *handle)
{
	static uint64_t took_ns;

	note_call(handle, "ping", "", 0);
	now_ns += took_ns += 1250;
	return behaviour.call && !behaviour.calls_good-- ? behaviour.call : KVD_OK;
}

/* The time that a PING takes passes; other clocks go on. */
int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, time);
	*time = (struct timespec){ .tv_nsec = (long)now_ns };
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)left;
	now_ns += (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
	return 0;
}

void *__wrap_malloc(size_t size)
{
	return behaviour.memory_max && size > behaviour.memory_max ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	if (behaviour.memory_max && size > behaviour.memory_max)
		return NULL;
	return __real_realloc(memory, size);
}

int __wrap_isatty(int fd)
{
	return behaviour.terminal && fd == STDOUT_FILENO;
}

const char *__wrap_kvd_default_url(char buffer[KVD_URL_MAX])
{
	(void)buffer;
	return URL;
}

#define RUN(...) program_run(kvctl_main, "kvctl", (const char *const[]){ __VA_ARGS__, NULL })

/* kvctl with these arguments makes these calls, between those that open and close the handle. */
#define assert_calls(calls, ...)                                                                   \
	do {                                                                                       \
		assert_int_equal(RUN(__VA_ARGS__), EX_OK);                                         \
		assert_string_equal(program_result.notes, OPENED calls CLOSED);                    \
		assert_string_equal(program_result.err, "");                                       \
	} while (0)

/* kvctl ends with this status and error, whatever it called. */
#define assert_fails(status, text, ...)                                                            \
	do {                                                                                       \
		assert_int_equal(RUN(__VA_ARGS__), status);                                        \
		assert_string_equal(program_result.err, text);                                     \
	} while (0)

/* The server is not asked for what is wrong. */
#define assert_usage(text, ...)                                                                    \
	do {                                                                                       \
		assert_fails(EX_USAGE, text, __VA_ARGS__);                                         \
		assert_true(!strcmp(program_result.notes, "") ||                                   \
			    !strcmp(program_result.notes, OPENED CLOSED));                         \
	} while (0)

static inline int kvctl_setup(void **state)
{
	(void)state;
	memset(&behaviour, 0, sizeof(behaviour));
	memset(&program_files, 0, sizeof(program_files));
	return 0;
}

#endif /* KVD_TESTS_SUPPORT_KVCTL_TEST_H */
