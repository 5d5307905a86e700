/* SPDX-License-Identifier: MIT */
/*
 * Jobs: the slow work on tenants, done by a thread of its own, one after another (TENANT-3): memory
 * is allocated and filled, registered with the devices, and released. While a job runs, that thread
 * owns the tenant, or the extents that it adds or takes away, and no device is set up or put away
 * (server/control/recovery.c).
 */
#ifndef KVD_SERVER_CONTROL_TENANT_JOB_H
#define KVD_SERVER_CONTROL_TENANT_JOB_H

#include <pthread.h>

#include "server/control/tenants.h"

enum tenant_job_kind {
	TENANT_JOB_CREATE,
	TENANT_JOB_RESIZE,
	TENANT_JOB_DESTROY,
	/* Of a tenant that serves: server/control/memory_size.h. */
	TENANT_JOB_EXTEND, /* its region gets extents, which nobody uses yet */
	TENANT_JOB_CUT,	   /* extents that nobody uses any more are given back */
};

struct tenant_job {
	enum tenant_job_kind kind;
	struct tenant *tenant;
	uint64_t bytes;	  /* CREATE, RESIZE */
	uint32_t extents; /* EXTEND, CUT: how many there are then */
	int err;	  /* its result */
};

struct tenant_jobs {
	const struct worker_env *env;
	struct tenant_job job;
	struct note note;	  /* NOTE_TENANT_DONE: the job has ended */
	_Atomic bool cancels;	  /* all jobs must end early: -ECANCELED */
	_Atomic bool job_cancels; /* the one that runs, if it is EXTEND */

	/* The control thread's. */
	bool runs; /* a job was begun, and its note not yet taken */
	pthread_t thread;
	bool started; /* by the first job */

	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	bool has_job;
	bool stops;
};

/* 0 or a negative errno. */
int tenant_jobs_init(struct tenant_jobs *jobs, const struct worker_env *env);
/*
 * Begins @job while no other runs; NOTE_TENANT_DONE follows, and jobs->job.err is its result. A
 * tenant that could not be created holds nothing, and one that could not be resized is as it was.
 * 0, or a negative errno after logging if the job does not run.
 */
int tenant_jobs_begin(struct tenant_jobs *jobs, const struct tenant_job *job);
/* Makes the running job end early, if it is EXTEND. */
void tenant_job_cancel(struct tenant_jobs *jobs);
/* Makes the running job, and all later ones, end early. */
void tenant_jobs_cancel(struct tenant_jobs *jobs);
/* Cancels the running job, and ends the thread after it. */
void tenant_jobs_stop(struct tenant_jobs *jobs);
/* Called after tenant_jobs_stop(). Accepts a zeroed @jobs, too. */
void tenant_jobs_release(struct tenant_jobs *jobs);

#endif /* KVD_SERVER_CONTROL_TENANT_JOB_H */
