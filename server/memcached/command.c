/* SPDX-License-Identifier: MIT */
/* A command of memcached's text protocol: see command.h. */
#include "server/memcached/command.h"

#include <string.h>

/* The longest time that counts from now: 30 days. */
#define RELATIVE_MAX_S (60 * 60 * 24 * 30)

void mc_command_clear(struct mc_command *command)
{
	/* `decoded` is large, and only read where a key was put there. */
	memset(command, 0, offsetof(struct mc_command, decoded));
}

void mc_refuse(struct mc_command *command, const char *error)
{
	command->op = MC_REFUSED;
	command->error = error;
}

int64_t mc_ttl(int64_t exptime, int64_t now_s)
{
	if (exptime < 0)
		return MC_EXPIRED;
	if (exptime > RELATIVE_MAX_S) {
		if (exptime <= now_s)
			return MC_EXPIRED;
		exptime -= now_s;
	}
	return exptime < WIRE_TTL_MAX ? exptime : WIRE_TTL_MAX;
}
