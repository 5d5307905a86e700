/* SPDX-License-Identifier: MIT */
/* Keeps the list of tenants, and makes, registers and releases their stores. */
#include "server/net/tenants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "server/config/config.h"
#include "server/config/tenant_list.h"
#include "server/net/worker_loop.h"

/* A store of another size has as many keys for each byte, and values that fit it. */
static struct store_options options_for(const struct worker_env *env, uint64_t bytes)
{
	const struct config *config = env->config;
	struct store_options options = *env->store_options;
	double share = (double)bytes / (double)config->memory.size;

	options.bytes = bytes;
	options.bytes_beside = env->workers * sizeof(struct tenant_part);
	options.level = index_level((uint64_t)((double)config->index.keys * share));
	if (options.value_max > bytes / TENANT_VALUE_SHARE)
		options.value_max = bytes / TENANT_VALUE_SHARE;
	return options;
}

static void parts_release(struct tenant_store *store, const struct worker_env *env)
{
	for (unsigned int i = 0; store->parts_memory && i < env->workers; i++)
		store_thread_release(&store->parts_memory[i].thread);
	free(store->parts_memory);
	store->parts_memory = NULL;
}

static int parts_create(struct tenant_store *to, struct tenant *tenant,
			const struct worker_env *env)
{
	int err = 0;

	to->parts_memory = calloc(env->workers, sizeof(*to->parts_memory));
	if (!to->parts_memory)
		return -ENOMEM;
	for (unsigned int i = 0; !err && i < env->workers; i++) {
		to->parts[i] = &to->parts_memory[i];
		to->parts[i]->tenant = tenant;
		err = part_init(to->parts[i], to->store, env, i);
	}
	return err;
}

/* N1. One that is away has no protection domain. */
static bool serves_tenants(const struct nic *nic)
{
	return nic->pd && nic->windows;
}

static int store_register(struct tenant_store *to, const struct worker_env *env)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < env->nic_count; i++)
		if (serves_tenants(&env->nics[i]))
			err = nic_register(&env->nics[i], &to->store->region, &to->mrs[i]);
	return err;
}

int tenant_store_create(struct tenant_store *to, struct tenant *tenant,
			const struct worker_env *env, uint64_t bytes, bool start)
{
	const struct store_options options = options_for(env, bytes);
	int err;

	*to = (struct tenant_store){ .store = calloc(1, sizeof(*to->store)) };
	if (!to->store)
		return -ENOMEM;
	err = store_create(to->store, &options);
	if (err) {
		free(to->store);
		to->store = NULL;
		return err;
	}
	/* One clock for all, so that a worker reads it once: server/net/conn_thread.h. */
	to->store->table.clock_base = env->store->table.clock_base;
	err = parts_create(to, tenant, env);
	if (!err)
		err = store_register(to, env);
	if (!err && start)
		err = store_start(to->store);
	if (err)
		tenant_store_destroy(to, env);
	return err;
}

void tenant_store_destroy(struct tenant_store *store, const struct worker_env *env)
{
	if (!store->store)
		return;
	store_stop(store->store);
	parts_release(store, env);
	for (unsigned int i = 0; i < env->nic_count; i++)
		if (store->mrs[i])
			env->nics[i].dev->ops->dereg_mr(store->mrs[i]);
	store_destroy(store->store);
	free(store->store);
	*store = (struct tenant_store){ 0 };
}

struct tenant *tenants_find(const struct tenants *tenants, const char *name)
{
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		if (tenants->list[i] && !strcmp(tenants->list[i]->name, name))
			return tenants->list[i];
	return NULL;
}

static struct tenant **place_find(struct tenants *tenants, const struct tenant *tenant)
{
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		if (tenants->list[i] == tenant)
			return &tenants->list[i];
	return NULL;
}

bool tenants_reserve(struct tenants *tenants, uint64_t bytes, char *why, size_t size)
{
	uint64_t left = tenants->memory - tenants->used;

	if (bytes <= left) {
		tenants->used += bytes;
		return true;
	}
	snprintf(why, size,
		 "%llu bytes are wanted, and of the %llu of tenants.memory %llu are left: drop a "
		 "tenant, or raise that",
		 (unsigned long long)bytes, (unsigned long long)tenants->memory,
		 (unsigned long long)left);
	return false;
}

void tenants_unreserve(struct tenants *tenants, uint64_t bytes)
{
	tenants->used -= bytes;
}

struct tenant *tenants_add(struct tenants *tenants, const char *name, uint64_t bytes, char *why,
			   size_t size)
{
	struct tenant **place = place_find(tenants, NULL);
	struct tenant *tenant = NULL;

	if (tenants_find(tenants, name))
		snprintf(why, size, "there is a tenant %s already", name);
	else if (!place)
		snprintf(why, size, "there are %d tenants, which is the most: drop one",
			 TENANTS_MAX);
	else if (tenants_reserve(tenants, bytes, why, size)) {
		tenant = calloc(1, sizeof(*tenant));
		if (!tenant) {
			snprintf(why, size, "no memory");
			tenants_unreserve(tenants, bytes);
		}
	}
	if (!tenant)
		return NULL;
	snprintf(tenant->name, sizeof(tenant->name), "%s", name);
	tenant->state = TENANT_WORKING;
	tenant->bytes = bytes;
	*place = tenant;
	return tenant;
}

void tenants_remove(struct tenants *tenants, struct tenant *tenant)
{
	tenants_unreserve(tenants, tenant->bytes);
	*place_find(tenants, tenant) = NULL;
	free(tenant);
}

static int add_default(struct tenants *tenants, struct worker *workers)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant) {
		log_error("no memory for the list of tenants");
		return -ENOMEM;
	}
	strcpy(tenant->name, TENANT_DEFAULT);
	tenant->state = TENANT_SERVES;
	tenant->bytes = tenants->env->config->memory.size;
	tenant->now.store = tenants->env->store;
	for (unsigned int i = 0; i < tenants->env->workers; i++) {
		tenant->now.parts[i] = &workers[i].part;
		workers[i].part.tenant = tenant;
	}
	tenants->list[0] = tenant;
	return 0;
}

/* At the start: no other thread waits for it. */
static int add_served(struct tenants *tenants, const char *name, uint64_t bytes)
{
	struct tenant *tenant;
	struct parse_why why;
	int err;

	tenant = tenants_add(tenants, name, bytes, why.text, sizeof(why.text));
	if (!tenant) {
		log_error("tenant %s: %s", name, why.text);
		return -ENOMEM;
	}
	err = tenant_store_create(&tenant->now, tenant, tenants->env, bytes, false);
	if (err) {
		tenants_remove(tenants, tenant);
		log_error("tenant %s: can't be created: %s", name, strerror(-err));
		return err;
	}
	tenant->state = TENANT_SERVES;
	log_notice("tenant %s: %llu bytes", name, (unsigned long long)bytes);
	return 0;
}

static int add_configured(struct tenants *tenants)
{
	const char *at = tenants->env->config->tenants.create;
	struct tenant_entry entry;
	struct parse_why why;
	int err = 0;

	while (!err && *at) {
		err = tenant_list_next(&at, &entry, &why);
		if (!err)
			err = add_served(tenants, entry.name, entry.bytes);
	}
	return err;
}

int tenants_add_users(struct tenants *tenants, const struct users *users)
{
	const struct user *user;
	int err = 0;

	for (size_t i = 0; !err && users && i < users->count; i++) {
		user = &users->list[i];
		if (user->memory && !tenants_find(tenants, user->name))
			err = add_served(tenants, user->name, user->memory);
	}
	return err;
}

int tenants_init(struct tenants *tenants, const struct worker_env *env, struct worker *workers)
{
	int err;

	*tenants = (struct tenants){ .env = env, .memory = env->config->tenants.memory };
	err = add_default(tenants, workers);
	return err ? err : add_configured(tenants);
}

void tenants_release(struct tenants *tenants)
{
	struct tenant *tenant;

	for (unsigned int i = 0; i < TENANTS_MAX; i++) {
		tenant = tenants->list[i];
		if (tenant && tenant->now.parts_memory)
			tenant_store_destroy(&tenant->now, tenants->env);
		free(tenant);
		tenants->list[i] = NULL;
	}
}

int tenants_start(struct tenants *tenants)
{
	int err = 0;

	for (unsigned int i = 1; !err && i < TENANTS_MAX; i++)
		if (tenants->list[i])
			err = store_start(tenants->list[i]->now.store);
	return err;
}

void tenants_stop(struct tenants *tenants)
{
	for (unsigned int i = 1; i < TENANTS_MAX; i++)
		if (tenants->list[i] && tenants->list[i]->now.store)
			store_stop(tenants->list[i]->now.store);
}

void tenants_tick(struct tenants *tenants)
{
	for (unsigned int i = 1; i < TENANTS_MAX; i++)
		if (tenants->list[i] && tenants->list[i]->state != TENANT_WORKING)
			store_tick(tenants->list[i]->now.store);
}

int tenants_register(struct tenants *tenants, unsigned int number)
{
	struct nic *nic = &tenants->env->nics[number];
	struct tenant_store *store;
	int err = 0;

	for (unsigned int i = 1; !err && i < TENANTS_MAX; i++) {
		if (!tenants->list[i] || !tenants->list[i]->now.store || !serves_tenants(nic))
			continue;
		store = &tenants->list[i]->now;
		err = nic_register(nic, &store->store->region, &store->mrs[number]);
	}
	return err;
}

void tenants_deregister(struct tenants *tenants, unsigned int number)
{
	struct tenant_store *store;

	for (unsigned int i = 1; i < TENANTS_MAX; i++) {
		if (!tenants->list[i])
			continue;
		store = &tenants->list[i]->now;
		if (store->mrs[number])
			tenants->env->nics[number].dev->ops->dereg_mr(store->mrs[number]);
		store->mrs[number] = NULL;
	}
}
