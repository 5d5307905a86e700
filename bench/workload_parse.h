/* SPDX-License-Identifier: MIT */
/* Parses a workload's properties, and prints them for --help. */
#ifndef KVD_BENCH_WORKLOAD_PARSE_H
#define KVD_BENCH_WORKLOAD_PARSE_H

#include "bench/props.h"
#include "bench/workload.h"

/*
 * Fills @workload for @phase from @props, which must outlive it. Returns 0; or -EINVAL for a
 * property that is unknown, not supported or has a wrong value; props->error names it and its
 * place.
 */
int workload_parse(struct workload *workload, enum phase phase, struct props *props);

/* Prints every property with its default and its effect, or why it has none. */
void workload_help(FILE *out);

#endif /* KVD_BENCH_WORKLOAD_PARSE_H */
