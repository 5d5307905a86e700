/* SPDX-License-Identifier: MIT */
/* Makes, shares and pages the text of the statistics. */
#include "server/worker/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "server/worker/worker.h"

/*
 * More than the statistics of a server with slabs of all size classes and one device need, so one
 * attempt is enough.
 */
#define SNAPSHOT_BYTES (32u << 10)

struct snapshot *snapshot_make(const struct worker_env *env, const struct tenant *tenant,
			       const struct principal *viewer)
{
	uint32_t size = SNAPSHOT_BYTES;
	struct snapshot *snapshot;

	for (;;) {
		snapshot = malloc(sizeof(*snapshot) + size);
		if (!snapshot)
			return NULL;
		snapshot->bytes = env->stats_print(env->stats_source, tenant, viewer,
						   snapshot->text, size);
		if (snapshot->bytes <= size)
			break;
		size = 2 * snapshot->bytes;
		free(snapshot);
	}
	atomic_init(&snapshot->references, 1);
	return snapshot;
}

struct snapshot *snapshot_share(struct snapshot *snapshot)
{
	if (snapshot)
		atomic_fetch_add_explicit(&snapshot->references, 1, memory_order_relaxed);
	return snapshot;
}

/* Release and acquire: the last thread frees it after all others have read it. */
void snapshot_drop(struct snapshot *snapshot)
{
	if (snapshot &&
	    atomic_fetch_sub_explicit(&snapshot->references, 1, memory_order_acq_rel) == 1)
		free(snapshot);
}

/* The end of the line at @at, past its newline. */
static const char *line_end(const char *at, const char *end)
{
	const char *newline = memchr(at, '\n', (size_t)(end - at));

	return newline ? newline + 1 : end;
}

uint32_t snapshot_page(const struct snapshot *snapshot, uint32_t first, char *text, uint32_t size,
		       struct snapshot_place *place, uint32_t *next)
{
	const char *at, *end = snapshot->text + snapshot->bytes, *begin, *after;
	uint32_t number;

	if (place->line > first)
		*place = (struct snapshot_place){ 0 };
	at = snapshot->text + place->offset;
	for (number = place->line; number < first && at < end; number++)
		at = line_end(at, end);
	for (begin = at; at < end; at = after, number++) {
		after = line_end(at, end);
		if ((size_t)(after - begin) > size)
			break;
	}
	memcpy(text, begin, (size_t)(at - begin));
	*place = (struct snapshot_place){ number, (uint32_t)(at - snapshot->text) };
	*next = at < end ? number : 0;
	return (uint32_t)(at - begin);
}
