/* SPDX-License-Identifier: MIT */
/*
 * What an administrator does with a fleet whose map is in etcd: `kvd --fleet-init` makes it, and
 * `kvd --fleet-adopt` lets it go on after etcd was restored from a backup. Both print a line, or an
 * error, and return kvd's exit status: EX_OK; EXIT_FAILURE if etcd, or what it has, is the reason;
 * EX_CONFIG if the configuration is. A transaction whose outcome is unknown is found out about by
 * the map that is there afterwards.
 */
#ifndef KVD_SERVER_FLEET_ADMIN_H
#define KVD_SERVER_FLEET_ADMIN_H

#include "server/config/config.h"

/* Writes the first map, without members, unless there is a map. */
int fleet_admin_init(const struct config *config);

/*
 * Writes the map as the first one of another history (FLEET-1): another generation, an epoch above
 * all that the old history can have had, and rows that no member can prove.
 */
int fleet_admin_adopt(const struct config *config);

#endif /* KVD_SERVER_FLEET_ADMIN_H */
