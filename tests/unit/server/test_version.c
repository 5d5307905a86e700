/* SPDX-License-Identifier: MIT */
/*
 * Tests that library and server have one version, and that statuses keep their numbers and texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/kvd.h"
#include "server/config/version.h"

static void one_version(void **state)
{
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%d.%d.%d", KVD_VERSION_MAJOR, KVD_VERSION_MINOR,
		 KVD_VERSION_PATCH);
	assert_string_equal(kvd_version(), text);
	assert_string_equal(KVD_SERVER_VERSION, text);
}

/* Numbers of statuses never change: programs built with an older library rely on them. */
static const struct {
	enum kvd_status status;
	int number;
	const char *text;
} statuses[] = {
	{ KVD_OK, 0, "ok" },
	{ KVD_NOT_FOUND, 1, "not found" },
	{ KVD_ERR_INVALID, 2, "invalid argument" },
	{ KVD_ERR_TOO_LARGE, 3, "value too large" },
	{ KVD_ERR_BUFFER, 4, "buffer too small for the value" },
	{ KVD_ERR_NO_SPACE, 5, "the server's memory is full" },
	{ KVD_ERR_NO_MEMORY, 6, "out of memory in the client" },
	{ KVD_ERR_TIMEOUT, 7, "timed out" },
	{ KVD_ERR_DISCONNECTED, 8, "connection lost" },
	{ KVD_ERR_UNREACHABLE, 9, "server unreachable" },
	{ KVD_ERR_REFUSED, 10, "connection refused by the server" },
	{ KVD_ERR_DEVICE, 11, "RDMA device error" },
	{ KVD_ERR_PROTOCOL, 12, "protocol error" },
	{ KVD_ERR_BUSY, 13, "server busy" },
	{ KVD_ERR_EXISTS, 14, "the key exists or has another version" },
	{ KVD_ERR_NOT_A_NUMBER, 15, "the value is not a number" },
	{ KVD_ERR_CANCELED, 16, "canceled" },
	{ KVD_ERR_UNKNOWN, 17, "it is unknown whether the change took effect" },
	{ KVD_ERR_AUTH, 18, "authentication failed" },
	{ KVD_ERR_NOT_ALLOWED, 19, "not allowed" },
	{ KVD_ERR_LIMIT, 20, "over the user's limit" },
	{ KVD_ERR_AWAY, 21, "the server is away" },
	{ KVD_ERR_MOVED, 22, "another member has the key" },
};

#define STATUS_COUNT (sizeof(statuses) / sizeof(statuses[0]))

static void status_numbers_and_texts(void **state)
{
#define X(name, number, text) +1
	const size_t known = 0 KVD_STATUS_MAP(X);
#undef X

	(void)state;
	assert_int_equal(known, STATUS_COUNT);
	for (size_t i = 0; i < STATUS_COUNT; i++) {
		assert_int_equal(statuses[i].status, statuses[i].number);
		assert_string_equal(kvd_status_text(statuses[i].status), statuses[i].text);
	}
	assert_string_equal(kvd_status_text((enum kvd_status)STATUS_COUNT), "unknown status");
	assert_string_equal(kvd_status_text((enum kvd_status) - 1), "unknown status");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_version),
		cmocka_unit_test(status_numbers_and_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
