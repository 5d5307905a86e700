/* SPDX-License-Identifier: MIT */
/* Remembers the principals with a large value that did not arrive, each for a while. */
#include "server/worker/late_principals.h"

#include "server/store/store.h"

static int find(const struct late_principals *late, const struct principal *principal)
{
	for (int i = 0; i < LATE_PRINCIPALS_MAX; i++)
		if (late->late[i].until_ns && principal_is(&late->late[i].principal, principal))
			return i;
	return -1;
}

static int forgotten_first(const struct late_principals *late)
{
	int first = 0;

	for (int i = 1; i < LATE_PRINCIPALS_MAX; i++)
		if (late->late[i].until_ns < late->late[first].until_ns)
			first = i;
	return first;
}

void late_principals_add(struct late_principals *late, const struct principal *principal,
			 uint64_t until_ns)
{
	int i;

	mem_lock(&late->lock);
	i = find(late, principal);
	if (i < 0) {
		i = forgotten_first(late);
		late->late[i].principal = *principal;
	}
	late->late[i].until_ns = until_ns;
	if (until_ns > atomic_load_explicit(&late->until_ns, memory_order_relaxed))
		atomic_store_explicit(&late->until_ns, until_ns, memory_order_relaxed);
	mem_unlock(&late->lock);
}

bool late_principals_find(struct late_principals *late, const struct principal *principal,
			  uint64_t now_ns)
{
	bool found;
	int i;

	mem_lock(&late->lock);
	i = find(late, principal);
	found = i >= 0 && now_ns < late->late[i].until_ns;
	mem_unlock(&late->lock);
	return found;
}
