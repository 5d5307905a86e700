/* SPDX-License-Identifier: MIT */
/*
 * The pages the region is made of: a sealed memfd of 1 GiB, 2 MiB or normal pages, mapped and
 * placed on NUMA nodes. What the options of [memory] ask for and the host has not is told in one
 * line, with the command that makes it right.
 */
#ifndef KVD_SERVER_STORE_HUGEPAGES_H
#define KVD_SERVER_STORE_HUGEPAGES_H

#include "server/store/numa.h"
#include "server/store/store_options.h"

struct mapping {
	uint8_t *base; /* NULL: nothing is mapped */
	uint64_t bytes;
	uint64_t page_bytes;
	int fd;
};

/*
 * Maps @bytes, rounded up to whole pages. Returns 0 or a negative errno after logging; @mapping holds
 * nothing then.
 */
int hugepages_map(struct mapping *mapping, uint64_t bytes, enum hugepages_mode mode,
		  const struct numa_policy *policy);
void hugepages_unmap(struct mapping *mapping);

/*
 * What nr_hugepages has to be for @needed more pages, where it is @total now and @available of them
 * are neither in use nor reserved.
 */
uint64_t hugepages_to_configure(uint64_t total, uint64_t available, uint64_t needed);

#endif /* KVD_SERVER_STORE_HUGEPAGES_H */
