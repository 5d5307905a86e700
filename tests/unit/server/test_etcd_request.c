/* SPDX-License-Identifier: MIT */
/* What etcd is asked (server/fleet/etcd_request.c): the JSON of reads and transactions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/fleet/etcd_request.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void body_is(struct etcd_body *body, const char *text)
{
	assert_false(body->failed);
	assert_int_equal(body->length, strlen(text));
	assert_string_equal(body->text, text);
	etcd_body_release(body);
	assert_null(body->text);
}

static void reads(void **state)
{
	struct etcd_body body = { 0 };

	(void)state;
	etcd_request_range(&body, "a", false);
	body_is(&body, "{\"key\":\"YQ==\"}");
	etcd_request_range(&body, "foo", true);
	body_is(&body, "{\"key\":\"Zm9v\",\"range_end\":\"Zm9w\"}");
	/* The last byte has no successor. */
	etcd_request_range(&body, "a\xff\xff", true);
	body_is(&body, "{\"key\":\"Yf//\",\"range_end\":\"Yg==\"}");
	etcd_request_range(&body, "\xff", true);
	body_is(&body, "{\"key\":\"/w==\",\"range_end\":\"AA==\"}");
	etcd_request_number(&body, "ID", INT64_MIN);
	body_is(&body, "{\"ID\":\"-9223372036854775808\"}");
	etcd_request_number(&body, "TTL", INT64_MAX);
	body_is(&body, "{\"TTL\":\"9223372036854775807\"}");
}

static void transactions(void **state)
{
	static const struct etcd_compare compares[] = {
		{ .key = "a", .target = ETCD_MOD_REVISION, .revision = 9007199254740993 },
		{ .key = "b", .target = ETCD_CREATE_REVISION },
		{ .key = "c", .target = ETCD_PRESENT, .revision = 7 },
	};
	static const struct etcd_op success[] = {
		{ .kind = ETCD_PUT, .key = "a", .value = "\0\xff", .value_len = 2, .lease = 7 },
		{ .kind = ETCD_PUT, .key = "b" },
		{ .kind = ETCD_DELETE, .key = "c" },
		{ .kind = ETCD_DELETE, .key = "c", .prefix = true },
	};
	static const struct etcd_op failure[] = {
		{ .kind = ETCD_GET, .key = "a" }, { .kind = ETCD_GET, .key = "a", .prefix = true }
	};
	const struct etcd_txn all = { .compares = compares,
				      .compare_count = COUNT(compares),
				      .success = success,
				      .success_count = COUNT(success),
				      .failure = failure,
				      .failure_count = COUNT(failure) };
	const struct etcd_txn none = { 0 };
	struct etcd_body body = { 0 };

	(void)state;
	etcd_request_txn(&body, &all);
	body_is(&body,
		"{\"compare\":[{\"key\":\"YQ==\",\"result\":\"EQUAL\",\"target\":\"MOD\","
		"\"mod_revision\":\"9007199254740993\"},{\"key\":\"Yg==\",\"result\":\"EQUAL\","
		"\"target\":\"CREATE\",\"create_revision\":\"0\"},{\"key\":\"Yw==\","
		"\"result\":\"GREATER\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
		"\"success\":[{\"request_put\":{\"key\":\"YQ==\",\"lease\":\"7\","
		"\"value\":\"AP8=\"}},{\"request_put\":{\"key\":\"Yg==\",\"lease\":\"0\","
		"\"value\":\"\"}},{\"request_delete_range\":{\"key\":\"Yw==\"}},"
		"{\"request_delete_range\":{\"key\":\"Yw==\",\"range_end\":\"ZA==\"}}],"
		"\"failure\":[{\"request_range\":{\"key\":\"YQ==\"}},"
		"{\"request_range\":{\"key\":\"YQ==\",\"range_end\":\"Yg==\"}}]}");
	etcd_request_txn(&body, &none);
	body_is(&body, "{\"compare\":[],\"success\":[],\"failure\":[]}");
}

static void limits(void **state)
{
	static struct etcd_compare compares[ETCD_OPS_MAX + 1];
	static struct etcd_op ops[ETCD_OPS_MAX + 1];
	static char longest[ETCD_KEY_MAX + 2];
	struct etcd_txn txn = { .compares = compares,
				.compare_count = ETCD_OPS_MAX,
				.success = ops,
				.success_count = ETCD_OPS_MAX,
				.failure = ops,
				.failure_count = ETCD_OPS_MAX };
	struct etcd_body body = { 0 };

	(void)state;
	memset(longest, 0xff, ETCD_KEY_MAX);
	assert_null(etcd_key_check(longest));
	etcd_request_range(&body, longest, true);
	assert_false(body.failed);
	etcd_body_release(&body);
	longest[ETCD_KEY_MAX] = 'x';
	assert_string_equal(etcd_key_check(longest), "a key is longer than 1,024 bytes");
	assert_string_equal(etcd_key_check(""), "a key must not be empty");

	for (size_t i = 0; i < COUNT(ops); i++)
		compares[i].key = ops[i].key = "k";
	assert_null(etcd_txn_check(&txn));
	txn.compare_count++;
	assert_string_equal(etcd_txn_check(&txn), "it has more than 128 compares");
	txn.compare_count--;
	txn.success_count++;
	assert_string_equal(etcd_txn_check(&txn), "it has more than 128 operations");
	txn.success_count--;
	txn.failure_count++;
	assert_string_equal(etcd_txn_check(&txn), "it has more than 128 operations");
	txn.failure_count--;
	ops[127].kind = ETCD_PUT;
	ops[127].value_len = ETCD_VALUE_MAX;
	assert_null(etcd_txn_check(&txn));
	ops[127].value_len++;
	assert_string_equal(etcd_txn_check(&txn), "a value is larger than 1 MiB");
	ops[127].kind = ETCD_GET;
	assert_null(etcd_txn_check(&txn));
	ops[127].key = "";
	assert_non_null(etcd_txn_check(&txn));
	ops[127].key = "k";
	compares[127].key = longest;
	assert_non_null(etcd_txn_check(&txn));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads),
		cmocka_unit_test(transactions),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
