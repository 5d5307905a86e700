/* SPDX-License-Identifier: MIT */
/*
 * The addresses that server.listen asks to serve at; and why one can't be used, with what to
 * change, which the device interface does not know.
 */
#ifndef KVD_SERVER_CONTROL_NIC_ADDRESS_H
#define KVD_SERVER_CONTROL_NIC_ADDRESS_H

#include <stdbool.h>

#include "common/rdma/device.h"
#include "server/config/config.h"
#include "server/config/listen_list.h"

/* Whether it is softnic's default socket, named by the configuration or not. */
bool nic_address_default(const struct device_addr *addr);

struct nic_addresses {
	struct device_addr addr[LISTEN_MAX];
	unsigned int count;
	const char *why; /* the reason for which their devices were chosen */
};

/* Their names of files are @config's. */
void nic_addresses(struct nic_addresses *list, const struct config *config);

/* The files that the configuration names; the names are its own. */
struct tls_files nic_address_tls(const struct config *config);

/* Logs why device_open() of the address failed. */
void nic_address_error(const struct config *config, const struct device_addr *addr, int err);

/*
 * Checks, without changing anything, that a server could listen at the address. That one listens
 * there already is no error, and a warning if @warn: it may be the one whose configuration is
 * checked. 0 or a negative errno after logging.
 */
int nic_address_check(const struct config *config, const struct device_addr *addr, bool warn);

#endif /* KVD_SERVER_CONTROL_NIC_ADDRESS_H */
