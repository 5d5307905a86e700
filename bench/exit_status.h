/* SPDX-License-Identifier: MIT */
/*
 * kvbench's exit statuses, as --help has them.
 */
#ifndef KVD_BENCH_EXIT_STATUS_H
#define KVD_BENCH_EXIT_STATUS_H

#include "bench/runner.h"

enum exit_status {
	EXIT_FINE = 0,
	EXIT_WRONG = 1, /* wrong values, records not found, failed operations, no output */
	EXIT_USAGE = 2,
	EXIT_UNAVAILABLE = 69, /* EX_UNAVAILABLE: no connection, or it was lost */
};

/* The exit status for the result of runner_run() and similar functions. */
enum exit_status exit_status_of_error(int error);

/* The exit status for a completed run. */
enum exit_status exit_status_of_result(const struct result *result);

#endif /* KVD_BENCH_EXIT_STATUS_H */
