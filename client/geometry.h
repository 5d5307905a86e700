/* SPDX-License-Identifier: MIT */
/* The index's geometry: at which offset a bucket is, as far as this client knows. */
#ifndef KVD_CLIENT_GEOMETRY_H
#define KVD_CLIENT_GEOMETRY_H

#include "client/handle.h"

/* The level that bucket @number has, or had when the geometry was read. */
uint8_t bucket_level(const struct geometry *g, uint64_t number);
/*
 * The offset of bucket @number, which may be behind the index's end as the geometry has it. False
 * if it is unknown or out of the region.
 */
bool bucket_offset(const struct kvd *handle, uint64_t number, uint64_t *offset);
/*
 * READs the geometry again, to the buckets' buffer. Keeps the old one if it was read in the last
 * millisecond, or if what is READ is being changed each time. Fails only if the connection does.
 */
enum kvd_status geometry_refresh(struct kvd *handle);

#endif /* KVD_CLIENT_GEOMETRY_H */
