/* SPDX-License-Identifier: MIT */
/*
 * Tests of NUMA policies on hosts with several nodes, which the host of the tests need not have:
 * what libnuma and the kernel say is the test's. test_region has what this host's kernel does.
 */
#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/log_fixture.h"

#define NODES_MAX 1024u

static struct {
	struct bitmask *nodes; /* with memory, for this process */
	bool no_policies;      /* in its kernel */
	bool no_memory;	       /* for sets of nodes */
	int cpu_node;	       /* of this CPU */
	unsigned int sets;     /* allocated */
	/* The last policy of a mapping, and what the kernel says to it. */
	int mode, error;
	struct bitmask set;
} host;

static int host_available(void)
{
	return host.no_policies ? -1 : 0;
}

static struct bitmask *host_set(void)
{
	if (host.no_memory)
		return NULL;
	host.sets++;
	return numa_bitmask_alloc(NODES_MAX);
}

static struct bitmask *host_allowed(void)
{
	struct bitmask *set = host_set();

	if (set)
		copy_bitmask_to_bitmask(host.nodes, set);
	return set;
}

static void host_free(struct bitmask *set)
{
	host.sets--;
	numa_bitmask_free(set);
}

/* The set of nodes as in "0-1,3"; NULL if the host does not have all of them. */
static struct bitmask *host_parse(const char *text)
{
	struct bitmask *set = host_set();
	unsigned long first, last;
	char *at = (char *)text;

	do {
		at += *at == ',';
		first = last = strtoul(at, &at, 10);
		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; first <= last; first++) {
			if (!numa_bitmask_isbitset(host.nodes, (unsigned int)first)) {
				host_free(set);
				return NULL;
			}
			numa_bitmask_setbit(set, (unsigned int)first);
		}
	} while (*at == ',');
	return set;
}

static long host_bind(void *base, unsigned long bytes, int mode, const unsigned long *set,
		      unsigned long size, unsigned int flags)
{
	(void)base;
	(void)bytes;
	assert_int_equal(flags, 0);
	host.mode = mode;
	host.set = (struct bitmask){ .size = size - 1, .maskp = (unsigned long *)set };
	errno = host.error;
	return host.error ? -1 : 0;
}

#define numa_all_nodes_ptr host.nodes
#define numa_available host_available
#define numa_node_of_cpu(cpu) host.cpu_node
#define numa_allocate_nodemask host_set
#define numa_get_mems_allowed host_allowed
#define numa_parse_nodestring host_parse
#define numa_bitmask_free host_free
#define mbind host_bind
#include "server/store/numa.c"
#undef numa_bitmask_free

static struct numa_policy policy;

static int setup(void **state)
{
	(void)state;
	memset(&host, 0, sizeof(host));
	host.nodes = numa_bitmask_alloc(NODES_MAX);
	for (unsigned int node = 0; node < 6; node++)
		numa_bitmask_setbit(host.nodes, node);
	return test_log_begin();
}

/* What was allocated for a policy is free again, however it was made. */
static int teardown(void **state)
{
	(void)state;
	numa_policy_release(&policy);
	numa_policy_release(&policy);
	assert_int_equal(host.sets, 0);
	numa_bitmask_free(host.nodes);
	log_release();
	return 0;
}

static void init(const char *option, const struct numa_local *local)
{
	numa_policy_release(&policy);
	assert_int_equal(numa_policy_init(&policy, option, local), 0);
}

/* The mapping's policy is of these nodes, of the first 64. */
static void assert_applied(int mode, uint64_t nodes)
{
	host.mode = -1;
	assert_int_equal(numa_policy_apply(&policy, &host, sizeof(host)), 0);
	assert_int_equal(host.mode, mode);
	for (unsigned int node = 0; node < 64; node++)
		assert_int_equal(numa_bitmask_isbitset(&host.set, node), nodes >> node & 1);
}

static void by_default(void **state)
{
	static const char *const options[] = { NULL, "default" };

	(void)state;
	host.mode = -1;
	for (unsigned int i = 0; i < 2; i++) {
		init(options[i], NULL);
		assert_string_equal(policy.text, "default");
		assert_int_equal(policy.node, -1);
		assert_int_equal(policy.interleaved, 1);
		assert_int_equal(numa_policy_apply(&policy, &host, sizeof(host)), 0);
	}
	assert_int_equal(host.mode, -1);
}

static void bound_to_nodes(void **state)
{
	static const struct {
		const char *option, *text;
		int node;
		uint64_t nodes;
	} cases[] = {
		{ "0", "nodes 0", 0, 1 },
		{ "3", "nodes 3", 3, 8 },
		{ "2-2", "nodes 2", 2, 4 },
		{ "0-1,3", "nodes 0-1,3", -1, 0xb },
		{ "5,4,2", "nodes 2,4-5", -1, 0x34 },
		{ "1,3,5", "nodes 1,3,5", -1, 0x2a },
		{ "0,1,2-5", "nodes 0-5", -1, 0x3f },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		init(cases[i].option, NULL);
		assert_string_equal(policy.text, cases[i].text);
		assert_int_equal(policy.node, cases[i].node);
		assert_int_equal(policy.interleaved, 1);
		assert_applied(MPOL_BIND, cases[i].nodes);
	}
	assert_int_equal(test_log_lines(), 0);
}

static void interleaved(void **state)
{
	(void)state;
	numa_bitmask_clearbit(host.nodes, 2);
	init("interleave", NULL);
	assert_string_equal(policy.text, "interleave, nodes 0-1,3-5");
	assert_int_equal(policy.interleaved, 5);
	assert_int_equal(policy.node, -1);
	assert_applied(MPOL_INTERLEAVE, 0x3b);
}

/* The device's node, if it has one; else this CPU's. */
static void local(void **state)
{
	static const struct numa_local device = { 4, "mlx5_1" }, none = { -1, "rxe0" };

	(void)state;
	host.cpu_node = 2;
	init("local", &device);
	assert_string_equal(policy.text, "local, node 4 of mlx5_1");
	assert_int_equal(policy.node, 4);
	assert_applied(MPOL_BIND, 1 << 4);
	init("local", &none);
	assert_string_equal(policy.text, "local, node 2 of this CPU");
	assert_applied(MPOL_BIND, 1 << 2);
	init("local", NULL);
	assert_string_equal(policy.text, "local, node 2 of this CPU");
	assert_int_equal(policy.node, 2);
	assert_applied(MPOL_BIND, 1 << 2);
}

/* A list of nodes that is too long for the text is cut off; the policy has all of them. */
static void long_list(void **state)
{
	unsigned int node;

	(void)state;
	for (node = 0; node < 6; node++)
		numa_bitmask_clearbit(host.nodes, node);
	for (node = 0; node < NODES_MAX; node += 2)
		numa_bitmask_setbit(host.nodes, node);
	init("interleave", NULL);
	assert_int_equal(strncmp(policy.text, "interleave, nodes 0,2,4,6,8,10,", 31), 0);
	assert_in_range(strlen(policy.text), 80, sizeof(policy.text) - 1);
	assert_int_equal(policy.interleaved, NODES_MAX / 2);
	assert_applied(MPOL_INTERLEAVE, 0x5555555555555555);
	assert_int_equal(numa_bitmask_isbitset(&host.set, NODES_MAX - 2), 1);
	assert_int_equal(host.set.size, NODES_MAX);
}

static void refused(const char *option, const struct numa_local *device, int err,
		    const char *logged)
{
	unsigned int lines = test_log_lines();

	numa_policy_release(&policy);
	assert_int_equal(numa_policy_init(&policy, option, device), err);
	assert_int_equal(host.sets, 0);
	assert_int_equal(test_log_lines(), lines + 1);
	assert_logged(logged);
}

static void refusals(void **state)
{
	static const struct numa_local device = { 3, "mlx5_1" };

	(void)state;
	numa_bitmask_clearbit(host.nodes, 3);
	host.cpu_node = 3;
	refused("2-4", NULL, -EINVAL,
		" error memory.numa = 2-4: this process can't use all of these nodes; the nodes "
		"it may use are: 0-2,4-5\n");
	/* Such as a node that has no memory */
	refused("local", &device, -EINVAL,
		" error memory.numa = local: node 3, of mlx5_1, has no memory for this process; "
		"the nodes it may use are: 0-2,4-5\n");
	refused("local", NULL, -EINVAL, "local: node 3, of this CPU, has no memory ");
	host.cpu_node = -1;
	refused("local", NULL, -EINVAL, "local: node -1, of this CPU, has no memory ");
	host.cpu_node = 0;
	host.no_memory = true;
	refused("local", NULL, -ENOMEM, "memory.numa = local: out of memory for a set of nodes");
	refused("interleave", NULL, -ENOMEM, "memory.numa = interleave: out of memory for a set");
	host.no_memory = false;
	host.no_policies = true;
	refused("interleave", NULL, -EOPNOTSUPP,
		" error memory.numa = interleave: this kernel has no NUMA policies");
	init("default", NULL);
}

/* What the kernel refuses is said, and an error. */
static void not_applied(void **state)
{
	(void)state;
	init("1,3", NULL);
	host.error = EPERM;
	assert_int_equal(numa_policy_apply(&policy, &host, sizeof(host)), -EPERM);
	assert_logged(" error region: can't place memory on NUMA nodes 1,3: Operation not "
		      "permitted; ");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(by_default), CASE(bound_to_nodes), CASE(interleaved), CASE(local),
		CASE(long_list),  CASE(refusals),	CASE(not_applied),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
