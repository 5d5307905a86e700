/* SPDX-License-Identifier: MIT */
/*
 * Arguments out of their range, which libkvd refuses before it does anything: each with
 * KVD_ERR_INVALID and a text that names what is wrong; nothing is sent, READ or written, and the
 * handle goes on. And those at the border, which are allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/calls.h"

#define LONG_TTL (KVD_TTL_MAX + 1)
/* The low 16 and 32 bits of these are 1. */
#define WRAPS_16 ((1u << 16) + 1)
#define WRAPS_32 ((1ull << 32) + 1)

static struct fake_server *server;
static struct kvd *kvd;
static uint64_t key = 2;
static char buffer[4096];

static int setup(void **state)
{
	(void)state;
	server = calls_open();
	kvd = &server->kvd;
	return 0;
}

/* The arguments. */
static enum kvd_status put_with(const struct kvd_put_args *args)
{
	return kvd_put(kvd, &key, 8, "x", 1, args, NULL);
}

static enum kvd_status put_ttl(void)
{
	return put_with(&(struct kvd_put_args){ .ttl_s = LONG_TTL });
}

static enum kvd_status put_mode(void)
{
	return put_with(&(struct kvd_put_args){ .mode = (enum kvd_put_mode)6 });
}

static enum kvd_status put_priority(void)
{
	return put_with(&(struct kvd_put_args){ .priority = (enum kvd_priority)2 });
}

static enum kvd_status put_append_priority(void)
{
	return put_with(&(struct kvd_put_args){ .mode = KVD_PUT_APPEND, .priority = 1 });
}

static enum kvd_status put_append_flags(void)
{
	return put_with(&(struct kvd_put_args){ .mode = KVD_PUT_APPEND, .flags = 1 });
}

static enum kvd_status put_prepend_ttl(void)
{
	return put_with(&(struct kvd_put_args){ .mode = KVD_PUT_PREPEND, .ttl_s = 1 });
}

static enum kvd_status put_version(void)
{
	return put_with(&(struct kvd_put_args){ .if_version = 1 });
}

static enum kvd_status put_pin(void)
{
	return put_with(&(struct kvd_put_args){ .pin_s = LONG_TTL });
}

static enum kvd_status put_version_pin(void)
{
	return put_with(&(struct kvd_put_args){ .mode = KVD_PUT_IF_VERSION, .pin_s = 1 });
}

static enum kvd_status get_and_touch_ttl(void)
{
	return kvd_get_and_touch(kvd, &key, 8, LONG_TTL, buffer, sizeof(buffer), NULL);
}

static enum kvd_status touch_ttl(void)
{
	return kvd_touch(kvd, &key, 8, LONG_TTL, NULL);
}

static enum kvd_status incr_with(const struct kvd_arith_args *args)
{
	enum kvd_status status = kvd_incr(kvd, &key, 8, 1, args, NULL, NULL);

	assert_int_equal(kvd_decr(kvd, &key, 8, 1, args, NULL, NULL), status);
	return status;
}

static enum kvd_status incr_ttl(void)
{
	return incr_with(&(struct kvd_arith_args){ .create = 1, .ttl_s = LONG_TTL });
}

static enum kvd_status incr_initial(void)
{
	return incr_with(&(struct kvd_arith_args){ .initial = 1 });
}

static enum kvd_status incr_flags(void)
{
	return incr_with(&(struct kvd_arith_args){ .flags = 1 });
}

static enum kvd_status incr_ttl_alone(void)
{
	return incr_with(&(struct kvd_arith_args){ .ttl_s = 1 });
}

static enum kvd_status flush_delay(void)
{
	return kvd_flush_start(kvd, LONG_TTL, NULL);
}

static enum kvd_status flush_ticket(void)
{
	return kvd_flush_done(kvd, 0);
}

static int no_entry(void *arg, const struct kvd_entry *entry)
{
	(void)arg, (void)entry;
	fail();
	return 0;
}

static enum kvd_status scan_prefix(void)
{
	const struct kvd_scan_args args = { .prefix = buffer, .prefix_len = KVD_KEY_MAX + 1 };
	uint64_t cursor = 0;

	return kvd_scan(kvd, &cursor, &args, no_entry, NULL);
}

static enum kvd_status stats_size(void)
{
	return kvd_server_stats(kvd, buffer, 0, NULL);
}

static enum kvd_status list_size(void)
{
	return kvd_client_list(kvd, buffer, 0, NULL);
}

/* As a PUT and a GET alike. */
static enum kvd_status pieces(const struct iovec *iov, uint32_t count)
{
	assert_int_equal(kvd_getv(kvd, &key, 8, iov, count, NULL), KVD_ERR_INVALID);
	return kvd_putv(kvd, &key, 8, iov, count, NULL, NULL);
}

static enum kvd_status pieces_null(void)
{
	return pieces(NULL, 1);
}

static enum kvd_status pieces_many(void)
{
	struct iovec iov[KVD_IOV_MAX + 1] = { { buffer, 1 } };

	return pieces(iov, KVD_IOV_MAX + 1);
}

static enum kvd_status piece_long(void)
{
	const struct iovec iov[2] = { { buffer, 1 }, { buffer, KVD_VALUE_MAX + 1ul } };

	return pieces(iov, 2);
}

static enum kvd_status piece_null(void)
{
	const struct iovec iov[2] = { { NULL, 0 }, { NULL, 1 } };

	return pieces(iov, 2);
}

/* Submitted operations. */
static enum kvd_status submit(struct kvd_op *op)
{
	struct kvd_op ping, *list[] = { &ping, op };
	enum kvd_status status;

	kvd_prep_ping(&ping);
	status = kvd_submit(kvd, list, 2);
	/* All or none. */
	assert_int_equal(kvd_outstanding(kvd), 0);
	assert_int_equal(kvd_cancel(kvd, &ping), KVD_ERR_INVALID);
	return status ? kvd_submit(kvd, list, 2) : status;
}

static enum kvd_status submit_scan(void)
{
	struct kvd_op op;

	kvd_prep(&op, KVD_OP_SCAN, &key, 8);
	return submit(&op);
}

static enum kvd_status submit_unknown(void)
{
	struct kvd_op op;

	kvd_prep(&op, (enum kvd_opcode)12, &key, 8);
	return submit(&op);
}

static enum kvd_status submit_delete_mode(void)
{
	struct kvd_op op;

	kvd_prep_delete(&op, &key, 8);
	op.mode = KVD_PUT_IF_ABSENT;
	return submit(&op);
}

static enum kvd_status submit_delete_version(void)
{
	struct kvd_op op;

	kvd_prep_delete(&op, &key, 8);
	op.if_version = 1;
	return submit(&op);
}

static enum kvd_status submit_delete_pieces(void)
{
	const struct iovec iov = { buffer, 1 };
	struct kvd_op op;

	kvd_prep_delete(&op, &key, 8);
	op.iov = &iov;
	op.iov_count = 1;
	return submit(&op);
}

static enum kvd_status submit_both_values(void)
{
	const struct iovec iov = { buffer, 1 };
	struct kvd_op op;

	kvd_prep_getv(&op, &key, 8, &iov, 1);
	op.value = buffer;
	op.value_len = 1;
	return submit(&op);
}

static enum kvd_status submit_unprepared(void)
{
	struct kvd_op op;

	kvd_prep_ping(&op);
	memset(op.reserved, 0xff, sizeof(op.reserved));
	return submit(&op);
}

static enum kvd_status submit_twice(void)
{
	struct kvd_op op, *list[] = { &op, &op };

	kvd_prep_ping(&op);
	return kvd_submit(kvd, list, 2);
}

static enum kvd_status arm_without_fd(void)
{
	return kvd_arm(kvd);
}

static enum kvd_status register_around(void)
{
	struct kvd_mem *mem = (struct kvd_mem *)(void *)buffer;
	enum kvd_status status = kvd_register(kvd, buffer, SIZE_MAX - 100, &mem);

	assert_null(mem);
	return status;
}

static enum kvd_status register_twice(void)
{
	struct kvd_mem *first, *mem = (struct kvd_mem *)(void *)buffer;
	enum kvd_status status;

	assert_int_equal(kvd_register(kvd, buffer, 100, &first), KVD_OK);
	status = kvd_register(kvd, buffer + 99, 100, &mem);
	assert_null(mem);
	assert_int_equal(kvd_deregister(first), KVD_OK);
	return status;
}

static enum kvd_status observe_flags(void)
{
	return kvd_observe(kvd, 2);
}

static const struct {
	const char *name, *text;
	enum kvd_status (*run)(void);
} refusals[] = {
	{ "kvd_put: ttl_s", "at most 1073741824", put_ttl },
	{ "kvd_put: mode", "6 is not a mode", put_mode },
	{ "kvd_put: priority", "2 is not a priority", put_priority },
	{ "kvd_put: priority and append", "priority must be 0", put_append_priority },
	{ "kvd_put: flags and append", "flags and ttl_s must be 0", put_append_flags },
	{ "kvd_put: ttl_s and prepend", "flags and ttl_s must be 0", put_prepend_ttl },
	{ "kvd_put: if_version", "KVD_PUT_IF_VERSION only", put_version },
	{ "kvd_put: pin_s", "pin_s is at most", put_pin },
	{ "kvd_put: pin_s and if_version", "pin_s is not for", put_version_pin },
	{ "kvd_get_and_touch: ttl_s", "at most 1073741824", get_and_touch_ttl },
	{ "kvd_touch: ttl_s", "at most 1073741824", touch_ttl },
	{ "kvd_incr: ttl_s", "at most 1073741824", incr_ttl },
	{ "kvd_incr: initial", "need create", incr_initial },
	{ "kvd_incr: flags", "need create", incr_flags },
	{ "kvd_incr: ttl_s without create", "need create", incr_ttl_alone },
	{ "kvd_flush_start: delay_s", "at most 1073741824", flush_delay },
	{ "kvd_flush_done: ticket", "0 is not a ticket", flush_ticket },
	{ "kvd_scan: prefix_len", "1025 bytes: 0 to 1024", scan_prefix },
	{ "kvd_server_stats: size", "no room", stats_size },
	{ "kvd_client_list: size", "no room", list_size },
	{ "iov NULL", "has 1 pieces: 64", pieces_null },
	{ "iov_count", "has 65 pieces: 64", pieces_many },
	{ "a piece too long", "piece 1 of iov", piece_long },
	{ "a piece that is NULL", "piece 1 of iov", piece_null },
	{ "kvd_submit of a SCAN", "3 is not an operation", submit_scan },
	{ "kvd_submit: op", "12 is not an operation", submit_unknown },
	{ "kvd_submit of a DELETE: mode", "mode of a DELETE", submit_delete_mode },
	{ "kvd_submit of a DELETE: if_version", "KVD_PUT_IF_VERSION only", submit_delete_version },
	{ "kvd_submit of a DELETE: iov", "iov is for GETs and PUTs", submit_delete_pieces },
	{ "kvd_submit: value and iov", "as kvd_prep_getv()", submit_both_values },
	{ "kvd_submit: not prepared", "not prepared", submit_unprepared },
	{ "kvd_submit twice", "is submitted already", submit_twice },
	{ "kvd_arm before kvd_fd", "kvd_fd() was not called", arm_without_fd },
	{ "kvd_register: bytes", "no memory", register_around },
	{ "kvd_register twice", "registered already", register_twice },
	{ "kvd_observe: flags", "0x2: unknown flags", observe_flags },
};

static void arguments(void **state)
{
	unsigned int i, requests = server->requests;
	enum kvd_status status;

	(void)state;
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		kvd->error[0] = '\0';
		status = refusals[i].run();
		if (status != KVD_ERR_INVALID || !strstr(kvd_error(kvd), refusals[i].text))
			fail_msg("%s: %s: %s", refusals[i].name, kvd_status_text(status),
				 kvd_error(kvd));
		assert_int_equal(server->requests, requests);
		assert_int_equal(kvd->stats.reads, 0);
		assert_int_equal(kvd_outstanding(kvd), 0);
	}
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* Each operation, synchronous and submitted. */
static enum kvd_status with_key(enum kvd_opcode op, const void *k, size_t len)
{
	switch (op) {
	case KVD_OP_GET:
		return kvd_get(kvd, k, len, buffer, sizeof(buffer), NULL);
	case KVD_OP_PUT:
		return kvd_put(kvd, k, len, "x", 1, NULL, NULL);
	case KVD_OP_DELETE:
		return kvd_delete(kvd, k, len) ? kvd_delete_if(kvd, k, len, 1) : KVD_OK;
	case KVD_OP_INCR:
		return kvd_incr(kvd, k, len, 1, NULL, NULL, NULL);
	case KVD_OP_DECR:
		return kvd_decr(kvd, k, len, 1, NULL, NULL, NULL);
	case KVD_OP_TOUCH:
		return kvd_touch(kvd, k, len, 1, NULL);
	case KVD_OP_GET_BY_REQUEST:
		return kvd_get_by_request(kvd, k, len, buffer, sizeof(buffer), NULL);
	case KVD_OP_GET_AND_TOUCH:
		return kvd_get_and_touch(kvd, k, len, 1, buffer, sizeof(buffer), NULL);
	case KVD_OP_EXISTS:
		return kvd_exists_leading(kvd, &(struct kvd_key){ k, len }, 1, NULL);
	case KVD_OP_GET_RANGE:
		return kvd_get_range(kvd, k, len, 1, buffer, sizeof(buffer), NULL);
	case KVD_OP_SCAN:
	case KVD_OP_PING:
		break;
	}
	return KVD_OK;
}

static void keys(void **state)
{
	static const size_t lens[] = { 0, KVD_KEY_MAX + 1, WRAPS_16, WRAPS_32, SIZE_MAX };
	struct kvd_op op, *list[] = { &op };
	unsigned int i, code;
	char text[40];

	(void)state;
	for (code = KVD_OP_GET; code <= KVD_OP_GET_RANGE; code++)
		for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			if (code == KVD_OP_SCAN || code == KVD_OP_PING)
				continue;
			snprintf(text, sizeof(text), "a key of %zu bytes: 1 to 1024", lens[i]);
			kvd->error[0] = '\0';
			assert_int_equal(with_key((enum kvd_opcode)code, buffer, lens[i]),
					 KVD_ERR_INVALID);
			assert_non_null(strstr(kvd_error(kvd), text));
			kvd->error[0] = '\0';
			kvd_prep(&op, (enum kvd_opcode)code, buffer, lens[i]);
			assert_int_equal(kvd_submit(kvd, list, 1), KVD_ERR_INVALID);
			assert_non_null(strstr(kvd_error(kvd), text));
		}
	assert_int_equal(server->requests, 0);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* Much too long, in one piece or several, of which nothing is looked at. */
static void values(void **state)
{
	struct kvd_op op, *list[] = { &op };
	struct iovec iov[5] = { { buffer, 1 } };

	(void)state;
	for (unsigned int i = 1; i < 5; i++)
		iov[i] = (struct iovec){ buffer, KVD_VALUE_MAX };
	assert_int_equal(kvd_put(kvd, &key, 8, buffer, WRAPS_32, NULL, NULL), KVD_ERR_TOO_LARGE);
	assert_non_null(strstr(kvd_error(kvd), "a value of 4294967297 bytes"));
	assert_int_equal(kvd_putv(kvd, &key, 8, iov, 5, NULL, NULL), KVD_ERR_TOO_LARGE);
	assert_non_null(strstr(kvd_error(kvd), "a value of 4294967297 bytes"));
	kvd_prep_put(&op, &key, 8, buffer, WRAPS_32, NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_ERR_TOO_LARGE);
	kvd_prep_putv(&op, &key, 8, iov, 5, NULL);
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_ERR_TOO_LARGE);
	assert_int_equal(server->requests, 0);
}

/* The longest that are allowed. */
static void limits(void **state)
{
	const struct kvd_arith_args arith = { .create = 1, .ttl_s = KVD_TTL_MAX };
	const struct kvd_put_args args = { .ttl_s = KVD_TTL_MAX, .pin_s = KVD_TTL_MAX };
	const struct kvd_scan_args scan = { .prefix = buffer, .prefix_len = KVD_KEY_MAX };
	struct iovec iov[KVD_IOV_MAX] = { { buffer, 1 } };
	uint64_t cursor = 0;

	(void)state;
	assert_int_equal(put_with(&args), KVD_OK);
	assert_int_equal(kvd_touch(kvd, &key, 8, KVD_TTL_MAX, NULL), KVD_OK);
	assert_int_equal(kvd_incr(kvd, &key, 8, 1, &arith, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_flush_start(kvd, KVD_TTL_MAX, NULL), KVD_OK);
	assert_int_equal(kvd_scan(kvd, &cursor, &scan, no_entry, NULL), KVD_OK);
	assert_int_equal(kvd_put(kvd, buffer, KVD_KEY_MAX, "x", 1, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_get(kvd, buffer, KVD_KEY_MAX, NULL, 0, NULL), KVD_NOT_FOUND);
	assert_int_equal(kvd_putv(kvd, &key, 8, iov, KVD_IOV_MAX, NULL, NULL), KVD_OK);
	/* No pieces at all are an empty value, and room for none. */
	assert_int_equal(kvd_putv(kvd, &key, 8, NULL, 0, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_getv(kvd, &key, 8, NULL, 0, NULL), KVD_ERR_BUFFER);
}

/* Calls that concern the process, or any thread, have the thread's text. */
static void of_the_process(void **state)
{
	struct kvd_op_stats stats;
	struct kvd_mem *mem;
	void *addr;

	(void)state;
	assert_int_equal(kvd_op_stats(kvd, (enum kvd_opcode)12, KVD_PATH_WARM, &stats, 1),
			 KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(NULL), "no such operation or path"));
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_GET, (enum kvd_path)6, &stats, 1),
			 KVD_ERR_INVALID);
	assert_int_equal(kvd_stats_text(kvd, (enum kvd_stats_format)2, buffer, 1, NULL),
			 KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(NULL), "no such format"));
	assert_int_equal(kvd_set_log((enum kvd_log_level)6, NULL, NULL), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(NULL), "no such level"));
	assert_int_equal(kvd_alloc(kvd, 4096, &addr, &mem), KVD_OK);
	assert_int_equal(kvd_deregister(mem), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(NULL), "kvd_free() is for memory of kvd_alloc()"));
	assert_int_equal(kvd_free(mem), KVD_OK);
	assert_int_equal(kvd_register(kvd, buffer, sizeof(buffer), &mem), KVD_OK);
	assert_int_equal(kvd_free(mem), KVD_ERR_INVALID);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	assert_string_equal(kvd_error(kvd), "");
}

/* A program that knows how long its value is may say so: nothing wraps around. */
static void a_buffer_of_any_size(void **state)
{
	static uint8_t large[CALLS_LARGE_BYTES];
	const uint64_t long_key = 1;
	struct kvd_item item;

	(void)state;
	assert_int_equal(kvd_get(kvd, &key, 8, buffer, SIZE_MAX, &item), KVD_OK);
	assert_int_equal(item.value_len, 20);
	assert_int_equal(kvd_get(kvd, &key, 8, buffer, WRAPS_32, &item), KVD_OK);
	assert_int_equal(kvd_get(kvd, &long_key, 8, large, SIZE_MAX, &item), KVD_OK);
	assert_int_equal(item.value_len, CALLS_LARGE_BYTES);
	assert_int_equal(server->requests, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, calls_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(arguments), CASE(keys),	       CASE(values),
		CASE(limits),	 CASE(of_the_process), CASE(a_buffer_of_any_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
