/* SPDX-License-Identifier: MIT */
/*
 * The map of a fleet that a file names: conf/OPERATIONS.md describes it. The members own shares by
 * weight, placed from nothing (server/fleet/placement.h), so all members that read the same file
 * make the same map.
 */
#ifndef KVD_SERVER_FLEET_STATIC_MAP_H
#define KVD_SERVER_FLEET_STATIC_MAP_H

#include "common/fleet/map.h"

/* Bytes of a file: FLEET_MEMBERS_MAX members with long URLs. */
#define STATIC_MAP_FILE_MAX (4u << 20)
#define STATIC_MAP_WHY_MAX 640

/*
 * Makes the map of the text of a file, which has @length bytes and a zero after them, and is cut in
 * place. 0; -ENOMEM; or -EINVAL with @why (STATIC_MAP_WHY_MAX bytes), "line 3: ...", for the first
 * error. fleet_map_free() frees *@map.
 */
int static_map_parse(struct fleet_map **map, char *text, size_t length, char *why);

/*
 * Reads and parses the file at @path, which only its owner, root or the server's own user, may be
 * able to write. @why: "PATH: ..." or "PATH: line 3: ...".
 */
int static_map_load(struct fleet_map **map, const char *path, char *why);

#endif /* KVD_SERVER_FLEET_STATIC_MAP_H */
