/* SPDX-License-Identifier: MIT */
/* Tests of kvctl hotkeys: which keys it takes for the hottest, and what it says of them. */
#include "tests/support/kvctl_test.h"

#define USED(name, kind, n, of_age)                                                                \
	{                                                                                          \
		.key = name, .key_len = sizeof(name) - 1, .use = kind, .uses = n, .age = of_age    \
	}
#define STATS "stats 65536\n"
#define COLUMNS "\n    uses  added since  key\n"
#define HEAD "; clients report at most one in 16 hits by READ\n"

static const struct kvd_used some[] = {
	USED("cool", KVD_USE_NORMAL, 0, 30),  USED("hottest", KVD_USE_NORMAL, 127, 9),
	USED("warm", KVD_USE_NORMAL, 3, 2),   USED("low", KVD_USE_LOW, 0, 200),
	USED("warm2", KVD_USE_NORMAL, 3, 2),  USED("pinned", KVD_USE_PINNED, 0, 0),
	USED("hot\n", KVD_USE_NORMAL, 15, 0),
};

static void set(const struct kvd_used *used, size_t count)
{
	behaviour.used = used;
	behaviour.used_count = count;
}

static void uses(void **state)
{
	(void)state;
	set(some, 7);
	assert_calls(STATS "uses  0\nuses  1\nuses  2\nuses  3\n", "hotkeys", "--top", "3");
	assert_string_equal(program_result.out,
			    "7 keys" HEAD COLUMNS "     127          9 %  hottest\n"
			    "      15          0 %  \"hot\\n\"\n"
			    "       3          2 %  warm\n"
			    "\n1 more keys are as hot as the last one\n"
			    "\n2 keys are pinned or of low priority: no uses are recorded\n");
	/* None is equal to one that is not printed, and none is left out. */
	assert_calls(STATS "uses  0\nuses  1\nuses  2\nuses  3\n", "hotkeys", "--match", "[wch]*");
	assert_string_equal(program_result.out,
			    "5 keys" HEAD COLUMNS "     127          9 %  hottest\n"
			    "      15          0 %  \"hot\\n\"\n"
			    "       3          2 %  warm\n"
			    "       3          2 %  warm2\n"
			    "       0         30 %  cool\n");
	assert_calls("uses ho 0\nuses ho 1\nuses ho 2\nuses ho 3\n", "-x", "hotkeys", "686f",
		     "--match", "hot?", "--json");
	assert_string_equal(program_result.out,
			    "{\"keys\": 1, \"all\": true, \"access_rate\": 16, \"hottest\": "
			    "[{\"key\": {\"hex\": \"686f740a\"}, \"uses\": 15, \"age\": 0}], "
			    "\"as_the_last\": 0, \"not_noted\": 0}\n");
}

/* The hottest of keys with as many uses is the one that was used last. */
static void ages(void **state)
{
	static const struct kvd_used used[] = {
		USED("old", KVD_USE_NORMAL, 0, 1599),
		USED("new", KVD_USE_NORMAL, 0, 0),
		USED("newer", KVD_USE_NORMAL, 0, 0),
		USED("middle", KVD_USE_NORMAL, 0, 50),
		USED("strange", 9, 7, 7),
		USED("used", KVD_USE_NORMAL, 1, 1599),
		USED("much", KVD_USE_NORMAL, 65535, 9),
		USED("older", KVD_USE_NORMAL, 0, 2000),
	};

	(void)state;
	set(used, 8);
	assert_calls(STATS "uses  0\nuses  1\nuses  2\nuses  3\n", "hotkeys");
	assert_string_equal(program_result.out,
			    "8 keys" HEAD COLUMNS "   32767          9 %  much\n"
			    "       1       1599 %  used\n"
			    "       0          0 %  new\n"
			    "       0          0 %  newer\n"
			    "       0         50 %  middle\n"
			    "       0       1599 %  old\n"
			    "       0       1599 %  older\n"
			    "\n1 keys are pinned or of low priority: no uses are recorded\n");
}

static void samples(void **state)
{
	(void)state;
	set(some, 7);
	assert_calls(STATS "uses  0\n", "hotkeys", "--samples", "1");
	assert_string_equal(program_result.out,
			    "1 keys, a sample" HEAD COLUMNS "       0         30 %  cool\n");
}

static void nothing(void **state)
{
	(void)state;
	assert_calls(STATS "uses  0\n", "hotkeys");
	assert_string_equal(program_result.out, "0 keys" HEAD);
}

/* What libkvd says is said; what passes is tried again. */
static void failures(void **state)
{
	(void)state;
	behaviour.call = KVD_ERR_INVALID;
	behaviour.error = "the server does not evict";
	assert_fails(EX_SOFTWARE, "kvctl: the server does not evict\n", "hotkeys");
	assert_string_equal(program_result.out, "");
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	behaviour.error = "";
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "hotkeys", "a");
	assert_usage("kvctl: f: not 1 to 1024 bytes in hexadecimal. Try `kvctl help hotkeys`.\n",
		     "-x", "hotkeys", "f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(uses, kvctl_setup),
		cmocka_unit_test_setup(ages, kvctl_setup),
		cmocka_unit_test_setup(samples, kvctl_setup),
		cmocka_unit_test_setup(nothing, kvctl_setup),
		cmocka_unit_test_setup(failures, kvctl_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
