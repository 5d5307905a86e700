/* SPDX-License-Identifier: MIT */
/* Compares the members of a fleet: see doctor_fleet.h. */
#include <inttypes.h>
#include <string.h>

#include "client/kvctl/doctor_fleet.h"
#include "client/kvctl/progress.h"

/* After a failover versions begin at the time of day of the new owner, which should be later. */
#define CLOCKS_GOOD_NS 1000000000
/* With a smaller part of the memory that another member has for its share, it is full too early. */
#define MEMORY_GOOD 0.8

static void check_versions(struct findings *findings, const struct doctor_member *members,
			   uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		if (!strcmp(members[i].version, members->version))
			continue;
		findings_add(findings, SEVERITY_WARNING, "versions", NULL,
			     "%s has %s, and %s has %s: update one member after another, as kvd's "
			     "manual of operations says",
			     members->id, members->version, members[i].id, members[i].version);
		return;
	}
	findings_add(findings, SEVERITY_OK, "versions", NULL, "all members have %s",
		     members->version);
}

static void check_clocks(struct findings *findings, const struct doctor_member *members,
			 uint32_t count)
{
	const struct doctor_member *first = NULL, *last = NULL;
	double apart;

	for (uint32_t i = 0; i < count; i++) {
		if (!members[i].clock_known)
			continue;
		if (!first || members[i].clock_ns < first->clock_ns)
			first = &members[i];
		if (!last || members[i].clock_ns > last->clock_ns)
			last = &members[i];
	}
	if (!first)
		return;
	apart = (double)(last->clock_ns - first->clock_ns) / 1e9;
	if (last->clock_ns - first->clock_ns > CLOCKS_GOOD_NS)
		findings_add(findings, SEVERITY_WARNING, "clocks", "timedatectl",
			     "%s's time of day is %.1f s ahead of %s's: versions of keys may "
			     "decrease after a failover",
			     last->id, apart, first->id);
	else
		findings_add(findings, SEVERITY_OK, "clocks", NULL,
			     "the members' times of day are within %.3f s", apart);
}

static double share_of(const struct doctor_member *member)
{
	return (double)member->memory / member->weight;
}

static void check_memory(struct findings *findings, const struct doctor_member *members,
			 uint32_t count)
{
	const struct doctor_member *least = NULL, *most = NULL;
	char a[16], b[16];

	for (uint32_t i = 0; i < count; i++) {
		if (!members[i].weight || !members[i].memory)
			continue;
		if (!least || share_of(&members[i]) < share_of(least))
			least = &members[i];
		if (!most || share_of(&members[i]) > share_of(most))
			most = &members[i];
	}
	if (!least)
		return;
	bytes_text(a, (double)least->memory);
	bytes_text(b, (double)most->memory);
	if (share_of(least) < MEMORY_GOOD * share_of(most))
		findings_add(findings, SEVERITY_WARNING, "memory", NULL,
			     "%s has %s and the weight %" PRIu32 ", %s has %s and %" PRIu32
			     ": it is full before the other; weights should be as memory.size is",
			     least->id, a, least->weight, most->id, b, most->weight);
	else
		findings_add(findings, SEVERITY_OK, "memory", NULL,
			     "the members' shares are as their memory is");
}

/* Whether one of the lines begins with that name. */
static bool has_tenant(const char *tenants, const char *name, size_t len)
{
	for (const char *at = tenants; *at; at += strcspn(at, "\n"), at += *at == '\n')
		if (strcspn(at, " \n") == len && !memcmp(at, name, len))
			return true;
	return false;
}

/* Whether @other lacks a tenant of @member. */
static bool lacks_one(struct findings *findings, const struct doctor_member *member,
		      const struct doctor_member *other)
{
	for (const char *at = member->tenants; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		const size_t len = strcspn(at, " \n"), skip = strlen("name=");

		if (len <= skip || has_tenant(other->tenants, at, len))
			continue;
		findings_add(findings, SEVERITY_ERROR, "tenants", NULL,
			     "%s has the tenant %.*s, and %s has not: shards do not move to it",
			     member->id, (int)(len - skip), at + skip, other->id);
		return true;
	}
	return false;
}

static void check_tenants(struct findings *findings, const struct doctor_member *members,
			  uint32_t count)
{
	const struct doctor_member *first = NULL;
	bool differ = false;

	for (uint32_t i = 0; i < count; i++) {
		if (!members[i].tenants)
			continue;
		if (!first)
			first = &members[i];
		else if (lacks_one(findings, first, &members[i]) ||
			 lacks_one(findings, &members[i], first))
			differ = true;
	}
	if (first && !differ)
		findings_add(findings, SEVERITY_OK, "tenants", NULL,
			     "all members have the same tenants");
}

void doctor_check_members(struct findings *findings, const struct doctor_member *members,
			  uint32_t count)
{
	if (count < 2)
		return;
	check_versions(findings, members, count);
	check_clocks(findings, members, count);
	check_memory(findings, members, count);
	check_tenants(findings, members, count);
}
