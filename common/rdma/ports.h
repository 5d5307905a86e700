/* SPDX-License-Identifier: MIT */
/*
 * The ports of this host's RDMA devices, for programs that list them: what the devices can do, and
 * the GID that a connection of kvd would have, from the code that chooses it.
 */
#ifndef KVD_COMMON_RDMA_PORTS_H
#define KVD_COMMON_RDMA_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct device_port {
	char name[IBV_SYSFS_NAME_MAX];
	uint8_t number; /* from 1 on */
	bool iwarp;	/* rdma:// alone: connections have no GID */
	/* A negative errno: the device can't be opened, and the fields below are 0. */
	int error;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	/*
	 * The GID that a connection would have by the first IPv4 address of the port's network
	 * device, if there is one, else by any address.
	 */
	bool has_gid;
	struct ibv_gid_entry gid;
	/* A negative errno: no queue pair can be made. */
	int qp_error;
	uint32_t inline_bytes; /* inline bytes possible, of those asked for */
};

/*
 * Fills @ports with at most @max ports. @inline_bytes is tried with a queue pair that is created
 * and destroyed. Returns the number of ports, or a negative errno: the kernel can't be asked.
 * Blocks as far as the drivers do. Any thread.
 */
int device_ports(struct device_port *ports, int max, uint32_t inline_bytes);

#endif /* KVD_COMMON_RDMA_PORTS_H */
