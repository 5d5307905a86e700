/* SPDX-License-Identifier: MIT */
/*
 * Endpoints: addresses that the server listens at. Several may be on one RDMA device and share its
 * struct nic (server/worker/nic.h). The control thread sets them up and releases them.
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
	struct device *dev; /* opened for the address, accepts its connections; or NULL */
	struct nic *nic;    /* the device that they share */
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
/* Opens it again after endpoint_close(), without logging errors. */
int endpoint_reopen(struct endpoint *endpoint);
/* Creates the channel of connection events. 0 or a negative errno after logging. */
int endpoint_init(struct endpoint *endpoint);
/* Starts to accept connections. 0 or a negative errno after logging. */
int endpoint_listen(struct endpoint *endpoint);
/* Stops listening. Release what is on its nic next, then call endpoint_close(). */
void endpoint_release(struct endpoint *endpoint);
void endpoint_close(struct endpoint *endpoint);

#endif /* KVD_SERVER_CONTROL_ENDPOINT_H */
