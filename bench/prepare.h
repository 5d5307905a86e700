/* SPDX-License-Identifier: MIT */
/*
 * Prepares the workload of `kvbench load` and `kvbench run` from the command line's properties.
 */
#ifndef KVD_BENCH_PREPARE_H
#define KVD_BENCH_PREPARE_H

#include "bench/arguments.h"
#include "bench/workload.h"

/*
 * Fills @workload, for which the store and the options of @arguments fit. Returns 0, or -EINVAL
 * after it has printed what is wrong.
 */
int workload_prepare(struct workload *workload, enum phase phase, struct arguments *arguments);

#endif /* KVD_BENCH_PREPARE_H */
