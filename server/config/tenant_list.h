/* SPDX-License-Identifier: MIT */
/* A list of tenants with their sizes, as tenants.create has it: "alpha:1g,beta:512m". */
#ifndef KVD_SERVER_CONFIG_TENANT_LIST_H
#define KVD_SERVER_CONFIG_TENANT_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/parse.h"
#include "common/wire.h"

struct tenant_entry {
	char name[WIRE_TENANT_MAX + 1];
	uint64_t bytes;
};

/*
 * Decodes the entry at *@at and moves *@at to the next one, or to the list's end. Returns 0, or
 * -EINVAL and fills in @why.
 */
int tenant_list_next(const char **at, struct tenant_entry *entry, struct parse_why *why);

/* Whether it can be the name of a tenant, other than the one that is always there. */
bool tenant_name_valid(const char *name);
/* What such a name is, for messages. */
#define TENANT_NAME_RULE "1 to 24 letters, digits, '-', '_' and '.', and not default"
static_assert(WIRE_TENANT_MAX == 24, "TENANT_NAME_RULE");

/* The tenant that has memory.size, and is there as long as the server runs. */
#define TENANT_DEFAULT "default"

#endif /* KVD_SERVER_CONFIG_TENANT_LIST_H */
