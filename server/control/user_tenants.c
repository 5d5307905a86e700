/* SPDX-License-Identifier: MIT */
#include "server/control/user_tenants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/layout.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "server/config/option_table.h"
#include "server/config/tenant_list.h"
#include "server/worker/tenant.h"

static_assert(USER_MEMORY_MIN == OPTION_TENANT_MIN && USER_MEMORY_MAX == REGION_BYTES_MAX,
	      "a user's memory is that of a tenant");

/* What tenants.create gives the tenant @name; 0: it makes none. */
static uint64_t created_bytes(const struct config *config, const char *name)
{
	const char *at = config->tenants.create;
	struct tenant_entry entry;
	struct parse_why why;

	while (*at && !tenant_list_next(&at, &entry, &why))
		if (!strcmp(entry.name, name))
			return entry.bytes;
	return 0;
}

int user_tenants_agree(const struct users *users, const struct config *config, char *why)
{
	uint64_t bytes;

	for (size_t i = 0; users && i < users->count; i++) {
		const struct user *user = &users->list[i];

		bytes = user->memory ? created_bytes(config, user->name) : 0;
		if (!bytes || bytes == user->memory)
			continue;
		snprintf(why, USERS_WHY_MAX,
			 "line %u: user '%s' has memory = %" PRIu64
			 ", and tenants.create makes the "
			 "tenant of that name with %" PRIu64 ": give both the same",
			 user->line, user->name, user->memory, bytes);
		return -EINVAL;
	}
	return 0;
}

int user_tenants_fit(const struct users *users, const struct config *config)
{
	const char *at = config->tenants.create;
	unsigned int count = 1; /* `default` */
	uint64_t bytes = 0;
	struct tenant_entry entry;
	struct parse_why why;
	char needed[PARSE_FORMAT_MAX], has[PARSE_FORMAT_MAX];

	for (; *at && !tenant_list_next(&at, &entry, &why); count++)
		bytes += entry.bytes;
	for (size_t i = 0; users && i < users->count; i++) {
		if (!users->list[i].memory || created_bytes(config, users->list[i].name))
			continue;
		bytes += users->list[i].memory;
		count++;
	}
	if (bytes > config->tenants.memory) {
		log_error("tenants.create and the memory of users (users.file) need %s, and "
			  "tenants.memory is %s: raise that, or lower the sizes",
			  show_size(bytes, needed), show_size(config->tenants.memory, has));
		return -EINVAL;
	}
	if (count > TENANTS_MAX) {
		log_error("tenants.create and the memory of users (users.file) make %u tenants, "
			  "with " TENANT_DEFAULT ", and %d is the most",
			  count, TENANTS_MAX);
		return -EINVAL;
	}
	return 0;
}

const struct user *user_tenants_holder(const struct users *users, const char *name, bool owns)
{
	for (size_t i = 0; users && i < users->count; i++)
		if (!strcmp(users->list[i].tenant, name) && (!owns || users->list[i].memory))
			return &users->list[i];
	return NULL;
}
