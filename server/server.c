/* SPDX-License-Identifier: MIT */
/* Sets the server up from its configuration, and releases it. */
#include "server/server.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/audit_file.h"
#include "server/crash_report.h"
#include "server/fleet_options.h"
#include "server/log_writer.h"
#include "server/memcached/forwarder.h"
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
		.file = *config->memory.file ? config->memory.file : NULL,
		.recover = (enum recover_mode)config->memory.recover,
		.bytes = config->memory.size,
		.bytes_max = config->memory.max,
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
		.in_fleet = fleet->view,
		.fleet_generation = fleet->view && *config->fleet.file ?
					    fleet->view->map->head->generation :
					    0,
	};
}

/* Shards are shared out by the memory for items, in MiB. */
static uint32_t member_weight(const struct config *config)
{
	uint64_t mib = (config->memory.size + config->tenants.memory) >> 20;

	return mib < UINT32_MAX ? (uint32_t)mib : UINT32_MAX;
}

/* Reads the map from etcd. */
static int fleet_read(struct server *server)
{
	const struct config *config = &server->config;
	struct membership_options options = {
		.urls = server->member.urls,
		.weight = member_weight(config),
		.lease_ns = config->fleet.lease,
	};
	struct fleet_options etcd;
	int err = config_member(config, &server->member);

	if (err)
		return err;
	memcpy(options.id, server->member.id, sizeof(options.id));
	do {
		if (getrandom(&options.incarnation, sizeof(options.incarnation), 0) < 0) {
			err = -errno;
			log_error("fleet: can't name this process: getrandom: %s", strerror(-err));
			return err;
		}
	} while (!options.incarnation);
	fleet_options_init(&etcd, config);
	return membership_thread_open(&server->membership, &etcd.etcd, config->fleet.name, &options,
				      &server->fleet);
}

/* Makes the fleet if the configuration names one. 0, or a negative errno after logging. */
static int fleet_init(struct server *server)
{
	const struct config *config = &server->config;

	if (*config->fleet.etcd)
		return fleet_read(server);
	if (*config->fleet.file)
		return fleet_open(&server->fleet, config->fleet.file, config->fleet.member);
	return 0;
}

int server_check(const struct config *config)
{
	struct fleet fleet = { 0 };
	struct store_setup setup;
	int err, fleet_err = 0;

	/* What fleet.etcd needs is checked by fleet_options_check(), and by fleet_read(). */
	if (*config->fleet.file)
		fleet_err = fleet_open(&fleet, config->fleet.file, config->fleet.member);
	store_setup_init(&setup, config, &fleet);
	fleet_close(&fleet);
	err = store_check(&setup.options);
	err = fleet_err ? fleet_err : err;
	if (!err && serves_verbs(config))
		err = nic_check_memlock(config, config->memory.size + config->tenants.memory);
	return err;
}

/* With a map of a file, the word of all stores has no end; else there is none yet. */
static void fleet_begin(struct server *server)
{
	const struct fleet_head *head = server->fleet.view->map->head;
	const struct fleet_word word = {
		.generation = head->generation,
		.epoch = head->epoch,
		.end_ns = server->fleet.end_ns,
	};

	server->fleet.turns_wait = net_turns_wait;
	server->fleet.workers = &server->net;
	fleet_stores_word(&server->fleet_stores, &word);
	fleet_announce(&server->fleet);
}

void server_renew_tls(struct server *server)
{
	const struct config *config = &server->config;
	struct fleet_tls_paths paths;

	static_assert(sizeof(paths.ca) == sizeof(config->tls.ca), "as long as an option");
	strcpy(paths.ca, config->tls.ca);
	strcpy(paths.certificate, config->tls.certificate);
	strcpy(paths.key, config->tls.key);
	strcpy(paths.psk, config->tls.psk);
	fleet_tls_set(&server->fleet_tls, &paths);
}

/* Clients of memcached's protocol may ask this member for all keys of the fleet. */
static int forwarder_init(struct server *server)
{
	const struct fleet_identity identity = {
		.fleet = &server->fleet,
		.tls = &server->fleet_tls,
	};

	if (!server->fleet.view || !server->net.listeners.count)
		return 0;
	server->forwarder = forwarder_make(&identity);
	return server->forwarder ? 0 : -ENOMEM;
}

static int server_open_http(struct server *server)
{
	struct metrics_source source = {
		.net = &server->net,
		.fleet = &server->fleet,
		.membership = server->stats_source.membership,
		.fleet_name = server->config.fleet.name,
		.devices_folder = NIC_DEVICES_FOLDER,
		.log_lines_lost = log_writer_lost,
		.audit_lines_lost = audit_file_lost,
		.started_ns = server->stats_source.started_ns,
	};
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	source.started_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
				 (clock_ns() - source.started_ns);
	return http_open(&server->http, &server->config, &source);
}

int server_init(struct server *server)
{
	struct worker_env env = {
		.config = &server->config,
		.store = &server->store,
		.store_options = &server->setup.options,
		.stats_print = stats_print,
		.stats_source = &server->stats_source,
		.log_read = log_writer_read,
	};
	int err;

	server->stats_source = (struct stats_source){
		.net = &server->net,
		.fleet = &server->fleet,
		.membership = *server->config.fleet.etcd ? &server->membership : NULL,
		.fleet_name = server->config.fleet.name,
		.started_ns = clock_ns(),
	};
	fleet_tls_init(&server->fleet_tls);
	server_renew_tls(server);
	err = net_check(&server->config, false);
	if (!err)
		err = http_check(&server->config, false);
	if (!err)
		err = server_check(&server->config);
	if (!err)
		err = fleet_init(server);
	fleet_stores_init(&server->fleet_stores);
	if (server->fleet.view)
		fleet_begin(server);
	if (!err)
		err = net_open(&server->net, &server->config);
	if (!err)
		err = forwarder_init(server);
	if (!err) {
		store_setup_init(&server->setup, &server->config, &server->fleet);
		if (*server->config.fleet.etcd) {
			host_sleep_init(&server->sleep);
			server->setup.options.sleep = &server->sleep;
		}
		if (server->fleet.view) {
			env.fleet = &server->fleet;
			env.fleet_stores = &server->fleet_stores;
			env.forwarder = server->forwarder;
		}
		err = net_init(&server->net, &env);
	}
	if (!err)
		err = server_open_http(server);
	if (!err)
		crash_report_workers(&server->net);
	if (err)
		server_release(server);
	return err;
}

int server_join(struct server *server)
{
	struct membership_thread *membership = &server->membership;
	const struct config *config = &server->config;

	int err = server->forwarder ? forwarder_start(server->forwarder) : 0;

	if (err || !*server->config.fleet.etcd)
		return err;
	membership->stores = &server->fleet_stores;
	membership->clock = &server->store.table;
	membership->keep = &server->store.region.keep;
	membership->file = *config->memory.file ? config->memory.file : NULL;
	membership->turned = net_turned;
	membership->workers = &server->net;
	membership->mover.tls = &server->fleet_tls;
	return membership_thread_start(membership);
}

void server_leave(struct server *server)
{
	forwarder_stop(server->forwarder);
	membership_thread_stop(&server->membership);
}

void server_release(struct server *server)
{
	http_close(&server->http);
	crash_report_workers(NULL);
	membership_thread_close(&server->membership);
	net_release(&server->net);
	forwarder_free(server->forwarder);
	fleet_stores_release(&server->fleet_stores);
	fleet_close(&server->fleet);
}
