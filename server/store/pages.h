/* SPDX-License-Identifier: MIT */
/*
 * The pages the region is made of: a sealed memfd of 1 GiB, 2 MiB or normal pages, mapped and
 * placed on NUMA nodes. What the options of [memory] ask for and the host has not is told in one
 * line, with the command that makes it right.
 */
#ifndef KVD_SERVER_STORE_PAGES_H
#define KVD_SERVER_STORE_PAGES_H

#include "server/store/placement.h"
#include "server/store/region.h"

/*
 * Sets base, bytes (rounded up to whole pages), page_bytes and fd of @region. Returns 0 or a negative
 * errno after logging; @region holds nothing then.
 */
int pages_map(struct region *region, uint64_t bytes, enum hugepages_mode mode,
	      const struct placement *placement);
void pages_unmap(struct region *region);

/*
 * What nr_hugepages has to be for @needed more pages, where it is @total now and @available of them
 * are neither in use nor reserved.
 */
uint64_t pages_to_configure(uint64_t total, uint64_t available, uint64_t needed);

#endif /* KVD_SERVER_STORE_PAGES_H */
