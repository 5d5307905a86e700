/* SPDX-License-Identifier: MIT */
/* Adds workers and takes them away: see worker_manager.h. */
#include "server/control/worker_manager.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/control/conn_manager.h"
#include "server/control/session_manager.h"
#include "server/control/traces.h"
#include "server/worker/worker_loop.h"

/* Idle connections give their receives back within WINDOW_IDLE_NS. */
#define RESERVE_NS 6000000000ull
#define FINISH_NS 1000000000ull

/* NULL: workers may come or go (WORKERS-1). */
static const char *obstacle(const struct net *net)
{
	if (net->stopping)
		return "the server is stopping";
	if (!net->workers[0].started)
		return "the server is starting: try again when it is ready";
	if (net_workers_leave(net))
		return "workers are being taken away: try again when the log says that they are "
		       "gone";
	if (net->command.step != COMMAND_NONE)
		return "a tenant is being created, resized or dropped: try again when that is done "
		       "(kvctl tenant list)";
	if (net_devices_change(net))
		return "a device has failed, and its connections end: try again in a few seconds";
	return NULL;
}

static const char *advice(const struct net *net, int err)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return ADVICE_OPEN_FILES ", or set fewer";
	case -EAGAIN:
		return ADVICE_THREADS ", or set fewer";
	case -ENOMEM:
		return net_has_rdma(net) ? ADVICE_LOCKED_MEMORY ", or set fewer" :
					   "allow the process more memory, or set fewer";
	default:
		return "set fewer";
	}
}

/*
 * Divides the connections among the workers anew. A worker that gets more sets receives aside
 * first; one that gets fewer keeps the connections that it has.
 */
static void connections_share(struct net *net)
{
	const uint32_t share = conns_share(net->env.config, net->env.workers);
	struct poller *poller;
	uint32_t wanted;

	for (unsigned int i = 0; i < net->env.workers; i++) {
		stat_set(&net->workers[i].limits.workers, net->env.workers);
		for (unsigned int j = 0; j < net->nic_count; j++) {
			poller = &net->workers[i].pollers[j];
			wanted = share < poller->conns_fit ? share : poller->conns_fit;
			if (wanted < poller->conns_count)
				wanted = poller->conns_count;
			if (wanted < poller->limits.conns_max)
				poller->limits.conns_max = wanted;
			atomic_store_explicit(&poller->conns_wanted, wanted, memory_order_relaxed);
		}
		mailbox_wake(&net->workers[i].mailbox);
	}
	net->worker_change.reserves = true;
}

/* Takes the receives that workers have set aside. */
static void connections_reserve(struct net *net)
{
	bool reserves = false;

	for (unsigned int i = 0; i < net->env.workers; i++)
		for (unsigned int j = 0; j < net->nic_count; j++) {
			struct poller *poller = &net->workers[i].pollers[j];
			uint32_t wanted = poller->conns_wanted;
			uint32_t has = atomic_load_explicit(&poller->conns_reserved,
							    memory_order_acquire);

			poller->limits.conns_max = has < wanted ? has : wanted;
			reserves |= has != wanted;
		}
	net->worker_change.reserves = reserves;
}

static int worker_begin(struct net *net, unsigned int number)
{
	int err;

	net->taken[number] = 0;
	pthread_mutex_lock(&net->workers_lock);
	net->worker_count = number + 1;
	err = worker_start(&net->workers[number]);
	if (err)
		net->worker_count = number;
	pthread_mutex_unlock(&net->workers_lock);
	return err;
}

static void worker_made(struct net *net, unsigned int number)
{
	pthread_mutex_lock(&net->workers_lock);
	if (net->workers_made <= number)
		net->workers_made = number + 1;
	pthread_mutex_unlock(&net->workers_lock);
}

/* This thread is RCU-offline otherwise: server/control_loop.c. */
static void retire(struct worker *worker)
{
	rcu_thread_online();
	worker_retire(worker);
	rcu_thread_offline();
}

static int worker_add(struct net *net, unsigned int number)
{
	struct worker *worker = &net->workers[number];
	const int cpu = net->env.config->server.pin ? cpu_number(number) : -1;
	int err = worker_init(worker, &net->env, number, cpu);

	if (err)
		return err;
	worker_made(net, number);
	err = tenants_add_worker(&net->tenants, worker);
	if (!err)
		err = worker_begin(net, number);
	if (err)
		retire(worker);
	return err;
}

/* No connection of the last worker is left, or it has had none. */
static void worker_remove(struct net *net)
{
	struct worker *worker = &net->workers[net->worker_count - 1];

	pthread_mutex_lock(&net->workers_lock);
	worker_stop(worker);
	traces_take(net);
	net->worker_count--;
	pthread_mutex_unlock(&net->workers_lock);
	tenants_rest_worker(&net->tenants, worker);
	retire(worker);
}

static bool workers_add(struct net *net, const struct config *config, unsigned int count, char *why,
			size_t size)
{
	const unsigned int before = net->env.workers;
	int err = 0;

	if (net_has_rdma(net) &&
	    nic_check_memlock(config, config->memory.size + config->tenants.memory)) {
		snprintf(why, size,
			 "the process may not lock the memory of %u workers for an RDMA device: "
			 "kvd's log says how much; " ADVICE_LOCKED_MEMORY ", or set fewer",
			 count);
		return false;
	}
	net->env.workers = count;
	while (!err && net->worker_count < count)
		err = worker_add(net, net->worker_count);
	if (err) {
		snprintf(why, size, "worker %u can't be added: %s: kvd's log says at what; %s",
			 net->worker_count, strerror(-err), advice(net, err));
		net->env.workers = before;
		while (net->worker_count > before)
			worker_remove(net);
		return false;
	}
	connections_share(net);
	log_notice("%u workers, %u of them new", count, count - before);
	return true;
}

static void workers_leave(struct net *net, unsigned int count)
{
	const uint64_t now_ns = clock_ns();

	net->env.workers = count;
	connections_share(net);
	net->worker_change.step = WORKERS_ANSWERING;
	net->worker_change.until_ns = now_ns + RESPOND_NS;
	net->worker_change.reserve_ns = now_ns + RESERVE_NS;
}

bool worker_manager_set(struct net *net, const struct config *config, char *why, size_t size)
{
	const unsigned int count = config_workers(config);
	const char *against = obstacle(net);

	if (count == net->env.workers)
		return true;
	if (against) {
		snprintf(why, size, "%s", against);
		return false;
	}
	if (count > net->env.workers)
		return workers_add(net, config, count, why, size);
	workers_leave(net, count);
	return true;
}

/* Whether a worker that goes has connections. */
static bool has_connections(const struct net *net)
{
	for (unsigned int i = net->env.workers; i < net->worker_count; i++) {
		if (net->sessions_count[i])
			return true;
		for (unsigned int j = 0; j < net->nic_count; j++)
			if (net->workers[i].pollers[j].conns_count)
				return true;
	}
	return false;
}

static void workers_close(struct net *net, uint64_t now_ns)
{
	struct worker_change *change = &net->worker_change;

	if (now_ns < change->until_ns || (change->reserves && now_ns < change->reserve_ns))
		return;
	conn_manager_close_workers(net, net->env.workers);
	change->step = WORKERS_CLOSING;
	change->until_ns = now_ns + FINISH_NS;
}

static void workers_remove(struct net *net, uint64_t now_ns)
{
	const unsigned int before = net->worker_count;

	if (now_ns >= net->worker_change.until_ns)
		session_manager_close_workers(net, net->env.workers);
	if (has_connections(net))
		return;
	while (net->worker_count > net->env.workers)
		worker_remove(net);
	net->worker_change.step = WORKERS_STAY;
	log_notice("%u workers, %u are gone", net->worker_count, before - net->worker_count);
}

void worker_manager_run(struct net *net, uint64_t now_ns)
{
	if (net->stopping)
		return;
	if (net->worker_change.reserves)
		connections_reserve(net);
	switch (net->worker_change.step) {
	case WORKERS_STAY:
		break;
	case WORKERS_ANSWERING:
		workers_close(net, now_ns);
		break;
	case WORKERS_CLOSING:
		workers_remove(net, now_ns);
		break;
	}
}
