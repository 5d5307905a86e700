/* SPDX-License-Identifier: MIT */
/* Counts the events of each principal in a table that is searched from its start. */
#include "server/worker/audit_limit.h"

#include <stddef.h>
#include <string.h>

#define NS_PER_S 1000000000ull

static struct audit_source *source_find(struct audit_limit *limit, enum audit_class class,
					const struct principal *principal)
{
	struct audit_source *free = NULL;

	for (unsigned int i = 0; i < AUDIT_SOURCES_MAX; i++) {
		struct audit_source *source = &limit->sources[i];

		if (!source->count)
			free = free ? free : source;
		else if (source->class == class && principal_is(&source->principal, principal))
			return source;
	}
	return free ? free : &limit->sources[AUDIT_SOURCES_MAX];
}

bool audit_limit_pass(struct audit_limit *limit, enum audit_class class,
		      const struct principal *principal, uint64_t now_ns)
{
	struct audit_source *source = source_find(limit, class, principal);

	if (!source->count) {
		source->began_ns = now_ns;
		source->class = class;
		source->principal = *principal;
		if (source == &limit->sources[AUDIT_SOURCES_MAX])
			strcpy(source->principal.name, "others");
	}
	return ++source->count <= AUDIT_LINES_PER_S;
}

uint64_t audit_limit_more(struct audit_limit *limit, uint64_t now_ns, struct audit_source *ended)
{
	for (unsigned int i = 0; i <= AUDIT_SOURCES_MAX; i++) {
		struct audit_source *source = &limit->sources[i];
		uint64_t count = source->count;

		if (!count || now_ns < source->began_ns || now_ns - source->began_ns < NS_PER_S)
			continue;
		source->count = 0;
		if (count <= AUDIT_LINES_PER_S)
			continue;
		*ended = *source;
		return count - AUDIT_LINES_PER_S;
	}
	return 0;
}
