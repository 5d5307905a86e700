/* SPDX-License-Identifier: MIT */
/* Names the files of tenants' stores, and finds those of an earlier process. */
#include "server/control/kept_tenants.h"

#include <stdio.h>
#include <string.h>

#include "server/config/config.h"
#include "server/users/users.h"

const char *kept_tenant_file(char file[KEPT_FILE_BYTES], const struct worker_env *env,
			     const char *tenant, bool is_new)
{
	if (!*env->config->memory.file)
		return NULL;
	if (!strcmp(tenant, TENANT_DEFAULT))
		return env->config->memory.file;
	snprintf(file, KEPT_FILE_BYTES, "%s%s%s%s", env->config->memory.file, KEPT_MARK, tenant,
		 is_new ? KEPT_NEW : "");
	return file;
}

struct search {
	struct kept_tenants *kept;
	const char *prefix;
};

static void note(const char *name, uint64_t bytes, void *context)
{
	const struct search *search = context;
	struct kept_tenants *kept = search->kept;
	char unfinished[KEPT_FILE_BYTES];

	if (strstr(name, KEPT_NEW)) {
		snprintf(unfinished, sizeof(unfinished), "%s%s", search->prefix, name);
		keep_remove(unfinished);
	}
	if (kept->count == TENANTS_MAX || !tenant_name_valid(name))
		return;
	snprintf(kept->list[kept->count].name, sizeof(kept->list[0].name), "%s", name);
	kept->list[kept->count++].bytes = bytes;
}

void kept_tenants_find(struct kept_tenants *kept, const struct worker_env *env)
{
	char prefix[KEPT_FILE_BYTES];
	struct search search = { .kept = kept, .prefix = prefix };

	kept->count = kept->next = 0;
	if (kept_tenant_file(prefix, env, "", false))
		keep_list(prefix, note, &search);
}

void kept_tenant_remove(const struct worker_env *env, const char *tenant, bool is_new)
{
	char path[KEPT_FILE_BYTES];
	const char *file = kept_tenant_file(path, env, tenant, is_new);

	if (file && file == path)
		keep_remove(file);
}

void kept_tenant_replace(const struct worker_env *env, const char *tenant)
{
	char file[KEPT_FILE_BYTES], to[KEPT_FILE_BYTES];

	if (kept_tenant_file(file, env, tenant, true))
		keep_rename(file, kept_tenant_file(to, env, tenant, false));
}
