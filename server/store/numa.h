/* SPDX-License-Identifier: MIT */
/*
 * On which NUMA nodes the region's memory is: the option memory.numa, checked and made a policy.
 *
 * The policy is set on the mapping before its first page is touched, and since the region is a
 * file of memory it holds for everyone who touches it. libnuma reads the nodes' names and knows
 * which of them this process may use.
 */
#ifndef KVD_SERVER_STORE_NUMA_H
#define KVD_SERVER_STORE_NUMA_H

#include <stdbool.h>
#include <stdint.h>

#define NUMA_TEXT_MAX 96

struct bitmask;

struct numa_policy {
	struct bitmask *nodes;	  /* NULL: the kernel's policy, nothing is done */
	bool bound;		  /* to the nodes, and not spread over them */
	int node;		  /* the only one it is bound to, or -1 */
	char text[NUMA_TEXT_MAX]; /* "default", "nodes 0-1", ...: for the log and statistics */
};

/* What "local" means: the node of the device that clients read the region through. */
struct numa_local {
	int node;	    /* -1: not known, the node of the CPU this thread runs on */
	const char *device; /* its name */
};

/*
 * @option: default, local, interleave, or nodes; NULL is default. @local may be NULL. Returns 0 or a negative errno after
 * logging: EINVAL when there is no such node, EOPNOTSUPP when the kernel has no NUMA.
 */
int numa_policy_init(struct numa_policy *policy, const char *option,
		     const struct numa_local *local);
void numa_policy_release(struct numa_policy *policy);

/* Sets the policy of a mapping that nobody has touched. 0 or a negative errno after logging. */
int numa_policy_apply(const struct numa_policy *policy, void *base, uint64_t bytes);

#endif /* KVD_SERVER_STORE_NUMA_H */
