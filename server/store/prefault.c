/* SPDX-License-Identifier: MIT */
/* Prefaulting: threads that take one piece of the region after another and populate it. */
#include "server/store/prefault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/large_page.h"
#include "common/util/log.h"

/* Linux 5.14 and 6.1; libcs are older. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/*
 * Bytes that one call populates. The call holds the process's mmap_lock, for which all mmap(2) and
 * munmap(2) wait, also those for connections that come and go: during calls of 1 GiB there were 470
 * to 1,340 of these per second, during calls of 256 KiB 5,700 to 20,500 (2 busy CPUs).
 */
#define CALL_BYTES ((uint64_t)256 << 10)
/*
 * A thread that takes the lock again at once gets it before waiting threads, until they have waited
 * for 4 ms (rwsem of Linux). So while clients are served, a pause follows each call that has taken
 * a while: a softnic server accepted 2,200 to 3,500 connections in 5 s during a fill of 5 GiB, and
 * 730 to 910 without pauses. With pauses a fill without clients takes 1.4 to 1.6 times as long (4
 * GiB, 2 CPUs and 1). If the pages exist already, a call takes a few microseconds.
 */
#define PAUSES_FROM_NS 50000u
#define PAUSE_NS 100000
/*
 * MADV_COLLAPSE releases that lock, but each call waits until all CPUs have emptied their lists of
 * pages, on a busy machine for a quarter of a second: so it gets more bytes.
 */
#define LARGE_PIECE_BYTES ((uint64_t)64 << 20)

#define PROGRESS_NS 5000000000ull

struct work {
	const struct prefault *prefault;
	uint64_t piece_bytes;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t ended;
	uint64_t next; /* where the next piece begins */
	uint64_t done; /* bytes */
	uint32_t running;
	int err;
	int large_err;
};

uint32_t prefault_first_page(uint64_t large, uint32_t nodes)
{
	const uint64_t pages = LARGE_PAGE_BYTES / (uint64_t)sysconf(_SC_PAGESIZE);

	/* pages * large + first = large (mod nodes) */
	return nodes > pages ? 0 : (uint32_t)((nodes - pages * large % nodes + large) % nodes);
}

/*
 * Allocates the pages. Not by touching them: if a NUMA node or a control group has too few hugetlb
 * pages, that is a SIGBUS. fallocate() serves kernels before 5.14; it takes the file's
 * lock, so threads wait for each other.
 */
static int populate(const struct prefault *p, uint64_t at, uint64_t bytes)
{
	int err = EINVAL;

	if (!p->no_populate)
		err = madvise(p->base + at, bytes, MADV_POPULATE_WRITE) ? errno : 0;
	if (err == EINVAL)
		do {
			err = fallocate(p->fd, 0, (off_t)at, (off_t)bytes) ? errno : 0;
		} while (err == EINTR);
	return err == EFAULT || err == ENOSPC ? -ENOMEM : -err;
}

static bool is_cancelled(const struct prefault *p)
{
	return p->cancel && atomic_load_explicit(p->cancel, memory_order_relaxed);
}

/* Bytes of one call: at least a page, or two threads would wait for parts of one. */
static uint64_t call_bytes(const struct prefault *p)
{
	return p->page_bytes > CALL_BYTES ? p->page_bytes : CALL_BYTES;
}

static int populate_piece(const struct prefault *p, uint64_t at, uint64_t bytes)
{
	const struct timespec pause = { 0, PAUSE_NS };
	uint64_t end = at + bytes, step = call_bytes(p);
	int err = 0;

	for (; !err && at < end; at += step) {
		uint64_t start = clock_ns();

		err = is_cancelled(p) ? -ECANCELED :
					populate(p, at, end - at < step ? end - at : step);
		if (p->pauses && clock_ns() - start >= PAUSES_FROM_NS)
			nanosleep(&pause, NULL);
	}
	return err;
}

/* Makes large pages of the piece, as far as the kernel can. */
static int collapse(const struct prefault *p, uint64_t at, uint64_t bytes, int *large_err)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t end = at + bytes / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES, large;
	int err = 0;

	for (large = at; large < end && !err; large += LARGE_PAGE_BYTES) {
		uint32_t first = prefault_first_page(large / LARGE_PAGE_BYTES, p->nodes);

		err = populate(p, large + first * page_bytes, page_bytes);
	}
	if (!err && end > at && madvise(p->base + at, end - at, MADV_COLLAPSE))
		*large_err = -errno;
	return err;
}

/* Takes the next piece. False: there is none to populate. */
static bool work_take(struct work *work, uint64_t *at, uint64_t *bytes)
{
	const struct prefault *p = work->prefault;
	uint64_t rest;

	pthread_mutex_lock(&work->lock);
	rest = work->err ? 0 : p->bytes - work->next;
	*at = work->next;
	*bytes = rest < work->piece_bytes ? rest : work->piece_bytes;
	work->next += *bytes;
	pthread_mutex_unlock(&work->lock);
	return rest;
}

static void work_done(struct work *work, uint64_t bytes, int err, int large_err)
{
	pthread_mutex_lock(&work->lock);
	work->done += bytes;
	if (!work->err)
		work->err = err;
	if (!work->large_err)
		work->large_err = large_err;
	pthread_mutex_unlock(&work->lock);
}

static void *work_run(void *argument)
{
	struct work *work = argument;
	const struct prefault *p = work->prefault;
	uint64_t at, bytes;

	while (work_take(work, &at, &bytes)) {
		int large_err = 0, err = 0;

		if (p->large)
			err = collapse(p, at, bytes, &large_err);
		if (!err)
			err = populate_piece(p, at, bytes);
		work_done(work, bytes, err, large_err);
	}
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
		log_notice("region: %" PRIu64 " of %" PRIu64 " MiB allocated", work->done >> 20,
			   work->prefault->bytes >> 20);
		until += PROGRESS_NS;
	}
	pthread_mutex_unlock(&work->lock);
}

static uint32_t thread_count(const struct prefault *p)
{
	uint64_t large = (p->bytes + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES;
	uint64_t count = p->threads;
	cpu_set_t cpus;

	if (!count)
		count = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint64_t)CPU_COUNT(&cpus);
	if (count > PREFAULT_THREADS_MAX)
		count = PREFAULT_THREADS_MAX;
	return (uint32_t)(count < large ? count : large);
}

static void work_threads(struct work *work, uint32_t count)
{
	pthread_t threads[PREFAULT_THREADS_MAX];
	uint32_t started = 0;

	work->running = count;
	while (started < count && !pthread_create(&threads[started], NULL, work_run, work))
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

/* The bytes of the mapping on large pages, by /proc/self/smaps. */
static uint64_t large_bytes(const struct prefault *p)
{
	const uint64_t base = (uintptr_t)p->base;
	uint64_t begin, end, kib, sum = 0;
	FILE *in = fopen("/proc/self/smaps", "re");
	bool inside = false;
	char line[512];

	while (in && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
			inside = begin >= base && begin < base + p->bytes;
		else if (inside && sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1)
			sum += kib << 10;
	}
	if (in)
		fclose(in);
	return sum;
}

int prefault_run(struct prefault *p)
{
	struct work work = {
		.prefault = p,
		.piece_bytes = p->large ? LARGE_PIECE_BYTES : call_bytes(p),
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	pthread_condattr_t monotonic;

	/* For kernels without MADV_COLLAPSE: with shmem_enabled = advise, first accesses do it. */
	if (p->large)
		madvise(p->base, p->bytes, MADV_HUGEPAGE);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&work.ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	work_threads(&work, thread_count(p));
	pthread_cond_destroy(&work.ended);
	p->large_err = work.large_err;
	p->large_to = p->large && !work.err ? large_bytes(p) : 0;
	return work.err;
}
