/* SPDX-License-Identifier: MIT */
/*
 * Checks passwords, one after another, in a thread of its own: a check takes milliseconds of a CPU
 * by design, and neither the control thread nor a worker may take those (guarantee F). The thread
 * has the lowest priority, so it leaves the CPUs to the workers.
 */
#ifndef KVD_SERVER_CONTROL_PASSWORD_JOB_H
#define KVD_SERVER_CONTROL_PASSWORD_JOB_H

#include <pthread.h>
#include <stdbool.h>

#include "server/worker/mailbox.h"

struct password_check;

struct password_job {
	struct mailbox *control;
	struct note note;	      /* NOTE_PASSWORD_DONE: the check has ended */
	struct password_check *check; /* of secret_alloc(); the thread's while the job runs */

	/* The control thread's. */
	bool runs; /* a check was begun, and its note not yet taken */
	pthread_t thread;
	bool started; /* by the first check */

	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	bool has_check;
	bool stops;
};

/* 0 or a negative errno. */
int password_job_init(struct password_job *job, struct mailbox *control);
/*
 * Begins to check whether @password has the hash @hash, a valid one (server/users/password.h),
 * while no other check runs; NOTE_PASSWORD_DONE follows. 0, or a negative errno after logging if
 * the job does not run.
 */
int password_job_begin(struct password_job *job, const char *password, const char *hash);
/* After the note: whether it has that hash, and the hash. */
bool password_job_matched(const struct password_job *job);
const char *password_job_hash(const struct password_job *job);
/* Ends the thread after the check that runs. */
void password_job_stop(struct password_job *job);
/* Called after password_job_stop(). Accepts a zeroed @job, too. */
void password_job_release(struct password_job *job);

#endif /* KVD_SERVER_CONTROL_PASSWORD_JOB_H */
