/* SPDX-License-Identifier: MIT */
/* Tests of kvctl's commands with a fleet: which members they ask, and what they print. */
#include "client/kvctl/table.h"
#include "tests/support/kvctl_test.h"

#define FLEET "fleet+softnic:///a,/b/f"
#define OPENED_FLEET "open " FLEET " 2000 5000\n"
#define OPENED_MEMBER(id) "open softnic:///" id " 2000 1000\n"
#define STATS "stats 65536\n"
#define HINT                                                                                       \
	" is about one server, and this is a fleet: name a member by -a URL; kvctl fleet "         \
	"members prints the URLs\n"

/* No member is asked for what is wrong. */
#define assert_unasked(text, ...)                                                                  \
	do {                                                                                       \
		assert_fails(EX_USAGE, text, __VA_ARGS__);                                         \
		assert_string_equal(program_result.notes, OPENED_FLEET CLOSED);                    \
	} while (0)

static void fleet_is(uint32_t members, const char *a, const char *b)
{
	behaviour.members = members;
	behaviour.texts[0] = a;
	behaviour.texts[1] = b;
	behaviour.text_count = 2;
}

static void each_member_is_asked(void **state)
{
	(void)state;
	behaviour.members = 2;
	assert_int_equal(RUN("-a", FLEET, "revoke", "user=u"), EX_OK);
	assert_string_equal(program_result.notes,
			    OPENED_FLEET OPENED_MEMBER("a") "revoke user=u\n" CLOSED OPENED_MEMBER(
				    "b") "revoke user=u\n" CLOSED CLOSED);
	assert_string_equal(program_result.out, "member a\n7 connections closed\n\n"
						"member b\n7 connections closed\n");
	assert_int_equal(RUN("-a", FLEET, "--json", "revoke", "user=u"), EX_OK);
	assert_string_equal(program_result.out, "{\"member\": \"a\", \"closed\": 7}\n"
						"{\"member\": \"b\", \"closed\": 7}\n");
	assert_int_equal(RUN("-a", FLEET, "--json", "ping"), EX_OK);
	assert_string_equal(program_result.out, "{\"member\": \"a\", \"us\": 1.2}\n"
						"{\"member\": \"b\", \"us\": 2.5}\n");
	/* Records of a server have none. */
	behaviour.members = 0;
	assert_int_equal(RUN("--json", "revoke", "user=u"), EX_OK);
	assert_string_equal(program_result.out, "{\"closed\": 7}\n");
}

/* The others are asked, and the status says that one was not. */
static void a_member_is_away(void **state)
{
	(void)state;
	behaviour.members = 3;
	behaviour.away = 'b';
	assert_fails(EX_UNAVAILABLE, "kvctl: b: no socket there\n", "-a", FLEET, "tenant", "list");
	assert_string_equal(program_result.out, "member a\ntenants of a server\n\nmember b\n\n"
						"member c\ntenants of a server\n");
	assert_fails(EX_UNAVAILABLE, "kvctl: b: no socket there\n", "-a", FLEET, "stats");
	assert_string_equal(program_result.out, "member a\nstats of a server\n\nmember b\n\n"
						"member c\nstats of a server\n");
}

/* What the clients of one member are called is nothing to the others. */
static void one_is_meant(void **state)
{
	(void)state;
	behaviour.members = 2;
	assert_unasked("kvctl: kill" HINT, "-a", FLEET, "kill", "3");
	assert_unasked("kvctl: shutdown" HINT, "-a", FLEET, "shutdown");
	assert_unasked("kvctl: revoke" HINT, "-a", FLEET, "revoke", "id=3");
	assert_unasked(
		"kvctl: flush: a fleet takes no DELAY: flush it at that time. Try `kvctl help "
		"flush`.\n",
		"-a", FLEET, "flush", "10");
	assert_unasked("kvctl: init: kvd does that, with its configuration, which names etcd: kvd "
		       "--fleet-init, kvd --fleet-adopt. Try `kvctl help fleet`.\n",
		       "-a", FLEET, "fleet", "init");
}

/* Whether that was NOT_FOUND at all of them, or at some. */
static void not_found(void **state)
{
	(void)state;
	behaviour.members = 2;
	behaviour.call = KVD_NOT_FOUND;
	assert_fails(EXIT_NOT_FOUND, "kvctl: a: not found\nkvctl: b: not found\n", "-a", FLEET,
		     "revoke", "user=u");
	behaviour.away = 'a';
	assert_fails(EX_UNAVAILABLE, "kvctl: a: no socket there\nkvctl: b: not found\n", "-a",
		     FLEET, "revoke", "user=u");
}

static void statistics(void **state)
{
	(void)state;
	fleet_is(2, "items 7\nputs 1\n", "items 9\nputs 0\n");
	assert_int_equal(RUN("-a", FLEET, "stats", "--json"), EX_OK);
	assert_string_equal(program_result.notes,
			    OPENED_FLEET OPENED_MEMBER("a") STATS OPENED_MEMBER("b")
				    STATS CLOSED CLOSED CLOSED);
	assert_string_equal(program_result.out, "{\"member\": \"a\", \"items\": 7, \"puts\": 1}\n"
						"{\"member\": \"b\", \"items\": 9, \"puts\": 0}\n");
	assert_int_equal(RUN("-a", FLEET, "stats"), EX_OK);
	assert_string_equal(program_result.out,
			    "member a\nitems 7\nputs 1\n\nmember b\nitems 9\nputs 0\n");
	behaviour.terminal = true;
	assert_int_equal(RUN("-a", FLEET, "stats"), EX_OK);
	assert_string_equal(program_result.out,
			    "member a\nKeys\n  items                        7\n\nRequests\n"
			    "  puts                         1\n\nmember b\nKeys\n"
			    "  items                        9\n\n1 more are 0: -v prints them, kvd "
			    "--help explains all\n");
}

/* Each member's growth is its own. A member that is away may come back. */
static void statistics_again(void **state)
{
	(void)state;
	fleet_is(1, "puts 10\n", "puts 30\n");
	assert_int_equal(RUN("-a", FLEET, "stats", "-w", "2", "-c", "2"), EX_OK);
	assert_string_equal(program_result.out,
			    "member a\nRequests\n  puts                         10\n\nmember a\n"
			    "Requests\n  puts                         10.0/s\n");
	behaviour.away = 'a';
	assert_fails(EX_OK, "kvctl: a: no socket there\nkvctl: a: no socket there\n", "-a", FLEET,
		     "stats", "-w", "2", "-c", "2");
}

/* What each did between its two samples, and all of them together. */
static void top(void **state)
{
	(void)state;
	fleet_is(2,
		 "requests 10\ngets 0\nget_hits 0\nitems 5\nworkers 1\nfleet_shards_served 8192\n"
		 "connections 2\nregion_bytes 1048576\nmemory.free 524288\n"
		 "worker.0.cpu_useful_us 0\nfleet_members 2\n",
		 "requests 1000\n");
	behaviour.texts[2] = "requests 30\ngets 8\nget_hits 6\nitems 7\nworkers 1\n"
			     "fleet_shards_served 8192\nconnections 2\nregion_bytes 1048576\n"
			     "memory.free 262144\nworker.0.cpu_useful_us 500000\nfleet_members 3\n";
	behaviour.texts[3] = "requests 5\nitems 1\nfleet_shards_served 8100\nfleet_moves_left 92\n";
	behaviour.text_count = 4;
	assert_int_equal(RUN("-a", FLEET, "top", "-w", "1"), EX_OK);
	assert_non_null(strstr(program_result.out,
			       "fleet f  2 of 2 members  16292 of 16384 shards served  92 to move  "
			       "2 connections\nRequests   25/s: "));
	assert_non_null(strstr(program_result.out, "\nGETs       8/s (75.0 % hits), "));
	assert_non_null(strstr(program_result.out, "\nKeys       8: "));
	assert_non_null(
		strstr(program_result.out,
		       "\nMEMBER                    SHARDS     REQ/s    GETs/s HITS %       "
		       "KEYS USED % USEFUL %   PING us\na                           8192     "
		       "   20         8   75.0          7   75.0     50.0 "));
	assert_non_null(
		strstr(program_result.out,
		       "\nb                           8100         5         0      -          "
		       "1    0.0      0.0 "));
	assert_non_null(strstr(program_result.out, "\nand 1 that have joined: start top again\n"));
	behaviour.away = 'a';
	behaviour.texts[1] = behaviour.texts[3];
	behaviour.text_count = 2;
	assert_int_equal(RUN("-a", FLEET, "top", "-w", "1"), EX_OK);
	assert_non_null(strstr(program_result.out, "fleet f  1 of 2 members  8100 of 16384 "));
	assert_non_null(
		strstr(program_result.out, "\na                        away: no socket there\n"));
}

/* The share of what is done is of the items of all members. */
static void progress(void **state)
{
	static const struct kvd_entry entries[] = { { .key = "k", .key_len = 1 },
						    { .key = "l", .key_len = 1 } };

	(void)state;
	fleet_is(2, "items 3\n", "items 5\n");
	behaviour.entries = entries;
	behaviour.entry_count = 2;
	assert_int_equal(RUN("-a", FLEET, "bigkeys", "--progress"), EX_OK);
	assert_non_null(strstr(program_result.err, " 25.0 %"));
}

/* A map from a file needs no lease. */
static void leases(void **state)
{
	(void)state;
	fleet_is(2, "fleet_shards_served 8192\nfleet_lease_ms none\n",
		 "fleet_shards_served 8192\nfleet_lease_ms none\n");
	assert_int_equal(RUN("-a", FLEET, "fleet", "health"), EX_OK);
	assert_string_equal(program_result.out, "fleet f: 2 members serve all 16384 shards\n");
	fleet_is(2, "fleet_shards_served 8192\nfleet_lease_ms 0\n",
		 "fleet_shards_served 8192\nfleet_lease_ms 1800\nfleet_controller 1\n");
	assert_int_equal(RUN("-a", FLEET, "fleet", "health"), EXIT_ERRORS);
	assert_string_equal(program_result.out,
			    "a has no lease: see its log\n8192 shards are not served by their "
			    "owners\n");
	behaviour.away = 'b';
	behaviour.text_count = 1;
	assert_int_equal(RUN("-a", FLEET, "fleet", "health"), EXIT_ERRORS);
	assert_string_equal(program_result.out,
			    "a has no lease: see its log\nb is away: no socket there\n16384 shards "
			    "are not served by their owners\nno member is the controller\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_member_is_asked, kvctl_setup),
		cmocka_unit_test_setup(a_member_is_away, kvctl_setup),
		cmocka_unit_test_setup(one_is_meant, kvctl_setup),
		cmocka_unit_test_setup(not_found, kvctl_setup),
		cmocka_unit_test_setup(statistics, kvctl_setup),
		cmocka_unit_test_setup(statistics_again, kvctl_setup),
		cmocka_unit_test_setup(top, kvctl_setup),
		cmocka_unit_test_setup(progress, kvctl_setup),
		cmocka_unit_test_setup(leases, kvctl_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
