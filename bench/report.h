/* SPDX-License-Identifier: MIT */
/*
 * Prints the results of a run: a table for people, or one JSON object for scripts.
 */
#ifndef KVD_BENCH_REPORT_H
#define KVD_BENCH_REPORT_H

#include <stdio.h>

#include "bench/runner.h"
#include "bench/workload.h"

/* A run and its results. */
struct report {
	const struct workload *workload;
	const struct run_options *options;
	const struct result *result;
	const char *name; /* the workload's: the file name of the last -P */
};

void report_text(const struct report *report, FILE *out);

/*
 * One flat object, one "name": value a line, so that sed and awk can read it as well as jq. Times
 * are microseconds. Operations that did not happen are left out, and so are figures that the server
 * did not report.
 */
void report_json(const struct report *report, FILE *out);

#endif /* KVD_BENCH_REPORT_H */
