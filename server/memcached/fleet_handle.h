/* SPDX-License-Identifier: MIT */
/* Handles of libkvd by which a member of a fleet is a client of the fleet, its own member too. */
#ifndef KVD_SERVER_MEMCACHED_FLEET_HANDLE_H
#define KVD_SERVER_MEMCACHED_FLEET_HANDLE_H

#include "client/kvd.h"
#include "server/fleet/fleet.h"
#include "server/fleet/fleet_tls.h"

#define FLEET_HANDLE_WHY_MAX 256

/* As whom handles are opened; constant. */
struct fleet_identity {
	const struct fleet *fleet;
	struct fleet_tls *tls;
};

/*
 * Opens a handle of the fleet, for the tenant; at first it asks this server itself for the map.
 * Blocks for some seconds at most; the thread is registered as an RCU reader, and offline.
 */
enum kvd_status fleet_handle_open(const struct fleet_identity *identity, const char *tenant,
				  uint32_t timeout_ms, struct kvd **handle,
				  char why[FLEET_HANDLE_WHY_MAX]);
/*
 * Opens a handle for one member of the fleet of @home, number @number. KVD_NOT_FOUND: there is no
 * such member.
 */
enum kvd_status member_handle_open(const struct fleet_identity *identity, const char *tenant,
				   uint32_t timeout_ms, struct kvd *home, uint32_t number,
				   struct kvd **handle, char why[FLEET_HANDLE_WHY_MAX]);

#endif /* KVD_SERVER_MEMCACHED_FLEET_HANDLE_H */
