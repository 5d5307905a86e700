/* SPDX-License-Identifier: MIT */
/* Sets the server up from its configuration, and releases it. */
#include "server/server.h"

#include <string.h>

#include "common/util/clock.h"
#include "server/worker/conn.h"

/* Memory of the process without workers and connections: code, libraries, stacks. */
#define PROCESS_BYTES ((uint64_t)12 << 20)

/* The NUMA node for memory.numa = local: the RDMA device's, or -1 if there is none. */
static struct numa_local local_node(const struct config *config, char name[IBV_SYSFS_NAME_MAX])
{
	struct numa_local local = { .node = -1, .device = name };

	/* In this order: device_verbs_present() opens the RDMA devices. */
	if (!strcmp(config->memory.numa, "local") && device_verbs_present(name))
		local.node = nic_numa_node(NIC_DEVICES_FOLDER, name);
	return local;
}

static bool serves_verbs(const struct config *config)
{
	const char *why;

	return nic_choose(config, &why) & DEVICES_VERBS;
}

static void store_setup_init(struct store_setup *setup, const struct config *config,
			     const struct fleet *fleet)
{
	setup->local = local_node(config, setup->device);
	setup->options = (struct store_options){
		.bytes = config->memory.size,
		.hugepages = (enum hugepages_mode)config->memory.hugepages,
		/* A verbs device pins all pages anyway, one after another. */
		.prefault = config->memory.prefault || serves_verbs(config),
		.dump = config->memory.dump,
		.bytes_beside = PROCESS_BYTES + nic_workers_bytes(config) + conns_bytes(config) +
				identities_bytes(config->limits.identities),
		.numa = config->memory.numa,
		.local = &setup->local,
		.level = index_level(config->index.keys),
		.value_max = config_value_max(config),
		.fill = INDEX_FILL,
		.eviction = (enum eviction_policy)config->memory.eviction,
		.curve = config->memory.curve,
		.pin_share = config->memory.pin_share,
		.pin_time_max = (uint32_t)(config->memory.pin_time_max / 1000000000u),
		.sweep_share = EXPIRY_SWEEP_SHARE,
		.hash_seed = fleet->hash_seed,
	};
}

/* Makes @fleet, all zero, if the configuration names one. 0, or a negative errno after logging. */
static int fleet_init(struct fleet *fleet, const struct config *config)
{
	return *config->fleet.file ? fleet_open(fleet, config->fleet.file, config->fleet.member) :
				     0;
}

int server_check(const struct config *config)
{
	struct fleet fleet = { 0 };
	struct store_setup setup;
	int err, fleet_err = fleet_init(&fleet, config);

	store_setup_init(&setup, config, &fleet);
	fleet_close(&fleet);
	err = store_check(&setup.options);
	err = fleet_err ? fleet_err : err;
	if (!err && serves_verbs(config))
		err = nic_check_memlock(config, config->memory.size + config->tenants.memory);
	return err;
}

/* A map of a file: the word of all stores has no end. */
static void fleet_begin(struct server *server)
{
	const struct fleet_head *head = server->fleet.view->map->head;
	const struct fleet_word word = {
		.generation = head->generation,
		.epoch = head->epoch,
		.end_ns = UINT64_MAX,
	};

	server->fleet.turns_wait = net_turns_wait;
	server->fleet.workers = &server->net;
	fleet_stores_word(&server->fleet_stores, &word);
	fleet_announce(&server->fleet);
}

int server_init(struct server *server)
{
	struct worker_env env = {
		.config = &server->config,
		.store = &server->store,
		.store_options = &server->setup.options,
		.stats_print = stats_print,
		.stats_source = &server->stats_source,
	};
	int err;

	server->stats_source = (struct stats_source){
		.net = &server->net,
		.fleet = &server->fleet,
		.started_ns = clock_ns(),
	};
	err = net_check(&server->config, false);
	if (!err)
		err = server_check(&server->config);
	if (!err)
		err = fleet_init(&server->fleet, &server->config);
	fleet_stores_init(&server->fleet_stores);
	if (server->fleet.view)
		fleet_begin(server);
	if (!err)
		err = net_open(&server->net, &server->config);
	if (!err) {
		store_setup_init(&server->setup, &server->config, &server->fleet);
		if (server->fleet.view) {
			env.fleet = &server->fleet;
			env.fleet_stores = &server->fleet_stores;
		}
		err = net_init(&server->net, &env);
	}
	if (err)
		server_release(server);
	return err;
}

void server_release(struct server *server)
{
	net_release(&server->net);
	fleet_stores_release(&server->fleet_stores);
	fleet_close(&server->fleet);
}
