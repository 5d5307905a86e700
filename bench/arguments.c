/* SPDX-License-Identifier: MIT */
/*
 * Parses kvbench's command line: see arguments.h.
 */
#include "bench/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "bench/client.h"
#include "bench/exit_status.h"
#include "bench/shift.h"
#include "bench/small.h"
#include "bench/workload_parse.h"
#include "common/util/parse.h"
#include "common/util/streams.h"

/* Long options without a letter. */
enum { OPTION_JSON = 'j', OPTION_TIMES = 'i', OPTION_REGISTERED = 'r' };

/* In the order of enum command: the options of each in addition to -a, -d, -h and -V. */
static const struct {
	const char *name, *options;
} commands[COMMAND_TOTAL] = {
	{ "load", "PptbsjDr" }, { "run", "PptbsjDr" }, { "put", "nD" }, { "get", "n" },
	{ "miss", "n" },	{ "delete", "nD" },    { "count", "" }, { "shift", "i" },
};

static void help(FILE *out)
{
	fprintf(out,
		"Usage: kvbench load|run [-a URL] [-d DB] -P FILE [-P FILE]... [-p KEY=VALUE]...\n"
		"               [-t THREADS] [-b BATCH | -D DEPTH] [--registered] [-s] [--json]\n"
		"       kvbench put|delete [-a URL] [-d DB] [-D DEPTH] -n RECORDS\n"
		"       kvbench get|miss [-a URL] [-d DB] -n RECORDS\n"
		"       kvbench count [-a URL] [-d DB]\n"
		"       kvbench shift [-a URL] [--times N] SIZE|SIZE-SIZE...\n"
		"\n"
		"load    load the records that YCSB's property files describe\n"
		"run     run YCSB's workload on these records; report rates and latencies\n"
		"put     store RECORDS small records: %u bytes of key, %u of value\n"
		"get     look up each small record in random order and check its value\n"
		"miss    look up RECORDS keys that are not stored\n"
		"delete  delete each small record in random order\n"
		"count   print how many keys the store holds\n"
		"shift   fill kvd with values of one SIZE after another; report for each the rate\n"
		"        of PUTs in intervals of 100 ms, and the part of memory with live items\n"
		"\n"
		"  -d, --db DB            the store; default: kvd\n"
		"  -a, --address URL      the store's address; default: $KVD_URL, for kvd else\n"
		"                         the socket of your own kvd, or the system's\n"
		"    DB and its URLs:\n",
		SMALL_KEY_BYTES, SMALL_VALUE_BYTES);
	db_help(out);
	fprintf(out,
		"      A memcached URL may end with ?pipeline=N: a PUT waits for responses only\n"
		"      when N PUTs are under way.\n"
		"  -P FILE                property file; a later one overrides an earlier one\n"
		"  -p KEY=VALUE           property; overrides all files\n"
		"  -t, --threads THREADS  client threads; each has its own connection\n"
		"  -b, --batch BATCH      GETs that are sent together, 1 to %d; default 1\n"
		"  -s, --status           print a line of progress each second\n"
		"      --json             print the results as one JSON object; without the CPU\n"
		"                         time of a server that restarted meanwhile\n"
		"  -n, --records RECORDS  number of small records\n"
		"  -D, --depth DEPTH      kvd: operations that each thread keeps under way;\n"
		"                         load, run: 1 to %d; put, delete: 1 to %u; default 1;\n"
		"                         latencies count from the submission\n"
		"      --registered       kvd: values are in registered memory, and not copied if\n"
		"                         they are longer than 4 KiB (PUT: than a message)\n"
		"      --times N          shift: how many times to write the item memory for\n"
		"                         each SIZE; default %u\n"
		"  -h, --help             print this text\n"
		"  -V, --version          print the version\n"
		"\n"
		"Exit status: 0 success; 1 wrong values, records not found, failed operations, or\n"
		"unwritable output; 2 wrong usage; 69 the server can't be reached, or the\n"
		"connection was lost.\n"
		"\n"
		"Properties of load and run, with their defaults:\n",
		CLIENT_BATCH_MAX, CLIENT_DEPTH_MAX, SMALL_BATCH, SHIFT_TIMES);
	workload_help(out);
}

static enum exit_status output_status(void)
{
	return streams_flush("kvbench") ? EXIT_WRONG : EXIT_FINE;
}

int arguments_refuse(const char *message, const char *detail)
{
	fprintf(stderr, "kvbench: %s%s; see kvbench -h\n", message, detail);
	return -EINVAL;
}

static int take_file(struct arguments *arguments, const char *path)
{
	const char *slash = strrchr(path, '/');

	arguments->name = slash ? slash + 1 : path;
	if (!props_load(&arguments->props, path))
		return 0;
	fprintf(stderr, "kvbench: %s\n", arguments->props.error);
	return -EINVAL;
}

/* @argument is key=value; with @key it is only the value. */
static int take_property(struct arguments *arguments, const char *key, const char *argument)
{
	char text[256];

	if (key) {
		snprintf(text, sizeof(text), "%s=%s", key, argument);
		argument = text;
	}
	if (!props_set(&arguments->props, argument))
		return 0;
	fprintf(stderr, "kvbench: %s\n", arguments->props.error);
	return -EINVAL;
}

static int take_number(const char *option, const char *text, uint64_t max, uint64_t *number)
{
	struct parse_why why;

	return parse_uint(text, 1, max, number, &why) ? arguments_refuse(option, why.text) : 0;
}

static int take_batch(struct arguments *arguments, const char *text)
{
	uint64_t batch;

	if (take_number("-b: ", text, CLIENT_BATCH_MAX, &batch))
		return -EINVAL;
	arguments->batch = (unsigned int)batch;
	return 0;
}

static int take_depth(struct arguments *arguments, const char *text)
{
	uint64_t depth;

	if (take_number("-D: ", text, CLIENT_DEPTH_MAX, &depth))
		return -EINVAL;
	arguments->target.depth = (unsigned int)depth;
	return 0;
}

static int take_option(struct arguments *arguments, int option)
{
	switch (option) {
	case 'a':
		arguments->url = optarg;
		return 0;
	case 'd':
		arguments->db_name = optarg;
		return 0;
	case 'P':
		return take_file(arguments, optarg);
	case 'p':
		return take_property(arguments, NULL, optarg);
	case 't':
		return take_property(arguments, "threadcount", optarg);
	case 's':
		return take_property(arguments, "status", "true");
	case 'b':
		return take_batch(arguments, optarg);
	case 'D':
		return take_depth(arguments, optarg);
	case 'n':
		return take_number("-n: ", optarg, SMALL_RECORDS_MAX, &arguments->records);
	case OPTION_TIMES:
		return take_number("--times: ", optarg, SHIFT_TIMES_MAX, &arguments->times);
	case OPTION_REGISTERED:
		arguments->registered = true;
		return 0;
	case OPTION_JSON:
		arguments->json = true;
		return 0;
	case 'h':
		help(stdout);
		exit(output_status());
	case 'V':
		printf("kvbench %s\n", kvd_version());
		exit(output_status());
	default: /* getopt has printed the error */
		return -EINVAL;
	}
}

static int take_command(struct arguments *arguments, int argc, char **argv)
{
	int command = 0;

	if (!argc)
		return arguments_refuse("give a command: load, run, ...", "");
	while (command < COMMAND_TOTAL && strcmp(argv[0], commands[command].name))
		command++;
	if (command == COMMAND_TOTAL)
		return arguments_refuse("no such command: ", argv[0]);
	arguments->command = (enum command)command;
	if (command == COMMAND_SHIFT) {
		arguments->sizes = argv + 1;
		arguments->size_count = argc - 1;
	} else if (argc > 1) {
		return arguments_refuse("one command only, not also ", argv[1]);
	}
	return 0;
}

/* Refuses the first of the options @given that the command does not have. */
static int check_options(const struct arguments *arguments, const char *given)
{
	const char *name = commands[arguments->command].name;
	char message[64];

	for (; *given; given++) {
		if (strchr("ad", *given) || strchr(commands[arguments->command].options, *given))
			continue;
		if (*given == OPTION_JSON || *given == OPTION_TIMES || *given == OPTION_REGISTERED)
			snprintf(message, sizeof(message), "--%s is not an option of ",
				 *given == OPTION_JSON	? "json" :
				 *given == OPTION_TIMES ? "times" :
							  "registered");
		else
			snprintf(message, sizeof(message), "-%c is not an option of ", *given);
		return arguments_refuse(message, name);
	}
	return 0;
}

static int check_shift(const struct arguments *arguments)
{
	if (arguments->target.backend != &db_kvd)
		return arguments_refuse("shift reads kvd's statistics: it needs -d kvd, not -d ",
					arguments->target.backend->name);
	if (!arguments->size_count)
		return arguments_refuse("shift needs at least one SIZE", "");
	return 0;
}

/* Refuses options of load and run that exclude each other, or that the store lacks. */
static int check_workload(const struct arguments *arguments)
{
	const struct db_target *target = &arguments->target;

	if (target->depth > 1 && arguments->batch > 1)
		return arguments_refuse("-b and -D both do several GETs together: "
					"give one",
					"");
	if (target->depth > 1 && !target->backend->submit)
		return arguments_refuse("-D of load and run needs -d kvd, not -d ",
					target->backend->name);
	if (arguments->registered && !target->backend->alloc)
		return arguments_refuse("--registered needs -d kvd, not -d ",
					target->backend->name);
	return 0;
}

static int check_small(const struct arguments *arguments)
{
	char message[64];

	if (arguments->command >= COMMAND_PUT && arguments->command <= COMMAND_DELETE &&
	    !arguments->records)
		return arguments_refuse(commands[arguments->command].name, " needs -n RECORDS");
	if (arguments->target.depth <= SMALL_BATCH)
		return 0;
	snprintf(message, sizeof(message), "-D is at most %u for ", SMALL_BATCH);
	return arguments_refuse(message, commands[arguments->command].name);
}

static int check(struct arguments *arguments, const char *given)
{
	char error[DB_ERROR_MAX];

	if (check_options(arguments, given))
		return -EINVAL;
	if (arguments->command > COMMAND_RUN && check_small(arguments))
		return -EINVAL;
	if (db_target_parse(&arguments->target, arguments->db_name, arguments->url, error))
		return arguments_refuse(error, "");
	if (arguments->command <= COMMAND_RUN)
		return check_workload(arguments);
	return arguments->command == COMMAND_SHIFT ? check_shift(arguments) : 0;
}

/* -P files are read in their order; -p and the options that set a property come after all files. */
int arguments_read(struct arguments *arguments, int argc, char **argv)
{
	static const struct option options[] = {
		{ "db", required_argument, NULL, 'd' },
		{ "address", required_argument, NULL, 'a' },
		{ "threads", required_argument, NULL, 't' },
		{ "batch", required_argument, NULL, 'b' },
		{ "status", no_argument, NULL, 's' },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "records", required_argument, NULL, 'n' },
		{ "depth", required_argument, NULL, 'D' },
		{ "times", required_argument, NULL, OPTION_TIMES },
		{ "registered", no_argument, NULL, OPTION_REGISTERED },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	static const char letters[] = "a:d:P:p:t:b:sn:D:hV";
	char given[sizeof(letters) + 3] = ""; /* each option once */
	int pass, option;

	for (pass = 0; pass < 2; pass++) {
		optind = 0; /* glibc: start over */
		opterr = pass == 0;
		while ((option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
			if ((option == 'p' || option == 't' || option == 's') != (pass == 1) &&
			    option != '?')
				continue;
			if (take_option(arguments, option))
				return -EINVAL;
			if (!strchr(given, option))
				given[strlen(given)] = (char)option;
		}
	}
	if (take_command(arguments, argc - optind, argv + optind))
		return -EINVAL;
	return check(arguments, given);
}

void arguments_init(struct arguments *arguments)
{
	memset(arguments, 0, sizeof(*arguments));
	props_init(&arguments->props);
	arguments->batch = 1;
	arguments->target.depth = 1;
	arguments->times = SHIFT_TIMES;
}

void arguments_release(struct arguments *arguments)
{
	props_release(&arguments->props);
}
