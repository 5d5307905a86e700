/* SPDX-License-Identifier: MIT */
/*
 * Jobs: what takes long about a tenant, done by a thread of its own, one after the other
 * (TENANT-3): memory is allocated and filled, registered with the devices, and released. While a
 * job runs, the tenant is that thread's, and no device is set up or put away
 * (server/control/recovery.c).
 */
#ifndef KVD_SERVER_CONTROL_TENANT_JOB_H
#define KVD_SERVER_CONTROL_TENANT_JOB_H

#include <pthread.h>

#include "server/control/tenants.h"

enum tenant_job_kind { TENANT_JOB_CREATE, TENANT_JOB_RESIZE, TENANT_JOB_DESTROY };

struct tenant_job {
	enum tenant_job_kind kind;
	struct tenant *tenant;
	uint64_t bytes; /* CREATE, RESIZE */
	int err;	/* its result */
};

struct tenant_jobs {
	const struct worker_env *env;
	struct tenant_job job;
	struct note note;     /* NOTE_TENANT_DONE: the job has ended */
	_Atomic bool cancels; /* the job is to end early: -ECANCELED */

	/* The control thread's. */
	bool runs; /* a job was begun, and its note was not taken */
	pthread_t thread;
	bool started; /* by the first job */

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	bool has_job;
	bool stops;
};

/* 0 or a negative errno. */
int tenant_jobs_init(struct tenant_jobs *jobs, const struct worker_env *env);
/*
 * Begins @job, when none runs; NOTE_TENANT_DONE follows, and jobs->job.err is its result. A tenant
 * that could not be created has nothing, and one that could not be resized is as it was. 0 or a
 * negative errno after logging: it does not run.
 */
int tenant_jobs_begin(struct tenant_jobs *jobs, const struct tenant_job *job);
/* The job that runs, and all later ones, end early. */
void tenant_jobs_cancel(struct tenant_jobs *jobs);
/* Cancels the job that runs, and ends the thread when that has ended. */
void tenant_jobs_stop(struct tenant_jobs *jobs);
/* After that. Takes one of zero bytes, too. */
void tenant_jobs_release(struct tenant_jobs *jobs);

#endif /* KVD_SERVER_CONTROL_TENANT_JOB_H */
