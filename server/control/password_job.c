/* SPDX-License-Identifier: MIT */
#include "server/control/password_job.h"

#include <crypt.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/secret.h"
#include "common/util/thread.h"
#include "server/users/password.h"

/* The lowest priority: see setpriority(2). */
#define NICE_MOST 19

struct password_check {
	char password[CRYPT_MAX_PASSPHRASE_SIZE];
	char hash[PASSWORD_HASH_BYTES];
	bool too_long; /* crypt(3) takes no such password */
	bool matched;
	struct crypt_data data;
};

/* Waits for a check. False: the thread must end. */
static bool check_wait(struct password_job *job)
{
	bool stops;

	pthread_mutex_lock(&job->lock);
	while (!job->has_check && !job->stops)
		pthread_cond_wait(&job->changed, &job->lock);
	stops = job->stops;
	job->has_check = false;
	pthread_mutex_unlock(&job->lock);
	return !stops;
}

static void check_do(struct password_check *check)
{
	check->matched = password_matches(check->password, check->hash, &check->data) &&
			 !check->too_long;
	explicit_bzero(check->password, sizeof(check->password));
	explicit_bzero(&check->data, sizeof(check->data));
}

static void *job_run(void *arg)
{
	struct password_job *job = arg;

	if (setpriority(PRIO_PROCESS, (id_t)gettid(), NICE_MOST))
		log_debug("passwords: the priority of their thread stays as it is: %m");
	while (check_wait(job)) {
		check_do(job->check);
		mailbox_send(job->control, &job->note);
	}
	return NULL;
}

int password_job_init(struct password_job *job, struct mailbox *control)
{
	int err;

	*job = (struct password_job){ .note.kind = NOTE_PASSWORD_DONE };
	err = -pthread_mutex_init(&job->lock, NULL);
	if (err)
		return err;
	err = -pthread_cond_init(&job->changed, NULL);
	if (err)
		pthread_mutex_destroy(&job->lock);
	else
		job->control = control;
	return err;
}

static int job_start(struct password_job *job)
{
	int err;

	if (!job->check)
		job->check = secret_alloc(sizeof(*job->check));
	err = job->check ? thread_start(&job->thread, "passwords", job_run, job) : -ENOMEM;
	if (err)
		log_ratelimited(LOG_ERROR, 1,
				"passwords: can't start their thread: %s: " ADVICE_THREADS,
				strerror(-err));
	job->started = !err;
	return err;
}

int password_job_begin(struct password_job *job, const char *password, const char *hash)
{
	size_t length = strlen(password);
	struct password_check *check;
	int err = job->started ? 0 : job_start(job);

	if (err)
		return err;
	check = job->check;
	check->too_long = length >= sizeof(check->password);
	if (check->too_long)
		length = 0;
	memcpy(check->password, password, length);
	check->password[length] = '\0';
	snprintf(check->hash, sizeof(check->hash), "%s", hash);
	job->runs = true;
	pthread_mutex_lock(&job->lock);
	job->has_check = true;
	pthread_cond_signal(&job->changed);
	pthread_mutex_unlock(&job->lock);
	return 0;
}

bool password_job_matched(const struct password_job *job)
{
	return job->check->matched;
}

const char *password_job_hash(const struct password_job *job)
{
	return job->check->hash;
}

void password_job_stop(struct password_job *job)
{
	if (!job->started)
		return;
	pthread_mutex_lock(&job->lock);
	job->stops = true;
	pthread_cond_signal(&job->changed);
	pthread_mutex_unlock(&job->lock);
	pthread_join(job->thread, NULL);
	job->started = false;
}

void password_job_release(struct password_job *job)
{
	if (!job->control)
		return;
	secret_free(job->check, sizeof(*job->check));
	pthread_cond_destroy(&job->changed);
	pthread_mutex_destroy(&job->lock);
	*job = (struct password_job){ 0 };
}
