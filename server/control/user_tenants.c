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
#include "server/worker/tenant.h"

static_assert(USER_MEMORY_MIN == OPTION_TENANT_MIN && USER_MEMORY_MAX == REGION_BYTES_MAX,
	      "a user's memory is that of a tenant");

int user_tenants_fit(const struct users *users, const struct config *config)
{
	char needed[PARSE_FORMAT_MAX], has[PARSE_FORMAT_MAX];
	unsigned int count = 1; /* `default` */
	uint64_t bytes = 0;

	for (size_t i = 0; users && i < users->count; i++) {
		bytes += users->list[i].memory;
		count += users->list[i].memory != 0;
	}
	if (bytes > config->tenants.memory) {
		log_error("users.file = %s: the tenants of users need %s of memory, and "
			  "tenants.memory is %s: raise that, or lower the sizes",
			  config->users.file, show_size(bytes, needed),
			  show_size(config->tenants.memory, has));
		return -EINVAL;
	}
	if (count > TENANTS_MAX) {
		log_error("users.file = %s: there are %u tenants with " TENANT_DEFAULT
			  ", and %d is the maximum",
			  config->users.file, count, TENANTS_MAX);
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
