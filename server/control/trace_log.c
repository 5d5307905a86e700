/* SPDX-License-Identifier: MIT */
/* Keeps the last records of what the workers have executed. */
#include "server/control/trace_log.h"

#include <errno.h>

#include "common/util/log.h"
#include "common/util/secret.h"

#define RECORDS (TRACE_SLOW_MAX + TRACE_SAMPLE_MAX)

static void trace_log_init(struct trace_log *log, struct trace_record *records, uint64_t size)
{
	*log = (struct trace_log){ .records = records, .size = size, .next = 1 };
}

int traces_init(struct traces *traces)
{
	traces->memory = secret_alloc(RECORDS * sizeof(struct trace_record));
	if (!traces->memory) {
		log_error("no memory for the slow log");
		return -ENOMEM;
	}
	trace_log_init(&traces->slow, traces->memory, TRACE_SLOW_MAX);
	trace_log_init(&traces->sample, traces->memory + TRACE_SLOW_MAX, TRACE_SAMPLE_MAX);
	return 0;
}

void traces_release(struct traces *traces)
{
	secret_free(traces->memory, RECORDS * sizeof(struct trace_record));
	traces->memory = NULL;
}

void trace_log_add(struct trace_log *log, struct trace_record *record)
{
	record->number = log->next++;
	log->records[log->count++ % log->size] = *record;
	if (log->count - log->first > log->size)
		log->first = log->count - log->size;
}

uint64_t trace_log_find(const struct trace_log *log, uint64_t number)
{
	uint64_t low = log->first, high = log->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (trace_log_at(log, middle)->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
