/* SPDX-License-Identifier: MIT */
/*
 * kvbench: YCSB's CoreWorkload against kvd, from YCSB's own property files.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/props.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "bench/client.h"
#include "bench/workload.h"
#include "client/kvd.h"
#include "common/util/parse.h"

enum exit_status {
	EXIT_FINE = 0,
	EXIT_WRONG = 1, /* wrong values, missing records, failed operations */
	EXIT_USAGE = 2,
	EXIT_UNAVAILABLE = 69, /* EX_UNAVAILABLE: no connection, or it was lost */
};

struct arguments {
	struct run_options run;
	struct props props;
	const char *name; /* of the last property file */
	bool json;
};

static void help(FILE *out)
{
	fprintf(out,
		"Usage: kvbench load|run -a URL -P FILE [-P FILE]... [-p KEY=VALUE]... [-t THREADS]\n"
		"               [-b BATCH] [-s] [--json]\n"
		"Loads records into kvd, or runs a workload on them, as YCSB's property files say.\n"
		"\n"
		"  -a, --address URL      rdma://HOST:PORT or softnic:///PATH; else $KVD_URL\n"
		"  -P FILE                property file; later ones override earlier ones\n"
		"  -p KEY=VALUE           property; overrides all files\n"
		"  -t, --threads THREADS  threads, each with a connection of its own\n"
		"  -b, --batch BATCH      GETs that go out together, 1 to %d; 1 unless given\n"
		"  -s, --status           a line of progress each second\n"
		"      --json             the results as one JSON object\n"
		"  -h, --help             this text\n"
		"  -V, --version          the version\n"
		"\n"
		"Exit status: 0 fine; 1 wrong values, records not found or failed operations; 2 usage;\n"
		"69 the server can't be reached, or the connection was lost.\n"
		"\n"
		"Properties, with their defaults:\n",
		CLIENT_BATCH_MAX);
	workload_help(out);
}

static int usage_error(const char *message, const char *detail)
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

/* @argument is key=value, or with @key only the value. */
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

static int take_batch(struct arguments *arguments, const char *text)
{
	struct parse_why why;
	uint64_t batch;

	if (parse_uint(text, 1, CLIENT_BATCH_MAX, &batch, &why))
		return usage_error("-b: ", why.text);
	arguments->run.batch = (unsigned int)batch;
	return 0;
}

static int take_option(struct arguments *arguments, int option)
{
	switch (option) {
	case 'a':
		arguments->run.url = optarg;
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
	case 'j':
		arguments->json = true;
		return 0;
	case 'h':
		help(stdout);
		exit(EXIT_FINE);
	case 'V':
		printf("kvbench %s\n", kvd_version());
		exit(EXIT_FINE);
	default: /* getopt has said what is wrong */
		return -EINVAL;
	}
}

static int take_command(struct arguments *arguments, int argc, char **argv)
{
	if (argc != 1)
		return usage_error(argc ? "one command only, not also " :
					  "give a command: load or run",
				   argc ? argv[1] : "");
	if (!strcmp(argv[0], "load"))
		arguments->run.phase = PHASE_LOAD;
	else if (!strcmp(argv[0], "run"))
		arguments->run.phase = PHASE_RUN;
	else
		return usage_error("no such command: ", argv[0]);
	return 0;
}

/* -P files are read in their order; -p and the options that stand for one come after all files. */
static int arguments_parse(struct arguments *arguments, int argc, char **argv)
{
	static const struct option options[] = {
		{ "address", required_argument, NULL, 'a' },
		{ "threads", required_argument, NULL, 't' },
		{ "batch", required_argument, NULL, 'b' },
		{ "status", no_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	static const char letters[] = "a:P:p:t:b:shV";
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
		}
	}
	return take_command(arguments, argc - optind, argv + optind);
}

static int workload_prepare(struct workload *workload, struct arguments *arguments)
{
	uint64_t operations;

	if (!arguments->run.url)
		arguments->run.url = getenv("KVD_URL");
	if (!arguments->run.url || !*arguments->run.url)
		return usage_error("no server: give -a URL or set KVD_URL", "");
	if (workload_parse(workload, arguments->run.phase, &arguments->props)) {
		fprintf(stderr, "kvbench: %s\n", arguments->props.error);
		return -EINVAL;
	}
	/* As in YCSB: no thread without an operation. */
	operations = arguments->run.phase == PHASE_LOAD ? workload_load_count(workload) :
							  workload->operation_count;
	if (operations && workload->threads > operations) {
		workload->threads = operations;
		fprintf(stderr, "kvbench: only %llu threads: there are no more operations\n",
			(unsigned long long)operations);
	}
	return 0;
}

static enum exit_status exit_status_of(const struct result *result)
{
	if (result->wrong)
		return EXIT_WRONG;
	if (result->ended == KVD_ERR_TIMEOUT || result->ended == KVD_ERR_DISCONNECTED ||
	    result->ended == KVD_ERR_DEVICE || result->ended == KVD_ERR_PROTOCOL)
		return EXIT_UNAVAILABLE;
	return result->failed || result->not_found ? EXIT_WRONG : EXIT_FINE;
}

static enum exit_status run(struct arguments *arguments)
{
	static struct workload workload;
	static struct result result;
	const struct report report = { &workload, &arguments->run, &result,
				       arguments->name ? arguments->name : "workload" };

	if (workload_prepare(&workload, arguments))
		return EXIT_USAGE;
	switch (runner_run(&workload, &arguments->run, &result)) {
	case 0:
		break;
	case -EINVAL:
		return EXIT_USAGE;
	case -ENOTCONN:
		return EXIT_UNAVAILABLE;
	default:
		return EXIT_WRONG;
	}
	if (arguments->json)
		report_json(&report, stdout);
	else
		report_text(&report, stdout);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "kvbench: can't write the results: %s\n", strerror(errno));
		return EXIT_WRONG;
	}
	return exit_status_of(&result);
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .run = { .batch = 1 } };
	enum exit_status status = EXIT_USAGE;

	props_init(&arguments.props);
	if (!arguments_parse(&arguments, argc, argv))
		status = run(&arguments);
	props_release(&arguments.props);
	return status;
}
