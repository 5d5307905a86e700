/* SPDX-License-Identifier: MIT */
/*
 * The facts of this host that `kvctl doctor` judges, and the checks that judge them. Facts come
 * from /sys, /proc, /dev and /lib/modules, whose folders are arguments, so that tests can give
 * others.
 */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_HOST_H
#define KVD_CLIENT_KVCTL_DOCTOR_HOST_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/kvctl/doctor_finding.h"

#define DOCTOR_NETDEVS_MAX 64

/* Folders, without a slash at the end. */
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
 * What is not there is 0, false or "". Limits are those of this process. Does not fail; reads files
 * alone.
 */
void doctor_host_read(struct doctor_host *host, const struct doctor_roots *roots);

/*
 * The first line of the file @path in folder @root, cut to @size bytes and without its newline; ""
 * if there is none.
 */
void doctor_line_read(const char *root, const char *path, char *line, size_t size);

/* NULL: there is none of that name. */
const struct doctor_netdev *doctor_netdev_find(const struct doctor_host *host, const char *name);

/* Each adds at least one finding, whatever it finds. The first one does all that follow. */
void doctor_check_host(struct findings *findings, const struct doctor_host *host);
void doctor_check_modules(struct findings *findings, const struct doctor_host *host);
void doctor_check_memlock(struct findings *findings, const struct doctor_host *host);
void doctor_check_hugepages(struct findings *findings, const struct doctor_host *host);
void doctor_check_clock(struct findings *findings, const struct doctor_host *host);
/*
 * Of a port of RDMA device @device over Ethernet: @netdev is its network device, and @mtu is the
 * port's active MTU in bytes.
 */
void doctor_check_netdev(struct findings *findings, const struct doctor_host *host,
			 const char *device, const char *netdev, uint32_t mtu);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_HOST_H */
