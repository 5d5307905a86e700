/* SPDX-License-Identifier: MIT */
/* Sets the server up from its configuration, and releases it. */
#include "server/server.h"

#include <string.h>

#include "common/util/clock.h"

/* The NUMA node for memory.numa = local: the RDMA device's, or -1 if there is none. */
static struct numa_local local_node(const struct config *config, char name[IBV_SYSFS_NAME_MAX])
{
	struct numa_local local = { .node = -1, .device = name };

	/* Only then: it opens the RDMA devices. */
	if (!strcmp(config->memory.numa, "local") && device_verbs_present(name))
		local.node = nic_numa_node(NIC_DEVICES_FOLDER, name);
	return local;
}

static int server_init_store(struct server *server)
{
	const struct config *config = &server->config;
	char device[IBV_SYSFS_NAME_MAX];
	const struct numa_local local = local_node(config, device);
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

int server_init(struct server *server)
{
	const struct worker_env env = {
		.config = &server->config,
		.store = &server->store,
		.stats_print = stats_print,
		.stats_source = &server->stats_source,
	};
	int err;

	server->stats_source = (struct stats_source){
		.store = &server->store,
		.net = &server->net,
		.started_ns = clock_ns(),
	};
	err = server_init_store(server);
	if (!err)
		err = net_init(&server->net, &env);
	if (err)
		server_release(server);
	return err;
}

void server_release(struct server *server)
{
	net_release(&server->net);
	store_destroy(&server->store);
}
