/* SPDX-License-Identifier: MIT */
/*
 * Runs a workload of kvbench: connects every thread, warms up, measures and sums up the results.
 */
#ifndef KVD_BENCH_RUNNER_H
#define KVD_BENCH_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/client.h"
#include "bench/db.h"
#include "bench/server_stats.h"
#include "bench/workload.h"

struct run_options {
	struct db_target target;
	enum phase phase;
	unsigned int batch;
	bool registered;
};

/* The results of a run, for the measured part after the warm-up. */
struct result {
	char device_kind[16], device_name[64], device_why[256];
	uint64_t seed;
	uint64_t elapsed_ns;
	uint64_t operations; /* a read-modify-write is one */
	uint64_t not_found, failed;
	uint64_t wrong; /* the warm-up included */
	struct operation_stats stats[OPERATION_COUNT];
	struct kvd_stats client; /* of all connections together */
	uint64_t client_cpu_us;	 /* of this process */
	struct server_cpu server_cpu;
	bool evictions_known;
	uint64_t evictions; /* since the server started */
	bool interrupted;
	enum kvd_status ended; /* why a thread stopped early, else KVD_OK */
};

/*
 * Runs @workload. Returns 0 with *@result filled, also if operations failed; -ENOTCONN if it can't
 * connect to the server, -EINVAL if the URL is wrong, -ENOMEM, or the error that kept a thread from
 * starting. The reason has then been printed.
 *
 * SIGINT and SIGTERM end the run early; a second signal ends the process. Call it from the only
 * thread.
 */
int runner_run(const struct workload *workload, const struct run_options *options,
	       struct result *result);

#endif /* KVD_BENCH_RUNNER_H */
