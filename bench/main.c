/* SPDX-License-Identifier: MIT */
/*
 * kvbench: loads kvd, memcached or Redis and measures it, with YCSB's workloads or small records.
 */
#include <stdio.h>

#include "bench/arguments.h"
#include "bench/exit_status.h"
#include "bench/prepare.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "bench/shift.h"
#include "bench/small.h"
#include "common/util/streams.h"

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

	if (streams_init("kvbench"))
		return EXIT_WRONG;
	arguments_init(&arguments);
	if (!arguments_read(&arguments, argc, argv))
		status = command_do(&arguments);
	arguments_release(&arguments);
	return streams_flush("kvbench") ? EXIT_WRONG : status;
}
