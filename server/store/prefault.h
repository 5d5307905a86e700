/* SPDX-License-Identifier: MIT */
/*
 * Prefaulting: allocates all pages of the region before it is used, by several threads, and makes
 * large pages of them where the kernel can.
 *
 * So a store for which there is too little memory does not start, instead of dying when it fills,
 * and no request waits for a page to be allocated and zeroed.
 *
 * Large pages: the region is shared memory, which the kernel gives large pages to at the first
 * access only if /sys/kernel/mm/transparent_hugepage/shmem_enabled says so, and by default it does
 * not. MADV_COLLAPSE (Linux 6.1) works in spite of that. It wants one page of each large one, and
 * zeroes the rest at once: that takes a third of the time that 512 page faults do.
 *
 * Others go on meanwhile, and may cancel it: it works in pieces of 256 KiB, of 64 MiB where they
 * become large pages, or of one page where that is larger.
 */
#ifndef KVD_SERVER_STORE_PREFAULT_H
#define KVD_SERVER_STORE_PREFAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct prefault {
	uint8_t *base; /* a shared mapping from the beginning of the file */
	uint64_t bytes;
	uint64_t page_bytes;
	int fd;
	bool large; /* make large pages of normal ones */
	/*
	 * Normal pages lie on so many NUMA nodes in turn, by their number; 1: not interleaved. A
	 * large page goes where the one page is that was there before it.
	 */
	uint32_t nodes;
	uint32_t threads; /* 0: one for each CPU, PREFAULT_THREADS_MAX at most */
	/* Set by any thread: the work ends when its threads have done their pieces. NULL: never */
	const _Atomic bool *cancel;
	bool pauses;	   /* others are served meanwhile, who map memory */
	bool no_populate;  /* as if the kernel had no MADV_POPULATE_WRITE: for tests */
	uint64_t large_to; /* result: bytes on large pages, if that was asked for */
	int large_err;	   /* result: why the first range is not; 0 */
};

#define PREFAULT_THREADS_MAX 16

/*
 * Returns 0, -ECANCELED, or -ENOMEM or another negative errno if there is no memory for all pages.
 * Whether pages are large is no error. Logs how far it has come every few seconds. Any thread.
 */
int prefault_run(struct prefault *prefault);

/*
 * The number of the normal page, inside large page @large, which has its turn on the NUMA node on
 * which the large page has its own, if there are @nodes.
 */
uint32_t prefault_first_page(uint64_t large, uint32_t nodes);

#endif /* KVD_SERVER_STORE_PREFAULT_H */
