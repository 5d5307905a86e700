/* SPDX-License-Identifier: MIT */
/*
 * The addresses that the configuration asks to serve at; and why one can't be used, with the option
 * to change, which the device interface does not know.
 */
#ifndef KVD_SERVER_CONTROL_NIC_ADDRESS_H
#define KVD_SERVER_CONTROL_NIC_ADDRESS_H

#include <stdbool.h>

#include "common/rdma/device.h"
#include "server/config/config.h"

/* Whether softnic's socket is the default one. */
bool nic_address_default(const struct config *config);

/* Of verbs, of verbs-tcp, of verbs-tls, and softnic's. */
#define NIC_ADDRESSES_MAX (3 * OPTION_ADDRESSES_COUNT_MAX + 1)

struct nic_addresses {
	struct device_addr addr[NIC_ADDRESSES_MAX];
	unsigned int count;
	const char *why; /* the reason for which their devices were chosen */
};

/* Their names of files are @config's. */
void nic_addresses(struct nic_addresses *list, const struct config *config);

/* The files that the configuration names; the names are its own. */
struct tls_files nic_address_tls(const struct config *config);

/* The option that says where to listen with devices of this kind: "rdma.port". */
const char *nic_address_option(enum device_kind kind);

/* Logs why device_open() of the address failed. */
void nic_address_error(const struct config *config, const struct device_addr *addr, int err);

/*
 * Checks, without changing anything, that a server could listen at the address. That one listens
 * there already is no error, and a warning if @warn: it may be the one whose configuration is
 * checked. 0 or a negative errno after logging.
 */
int nic_address_check(const struct config *config, const struct device_addr *addr, bool warn);

#endif /* KVD_SERVER_CONTROL_NIC_ADDRESS_H */
