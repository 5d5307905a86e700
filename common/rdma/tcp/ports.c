/* SPDX-License-Identifier: MIT */
/* Looks at the ports of this host's RDMA devices: see common/rdma/ports.h. */
#include "common/rdma/ports.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/tcp/tcp.h"

/* The first IPv4 address of a network device. */
static bool address_of(unsigned int index, struct sockaddr_storage *addr)
{
	char name[IF_NAMESIZE];
	struct ifaddrs *all;
	bool found = false;

	if (!if_indextoname(index, name) || getifaddrs(&all))
		return false;
	for (const struct ifaddrs *entry = all; entry && !found; entry = entry->ifa_next) {
		found = entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET &&
			!strcmp(entry->ifa_name, name);
		if (found)
			memcpy(addr, entry->ifa_addr, sizeof(struct sockaddr_in));
	}
	freeifaddrs(all);
	return found;
}

static void gid_look(struct device_port *port, const struct verbs_port *open)
{
	struct sockaddr_storage addr = { 0 };

	port->has_gid = !port->iwarp && !tcp_gid_choose(open, NULL, NULL, &port->gid);
	if (port->has_gid && address_of(port->gid.ndev_ifindex, &addr))
		(void)tcp_gid_choose(open, &addr, NULL, &port->gid); /* there is one */
}

static int qp_try(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t *inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = *inline_bytes },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		return verbs_errno();
	*inline_bytes = attr.cap.max_inline_data;
	return verbs_error(ibv_destroy_qp(qp));
}

/* Drivers have no attribute for the inline size: trial creation finds it. */
static void qp_look(struct device_port *port, struct ibv_context *context, uint32_t inline_bytes)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = pd ? ibv_create_cq(context, 1, NULL, NULL, 0) : NULL;

	port->inline_bytes = inline_bytes;
	port->qp_error = cq ? qp_try(pd, cq, &port->inline_bytes) : verbs_errno();
	if (port->qp_error) {
		port->inline_bytes = 0;
		port->qp_error = cq ? qp_try(pd, cq, &port->inline_bytes) : port->qp_error;
	}
	if (cq)
		ibv_destroy_cq(cq);
	if (pd)
		ibv_dealloc_pd(pd);
}

static void port_look(struct device_port *port, struct ibv_device *device, uint32_t inline_bytes)
{
	struct verbs_port open = { .link = { 0 } };

	snprintf(port->name, sizeof(port->name), "%s", ibv_get_device_name(device));
	port->iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
	port->error = verbs_port_open(&open, device, port->number);
	if (port->error)
		return;
	port->error = verbs_query(&open.dev, &port->attr, &port->port);
	if (!port->error) {
		gid_look(port, &open);
		qp_look(port, open.dev.verbs, inline_bytes);
	}
	verbs_port_close(&open);
}

int device_ports(struct device_port *ports, int max, uint32_t inline_bytes)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int count = 0;

	if (!list)
		return verbs_errno();
	for (int i = 0; list[i] && count < max; i++) {
		uint8_t number = 1;

		do {
			ports[count] = (struct device_port){ .number = number };
			port_look(&ports[count], list[i], inline_bytes);
		} while (number++ < ports[count++].attr.phys_port_cnt && count < max);
	}
	ibv_free_device_list(list);
	return count;
}
