/* SPDX-License-Identifier: MIT */
/* Tests of kvctl hotkeys: which keys it takes for the hottest, and what it says of them. */
#include "tests/support/kvctl_test.h"

#define USED(name, kind, n)                                                                        \
	{                                                                                          \
		.key = name, .key_len = sizeof(name) - 1, .use = kind, .number = n                 \
	}
#define STATS "stats 65536\n"
#define HEAD "; of GETs by READ the server learns of one hit in 16\n"

static const struct kvd_used by_frequency[] = {
	USED("cool", KVD_USE_FREQUENCY, 0),  USED("hottest", KVD_USE_FREQUENCY, 127),
	USED("warm", KVD_USE_FREQUENCY, 5),  USED("low", KVD_USE_LOW, 200),
	USED("warm2", KVD_USE_FREQUENCY, 5), USED("pinned", KVD_USE_PINNED, 0),
	USED("hot\n", KVD_USE_FREQUENCY, 6),
};

static void set(const struct kvd_used *used, size_t count)
{
	behaviour.used = used;
	behaviour.used_count = count;
}

static void frequencies(void **state)
{
	(void)state;
	set(by_frequency, 7);
	assert_calls(STATS "uses  0\nuses  1\nuses  2\nuses  3\n", "hotkeys", "--top", "3");
	assert_string_equal(program_result.out,
			    "7 keys" HEAD "\n               frequency  key\n"
			    "                     127  hottest\n"
			    "                       6  \"hot\\n\"\n"
			    "                       5  warm\n"
			    "\n1 more keys are as hot as the last one\n"
			    "\n2 keys are pinned or of low priority: their uses are not noted\n");
	/* None is equal to one that is not printed, and none is left out. */
	assert_calls(STATS "uses  0\nuses  1\nuses  2\nuses  3\n", "hotkeys", "--match", "[wch]*");
	assert_string_equal(program_result.out, "5 keys" HEAD "\n               frequency  key\n"
						"                     127  hottest\n"
						"                       6  \"hot\\n\"\n"
						"                       5  warm\n"
						"                       5  warm2\n"
						"                       0  cool\n");
	assert_calls("uses ho 0\nuses ho 1\nuses ho 2\nuses ho 3\n", "-x", "hotkeys", "686f",
		     "--match", "hot?", "--json");
	assert_string_equal(program_result.out,
			    "{\"keys\": 1, \"all\": true, \"access_rate\": 16, \"hottest\": "
			    "[{\"key\": {\"hex\": \"686f740a\"}, \"frequency\": 6}], "
			    "\"as_the_last\": 0, \"not_noted\": 0}\n");
}

/* Those with the least age are the hottest. */
static void recencies(void **state)
{
	static const struct kvd_used used[] = {
		USED("old", KVD_USE_RECENCY, 32767),
		USED("new", KVD_USE_RECENCY, 0),
		USED("newer", KVD_USE_RECENCY, 0),
		USED("middle", KVD_USE_RECENCY, 512),
		USED("strange", 9, 7),
		USED("other", KVD_USE_FREQUENCY, 100),
	};

	(void)state;
	set(used, 6);
	assert_calls(STATS "uses  0\nuses  1\nuses  2\n", "hotkeys");
	assert_string_equal(program_result.out,
			    "6 keys" HEAD "\nkeys added since its use  key\n"
			    "                   0.0 %  new\n"
			    "                   0.0 %  newer\n"
			    "                  50.0 %  middle\n"
			    "                3199.9 %  old\n"
			    "\n2 keys are pinned or of low priority: their uses are not noted\n");
	assert_calls(STATS "uses  0\nuses  1\nuses  2\n", "hotkeys", "--top", "1");
	assert_non_null(strstr(program_result.out, "\n1 more keys are as hot as the last one; "
						   "memory.eviction = lfu would tell how often\n"));
	assert_calls(STATS "uses  0\nuses  1\nuses  2\n", "hotkeys", "--json", "--top", "1");
	assert_string_equal(program_result.out,
			    "{\"keys\": 6, \"all\": true, \"access_rate\": 16, \"hottest\": "
			    "[{\"key\": \"new\", \"recency\": 0}], \"as_the_last\": 1, "
			    "\"not_noted\": 2}\n");
}

static void samples(void **state)
{
	(void)state;
	set(by_frequency, 7);
	assert_calls(STATS "uses  0\n", "hotkeys", "--samples", "1");
	assert_string_equal(program_result.out,
			    "1 keys, a sample" HEAD "\n               frequency  key\n"
			    "                       0  cool\n");
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
	assert_fails(EX_SOFTWARE, "kvctl: invalid argument: the server does not evict\n",
		     "hotkeys");
	assert_string_equal(program_result.out, "");
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	behaviour.error = "";
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "hotkeys", "a");
	assert_usage("kvctl: f: not 1 to 1024 bytes in hexadecimal. Try kvctl -h.\n", "-x",
		     "hotkeys", "f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(frequencies, kvctl_setup),
		cmocka_unit_test_setup(recencies, kvctl_setup),
		cmocka_unit_test_setup(samples, kvctl_setup),
		cmocka_unit_test_setup(nothing, kvctl_setup),
		cmocka_unit_test_setup(failures, kvctl_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
