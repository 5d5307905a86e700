/* SPDX-License-Identifier: MIT */
/* Creates, resizes and destroys the stores of tenants, in a thread of its own. */
#include "server/control/tenant_job.h"

#include <errno.h>
#include <string.h>

#include "common/util/log.h"
#include "server/control/kept_tenants.h"
#include "common/util/thread.h"
#include "server/fleet/fleet_stores.h"

/*
 * The new store is made beside the old one, which goes on if that fails. No connection is in the
 * tenant, so no other thread works on either.
 */
static int resize(struct tenant_jobs *jobs, struct tenant *tenant, uint64_t bytes)
{
	struct store_thread *threads[WORKERS_MAX];
	struct tenant_store made = { 0 };
	int err;

	kept_tenant_remove(jobs->env, tenant->name, true);
	err = tenant_store_create(&made, tenant, jobs->env, bytes, false);
	if (err)
		return err;
	maintenance_stop(&tenant->now.store->maintenance);
	for (unsigned int i = 0; i < jobs->env->workers; i++)
		threads[i] = &made.parts[i]->thread;
	err = resize_fill(threads, jobs->env->workers, &tenant->now.store->table, &jobs->cancels);
	if (!err)
		err = store_start(made.store, tenant->now.store);
	if (err) {
		tenant_store_destroy(&made, jobs->env);
		kept_tenant_remove(jobs->env, tenant->name, true);
		/* maintenance_start() logs its errors. */
		(void)maintenance_start(&tenant->now.store->maintenance);
		return err;
	}
	if (jobs->env->fleet_stores)
		fleet_stores_replace(jobs->env->fleet_stores, tenant->now.store, made.store);
	tenant_store_destroy(&tenant->now, jobs->env);
	kept_tenant_replace(jobs->env, tenant->name);
	tenant->now = made;
	tenant_budgets_init(tenant, jobs->env);
	return 0;
}

static int create(struct tenant_jobs *jobs, struct tenant *tenant, uint64_t bytes)
{
	int err = tenant_store_create(&tenant->now, tenant, jobs->env, bytes, true);

	if (!err)
		tenant_budgets_init(tenant, jobs->env);
	return err;
}

static int job_do(struct tenant_jobs *jobs, const struct tenant_job *job)
{
	switch (job->kind) {
	case TENANT_JOB_CREATE:
		return create(jobs, job->tenant, job->bytes);
	case TENANT_JOB_RESIZE:
		return resize(jobs, job->tenant, job->bytes);
	case TENANT_JOB_DESTROY:
		tenant_store_drop(job->tenant, jobs->env);
		break;
	case TENANT_JOB_EXTEND:
		return tenant_store_extend(&job->tenant->now, jobs->env, job->extents,
					   &jobs->job_cancels);
	case TENANT_JOB_CUT:
		tenant_store_cut(&job->tenant->now, jobs->env, job->extents);
		break;
	}
	return 0;
}

/* Waits for a job. False: the thread must end. */
static bool job_wait(struct tenant_jobs *jobs)
{
	bool stops;

	pthread_mutex_lock(&jobs->lock);
	while (!jobs->has_job && !jobs->stops)
		pthread_cond_wait(&jobs->changed, &jobs->lock);
	stops = jobs->stops;
	jobs->has_job = false;
	pthread_mutex_unlock(&jobs->lock);
	return !stops;
}

static void *jobs_run(void *arg)
{
	struct tenant_jobs *jobs = arg;

	/* Not an RCU reader: this thread works on stores that no other thread uses. */
	while (job_wait(jobs)) {
		jobs->job.err = job_do(jobs, &jobs->job);
		mailbox_send(jobs->env->control, &jobs->note);
	}
	return NULL;
}

int tenant_jobs_init(struct tenant_jobs *jobs, const struct worker_env *env)
{
	int err;

	*jobs = (struct tenant_jobs){ .note.kind = NOTE_TENANT_DONE };
	err = -pthread_mutex_init(&jobs->lock, NULL);
	if (err)
		return err;
	err = -pthread_cond_init(&jobs->changed, NULL);
	if (err)
		pthread_mutex_destroy(&jobs->lock);
	else
		jobs->env = env;
	return err;
}

static int jobs_start(struct tenant_jobs *jobs)
{
	int err = thread_start(&jobs->thread, "tenants", jobs_run, jobs);

	if (err)
		log_error("tenants: can't start their thread: %s: " ADVICE_THREADS, strerror(-err));
	jobs->started = !err;
	return err;
}

int tenant_jobs_begin(struct tenant_jobs *jobs, const struct tenant_job *job)
{
	int err = jobs->started ? 0 : jobs_start(jobs);

	if (err)
		return err;
	jobs->runs = true;
	atomic_store_explicit(&jobs->job_cancels, jobs->cancels, memory_order_relaxed);
	pthread_mutex_lock(&jobs->lock);
	jobs->job = *job;
	jobs->has_job = true;
	pthread_cond_signal(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
	return 0;
}

void tenant_jobs_cancel(struct tenant_jobs *jobs)
{
	atomic_store_explicit(&jobs->cancels, true, memory_order_relaxed);
	tenant_job_cancel(jobs);
}

void tenant_job_cancel(struct tenant_jobs *jobs)
{
	atomic_store_explicit(&jobs->job_cancels, true, memory_order_relaxed);
}

void tenant_jobs_stop(struct tenant_jobs *jobs)
{
	if (!jobs->started)
		return;
	tenant_jobs_cancel(jobs);
	pthread_mutex_lock(&jobs->lock);
	jobs->stops = true;
	pthread_cond_signal(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
	pthread_join(jobs->thread, NULL);
	jobs->started = false;
}

void tenant_jobs_release(struct tenant_jobs *jobs)
{
	if (!jobs->env)
		return;
	pthread_cond_destroy(&jobs->changed);
	pthread_mutex_destroy(&jobs->lock);
	jobs->env = NULL;
}
