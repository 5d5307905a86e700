/* SPDX-License-Identifier: MIT */
#include "server/control/recovery.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <urcu-qsbr.h>

#include "common/util/log.h"
#include "server/control/conn_manager.h"
#include "server/worker/worker_loop.h"

#define LOOK_NS 1000000000ull

static unsigned int nic_number(const struct net *net, const struct nic *nic)
{
	return (unsigned int)(nic - net->nics);
}

/* Iterates over the addresses on the device, with *@i 0 at first; NULL at the end. */
static struct endpoint *next_endpoint(struct net *net, const struct nic *nic, unsigned int *i)
{
	while (*i < net->endpoint_count)
		if (net->endpoints[(*i)++].nic == nic)
			return &net->endpoints[*i - 1];
	return NULL;
}

static void note_workers(struct net *net, const struct nic *nic, enum note_kind kind)
{
	for (unsigned int i = 0; i < net->worker_count; i++) {
		struct poller *poller = &net->workers[i].pollers[nic_number(net, nic)];

		poller->note = (struct note){ .poller = poller, .kind = kind };
		mailbox_send(&net->workers[i].mailbox, &poller->note);
	}
}

/* Releases all that was set up on the device. No worker polls it. */
static void nic_put_away(struct net *net, struct nic *nic, uint64_t now_ns)
{
	struct endpoint *endpoint;
	unsigned int i;

	/* This thread is RCU-offline otherwise (server/control_loop.c). */
	rcu_thread_online();
	for (i = 0; i < net->worker_count; i++)
		worker_release_poller(&net->workers[i], nic_number(net, nic));
	rcu_thread_offline();
	i = 0;
	while ((endpoint = next_endpoint(net, nic, &i)))
		endpoint_release(endpoint);
	tenants_deregister(&net->tenants, nic_number(net, nic));
	nic_release(nic);
	i = 0;
	while ((endpoint = next_endpoint(net, nic, &i)))
		endpoint_close(endpoint);
	nic->state = NIC_AWAY;
	nic->look_at_ns = now_ns + LOOK_NS;
}

/*
 * Opens the addresses, which must be on the same device as before: over TCP, an address whose
 * device is gone could be served on any other.
 */
static int nic_reopen(struct net *net, struct nic *nic)
{
	const struct config *config = net->env.config;
	struct endpoint *endpoint;
	unsigned int i = 0;
	int err;

	while ((endpoint = next_endpoint(net, nic, &i))) {
		err = endpoint_reopen(endpoint);
		if (err)
			return err;
		if (strcmp(nic->name, endpoint->dev->name) != 0 ||
		    (nic->dev && !device_is_same(nic->dev, endpoint->dev)))
			err = -EXDEV;
		else if (!nic->dev)
			err = nic_open(nic, endpoint->dev, config, nic->why);
		if (err)
			return err;
	}
	return 0;
}

static int nic_set_up(struct net *net, struct nic *nic)
{
	struct endpoint *endpoint;
	unsigned int i = 0;
	int err = nic_init(nic, net->env.config);

	if (!err)
		err = tenants_register(&net->tenants, nic_number(net, nic));
	for (i = 0; !err && i < net->worker_count; i++)
		err = worker_init_poller(&net->workers[i], &net->env, nic_number(net, nic));
	i = 0;
	while (!err && (endpoint = next_endpoint(net, nic, &i))) {
		err = endpoint_init(endpoint);
		if (!err)
			err = endpoint_listen(endpoint);
	}
	return err;
}

static bool nic_retry(struct net *net, struct nic *nic, uint64_t now_ns)
{
	int err = nic_reopen(net, nic);

	if (!err)
		err = nic_set_up(net, nic);
	if (err) {
		nic_put_away(net, nic, now_ns);
		return false;
	}
	log_notice("device %s is back", nic->name);
	note_workers(net, nic, NOTE_ATTACH);
	nic->state = NIC_SERVES;
	return true;
}

/*
 * Drivers that can't take a device from its users, like rdma_rxe, report no event: the removal
 * waits until all users have closed it. By then it is no longer listed. (rdma_cm has an event.)
 */
static void nic_look(struct net *net, struct nic *nic, uint64_t now_ns)
{
	if (!device_kind_is_rdma(nic->kind) || now_ns < nic->look_at_ns)
		return;
	nic->look_at_ns = now_ns + LOOK_NS;
	if (access(nic->dev->verbs->device->dev_path, F_OK) && errno == ENOENT)
		conn_manager_device_failed(net, nic, "it was removed");
}

static bool nic_step(struct net *net, struct nic *nic, uint64_t now_ns)
{
	switch (nic->state) {
	case NIC_SERVES:
		nic_look(net, nic, now_ns);
		break;
	case NIC_CLOSING:
		if (nic->conns_count || net_workers_leave(net))
			break;
		nic->state = NIC_DETACHING;
		nic->workers_left = net->worker_count;
		note_workers(net, nic, NOTE_DETACH);
		break;
	case NIC_DETACHING:
		/* A job may be registering memory with the device. */
		if (nic->workers_left || net->jobs.runs)
			break;
		nic_put_away(net, nic, now_ns);
		log_notice("device %s is released; kvd looks for it once a second", nic->name);
		break;
	case NIC_AWAY:
		return now_ns >= nic->look_at_ns && !net->jobs.runs && !net_workers_leave(net) &&
		       nic_retry(net, nic, now_ns);
	}
	return false;
}

bool recovery_run(struct net *net, uint64_t now_ns)
{
	bool back = false;

	for (unsigned int i = 0; i < net->nic_count && !net->stopping; i++)
		back |= nic_step(net, &net->nics[i], now_ns);
	return back;
}
