/* SPDX-License-Identifier: MIT */
/* The index's geometry: at which offset a bucket is, as far as this client knows. */
#ifndef KVD_CLIENT_LIBKVD_GEOMETRY_H
#define KVD_CLIENT_LIBKVD_GEOMETRY_H

#include "client/libkvd/handle.h"

/* The level that bucket @number has, or had when the geometry was read. */
uint8_t bucket_level(const struct geometry *g, uint64_t number);
/*
 * The offset of bucket @number, which may be behind the index's end as the geometry has it. False
 * if it is unknown or out of the region.
 */
bool bucket_offset(const struct kvd *handle, uint64_t number, uint64_t *offset);
/* Takes what another handle has READ, and says whether that is newer. */
bool geometry_adopt(struct kvd *handle);
/* Whether the geometry should be READ again: not if it was in the last millisecond. */
bool geometry_due(const struct kvd *handle);
/*
 * READs it again, unless that is under way: then the lookups that wait for it, geometry_waiters, go
 * on. Keeps the old one if what is READ is being changed each time.
 */
void geometry_read(struct kvd *handle);
#endif /* KVD_CLIENT_LIBKVD_GEOMETRY_H */
