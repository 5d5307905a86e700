/* SPDX-License-Identifier: MIT */
#include "server/fleet/fleet_thread.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "common/util/log.h"
#include "common/util/thread.h"

int fleet_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = thread_start(thread, name, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		log_error("fleet: can't start its thread: %s: " ADVICE_THREADS, strerror(-err));
	return err;
}

int fleet_thread_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int err = -pthread_condattr_init(&attr);

	if (err)
		return err;
	err = -pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (!err)
		err = -pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return err;
}
