/* SPDX-License-Identifier: MIT */
#include "server/store/placement.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/device.h"
#include "common/util/log.h"

#define DEVICES_FOLDER "/sys/class/infiniband"

/* libnuma's own words on standard error about a node it does not know; said here, in the log. */
void numa_warn(int number, char *format, ...)
{
	(void)number;
	(void)format;
}

/* "0-1,3". What does not fit is cut. */
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
	char there[PLACEMENT_TEXT_MAX];

	log_error("memory.numa = %s: %s; the nodes it may use are: %s", option, what,
		  nodes_text(numa_all_nodes_ptr, there, sizeof(there)));
	return -EINVAL;
}

int placement_device_node(const char *devices, const char *name)
{
	char path[256];
	FILE *in;
	int node;

	snprintf(path, sizeof(path), "%s/%s/device/numa_node", devices, name);
	in = fopen(path, "re");
	if (!in)
		return -1;
	if (fscanf(in, "%d", &node) != 1 || node < 0)
		node = -1;
	fclose(in);
	return node;
}

static int init_local(struct placement *placement)
{
	char name[IBV_SYSFS_NAME_MAX], what[2 * IBV_SYSFS_NAME_MAX];
	int node = -1;

	if (device_verbs_present(name))
		node = placement_device_node(DEVICES_FOLDER, name);
	if (node < 0) {
		node = numa_node_of_cpu(sched_getcpu());
		strcpy(name, "this CPU");
	}
	if (node < 0 || !numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned int)node)) {
		snprintf(what, sizeof(what), "node %d, of %s, has no memory for this process", node,
			 name);
		return refuse_nodes("local", what);
	}
	placement->nodes = numa_allocate_nodemask();
	numa_bitmask_setbit(placement->nodes, (unsigned int)node);
	placement->bound = true;
	placement->node = node;
	snprintf(placement->text, sizeof(placement->text), "local, node %d of %s", node, name);
	return 0;
}

static void init_interleave(struct placement *placement)
{
	char nodes[PLACEMENT_TEXT_MAX - sizeof("interleave, nodes ")];

	placement->nodes = numa_get_mems_allowed();
	snprintf(placement->text, sizeof(placement->text), "interleave, nodes %s",
		 nodes_text(placement->nodes, nodes, sizeof(nodes)));
}

static int init_nodes(struct placement *placement, const char *option)
{
	char nodes[PLACEMENT_TEXT_MAX - sizeof("nodes ")];

	placement->nodes = numa_parse_nodestring(option);
	if (!placement->nodes || !numa_bitmask_weight(placement->nodes))
		return refuse_nodes(option, "this process can't use all of these nodes");
	placement->bound = true;
	snprintf(placement->text, sizeof(placement->text), "nodes %s",
		 nodes_text(placement->nodes, nodes, sizeof(nodes)));
	if (numa_bitmask_weight(placement->nodes) == 1)
		sscanf(nodes, "%d", &placement->node);
	return 0;
}

int placement_init(struct placement *placement, const char *option)
{
	int err = 0;

	*placement = (struct placement){ .node = -1, .text = "default" };
	if (!option || strcmp(option, "default") == 0)
		return 0;
	if (numa_available() < 0) {
		log_error("memory.numa = %s: this kernel has no NUMA policies, or this process may "
			  "not use them (a container's seccomp filter?); set it to default",
			  option);
		return -EOPNOTSUPP;
	}
	if (strcmp(option, "local") == 0)
		err = init_local(placement);
	else if (strcmp(option, "interleave") == 0)
		init_interleave(placement);
	else
		err = init_nodes(placement, option);
	if (err)
		placement_release(placement);
	return err;
}

void placement_release(struct placement *placement)
{
	if (placement->nodes)
		numa_bitmask_free(placement->nodes);
	placement->nodes = NULL;
}

int placement_apply(const struct placement *placement, void *base, uint64_t bytes)
{
	int err;

	/* + 1: the kernel takes one bit less than it is told. */
	if (!placement->nodes || !mbind(base, bytes, placement->bound ? MPOL_BIND : MPOL_INTERLEAVE,
					placement->nodes->maskp, placement->nodes->size + 1, 0))
		return 0;
	err = -errno;
	log_error("region: memory can't be placed on NUMA %s: %m", placement->text);
	return err;
}
