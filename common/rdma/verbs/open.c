/* SPDX-License-Identifier: MIT */
/*
 * Opens a verbs device: finds, for a host name or address, the RDMA device that has it (server) or
 * that has a route to it (client).
 */
#include "common/rdma/verbs/verbs.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "common/rdma/inet.h"
#include "common/util/heap.h"
#include "common/util/log.h"

static int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int ms_left(int64_t deadline_ms)
{
	int64_t left = deadline_ms - clock_ms();

	return left > 0 ? (int)left : 0;
}

static bool interface_usable(const struct ifaddrs *entry, sa_family_t family)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)entry->ifa_addr;

	if (!entry->ifa_addr || entry->ifa_addr->sa_family != family ||
	    (entry->ifa_flags & IFF_LOOPBACK) || !(entry->ifa_flags & IFF_UP))
		return false;
	return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/* All addresses by which a peer may know this host, IPv4 first. */
static int candidates_local(struct inet_addrs *list, uint16_t port)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	struct ifaddrs *all;

	if (getifaddrs(&all)) {
		log_error("can't list the addresses of this host (getifaddrs): %m");
		return verbs_errno();
	}
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next)
			if (interface_usable(entry, families[i]))
				inet_addrs_add(list, entry->ifa_addr, port);
	freeifaddrs(all);
	return 0;
}

/* -ENODEV if the address is this host's but no RDMA device has it. */
static int bind_try(struct verbs_device *vd, const struct sockaddr_storage *addr,
		    struct rdma_cm_id **id)
{
	int err;

	if (rdma_create_id(vd->open_channel, id, NULL, RDMA_PS_TCP))
		return verbs_errno();
	err = verbs_error(rdma_bind_addr(*id, (struct sockaddr *)(uintptr_t)addr));
	if (!err && !(*id)->verbs)
		err = -ENODEV;
	if (err) {
		rdma_destroy_id(*id);
		return err;
	}
	vd->addr = *addr;
	inet_set_port(&vd->addr, ntohs(rdma_get_src_port(*id))); /* the kernel's choice, if 0 */
	return 0;
}

/* Waits for the channel's next event, which should be @wanted. */
static int event_wait(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted,
		      int64_t deadline_ms)
{
	struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int err = 0;
	int ready;

	do
		ready = poll(&pfd, 1, ms_left(deadline_ms));
	while (ready < 0 && errno == EINTR);
	if (ready == 0)
		return -ETIMEDOUT;
	if (ready < 0 || rdma_get_cm_event(channel, &event))
		return verbs_errno();
	if (event->event != wanted)
		err = event->status < 0 ? event->status : -EHOSTUNREACH;
	rdma_ack_cm_event(event);
	return err;
}

static int resolve_try(struct verbs_device *vd, const struct sockaddr_storage *addr,
		       int64_t deadline_ms, struct rdma_cm_id **id)
{
	int err;

	if (rdma_create_id(vd->open_channel, id, NULL, RDMA_PS_TCP))
		return verbs_errno();
	err = verbs_error(rdma_resolve_addr(*id, NULL, (struct sockaddr *)(uintptr_t)addr,
					    ms_left(deadline_ms)));
	if (!err)
		err = event_wait(vd->open_channel, RDMA_CM_EVENT_ADDR_RESOLVED, deadline_ms);
	if (!err)
		err = verbs_error(rdma_resolve_route(*id, ms_left(deadline_ms)));
	if (!err)
		err = event_wait(vd->open_channel, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline_ms);
	if (err) {
		rdma_destroy_id(*id);
		return err;
	}
	vd->addr = *addr;
	return 0;
}

/*
 * librdmacm keeps devices open that it has seen, and closes devices that are gone only when it is
 * asked for a list; not even then if no device is left (rdma-core 44 to 60). Until then the kernel
 * can't remove a device whose driver waits for its users, like rdma_rxe.
 */
static void gone_devices_close(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	if (list)
		rdma_free_devices(list);
}

static int open_listen(struct verbs_device *vd, const struct device_addr *addr,
		       struct rdma_cm_id **id)
{
	struct inet_addrs list = { .count = 0 };
	bool any = strcmp(addr->host, DEVICE_HOST_AUTO) == 0;
	int err = any ? candidates_local(&list, addr->port) :
			inet_addrs_named(&list, addr->host, addr->port);

	if (err)
		return err;
	/* The wildcard address would be every RDMA device's. */
	if (list.count && inet_is_any(&list.addr[0]))
		return -EINVAL;
	err = -ENODEV;
	for (int i = 0; i < list.count; i++) {
		err = bind_try(vd, &list.addr[i], id);
		/* If a device's port is in use, fail: don't silently serve the next device. */
		if (!err || err == -EADDRINUSE)
			break;
	}
	if (err)
		gone_devices_close();
	return any && err && err != -EADDRINUSE ? -ENODEV : err;
}

static void connect_error_log(const struct device_addr *addr, int err)
{
	errno = -err;
	if (err == -ENODEV)
		log_error("no RDMA device has a route to %s: check that `ip route get` names an "
			  "interface that `rdma link` shows",
			  addr->host);
	else if (err == -ETIMEDOUT)
		log_error(
			"can't resolve the RDMA route to %s in time: check that `ping` reaches it",
			addr->host);
	else
		log_error("can't reach %s over RDMA: %m; check that `ping` reaches it", addr->host);
}

static int open_connect(struct verbs_device *vd, const struct device_addr *addr,
			struct rdma_cm_id **id)
{
	struct inet_addrs list = { .count = 0 };
	int err = inet_addrs_named(&list, addr->host, addr->port);
	int64_t deadline_ms = clock_ms() + vd->timeout_ms; /* resolving the name is not counted */

	if (err)
		return err;
	for (int i = 0; i < list.count; i++) {
		err = resolve_try(vd, &list.addr[i], deadline_ms, id);
		if (!err)
			return 0;
	}
	connect_error_log(addr, err);
	return err;
}

/* For queue pairs of ids that are not resolved yet. */
static int init_attr_query(struct verbs_device *vd, struct rdma_cm_id *id)
{
	int err;

	if (vd->role != DEVICE_CONNECT)
		return 0;
	vd->init_attr.qp_state = IBV_QPS_INIT;
	err = verbs_error(rdma_init_qp_attr(id, &vd->init_attr, &vd->init_mask));
	if (err) {
		errno = -err;
		log_error("can't query RDMA device %s: %m", vd->port.dev.name);
	}
	return err;
}

static int context_setup(struct verbs_device *vd, struct rdma_cm_id *id)
{
	int err = verbs_port_open(&vd->port, id->verbs->device, id->port_num);

	if (err)
		return err;
	err = init_attr_query(vd, id);
	if (err) {
		verbs_port_close(&vd->port);
		return err;
	}
	inet_text(&vd->addr, vd->port.dev.address, sizeof(vd->port.dev.address));
	return 0;
}

static int open_channel_create(struct verbs_device *vd)
{
	int err;

	vd->open_channel = rdma_create_event_channel();
	if (!vd->open_channel)
		return verbs_errno();
	err = verbs_fd_nonblocking(vd->open_channel->fd);
	if (err)
		rdma_destroy_event_channel(vd->open_channel);
	return err;
}

int verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
	       int timeout_ms)
{
	struct verbs_device *vd = heap_calloc(1, sizeof(*vd));
	struct rdma_cm_id *id;
	int err;

	if (!vd)
		return -ENOMEM;
	vd->port.dev.kind = DEVICE_RDMA;
	vd->port.dev.ops = &verbs_ops;
	vd->role = role;
	vd->port.link = addr->link;
	vd->timeout_ms = timeout_ms;
	err = open_channel_create(vd);
	if (err)
		goto err_free;
	err = role == DEVICE_LISTEN ? open_listen(vd, addr, &id) : open_connect(vd, addr, &id);
	if (err)
		goto err_channel;
	err = context_setup(vd, id);
	if (err)
		goto err_id;
	atomic_init(&vd->open_id, id);
	*dev = &vd->port.dev;
	return 0;

err_id:
	rdma_destroy_id(id);
err_channel:
	rdma_destroy_event_channel(vd->open_channel);
err_free:
	heap_free(vd);
	return err;
}

void verbs_close(struct device *dev)
{
	struct verbs_device *vd = verbs_device_of(dev);
	struct rdma_cm_id *id = atomic_exchange(&vd->open_id, NULL);

	if (id)
		rdma_destroy_id(id);
	rdma_destroy_event_channel(vd->open_channel);
	verbs_port_close(&vd->port);
	heap_free(vd);
}
