/* SPDX-License-Identifier: MIT */
/*
 * Principals (server/worker/principal.h) with a large value that did not arrive: for a while they
 * together get as much memory for large values as one other principal, over all workers (BUDGET-4
 * in server/worker/budget.h). Any thread.
 */
#ifndef KVD_SERVER_WORKER_LATE_PRINCIPALS_H
#define KVD_SERVER_WORKER_LATE_PRINCIPALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/worker/principal.h"

/* One more replaces the principal that would be forgotten first. */
#define LATE_PRINCIPALS_MAX 64

struct late_principals {
	uint32_t lock; /* a mem_lock(); guards `late` */
	struct {
		struct principal principal;
		uint64_t until_ns; /* 0: not in use */
	} late[LATE_PRINCIPALS_MAX];
	_Atomic uint64_t until_ns; /* the latest of all */
};

/*
 * A value of @principal did not arrive: remembers it until @until_ns, which grows with each call.
 */
void late_principals_add(struct late_principals *late, const struct principal *principal,
			 uint64_t until_ns);

bool late_principals_find(struct late_principals *late, const struct principal *principal,
			  uint64_t now_ns);

/* Whether @principal is late. Takes no lock while no principal is. */
static inline bool late_principals_have(struct late_principals *late,
					const struct principal *principal, uint64_t now_ns)
{
	return now_ns < atomic_load_explicit(&late->until_ns, memory_order_relaxed) &&
	       late_principals_find(late, principal, now_ns);
}

#endif /* KVD_SERVER_WORKER_LATE_PRINCIPALS_H */
