/* SPDX-License-Identifier: MIT */
/* Where the index's buckets are, by a geometry that may be older than the index. */
#ifndef KVD_CLIENT_GEOMETRY_H
#define KVD_CLIENT_GEOMETRY_H

#include "client/handle.h"

/* The level that bucket @number has at least. */
uint8_t bucket_level(const struct geometry *g, uint64_t number);
/* The place of bucket @number, which the geometry need not reach yet. False: it is not known. */
bool bucket_offset(const struct kvd *handle, uint64_t number, uint64_t *offset);
/*
 * READs the geometry anew, to the buckets' buffer, unless that was done in the last millisecond or
 * what is read is being changed each time. Fails if the connection does.
 */
enum kvd_status geometry_refresh(struct kvd *handle);

/* The place of a key's home bucket. */
static inline uint64_t home_offset(const struct kvd *handle, uint64_t hash)
{
	return geometry_bucket_offset(&handle->geometry, geometry_home(&handle->geometry, hash));
}

#endif /* KVD_CLIENT_GEOMETRY_H */
