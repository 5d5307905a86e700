/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvctl: what each command and option asks libkvd for, what it prints, and each exit
 * status.
 */
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/kvctl_test.h"

#define TRY(command) ". Try `kvctl help " command "`.\n"
#define TRY_ANY ". Try `kvctl -h`.\n"
#define OUT_OF_RANGE(least, most) ": not a number from " least " to " most
#define NO_OPTION "no such option; put -- before a word that begins with -"
#define NO_INTERVAL ": not a time from 1 to 86400 seconds: 90, 90s, 5m, 2h, 7d"
#define NO_TIME ": not a time up to 1073741824 seconds: 90, 90s, 5m, 2h, 7d"

static void values_are_read(void **state)
{
	(void)state;
	behaviour.item.value_len = 3;
	assert_calls("get key 65536\n", "get", "key");
	assert_string_equal(program_result.out, "abc");
	assert_calls("request key 65536\n", "-r", "get", "key");
	assert_string_equal(program_result.out, "abc");
	assert_calls("gat key ttl 60 65536\n", "gat", "key", "60");
	assert_string_equal(program_result.out, "abc");
	assert_calls("gat key ttl 0 65536\n", "gat", "key", "0");
	behaviour.item.value_len = 0;
	assert_calls("get key 65536\n", "get", "key");
	assert_string_equal(program_result.out, "");
}

/* A second call reads a longer value, with a buffer of its length. */
static void longer_values_are_read(void **state)
{
	(void)state;
	behaviour.item.value_len = 65536;
	assert_calls("get key 65536\n", "get", "key");
	assert_int_equal(program_result.out_len, 65536);
	behaviour.item.value_len = 100000;
	assert_calls("get key 65536\nget key 100000\n", "get", "key");
	assert_int_equal(program_result.out_len, 100000);
	assert_memory_equal(program_result.out + 99996, "abcd", 4);
	assert_calls("gat key ttl 5 65536\ngat key ttl 5 100000\n", "gat", "key", "5");
	behaviour.memory_max = 99999;
	assert_fails(EX_OSERR, "kvctl: no memory for a value of 100000 bytes\n", "get", "key");
	assert_string_equal(program_result.out, "");
	assert_string_equal(program_result.notes, OPENED "get key 65536\n" CLOSED);
}

/* On the standard error, so that the value can go to a file. */
static void items_are_described(void **state)
{
	(void)state;
	behaviour.item = (struct kvd_item){
		.value_len = 3, .version = 9000000000, .flags = 4294967295, .expires_s = 4000000000
	};
	assert_fails(EX_OK, "length 3 version 9000000000 flags 4294967295 expires 4000000000\n",
		     "-v", "get", "key");
	assert_string_equal(program_result.out, "abc");
	assert_fails(EX_OK, "length 3 version 9000000000 flags 4294967295 expires 4000000000\n",
		     "-v", "gat", "key", "1");
	behaviour.call = KVD_NOT_FOUND;
	assert_fails(1, "kvctl: not found\n", "-v", "get", "key");
}

/* Only there: a file gets the bytes of the value and no other. */
static void terminals_get_a_new_line(void **state)
{
	(void)state;
	behaviour.item.value_len = 3;
	behaviour.terminal = true;
	assert_calls("get key 65536\n", "get", "key");
	assert_string_equal(program_result.out, "abc\n");
	behaviour.call = KVD_NOT_FOUND;
	assert_int_equal(RUN("get", "key"), 1);
	assert_string_equal(program_result.out, "");
}

static void values_are_stored(void **state)
{
	static const char *const commands_of_modes[] = {
		"set",	   "put",    "absent", "add",	  "present",
		"replace", "append", "append", "prepend", "prepend",
	};
	char calls[200];

	(void)state;
	for (size_t i = 0; i < 10; i += 2) {
		snprintf(calls, sizeof(calls),
			 OPENED "%s key value flags 0 ttl 0 pin 0 low 0 if 0\n" CLOSED,
			 commands_of_modes[i]);
		assert_int_equal(RUN(commands_of_modes[i + 1], "key", "value"), EX_OK);
		assert_string_equal(program_result.notes, calls);
		snprintf(calls, sizeof(calls),
			 OPENED "%s key value flags 1 ttl 2 pin 3 low 1 if 0\n" CLOSED,
			 commands_of_modes[i]);
		assert_int_equal(RUN("-f", "1", "-e", "2", "-p", "3", "-l",
				     commands_of_modes[i + 1], "key", "value"),
				 i < 6 ? EX_OK : EX_USAGE);
		assert_string_equal(program_result.notes, i < 6 ? calls : "");
	}
	assert_calls("version key value flags 0 ttl 0 pin 0 low 0 if 18446744073709551615\n", "cas",
		     "key", "18446744073709551615", "value");
	assert_calls("version key value flags 1 ttl 2 pin 0 low 1 if 0\n", "-f", "1", "-e", "2",
		     "--low", "cas", "key", "0", "value");
	assert_calls("set key  flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "key", "");
}

/* Each option counts without the others, in a script of which many lines are under way, too. */
static void options_alone(void **state)
{
	static const struct {
		const char *option, *argument, *stored;
	} each[] = {
		{ "-f", "7", "flags 7 ttl 0 pin 0 low 0" },
		{ "-e", "7", "flags 0 ttl 7 pin 0 low 0" },
		{ "-p", "7", "flags 0 ttl 0 pin 7 low 0" },
		{ "-l", "--", "flags 0 ttl 0 pin 0 low 1" },
		{ "-e", "0", "flags 0 ttl 0 pin 0 low 0" },
		{ "-p", "0", "flags 0 ttl 0 pin 0 low 0" },
	};
	char calls[200], line[100];

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		snprintf(calls, sizeof(calls), OPENED "set key value %s if 0\n" CLOSED,
			 each[i].stored);
		assert_int_equal(RUN("put", each[i].option, each[i].argument, "key", "value"),
				 EX_OK);
		assert_string_equal(program_result.notes, calls);
		snprintf(line, sizeof(line), "put %s %s key value\n", each[i].option,
			 each[i].argument);
		program_files.input = line;
		program_files.input_len = strlen(line);
		snprintf(calls, sizeof(calls), "submit set key value %s if 0\n", each[i].stored);
		assert_int_equal(RUN("--pipe"), EX_OK);
		assert_non_null(strstr(program_result.notes, calls));
	}
}

/* Without a value, or with -, of any length. */
static void the_input_is_stored(void **state)
{
	static const size_t lengths[] = { 65535, 65536, 65537, 131072, 300000 };
	static char input[300000];
	char calls[200];

	(void)state;
	program_files.input = "input";
	program_files.input_len = 5;
	assert_calls("set key input flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "key");
	assert_calls("append key input flags 0 ttl 0 pin 0 low 0 if 0\n", "append", "key", "-");
	assert_calls("version key input flags 0 ttl 0 pin 0 low 0 if 7\n", "cas", "key", "7");
	assert_calls("version key input flags 0 ttl 0 pin 0 low 0 if 7\n", "cas", "key", "7", "-");
	assert_calls("set key --5 flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "--", "key", "--5");
	program_files.input = input;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		program_files.input_len = lengths[i];
		snprintf(calls, sizeof(calls),
			 OPENED "set key <%zu bytes> flags 0 ttl 0 pin 0 low 0 if 0\n" CLOSED,
			 lengths[i]);
		assert_int_equal(RUN("put", "key"), EX_OK);
		assert_string_equal(program_result.notes, calls);
	}
	program_files.input_len = 0;
	assert_calls("set key  flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "key");
}

static void input_that_fails_is_not_stored(void **state)
{
	static const char input[70000];

	(void)state;
	program_files.input_path = "/";
	assert_fails(EX_IOERR,
		     "kvctl: can't read the value from the standard input: Is a directory\n", "put",
		     "key");
	assert_string_equal(program_result.notes, OPENED CLOSED);
	program_files = (struct program_files){ .input = input, .input_len = sizeof(input) };
	behaviour.memory_max = 65535;
	assert_fails(EX_OSERR, "kvctl: no memory for the value\n", "put", "key");
	assert_string_equal(program_result.notes, OPENED CLOSED);
	behaviour.memory_max = 65536;
	assert_fails(EX_OSERR, "kvctl: no memory for the value\n", "put", "key");
	assert_string_equal(program_result.notes, OPENED CLOSED);
}

/* Input is read until it is longer than the server's longest value, and libkvd refuses it. */
static void endless_input_ends(void **state)
{
	(void)state;
	behaviour.value_max = 100000;
	behaviour.call = KVD_ERR_TOO_LARGE;
	program_files.input_path = "/dev/zero";
	assert_fails(EX_SOFTWARE, "kvctl: value too large\n", "put", "key");
	assert_non_null(strstr(program_result.notes, "set key <100001 bytes> "));
	assert_fails(EX_SOFTWARE, "kvctl: value too large\n", "put", "-F", "/dev/zero", "key");
	assert_non_null(strstr(program_result.notes, "set key <100001 bytes> "));
}

static void numbers_are_changed(void **state)
{
	(void)state;
	behaviour.number = UINT64_MAX;
	assert_calls("incr key by 1 create 0 flags 0 ttl 0 initial 0\n", "incr", "key");
	assert_string_equal(program_result.out, "18446744073709551615\n");
	assert_calls("decr key by 1 create 0 flags 0 ttl 0 initial 0\n", "decr", "key");
	assert_string_equal(program_result.out, "18446744073709551615\n");
	assert_calls("incr key by 0 create 0 flags 0 ttl 0 initial 0\n", "incr", "key", "0");
	assert_calls("decr key by 18446744073709551615 create 1 flags 2 ttl 3 "
		     "initial 18446744073709551615\n",
		     "-f", "2", "-e", "3", "-i", "18446744073709551615", "decr", "key",
		     "18446744073709551615");
	assert_calls("incr key by 1 create 1 flags 0 ttl 0 initial 0\n", "-i", "0", "incr", "key");
	behaviour.call = KVD_ERR_NOT_A_NUMBER;
	assert_fails(3, "kvctl: the value is not a number\n", "incr", "key");
	assert_string_equal(program_result.out, "");
}

static void other_changes(void **state)
{
	(void)state;
	assert_calls("touch key ttl 60\n", "touch", "key", "60");
	assert_calls("touch key ttl 0\n", "touch", "key", "0");
	assert_calls("delete key\n", "del", "key");
	assert_calls("flush all \n", "flush");
	assert_calls("flush in 0\n", "flush", "0");
	assert_calls("flush in 1073741824\n", "flush", "1073741824");
	assert_calls("cancel own 0\n", "flush", "--cancel");
	assert_calls("cancel own 7\n", "flush", "--cancel", "7");
	assert_calls("cancel any 0\n", "flush", "--cancel", "--all");
	assert_string_equal(program_result.out, "3 flushes cancelled\n");
	assert_calls("kill 18446744073709551615\n", "kill", "18446744073709551615");
	/* What takes long has time. */
#define TENANT_OPENED "open softnic:///default 600000 5000\n"
	assert_int_equal(RUN("tenant", "create", "a", "64m"), EX_OK);
	assert_string_equal(program_result.notes, TENANT_OPENED "create a 67108864\n" CLOSED);
	assert_int_equal(RUN("tenant", "resize", "a", "4096"), EX_OK);
	assert_string_equal(program_result.notes, TENANT_OPENED "resize a 4096\n" CLOSED);
	assert_int_equal(RUN("-t", "5", "tenant", "drop", "a"), EX_OK);
	assert_string_equal(program_result.notes, "open softnic:///default 5 5\ndrop a\n" CLOSED);
	assert_int_equal(RUN("tenant", "list"), EX_OK);
	assert_string_equal(program_result.notes, TENANT_OPENED "tenants 65536\n" CLOSED);
	assert_int_equal(RUN("tenant", "create", "a"), EX_USAGE);
	assert_int_equal(RUN("tenant", "create", "a", "64x"), EX_USAGE);
	program_assert_said("kvctl: 64x: not a size" TRY("tenant"));
	assert_int_equal(RUN("tenant", "drop"), EX_USAGE);
	assert_int_equal(RUN("tenant", "list", "a"), EX_USAGE);
	assert_int_equal(RUN("tenant", "enlarge", "a", "64m"), EX_USAGE);
	assert_calls("revoke identity=alice\n", "revoke", "identity=alice");
	assert_string_equal(program_result.out, "7 connections closed\n");
}

static void keys_are_listed(void **state)
{
	static const struct kvd_entry entries[] = {
		{ .key = "one", .key_len = 3, .value = "1", .item = { .value_len = 1 } },
		{ .key = "t\0o", .key_len = 3, .value = "\0\n", .item = { .value_len = 2 } },
		{ .key = "\xfe\n", .key_len = 2, .item = { .value_len = 9000000000 } },
		{ .key = "four", .key_len = 4, .value = "", .item = { .value_len = 0 } },
		{ .key = "five", .key_len = 4, .value = "5", .item = { .value_len = 1 } },
	};

	(void)state;
	assert_calls("scan  0\n", "scan");
	assert_string_equal(program_result.out, "");
	behaviour.entries = entries;
	behaviour.entry_count = 5;
	assert_calls("scan  0\nscan  1\nscan  2\n", "scan");
	assert_int_equal(program_result.out_len, 21);
	assert_memory_equal(program_result.out, "one\nt\0o\n\xfe\n\nfour\nfive\n", 21);
	assert_calls("scan  0\nscan  1\nscan  2\n", "-x", "scan");
	assert_string_equal(program_result.out, "6f6e65\n74006f\nfe0a\n666f7572\n66697665\n");
	behaviour.entry_count = 4;
	assert_calls("scan pre 0 values\nscan pre 1 values\n", "-v", "scan", "pre");
	assert_int_equal(program_result.out_len, 41);
	assert_memory_equal(program_result.out,
			    "one\t1\nt\0o\t\0\n\n\xfe\n\t(9000000000 bytes)\nfour\t\n", 41);
	assert_calls("scan \\x00\\xff 0\nscan \\x00\\xff 1\n", "-x", "scan", "00ff");
}

/* What would move the cursor, or is no UTF-8, is quoted; -0 is for programs there, too. */
static void keys_on_a_terminal(void **state)
{
	static const struct kvd_entry entries[] = {
		{ .key = "one", .key_len = 3, .value = "\x1b[2J", .item = { .value_len = 4 } },
		{ .key = "t\0o\n\t\"", .key_len = 6, .value = "", .item = { .value_len = 0 } },
		{ .key = "\xc3\xbc \xfe\\", .key_len = 5, .item = { .value_len = 9000000000 } },
		{ .key = "\xe2\x82\xac $\"'#",
		  .key_len = 8,
		  .value = "\xc2\x9b",
		  .item = { .value_len = 2 } },
	};

	(void)state;
	behaviour.terminal = true;
	behaviour.entries = entries;
	behaviour.entry_count = 4;
	assert_calls("scan  0\nscan  1\n", "scan");
	assert_string_equal(program_result.out, "one\n\"t\\x00o\\n\\t\\\"\"\n"
						"\"\xc3\xbc \\xfe\\\\\"\n"
						"\xe2\x82\xac $\"'#\n");
	assert_calls("scan  0 values\nscan  1 values\n", "-v", "scan");
	assert_non_null(strstr(program_result.out, "one\t\"\\x1b[2J\"\n\"t"));
	assert_non_null(strstr(program_result.out, "#\t\"\\xc2\\x9b\"\n"));
	assert_calls("scan  0\nscan  1\n", "-0", "scan");
	assert_memory_equal(program_result.out, "one\0t\0o\n\t\"\0\xc3\xbc \xfe\\", 16);
}

/* What came before it is printed. */
static void a_scan_fails(void **state)
{
	static const struct kvd_entry entries[] = { { .key = "a", .key_len = 1 },
						    { .key = "b", .key_len = 1 },
						    { .key = "c", .key_len = 1 } };

	(void)state;
	behaviour.entries = entries;
	behaviour.entry_count = 3;
	behaviour.call = KVD_ERR_DISCONNECTED;
	behaviour.error = "gone";
	behaviour.calls_good = 1;
	assert_fails(EX_SOFTWARE, "kvctl: connection lost: gone\n", "scan");
	assert_string_equal(program_result.out, "a\nb\n");
	assert_string_equal(program_result.notes, OPENED "scan  0\nscan  1\n" CLOSED);
	/* What passes is waited for, and nothing comes twice. */
	behaviour.call = KVD_ERR_BUSY;
	behaviour.calls_good = 1;
	assert_calls("scan  0\nscan  1\nscan  1\n", "scan");
	assert_string_equal(program_result.out, "a\nb\nc\n");
}

static void texts_of_the_server(void **state)
{
	(void)state;
	assert_calls("stats 65536\n", "stats");
	assert_string_equal(program_result.out, "stats of a server\n");
	assert_calls("clients 33554432\n", "clients");
	assert_string_equal(program_result.out, "clients of a server\n");
	behaviour.texts[0] = "id=1 device=mlx5_0 idle=0.5\nid=2 device= odd\n";
	behaviour.text_count = 1;
	assert_calls("clients 33554432\n", "clients", "--json");
	assert_string_equal(program_result.out,
			    "{\"id\": 1, \"device\": \"mlx5_0\", \"idle\": 0.5}\n"
			    "{\"id\": 2, \"device\": \"\", \"odd\": \"\"}\n");
	behaviour.text_count = 0;
	behaviour.call = KVD_ERR_TIMEOUT;
	assert_fails(EX_SOFTWARE, "kvctl: timed out\n", "stats");
	assert_string_equal(program_result.out, "");
	assert_fails(EX_SOFTWARE, "kvctl: timed out\n", "clients");
	assert_string_equal(program_result.out, "");
	behaviour.call = KVD_OK;
	behaviour.memory_max = 33554431;
	assert_fails(EX_OSERR, "kvctl: out of memory\n", "clients");
	assert_string_equal(program_result.notes, OPENED CLOSED);
}

/* For people: under headings, without what is 0, bytes and times in large units, too. */
static void statistics_in_groups(void **state)
{
	(void)state;
	behaviour.terminal = true;
	behaviour.texts[0] = "gets 5\npuncture 1\nuptime_s 3661\nput_no_space 0\n"
			     "device.0.why the configuration asks for it\n"
			     "region_bytes 67108864\nsweeps 18446744073709551615\n";
	behaviour.text_count = 1;
	assert_calls("stats 65536\n", "stats");
	assert_string_equal(program_result.out,
			    "Server\n"
			    "  uptime_s                     3661 (1:01:01)\n"
			    "\nDevices\n"
			    "  device.0.why                 the configuration asks for it\n"
			    "\nKeys\n"
			    "  sweeps                       18446744073709551615\n"
			    "\nMemory\n"
			    "  region_bytes                 67108864 (64.0 MiB)\n"
			    "\nRequests\n"
			    "  gets                         5\n"
			    "\nOther\n"
			    "  puncture                     1\n"
			    "\n1 more are 0: -v prints them, kvd --help explains all\n");
	assert_calls("stats 65536\n", "-v", "stats");
	assert_non_null(strstr(program_result.out, "  put_no_space                 0\n"));
	assert_null(strstr(program_result.out, " more "));
	assert_calls("stats 65536\n", "--raw", "stats");
	assert_string_equal(program_result.out, behaviour.texts[0]);
	assert_calls("stats 65536\n", "--json", "stats");
	assert_string_equal(program_result.out,
			    "{\"gets\": 5, \"puncture\": 1, \"uptime_s\": 3661, "
			    "\"put_no_space\": 0, "
			    "\"device.0.why\": \"the configuration asks for it\", "
			    "\"region_bytes\": 67108864, "
			    "\"sweeps\": \"18446744073709551615\"}\n");
	behaviour.terminal = false;
	assert_calls("stats 65536\n", "stats");
	assert_string_equal(program_result.out, behaviour.texts[0]);
	assert_usage("kvctl: --count: how often: with --watch. Try `kvctl help stats`.\n", "stats",
		     "-c2");
	assert_usage("kvctl: --watch 0" NO_INTERVAL TRY("stats"), "stats", "-w0");
}

/* Of a user without the right admin, and of one without the right stats. */
static void top_without_rights(void **state)
{
	(void)state;
	assert_int_equal(RUN("top"), EX_OK);
	assert_null(strstr(program_result.out, "not allowed"));
	behaviour.clients = KVD_ERR_NOT_ALLOWED;
	assert_int_equal(RUN("top"), EX_OK);
	assert_non_null(strstr(program_result.out, "\nConnections: not allowed: "));
	assert_null(strstr(program_result.out, "ADDRESS"));
	behaviour.clients = KVD_ERR_BUSY;
	assert_fails(EX_SOFTWARE, "kvctl: server busy\n", "top");
	assert_string_equal(program_result.out, "");
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "top");
	assert_string_equal(program_result.out, "");
}

/* Counters are shown as growth a second, also after the server has restarted; the rest as is. */
static void statistics_are_watched(void **state)
{
	(void)state;
	behaviour.texts[0] = "items 7\ngets 1000\nputs 5\npull_bytes 0\n";
	behaviour.texts[1] = "items 3\ngets 1005\nputs 5\npull_bytes 4194304\n";
	behaviour.texts[2] = "items 3\ngets 10\nputs 0\npull_bytes 0\n";
	behaviour.text_count = 3;
	assert_calls("stats 65536\nstats 65536\nstats 65536\n", "stats", "--watch", "2", "-c3");
	assert_string_equal(
		program_result.out,
		"Keys\n  items                        7\n"
		"\nRequests\n"
		"  gets                         1000\n"
		"  puts                         5\n"
		"\n1 more are 0: -v prints them, kvd --help explains all\n"
		"\nKeys\n  items                        3\n"
		"\nRequests\n"
		"  gets                         2.5/s\n"
		"\nLarge values\n"
		"  pull_bytes                   2.0 MiB/s\n"
		"\n1 more are 0 or have not grown: -v prints them, kvd --help explains all\n"
		"\nKeys\n  items                        3\n"
		"\nRequests\n"
		"  gets                         5.0/s\n"
		"  puts                         0.0/s\n"
		"\nLarge values\n"
		"  pull_bytes                   0 B/s\n");
	assert_calls("stats 65536\nstats 65536\n", "stats", "--watch", "2", "-c2", "--raw");
	assert_string_equal(program_result.out, "items 7\ngets 1000\nputs 5\npull_bytes 0\n\n"
						"items 3\ngets 1005\nputs 5\n"
						"pull_bytes 4194304\n");
	assert_calls("stats 65536\nstats 65536\n", "stats", "--watch", "2", "-c2", "--json");
	assert_string_equal(program_result.out,
			    "{\"items\": 7, \"gets\": 1000, \"puts\": 5, \"pull_bytes\": 0}\n"
			    "{\"items\": 3, \"gets\": 1005, \"puts\": 5, "
			    "\"pull_bytes\": 4194304}\n");
	/* A terminal shows them in the same place. */
	behaviour.terminal = true;
	assert_calls("stats 65536\nstats 65536\n", "stats", "--watch", "2", "-c2");
	assert_memory_equal(program_result.out, "\033[H\033[2JKeys\n", 12);
	assert_non_null(strstr(program_result.out + 1, "\033[H\033[2JKeys\n"));
}

static void properties_of_the_connection(void **state)
{
	(void)state;
	assert_calls("", "info");
	assert_string_equal(program_result.out, "device.kind softnic\n"
						"device.name softnic0\n"
						"device.why the URL says so\n"
						"incarnation 000abcdef0123456\n"
						"region_bytes 1099511627776\n"
						"value_max 8589934592\n"
						"window 11\n"
						"request_bytes 8192\n"
						"cache_bytes 17179869184\n"
						"buckets 34359738368\n"
						"clock_error_ns 5000000000\n"
						"access_rate 16\n");
	behaviour.link = "gid=::1 mtu=1024";
	assert_calls("", "info");
	assert_non_null(strstr(program_result.out, "device.why the URL says so\n"
						   "device.link gid=::1 mtu=1024\n"
						   "incarnation 000abcdef0123456\n"));
	behaviour.tenant = "alpha";
	/* A fake that does not find the tenant of `behaviour` in the options says so. */
	assert_int_equal(RUN("--tenant", "alpha", "info"), EX_OK);
	assert_string_equal(program_result.notes, OPENED CLOSED);
	assert_non_null(strstr(program_result.out, "tenant alpha\nincarnation "));
}

static void pings(void **state)
{
	(void)state;
	assert_calls("ping ", "ping");
	assert_string_equal(program_result.out, "pong from " URL ": 1.2 us\n");
	assert_int_equal(RUN("-a", "rdma://h:1", "-c", "3", "ping"), EX_OK);
	assert_string_equal(program_result.out, "pong from rdma://h:1: 1.2 us\n"
						"pong from rdma://h:1: 2.5 us\n"
						"pong from rdma://h:1: 3.8 us\n");
	behaviour.call = KVD_ERR_TIMEOUT;
	behaviour.calls_good = 2;
	assert_fails(EX_SOFTWARE, "kvctl: timed out\n", "-c", "4", "ping");
	assert_string_equal(program_result.notes, OPENED "ping ping ping " CLOSED);
	assert_string_equal(program_result.out, "pong from " URL ": 1.2 us\n"
						"pong from " URL ": 2.5 us\n");
}

/* Each in a line, in the order of the words; those that are missing are named. */
static void several_keys_are_read(void **state)
{
	(void)state;
	behaviour.item = (struct kvd_item){ .value_len = 3, .version = 5 };
	assert_calls("get a 65536\nget b 65536\n", "get", "a", "b");
	assert_string_equal(program_result.out, "a\tabc\nb\tabc\n");
	assert_calls("get \\x00 65536\nget \\x0a 65536\n", "-x", "-0", "get", "00", "0a");
	assert_int_equal(program_result.out_len, 14);
	assert_memory_equal(program_result.out, "00\tabc\0000a\tabc", 14);
	assert_fails(EX_OK,
		     "a: length 3 version 5 flags 0 expires 0\n"
		     "b: length 3 version 5 flags 0 expires 0\n",
		     "get", "-v", "a", "b");
	assert_usage("kvctl: : a key has 1 to 1024 bytes. Try `kvctl help get`.\n", "get", "a", "");
	behaviour.call = KVD_NOT_FOUND;
	assert_fails(1, "kvctl: a: not found\nkvctl: b: not found\n", "get", "a", "b");
	/* A terminal obeys no key. */
	assert_fails(1, "kvctl: ?[2J: not found\nkvctl: ??\xc3\xa4: not found\n", "get", "\x1b[2J",
		     "\xc2\x9b\xc3\xa4");
	assert_string_equal(program_result.out, "");
	/* What concerns all keys is said once. */
	behaviour.call = KVD_ERR_DISCONNECTED;
	assert_fails(EX_SOFTWARE, "kvctl: a: connection lost\n", "get", "a", "b");
	assert_string_equal(program_result.notes, OPENED "get a 65536\n" CLOSED);
}

static void values_without_a_new_line_or_in_hexadecimal(void **state)
{
	(void)state;
	behaviour.item.value_len = 3;
	behaviour.terminal = true;
	assert_calls("get key 65536\n", "-n", "get", "key");
	assert_string_equal(program_result.out, "abc");
	assert_calls("get key 65536\n", "get", "--hex-values", "key");
	assert_string_equal(program_result.out, "616263\n");
	assert_calls("get key 65536\n", "get", "-0", "key");
	assert_int_equal(program_result.out_len, 4);
	assert_memory_equal(program_result.out, "abc", 4);
}

static void keys_are_looked_up(void **state)
{
	(void)state;
	behaviour.item =
		(struct kvd_item){ .value_len = 3, .version = 5, .flags = 6, .expires_s = 1000 };
	assert_calls("exists  a\n", "exists", "a");
	assert_string_equal(program_result.out, "1\n");
	assert_fails(1, "", "exists", "a", "b", "c");
	assert_string_equal(program_result.out, "2\n");
	assert_string_equal(program_result.notes, OPENED "exists  a b c\n" CLOSED);
	assert_fails(1, "", "exists", "--json", "-x", "61", "ff");
	assert_string_equal(program_result.out,
			    "{\"key\": {\"hex\": \"61\"}, \"exists\": true, \"value_bytes\": 3, "
			    "\"version\": 5, \"flags\": 6, \"expires\": 1000}\n"
			    "{\"key\": {\"hex\": \"ff\"}, \"exists\": false}\n");
	assert_usage("kvctl: : a key has 1 to 1024 bytes. Try `kvctl help exists`.\n", "exists",
		     "a", "");
	behaviour.call = KVD_ERR_TIMEOUT;
	assert_fails(EX_SOFTWARE, "kvctl: timed out\n", "exists", "a");
	assert_string_equal(program_result.out, "");
}

static void times_to_live(void **state)
{
	(void)state;
	behaviour.item.expires_s = 0;
	assert_calls("exists  a\n", "ttl", "a");
	assert_string_equal(program_result.out, "never\n");
	assert_calls("exists  a\n", "--json", "ttl", "a");
	assert_string_equal(program_result.out,
			    "{\"key\": \"a\", \"ttl\": null, \"expires\": 0}\n");
	behaviour.item.expires_s = 1000;
	behaviour.clock_ns = 990900000000;
	assert_calls("exists  a\nclock \nclock \n", "ttl", "a");
	assert_string_equal(program_result.out, "9\n");
	assert_calls("exists  a\nclock \nclock \n", "ttl", "a", "--json");
	assert_string_equal(program_result.out,
			    "{\"key\": \"a\", \"ttl\": 9, \"expires\": 1000}\n");
	/* 0 would say that it never expires. */
	behaviour.clock_ns = 999999999999;
	assert_calls("exists  a\nclock \nclock \n", "ttl", "a");
	assert_string_equal(program_result.out, "1\n");
	/* The key expires before the clock is read. */
	for (behaviour.clock_ns = 1000000000000; behaviour.clock_ns <= 1001000000000;
	     behaviour.clock_ns += 1000000000) {
		assert_fails(1, "kvctl: not found\n", "ttl", "a");
		assert_string_equal(program_result.out, "");
		assert_fails(1, "kvctl: not found\n", "--json", "ttl", "a");
		assert_string_equal(program_result.out, "");
	}
	/* The handle has to ask first. */
	behaviour.clock_ns = 0;
	assert_calls("exists  a\nclock \nping clock \n", "ttl", "a");
	behaviour.call = KVD_NOT_FOUND;
	assert_fails(1, "kvctl: not found\n", "ttl", "a");
}

static void several_keys_are_removed(void **state)
{
	(void)state;
	assert_calls("delete a\ndelete b\n", "del", "a", "b");
	assert_string_equal(program_result.out, "");
	assert_usage("kvctl: : a key has 1 to 1024 bytes. Try `kvctl help del`.\n", "del", "a", "");
	behaviour.call = KVD_NOT_FOUND;
	assert_fails(1, "kvctl: a: not found\nkvctl: b: not found\n", "del", "a", "b");
	assert_string_equal(program_result.notes, OPENED "delete a\ndelete b\n" CLOSED);
	assert_fails(1, "kvctl: not found\n", "del", "a", "--json");
	assert_string_equal(program_result.out, "{\"key\": \"a\", \"deleted\": false}\n");
	behaviour.call = KVD_ERR_TIMEOUT;
	assert_fails(EX_SOFTWARE, "kvctl: a: timed out\n", "del", "a", "b");
	assert_string_equal(program_result.notes, OPENED "delete a\n" CLOSED);
}

static void results_as_json(void **state)
{
	(void)state;
	behaviour.item =
		(struct kvd_item){ .value_len = 3, .version = 5, .flags = 6, .expires_s = 1000 };
	behaviour.number = 7;
	behaviour.terminal = true;
	assert_calls("get \"\\xff 65536\n", "--json", "get", "\"\xff");
	assert_string_equal(program_result.out,
			    "{\"key\": {\"hex\": \"22ff\"}, \"value\": \"abc\", \"version\": 5, "
			    "\"flags\": 6, \"expires\": 1000}\n");
	assert_calls("gat \" ttl 9 65536\n", "--json", "--hex-values", "gat", "\"", "9");
	assert_string_equal(program_result.out,
			    "{\"key\": \"\\\"\", \"value\": {\"hex\": \"616263\"}, "
			    "\"version\": 5, \"flags\": 6, \"expires\": 1000}\n");
	assert_calls("delete \\xc2\\x9bA\\x7f\n", "--json", "del",
		     "\xc2\x9b"
		     "A\x7f");
	assert_non_null(strstr(program_result.out, "{\"key\": \"\\u009bA\\u007f\""));
	assert_calls("set k v flags 0 ttl 0 pin 0 low 0 if 0\n", "--json", "put", "k", "v");
	assert_string_equal(program_result.out, "{\"key\": \"k\", \"version\": 42}\n");
	assert_calls("incr k by 1 create 0 flags 0 ttl 0 initial 0\n", "--json", "incr", "k");
	assert_string_equal(program_result.out,
			    "{\"key\": \"k\", \"number\": 7, \"version\": 42}\n");
	assert_calls("touch k ttl 0\n", "--json", "touch", "k", "0");
	assert_string_equal(program_result.out, "{\"key\": \"k\", \"version\": 42}\n");
	assert_calls("delete k\n", "--json", "del", "k");
	assert_string_equal(program_result.out, "{\"key\": \"k\", \"deleted\": true}\n");
	assert_calls("ping ping ", "--json", "-c2", "ping");
	assert_string_equal(program_result.out, "{\"us\": 1.2}\n{\"us\": 2.5}\n");
	assert_calls("", "--json", "info");
	assert_non_null(strstr(program_result.out, "\"incarnation\": \"000abcdef0123456\", "
						   "\"region_bytes\": 1099511627776"));
	behaviour.call = KVD_NOT_FOUND;
	assert_fails(1, "kvctl: not found\n", "--json", "get", "k");
	assert_string_equal(program_result.out, "{\"key\": \"k\", \"value\": null}\n");
	assert_fails(1, "kvctl: not found\n", "--json", "incr", "k");
	assert_string_equal(program_result.out, "");
}

/* Values in hexadecimal, of a word, the input, and a file. */
static void values_of_files_and_digits(void **state)
{
	char path[] = "/tmp/kvctl-value-XXXXXX", said[200];
	const int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "00fF\n", 5), 5);
	assert_calls("set k \\x00\\xff flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "--hex-values",
		     "k", "00fF");
	assert_calls("set k  flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "--hex-values", "k", "");
	assert_calls("set k 00fF\\x0a flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "-F", path, "k");
	assert_calls("version k \\x00\\xff flags 0 ttl 0 pin 0 low 0 if 7\n", "cas", "--file", path,
		     "--hex-values", "k", "7");
	program_files.input = "6162\n";
	program_files.input_len = 5;
	assert_calls("append k ab flags 0 ttl 0 pin 0 low 0 if 0\n", "append", "--hex-values", "k");
	for (const char *const *bad = (const char *const[]){ "0", "0g", "00\n", NULL }; *bad; bad++)
		assert_usage("kvctl: --hex-values: the value is not hexadecimal" TRY("put"), "put",
			     "--hex-values", "k", *bad);
	assert_usage("kvctl: v: a value, and --file: give one of them. Try `kvctl help put`.\n",
		     "put", "-F", path, "k", "v");
	close(fd);
	unlink(path);
	snprintf(said, sizeof(said), "kvctl: can't open %s: No such file or directory\n", path);
	assert_fails(EX_IOERR, said, "put", "-F", path, "k");
	assert_fails(EX_IOERR, "kvctl: can't read the value from /tmp: Is a directory\n", "put",
		     "-F", "/tmp", "k");
	assert_string_equal(program_result.notes, OPENED CLOSED);
}

/* Runs it, and finds the name in what it prints, with no byte in it that a terminal obeys. */
#define assert_masked(status, masked, ...)                                                         \
	do {                                                                                       \
		const char *printed;                                                               \
		assert_int_equal(RUN(__VA_ARGS__), status);                                        \
		printed = *program_result.err ? program_result.err : program_result.out;           \
		assert_null(strpbrk(printed, "\x1b\x9b"));                                         \
		assert_non_null(strstr(printed, masked));                                          \
	} while (0)

/* A terminal obeys no file's name and no URL. */
static void names_are_masked(void **state)
{
	static const char absent[] = "/absent\x1b[2J/\xc2\x9b\x9b", bad[] = "a\x1b[2J\x9b";
	char folder[] = "/tmp/kvctl-masked-XXXXXX", path[100];
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/\x1b]0;", folder);
	assert_masked(EX_IOERR, "can't open /absent?[2J/???: No such file", "put", "-F", absent,
		      "k");
	assert_masked(EX_IOERR, "can't open /absent?[2J/???: No such file", "restore", absent);
	assert_masked(EX_IOERR, "/absent?[2J/???", "dump", absent);
	assert_masked(EX_OK, "/?]0;: 0 keys", "dump", path);
	assert_masked(EX_OK, "/?]0;: of ", "restore", "--verify", path);
	assert_masked(EX_DATAERR, "/?]0;.restore: there is nothing", "restore", "--resume", path);
	behaviour.call = KVD_ERR_DISCONNECTED;
	assert_masked(EX_SOFTWARE, "connection lost", "dump", path);
	behaviour.call = KVD_OK;
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("no dump", file);
	fclose(file);
	assert_masked(EX_DATAERR, "/?]0;, byte 0: ", "restore", path);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_masked(EX_IOERR, "can't read the value from /tmp/", "put", "-F", path, "k");
	rmdir(path);
	rmdir(folder);
	assert_masked(EX_OK, "pong from a?[2J?: ", "-a", bad, "ping");
	behaviour.open = KVD_ERR_UNREACHABLE;
	behaviour.error = bad;
	assert_masked(EX_UNAVAILABLE, "kvctl: a?[2J?\n", "-a", bad, "ping");
}

/* A script with more lines, each with a file, than there may be descriptors. */
static void assert_files_are_closed(int status, const char *line)
{
	char script[64 * 100];
	struct rlimit old, few;
	int got;

	program_files.input = script;
	program_files.input_len = 0;
	for (unsigned int i = 0; i < 100; i++)
		program_files.input_len += (size_t)snprintf(script + program_files.input_len, 64,
							    "%s\n", line);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 50;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	got = RUN(NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_null(strstr(program_result.err, "Too many open files"));
	assert_int_equal(got, status);
}

/* Also if it can't be read. */
static void files_are_closed(void **state)
{
	static const char empty[] = "/dev/null";
	char dump[] = "/tmp/kvctl-dump-XXXXXX", line[60];
	const int fd = mkstemp(dump);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(RUN("dump", dump), EX_OK);
	snprintf(line, sizeof(line), "put -F %s k", empty);
	assert_files_are_closed(EX_OK, line);
	assert_files_are_closed(EX_IOERR, "put -F /tmp k");
	snprintf(line, sizeof(line), "dump %s", dump);
	assert_files_are_closed(EX_OK, line);
	snprintf(line, sizeof(line), "restore %s", dump);
	assert_files_are_closed(EX_OK, line);
	snprintf(line, sizeof(line), "restore --verify %s", dump);
	assert_files_are_closed(EX_OK, line);
	snprintf(line, sizeof(line), "restore --verify %s", empty);
	assert_files_are_closed(EX_DATAERR, line);
	unlink(dump);
}

/* What a restore says of --resume when the server goes away is true. */
static void a_restore_stops(void **state)
{
	static char value[300000]; /* each has a block of its own */
	struct kvd_entry entries[3];
	char path[] = "/tmp/kvctl-stops-XXXXXX", noted[100], fresh[120];
	const int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	snprintf(noted, sizeof(noted), "%s.restore", path);
	snprintf(fresh, sizeof(fresh), "%s.new", noted);
	behaviour.clock_ns = 1;
	for (size_t i = 0; i < 3; i++)
		entries[i] = (struct kvd_entry){ .key = &"abc"[i],
						 .key_len = 1,
						 .value = value,
						 .item.value_len = sizeof(value) };
	behaviour.entries = entries;
	behaviour.entry_count = 3;
	assert_int_equal(RUN("dump", path), EX_OK);
	behaviour.call = KVD_ERR_DISCONNECTED;
	behaviour.calls_good = 3;
	assert_int_equal(mkdir(fresh, 0700), 0);
	assert_int_equal(RUN("restore", path), EX_SOFTWARE);
	program_assert_said(".restore: Is a directory; --resume can't continue from here\n");
	assert_null(strstr(program_result.err, "--resume continues"));
	assert_int_equal(access(noted, F_OK), -1);
	assert_int_equal(rmdir(fresh), 0);
	assert_int_equal(RUN("restore", path), EX_SOFTWARE);
	program_assert_said("kvctl: --resume continues from here\n");
	behaviour.call = KVD_OK;
	assert_int_equal(RUN("restore", "--resume", path), EX_OK);
	assert_null(strstr(program_result.notes, "submit set b"));
	assert_non_null(strstr(program_result.notes, "submit set c"));
	assert_string_equal(program_result.out, "3 keys stored\n");
	assert_int_equal(access(noted, F_OK), -1);
	unlink(path);
}

static void keys_are_chosen_and_counted(void **state)
{
	static const struct kvd_entry entries[] = {
		{ .key = "one", .key_len = 3, .value = "1", .item = { .value_len = 1 } },
		{ .key = "t\0o", .key_len = 3, .value = "\0\n", .item = { .value_len = 2 } },
		{ .key = "\xfe\n", .key_len = 2, .item = { .value_len = 9000000000 } },
	};

	(void)state;
	behaviour.entries = entries;
	behaviour.entry_count = 3;
	assert_calls("scan  0\nscan  1\n", "scan", "--match", "*o*");
	assert_int_equal(program_result.out_len, 8);
	assert_memory_equal(program_result.out, "one\nt\0o\n", 8);
	assert_calls("scan  0\nscan  1\n", "scan", "-0", "--match", "?[!n]*");
	assert_int_equal(program_result.out_len, 7);
	assert_memory_equal(program_result.out, "t\0o\0\xfe\n", 7);
	assert_calls("scan  0 values\nscan  1 values\n", "scan", "--json", "-v", "--hex-values");
	assert_string_equal(
		program_result.out,
		"{\"key\": \"one\", \"value\": {\"hex\": \"31\"}, \"value_bytes\": 1, "
		"\"version\": 0, \"flags\": 0, \"expires\": 0}\n"
		"{\"key\": \"t\\u0000o\", \"value\": {\"hex\": \"000a\"}, \"value_bytes\": 2, "
		"\"version\": 0, \"flags\": 0, \"expires\": 0}\n"
		"{\"key\": {\"hex\": \"fe0a\"}, \"value_bytes\": 9000000000, "
		"\"version\": 0, \"flags\": 0, \"expires\": 0}\n");
	assert_calls("scan  0\nscan  1\n", "count");
	assert_string_equal(program_result.out, "3\n");
	assert_calls("scan pre 0\nscan pre 1\n", "count", "--json", "--match", "*o*", "pre");
	assert_string_equal(program_result.out, "{\"keys\": 2}\n");
	assert_usage("kvctl: --match: a pattern has 1 to 1024 bytes. Try `kvctl help count`.\n",
		     "count", "--match", "");
	behaviour.call = KVD_ERR_NO_MEMORY;
	assert_fails(EX_SOFTWARE, "kvctl: out of memory in the client\n", "count");
	assert_string_equal(program_result.out, "");
}

/* Whatever could not be written: a script must not take the rest for all. */
static void output_that_is_full(void **state)
{
	static const struct kvd_entry entries[] = { { .key = "a", .key_len = 1 } };
	static const char *const each[][3] = {
		{ "get", "key" },
		{ "-v", "get", "key" },
		{ "gat", "key", "1" },
		{ "incr", "key" },
		{ "decr", "key" },
		{ "scan" },
		{ "stats" },
		{ "clients" },
		{ "info" },
		{ "-c2", "ping" },
		{ "-V" },
		{ "-h" },
	};

	(void)state;
	behaviour.item.value_len = 3;
	behaviour.entries = entries;
	behaviour.entry_count = 1;
	program_files.output_path = "/dev/full";
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		assert_fails(EX_IOERR, "kvctl: standard output: No space left on device\n",
			     each[i][0], each[i][1], each[i][2]);
	/* Nothing is written. */
	assert_calls("delete key\n", "del", "key");
	/* What failed first is said. */
	behaviour.call = KVD_ERR_TIMEOUT;
	assert_fails(EX_SOFTWARE, "kvctl: timed out\n", "stats");
}

/* A script ends at a full output: its other lines would print, too, and nobody would see it. */
static void a_script_with_a_full_output(void **state)
{
	static const char script[] = "put a 1\nget a\nget b\ndel a\n";

	(void)state;
	behaviour.item.value_len = 3;
	program_files.output_path = "/dev/full";
	program_files.input = script;
	program_files.input_len = strlen(script);
	assert_fails(EX_IOERR,
		     "kvctl: standard output: No space left on device\n"
		     "kvctl: no line after line 2 was run\n",
		     NULL);
	assert_non_null(strstr(program_result.notes, "get a "));
	assert_null(strstr(program_result.notes, "get b "));
	assert_int_equal(RUN("--pipe"), EX_IOERR);
	assert_non_null(strstr(program_result.notes, "get a "));
	assert_null(strstr(program_result.notes, "get b "));
	program_assert_said("2 lines read, 1 commands done, 1 failed\n");
}

/* A scan ends there, though the server has more. */
static void a_scan_to_a_full_disk(void **state)
{
	static char key[KVD_KEY_MAX];
	static struct kvd_entry entries[100];

	(void)state;
	for (size_t i = 0; i < 100; i++)
		entries[i] = (struct kvd_entry){ .key = key, .key_len = sizeof(key) };
	behaviour.entries = entries;
	behaviour.entry_count = 100;
	program_files.output_path = "/dev/full";
	assert_fails(EX_IOERR, "kvctl: standard output: No space left on device\n", "scan");
	assert_true(strlen(program_result.notes) < 50 * strlen("scan  0\n"));
}

static void exit_statuses(void **state)
{
	static const struct {
		enum kvd_status status;
		const char *error;
		int code;
		const char *said;
	} cases[] = {
		{ KVD_OK, "of an earlier call", 0, "" },
		{ KVD_NOT_FOUND, "whatever", 1, "kvctl: not found\n" },
		{ KVD_ERR_EXISTS, NULL, 2, "kvctl: the key exists or has another version\n" },
		{ KVD_ERR_NOT_A_NUMBER, NULL, 3, "kvctl: the value is not a number\n" },
		/* What is wrong is said once. */
		{ KVD_ERR_NO_SPACE, "the server's memory is full: raise it", 70,
		  "kvctl: the server's memory is full: raise it\n" },
		{ KVD_ERR_NOT_ALLOWED, "user reader has no right 'write'", 77,
		  "kvctl: user reader has no right 'write'\n" },
		{ KVD_ERR_INVALID, NULL, 70, "kvctl: invalid argument\n" },
		{ KVD_ERR_NO_MEMORY, NULL, 70, "kvctl: out of memory in the client\n" },
		{ KVD_ERR_DISCONNECTED, "gone", 70, "kvctl: connection lost: gone\n" },
	};
	static const char *const each[][4] = {
		{ "get", "key" },
		{ "gat", "key", "1" },
		{ "put", "key", "value" },
		{ "add", "key", "value" },
		{ "cas", "key", "1", "v" },
		{ "replace", "key", "value" },
		{ "append", "key", "v" },
		{ "prepend", "key", "v" },
		{ "incr", "key" },
		{ "decr", "key" },
		{ "touch", "key", "1" },
		{ "del", "key" },
		{ "scan" },
		{ "flush" },
		{ "flush", "1" },
		{ "clients" },
		{ "kill", "1" },
		{ "revoke", "uid=1" },
		{ "stats" },
		{ "ping" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		behaviour.call = cases[i].status;
		behaviour.error = cases[i].error;
		for (size_t j = 0; j < sizeof(each) / sizeof(each[0]); j++) {
			assert_fails(cases[i].code, cases[i].said, each[j][0], each[j][1],
				     each[j][2], each[j][3]);
			assert_non_null(strstr(program_result.notes, CLOSED));
		}
	}
}

/* A user that gave no address is told how to. */
static void no_connection(void **state)
{
	(void)state;
	behaviour.open = KVD_ERR_UNREACHABLE;
	assert_fails(EX_UNAVAILABLE,
		     "kvctl: no socket there (-a URL or $KVD_URL names another server)\n", "get",
		     "key");
	assert_string_equal(program_result.notes, OPENED);
	assert_fails(EX_UNAVAILABLE, "kvctl: no socket there\n", "-a", "rdma://h:1", "ping");
	assert_string_equal(program_result.notes, "open rdma://h:1 2000 5000\n");
}

/* The last one counts. */
static void timeouts(void **state)
{
	(void)state;
	assert_int_equal(RUN("-t", "1", "del", "key"), EX_OK);
	assert_string_equal(program_result.notes, "open " URL " 1 1\ndelete key\n" CLOSED);
	assert_int_equal(RUN("-t", "1", "-t3600000", "del", "key"), EX_OK);
	assert_string_equal(program_result.notes,
			    "open " URL " 3600000 3600000\ndelete key\n" CLOSED);
	assert_int_equal(RUN("--timeout", "5s", "del", "key"), EX_OK);
	assert_string_equal(program_result.notes, "open " URL " 5000 5000\ndelete key\n" CLOSED);
	assert_int_equal(RUN("-t250ms", "del", "key"), EX_OK);
	assert_string_equal(program_result.notes, "open " URL " 250 250\ndelete key\n" CLOSED);
	for (const char *const *bad =
		     (const char *const[]){ "3600001", "2h", "1us", "5 s", "x", "", "-1", NULL };
	     *bad; bad++) {
		assert_int_equal(RUN("-t", *bad, "del", "key"), EX_USAGE);
		program_assert_said(": not a time from 1ms to 1h: 500ms, 5s, 2m" TRY_ANY);
	}
}

#define MOST_64 "18446744073709551615"
#define BEYOND_64 "18446744073709551616"

/* @least: NULL, it is a time. */
static void assert_refused(const char *option, const char *number, const char *least,
			   const char *most)
{
	char said[200];

	if (least)
		snprintf(said, sizeof(said), "kvctl: %s%s" OUT_OF_RANGE("%s", "%s"), option, number,
			 least, most);
	else
		snprintf(said, sizeof(said), "kvctl: %s%s" NO_TIME, option, number);
	strcat(said, ". Try `kvctl ");
	assert_int_equal(strncmp(program_result.err, said, strlen(said)), 0);
	assert_string_equal(strchr(program_result.err, '\n'), "\n");
}

static void numbers_out_of_range(void **state)
{
	static const struct {
		const char *option, *least, *most, *beyond, *words[3];
	} each[] = {
		{ "--flags ", "0", "4294967295", "4294967296", { "-f", NULL, "put" } },
		{ "--ttl ", NULL, "1073741824", "1073741825", { "-e", NULL, "put" } },
		{ "--pin ", NULL, "1073741824", "1073741825", { "-p", NULL, "put" } },
		{ "--pin ", NULL, "1073741824", "1073741825", { "--pin", NULL, "put" } },
		{ "--initial ", "0", MOST_64, BEYOND_64, { "-i", NULL, "incr" } },
		{ "", "0", MOST_64, BEYOND_64, { "cas", "key", NULL } },
		{ "", "0", MOST_64, BEYOND_64, { "incr", "key", NULL } },
		{ "", "0", MOST_64, BEYOND_64, { "decr", "key", NULL } },
		{ "", NULL, "1073741824", "1073741825", { "touch", "key", NULL } },
		{ "", NULL, "1073741824", "1073741825", { "gat", "key", NULL } },
		{ "", NULL, "1073741824", "1073741825", { "flush", NULL } },
		{ "", "0", MOST_64, BEYOND_64, { "kill", NULL } },
	};
	static const char *const never[] = { "x", "", "-1", "+1", " 1", "1 ", "1x", "0x1" };
	/* What is left of them in 32 or 64 bits would be a number from 1 on. */
	static const char *const wrap[] = { "4294967297", "18446744073709551617" };

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		const char *const *w = each[i].words;
		const bool option = w[0][0] == '-';
		const char *number;

#define WITH(text)                                                                                 \
	((number = (text)), option ? RUN(w[0], number, w[2], "key") :                              \
			    w[1]   ? RUN("--", w[0], w[1], number) :                               \
				     RUN("--", w[0], number))
		assert_int_equal(WITH(each[i].most), EX_OK);
		assert_int_equal(WITH(each[i].beyond), EX_USAGE);
		assert_refused(each[i].option, each[i].beyond, each[i].least, each[i].most);
		for (size_t j = 0; j < sizeof(never) / sizeof(never[0]); j++) {
			assert_int_equal(WITH(never[j]), EX_USAGE);
			assert_refused(each[i].option, never[j], each[i].least, each[i].most);
		}
		for (size_t j = !strcmp(each[i].most, MOST_64); j < 2; j++) {
			assert_int_equal(WITH(wrap[j]), EX_USAGE);
			assert_refused(each[i].option, wrap[j], each[i].least, each[i].most);
		}
#undef WITH
	}
	assert_usage("kvctl: --timeout 0: not a time from 1ms to 1h: 500ms, 5s, 2m" TRY_ANY, "-t",
		     "0", "ping");
	assert_usage("kvctl: --count 0" OUT_OF_RANGE("1", "1000000000") TRY_ANY, "-c", "0", "ping");
	assert_usage("kvctl: --count 1000000001" OUT_OF_RANGE("1", "1000000000") TRY_ANY, "-c",
		     "1000000001", "ping");
	assert_usage("kvctl: --count 4294967297" OUT_OF_RANGE("1", "1000000000") TRY_ANY, "-c",
		     "4294967297", "ping");
	assert_usage("kvctl: --watch 4294967297" NO_INTERVAL TRY_ANY, "-w", "4294967297", "stats");
	assert_usage("kvctl: --top 4294967297" OUT_OF_RANGE("1", "10000") TRY_ANY, "--top",
		     "4294967297", "bigkeys");
	/* The first one fails. */
	behaviour.call = KVD_ERR_TIMEOUT;
	assert_int_equal(RUN("-c", "1000000000", "ping"), EX_SOFTWARE);
}

static void keys_of_any_bytes(void **state)
{
	static char key[KVD_KEY_MAX + 2], hex[2 * KVD_KEY_MAX + 3], said[4 * KVD_KEY_MAX];

	(void)state;
	memset(key, 'k', KVD_KEY_MAX);
	memset(hex, '6', 2 * KVD_KEY_MAX);
	assert_calls("delete <1024 bytes>\n", "del", key);
	assert_calls("delete <1024 bytes>\n", "-x", "del", hex);
	assert_calls("delete 0aAfF9\n", "del", "0aAfF9");
	assert_calls("delete \\x0a\\xaf\\xf9\n", "-x", "del", "0aAfF9");
	assert_calls("delete \\x00\n", "-x", "del", "00");
	key[KVD_KEY_MAX] = 'k';
	snprintf(said, sizeof(said), "kvctl: %s: a key has 1 to 1024 bytes" TRY("del"), key);
	assert_usage(said, "del", key);
	assert_usage("kvctl: : a key has 1 to 1024 bytes. Try `kvctl help del`.\n", "del", "");
	hex[2 * KVD_KEY_MAX] = hex[2 * KVD_KEY_MAX + 1] = '6';
	snprintf(said, sizeof(said), "kvctl: %s: not 1 to 1024 bytes in hexadecimal" TRY("del"),
		 hex);
	assert_usage(said, "-x", "del", hex);
	assert_usage("kvctl: 666: not 1 to 1024 bytes in hexadecimal. Try `kvctl help del`.\n",
		     "-x", "del", "666");
	assert_usage("kvctl: : not 1 to 1024 bytes in hexadecimal. Try `kvctl help del`.\n", "-x",
		     "del", "");
	for (const char *bad = "gG@`/: z~"; *bad; bad++) {
		const char high[] = { *bad, '0', '\0' }, low[] = { '0', *bad, '\0' };

		snprintf(said, sizeof(said), "kvctl: %s: not hexadecimal" TRY("del"), high);
		assert_usage(said, "-x", "del", high);
		snprintf(said, sizeof(said), "kvctl: %s: not hexadecimal" TRY("del"), low);
		assert_usage(said, "-x", "del", low);
	}
}

/* Each command's least and most words, itself included, and its help. */
static void words_of_commands(void **state)
{
	static const struct {
		const char *name;
		size_t min, max;
	} each[] = {
		{ "get", 2, 5 },     { "gat", 3, 3 },	 { "put", 2, 3 },    { "add", 2, 3 },
		{ "replace", 2, 3 }, { "cas", 3, 4 },	 { "append", 2, 3 }, { "prepend", 2, 3 },
		{ "incr", 2, 3 },    { "decr", 2, 3 },	 { "touch", 3, 3 },  { "del", 2, 5 },
		{ "scan", 1, 2 },    { "flush", 1, 2 },	 { "stats", 1, 1 },  { "clients", 1, 1 },
		{ "kill", 2, 2 },    { "revoke", 2, 2 }, { "info", 1, 1 },   { "ping", 1, 1 },
	};
	char said[100];

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		const char *words[7] = { each[i].name, "1", "1", "1", "1" };

		snprintf(said, sizeof(said), "kvctl: %s: wrong number of arguments (%s",
			 each[i].name, each[i].name);
		for (size_t n = 5; n > 0; words[--n] = NULL) {
			const bool right = each[i].min <= n && n <= each[i].max;

			assert_int_equal(program_run(kvctl_main, "kvctl", words),
					 right ? EX_OK : EX_USAGE);
			assert_int_equal(!*program_result.err, right);
			assert_true(right || !strncmp(program_result.err, said, strlen(said)));
			assert_int_equal(!!strstr(program_result.notes, OPENED), right);
		}
	}
}

/* The usage goes to the standard output if it was asked for; else a line names it. */
static void usage_of_kvctl(void **state)
{
	(void)state;
	assert_int_equal(RUN("-h"), EX_OK);
	assert_memory_equal(program_result.out, "Usage: kvctl ", 13);
	assert_string_equal(program_result.err, "");
	assert_usage("kvctl: no command, and none on the standard input. Try `kvctl -h`.\n", NULL);
	assert_string_equal(program_result.out, "");
	assert_int_equal(RUN("-V"), EX_OK);
	assert_string_equal(program_result.out, "kvctl 0.4.0\n");
	assert_usage("kvctl: no command 'frobnicate'. Try `kvctl -h`.\n", "frobnicate");
	assert_int_equal(RUN("-Z", "ping"), EX_USAGE);
	program_assert_said(TRY_ANY);
	assert_int_equal(RUN("-t"), EX_USAGE);
	program_assert_said(TRY_ANY);
	assert_string_equal(program_result.notes, "");
}

/* Anywhere on the line, but after -- there are words only. */
static void options_stand_anywhere(void **state)
{
	(void)state;
	assert_calls("request key 65536\n", "get", "key", "-r");
	assert_calls("request key 65536\n", "get", "--request", "key");
	assert_calls("scan  0 values\n", "scan", "-v");
	assert_calls("scan -v 0\n", "scan", "--", "-v");
	assert_calls("set -k v flags 0 ttl 90 pin 0 low 0 if 0\n", "put", "-e90", "--", "-k", "v");
	assert_calls("set k -v flags 0 ttl 120 pin 0 low 0 if 0\n", "--ttl=2m", "put", "--", "k",
		     "-v");
	assert_calls("set k -- flags 0 ttl 0 pin 0 low 0 if 0\n", "put", "--", "k", "--");
}

/* What is printed is the range, and what is said of it the whole value's. */
static void ranges(void **state)
{
	static const char *const bad[] = {
		"",	":",	"1",	"1:",	 ":1",		 "-1:1",
		"1:-1", " 1:1", "1:1x", "1:1:1", "1:1073741825", "18446744073709551616:1"
	};

	(void)state;
	assert_calls("range key 70 30\n", "get", "--range=70:30", "key");
	behaviour.item.value_len = 5;
	assert_calls("range key 3 10\n", "get", "--range", "3:10", "key");
	assert_string_equal(program_result.out, "ab");
	assert_int_equal(RUN("get", "-v", "--range", "3:10", "key"), EX_OK);
	program_assert_said("length 5 ");
	assert_calls("range key 5 1\n", "get", "--range", "5:1", "key");
	assert_string_equal(program_result.out, "");
	assert_calls("range key 18446744073709551615 0\n", "get", "--range",
		     "18446744073709551615:0", "key");
	assert_calls("range key 0 1073741824\n", "get", "--range", "0:1073741824", "key");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(RUN("get", "--range", bad[i], "key"), EX_USAGE);
		program_assert_said("not OFFSET:LENGTH");
	}
	assert_int_equal(RUN("get", "-r", "--range", "1:1", "key"), EX_USAGE);
	program_assert_said("--request: not with --range");
}

/* Runs a script of this one line. */
static void assert_line(const char *line, const char *calls, int status)
{
	program_files.input = line;
	program_files.input_len = strlen(line);
	if (RUN(NULL) != status || !strstr(program_result.notes, calls))
		fail_msg("%s: %s%s", line, program_result.notes, program_result.err);
}

/* A word in quotes of a script is never an option, nor - the standard input. */
static void quoted_words_are_words(void **state)
{
	static const char script[] = "put t1 \"-5\"\nput t2 '-'\n";

	(void)state;
	assert_line("put t1 \"-5\"", "set t1 -5 flags", EX_OK);
	assert_line("put t2 '-'", "set t2 - flags", EX_OK);
	assert_line("put \"-k\" \"--\" -e \"9\"", "set -k -- flags 0 ttl 9 ", EX_OK);
	assert_line("put -- \"--\" '\"'", "set -- \" flags", EX_OK);
	assert_line("del \"-x\" ab", "delete -x\ndelete ab\n", EX_OK);
	assert_line("-x put -F'/dev/null' '6b'", "set k  flags", EX_OK);
	assert_line("\"get\" -\"r\" k", "request k ", EX_OK);
	assert_line("put t2 -", "", EX_USAGE);
	program_assert_said("the standard input is the script");
	program_files.input = script;
	program_files.input_len = strlen(script);
	assert_int_equal(RUN("--pipe"), EX_OK);
	assert_non_null(strstr(program_result.notes, "submit set t1 -5 flags"));
	assert_non_null(strstr(program_result.notes, "submit set t2 - flags"));
}

/* No more of it is read than a line can have, so it need not end. */
static void a_line_without_end(void **state)
{
	(void)state;
	behaviour.value_max = 1000;
	program_files.input_path = "/dev/zero";
	assert_fails(EX_USAGE,
		     "kvctl: line 1: longer than any command with the server's longest value\n"
		     "kvctl: no line after line 1 was run\n",
		     NULL);
	assert_int_equal(RUN("--pipe"), EX_USAGE);
	program_assert_said("kvctl: no line after line 1 was run\n");
}

/* Some editors write one at the start of a text. */
static void byte_order_marks_are_skipped(void **state)
{
	(void)state;
	assert_line("\xef\xbb\xbf# no command\nget k\n", "get k ", EX_OK);
	assert_line("\xef\xbb\xbfput k v", "set k v ", EX_OK);
	assert_line("put k v\n\xef\xbb\xbfput k v", "", EX_USAGE);
	assert_int_equal(RUN("--pipe"), EX_USAGE);
}

static void options_that_are_wrong(void **state)
{
	(void)state;
	assert_usage("kvctl: get: --ttl is not for this command, but for put add replace cas incr "
		     "decr. Try `kvctl help get`.\n",
		     "-e", "10", "get", "k");
	assert_usage("kvctl: append: --flags is not for this command, but for put add replace cas "
		     "incr decr. Try `kvctl help append`.\n",
		     "append", "-f0", "k", "v");
	assert_usage("kvctl: get: wrong number of arguments (get KEY...). Try `kvctl help get`.\n",
		     "get");
	assert_usage("kvctl: -Z: " NO_OPTION TRY("get"), "get", "-Z", "k");
	assert_usage("kvctl: --zeta: " NO_OPTION TRY("get"), "get", "--zeta", "k");
	assert_usage("kvctl: -5: " NO_OPTION TRY("put"), "put", "k", "-5");
	assert_usage("kvctl: --hex=1: takes no argument. Try `kvctl help get`.\n", "get", "--hex=1",
		     "k");
	assert_usage("kvctl: -t: needs an argument. Try `kvctl help ping`.\n", "ping", "-t");
	assert_usage("kvctl: --timeout: needs an argument. Try `kvctl help ping`.\n", "ping",
		     "--timeout");
	assert_usage("kvctl: hex: needs a command, and none is named. Try `kvctl -h`.\n", "-x");
	assert_usage("kvctl: incr: -e and -f need -i. Try `kvctl help incr`.\n", "incr", "k",
		     "-e1");
}

static void times_have_units(void **state)
{
	static const struct {
		const char *text, *said;
	} each[] = {
		{ "90", "90" },
		{ "90s", "90" },
		{ "5m", "300" },
		{ "2h", "7200" },
		{ "7d", "604800" },
		{ "0d", "0" },
		{ "12427d", "1073692800" },
		{ "1073741824s", "1073741824" },
	};
	static const char *const never[] = {
		"12428d",
		"17895698m",
		"1w",
		"s",
		"1ss",
		"1 m",
		"1.5h",
		/* A few seconds, if only 32 or 64 bits of the product counted. */
		"71582789m",
		"1193047h",
		"49711d",
		"307445734561825861m",
	};
	char calls[100];

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		snprintf(calls, sizeof(calls), OPENED "touch key ttl %s\n" CLOSED, each[i].said);
		assert_int_equal(RUN("touch", "key", each[i].text), EX_OK);
		assert_string_equal(program_result.notes, calls);
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		assert_int_equal(RUN("touch", "key", never[i]), EX_USAGE);
		program_assert_said(NO_TIME TRY("touch"));
	}
}

static void who_one_is(void **state)
{
	(void)state;
	behaviour.texts[0] = "user=bob rights=read,scan tenant=default addr=pid:7 id=3\n";
	assert_calls("whoami \n", "whoami");
	assert_string_equal(program_result.out,
			    "user bob\nrights read,scan\ntenant default\naddr pid:7\nid 3\n");
	assert_calls("whoami \n", "whoami", "--json");
	assert_non_null(
		strstr(program_result.out, "{\"user\": \"bob\", \"rights\": \"read,scan\", "));
	behaviour.texts[0] = "user= rights=read tenant=default\n";
	assert_calls("whoami \n", "whoami");
	assert_memory_equal(program_result.out, "user (none: the server has no users", 35);
	behaviour.call = KVD_ERR_BUSY;
	assert_fails(EX_SOFTWARE, "kvctl: server busy\n", "whoami");
}

/* The newest first; as the server sends it, or as JSON, where a key is text. */
static void a_slow_log(void **state)
{
	(void)state;
	behaviour.text_count = 1;
	behaviour.texts[0] = "number=1 op=PUT\nnumber=2 op=GET\nnumber=5 key=12\n";
	assert_calls("slow log 131072\n", "slowlog");
	assert_string_equal(program_result.out,
			    "number=5 key=12\nnumber=2 op=GET\nnumber=1 op=PUT\n");
	assert_calls("slow log 131072\n", "slowlog", "-c", "2");
	assert_string_equal(program_result.out, "number=5 key=12\nnumber=2 op=GET\n");
	assert_calls("slow log 131072\n", "slowlog", "-c", "1", "--json");
	assert_string_equal(program_result.out, "{\"number\": 5, \"key\": \"12\"}\n");
	behaviour.texts[0] = "";
	assert_calls("slow log 131072\n", "slowlog");
	assert_string_equal(program_result.out, "");
	assert_calls("reset 2\n", "slowlog", "reset");
	assert_int_equal(RUN("slowlog", "clear"), EX_USAGE);
	behaviour.call = KVD_ERR_BUSY;
	assert_fails(EX_SOFTWARE, "kvctl: server busy\n", "slowlog");
	assert_fails(EX_SOFTWARE, "kvctl: server busy\n", "slowlog", "reset");
}

/* From the first cursor on; gaps are said; a pattern is for the key itself. */
static void a_monitor(void **state)
{
	(void)state;
	behaviour.texts[0] = "";
	behaviour.texts[1] = "number=10 op=PUT key=a%20b\nnumber=13 op=GET key=c\nnumber=14 x=1\n";
	behaviour.text_count = 2;
	assert_calls("sample 1 from 0 65536\nsample 1 from 10 65536\n", "monitor", "-c", "2");
	assert_string_equal(program_result.out,
			    "number=10 op=PUT key=a%20b\nlost=2\nnumber=13 op=GET key=c\n");
	behaviour.text_at = 0;
	assert_calls("sample 100 from 0 65536\nsample 100 from 10 65536\n", "monitor", "-c", "1",
		     "--sample", "1/100", "--match", "[b-d]", "--json");
	assert_string_equal(program_result.out,
			    "{\"lost\": 2}\n{\"number\": 13, \"op\": \"GET\", \"key\": \"c\"}\n");
	behaviour.text_at = 0;
	assert_calls("sample 7 from 0 65536\nsample 7 from 10 65536\n", "monitor", "-c", "1",
		     "--sample", "7", "--match", "a b");
	assert_string_equal(program_result.out, "number=10 op=PUT key=a%20b\n");
	assert_int_equal(RUN("monitor", "--sample", "0"), EX_USAGE);
	assert_int_equal(RUN("monitor", "--sample", "2/3"), EX_USAGE);
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "monitor");
}

/* What it contains is in tests/system/slowlog.sh. */
static void a_debug_dump(void **state)
{
	char path[] = "/tmp/kvctl-debug-XXXXXX", said[200];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(RUN("debug", "core"), EX_USAGE);
	assert_int_equal(RUN("debug"), EX_USAGE);
	snprintf(said, sizeof(said), "kvctl: %s: can't create it: File exists\n", path);
	assert_fails(EX_IOERR, said, "debug", "dump", "-o", path);
	unlink(path);
}

#define OPTIONS_TEXT "server.listen = auto\nserver.http =\nlog.level = notice\n"

static void options_are_printed(void **state)
{
	(void)state;
	behaviour.texts[0] = OPTIONS_TEXT;
	assert_calls("config get \n", "config", "get");
	assert_string_equal(program_result.out, OPTIONS_TEXT);
	assert_calls("config get \n", "config", "get", "log.*");
	assert_string_equal(program_result.out, "log.level = notice\n");
	assert_calls("config get \n", "config", "get", "*.h*p", "log.level", "x");
	assert_string_equal(program_result.out, "server.http =\nlog.level = notice\n");
	assert_fails(1, "kvctl: no option matches: kvctl config get prints all\n", "config", "get",
		     "level");
	assert_calls("config get \n", "config", "get", "--json", "*l*");
	assert_string_equal(program_result.out,
			    "{\"server.listen\": \"auto\", \"log.level\": \"notice\"}\n");
	assert_calls("config get \n", "config", "get", "--json", "server.http");
	assert_string_equal(program_result.out, "{\"server.http\": \"\"}\n");
}

static void options_are_set(void **state)
{
	static char long_value[KVD_KEY_MAX + 1];

	(void)state;
	assert_calls("config set log.level=debug\n", "config", "set", "log.level", "debug");
	assert_calls("config set rdma.networks=\\x0aa.b=c\\x20d=e\n", "config", "set",
		     "rdma.networks", "", "a.b", "c d=e");
	assert_int_equal(RUN("config", "set"), EX_USAGE);
	assert_int_equal(RUN("config", "set", "log.level"), EX_USAGE);
	assert_int_equal(RUN("config", "set", "a.b", "1", "c.d"), EX_USAGE);
	assert_int_equal(RUN("config", "set", "a.b=1", "2"), EX_USAGE);
	program_assert_said("kvctl: a.b=1: write config set section.key VALUE, without = and "
			    "newlines" TRY("config"));
	assert_int_equal(RUN("config", "set", "a.b", "1\nmemory.size=2g"), EX_USAGE);
	memset(long_value, 'x', KVD_KEY_MAX - 4);
	assert_int_equal(RUN("config", "set", "a.b", long_value), EX_OK);
	long_value[KVD_KEY_MAX - 4] = 'x';
	assert_int_equal(RUN("config", "set", "a.b", long_value), EX_USAGE);
	assert_int_equal(RUN("config", "reset"), EX_USAGE);
	behaviour.texts[0] = "/etc/kvd/kvd.ini: 2 options written\n";
	assert_calls("config rewrite \n", "config", "rewrite");
	assert_string_equal(program_result.out, "/etc/kvd/kvd.ini: 2 options written\n");
	assert_calls("config rewrite \n", "config", "--json", "rewrite");
	assert_string_equal(program_result.out,
			    "{\"result\": \"/etc/kvd/kvd.ini: 2 options written\"}\n");
	assert_int_equal(RUN("config", "rewrite", "x"), EX_USAGE);
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "config", "rewrite");
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "config", "set", "a.b", "1");
}

#define STATS_ASKED "stats 65536\n"

/* The server has ended when nobody listens any more; until then it refuses to serve. */
static void a_server_is_stopped(void **state)
{
	(void)state;
	behaviour.stopped = KVD_ERR_UNREACHABLE;
	assert_int_equal(RUN("shutdown"), EX_OK);
	assert_string_equal(program_result.notes,
			    OPENED STATS_ASKED "shutdown \nopen " URL " 1000 1000\n" CLOSED);
	behaviour.stopped = KVD_ERR_REFUSED;
	assert_fails(EX_TEMPFAIL,
		     "kvctl: the server is stopping, but has not ended after 5 ms "
		     "(server.drain_timeout); -t waits longer\n",
		     "shutdown", "-t5");
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	assert_fails(EX_NOPERM, "kvctl: not allowed\n", "shutdown");
	assert_string_equal(program_result.notes, OPENED STATS_ASKED "shutdown \n" CLOSED);
}

static void a_server_that_keeps_its_data(void **state)
{
	(void)state;
	behaviour.texts[0] = "pid 5\nregion_kept 0\n";
	behaviour.text_count = 1;
	assert_fails(EX_UNAVAILABLE,
		     "kvctl: a stop would lose the server's data: it has no memory.file; without "
		     "--keep it is stopped all the same\n",
		     "shutdown", "--keep");
	assert_string_equal(program_result.notes, OPENED STATS_ASKED STATS_ASKED CLOSED);
	behaviour.texts[0] = "pid 5\nregion_kept 1\n";
	behaviour.stopped = KVD_ERR_UNREACHABLE;
	assert_int_equal(RUN("shutdown", "--keep"), EX_OK);
	behaviour.call = KVD_ERR_NOT_ALLOWED;
	assert_fails(EX_NOPERM,
		     "kvctl: --keep reads the server's statistics, and can't: it needs the right "
		     "'stats'\n",
		     "shutdown", "--keep");
}

/* Changes say ok to a person who types them; scripts get what they got. */
static void changes_say_ok(void **state)
{
	static const char *const each[][5] = {
		{ "put", "k", "v" },   { "append", "k", "v" },
		{ "touch", "k", "1" }, { "del", "k" },
		{ "flush" },	       { "flush", "1" },
		{ "kill", "1" },       { "tenant", "drop", "a" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		const char *const *w = each[i];

		behaviour.terminal = true;
		assert_int_equal(RUN(w[0], w[1], w[2]), EX_OK);
		assert_string_equal(program_result.out, "OK\n");
		behaviour.call = KVD_ERR_BUSY;
		assert_int_not_equal(RUN(w[0], w[1], w[2]), EX_OK);
		assert_string_equal(program_result.out, "");
		behaviour.call = KVD_OK;
		behaviour.terminal = false;
		assert_int_equal(RUN(w[0], w[1], w[2]), EX_OK);
		assert_string_equal(program_result.out, "");
	}
	behaviour.terminal = true;
	assert_line("put k v", "set k v ", EX_OK);
	assert_string_equal(program_result.out, "");
	assert_int_equal(RUN("put", "--json", "k", "v"), EX_OK);
	assert_null(strstr(program_result.out, "OK"));
	assert_int_equal(RUN("incr", "k"), EX_OK);
	assert_null(strstr(program_result.out, "OK"));
}

/* Names and case that users of redis and memcached type work; what differs is explained. */
static void other_names(void **state)
{
	static const struct {
		const char *typed, *said;
	} each[] = {
		{ "keys", "'keys': it is `scan [PREFIX]`, or `scan --match GLOB`" },
		{ "EXPIRE", "'EXPIRE': it is `touch KEY TTL`" },
		{ "gte", "'gte': did you mean `get`?" },
		{ "gett", "'gett': did you mean `get`?" },
		{ "Replcae", "'Replcae': did you mean `replace`?" },
		{ "stat", "'stat': did you mean `stats`?" },
		{ "restores2", "'restores2': did you mean `restore`?" },
		{ "restores23", "'restores23'. Try `kvctl -h`." },
		{ "x", "'x'. Try `kvctl -h`." },
		{ "an-end-less-word-1", "'an-end-less-word-1'. Try `kvctl -h`." },
		{ "", "''. Try `kvctl -h`." },
	};
	char said[200];

	(void)state;
	assert_calls("set k v flags 0 ttl 0 pin 0 low 0 if 0\n", "SET", "k", "v");
	assert_calls("get k 65536\n", "GET", "k");
	assert_calls("delete k\n", "delete", "k");
	assert_calls("delete k\n", "Unlink", "k");
	assert_calls("flush all \n", "flush_all");
	assert_calls("flush all \n", "FLUSHALL");
	assert_int_equal(RUN("mget", "a", "b"), EX_OK);
	assert_usage("kvctl: k: a value, and --file: give one of them" TRY("put"), "set", "-F", "f",
		     "k", "k");
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		snprintf(said, sizeof(said), "kvctl: no command %s\n", each[i].said);
		assert_usage(said, each[i].typed, "k");
	}
	/* To somebody who types commands on a connection. */
	assert_line("frobnicate k", "", EX_USAGE);
	program_assert_said("no command 'frobnicate'. Try `help`.\n");
	assert_line("get", "", EX_USAGE);
	program_assert_said("wrong number of arguments (get KEY...). Try `help get`.\n");
}

/* A command's help has its own options and no others. */
static void help_of_a_command(void **state)
{
	(void)state;
	assert_int_equal(RUN("help", "incr"), EX_OK);
	assert_string_equal(program_result.notes, "");
	assert_non_null(strstr(program_result.out, "Usage: kvctl [OPTION]... incr KEY [N]\n"));
	assert_non_null(strstr(program_result.out, "-i, --initial N"));
	assert_null(strstr(program_result.out, "--pin"));
	assert_int_equal(RUN("put", "--help"), EX_OK);
	assert_non_null(strstr(program_result.out, "--pin TIME"));
	assert_usage("kvctl: no command 'frobnicate'. Try `kvctl -h`.\n", "help", "frobnicate");
}

#define CASE(f) cmocka_unit_test_setup(f, kvctl_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(values_are_read),
		CASE(longer_values_are_read),
		CASE(items_are_described),
		CASE(terminals_get_a_new_line),
		CASE(values_are_stored),
		CASE(options_alone),
		CASE(the_input_is_stored),
		CASE(input_that_fails_is_not_stored),
		CASE(endless_input_ends),
		CASE(numbers_are_changed),
		CASE(other_changes),
		CASE(keys_are_listed),
		CASE(keys_on_a_terminal),
		CASE(a_scan_fails),
		CASE(several_keys_are_read),
		CASE(values_without_a_new_line_or_in_hexadecimal),
		CASE(keys_are_looked_up),
		CASE(times_to_live),
		CASE(several_keys_are_removed),
		CASE(results_as_json),
		CASE(values_of_files_and_digits),
		CASE(names_are_masked),
		CASE(files_are_closed),
		CASE(a_restore_stops),
		CASE(keys_are_chosen_and_counted),
		CASE(texts_of_the_server),
		CASE(statistics_in_groups),
		CASE(top_without_rights),
		CASE(statistics_are_watched),
		CASE(properties_of_the_connection),
		CASE(pings),
		CASE(output_that_is_full),
		CASE(a_script_with_a_full_output),
		CASE(a_scan_to_a_full_disk),
		CASE(exit_statuses),
		CASE(no_connection),
		CASE(timeouts),
		CASE(numbers_out_of_range),
		CASE(keys_of_any_bytes),
		CASE(words_of_commands),
		CASE(usage_of_kvctl),
		CASE(options_stand_anywhere),
		CASE(ranges),
		CASE(quoted_words_are_words),
		CASE(a_line_without_end),
		CASE(byte_order_marks_are_skipped),
		CASE(options_that_are_wrong),
		CASE(times_have_units),
		CASE(changes_say_ok),
		CASE(who_one_is),
		CASE(a_slow_log),
		CASE(a_monitor),
		CASE(a_debug_dump),
		CASE(options_are_printed),
		CASE(options_are_set),
		CASE(a_server_is_stopped),
		CASE(a_server_that_keeps_its_data),
		CASE(other_names),
		CASE(help_of_a_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
