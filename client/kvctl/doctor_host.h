/* SPDX-License-Identifier: MIT */
/*
 * The facts of this host that `kvctl doctor` judges, and the checks that judge them. Facts come
 * from /sys, /proc, /dev and /lib/modules; tests can pass other folders.
 */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_HOST_H
#define KVD_CLIENT_KVCTL_DOCTOR_HOST_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/kvctl/doctor_finding.h"

#define DOCTOR_NETDEVS_MAX 64

/* Folders, without a trailing slash. */
struct doctor_roots {
	const char *sys, *proc, *modules, *dev;
};

struct doctor_netdev {
	char name[IFNAMSIZ];
	bool up;
	bool ethernet; /* and no loopback: Soft-RoCE can use it */
	uint32_t mtu;  /* bytes */
};

struct doctor_host {
	struct doctor_netdev netdev[DOCTOR_NETDEVS_MAX];
	unsigned int netdevs;
	bool rdma_present; /* the kernel has an RDMA device */
	bool rxe_loaded, rxe_available, ucm_loaded;
	bool cm_usable; /* this process may use /dev/infiniband/rdma_cm */
	uint64_t hugepages, hugepages_free, hugepage_kib;
	char clock[32], clocks[128];	     /* the clock source in use; all that there are */
	uint64_t memlock_soft, memlock_hard; /* bytes; UINT64_MAX: no limit */
	bool memlock_lifted;		     /* by CAP_IPC_LOCK */
};

/*
 * Reads the facts. What is missing is 0, false or "". Limits are those of this process. Does not
 * fail, and only reads files.
 */
void doctor_host_read(struct doctor_host *host, const struct doctor_roots *roots);

/*
 * The first line of the file @path in folder @root, cut to @size bytes and without its newline; ""
 * if there is none.
 */
void doctor_line_read(const char *root, const char *path, char *line, size_t size);

/* Finds a network device by its name; NULL: there is none. */
const struct doctor_netdev *doctor_netdev_find(const struct doctor_host *host, const char *name);

/* Each check adds at least one finding. The first function makes all the checks below. */
void doctor_check_host(struct findings *findings, const struct doctor_host *host);
void doctor_check_modules(struct findings *findings, const struct doctor_host *host);
void doctor_check_memlock(struct findings *findings, const struct doctor_host *host);
void doctor_check_hugepages(struct findings *findings, const struct doctor_host *host);
void doctor_check_clock(struct findings *findings, const struct doctor_host *host);
/*
 * Checks a port of RDMA device @device over Ethernet: @netdev is its network device, @mtu the
 * port's active MTU in bytes.
 */
void doctor_check_netdev(struct findings *findings, const struct doctor_host *host,
			 const char *device, const char *netdev, uint32_t mtu);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_HOST_H */
