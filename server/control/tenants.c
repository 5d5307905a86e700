/* SPDX-License-Identifier: MIT */
/* Keeps the list of tenants, and makes, registers and releases their stores. */
#include "server/control/tenants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/parse.h"
#include "server/config/config.h"
#include "server/control/kept_tenants.h"
#include "server/memcached/marks.h"
#include "server/fleet/fleet_stores.h"
#include "server/worker/budget.h"
#include "server/worker/worker_loop.h"

/* A store of another size has the same number of keys for each byte. */
static uint32_t level_for(const struct worker_env *env, uint64_t bytes)
{
	const struct config *config = env->config;
	double share = (double)bytes / (double)config_memory_max(config);

	return index_level((uint64_t)((double)config->index.keys * share));
}

uint64_t tenant_value_max(const struct worker_env *env, uint64_t bytes)
{
	uint64_t fits = config_value_fits(env->config, bytes, level_for(env, bytes));

	return env->store_options->value_max < fits ? env->store_options->value_max : fits;
}

/* @file: of the store, if it is kept. */
static struct store_options options_for(const struct worker_env *env, bool is_default,
					const char *file, uint64_t bytes)
{
	struct store_options options = *env->store_options;

	options.cancel = env->cancel;
	if (is_default)
		return options;
	options.file = file;
	options.pauses = true;
	options.bytes = bytes;
	options.bytes_max = 0;
	options.bytes_beside = env->workers * sizeof(struct tenant_part);
	options.level = level_for(env, bytes);
	options.value_max = tenant_value_max(env, bytes);
	return options;
}

static bool is_default(const struct tenant_store *store, const struct worker_env *env)
{
	return store->store == env->store;
}

/* The parts' memory stays: store_destroy() reads what they counted. */
static void parts_release(struct tenant_store *store)
{
	for (unsigned int i = 0; i < WORKERS_MAX && store->parts[i]; i++)
		store_thread_release(&store->parts[i]->thread);
}

/* @own: the part of `default`, which a worker owns; NULL for other tenants. */
static int part_create(struct tenant_store *to, struct tenant *tenant, unsigned int number,
		       struct tenant_part *own)
{
	struct tenant_part *part = own ? own : calloc(1, sizeof(*part));

	if (!part)
		return -ENOMEM;
	to->parts[number] = part;
	part->tenant = tenant;
	return part_init(part, to->store, number);
}

static int parts_create(struct tenant_store *to, struct tenant *tenant,
			const struct worker_env *env)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < env->workers; i++)
		err = part_create(to, tenant, i, is_default(to, env) ? to->parts[i] : NULL);
	return err;
}

/* TENANT-1. A device that is away has no protection domain. */
static bool is_served(const struct tenant_store *store, const struct nic *nic,
		      const struct worker_env *env)
{
	return nic->pd && (nic->windows || is_default(store, env));
}

static int extents_register(struct tenant_store *to, const struct worker_env *env, uint32_t extents)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < env->nic_count; i++)
		if (is_served(to, &env->nics[i], env))
			err = nic_register(&env->nics[i], &to->store->region, extents, to->mrs[i]);
	return err;
}

static int store_register(struct tenant_store *to, const struct worker_env *env)
{
	uint32_t extents = to->store->region.extent_count;

	atomic_store_explicit(&to->extents, extents, memory_order_relaxed);
	return extents_register(to, env, extents);
}

void tenant_store_cut(struct tenant_store *store, const struct worker_env *env, uint32_t extents)
{
	for (unsigned int i = 0; i < env->nic_count; i++)
		nic_deregister(&env->nics[i], extents, store->mrs[i]);
	region_cut(&store->store->region);
}

int tenant_store_extend(struct tenant_store *store, const struct worker_env *env, uint32_t extents,
			const _Atomic bool *cancel)
{
	struct store_options options = options_for(env, true, NULL, 0);
	int err;

	/* Clients are served meanwhile. */
	options.pauses = true;
	options.cancel = cancel;
	err = region_extend(&store->store->region, &options, extents);
	if (err)
		return err;
	err = extents_register(store, env, extents);
	if (err)
		tenant_store_cut(store, env, store->extents);
	return err;
}

/* A released store is freed, except that of `default`. */
static void store_forget(struct tenant_store *store, const struct worker_env *env)
{
	if (is_default(store, env))
		return;
	for (unsigned int i = 0; i < WORKERS_MAX; i++)
		free(store->parts[i]);
	free(store->store);
	*store = (struct tenant_store){ 0 };
}

int tenant_store_create(struct tenant_store *to, struct tenant *tenant,
			const struct worker_env *env, uint64_t bytes, bool start)
{
	struct store_options options;
	char file[KEPT_FILE_BYTES];
	int err;

	if (!to->store)
		to->store = calloc(1, sizeof(*to->store));
	if (!to->store)
		return -ENOMEM;
	/* One that is not started yet is made beside the tenant's store. */
	options = options_for(env, is_default(to, env),
			      kept_tenant_file(file, env, tenant->name, !start), bytes);
	err = store_create(to->store, &options);
	if (err) {
		store_forget(to, env);
		return err;
	}
	/* One clock for all, so that a worker reads it once: conn_thread(). */
	store_set_clock(to->store, env->store->table.clock_base);
	err = parts_create(to, tenant, env);
	if (!err)
		err = store_register(to, env);
	if (!err && start)
		err = store_start(to->store, NULL);
	if (err)
		tenant_store_destroy(to, env);
	else if (start && env->fleet_stores)
		fleet_stores_add(env->fleet_stores, to->store, tenant->name);
	return err;
}

/* The largest value fits, also in a region that was larger at the start. */
static uint64_t budget_share(const struct tenant *tenant, const struct worker_env *env)
{
	const struct region *region = &tenant->now.store->region;
	uint64_t value = item_bytes_for(KEY_MAX, region->geometry.value_max, 0);
	uint64_t share = config_pull_bytes(env->config, stat_read(&region->bytes),
					   region->geometry.level_base);

	return share > value ? share : value;
}

void tenant_budgets_init(struct tenant *tenant, const struct worker_env *env)
{
	const uint64_t share = budget_share(tenant, env);

	budget_init(&tenant->pull_budget, share);
	budget_init(&tenant->build_budget, share);
}

void tenant_budgets_renew(struct tenant *tenant, const struct worker_env *env)
{
	const uint64_t share = budget_share(tenant, env);

	budget_set_share(&tenant->pull_budget, share);
	budget_set_share(&tenant->build_budget, share);
}

static void tenant_store_stop(struct tenant_store *store, const struct worker_env *env)
{
	if (env->fleet_stores)
		fleet_stores_remove(env->fleet_stores, store->store);
	store_stop(store->store);
}

void tenant_store_destroy(struct tenant_store *store, const struct worker_env *env)
{
	if (!store->store)
		return;
	tenant_store_stop(store, env);
	parts_release(store);
	for (unsigned int i = 0; i < env->nic_count; i++)
		nic_deregister(&env->nics[i], 0, store->mrs[i]);
	store_destroy(store->store);
	store_forget(store, env);
}

void tenant_store_drop(struct tenant *tenant, const struct worker_env *env)
{
	tenant_store_destroy(&tenant->now, env);
	kept_tenant_remove(env, tenant->name, false);
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
	char wanted[PARSE_FORMAT_MAX], memory[PARSE_FORMAT_MAX], unused[PARSE_FORMAT_MAX];

	if (bytes <= left) {
		tenants->used += bytes;
		return true;
	}
	snprintf(why, size,
		 "%s wanted, %s of tenants.memory (%s) are free: drop a tenant, or raise "
		 "tenants.memory",
		 show_size(bytes, wanted), show_size(left, unused),
		 show_size(tenants->memory, memory));
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
		snprintf(why, size, "there is already a tenant %s", name);
	else if (!place)
		snprintf(why, size, "there are already %d tenants, the maximum: drop one",
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
	tenants_lock(tenants);
	*place = tenant;
	tenants_unlock(tenants);
	return tenant;
}

static void tenant_free(struct tenant *tenant)
{
	if (tenant)
		marks_destroy(atomic_load_explicit(&tenant->marks, memory_order_relaxed));
	free(tenant);
}

void tenants_remove(struct tenants *tenants, struct tenant *tenant)
{
	tenants_unreserve(tenants, tenant->bytes);
	tenants_lock(tenants);
	*place_find(tenants, tenant) = NULL;
	tenants_unlock(tenants);
	tenant_free(tenant);
}

static int add_default(struct tenants *tenants, struct worker *workers)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant) {
		log_error("no memory for the list of tenants");
		return -ENOMEM;
	}
	strcpy(tenant->name, TENANT_DEFAULT);
	tenant->state = TENANT_WORKING;
	tenant->bytes = tenants->env->config->memory.size;
	tenant->now.store = tenants->env->store;
	for (unsigned int i = 0; i < tenants->env->workers; i++)
		tenant->now.parts[i] = &workers[i].part;
	tenants->list[0] = tenant;
	return 0;
}

int tenants_init(struct tenants *tenants, const struct worker_env *env, struct worker *workers)
{
	*tenants = (struct tenants){ .env = env, .memory = env->config->tenants.memory };
	pthread_mutex_init(&tenants->lock, NULL);
	return add_default(tenants, workers);
}

void tenants_release(struct tenants *tenants)
{
	struct tenant *tenant;

	for (unsigned int i = 0; i < TENANTS_MAX; i++) {
		tenant = tenants->list[i];
		if (tenant)
			tenant_store_destroy(&tenant->now, tenants->env);
		tenant_free(tenant);
		tenants->list[i] = NULL;
	}
}

void tenants_stop(struct tenants *tenants)
{
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		if (tenants->list[i] && tenants->list[i]->now.store)
			tenant_store_stop(&tenants->list[i]->now, tenants->env);
}

static void tenant_tick(struct tenant *tenant)
{
	uint32_t youngest_s;

	if (store_tick(tenant->now.store, &youngest_s))
		log_warn(
			"tenant %s: an item was evicted %" PRIu32 " s after it was stored or used "
			"last: more memory would keep items longer (evictions_1m in `kvctl stats`)",
			tenant->name, youngest_s);
}

void tenants_tick(struct tenants *tenants)
{
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		if (tenants->list[i] && tenants->list[i]->state != TENANT_WORKING)
			tenant_tick(tenants->list[i]);
}

int tenants_add_worker(struct tenants *tenants, struct worker *worker)
{
	struct tenant *tenant;
	int err = 0;

	for (unsigned int i = 0; !err && i < TENANTS_MAX; i++) {
		tenant = tenants->list[i];
		if (tenant && tenant->now.store && !tenant->now.parts[worker->number])
			err = part_create(&tenant->now, tenant, worker->number,
					  is_default(&tenant->now, tenants->env) ? &worker->part :
										   NULL);
	}
	return err;
}

void tenants_rest_worker(struct tenants *tenants, const struct worker *worker)
{
	struct tenant_part *part;

	for (unsigned int i = 0; i < TENANTS_MAX; i++) {
		if (!tenants->list[i] || !tenants->list[i]->now.store)
			continue;
		part = tenants->list[i]->now.parts[worker->number];
		if (!part)
			continue;
		store_thread_rest(&part->thread);
		part->attached = false;
	}
}

int tenants_register(struct tenants *tenants, unsigned int number)
{
	struct nic *nic = &tenants->env->nics[number];
	struct tenant_store *store;
	int err = 0;

	for (unsigned int i = 0; !err && i < TENANTS_MAX; i++) {
		if (!tenants->list[i] || !tenants->list[i]->now.store)
			continue;
		store = &tenants->list[i]->now;
		if (is_served(store, nic, tenants->env))
			err = nic_register(nic, &store->store->region, store->extents,
					   store->mrs[number]);
	}
	return err;
}

void tenants_deregister(struct tenants *tenants, unsigned int number)
{
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		if (tenants->list[i])
			nic_deregister(&tenants->env->nics[number], 0,
				       tenants->list[i]->now.mrs[number]);
}
