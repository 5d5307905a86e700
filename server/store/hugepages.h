/* SPDX-License-Identifier: MIT */
/*
 * Huge pages: maps the region's memory, a sealed memfd of 1 GiB, 2 MiB or normal pages, places
 * it on NUMA nodes and prefaults it. Prefaulting makes normal pages transparent huge pages, if
 * the kernel can do that. Where the host has fewer huge pages than the options of [memory] ask for,
 * one line in the log says how many are needed, how many are free, and the command that provides
 * them.
 */
#ifndef KVD_SERVER_STORE_HUGEPAGES_H
#define KVD_SERVER_STORE_HUGEPAGES_H

#include "server/store/keep.h"
#include "server/store/numa.h"
#include "server/store/store_options.h"

struct mapping {
	uint8_t *base; /* NULL: nothing is mapped */
	uint64_t bytes;
	uint64_t page_bytes;
	uint64_t large_bytes; /* on transparent huge pages, if the pages are normal ones */
	int large_err; /* why the kernel made fewer large pages than it could; 0: not known */
	uint32_t prefault_ms; /* how long prefaulting took */
	int fd;
};

/*
 * Checks, without any effect, that hugepages_map() can succeed: that required huge pages are free,
 * or else that the host has enough memory. Returns 0 or, after logging, -ENOMEM.
 */
int hugepages_check(const struct store_options *options, const struct numa_policy *policy);

/*
 * Maps options->bytes, rounded up to whole pages of the size that is used. Returns 0, -ECANCELED
 * or, after logging, another negative errno, and @mapping holds nothing then. The caller unmaps it.
 * If @keep has a file, that is mapped, with the pages of its file system.
 */
int hugepages_map(struct mapping *mapping, const struct store_options *options,
		  const struct numa_policy *policy, const struct keep *keep);
void hugepages_unmap(struct mapping *mapping);

/*
 * The nr_hugepages that makes @needed pages available, if it is @total now and @available of these
 * are neither in use nor reserved.
 */
uint64_t hugepages_to_configure(uint64_t total, uint64_t available, uint64_t needed);

#endif /* KVD_SERVER_STORE_HUGEPAGES_H */
