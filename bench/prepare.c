/* SPDX-License-Identifier: MIT */
/*
 * Prepares a workload: see prepare.h.
 */
#include "bench/prepare.h"

#include <errno.h>
#include <stdio.h>

#include "bench/client.h"
#include "bench/workload_parse.h"

/* As in YCSB, each thread has at least one operation. */
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

int workload_prepare(struct workload *workload, enum phase phase, struct arguments *arguments)
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
