/* SPDX-License-Identifier: MIT */
/*
 * What `kvctl doctor URL` learns about a fleet from its members, and the checks of these facts, for
 * which the members are compared. Checks see only the facts, so that tests can pass others.
 */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_FLEET_H
#define KVD_CLIENT_KVCTL_DOCTOR_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvctl/doctor_finding.h"

struct arguments;

#define DOCTOR_TENANTS_BYTES (64u << 10)

/* A member that answered. */
struct doctor_member {
	const char *id;
	char version[32]; /* "": unknown */
	uint64_t memory;  /* bytes */
	uint32_t weight;  /* its share of the keys; 0: none */
	bool clock_known;
	int64_t clock_ns;    /* how far its clock is ahead of this host's */
	const char *tenants; /* a line for each, that begins with name=; NULL: unknown */
};

/*
 * Looks at the fleet at @url and at each of its members, as doctor_server_read() does, and adds all
 * that it finds. Returns an exit status, after printing why it is not EX_OK.
 */
int doctor_fleet_look(struct findings *findings, const char *url,
		      const struct arguments *arguments);

/* Compares the members. */
void doctor_check_members(struct findings *findings, const struct doctor_member *members,
			  uint32_t count);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_FLEET_H */
