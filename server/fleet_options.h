/* SPDX-License-Identifier: MIT */
/* The etcd of the fleet, as the configuration names it. */
#ifndef KVD_SERVER_FLEET_OPTIONS_H
#define KVD_SERVER_FLEET_OPTIONS_H

#include "server/config/config.h"
#include "server/fleet/etcd.h"

struct fleet_options {
	struct etcd_options etcd; /* refers to what follows, and to the configuration */
	const char *urls[OPTION_ETCD_MAX];
	char text[OPTION_LIST_MAX];
};

/*
 * Fills in @options, but for etcd.try_ms, of a configuration that has fleet.etcd, and has to stay.
 * @options must not be copied.
 */
void fleet_options_init(struct fleet_options *options, const struct config *config);

/*
 * Checks what a member of a fleet needs: its name, its URLs, and the options and files of etcd, to
 * which it does not connect. 0, also without fleet.etcd, or a negative errno after logging.
 */
int fleet_options_check(const struct config *config);

#endif /* KVD_SERVER_FLEET_OPTIONS_H */
