/* SPDX-License-Identifier: MIT */
/*
 * How `kvctl doctor` checks a port of an RDMA device: its state, GID, MTU, limits and NUMA node.
 */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_RDMA_H
#define KVD_CLIENT_KVCTL_DOCTOR_RDMA_H

#include "client/kvctl/doctor_host.h"
#include "common/rdma/ports.h"

/* What clients request for their queue pairs (client/libkvd/connect.c). */
#define DOCTOR_INLINE_BYTES 220u

struct doctor_port {
	struct device_port rdma;
	char netdev[IFNAMSIZ]; /* "": unknown, or none, as on InfiniBand */
	int numa_node;	       /* -1: unknown */
	char node_cpus[64];    /* of that node, "0-7,16-23"; "": unknown */
};

/* Reads what sysfs says about port->rdma. */
void doctor_port_read(struct doctor_port *port, const struct doctor_roots *roots);

void doctor_check_port(struct findings *findings, const struct doctor_host *host,
		       const struct doctor_port *port);

/* Checks all ports of this host, each in a group of its own. */
void doctor_check_ports(struct findings *findings, const struct doctor_host *host,
			const struct doctor_roots *roots);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_RDMA_H */
