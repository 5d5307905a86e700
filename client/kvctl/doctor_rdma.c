/* SPDX-License-Identifier: MIT */
/* Reads and judges the ports of RDMA devices: see doctor_rdma.h. */
#include "client/kvctl/doctor_rdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvctl/doctor_workers.h"

#define PORTS_MAX 64
#define SERVERS_MAX 64
#define MTU_BYTES_LEAST 128u /* << IBV_MTU_256, 1 */

/* The server's defaults for server.max_connections, request.srq_depth and memory.size. */
#define CONNECTIONS_WANTED 1024
#define RECEIVES_WANTED 4096
#define REGION_BYTES_WANTED (UINT64_C(1) << 30)
#define REGION_BYTES_MOST (UINT64_C(512) << 30) /* of memory.size */
/* With fewer READs at a time, large values are slow. */
#define READS_WANTED 4

static const char *port_file(char path[256], const struct doctor_port *port, const char *file)
{
	snprintf(path, 256, "class/infiniband/%s/%s", port->rdma.name, file);
	return path;
}

void doctor_port_read(struct doctor_port *port, const struct doctor_roots *roots)
{
	char path[256], file[64], text[64];

	snprintf(file, sizeof(file), "ports/%u/gid_attrs/ndevs/0", port->rdma.number);
	doctor_line_read(roots->sys, port_file(path, port, file), text, sizeof(text));
	if (!*text) /* of Soft-RoCE */
		doctor_line_read(roots->sys, port_file(path, port, "parent"), text, sizeof(text));
	snprintf(port->netdev, sizeof(port->netdev), "%.*s", IFNAMSIZ - 1, text);
	doctor_line_read(roots->sys, port_file(path, port, "device/numa_node"), text, sizeof(text));
	port->numa_node = *text ? atoi(text) : -1;
	if (port->numa_node < 0)
		return;
	snprintf(path, sizeof(path), "devices/system/node/node%d/cpulist", port->numa_node);
	doctor_line_read(roots->sys, path, port->node_cpus, sizeof(port->node_cpus));
}

static void check_opened(struct findings *findings, const struct doctor_port *port)
{
	bool denied = port->rdma.error == -EACCES || port->rdma.error == -EPERM;

	findings_add(findings, SEVERITY_ERROR, "device",
		     denied ? "sudo chmod a+rw /dev/infiniband/uverbs* /dev/infiniband/rdma_cm" :
			      "sudo modprobe ib_uverbs",
		     "%s can't be opened: %s", port->rdma.name, strerror(-port->rdma.error));
}

static bool is_ethernet(const struct doctor_port *port)
{
	return port->rdma.port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

static void check_state(struct findings *findings, const struct doctor_port *port)
{
	const struct ibv_port_attr *attr = &port->rdma.port;
	const char *layer = is_ethernet(port) ? "Ethernet" : "InfiniBand";
	char fix[128];

	if (attr->state == IBV_PORT_ACTIVE) {
		findings_add(findings, SEVERITY_OK, "state", NULL, "active, link layer %s", layer);
		return;
	}
	if (*port->netdev)
		snprintf(fix, sizeof(fix), "sudo ip link set dev %s up", port->netdev);
	else if (is_ethernet(port))
		snprintf(fix, sizeof(fix), "rdma link show %s/%u", port->rdma.name,
			 port->rdma.number);
	else if (attr->state == IBV_PORT_INIT)
		snprintf(fix, sizeof(fix), "sudo systemctl start opensm");
	else
		snprintf(fix, sizeof(fix), "ibportstate -D 0 %u enable", port->rdma.number);
	findings_add(findings, SEVERITY_ERROR, "state", fix,
		     "the port is not active but %s, link layer %s%s",
		     ibv_port_state_str(attr->state), layer,
		     attr->state == IBV_PORT_INIT && !is_ethernet(port) ?
			     ": no subnet manager has set it up" :
			     "");
}

static bool is_link_local(const struct ibv_gid_entry *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)gid->gid.raw);
}

static void check_roce_gid(struct findings *findings, const struct doctor_port *port,
			   const char *gid_text)
{
	const struct ibv_gid_entry *gid = &port->rdma.gid;
	char address[128] = "rdma link", mode[128];

	if (*port->netdev)
		snprintf(address, sizeof(address), "sudo ip address add 10.9.0.1/24 dev %s",
			 port->netdev);
	snprintf(mode, sizeof(mode), "sudo cma_roce_mode -d %s -p %u -m 2", port->rdma.name,
		 port->rdma.number);
	if (!port->rdma.has_gid)
		findings_add(findings, SEVERITY_ERROR, "gid", address,
			     "it has no GID, so nothing connects: it needs an IP address");
	else if (is_link_local(gid))
		findings_add(findings, SEVERITY_WARNING, "gid", address,
			     "connections would use GID %u, %s, which is link-local: rdma:// needs "
			     "an IP address",
			     gid->gid_index, gid_text);
	else if (gid->gid_type != IBV_GID_TYPE_ROCE_V2)
		findings_add(findings, SEVERITY_WARNING, "gid", mode,
			     "connections use GID %u, %s, RoCE v1: no router forwards it",
			     gid->gid_index, gid_text);
	else
		findings_add(findings, SEVERITY_OK, "gid", NULL,
			     "connections use GID %u, %s, RoCE v2", gid->gid_index, gid_text);
}

static void check_gid(struct findings *findings, const struct doctor_port *port)
{
	const struct ibv_gid_entry *gid = &port->rdma.gid;
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, gid->gid.raw, text, sizeof(text));
	if (port->rdma.iwarp)
		findings_add(findings, SEVERITY_OK, "gid", NULL, "iWARP: only rdma:// works");
	else if (is_ethernet(port))
		check_roce_gid(findings, port, text);
	else if (port->rdma.has_gid)
		findings_add(findings, SEVERITY_OK, "gid", NULL, "connections use GID %u, %s",
			     gid->gid_index, text);
	else
		findings_add(findings, SEVERITY_ERROR, "gid", "ibstat",
			     "it has no GID, so nothing connects");
}

/* Compares the server's defaults with the device's limits. */
static void check_limits(struct findings *findings, const struct doctor_port *port)
{
	const struct ibv_device_attr *attr = &port->rdma.attr;
	const bool few_receives = attr->max_srq_wr < RECEIVES_WANTED;
	const bool few_qps = attr->max_qp < CONNECTIONS_WANTED;
	char fix[128] = "kvd";
	size_t used = 3;

	if (!attr->max_srq) {
		findings_add(findings, SEVERITY_ERROR, "limits", "kvd -o server.listen=softnic://",
			     "it has no shared receive queues, which a server needs");
		return;
	}
	if (few_receives)
		used += (size_t)snprintf(fix + used, sizeof(fix) - used, " -o request.srq_depth=%d",
					 attr->max_srq_wr);
	if (few_qps)
		snprintf(fix + used, sizeof(fix) - used, " -o server.max_connections=%d",
			 attr->max_qp > 16 ? attr->max_qp - 16 : 1);
	findings_add(findings, few_receives || few_qps ? SEVERITY_WARNING : SEVERITY_OK, "limits",
		     few_receives || few_qps ? fix : NULL,
		     "%d queue pairs, %d shared receive queues of %d receives%s", attr->max_qp,
		     attr->max_srq, attr->max_srq_wr,
		     few_receives || few_qps ? ": fewer than a server's defaults" : "");
}

static void check_reads(struct findings *findings, const struct doctor_port *port)
{
	const struct ibv_device_attr *attr = &port->rdma.attr;
	const bool few = attr->max_qp_rd_atom < READS_WANTED ||
			 attr->max_qp_init_rd_atom < READS_WANTED;

	findings_add(findings, few ? SEVERITY_INFO : SEVERITY_OK, "reads", NULL,
		     "max_rd_atomic: %d READs to a queue pair and %d from it at a time%s",
		     attr->max_qp_rd_atom, attr->max_qp_init_rd_atom,
		     few ? ": large values are slow over this device" : "");
}

static void check_region(struct findings *findings, const struct doctor_port *port)
{
	const uint64_t most = port->rdma.attr.max_mr_size;
	char fix[64];

	snprintf(fix, sizeof(fix), "kvd -o memory.size=%" PRIu64 "m", most >> 20);
	if (most > REGION_BYTES_MOST)
		findings_add(findings, SEVERITY_OK, "max_mr_size", NULL,
			     "it registers a region of any size in one piece");
	else
		findings_add(findings, most < REGION_BYTES_WANTED ? SEVERITY_WARNING : SEVERITY_OK,
			     "max_mr_size", most < REGION_BYTES_WANTED ? fix : NULL,
			     "it registers %" PRIu64 " MiB in one piece: memory.size at most",
			     most >> 20);
}

static void check_qp(struct findings *findings, const struct doctor_port *port)
{
	const struct device_port *rdma = &port->rdma;

	if (rdma->qp_error)
		findings_add(findings, SEVERITY_ERROR, "inline",
			     rdma->qp_error == -ENOMEM ? "ulimit -Sl hard" : "ibv_devinfo -v",
			     "can't create a queue pair: %s", strerror(-rdma->qp_error));
	else if (rdma->inline_bytes < DOCTOR_INLINE_BYTES)
		findings_add(
			findings, SEVERITY_ERROR, "inline", "kvd -d -o server.listen=softnic://",
			"a queue pair sends less than %u bytes inline, so no client can use it",
			DOCTOR_INLINE_BYTES);
	else
		findings_add(findings, SEVERITY_OK, "inline", NULL,
			     "a queue pair can be created, and sends %u bytes inline",
			     rdma->inline_bytes);
}

static void check_numa(struct findings *findings, const struct doctor_port *port)
{
	if (port->numa_node < 0)
		findings_add(findings, SEVERITY_OK, "numa", NULL,
			     "the device belongs to no NUMA node");
	else
		findings_add(findings, SEVERITY_OK, "numa", NULL,
			     "NUMA node %d, CPUs %s: memory.numa = local uses it", port->numa_node,
			     *port->node_cpus ? port->node_cpus : "unknown");
}

static void check_mtu(struct findings *findings, const struct doctor_host *host,
		      const struct doctor_port *port)
{
	const uint32_t bytes = MTU_BYTES_LEAST << port->rdma.port.active_mtu;

	if (is_ethernet(port) && *port->netdev)
		doctor_check_netdev(findings, host, port->rdma.name, port->netdev, bytes);
	else
		findings_add(findings, SEVERITY_OK, "mtu", NULL, "active MTU %u", bytes);
}

void doctor_check_port(struct findings *findings, const struct doctor_host *host,
		       const struct doctor_port *port)
{
	findings_group(findings, "RDMA device %s, port %u", port->rdma.name, port->rdma.number);
	if (port->rdma.error) {
		check_opened(findings, port);
		return;
	}
	check_state(findings, port);
	check_gid(findings, port);
	if (port->rdma.port.state == IBV_PORT_ACTIVE)
		check_mtu(findings, host, port);
	check_reads(findings, port);
	check_limits(findings, port);
	check_region(findings, port);
	check_qp(findings, port);
	check_numa(findings, port);
}

static void check_servers(struct findings *findings, const struct doctor_port *port,
			  const char *proc)
{
	struct doctor_workers list[SERVERS_MAX];
	unsigned int count;

	if (!*port->node_cpus)
		return;
	count = doctor_workers_read(list, SERVERS_MAX, proc, port->node_cpus);
	doctor_check_workers(findings, port->rdma.name, port->node_cpus, list, count);
}

void doctor_check_ports(struct findings *findings, const struct doctor_host *host,
			const struct doctor_roots *roots)
{
	static struct device_port list[PORTS_MAX];
	int count = device_ports(list, PORTS_MAX, DOCTOR_INLINE_BYTES);

	for (int i = 0; i < count; i++) {
		struct doctor_port port = { .rdma = list[i] };

		doctor_port_read(&port, roots);
		doctor_check_port(findings, host, &port);
		check_servers(findings, &port, roots->proc);
	}
	if (count <= 0 && host->rdma_present)
		findings_add(findings, SEVERITY_ERROR, "device", "sudo modprobe ib_uverbs",
			     "the kernel has an RDMA device that libibverbs does not see: a driver "
			     "of ibverbs-providers or ib_uverbs is missing");
}
