/* SPDX-License-Identifier: MIT */
/* Prefaulting: populates one piece of the region after another. */
#include "server/store/prefault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/large_page.h"
#include "server/store/pieces.h"

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
			err = fallocate(p->fd, 0, (off_t)(p->offset + at), (off_t)bytes) ? errno :
											   0;
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
		uint32_t first = prefault_first_page((p->offset + large) / LARGE_PAGE_BYTES,
						     p->nodes);

		err = populate(p, large + first * page_bytes, page_bytes);
	}
	if (!err && end > at && madvise(p->base + at, end - at, MADV_COLLAPSE))
		*large_err = -errno;
	return err;
}

static int prefault_piece(void *context, uint32_t thread, uint64_t at, uint64_t bytes)
{
	struct prefault *p = context;
	int large_err = 0, err = 0, none = 0;

	(void)thread;
	if (p->large)
		err = collapse(p, at, bytes, &large_err);
	if (!err)
		err = populate_piece(p, at, bytes);
	if (large_err)
		__atomic_compare_exchange_n(&p->large_err, &none, large_err, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return err;
}

uint64_t prefault_large_bytes(const uint8_t *base, uint64_t bytes)
{
	const uint64_t first = (uintptr_t)base;
	uint64_t begin, end, kib, sum = 0;
	FILE *in = fopen("/proc/self/smaps", "re");
	bool inside = false;
	char line[512];

	while (in && fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
			inside = begin >= first && begin < first + bytes;
		else if (inside && sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1)
			sum += kib << 10;
	}
	if (in)
		fclose(in);
	return sum;
}

int prefault_run(struct prefault *p)
{
	const struct pieces pieces = {
		.bytes = p->bytes,
		.piece_bytes = p->large ? LARGE_PIECE_BYTES : call_bytes(p),
		.threads = p->threads,
		.cancel = p->cancel,
		.done = "allocated",
		.run = prefault_piece,
		.context = p,
	};

	/* For kernels without MADV_COLLAPSE: with shmem_enabled = advise, first accesses do it. */
	if (p->large)
		madvise(p->base, p->bytes, MADV_HUGEPAGE);
	p->large_err = 0;
	return pieces_run(&pieces);
}
