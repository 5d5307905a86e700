/* SPDX-License-Identifier: MIT */
/*
 * On which NUMA nodes the region's memory is: the option memory.numa, checked and made a policy.
 *
 * The policy is set on the mapping before its first page is touched, and since the region is a
 * file of memory it holds for everyone who touches it. libnuma reads the nodes' names and knows
 * which of them this process may use.
 */
#ifndef KVD_SERVER_STORE_PLACEMENT_H
#define KVD_SERVER_STORE_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#define PLACEMENT_TEXT_MAX 96

struct bitmask;

struct placement {
	struct bitmask *nodes;	       /* NULL: the kernel's policy, nothing is done */
	bool bound;		       /* to the nodes, and not spread over them */
	int node;		       /* the only one it is bound to, or -1 */
	char text[PLACEMENT_TEXT_MAX]; /* "default", "nodes 0-1", ...: for the log and statistics */
};

/*
 * @option: default, local, interleave, or nodes; NULL is default. Returns 0 or a negative errno after
 * logging: EINVAL when there is no such node, EOPNOTSUPP when the kernel has no NUMA.
 */
int placement_init(struct placement *placement, const char *option);
void placement_release(struct placement *placement);

/* Sets the policy of a mapping that nobody has touched. 0 or a negative errno after logging. */
int placement_apply(const struct placement *placement, void *base, uint64_t bytes);

/* The node of RDMA device @name in the folder @devices (/sys/class/infiniband); -1: it tells none. */
int placement_device_node(const char *devices, const char *name);

#endif /* KVD_SERVER_STORE_PLACEMENT_H */
