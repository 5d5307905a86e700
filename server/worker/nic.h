/* SPDX-License-Identifier: MIT */
/*
 * The devices, RDMA or softnic, that the server serves on: what all workers share of each. The
 * control thread sets one up and releases it while no worker uses it; in between all threads read
 * it.
 */
#ifndef KVD_SERVER_WORKER_NIC_H
#define KVD_SERVER_WORKER_NIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "common/rdma/device.h"
#include "server/config/config.h"
#include "server/store/store.h"

#define NIC_MAX 8

/*
 * Connections beyond server.max_connections, of softnic alone, for root and the server's own user:
 * so kvctl can list and close connections when all places are taken. Enough for a few people and a
 * monitoring script at a time; each takes a receive of the first worker.
 */
#define ADMIN_CONNECTIONS 4

enum nic_state {
	NIC_SERVES,
	NIC_CLOSING,   /* it has failed; its connections end */
	NIC_DETACHING, /* no connection is left; the workers stop polling it */
	NIC_AWAY,      /* all that was on it is released: dev is NULL */
};

struct nic {
	struct device *dev; /* the first address's on it, whose owner closes it */
	struct ibv_pd *pd;
	bool windows; /* each connection has one for its READs: server/worker/grant.h */
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	const char *why;   /* the reason for which this device was chosen */
	_Atomic bool gone; /* it has failed: nothing on it completes any more */

	/* The control thread's: server/control/recovery.h. */
	enum nic_state state;
	bool watched;		   /* the control loop waits for its asynchronous events */
	uint32_t conns_count;	   /* connections on it */
	unsigned int workers_left; /* DETACHING: workers that have not answered */
	uint64_t look_at_ns;	   /* SERVES: when to check for it; AWAY: when to look for it */
	/* Copies from dev, which stay when it is gone. */
	enum device_kind kind;
	char name[IBV_SYSFS_NAME_MAX];
	char address[DEVICE_HOST_MAX + 8];
};

/*
 * The ways to serve, DEVICE_* bits, from server.listen or, for auto, from what this host has; *@why
 * says why.
 */
uint32_t nic_choose(const struct config *config, const char **why);

/* Where the kernel lists RDMA devices. */
#define NIC_DEVICES_FOLDER "/sys/class/infiniband"

/* The NUMA node of RDMA device @name in the folder @devices; -1: unknown. */
int nic_numa_node(const char *devices, const char *name);

/*
 * Checks that the device can register @bytes in one piece, as the region is. 0, or -E2BIG after
 * logging both figures.
 */
int nic_check_size(const struct ibv_device_attr *attr, const char *name, uint64_t bytes);

/*
 * Takes an open device, and checks that it can register a region of memory.size, before the
 * region's memory is allocated, which may take minutes. 0 or a negative errno after logging, with
 * nothing to release.
 */
int nic_open(struct nic *nic, struct device *dev, const struct config *config, const char *why);
/*
 * Registers those extents of a region, of the first @count, that are not registered with the device
 * (NULL in @mrs): LOCAL_WRITE | REMOTE_READ, never more (guarantee D); with windows without
 * REMOTE_READ. A child of fork(2) does not map them. Any thread, while no thread releases the nic.
 * 0, or a negative errno after logging; the caller deregisters what is registered then.
 */
int nic_register(struct nic *nic, const struct region *region, uint32_t count, struct ibv_mr **mrs);
/* Deregisters the extents from @first on. */
void nic_deregister(struct nic *nic, uint32_t first, struct ibv_mr **mrs);
/* Allocates the protection domain. 0 or a negative errno after logging. */
int nic_init(struct nic *nic, const struct config *config);
/* Releases what was set up, but the device; sets dev to NULL. No region may be registered still. */
void nic_release(struct nic *nic);

/*
 * Registered memory is locked, and RLIMIT_MEMLOCK bounds the memory that a process may lock, unless
 * it has the capability CAP_IPC_LOCK.
 */
enum memlock_verdict {
	MEMLOCK_ENOUGH,
	MEMLOCK_RAISE, /* the hard limit is enough: raise the soft limit to it */
	MEMLOCK_SHORT,
};

enum memlock_verdict memlock_decide(const struct rlimit *limit, bool capable, uint64_t bytes);

/* An estimate of the workers' buffers, and of the queue entries for them. */
uint64_t nic_workers_bytes(const struct config *config);

/*
 * Makes sure that this process may register the region and the workers' buffers with a verbs
 * device; raises the soft limit if that is enough. 0, or -ENOMEM after logging what is needed and
 * what to do.
 */
int nic_check_memlock(const struct config *config, uint64_t region_bytes);

#endif /* KVD_SERVER_WORKER_NIC_H */
