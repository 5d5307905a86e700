/* SPDX-License-Identifier: MIT */
/* Parses a workload's properties, and prints what they are for --help. */
#ifndef KVD_BENCH_WORKLOAD_PARSE_H
#define KVD_BENCH_WORKLOAD_PARSE_H

#include "bench/props.h"
#include "bench/workload.h"

/*
 * Fills @workload for @phase from @props, which must outlive it. Returns 0; or -EINVAL with the
 * name and the place of a property in props->error that is not known or not supported, or whose
 * value is wrong.
 */
int workload_parse(struct workload *workload, enum phase phase, struct props *props);

/* Prints every property with its default and its effect, or why it has none. */
void workload_help(FILE *out);

#endif /* KVD_BENCH_WORKLOAD_PARSE_H */
