/* SPDX-License-Identifier: MIT */
/* The index's geometry: the offsets of buckets, as far as this client knows. */
#ifndef KVD_CLIENT_LIBKVD_GEOMETRY_H
#define KVD_CLIENT_LIBKVD_GEOMETRY_H

#include "client/libkvd/handle.h"

/* The level that bucket @number has, or had when the geometry was read. */
uint8_t bucket_level(const struct geometry *g, uint64_t number);
/*
 * The offset of bucket @number, which may be past the end of the index by this geometry. False if
 * it is unknown or out of the region.
 */
bool bucket_offset(const struct kvd *handle, uint64_t number, uint64_t *offset);
/* Takes the geometry that another handle has READ, if it is newer. Returns whether it was. */
bool geometry_adopt(struct kvd *handle);
/* Whether the geometry should be READ again: not if it was in the last millisecond. */
bool geometry_due(const struct kvd *handle);
/*
 * READs the geometry, unless that is under way already; then the lookups in geometry_waiters go on.
 * Keeps the old one if each READ finds it being changed.
 */
void geometry_read(struct kvd *handle);
#endif /* KVD_CLIENT_LIBKVD_GEOMETRY_H */
