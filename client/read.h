/* SPDX-License-Identifier: MIT */
/* One-sided reads of the server's region: chains of RDMA READs with one completion each. */
#ifndef KVD_CLIENT_READ_H
#define KVD_CLIENT_READ_H

#include "client/handle.h"

/* A READ of @bytes at @offset of the region to @to, which is in @buf. */
struct read {
	uint64_t offset;
	uint8_t *to;
	const struct reg_buf *buf;
	uint32_t bytes;
};

/* Posts @count (1 to GETS_MAX) READs as one chain and waits until all have completed. */
enum kvd_status read_chain(struct kvd *handle, const struct read *reads, unsigned int count);
/* READs @bytes, in as many READs as the device needs, to the start of scratch, which has room. */
enum kvd_status read_long(struct kvd *handle, uint64_t offset, uint64_t bytes);
/* Whether @bytes at @offset lie inside the region. */
bool region_holds(const struct kvd *handle, uint64_t offset, uint64_t bytes);

#endif /* KVD_CLIENT_READ_H */
