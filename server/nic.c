/* SPDX-License-Identifier: MIT */
#include "server/nic.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"

/* Connection requests that wait to be looked at; more are refused by the device. */
#define LISTEN_BACKLOG 128

uint32_t nic_choose(uint32_t configured, const char **why)
{
	char name[IBV_SYSFS_NAME_MAX];

	if (configured) {
		*why = "the configuration asks for it";
		return configured;
	}
	if (device_verbs_present(name)) {
		*why = "device = auto, and this host has an RDMA device";
		return DEVICE_VERBS;
	}
	*why = "device = auto, and this host has no RDMA device";
	return DEVICE_SOFTNIC;
}

static void nic_address(struct device_addr *addr, enum device_kind kind,
			const struct config *config)
{
	*addr = (struct device_addr){ .kind = kind };
	memcpy(addr->host, config->rdma.address, sizeof(addr->host));
	addr->port = (uint16_t)config->rdma.port;
	memcpy(addr->path, config->softnic.socket, sizeof(addr->path));
	addr->mode = config->softnic.socket_mode;
}

static int nic_open(struct nic *nic, enum device_kind kind, const struct config *config)
{
	struct device_addr addr;
	int err;

	nic_address(&addr, kind, config);
	err = device_open(&nic->dev, &addr, DEVICE_LISTEN, 0);
	if (err)
		return err;
	return nic->dev->ops->query(nic->dev, &nic->attr, &nic->port);
}

static int nic_register(struct nic *nic, const struct region *region)
{
	const struct device_ops *ops = nic->dev->ops;
	const struct device_mem mem = { region->base, region->bytes, region->fd, 0 };
	int err;

	err = ops->alloc_pd(nic->dev, &nic->pd);
	if (err)
		return err;
	return ops->reg_mr(nic->pd, &mem, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
			   &nic->mr);
}

int nic_init(struct nic *nic, enum device_kind kind, const struct config *config,
	     const struct region *region, const char *why)
{
	int err;

	*nic = (struct nic){ .why = why };
	err = nic_open(nic, kind, config);
	if (!err)
		err = nic_register(nic, region);
	if (!err)
		err = nic->dev->ops->create_cm_channel(nic->dev, &nic->channel);
	if (err) {
		log_error("device %s can't be used: %s", device_kind_name(kind), strerror(-err));
		nic_release(nic);
		return err;
	}
	log_notice("device %s %s: %s", device_kind_name(kind), nic->dev->name, why);
	return 0;
}

int nic_listen(struct nic *nic)
{
	int err = nic->dev->ops->listen(nic->channel, LISTEN_BACKLOG, &nic->listener);

	if (err)
		log_error("can't listen on %s: %s", nic->dev->address, strerror(-err));
	else
		log_notice("listening on %s://%s",
			   nic->dev->kind == DEVICE_VERBS ? "rdma" : "softnic", nic->dev->address);
	return err;
}

void nic_release(struct nic *nic)
{
	const struct device_ops *ops;

	if (!nic->dev)
		return;
	ops = nic->dev->ops;
	ops->destroy_id(nic->listener);
	ops->destroy_cm_channel(nic->channel);
	ops->dereg_mr(nic->mr);
	ops->dealloc_pd(nic->pd);
	device_close(nic->dev);
	nic->dev = NULL;
}
