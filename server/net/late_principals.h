/* SPDX-License-Identifier: MIT */
/*
 * Principals (server/net/principal.h) of which a large value did not arrive: what they ask for is
 * served after what others ask for, for a while (B6 in server/net/budget.h). The worker's.
 */
#ifndef KVD_SERVER_NET_LATE_PRINCIPALS_H
#define KVD_SERVER_NET_LATE_PRINCIPALS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/net/principal.h"

/* With more of them, the one that would be forgotten first is forgotten. */
#define LATE_PRINCIPALS_MAX 64

struct late_principals {
	struct {
		struct principal principal;
		uint64_t until_ns; /* 0: not in use */
	} late[LATE_PRINCIPALS_MAX];
	uint64_t until_ns; /* the latest of all */
};

/* A value of @principal did not arrive: remembers that until @until_ns, later each time. */
void late_principals_add(struct late_principals *late, const struct principal *principal,
			 uint64_t until_ns);

bool do_late_principals_have(const struct late_principals *late, const struct principal *principal,
			     uint64_t now_ns);

static inline bool late_principals_have(const struct late_principals *late,
					const struct principal *principal, uint64_t now_ns)
{
	return now_ns < late->until_ns && do_late_principals_have(late, principal, now_ns);
}

#endif /* KVD_SERVER_NET_LATE_PRINCIPALS_H */
