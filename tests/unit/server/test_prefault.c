/* SPDX-License-Identifier: MIT */
/*
 * Tests of prefaulting on hosts that the tests don't run on: with terabytes, many CPUs, several
 * NUMA nodes, an old kernel. What the kernel and the machine say is the test's, and no memory is
 * allocated. test_region has what this host does.
 */
#include "server/store/prefault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/large_page.h"
#include "common/util/log.h"
#include "common/util/thread.h"
#include "server/store/pieces.h"
#include "tests/support/log_fixture.h"

/* Linux 5.14 and 6.1; libcs are older. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define GIB ((uint64_t)1 << 30)
#define BASE ((uint8_t *)((uintptr_t)1 << 44))
#define CALLS_MAX 1100u
#define MIB ((uint64_t)1 << 20)
#define NOW_NS 1000000000000ull
#define STEP_NS 5000000000ull

/* A call that allocates or makes large pages: where and how much. */
struct call {
	int advice; /* -1: fallocate() */
	uint64_t at, bytes;
};

static struct {
	/* What it says. */
	unsigned int cpus;
	int populate_error; /* of the call number @fails, and 0: of all */
	unsigned int fails;
	int fallocate_errors[3]; /* one after the other, then 0 */
	const char *maps;	 /* /proc/self/smaps */
	/* What it was asked for. */
	struct call calls[CALLS_MAX];
	atomic_uint count;
	unsigned int populates, fallocates, threads;
	/* The call number @waits does so until the time was up @timeouts times. */
	unsigned int waits, timeouts, timed;
	unsigned int cancels; /* the call number @cancels does */
	unsigned int call_ns; /* what a call takes */
	atomic_uint pauses;
	struct timespec until[4];
	atomic_bool waiting, go_on, cancel;
} host;

static int host_called(int advice, uint64_t at, uint64_t bytes)
{
	unsigned int n = atomic_fetch_add(&host.count, 1);

	assert_true(n < CALLS_MAX);
	host.calls[n] = (struct call){ advice, at, bytes };
	if (n + 1 == host.cancels)
		atomic_store(&host.cancel, true);
	if (!host.waits || n + 1 != host.waits)
		return 0;
	atomic_store(&host.waiting, true);
	while (!atomic_load(&host.go_on))
		sched_yield();
	return 0;
}

static int host_madvise(void *p, size_t bytes, int advice)
{
	host_called(advice, (uint64_t)((uint8_t *)p - BASE), bytes);
	if (advice != MADV_POPULATE_WRITE || !host.populate_error ||
	    (++host.populates != host.fails && host.fails))
		return 0;
	errno = host.populate_error;
	return -1;
}

static int host_fallocate(int fd, int mode, off_t at, off_t bytes)
{
	assert_int_equal(fd, 77);
	assert_int_equal(mode, 0);
	host_called(-1, (uint64_t)at, (uint64_t)bytes);
	errno = host.fallocates < 3 ? host.fallocate_errors[host.fallocates] : 0;
	host.fallocates++;
	return errno ? -1 : 0;
}

static int host_affinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	(void)size;
	CPU_ZERO(set);
	for (unsigned int i = 0; i < host.cpus; i++)
		CPU_SET(i, set);
	return host.cpus ? 0 : -1;
}

static int host_thread(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	host.threads++;
	/* None past the end of the array of them. */
	return host.threads > PIECES_THREADS_MAX ? -EAGAIN : thread_start(thread, name, run, arg);
}

static int host_timedwait(pthread_cond_t *ended, pthread_mutex_t *lock, const struct timespec *time)
{
	if (host.timed == host.timeouts) {
		atomic_store(&host.go_on, true);
		return pthread_cond_wait(ended, lock);
	}
	pthread_mutex_unlock(lock);
	while (!atomic_load(&host.waiting))
		sched_yield();
	pthread_mutex_lock(lock);
	host.until[host.timed++] = *time;
	return ETIMEDOUT;
}

static FILE *host_open(const char *path, const char *mode)
{
	assert_string_equal(path, "/proc/self/smaps");
	(void)mode;
	return host.maps ? fmemopen((void *)(uintptr_t)host.maps, strlen(host.maps), "r") : NULL;
}

static uint64_t host_clock_ns(void)
{
	return NOW_NS + (uint64_t)atomic_load(&host.count) * host.call_ns;
}

static int host_nanosleep(const struct timespec *time, struct timespec *rest)
{
	(void)rest;
	assert_int_equal(time->tv_sec, 0);
	assert_in_range(time->tv_nsec, 1, 999999);
	host.pauses++;
	return 0;
}

#define madvise host_madvise
#define fallocate host_fallocate
#define sched_getaffinity host_affinity
#define thread_start host_thread
#define pthread_cond_timedwait host_timedwait
#define fopen host_open
#define clock_ns host_clock_ns
#define nanosleep host_nanosleep
#include "server/store/pieces.c"
#include "server/store/prefault.c"
#undef madvise
#undef fallocate
#undef sched_getaffinity
#undef thread_start
#undef pthread_cond_timedwait
#undef fopen
#undef clock_ns
#undef nanosleep

static int setup(void **state)
{
	(void)state;
	memset(&host, 0, sizeof(host));
	host.cpus = 1;
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_release();
	return 0;
}

static struct prefault of(uint64_t bytes, uint32_t threads)
{
	return (struct prefault){ .base = BASE,
				  .bytes = bytes,
				  .page_bytes = 4096,
				  .fd = 77,
				  .nodes = 1,
				  .threads = threads };
}

/* All of it is allocated, each part once, by calls of @most bytes at most. */
static void assert_allocated(int advice, uint64_t bytes, uint64_t most)
{
	uint64_t at = 0;

	while (at < bytes) {
		unsigned int i = 0;

		while (i < host.count && (host.calls[i].at != at || host.calls[i].advice != advice))
			i++;
		assert_true(i < host.count);
		assert_in_range(host.calls[i].bytes, 1, most);
		at += host.calls[i].bytes;
		host.calls[i].advice = 0;
	}
	assert_int_equal(at, bytes);
}

/* In pieces for which others wait a moment, whatever the size; in whole pages of hugetlb. */
static void small_pieces(void **state)
{
	static const struct {
		uint64_t bytes, page, piece;
	} cases[] = {
		{ 200 * MIB + 4096, 4096, CALL_BYTES },
		{ 400 * MIB, 2 * MIB, 2 * MIB },
		{ 20 * GIB, GIB, GIB },
	};

	(void)state;
	assert_true(CALL_BYTES <= MIB);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct prefault p = of(cases[i].bytes, 1);

		memset(&host, 0, sizeof(host));
		p.page_bytes = cases[i].page;
		assert_int_equal(prefault_run(&p), 0);
		assert_int_equal(host.count, (p.bytes + cases[i].piece - 1) / cases[i].piece);
		assert_allocated(MADV_POPULATE_WRITE, p.bytes, cases[i].piece);
	}
}

/* A thread that serves meanwhile gets the lock after each call, but not for pages that exist. */
static void pauses(void **state)
{
	struct prefault p = of(4 * MIB, 1);

	(void)state;
	host.call_ns = PAUSES_FROM_NS;
	assert_int_equal(prefault_run(&p), 0);
	assert_int_equal(host.pauses, 0);
	p.pauses = true;
	assert_int_equal(prefault_run(&p), 0);
	assert_int_equal(host.pauses, 16);
	host.pauses = 0;
	host.call_ns = PAUSES_FROM_NS - 1;
	assert_int_equal(prefault_run(&p), 0);
	assert_int_equal(host.pauses, 0);
}

/* Whoever cancels it waits for one piece of each thread. */
static void cancelled(void **state)
{
	struct prefault p = of(200 * MIB, 1);

	(void)state;
	p.cancel = &host.cancel;
	host.cancels = 3;
	assert_int_equal(prefault_run(&p), -ECANCELED);
	assert_int_equal(host.count, 3);
	/* A piece of large pages is more than one call. */
	memset(&host, 0, sizeof(host));
	p.large = true;
	host.cancels = 5;
	assert_int_equal(prefault_run(&p), -ECANCELED);
	assert_in_range(host.count, 5, LARGE_PIECE_BYTES / LARGE_PAGE_BYTES + 3);
	/* Before it begins. */
	memset(&host, 0, sizeof(host));
	p.large = false;
	host.cancel = true;
	assert_int_equal(prefault_run(&p), -ECANCELED);
	assert_int_equal(host.count, 0);
}

/* One thread for each CPU, unless that is said; no more than a bound, nor than large pages. */
static void threads(void **state)
{
	static const struct {
		unsigned int cpus, threads, pages, expected;
	} cases[] = {
		{ 5, 0, 100, 5 },
		{ 5, 3, 100, 3 },
		{ 0, 0, 100, 1 },
		{ 1000, 0, 100, PIECES_THREADS_MAX },
		{ 1, PIECES_THREADS_MAX + 1, 100, PIECES_THREADS_MAX },
		{ 8, 0, 3, 3 },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct prefault p = of(cases[i].pages * LARGE_PAGE_BYTES, cases[i].threads);

		memset(&host, 0, sizeof(host));
		host.cpus = cases[i].cpus;
		assert_int_equal(prefault_run(&p), 0);
		assert_int_equal(host.threads, cases[i].expected);
		assert_allocated(MADV_POPULATE_WRITE, p.bytes, p.bytes);
	}
}

/* What follows a part that can't be had is not allocated: it would take its time for nothing. */
static void ends_at_the_first_error(void **state)
{
	struct prefault p = of(200 * MIB, 1);

	(void)state;
	host.populate_error = ENOMEM;
	host.fails = 3;
	assert_int_equal(prefault_run(&p), -ENOMEM);
	assert_int_equal(host.count, 3);
}

/* Where the kernel would raise SIGBUS, or the file can't have the pages, memory is short. */
static void errors(void **state)
{
	static const struct {
		int populate, fallocate, expected;
	} cases[] = {
		{ EFAULT, 0, -ENOMEM },	     { ENOMEM, 0, -ENOMEM }, { EPERM, 0, -EPERM },
		{ EINVAL, ENOSPC, -ENOMEM }, { EINVAL, 0, 0 },	     { EINVAL, EIO, -EIO },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct prefault p = of(CALL_BYTES, 1);

		memset(&host, 0, sizeof(host));
		host.populate_error = cases[i].populate;
		host.fallocate_errors[0] = cases[i].fallocate;
		assert_int_equal(prefault_run(&p), cases[i].expected);
		assert_int_equal(host.fallocates, cases[i].populate == EINVAL);
	}
}

/* A kernel without MADV_POPULATE_WRITE: by fallocate(), which a signal may interrupt. */
static void old_kernel(void **state)
{
	struct prefault p = of(2 * CALL_BYTES, 1);

	(void)state;
	host.populate_error = EINVAL;
	host.fallocate_errors[0] = host.fallocate_errors[1] = EINTR;
	assert_int_equal(prefault_run(&p), 0);
	assert_int_equal(host.fallocates, 4);
	assert_allocated(-1, p.bytes, CALL_BYTES);
}

/*
 * Of each large page the one page is allocated first that has its turn on the node of the large
 * one; then they are made large, and the rest after them is allocated.
 */
static void large_pages(void **state)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct prefault p = of(5 * LARGE_PAGE_BYTES + page, 1);
	const struct call *call = host.calls;

	(void)state;
	p.large = true;
	p.nodes = 3;
	assert_int_equal(prefault_run(&p), 0);
	/* For kernels without MADV_COLLAPSE. */
	assert_int_equal(call->advice, MADV_HUGEPAGE);
	assert_int_equal(call->bytes, p.bytes);
	for (uint64_t i = 0; i < 5; i++) {
		call++;
		assert_int_equal(call->advice, MADV_POPULATE_WRITE);
		assert_int_equal(call->bytes, page);
		assert_int_equal(call->at / LARGE_PAGE_BYTES, i);
		assert_int_equal(call->at / page % 3, i % 3);
	}
	call++;
	assert_int_equal(call->advice, MADV_COLLAPSE);
	assert_int_equal(call->at, 0);
	assert_int_equal(call->bytes, 5 * LARGE_PAGE_BYTES);
	assert_int_equal(host.count, 7 + 41);
	memmove(host.calls, call + 1, 41 * sizeof(*call));
	host.count = 41;
	assert_allocated(MADV_POPULATE_WRITE, p.bytes, CALL_BYTES);
	/* Not if they are not wanted. */
	memset(&host, 0, sizeof(host));
	p.large = false;
	assert_int_equal(prefault_run(&p), 0);
	assert_int_equal(host.count, 41);
}

/* What is on large pages is counted in the region's mapping, and nowhere else. */
static void counted(void **state)
{
	static const char maps[] = "0fffffe00000-100000000000 rw-s 00000000 00:01 1 /memfd:a\n"
				   "Rss:            2048 kB\n"
				   "ShmemPmdMapped: 2048 kB\n"
				   "100000000000-100000400000 rw-s 00000000 00:01 2 /memfd:kvd\n"
				   "ShmemPmdMapped: 4096 kB\n"
				   "100000400000-100000a00000 rw-s 00400000 00:01 2 /memfd:kvd\n"
				   "Rss:            6144 kB\n"
				   "ShmemPmdMapped: 2048 kB\n"
				   "100000a00000-100000c00000 rw-s 00000000 00:01 3 /memfd:b\n"
				   "ShmemPmdMapped: 2048 kB\n";
	const struct prefault p = of(10 << 20, 1);

	(void)state;
	host.maps = maps;
	assert_int_equal(prefault_large_bytes(p.base, p.bytes), 6 << 20);
	host.maps = NULL;
	assert_int_equal(prefault_large_bytes(p.base, p.bytes), 0);
}

/* What takes long says how far it has come, every few seconds. */
static void progress(void **state)
{
	struct prefault p = of(4 * MIB, 1);

	(void)state;
	host.waits = 13;
	host.timeouts = 3;
	assert_int_equal(prefault_run(&p), 0);
	assert_int_equal(test_log_lines(), 3);
	assert_logged(" notice region: 3 of 4 MiB allocated\n");
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(host.until[i].tv_sec, (NOW_NS + (i + 1) * STEP_NS) / 1000000000u);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(small_pieces),
		CASE(pauses),
		CASE(cancelled),
		CASE(threads),
		CASE(ends_at_the_first_error),
		CASE(errors),
		CASE(old_kernel),
		CASE(large_pages),
		CASE(counted),
		CASE(progress),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
