/* SPDX-License-Identifier: MIT */
/* NUMA: parses memory.numa with libnuma and sets the policy of a mapping. */
#include "server/store/numa.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"

/* Replaces libnuma's function, which writes to standard error: errors are logged here. */
void numa_warn(int number, char *format, ...)
{
	(void)number;
	(void)format;
}

/* Writes nodes as in "0-1,3" to @text, cut off at @size. Returns @text. */
static const char *nodes_text(const struct bitmask *nodes, char *text, size_t size)
{
	unsigned int first, last, at = 0;

	text[0] = '\0';
	for (first = 0; first < nodes->size; first = last + 1) {
		last = first;
		if (!numa_bitmask_isbitset(nodes, first))
			continue;
		while (last + 1 < nodes->size && numa_bitmask_isbitset(nodes, last + 1))
			last++;
		at += (unsigned int)snprintf(text + at, size - at, "%s%u", at ? "," : "", first);
		if (at < size && last > first)
			at += (unsigned int)snprintf(text + at, size - at, "-%u", last);
		if (at >= size)
			break;
	}
	return text;
}

static int refuse_nodes(const char *option, const char *what)
{
	char there[NUMA_TEXT_MAX];

	log_error("memory.numa = %s: %s; the nodes it may use are: %s", option, what,
		  nodes_text(numa_all_nodes_ptr, there, sizeof(there)));
	return -EINVAL;
}

static int refuse_memory(const char *option)
{
	log_error("memory.numa = %s: out of memory for a set of nodes", option);
	return -ENOMEM;
}

static int init_local(struct numa_policy *policy, const struct numa_local *local)
{
	const char *name = "this CPU";
	char what[160];
	int node = -1;

	if (local)
		node = local->node;
	if (node >= 0)
		name = local->device;
	else
		node = numa_node_of_cpu(sched_getcpu());
	/* A node may have CPUs or devices and no memory, or be forbidden by a cpuset. */
	if (node < 0 || !numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned int)node)) {
		snprintf(what, sizeof(what), "node %d, of %s, has no memory for this process", node,
			 name);
		return refuse_nodes("local", what);
	}
	policy->nodes = numa_allocate_nodemask();
	if (!policy->nodes)
		return refuse_memory("local");
	numa_bitmask_setbit(policy->nodes, (unsigned int)node);
	policy->bound = true;
	policy->node = node;
	snprintf(policy->text, sizeof(policy->text), "local, node %d of %s", node, name);
	return 0;
}

static int init_interleave(struct numa_policy *policy)
{
	char nodes[NUMA_TEXT_MAX - sizeof("interleave, nodes ")];

	policy->nodes = numa_get_mems_allowed();
	if (!policy->nodes)
		return refuse_memory("interleave");
	policy->interleaved = numa_bitmask_weight(policy->nodes);
	snprintf(policy->text, sizeof(policy->text), "interleave, nodes %s",
		 nodes_text(policy->nodes, nodes, sizeof(nodes)));
	return 0;
}

static int init_nodes(struct numa_policy *policy, const char *option)
{
	char nodes[NUMA_TEXT_MAX - sizeof("nodes ")];

	policy->nodes = numa_parse_nodestring(option);
	if (!policy->nodes || !numa_bitmask_weight(policy->nodes))
		return refuse_nodes(option, "this process can't use all of these nodes");
	policy->bound = true;
	snprintf(policy->text, sizeof(policy->text), "nodes %s",
		 nodes_text(policy->nodes, nodes, sizeof(nodes)));
	if (numa_bitmask_weight(policy->nodes) == 1)
		sscanf(nodes, "%d", &policy->node);
	return 0;
}

int numa_policy_init(struct numa_policy *policy, const char *option, const struct numa_local *local)
{
	int err = 0;

	*policy = (struct numa_policy){ .node = -1, .interleaved = 1, .text = "default" };
	if (!option || strcmp(option, "default") == 0)
		return 0;
	if (numa_available() < 0) {
		log_error("memory.numa = %s: this kernel has no NUMA policies, or this process may "
			  "not use them (a container's seccomp filter?); set it to default",
			  option);
		return -EOPNOTSUPP;
	}
	if (strcmp(option, "local") == 0)
		err = init_local(policy, local);
	else if (strcmp(option, "interleave") == 0)
		err = init_interleave(policy);
	else
		err = init_nodes(policy, option);
	if (err)
		numa_policy_release(policy);
	return err;
}

void numa_policy_release(struct numa_policy *policy)
{
	if (policy->nodes)
		numa_bitmask_free(policy->nodes);
	policy->nodes = NULL;
}

int numa_policy_apply(const struct numa_policy *policy, void *base, uint64_t bytes)
{
	int err;

	/* + 1: the kernel uses one bit less than maxnode says. */
	if (!policy->nodes || !mbind(base, bytes, policy->bound ? MPOL_BIND : MPOL_INTERLEAVE,
				     policy->nodes->maskp, policy->nodes->size + 1, 0))
		return 0;
	err = -errno;
	log_error("region: can't place memory on NUMA %s: %m; choose other nodes in memory.numa",
		  policy->text);
	return err;
}
