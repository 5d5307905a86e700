/* SPDX-License-Identifier: MIT */
/*
 * kvbench: loads kvd, memcached or Redis and measures it, with YCSB's workloads or small records.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench/arguments.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "bench/shift.h"
#include "bench/small.h"
#include "bench/workload_parse.h"

enum exit_status {
	EXIT_FINE = 0,
	EXIT_WRONG = 1, /* wrong values, records not found, failed operations */
	EXIT_USAGE = 2,
	EXIT_UNAVAILABLE = 69, /* EX_UNAVAILABLE: no connection, or it was lost */
};

/* For what runner_run() and the like return. */
static enum exit_status exit_status_of_error(int error)
{
	switch (error) {
	case 0:
		return EXIT_FINE;
	case -EINVAL:
		return EXIT_USAGE;
	case -ENOTCONN:
		return EXIT_UNAVAILABLE;
	default:
		return EXIT_WRONG;
	}
}

/* As in YCSB, no thread is without an operation. */
static void threads_limit(struct workload *workload, enum phase phase)
{
	const uint64_t operations = phase == PHASE_LOAD ? workload_load_count(workload) :
							  workload->operation_count;

	if (!operations || workload->threads <= operations)
		return;
	workload->threads = operations;
	fprintf(stderr, "kvbench: only %llu threads, one for each operation\n",
		(unsigned long long)operations);
}

static int workload_prepare(struct workload *workload, enum phase phase,
			    struct arguments *arguments)
{
	const struct db_backend *backend = arguments->target.backend;
	char message[128];

	if (workload_parse(workload, phase, &arguments->props)) {
		fprintf(stderr, "kvbench: %s\n", arguments->props.error);
		return -EINVAL;
	}
	if (workload_key_max(workload) > backend->key_max) {
		snprintf(message, sizeof(message),
			 "zeropadding: keys would have %zu bytes, %s takes %zu at most",
			 workload_key_max(workload), backend->name, backend->key_max);
		return arguments_refuse(message, "");
	}
	threads_limit(workload, phase);
	if (arguments->registered && workload->threads > CLIENT_REGISTERED_MAX) {
		snprintf(message, sizeof(message),
			 "--registered takes %d threads at most, not %llu", CLIENT_REGISTERED_MAX,
			 (unsigned long long)workload->threads);
		return arguments_refuse(message, "");
	}
	return 0;
}

static enum exit_status exit_status_of_result(const struct result *result)
{
	if (result->wrong)
		return EXIT_WRONG;
	if (db_status_is_fatal(result->ended))
		return EXIT_UNAVAILABLE;
	return result->failed || result->not_found ? EXIT_WRONG : EXIT_FINE;
}

static enum exit_status ycsb(struct arguments *arguments)
{
	static struct workload workload;
	static struct result result;
	const struct run_options options = {
		.target = arguments->target,
		.phase = arguments->command == COMMAND_LOAD ? PHASE_LOAD : PHASE_RUN,
		.batch = arguments->batch,
		.registered = arguments->registered,
	};
	const struct report report = { &workload, &options, &result,
				       arguments->name ? arguments->name : "workload" };
	int error;

	if (workload_prepare(&workload, options.phase, arguments))
		return EXIT_USAGE;
	error = runner_run(&workload, &options, &result);
	if (error)
		return exit_status_of_error(error);
	if (arguments->json)
		report_json(&report, stdout);
	else
		report_text(&report, stdout);
	return exit_status_of_result(&result);
}

static enum exit_status command_do(struct arguments *arguments)
{
	const struct db_target *target = &arguments->target;
	const uint64_t records = arguments->records;

	switch (arguments->command) {
	case COMMAND_PUT:
		return exit_status_of_error(small_run(target, SMALL_PUT, records));
	case COMMAND_GET:
		return exit_status_of_error(small_run(target, SMALL_GET, records));
	case COMMAND_MISS:
		return exit_status_of_error(small_run(target, SMALL_MISS, records));
	case COMMAND_DELETE:
		return exit_status_of_error(small_run(target, SMALL_DELETE, records));
	case COMMAND_COUNT:
		return exit_status_of_error(small_count(target));
	case COMMAND_SHIFT:
		return exit_status_of_error(shift_run(target, arguments->times, arguments->sizes,
						      arguments->size_count));
	default:
		return ycsb(arguments);
	}
}

int main(int argc, char **argv)
{
	struct arguments arguments;
	enum exit_status status = EXIT_USAGE;

	arguments_init(&arguments);
	if (!arguments_parse(&arguments, argc, argv))
		status = command_do(&arguments);
	arguments_release(&arguments);
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	fprintf(stderr, "kvbench: can't write the results: %s\n", strerror(errno));
	return EXIT_WRONG;
}
