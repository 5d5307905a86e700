/* SPDX-License-Identifier: MIT */
/*
 * The addresses that server.listen names; and the message for one that can't be used, which says
 * what to change.
 */
#ifndef KVD_SERVER_CONTROL_NIC_ADDRESS_H
#define KVD_SERVER_CONTROL_NIC_ADDRESS_H

#include <stdbool.h>

#include "common/rdma/device.h"
#include "server/config/config.h"
#include "server/config/listen_list.h"

/* Whether @addr is softnic's default socket, named by the configuration or not. */
bool nic_address_default(const struct device_addr *addr);

struct nic_addresses {
	struct device_addr addr[LISTEN_MAX];
	unsigned int count;
	const char *why; /* why their devices were chosen */
};

/* The addresses point to file names in @config. */
void nic_addresses(struct nic_addresses *list, const struct config *config);

/* The files that the configuration names; the result points to its strings. */
struct tls_files nic_address_tls(const struct config *config);

/* Logs why device_open() of the address failed. */
void nic_address_error(const struct config *config, const struct device_addr *addr, int err);

/*
 * Checks, without changing anything, that a server could listen at the address. An address in use
 * is no error, but a warning if @warn: the server whose configuration is checked may be running. 0
 * or a negative errno after logging.
 */
int nic_address_check(const struct config *config, const struct device_addr *addr, bool warn);

#endif /* KVD_SERVER_CONTROL_NIC_ADDRESS_H */
