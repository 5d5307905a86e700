/* SPDX-License-Identifier: MIT */
/* Sets up devices and workers, starts and stops them, and releases them in reverse order. */
#include "server/control/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/control/admission.h"
#include "server/control/kept_identities.h"
#include "server/control/nic_address.h"
#include "server/control/user_tenants.h"
#include "server/memcached/sockets.h"
#include "server/worker/worker_loop.h"

int net_check(const struct config *config, bool warn)
{
	struct nic_addresses list;
	struct users *users;
	unsigned int i;
	int err, first;

	first = admission_load(&users, config);
	if (!first)
		first = user_tenants_fit(users, config);
	users_put(users);
	nic_addresses(&list, config);
	for (i = 0; i < list.count; i++) {
		err = nic_address_check(config, &list.addr[i], warn);
		first = first ? first : err;
	}
	err = handshakes_check(config);
	first = first ? first : err;
	err = listeners_check(config, warn);
	return first ? first : err;
}

/* Finds the nic of the endpoint's device from an earlier endpoint, or opens a new one. */
static int net_open_nic(struct net *net, struct endpoint *endpoint, const struct config *config,
			const char *why)
{
	const struct device *dev = endpoint->dev;
	struct nic *nic;
	int err;

	for (nic = net->nics; nic < net->nics + net->nic_count; nic++)
		if (device_is_same(nic->dev, dev)) {
			endpoint->nic = nic;
			return 0;
		}
	if (net->nic_count == NIC_MAX) {
		log_error("server.listen names addresses on more than %d devices: remove some",
			  NIC_MAX);
		return -E2BIG;
	}
	err = nic_open(nic, endpoint->dev, config, why);
	if (!err) {
		net->nic_count++;
		endpoint->nic = nic;
	}
	return err;
}

int net_open(struct net *net, const struct config *config)
{
	struct nic_addresses list;
	struct endpoint *endpoint;
	unsigned int i;
	int err;

	nic_addresses(&list, config);
	for (i = 0; i < list.count; i++) {
		endpoint = &net->endpoints[i];
		err = endpoint_open(endpoint, &list.addr[i], config);
		if (err)
			return err;
		net->endpoint_count++;
		err = net_open_nic(net, endpoint, config, list.why);
		if (err)
			return err;
	}
	err = handshakes_open(&net->handshakes, config);
	return err ? err : listeners_open(&net->listeners, config);
}

static int net_init_nics(struct net *net)
{
	unsigned int i;
	int err;

	for (i = 0; i < net->nic_count; i++) {
		err = nic_init(&net->nics[i], net->env.config);
		if (err)
			return err;
	}
	net->env.nics = net->nics;
	net->env.nic_count = net->nic_count;
	for (i = 0; i < net->endpoint_count; i++) {
		err = endpoint_init(&net->endpoints[i]);
		if (err)
			return err;
	}
	return 0;
}

static int net_init_workers(struct net *net)
{
	unsigned int i, n = config_workers(net->env.config);
	int err;

	/* A place that is not used takes no memory: the kernel gives it when it is written. */
	net->workers = calloc(WORKERS_MAX, sizeof(*net->workers));
	if (!net->workers) {
		log_error("no memory for workers: allow the process more");
		return -ENOMEM;
	}
	net->worker_count = net->workers_made = n;
	net->env.workers = n;
	for (i = 0; i < n; i++) {
		err = worker_init(&net->workers[i], &net->env, i,
				  net->env.config->server.pin ? cpu_number(i) : -1);
		if (err)
			return err;
	}
	return 0;
}

static int net_init_registry(struct net *net)
{
	const struct config *config = net->env.config;
	uint32_t conns_max = config->server.max_connections + ADMIN_CONNECTIONS;
	int err = conn_registry_init(&net->registry, conns_max);

	if (err)
		log_error("no memory for %u connections: lower server.max_connections", conns_max);
	return err;
}

static int net_init_identities(struct net *net)
{
	const struct config *config = net->env.config;
	int err = identities_init(&net->identities, config->limits.identities,
				  config->server.identity_time);

	if (err)
		log_error("can't set up %u identities: %s: lower limits.identities",
			  config->limits.identities, strerror(-err));
	return err;
}

static int net_init_users(struct net *net)
{
	int err = admission_load(&net->users, net->env.config);

	stat_set(&net->stats.users, net->users ? net->users->count : 0);
	return err;
}

int net_init(struct net *net, const struct worker_env *env)
{
	int err;

	net->env = *env;
	if (net->listeners.count) {
		net->env.front = &sockets_front;
		net->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	err = mailbox_init(&net->mailbox);
	if (err)
		return err;
	net->env.control = &net->mailbox;
	net->env.late_principals = &net->late_principals;
	net->env.cancel = &net->jobs.cancels;
	net->starting = true;
	net->made_ns = clock_ns();
	accounts_init(&net->accounts);
	err = net_init_registry(net);
	if (!err)
		err = traces_init(&net->traces);
	if (!err)
		err = net_init_identities(net);
	if (!err)
		err = net_init_users(net);
	if (!err)
		err = net_init_nics(net);
	if (!err)
		err = net_init_workers(net);
	if (!err)
		err = tenant_jobs_init(&net->jobs, &net->env);
	if (!err)
		err = logins_init(&net->logins, &net->mailbox);
	return err ? err : tenants_init(&net->tenants, &net->env, net->workers);
}

/* Of a store that goes over to the next process, or came from the last one. */
static void answers_save(const struct net *net)
{
	const struct store *store = net->env.store;

	if (net->answers_loaded && store->region.keep.serves)
		identities_save(&net->identities, net->env.config->memory.file,
				store->region.geometry.incarnation);
}

static void answers_load(struct net *net)
{
	const struct store *store = net->env.store;

	net->answers_loaded = true;
	if (store->region.keep.serves)
		identities_load(&net->identities, net->env.config->memory.file,
				store->region.geometry.incarnation, clock_ns());
}

void net_release(struct net *net)
{
	unsigned int i;

	answers_save(net);
	tenants_release(&net->tenants);
	tenant_jobs_release(&net->jobs);
	logins_release(&net->logins);
	for (i = 0; i < net->workers_made; i++)
		worker_release(&net->workers[i]);
	free(net->workers);
	net->workers = NULL;
	net->worker_count = net->workers_made = 0;
	for (i = 0; i < net->endpoint_count; i++)
		endpoint_release(&net->endpoints[i]);
	while (net->nic_count)
		nic_release(&net->nics[--net->nic_count]);
	/* Before the endpoints: a Unix socket may be in the folder that softnic's made. */
	listeners_close(&net->listeners);
	handshakes_close(&net->handshakes);
	while (net->endpoint_count)
		endpoint_close(&net->endpoints[--net->endpoint_count]);
	if (net->env.front)
		close(net->spare_fd);
	users_put(net->users);
	net->users = NULL;
	accounts_release(&net->accounts);
	identities_release(&net->identities);
	conn_registry_release(&net->registry);
	traces_release(&net->traces);
	if (net->env.control)
		mailbox_release(&net->mailbox);
	net->env.control = NULL;
}

int net_start(struct net *net)
{
	unsigned int i;
	int err;

	answers_load(net);
	for (i = 0; i < net->worker_count; i++) {
		err = worker_start(&net->workers[i]);
		if (err)
			return err;
	}
	for (i = 0; i < net->endpoint_count; i++) {
		err = endpoint_listen(&net->endpoints[i]);
		if (err)
			return err;
	}
	return listeners_start(&net->listeners);
}

bool net_alive(struct net *net)
{
	bool alive = true;
	unsigned int i;
	uint64_t taken;

	for (i = 0; i < net->worker_count; i++) {
		taken = atomic_load_explicit(&net->workers[i].mailbox.taken, memory_order_relaxed);
		/* + 1: 0 means that the worker was never asked. */
		if (net->taken[i] == taken + 1) {
			log_warn("worker %u has not finished a turn since it was last asked", i);
			alive = false;
		}
		net->taken[i] = taken + 1;
		mailbox_wake(&net->workers[i].mailbox);
	}
	return alive;
}

void net_commands(const struct net *net, struct command_counts *sums)
{
	memset(sums, 0, sizeof(*sums));
	for (unsigned int i = 0; i < net->workers_made; i++)
		command_counts_add(&net->workers[i].commands, sums);
}

void net_turns_wait(void *of)
{
	struct net *net = of;

	pthread_mutex_lock(&net->workers_lock);
	for (unsigned int i = 0; i < net->worker_count; i++)
		turn_wait(&net->workers[i].turn);
	pthread_mutex_unlock(&net->workers_lock);
}

static bool do_net_turned(struct net *net)
{
	bool asked = true, turned = true;
	unsigned int i;
	uint64_t taken;

	for (i = 0; i < net->worker_count; i++) {
		taken = atomic_load_explicit(&net->workers[i].mailbox.taken, memory_order_relaxed);
		asked = asked && net->turned[i];
		turned = turned && net->turned[i] != taken + 1;
	}
	if (asked && !turned)
		return false;
	for (i = 0; i < net->worker_count; i++) {
		taken = atomic_load_explicit(&net->workers[i].mailbox.taken, memory_order_relaxed);
		net->turned[i] = taken + 1;
		mailbox_wake(&net->workers[i].mailbox);
	}
	/* All turns of a worker that went have ended; one that comes has to be asked. */
	for (; i < net->workers_made; i++)
		net->turned[i] = 0;
	return asked;
}

bool net_turned(void *of)
{
	struct net *net = of;
	bool turned;

	pthread_mutex_lock(&net->workers_lock);
	turned = do_net_turned(net);
	pthread_mutex_unlock(&net->workers_lock);
	return turned;
}

bool net_has_rdma(const struct net *net)
{
	for (unsigned int i = 0; i < net->nic_count; i++)
		if (device_kind_is_rdma(net->nics[i].kind))
			return true;
	return false;
}

bool net_devices_change(const struct net *net)
{
	for (unsigned int i = 0; i < net->nic_count; i++)
		if (net->nics[i].state == NIC_CLOSING || net->nics[i].state == NIC_DETACHING)
			return true;
	return false;
}

void net_stop(struct net *net)
{
	unsigned int i;

	for (i = 0; i < net->worker_count; i++)
		worker_stop(&net->workers[i]);
	handshakes_stop(&net->handshakes);
	tenant_jobs_stop(&net->jobs);
	logins_stop(&net->logins);
	tenants_stop(&net->tenants);
}

void net_renew(struct net *net)
{
	const struct tls_files files = nic_address_tls(net->env.config);
	char why[TLS_WHY_MAX] = "no memory";
	struct device *dev;
	unsigned int i;

	for (i = 0; i < net->endpoint_count; i++) {
		dev = net->endpoints[i].dev;
		if (!dev || !dev->ops->renew)
			continue;
		if (dev->ops->renew(dev, &files, why))
			log_error("%s%s: [tls] stays as it was: %s", device_scheme(dev->kind),
				  dev->address, why);
		else
			log_notice("%s%s: the files of [tls] were read again",
				   device_scheme(dev->kind), dev->address);
	}
	handshakes_renew(&net->handshakes, net->env.config);
}
