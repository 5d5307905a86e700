/* SPDX-License-Identifier: MIT */
/*
 * What kvd.h promises of a call that fails, with a real server over softnic: the old value stands
 * where there is no space, a flush goes on whose call has timed out. And of a new handle.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/handle.h"
#include "tests/support/local_server.h"
#include "tests/support/users_file.h"

#define OLD_BYTES 1000u
#define LONG_BYTES 400000u
#define PATIENT_MS 300000u

static const char *url;
static uint8_t value[LONG_BYTES], found[LONG_BYTES];

static struct kvd *open_with(uint32_t timeout_ms)
{
	struct kvd_options options;

	kvd_options_init(&options);
	options.timeout_ms = timeout_ms;
	options.connect_timeout_ms = PATIENT_MS;
	return local_server_open(url, &options);
}

/* Stores values of @bytes until there is no space for one more. */
static void fill_with(struct kvd *db, size_t bytes)
{
	enum kvd_status status = KVD_OK;
	char key[32];
	unsigned int i;

	for (i = 0; !status; i++) {
		snprintf(key, sizeof(key), "%zu-%u", bytes, i);
		status = kvd_put(db, key, strlen(key), value, bytes, NULL, NULL);
	}
	assert_int_equal(status, KVD_ERR_NO_SPACE);
	assert_non_null(strstr(kvd_error(db), "memory.size"));
}

static void no_space_leaves_the_old_value(void **state)
{
	static const enum kvd_put_mode modes[] = { KVD_PUT_SET, KVD_PUT_IF_PRESENT,
						   KVD_PUT_IF_VERSION, KVD_PUT_APPEND,
						   KVD_PUT_PREPEND };
	struct kvd_put_args args = { .flags = 77 };
	struct kvd *db = open_with(PATIENT_MS);
	struct kvd_item item;
	uint64_t version, other = 5;
	unsigned int i;

	(void)state;
	memset(value, 0x5a, sizeof(value));
	assert_int_equal(kvd_put(db, "old", 3, value, OLD_BYTES, &args, &version), KVD_OK);
	memset(value, 0xa5, sizeof(value));
	fill_with(db, LONG_BYTES);
	fill_with(db, 20000);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		args = (struct kvd_put_args){ .mode = modes[i] };
		if (modes[i] == KVD_PUT_IF_VERSION)
			args.if_version = version;
		assert_int_equal(kvd_put(db, "old", 3, value, LONG_BYTES, &args, &other),
				 KVD_ERR_NO_SPACE);
		assert_true(other == 5);
		memset(found, 0, sizeof(found));
		assert_int_equal(kvd_get(db, "old", 3, found, sizeof(found), &item), KVD_OK);
		assert_int_equal(item.value_len, OLD_BYTES);
		assert_true(item.version == version);
		assert_int_equal(item.flags, 77);
		assert_int_equal(item.expires_s, 0);
		assert_int_equal(found[0], 0x5a);
		assert_int_equal(found[OLD_BYTES - 1], 0x5a);
	}
	/* Nor is there a new key where there was none. */
	assert_int_equal(kvd_put(db, "new", 3, value, LONG_BYTES, NULL, NULL), KVD_ERR_NO_SPACE);
	assert_int_equal(kvd_get(db, "new", 3, found, sizeof(found), NULL), KVD_NOT_FOUND);
	assert_int_equal(kvd_flush_all(db), KVD_OK);
	assert_int_equal(kvd_put(db, "new", 3, value, LONG_BYTES, NULL, NULL), KVD_OK);
	kvd_close(db);
}

/* A flush that takes the only request of a second: the next one comes after its timeout. */
static enum kvd_status flush_with_the_last_request(struct kvd *db)
{
	enum kvd_status status;

	do
		status = kvd_put(db, "key", 3, "value", 5, NULL, NULL);
	while (status == KVD_ERR_LIMIT);
	assert_int_equal(status, KVD_OK);
	assert_int_equal(kvd_get(db, "key", 3, found, sizeof(found), NULL), KVD_OK);
	while (!kvd_ping(db))
		;
	db->options.timeout_ms = 100;
	do
		status = kvd_flush_all(db);
	while (status == KVD_ERR_LIMIT);
	db->options.timeout_ms = PATIENT_MS;
	return status;
}

/*
 * The user's limit, which is used up when the flush begins, refuses to say that it is done; it goes
 * on all the same. GETs by READ are not limited.
 */
static void a_flush_that_timed_out_goes_on(void **state)
{
	struct kvd *db = open_with(PATIENT_MS);
	enum kvd_status status;

	(void)state;
	while (flush_with_the_last_request(db) != KVD_ERR_TIMEOUT ||
	       !strstr(kvd_error(db), "it goes on"))
		;
	do
		status = kvd_get(db, "key", 3, found, sizeof(found), NULL);
	while (status == KVD_OK);
	assert_int_equal(status, KVD_NOT_FOUND);
	kvd_close(db);
}

static char lines[2048]; /* that were logged, each with its level before it */

static void note_line(void *user, enum kvd_log_level level, const char *text)
{
	size_t used = strlen(lines);

	(void)user;
	snprintf(lines + used, sizeof(lines) - used, "%d %s\n", (int)level, text);
}

/* A new handle has done nothing, HELLO does not count; its start and its end are logged. */
static void a_new_handle(void **state)
{
	static const struct kvd_stats nothing;
	struct kvd_stats stats;
	struct kvd_info info;
	struct kvd *db;

	(void)state;
	lines[0] = '\0';
	assert_int_equal(kvd_set_log(KVD_LOG_INFO, note_line, NULL), KVD_OK);
	db = open_with(PATIENT_MS);
	kvd_stats(db, &stats);
	assert_memory_equal(&stats, &nothing, sizeof(stats));
	assert_string_equal(kvd_error(db), "");
	kvd_info(db, &info);
	assert_string_equal(info.connection, "up");
	assert_int_equal(info.reconnects, 0);
	assert_non_null(strstr(lines, "4 connected to "));
	assert_non_null(strstr(lines, " us: softnic device softnic"));
	assert_null(strstr(lines, "is closed"));
	kvd_close(db);
	assert_non_null(strstr(lines, "4 the connection to "));
	assert_non_null(strstr(lines, " is closed\n"));
	kvd_set_log(KVD_LOG_OFF, NULL, NULL);
}

/* Softnic's completions and events have one descriptor. */
static void the_descriptor(void **state)
{
	struct kvd_op op, *list[] = { &op }, *done[1];
	struct kvd *db = open_with(PATIENT_MS);
	struct pollfd p = { .fd = kvd_fd(db), .events = POLLIN };

	(void)state;
	assert_true(p.fd >= 0);
	kvd_prep_ping(&op);
	assert_int_equal(kvd_submit(db, list, 1), KVD_OK);
	while (!kvd_poll(db, done, 1))
		if (!kvd_arm(db))
			assert_int_equal(poll(&p, 1, (int)PATIENT_MS), 1);
	assert_int_equal(op.status, KVD_OK);
	kvd_close(db);
}

/* The cases of a server with these options. */
static int run(const char *const *options, const struct CMUnitTest *tests, size_t count)
{
	int failed;

	url = local_server_begin(options);
	failed = _cmocka_run_group_tests("promises", tests, count, NULL, NULL);
	return local_server_end() ? failed : 1;
}

int main(void)
{
	static const char *const small[] = { "memory.size=16m", "memory.eviction=none",
					     "limits.max_value=1m", NULL };
	char option[USERS_OPTION_BYTES];
	const char *const limited[] = { "memory.size=16m", option, NULL };
	const struct CMUnitTest plain[] = {
		cmocka_unit_test(no_space_leaves_the_old_value),
		cmocka_unit_test(a_new_handle),
		cmocka_unit_test(the_descriptor),
	};
	const struct CMUnitTest with_limits[] = {
		cmocka_unit_test(a_flush_that_timed_out_goes_on),
	};
	int failed;

	local_server_init();
	failed = run(small, plain, sizeof(plain) / sizeof(plain[0]));
	users_option_begin(option, "[user *]\nrights = all\nrequests = 1\n");
	failed += run(limited, with_limits, 1);
	users_option_end(option);
	return failed;
}
