/* SPDX-License-Identifier: MIT */
/*
 * The extents of the server's region (common/layout.h) that the client may READ. The welcome has
 * the keys of those that existed then. When a lookup leads to a later one, the server does that
 * GET, and the client asks for its key, with which the next lookups READ there. Internal to libkvd.
 */
#ifndef KVD_CLIENT_LIBKVD_EXTENTS_H
#define KVD_CLIENT_LIBKVD_EXTENTS_H

#include "client/libkvd/handle.h"

/* NULL, or what is wrong with what a welcome that allows READs says of the extents. */
const char *extents_check(const struct wire_welcome *welcome);
/* Takes the keys of the first @count extents, which conn.extent_bytes fits. */
void extents_take(struct kvd *handle, const uint32_t *rkeys, uint32_t count);
/* Asks for the keys of all extents, but not more often than makes sense. */
void extents_ask(struct kvd *handle);
/* Looks up where extents are mapped here, of which that is not known. */
void extents_find(struct kvd *handle);

/* Whether @offset is in an extent of which the client has no key; then it asks for more keys. */
static inline bool region_lacks(struct kvd *handle, uint64_t offset)
{
	if (offset < handle->conn.readable || offset >= handle->geometry.region_bytes)
		return false;
	extents_ask(handle);
	return true;
}

#endif /* KVD_CLIENT_LIBKVD_EXTENTS_H */
