/* SPDX-License-Identifier: MIT */
/*
 * A device the server serves on: what all workers share of it. Set up and torn down by the control
 * thread while no worker runs; read by all in between.
 */
#ifndef KVD_SERVER_NET_NIC_H
#define KVD_SERVER_NET_NIC_H

#include <stdbool.h>
#include <sys/resource.h>

#include "common/rdma/device.h"
#include "server/config/config.h"
#include "server/store/store.h"

#define NIC_MAX 2 /* verbs and softnic */

struct nic {
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_mr *mr; /* the region: LOCAL_WRITE | REMOTE_READ, never more (guarantee D) */
	struct cm_channel *channel;
	struct cm_id *listener;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	const char *why; /* this device was chosen */
};

/* Which devices to serve on: DEVICE_* bits for `device = auto` on this host, with the reason. */
uint32_t nic_choose(uint32_t configured, const char **why);

/*
 * The NUMA node of RDMA device @name in the folder @devices (/sys/class/infiniband); -1: it does
 * not say.
 */
int nic_numa_node(const char *devices, const char *name);

/* Opens the device, registers the region, makes the listener's channel. Logs what fails. */
int nic_init(struct nic *nic, enum device_kind kind, const struct config *config,
	     const struct store *store, const char *why);
void nic_release(struct nic *nic);

/*
 * Registered memory is locked memory: what a process may lock (RLIMIT_MEMLOCK) bounds it, unless
 * the process has CAP_IPC_LOCK.
 */
enum memlock_verdict {
	MEMLOCK_ENOUGH,
	MEMLOCK_RAISE, /* the hard limit is enough: raise the soft limit to it */
	MEMLOCK_SHORT,
};

enum memlock_verdict memlock_decide(const struct rlimit *limit, bool capable, uint64_t bytes);

/*
 * Sees to it that this process may register the region and the workers' buffers with a verbs
 * device; raises the soft limit if that suffices. 0, or -ENOMEM after logging what is needed and
 * what to do.
 */
int nic_check_memlock(const struct config *config, uint64_t region_bytes);

/* Starts to take connections. */
int nic_listen(struct nic *nic);

#endif /* KVD_SERVER_NET_NIC_H */
