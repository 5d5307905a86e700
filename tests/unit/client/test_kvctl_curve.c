/* SPDX-License-Identifier: MIT */
/* Tests of kvctl curve: what it makes of the statistics of a server. */
#include "tests/support/kvctl_test.h"

#define STATS "stats 65536\n"

static void stats_are(const char *text)
{
	behaviour.texts[0] = text;
	behaviour.text_count = 1;
}

static void points(void **state)
{
	(void)state;
	stats_are("item_memory_bytes 104857600\ncurve.keys 800\ncurve.one_in 64\ncurve.gets 2000\n"
		  "curve.50.hits 1000\ncurve.100.hits 1501\ncurve.200.hits 2000\ngets 1000\n"
		  "get_hits 749\n");
	assert_calls(STATS, "curve");
	assert_string_equal(program_result.out,
			    "estimated from one key in 64: 800 keys, 2000 GETs\n\n"
			    "  memory        bytes   GETs hit\n"
			    "    50 %     50.0 MiB     50.0 %\n"
			    "   100 %    100.0 MiB     75.0 %\n"
			    "   200 %    200.0 MiB    100.0 %\n"
			    "\n74.9 % of all GETs since the start hit\n");
	assert_calls(STATS, "curve", "--json");
	assert_string_equal(program_result.out,
			    "{\"keys\": 800, \"one_in\": 64, \"gets\": 2000, \"measured\": 0.7490, "
			    "\"points\": [{\"percent\": 50, \"bytes\": 52428800, "
			    "\"hit_ratio\": 0.5000}, {\"percent\": 100, \"bytes\": 104857600, "
			    "\"hit_ratio\": 0.7505}, {\"percent\": 200, \"bytes\": 209715200, "
			    "\"hit_ratio\": 1.0000}]}\n");
}

/* Nothing was read yet; what else a newer server says is no point. */
static void nothing(void **state)
{
	(void)state;
	stats_are("item_memory_bytes 100\ncurve.keys 0\ncurve.one_in 1\ncurve.gets 0\n"
		  "curve.100.hits 0\ncurve.100.hits_2 7\ncurve.new 7\n");
	assert_calls(STATS, "curve");
	assert_string_equal(program_result.out,
			    "estimated from one key in 1: 0 keys, 0 GETs: none yet\n");
}

static void failures(void **state)
{
	(void)state;
	stats_are("gets 1000\nget_hits 749\n");
	assert_fails(EX_SOFTWARE,
		     "kvctl: the server estimates no curve: set memory.curve = yes in its "
		     "configuration, and restart it\n",
		     "curve");
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "curve");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(points, kvctl_setup),
		cmocka_unit_test_setup(nothing, kvctl_setup),
		cmocka_unit_test_setup(failures, kvctl_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
