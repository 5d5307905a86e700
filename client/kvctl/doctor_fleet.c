/* SPDX-License-Identifier: MIT */
/* Looks at a fleet: see doctor_fleet.h. */
#include "client/kvctl/doctor_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/doctor_server.h"
#include "client/kvctl/fleet_state.h"
#include "client/kvctl/report.h"
#include "common/util/clock.h"

/* Looks at what only the member itself knows. */
static void member_read(struct doctor_member *to, struct member *member,
			const struct arguments *arguments)
{
	char *tenants = malloc(DOCTOR_TENANTS_BYTES);
	struct kvd_info info;

	to->id = member->map.id;
	to->weight = member->map.weight;
	if (!member_open(member, arguments)) {
		free(tenants);
		return;
	}
	kvd_info(member->db, &info);
	to->memory = info.region_bytes;
	to->clock_known = !kvd_ping(member->db) && kvd_clock_ns(member->db);
	to->clock_ns = (int64_t)(kvd_clock_ns(member->db) - clock_read_ns(CLOCK_REALTIME));
	if (tenants && !kvd_tenant_list(member->db, tenants, DOCTOR_TENANTS_BYTES, NULL))
		to->tenants = tenants;
	else
		free(tenants);
	member_close(member);
}

static void check_state(struct findings *findings, const struct fleet_state *fleet, const char *url)
{
	char text[FLEET_PROBLEM_BYTES], fix[MEMBERS_URL_BYTES + 32];
	unsigned int problems = 0;
	uint32_t at = 0;

	snprintf(fix, sizeof(fix), "kvctl -a %s fleet status", url);
	for (; fleet_state_problem(fleet, &at, text); problems++)
		findings_add(findings, SEVERITY_ERROR, "members", fix, "%s", text);
	if (!problems)
		findings_add(findings, SEVERITY_OK, "members", NULL,
			     "%u members serve all %u shards", fleet->members.info.members,
			     fleet->members.info.shards);
}

/* The members that answer, compared, and then one after another. */
static void members_look(struct findings *findings, struct fleet_state *fleet, const char *url,
			 const struct arguments *arguments)
{
	const uint32_t count = fleet->members.info.members;
	struct doctor_member *members = calloc(count, sizeof(*members));
	static struct doctor_server server;
	uint32_t known = 0;

	for (uint32_t i = 0; members && i < count; i++) {
		const struct one *one = &fleet->ones[i];

		if (!one->answers)
			continue;
		snprintf(members[known].version, sizeof(members[known].version), "%s",
			 one->version);
		member_read(&members[known++], one->member, arguments);
	}
	doctor_check_members(findings, members, known);
	for (uint32_t i = 0; i < known; i++)
		free((char *)members[i].tenants);
	free(members);
	for (uint32_t i = 0; i < count; i++) {
		const struct member *member = fleet->ones[i].member;
		const struct doctor_member_of of = { url, i, member->map.id };

		if (!fleet->ones[i].answers)
			continue;
		doctor_server_read(&server, member->url, &of, &arguments->options);
		doctor_check_server(findings, &server, kvd_version());
	}
}

int doctor_fleet_look(struct findings *findings, const char *url, const struct arguments *arguments)
{
	struct fleet_state fleet = { 0 };
	struct kvd *db;
	int code;

	if (kvd_open(&db, url, &arguments->options)) {
		findings_group(findings, "The fleet %s", url);
		findings_add(findings, SEVERITY_ERROR, "connect", NULL, "%s", kvd_error(NULL));
		return EX_OK;
	}
	code = fleet_state_read(&fleet, db, url);
	if (!code) {
		findings_group(findings, "The fleet %s", fleet.members.info.name);
		fleet_state_ask(&fleet, arguments);
		check_state(findings, &fleet, url);
		members_look(findings, &fleet, url, arguments);
	}
	fleet_state_release(&fleet);
	kvd_close(db);
	return code;
}
