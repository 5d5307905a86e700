/* SPDX-License-Identifier: MIT */
#include "server/server.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"

#define DEVICES_FOLDER "/sys/class/infiniband"

/* The node that memory.numa = local means, if this host has an RDMA device. */
static struct numa_local local_node(char name[IBV_SYSFS_NAME_MAX])
{
	return (struct numa_local){
		.node = device_verbs_present(name) ? nic_numa_node(DEVICES_FOLDER, name) : -1,
		.device = name,
	};
}

static int server_init_store(struct server *server)
{
	const struct config *config = &server->config;
	char device[IBV_SYSFS_NAME_MAX];
	const struct numa_local local = local_node(device);
	const struct store_options options = {
		.bytes = config->memory.size,
		.hugepages = (enum hugepages_mode)config->memory.hugepages,
		.numa = config->memory.numa,
		.local = &local,
		.level = index_level(config->index.keys),
		.value_max = config->limits.max_value,
		.fill = config->index.fill,
		.eviction = (enum eviction_policy)config->memory.eviction,
		.sweep_share = config->expiry.sweep_share,
	};

	return store_create(&server->store, &options);
}

static int server_init_nics(struct server *server)
{
	static const enum device_kind kinds[NIC_MAX] = { DEVICE_VERBS, DEVICE_SOFTNIC };
	const char *why;
	uint32_t chosen = nic_choose(server->config.server.device, &why);
	unsigned int i;
	int err;

	for (i = 0; i < NIC_MAX; i++) {
		if (!(chosen & kinds[i]))
			continue;
		err = nic_init(&server->nics[server->nic_count], kinds[i], &server->config,
			       &server->store.region, why);
		if (err)
			return err;
		server->nic_count++;
	}
	return 0;
}

/* The @n-th CPU this process may run on, or -1 if there are not that many. */
static int allowed_cpu(const cpu_set_t *set, unsigned int n)
{
	int cpu;

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set) && !n--)
			return cpu;
	return -1;
}

static int server_init_workers(struct server *server)
{
	cpu_set_t set;
	unsigned int i, n = server->config.server.workers;
	int err;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set))
		CPU_SET(0, &set);
	if (!n)
		n = (unsigned int)CPU_COUNT(&set);
	if (n > WORKERS_MAX)
		n = WORKERS_MAX;
	server->workers = calloc(n, sizeof(*server->workers));
	if (!server->workers)
		return -ENOMEM;
	server->worker_count = n;
	for (i = 0; i < n; i++) {
		err = worker_init(&server->workers[i], server, i,
				  server->config.server.pin ? allowed_cpu(&set, i) : -1);
		if (err)
			return err;
	}
	return 0;
}

int server_init(struct server *server)
{
	int err;

	server->started_ns = clock_ns();
	err = mailbox_init(&server->mailbox);
	if (err)
		return err;
	err = server_init_store(server);
	if (!err)
		err = server_init_nics(server);
	if (!err)
		err = server_init_workers(server);
	if (err)
		server_release(server);
	return err;
}

void server_release(struct server *server)
{
	unsigned int i;

	for (i = 0; i < server->worker_count; i++)
		worker_release(&server->workers[i]);
	free(server->workers);
	server->workers = NULL;
	server->worker_count = 0;
	while (server->nic_count)
		nic_release(&server->nics[--server->nic_count]);
	store_destroy(&server->store);
	mailbox_release(&server->mailbox);
}
