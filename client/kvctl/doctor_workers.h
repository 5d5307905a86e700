/* SPDX-License-Identifier: MIT */
/*
 * Whether the workers of servers on this host run on the NUMA node of the RDMA device that they
 * use. On another node each access to the device goes through another CPU's memory controller.
 */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_WORKERS_H
#define KVD_CLIENT_KVCTL_DOCTOR_WORKERS_H

#include "client/kvctl/doctor_host.h"

struct doctor_workers {
	unsigned int pid;
	unsigned int count;
	unsigned int away; /* workers that may run on CPUs of other nodes */
};

/*
 * Adds to @list at most @max servers that have an RDMA device open, as far as this user may see
 * them. @cpus: the CPUs of the node, "0-7,16-23". Returns how many there are.
 */
unsigned int doctor_workers_read(struct doctor_workers *list, unsigned int max, const char *proc,
				 const char *cpus);

/* Adds a warning for each server with such workers. */
void doctor_check_workers(struct findings *findings, const char *device, const char *cpus,
			  const struct doctor_workers *list, unsigned int count);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_WORKERS_H */
