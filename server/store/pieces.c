/* SPDX-License-Identifier: MIT */
/* Pieces: threads that take one piece after another, and one that waits for them. */
#include "server/store/pieces.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "common/util/clock.h"
#include "common/util/large_page.h"
#include "common/util/log.h"
#include "common/util/thread.h"

#define PROGRESS_NS 5000000000ull

struct work {
	const struct pieces *pieces;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t ended;
	uint64_t next; /* where the next piece begins */
	uint64_t done; /* bytes */
	uint32_t running, begun;
	int err;
};

static bool pieces_cancelled(const struct pieces *p)
{
	return p->cancel && atomic_load_explicit(p->cancel, memory_order_relaxed);
}

/* Takes the next piece. False: there is none to work on. */
static bool work_take(struct work *work, uint64_t *at, uint64_t *bytes)
{
	const struct pieces *p = work->pieces;
	uint64_t rest;

	pthread_mutex_lock(&work->lock);
	if (!work->err && pieces_cancelled(p))
		work->err = -ECANCELED;
	rest = work->err ? 0 : p->bytes - work->next;
	*at = work->next;
	*bytes = rest < p->piece_bytes ? rest : p->piece_bytes;
	work->next += *bytes;
	pthread_mutex_unlock(&work->lock);
	return rest;
}

static void work_done(struct work *work, uint64_t bytes, int err)
{
	pthread_mutex_lock(&work->lock);
	work->done += bytes;
	if (!work->err)
		work->err = err;
	pthread_mutex_unlock(&work->lock);
}

static void *work_run(void *argument)
{
	struct work *work = argument;
	const struct pieces *p = work->pieces;
	uint64_t at, bytes;
	uint32_t thread;

	pthread_mutex_lock(&work->lock);
	thread = work->begun++;
	pthread_mutex_unlock(&work->lock);
	while (work_take(work, &at, &bytes))
		work_done(work, bytes, p->run(p->context, thread, at, bytes));
	pthread_mutex_lock(&work->lock);
	work->running--;
	pthread_cond_signal(&work->ended);
	pthread_mutex_unlock(&work->lock);
	return NULL;
}

/* Waits for the threads to end, and logs how far they have come. */
static void work_wait(struct work *work)
{
	uint64_t until = clock_ns() + PROGRESS_NS;

	pthread_mutex_lock(&work->lock);
	while (work->running) {
		const struct timespec time = { (time_t)(until / 1000000000u),
					       (long)(until % 1000000000u) };

		if (!pthread_cond_timedwait(&work->ended, &work->lock, &time))
			continue;
		log_notice("region: %" PRIu64 " of %" PRIu64 " MiB %s", work->done >> 20,
			   work->pieces->bytes >> 20, work->pieces->done);
		until += PROGRESS_NS;
	}
	pthread_mutex_unlock(&work->lock);
}

uint32_t pieces_threads(const struct pieces *p)
{
	uint64_t worth = (p->bytes + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES;
	uint64_t count = p->threads;
	cpu_set_t cpus;

	if (!count)
		count = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint64_t)CPU_COUNT(&cpus);
	if (count > PIECES_THREADS_MAX)
		count = PIECES_THREADS_MAX;
	/* Fewer bytes do not pay for a thread. */
	if (count > worth)
		count = worth;
	return count ? (uint32_t)count : 1;
}

static void work_threads(struct work *work, uint32_t count)
{
	pthread_t threads[PIECES_THREADS_MAX];
	uint32_t started = 0;

	work->running = count;
	while (started < count && !thread_start(&threads[started], "pieces", work_run, work))
		started++;
	pthread_mutex_lock(&work->lock);
	work->running -= count - started;
	pthread_mutex_unlock(&work->lock);
	if (!started) {
		work->running = 1;
		work_run(work);
	}
	work_wait(work);
	while (started)
		pthread_join(threads[--started], NULL);
}

int pieces_run(const struct pieces *pieces)
{
	struct work work = { .pieces = pieces, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&work.ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	work_threads(&work, pieces_threads(pieces));
	pthread_cond_destroy(&work.ended);
	return work.err;
}
