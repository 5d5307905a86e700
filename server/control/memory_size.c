/* SPDX-License-Identifier: MIT */
/* Changes the number of extents of the region, step by step. */
#include "server/control/memory_size.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "server/config/config.h"
#include "server/control/conn_manager.h"
#include "server/worker/audit.h"

#define WHY_MAX 256
/* Emptying extents takes seconds; what takes longer waits for somebody. */
#define CLOSING_WARN_NS 60000000000u

static struct tenant *default_tenant(const struct net *net)
{
	return net->tenants.list[0];
}

static struct region *region_of(const struct net *net)
{
	return &net->env.store->region;
}

bool memory_size_check(const struct net *net, uint64_t bytes, char *why, size_t size)
{
	const struct config *config = net->env.config;
	const struct region *region = region_of(net);
	uint64_t value_max = region->geometry.value_max;
	char text[PARSE_FORMAT_MAX], most[PARSE_FORMAT_MAX];

	/* SIGHUP takes memory.size over, but not the memory.max of the same file. */
	if (!bytes || bytes % region->extent_bytes || bytes > region->bytes_max) {
		snprintf(why, size,
			 "it has to be a multiple of %s, and %s at most, until kvd is restarted",
			 show_size(region->extent_bytes, text), show_size(region->bytes_max, most));
		return false;
	}

	/* limits.max_value = auto was resolved at the start. */
	if (value_max > bytes / 4) {
		snprintf(why, size,
			 "memory.size has to be four times the largest value, %s: lower "
			 "limits.max_value and restart kvd",
			 show_size(value_max, text));
		return false;
	}
	if (bytes > stat_read(&region->bytes) && net_has_rdma(net) &&
	    nic_check_memlock(config, bytes + config->tenants.memory)) {
		snprintf(why, size,
			 "kvd may not lock that much memory: its log says what to change");
		return false;
	}
	return true;
}

/* Tells how the change ended. */
static void change_end(struct net *net, const char *why)
{
	struct tenant *tenant = default_tenant(net);
	char size[PARSE_FORMAT_MAX], wanted[PARSE_FORMAT_MAX];

	net->memory.step = MEMORY_STAYS;
	tenant->bytes = stat_read(&region_of(net)->bytes);
	show_size(tenant->bytes, size);
	if (why) {
		log_error("memory.size stays %s, and does not become %s: %s", size,
			  show_size(net->memory.target * region_of(net)->extent_bytes, wanted),
			  why);
		audit_admin(NULL, "resize memory", size, why);
		return;
	}
	log_notice("memory.size is %s now", size);
	audit_admin(NULL, "resize memory", size, "ok");
}

static uint32_t wanted_extents(const struct net *net)
{
	return (uint32_t)(net->env.config->memory.size / region_of(net)->extent_bytes);
}

/* A size that was set meanwhile stays, and is tried next. */
static uint64_t change_failed(struct net *net, const char *why)
{
	change_end(net, why);
	return wanted_extents(net) == net->memory.target ? default_tenant(net)->bytes : 0;
}

static const char *failure(int err)
{
	return err == -ENOSPC ? "not all items fit, and nothing may be evicted "
				"(memory.eviction = none), or the index needs more than half" :
	       err == -ENOMEM ? "there is not enough memory: the lines before say what is missing" :
				strerror(-err);
}

static bool job_begin(struct net *net, enum tenant_job_kind kind, int *err)
{
	const struct tenant_job job = {
		.kind = kind,
		.tenant = default_tenant(net),
		.extents = net->memory.target,
	};

	*err = tenant_jobs_begin(&net->jobs, &job);
	return !*err;
}

static uint64_t grow_begin(struct net *net)
{
	int err;

	if (!job_begin(net, TENANT_JOB_EXTEND, &err))
		return change_failed(net, failure(err));
	net->memory.step = MEMORY_EXTENDING;
	return 0;
}

static uint64_t shrink_begin(struct net *net)
{
	int err = store_close_extents(net->env.store, net->memory.target);

	if (err == -EBUSY)
		return 0;
	if (err)
		return change_failed(net, failure(err));
	net->memory.step = MEMORY_CLOSING;
	net->memory.warn_ns = clock_ns() + CLOSING_WARN_NS;
	return 0;
}

/* The new extents exist. The windows are first: workers bind what they see of @extents. */
static void grow_end(struct net *net)
{
	struct tenant *tenant = default_tenant(net);

	conn_manager_grant(net, tenant, net->memory.target);
	atomic_store_explicit(&tenant->now.extents, net->memory.target, memory_order_release);
	store_open_extents(net->env.store, net->memory.target);
	tenant_budgets_renew(tenant, &net->env);
	change_end(net, NULL);
}

static uint64_t extending(struct net *net)
{
	if (net->jobs.runs) {
		if (wanted_extents(net) != net->memory.target)
			tenant_job_cancel(&net->jobs);
		return 0;
	}
	if (net->jobs.job.err == -ECANCELED) {
		change_end(net, "it was changed again");
		return 0;
	}
	if (net->jobs.job.err)
		return change_failed(net, failure(net->jobs.job.err));
	grow_end(net);
	return 0;
}

/* Every minute. */
static void closing_warn(struct net *net)
{
	char size[PARSE_FORMAT_MAX], wanted[PARSE_FORMAT_MAX];
	uint64_t now_ns = clock_ns();

	if (now_ns < net->memory.warn_ns)
		return;
	net->memory.warn_ns = now_ns + CLOSING_WARN_NS;
	log_warn("memory.size is still %s, and not %s: in the memory to be given back values are "
		 "being written or sent; setting memory.size to %s ends the change",
		 show_size(stat_read(&region_of(net)->bytes), size),
		 show_size(net->memory.target * region_of(net)->extent_bytes, wanted), size);
}

static uint64_t closing(struct net *net)
{
	struct tenant *tenant = default_tenant(net);
	char why[WHY_MAX];

	switch (store_extents_state(net->env.store, why, sizeof(why))) {
	case EXTENTS_CLOSING:
		if (wanted_extents(net) != net->memory.target)
			store_close_cancel(net->env.store);
		closing_warn(net);
		return 0;
	case EXTENTS_IDLE:
		change_end(net, "it was changed again");
		return 0;
	case EXTENTS_FAILED:
		store_close_cancel(net->env.store);
		return change_failed(net, why);
	case EXTENTS_CLOSED:
		break;
	}
	atomic_store_explicit(&tenant->now.extents, net->memory.target, memory_order_release);
	net->memory.step = MEMORY_LEAVING;
	return 0;
}

static uint64_t leaving(struct net *net)
{
	int err;

	if (conn_manager_close_extents(net, default_tenant(net), net->memory.target) ||
	    net_job_runs(net))
		return 0;
	/* Without a thread for the job now, it is tried again. */
	if (job_begin(net, TENANT_JOB_CUT, &err))
		net->memory.step = MEMORY_CUTTING;
	return 0;
}

static uint64_t cutting(struct net *net)
{
	if (net->jobs.runs)
		return 0;
	tenant_budgets_renew(default_tenant(net), &net->env);
	change_end(net, NULL);
	return 0;
}

/* Whether no tenant's job runs or begins now, and no device comes or goes. */
static bool may_begin(const struct net *net)
{
	return !net->stopping && !net->starting && !net->start_err && !net_job_runs(net) &&
	       !net_devices_change(net);
}

uint64_t memory_size_run(struct net *net)
{
	const struct region *region = region_of(net);
	char why[WHY_MAX];
	uint32_t wanted, now;

	if (!net->env.config->memory.max || net->starting)
		return 0;
	wanted = wanted_extents(net);
	now = region_extents(region);
	switch (net->memory.step) {
	case MEMORY_STAYS:
		if (wanted == now || !may_begin(net))
			return 0;
		net->memory.target = wanted;
		if (!memory_size_check(net, net->env.config->memory.size, why, sizeof(why)))
			return change_failed(net, why);
		return wanted > now ? grow_begin(net) : shrink_begin(net);
	case MEMORY_EXTENDING:
		return extending(net);
	case MEMORY_CLOSING:
		return closing(net);
	case MEMORY_LEAVING:
		return leaving(net);
	case MEMORY_CUTTING:
		return cutting(net);
	}
	return 0;
}
