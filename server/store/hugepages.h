/* SPDX-License-Identifier: MIT */
/*
 * Huge pages: maps the region's memory, extents that are sealed memfds of 1 GiB, 2 MiB or normal
 * pages, places it on NUMA nodes and prefaults it. Prefaulting makes normal pages transparent huge
 * pages, if the kernel can do that. Where the host has fewer huge pages than the options of
 * [memory] ask for, one line in the log says how many are needed, how many are free, and the
 * command that provides them.
 */
#ifndef KVD_SERVER_STORE_HUGEPAGES_H
#define KVD_SERVER_STORE_HUGEPAGES_H

#include "server/store/keep.h"
#include "server/store/numa.h"
#include "server/store/store_options.h"

/* A part of the mapping with a file of its own or, in the file of a store that is kept, a range. */
struct extent {
	int fd;		 /* what softnic passes to clients: nobody can write by it (guarantee D) */
	uint64_t offset; /* of its first byte in that file */
};

/* Addresses of @bytes_max, of which the first @count extents are mapped, the others reserved. */
struct mapping {
	uint8_t *base; /* NULL: nothing is mapped */
	uint64_t bytes_max;
	uint64_t extent_bytes;
	unsigned int count;
	struct extent extents[EXTENTS_MAX];
	uint64_t page_bytes;
	uint64_t large_bytes; /* on transparent huge pages, if prefaulting makes some */
	int large_err; /* why the kernel made fewer large pages than it could; 0: not known */
	uint32_t prefault_ms; /* how long prefaulting took */
};

/*
 * Checks, without any effect, that hugepages_map() can succeed: that required huge pages are free,
 * or else that the host has enough memory. Returns 0 or, after logging, -ENOMEM.
 */
int hugepages_check(const struct store_options *options, const struct numa_policy *policy);

/*
 * Maps options->bytes, rounded up to whole pages of the size that is used. Returns 0, -ECANCELED
 * or, after logging, another negative errno, and @mapping holds nothing then. The caller unmaps it.
 * If @keep has a file, that is mapped, with the pages of its file system; of a store that was kept,
 * as many extents as it had.
 */
int hugepages_map(struct mapping *mapping, const struct store_options *options,
		  const struct numa_policy *policy, const struct keep *keep);
void hugepages_unmap(struct mapping *mapping);

/*
 * Maps further extents, with pages of the same size, until there are @count. Returns 0, -ECANCELED
 * or, after logging, another negative errno, and nothing has changed then.
 */
int hugepages_extend(struct mapping *mapping, const struct store_options *options,
		     const struct numa_policy *policy, const struct keep *keep, unsigned int count);
/* Gives back the memory of all extents from @count on; their addresses stay reserved. */
void hugepages_cut(struct mapping *mapping, const struct keep *keep, unsigned int count);

/*
 * The nr_hugepages that makes @needed pages available, if it is @total now and @available of these
 * are neither in use nor reserved.
 */
uint64_t hugepages_to_configure(uint64_t total, uint64_t available, uint64_t needed);

#endif /* KVD_SERVER_STORE_HUGEPAGES_H */
