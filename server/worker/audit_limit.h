/* SPDX-License-Identifier: MIT */
/*
 * A limit of the lines in the audit log, so that a client that connects, is refused or flushes in a
 * loop can't fill a disk: of each principal and each class of events AUDIT_LINES_PER_S lines are
 * written in a second, and then one that says how many more there were. The classes have limits of
 * their own, so that a client can't hide a FLUSH among its connections.
 *
 * At most AUDIT_SOURCES_MAX principals and classes are told apart in a second; the others share one
 * limit. So there are at most AUDIT_LINES_MAX lines in a second, whatever clients do.
 */
#ifndef KVD_SERVER_WORKER_AUDIT_LIMIT_H
#define KVD_SERVER_WORKER_AUDIT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/worker/principal.h"

#define AUDIT_LINES_PER_S 10u
#define AUDIT_SOURCES_MAX 31u
#define AUDIT_LINES_MAX ((AUDIT_SOURCES_MAX + 1) * (AUDIT_LINES_PER_S + 1))

enum audit_class {
	AUDIT_CONNECTIONS,
	AUDIT_REFUSALS,
	AUDIT_ADMINISTRATION,
};

/* The events of one principal and class in its second. */
struct audit_source {
	struct principal principal; /* "others": those that share a limit, of all classes */
	enum audit_class class;
	uint64_t began_ns;
	uint64_t count; /* 0: it is free */
};

/* All zero at first. The caller has a lock. */
struct audit_limit {
	struct audit_source sources[AUDIT_SOURCES_MAX + 1]; /* the last one: the others */
};

/* Counts an event. False: its line must not be written. After audit_limit_more(). */
bool audit_limit_pass(struct audit_limit *limit, enum audit_class class,
		      const struct principal *principal, uint64_t now_ns);

/*
 * Ends one of the seconds that are over at @now_ns. If lines were not written in it, returns how
 * many, and @source is whose. 0: all are ended.
 */
uint64_t audit_limit_more(struct audit_limit *limit, uint64_t now_ns, struct audit_source *source);

#endif /* KVD_SERVER_WORKER_AUDIT_LIMIT_H */
