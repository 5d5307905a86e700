/* SPDX-License-Identifier: MIT */
/*
 * NUMA: makes memory.numa a policy that places the region's memory on nodes.
 *
 * The policy is set on the mapping before its first page is touched. The region is a memfd, so the
 * policy holds for every process that touches it. libnuma parses the nodes and knows which of them
 * this process may use.
 */
#ifndef KVD_SERVER_STORE_NUMA_H
#define KVD_SERVER_STORE_NUMA_H

#include <stdbool.h>
#include <stdint.h>

#define NUMA_TEXT_MAX 96

struct bitmask;

struct numa_policy {
	struct bitmask *nodes;	  /* NULL: the kernel's policy is kept */
	bool bound;		  /* bound to the nodes; else interleaved over them */
	uint32_t interleaved;	  /* nodes over which pages are interleaved; 1: no interleaving */
	int node;		  /* the node, if bound to one only; else -1 */
	char text[NUMA_TEXT_MAX]; /* "default", "nodes 0-1", ...: for the log and statistics */
};

/* What "local" means: the node of the device that clients read the region through. */
struct numa_local {
	int node;	    /* -1: unknown; then the node of this thread's CPU counts */
	const char *device; /* the device's name */
};

/*
 * @option: default, local, interleave, or nodes as in "0-1,3"; NULL is default. @local may be NULL.
 * Returns 0 or, after logging, a negative errno: EINVAL if there is no such node, EOPNOTSUPP if the
 * kernel has no NUMA policies. The caller releases the policy.
 */
int numa_policy_init(struct numa_policy *policy, const char *option,
		     const struct numa_local *local);
void numa_policy_release(struct numa_policy *policy);

/* Sets the policy of a mapping that is not touched yet. Returns 0 or a negative errno, logged. */
int numa_policy_apply(const struct numa_policy *policy, void *base, uint64_t bytes);

#endif /* KVD_SERVER_STORE_NUMA_H */
