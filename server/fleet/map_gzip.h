/* SPDX-License-Identifier: MIT */
/*
 * The map of a fleet as it is in etcd: compressed by gzip (RFC 1952), a sixth of its bytes or so.
 * Each change writes all of it, in the time in which shards that move are frozen, and etcd takes
 * 8 ms for 150 KB, and 1.5 ms for 8 KB; and etcd refuses requests above 1.5 MiB, which the map of a
 * thousand members with long URLs nears. By zlib, which libcurl needs anyway, at its level 1: the
 * others take up to 50 times as long for a fifth less.
 */
#ifndef KVD_SERVER_FLEET_MAP_GZIP_H
#define KVD_SERVER_FLEET_MAP_GZIP_H

#include "common/fleet/map.h"

/* Returns the compressed map, of *@bytes bytes, to be freed by heap_free(); NULL: no memory. */
void *map_gzip(const struct fleet_map *map, size_t *bytes);

/*
 * Makes the map that @from, of @bytes bytes, is. Returns NULL, or what is wrong, as
 * fleet_map_make() does, and *@map is NULL.
 */
const char *map_gunzip(struct fleet_map **map, const void *from, size_t bytes);

#endif /* KVD_SERVER_FLEET_MAP_GZIP_H */
