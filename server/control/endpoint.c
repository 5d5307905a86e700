/* SPDX-License-Identifier: MIT */
#include "server/control/endpoint.h"

#include <errno.h>
#include <string.h>

#include "common/util/log.h"
#include "server/control/nic_address.h"

/* Connection requests that may wait to be handled; the device refuses more. */
#define LISTEN_BACKLOG 128

int endpoint_reopen(struct endpoint *endpoint)
{
	const struct device_addr *addr = &endpoint->addr;
	int err = 0;

	if (addr->kind == DEVICE_SOFTNIC)
		err = socket_folder_make(&endpoint->folder, addr->path, nic_address_default(addr));
	if (!err)
		err = device_open(&endpoint->dev, addr, DEVICE_LISTEN, 0);
	if (err)
		socket_folder_release(&endpoint->folder);
	return err;
}

int endpoint_open(struct endpoint *endpoint, const struct device_addr *addr,
		  const struct config *config)
{
	int err;

	*endpoint = (struct endpoint){ .addr = *addr };
	err = endpoint_reopen(endpoint);
	if (err)
		nic_address_error(config, addr, err);
	return err;
}

int endpoint_init(struct endpoint *endpoint)
{
	struct device *dev = endpoint->dev;
	int err = dev->ops->create_cm_channel(dev, &endpoint->channel);

	if (err)
		log_error("device %s: can't create a channel for connection events: %s%s",
			  dev->name, strerror(-err), err == -EMFILE ? "; " ADVICE_OPEN_FILES : "");
	return err;
}

int endpoint_listen(struct endpoint *endpoint)
{
	struct device *dev = endpoint->dev;
	int err = dev->ops->listen(endpoint->channel, LISTEN_BACKLOG, &endpoint->listener);

	if (err)
		log_error("device %s: can't listen on %s%s: %s; set another URL in server.listen",
			  dev->name, device_scheme(dev->kind), dev->address, strerror(-err));
	else
		log_notice("listening on %s%s", device_scheme(dev->kind), dev->address);
	return err;
}

void endpoint_release(struct endpoint *endpoint)
{
	const struct device_ops *ops;

	if (!endpoint->dev)
		return;
	ops = endpoint->dev->ops;
	ops->destroy_id(endpoint->listener);
	endpoint->listener = NULL;
	ops->destroy_cm_channel(endpoint->channel);
	endpoint->channel = NULL;
	endpoint->watched = false;
}

void endpoint_close(struct endpoint *endpoint)
{
	device_close(endpoint->dev);
	endpoint->dev = NULL;
	socket_folder_release(&endpoint->folder);
}
