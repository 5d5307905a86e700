/* SPDX-License-Identifier: MIT */
/*
 * Prefaulting: allocates all pages of the region before it is used, by several threads, and makes
 * large pages of them where the kernel can.
 *
 * So a store that lacks memory fails at start-up instead of dying when it fills, and no request
 * waits for a page to be allocated and zeroed.
 *
 * Large pages: the region is shared memory, which the kernel gives large pages to at the first
 * access only if /sys/kernel/mm/transparent_hugepage/shmem_enabled says so, and by default it does
 * not. MADV_COLLAPSE (Linux 6.1) works in spite of that. It needs one page of each large one, and
 * zeroes the rest at once, in a third of the time of 512 page faults.
 *
 * Other threads run meanwhile, and may cancel it: it works in pieces of 256 KiB, of 64 MiB if they
 * become large pages, or of one page if that is larger.
 */
#ifndef KVD_SERVER_STORE_PREFAULT_H
#define KVD_SERVER_STORE_PREFAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct prefault {
	uint8_t *base; /* a shared mapping of the file, from @offset on */
	uint64_t offset;
	uint64_t bytes;
	uint64_t page_bytes;
	int fd;
	bool large; /* make large pages of normal ones */
	/*
	 * NUMA nodes over which normal pages are interleaved, by page number; 1: not interleaved. A
	 * large page goes to the node of the one page that existed before it.
	 */
	uint32_t nodes;
	uint32_t threads; /* 0: one for each CPU, PIECES_THREADS_MAX at most */
	/* Set by any thread: the work ends after the pieces in progress. NULL: never */
	const _Atomic bool *cancel;
	bool pauses;	  /* clients are served meanwhile, whose connections map memory */
	bool no_populate; /* for tests: as if the kernel had no MADV_POPULATE_WRITE */
	int large_err;	  /* result: the error of the first range that is not; or 0 */
};

/*
 * Returns 0, -ECANCELED, or -ENOMEM or another negative errno if there is no memory for all pages.
 * It is no error if pages are not large. Logs its progress every few seconds. Any thread.
 */
int prefault_run(struct prefault *prefault);

/*
 * The bytes on large pages from @base on, by /proc/self/smaps: of all mappings that begin in there.
 * The kernel makes one of neighbours with the same file.
 */
uint64_t prefault_large_bytes(const uint8_t *base, uint64_t bytes);

/*
 * The number of the normal page, in large page @large, whose NUMA node is the one that the large
 * page gets in turn, of @nodes nodes.
 */
uint32_t prefault_first_page(uint64_t large, uint32_t nodes);

#endif /* KVD_SERVER_STORE_PREFAULT_H */
