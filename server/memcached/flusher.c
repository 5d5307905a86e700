/* SPDX-License-Identifier: MIT */
#include "server/memcached/flusher.h"

#include <stdio.h>

#include <urcu-qsbr.h>

#include "server/fleet/fleet_thread.h"

int flusher_init(struct flusher *flusher)
{
	int err = -pthread_mutex_init(&flusher->lock, NULL);

	TAILQ_INIT(&flusher->waiting);
	if (err)
		return err;
	err = -pthread_cond_init(&flusher->changed, NULL);
	if (err)
		pthread_mutex_destroy(&flusher->lock);
	return err;
}

void flusher_release(struct flusher *flusher)
{
	pthread_cond_destroy(&flusher->changed);
	pthread_mutex_destroy(&flusher->lock);
}

bool flusher_send(struct flusher *flusher, struct forward *forward)
{
	bool stops;

	pthread_mutex_lock(&flusher->lock);
	stops = flusher->stops;
	if (!stops)
		TAILQ_INSERT_TAIL(&flusher->waiting, forward, entry);
	pthread_cond_signal(&flusher->changed);
	pthread_mutex_unlock(&flusher->lock);
	return !stops;
}

/* The next flush; NULL: the flusher stops. */
static struct forward *flush_take(struct flusher *flusher)
{
	struct forward *forward = NULL;

	pthread_mutex_lock(&flusher->lock);
	while (!flusher->stops && TAILQ_EMPTY(&flusher->waiting))
		pthread_cond_wait(&flusher->changed, &flusher->lock);
	if (!flusher->stops) {
		forward = TAILQ_FIRST(&flusher->waiting);
		TAILQ_REMOVE(&flusher->waiting, forward, entry);
	}
	pthread_mutex_unlock(&flusher->lock);
	return forward;
}

static enum kvd_status failed(struct forward *forward, const struct kvd *handle,
			      enum kvd_status status)
{
	snprintf(forward->why, sizeof(forward->why), "%s", kvd_error(handle));
	return status;
}

/* A later flush replaces one with a delay, as memcached's does. */
static enum kvd_status member_flush(struct forward *forward, struct kvd *member)
{
	enum kvd_status status = kvd_flush_cancel(member, 0, 0, NULL);

	if (status == KVD_NOT_FOUND)
		status = KVD_OK;
	if (!status && forward->op.ttl_s)
		status = kvd_flush_start(member, forward->op.ttl_s, NULL);
	return status ? failed(forward, member, status) : KVD_OK;
}

/* Tries all members, also after one has failed. */
static enum kvd_status members_flush(struct flusher *flusher, struct forward *forward,
				     struct kvd *home)
{
	enum kvd_status status, first = KVD_OK;
	struct kvd *member;

	for (uint32_t i = 0;; i++) {
		status = member_handle_open(&flusher->identity, forward->tenant,
					    forward->op.timeout_ms, home, i, &member, forward->why);
		if (status == KVD_NOT_FOUND)
			return first;
		if (!status)
			status = member_flush(forward, member);
		kvd_close(member);
		first = first ? first : status;
	}
}

static enum kvd_status flush(struct flusher *flusher, struct forward *forward)
{
	enum kvd_status status, all;
	struct kvd *home;

	status = fleet_handle_open(&flusher->identity, forward->tenant, forward->op.timeout_ms,
				   &home, forward->why);
	if (status)
		return status;
	status = members_flush(flusher, forward, home);
	if (!forward->op.ttl_s) {
		all = kvd_flush_all(home);
		status = all ? failed(forward, home, all) : status;
	}
	kvd_close(home);
	return status;
}

static void *flusher_run(void *arg)
{
	struct flusher *flusher = arg;
	struct forward *forward;

	rcu_register_thread();
	rcu_thread_offline();
	while ((forward = flush_take(flusher))) {
		forward->op.status = flush(flusher, forward);
		mailbox_send(forward->back, &forward->note);
	}
	rcu_unregister_thread();
	return NULL;
}

int flusher_start(struct flusher *flusher)
{
	int err = fleet_thread_start(&flusher->thread, "flusher", flusher_run, flusher);

	flusher->started = !err;
	return err;
}

void flusher_stop(struct flusher *flusher)
{
	struct forward *forward;

	pthread_mutex_lock(&flusher->lock);
	flusher->stops = true;
	pthread_cond_signal(&flusher->changed);
	pthread_mutex_unlock(&flusher->lock);
	if (flusher->started)
		pthread_join(flusher->thread, NULL);
	flusher->started = false;
	while ((forward = TAILQ_FIRST(&flusher->waiting))) {
		TAILQ_REMOVE(&flusher->waiting, forward, entry);
		forward->op.status = KVD_ERR_CANCELED;
		mailbox_send(forward->back, &forward->note);
	}
}
