/* SPDX-License-Identifier: MIT */
/*
 * Tests of what bounds locked memory (common/util/memlock.h): the limit in KiB with its remedies,
 * and a CAP_IPC_LOCK that only counts while it is in effect.
 */
#include "common/util/memlock.h"

#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_KIB 40

static struct rlimit limit_before;
static struct __user_cap_data_struct before[_LINUX_CAPABILITY_U32S_3];

static int caps_set(const struct __user_cap_data_struct *data)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return (int)syscall(SYS_capset, &header, data);
}

/* Without CAP_IPC_LOCK in effect, though it stays permitted if it was; with a soft limit. */
static int setup(void **state)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	struct rlimit limit;

	(void)state;
	if (syscall(SYS_capget, &header, before) || getrlimit(RLIMIT_MEMLOCK, &limit_before))
		return -1;
	memcpy(data, before, sizeof(data));
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
	limit = limit_before;
	limit.rlim_cur = LIMIT_KIB << 10;
	return setrlimit(RLIMIT_MEMLOCK, &limit) || caps_set(data);
}

static int teardown(void **state)
{
	(void)state;
	return setrlimit(RLIMIT_MEMLOCK, &limit_before) || caps_set(before);
}

static void the_limit_and_its_remedies(void **state)
{
	char text[MEMLOCK_WHY_BYTES];

	(void)state;
	assert_false(memlock_is_lifted());
	assert_ptr_equal(memlock_why(text), text);
	assert_non_null(strstr(text, "may lock 40 KiB of memory (RLIMIT_MEMLOCK)"));
	assert_non_null(strstr(text, "ulimit -l"));
	assert_non_null(strstr(text, "LimitMEMLOCK="));
	assert_non_null(strstr(text, "CAP_IPC_LOCK"));
	/* The text was not cut. */
	assert_true(strlen(text) < sizeof(text) - 1);
}

static void no_limit_needs_no_words(void **state)
{
	struct rlimit limit = limit_before;
	char text[MEMLOCK_WHY_BYTES] = "x";

	(void)state;
	limit.rlim_cur = RLIM_INFINITY;
	if (limit.rlim_max != RLIM_INFINITY || setrlimit(RLIMIT_MEMLOCK, &limit))
		skip(); /* this user has a limit */
	assert_string_equal(memlock_why(text), "");
}

static void the_right_lifts_the_limit(void **state)
{
	const unsigned int index = CAP_TO_INDEX(CAP_IPC_LOCK), bit = CAP_TO_MASK(CAP_IPC_LOCK);
	char text[MEMLOCK_WHY_BYTES] = "x";

	(void)state;
	if (!(before[index].effective & bit))
		skip(); /* this user has no such right */
	assert_int_equal(caps_set(before), 0);
	assert_true(memlock_is_lifted());
	assert_string_equal(memlock_why(text), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(the_limit_and_its_remedies),
		TEST(no_limit_needs_no_words),
		TEST(the_right_lifts_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
