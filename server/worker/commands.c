/* SPDX-License-Identifier: MIT */
#include "server/worker/commands.h"

#include <stdbool.h>

void command_count_reads(struct command_counts *counts, enum device_kind kind,
			 const struct wire_gets *gets)
{
	uint64_t *of_status = counts->of[front_of(kind)][WIRE_GET];

	stat_add(&of_status[WIRE_OK], gets->hits);
	stat_add(&of_status[WIRE_NOT_FOUND], gets->misses);
}

void command_counts_add(const struct command_counts *counts, struct command_counts *sums)
{
	const uint64_t *from = &counts->of[0][0][0];
	uint64_t *to = &sums->of[0][0][0];

	for (size_t i = 0; i < sizeof(sums->of) / sizeof(*to); i++)
		to[i] += stat_read(&from[i]);
}

static uint64_t of_status(const struct command_counts *sums, enum wire_op op,
			  enum wire_status status)
{
	uint64_t sum = 0;

	for (unsigned int front = 0; front < FRONTS_COUNT; front++)
		sum += sums->of[front][op][status];
	return sum;
}

/* Whether a command with this status was not executed. */
static bool is_refused(enum wire_status status)
{
	return status == WIRE_NOT_ALLOWED || status == WIRE_LIMIT || status == WIRE_MOVED ||
	       status == WIRE_AWAY || status == WIRE_UNKNOWN;
}

static uint64_t executed(const struct command_counts *sums, enum wire_op op)
{
	uint64_t sum = 0;

	for (unsigned int status = 0; status <= WIRE_STATUS_MAX; status++)
		if (!is_refused((enum wire_status)status))
			sum += of_status(sums, op, (enum wire_status)status);
	return sum;
}

struct command_stats command_counts_stats(const struct command_counts *sums)
{
	return (struct command_stats){
		.puts = executed(sums, WIRE_PUT) + executed(sums, WIRE_ARITH),
		.put_no_space = of_status(sums, WIRE_PUT, WIRE_NO_SPACE) +
				of_status(sums, WIRE_ARITH, WIRE_NO_SPACE),
		.put_too_large = of_status(sums, WIRE_PUT, WIRE_TOO_LARGE) +
				 of_status(sums, WIRE_ARITH, WIRE_TOO_LARGE),
		.deletes = executed(sums, WIRE_DELETE),
		.delete_misses = of_status(sums, WIRE_DELETE, WIRE_NOT_FOUND),
		.touches = executed(sums, WIRE_TOUCH),
		.scans = executed(sums, WIRE_SCAN),
	};
}
