/* SPDX-License-Identifier: MIT */
/*
 * Addresses that the server listens at. Several may be of one RDMA device: they share what
 * server/worker/nic.h has of it. The control thread sets them up and releases them.
 */
#ifndef KVD_SERVER_CONTROL_ENDPOINT_H
#define KVD_SERVER_CONTROL_ENDPOINT_H

#include "common/rdma/device.h"
#include "server/config/config.h"
#include "server/control/nic_address.h"
#include "server/control/socket_folder.h"
#include "server/worker/nic.h"

struct endpoint {
	struct device_addr addr;
	struct device *dev; /* opened for the address: its calls make the connections; or NULL */
	struct nic *nic;    /* what they are on */
	struct cm_channel *channel;
	struct cm_id *listener;
	bool watched;		     /* the control loop waits for its events */
	struct socket_folder folder; /* softnic's */
};

/*
 * Opens the device of @addr, and binds the address. 0 or a negative errno after logging, with
 * nothing left to release.
 */
int endpoint_open(struct endpoint *endpoint, const struct device_addr *addr,
		  const struct config *config);
/* The same again, after endpoint_close(), and without a line in the log. */
int endpoint_reopen(struct endpoint *endpoint);
/* Creates the channel of connection events. 0 or a negative errno after logging. */
int endpoint_init(struct endpoint *endpoint);
/* Starts to accept connections. 0 or a negative errno after logging. */
int endpoint_listen(struct endpoint *endpoint);
/* Listens no more. Then what is on its nic may be released, and then endpoint_close() called. */
void endpoint_release(struct endpoint *endpoint);
void endpoint_close(struct endpoint *endpoint);

#endif /* KVD_SERVER_CONTROL_ENDPOINT_H */
