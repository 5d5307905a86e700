/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's command line: each option has its effect, and an option that a command or a
 * store does not have, or a number out of range, is refused with its reason, not ignored.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/arguments.h"
#include "bench/client.h"
#include "bench/shift.h"
#include "bench/small.h"
#include "tests/support/captured.h"

#define WORDS_MAX 32
#define URL "softnic:///tmp/kvd-test-arguments"
#define MEMCACHED "memcached://127.0.0.1:1"
#define REDIS "redis://127.0.0.1:1"
#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)

static struct arguments arguments;
static char words[1024];
static char *argv[WORDS_MAX];

/* Parses the words of @line after the name of the program; a word has no blank in it. */
static int parse(const char *line)
{
	char *rest = words;
	int argc = 0;

	arguments_release(&arguments);
	arguments_init(&arguments);
	assert_true(snprintf(words, sizeof(words), "kvbench %s", line) < (int)sizeof(words));
	while (argc < WORDS_MAX - 1 && (argv[argc] = strtok_r(argc ? NULL : words, " ", &rest)))
		argc++;
	return arguments_read(&arguments, argc, argv);
}

static void assert_taken(const char *line)
{
	if (parse(line))
		fail_msg("refused: kvbench %s", line);
}

static void assert_refused(const char *line, const char *why)
{
	const char *printed;
	int error;

	captured_begin(stderr);
	error = parse(line);
	printed = captured_end();
	if (error != -EINVAL)
		fail_msg("kvbench %s: %d", line, error);
	if (!strstr(printed, why))
		fail_msg("kvbench %s: printed %s, not %s", line, printed, why);
}

static void assert_property(const char *key, const char *value)
{
	const struct prop *prop = props_find(&arguments.props, key);

	assert_non_null(prop);
	assert_string_equal(prop->value, value);
}

static void every_command(void **state)
{
	static const struct {
		const char *line;
		enum command command;
	} commands[] = {
		{ "load", COMMAND_LOAD },      { "run", COMMAND_RUN },
		{ "put -n 1", COMMAND_PUT },   { "get -n 1", COMMAND_GET },
		{ "miss -n 1", COMMAND_MISS }, { "delete -n 1", COMMAND_DELETE },
		{ "count", COMMAND_COUNT },    { "shift 100", COMMAND_SHIFT },
	};

	(void)state;
	for (size_t i = 0; i < COMMAND_TOTAL; i++) {
		assert_taken(commands[i].line);
		assert_int_equal(arguments.command, commands[i].command);
	}
	assert_refused("", "give a command");
	assert_refused("-b 3", "give a command");
	assert_refused("lode", "no such command: lode");
	assert_refused("load run", "one command only, not also run");
	assert_refused("count 5", "one command only, not also 5");
}

static void what_is_not_given(void **state)
{
	(void)state;
	setenv("KVD_URL", URL, 1);
	assert_taken("run");
	assert_ptr_equal(arguments.target.backend, &db_kvd);
	assert_string_equal(arguments.target.url, URL);
	assert_int_equal(arguments.target.depth, 1);
	assert_int_equal(arguments.batch, 1);
	assert_int_equal(arguments.times, SHIFT_TIMES);
	assert_false(arguments.json || arguments.registered);
	assert_null(arguments.name);
	assert_int_equal(arguments.props.count, 0);
	unsetenv("KVD_URL");
	assert_refused("count -d redis", "no server: give -a URL or set KVD_URL");
}

static void the_store_and_its_address(void **state)
{
	(void)state;
	assert_taken("count -a " URL);
	assert_string_equal(arguments.target.url, URL);
	assert_taken("count --db memcached --address " MEMCACHED);
	assert_ptr_equal(arguments.target.backend, &db_memcached);
	assert_string_equal(arguments.target.url, MEMCACHED);
	assert_taken("count -d redis -a " REDIS);
	assert_ptr_equal(arguments.target.backend, &db_redis);
	assert_refused("count -d mysql", "-d mysql: no such store");
	assert_refused("count -d redis -a " URL, "that is for -d kvd");
	assert_refused("count -d kvd -a http://x", "'http://x' is not a kvd URL: write one like");
}

static void options_of_a_workload(void **state)
{
	(void)state;
	assert_taken("run -b 7 --json --registered");
	assert_int_equal(arguments.batch, 7);
	assert_int_equal(arguments.target.depth, 1);
	assert_true(arguments.json && arguments.registered);
	assert_taken("load -D 9 -t 3 -s");
	assert_int_equal(arguments.target.depth, 9);
	assert_int_equal(arguments.batch, 1);
	assert_false(arguments.json || arguments.registered);
	assert_property("threadcount", "3");
	assert_property("status", "true");
	assert_taken("run --registered");
	assert_true(arguments.registered && !arguments.json);
	assert_taken("run --json");
	assert_true(arguments.json && !arguments.registered);
	assert_taken("run --batch " TEXT(CLIENT_BATCH_MAX));
	assert_int_equal(arguments.batch, CLIENT_BATCH_MAX);
	assert_taken("run --depth " TEXT(CLIENT_DEPTH_MAX));
	assert_int_equal(arguments.target.depth, CLIENT_DEPTH_MAX);
	assert_taken("run --threads 8 --status");
	assert_property("threadcount", "8");
	assert_property("status", "true");
}

static void numbers_out_of_range(void **state)
{
	(void)state;
	assert_refused("run -b 0", "-b: ");
	assert_refused("run -b 1025", "-b: ");
	assert_refused("run -b x", "-b: ");
	assert_refused("run -D 0", "-D: ");
	assert_refused("run -D 1025", "-D: ");
	assert_refused("put -n 0", "-n: ");
	assert_refused("put -n 1000000001", "-n: ");
	assert_taken("put -n 1000000000");
	assert_int_equal(arguments.records, SMALL_RECORDS_MAX);
	assert_refused("shift --times 0 5", "--times: ");
	assert_refused("shift --times 1001 5", "--times: ");
	assert_taken("shift --times 1000 5");
	assert_int_equal(arguments.times, SHIFT_TIMES_MAX);
	/* A small command has no more under way than it sends together. */
	assert_taken("put -n 5 -D 64");
	assert_int_equal(arguments.target.depth, SMALL_BATCH);
	assert_refused("put -n 5 -D 65", "-D is at most 64 for put");
	assert_refused("delete -n 5 -D 65", "-D is at most 64 for delete");
}

/* Whether @line is taken; if not it has to be because of the option, not by anything else. */
static void option_check(bool taken, const char *line, const char *why)
{
	if (taken)
		assert_taken(line);
	else
		assert_refused(line, why);
}

/* Each option with each command: the commands that have it take it, the others refuse it. */
static void options_of_another_command(void **state)
{
	static const struct {
		const char *option, *name, *commands;
	} options[] = {
		{ "-Pfile", "-P", "load run" },
		{ "-pa=b", "-p", "load run" },
		{ "-t2", "-t", "load run" },
		{ "-b2", "-b", "load run" },
		{ "-s", "-s", "load run" },
		{ "--json", "--json", "load run" },
		{ "-D2", "-D", "load run put delete" },
		{ "--registered", "--registered", "load run" },
		{ "-n3", "-n", "put get miss delete" },
		{ "--times=3", "--times", "shift" },
	};
	static const char *const commands[] = { "load", "run",	  "put",   "get",
						"miss", "delete", "count", "shift" };
	char path[] = "/tmp/kvd-test-properties-XXXXXX", line[256], why[64];
	const int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	for (size_t c = 0; c < COMMAND_TOTAL; c++)
		for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++) {
			const bool small = c >= COMMAND_PUT && c <= COMMAND_DELETE;
			const bool file = !strcmp(options[o].name, "-P");

			snprintf(line, sizeof(line), "%s %s%s%s%s", commands[c],
				 file ? "-P" : options[o].option, file ? path : "",
				 small && strcmp(options[o].name, "-n") ? " -n 1" : "",
				 c == COMMAND_SHIFT ? " 10" : "");
			snprintf(why, sizeof(why), "%s is not an option of %s", options[o].name,
				 commands[c]);
			option_check(strstr(options[o].commands, commands[c]), line, why);
		}
	unlink(path);
}

static void what_does_not_go_together(void **state)
{
	(void)state;
	assert_refused("run -b 2 -D 2", "-b and -D both do several GETs together");
	assert_taken("run -b 1 -D 2");
	assert_taken("run -b 2 -D 1");
	assert_refused("run -D 2 -d redis -a " REDIS, "-D of load and run needs -d kvd");
	assert_taken("run -D 1 -d redis -a " REDIS);
	assert_taken("run -b 2 -d redis -a " REDIS);
	assert_refused("run --registered -d memcached -a " MEMCACHED,
		       "--registered needs -d kvd, not -d memcached");
	assert_refused("put", "put needs -n RECORDS");
	assert_refused("get", "get needs -n RECORDS");
	assert_refused("miss", "miss needs -n RECORDS");
	assert_refused("delete", "delete needs -n RECORDS");
	assert_refused("run --nothing", "nothing");
	assert_refused("run -b", "requires an argument");
}

static void sizes_of_a_shift(void **state)
{
	(void)state;
	assert_taken("shift 100 200-300 5 --times 4");
	assert_int_equal(arguments.size_count, 3);
	assert_string_equal(arguments.sizes[0], "100");
	assert_string_equal(arguments.sizes[2], "5");
	assert_int_equal(arguments.times, 4);
	assert_refused("shift", "shift needs at least one SIZE");
	assert_refused("shift 100 -d redis -a " REDIS, "it needs -d kvd, not -d redis");
}

/* Files in their order; -p and the options that set a property count more, wherever they stand. */
static void properties_override_files(void **state)
{
	char first[] = "/tmp/kvd-test-first-XXXXXX", second[] = "/tmp/kvd-test-second-XXXXXX";
	const int a = mkstemp(first), b = mkstemp(second);
	char line[256];

	(void)state;
	assert_true(a >= 0 && b >= 0);
	dprintf(a, "threadcount=5\nrecordcount=10\nfieldcount=1\nstatus=false\n");
	dprintf(b, "recordcount=20\n");
	snprintf(line, sizeof(line), "run -p fieldcount=2 -t 6 -s -P %s -P %s", first, second);
	assert_taken(line);
	assert_property("threadcount", "6");
	assert_property("fieldcount", "2");
	assert_property("recordcount", "20");
	assert_property("status", "true");
	assert_string_equal(arguments.name, strrchr(second, '/') + 1);
	snprintf(line, sizeof(line), "run -P %s -P %s -p x=1 -p x=2", second, first);
	assert_taken(line);
	assert_property("recordcount", "10");
	assert_property("x", "2");
	assert_int_equal(chdir("/tmp"), 0);
	snprintf(line, sizeof(line), "run -P %s", strrchr(first, '/') + 1);
	assert_taken(line);
	assert_string_equal(arguments.name, strrchr(first, '/') + 1);
	unlink(first);
	unlink(second);
	assert_refused(line, "kvd-test-first");
	assert_refused("run -p nothing", "nothing");
}

/* Prints to stdout, and ends the program well. */
static void assert_prints(const char *option, const char *text)
{
	int status = -1;
	pid_t child;

	captured_begin(stdout);
	child = fork();
	if (!child) {
		parse(option);
		_exit(EXIT_FAILURE);
	}
	waitpid(child, &status, 0);
	assert_non_null(strstr(captured_end(), text));
	assert_int_equal(status, 0);
}

static void help_and_version(void **state)
{
	(void)state;
	assert_prints("-h", "--registered");
	assert_prints("--help", "recordcount");
	assert_prints("-h", "memcached://HOST:PORT");
	assert_prints("-h", "?pipeline=N");
	assert_prints("-h", "Exit status: 0 success");
	assert_prints("-V", kvd_version());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_command),
		cmocka_unit_test(what_is_not_given),
		cmocka_unit_test(the_store_and_its_address),
		cmocka_unit_test(options_of_a_workload),
		cmocka_unit_test(numbers_out_of_range),
		cmocka_unit_test(options_of_another_command),
		cmocka_unit_test(what_does_not_go_together),
		cmocka_unit_test(sizes_of_a_shift),
		cmocka_unit_test(properties_override_files),
		cmocka_unit_test(help_and_version),
	};

	unsetenv("KVD_URL");
	arguments_init(&arguments);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
