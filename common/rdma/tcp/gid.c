/* SPDX-License-Identifier: MIT */
/* Chooses a queue pair's GID among those of a port. */
#include "common/rdma/tcp/tcp.h"

#include <netinet/in.h>
#include <string.h>

#include "common/rdma/inet.h"
#include "common/util/log.h"

/* The most entries looked at: mlx5 has 256 for each port. */
#define GID_TABLE_MAX 1024

#define RANK_ROCE_V2 8u
#define RANK_ADDRESS 4u
#define RANK_NOT_LINK_LOCAL 2u

static bool is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid->raw);
}

static bool is_link_local(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)gid->raw);
}

/* RoCE v2 has the address of the interface in the GID, an IPv4 address as ::ffff:a.b.c.d. */
static bool is_address(const union ibv_gid *gid, const struct sockaddr_storage *addr)
{
	const uint8_t *bytes;
	size_t len;

	if (!addr)
		return false;
	bytes = inet_bytes(addr, &len);
	/* A socket for both families has IPv4 addresses in the same form. */
	if (len == sizeof(struct in_addr))
		return is_ipv4(gid) && !memcmp(gid->raw + sizeof(gid->raw) - len, bytes, len);
	return !memcmp(gid->raw, bytes, len);
}

static bool reaches(const struct ibv_gid_entry *entry, const struct tcp_end *peer)
{
	return !peer ||
	       (entry->gid_type == peer->gid_type && is_ipv4(&entry->gid) == is_ipv4(&peer->gid));
}

static unsigned int rank(const struct ibv_gid_entry *entry, const struct sockaddr_storage *local)
{
	unsigned int points = 1;

	if (entry->gid_type == IBV_GID_TYPE_ROCE_V2)
		points += RANK_ROCE_V2;
	if (is_address(&entry->gid, local))
		points += RANK_ADDRESS;
	if (!is_link_local(&entry->gid))
		points += RANK_NOT_LINK_LOCAL;
	return points;
}

static int table_query(struct ibv_context *context, struct ibv_gid_entry *table)
{
	return (int)ibv_query_gid_table(context, table, GID_TABLE_MAX, 0);
}

static int gid_of_index(const struct verbs_port *port, uint8_t index, const struct tcp_end *peer,
			struct ibv_gid_entry *entry)
{
	int err = verbs_error(
		ibv_query_gid_ex(port->dev.verbs, port->dev.port_number, index, entry, 0));

	if (err || (port->link_layer == IBV_LINK_LAYER_ETHERNET && !reaches(entry, peer))) {
		log_ratelimited(LOG_ERROR, 1, "%s: GID %u %s: see `show_gids` or `ibv_devinfo -v`",
				port->dev.name, index,
				err ? "does not exist" :
				      "does not reach the peer's, of another type or family");
		return -EADDRNOTAVAIL;
	}
	return 0;
}

int tcp_gid_choose(const struct verbs_port *port, const struct sockaddr_storage *local,
		   const struct tcp_end *peer, struct ibv_gid_entry *entry)
{
	bool wanted = port->link.set & (1u << LINK_GID_INDEX);
	struct ibv_gid_entry table[GID_TABLE_MAX];
	unsigned int best = 0, points;
	int count;

	if (wanted || port->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return gid_of_index(port, link_or(&port->link, LINK_GID_INDEX, 0), peer, entry);
	count = table_query(port->dev.verbs, table);
	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		if (table[i].port_num != port->dev.port_number || !reaches(&table[i], peer))
			continue;
		points = rank(&table[i], local);
		if (points <= best)
			continue;
		best = points;
		*entry = table[i];
	}
	return best ? 0 : -EADDRNOTAVAIL;
}

bool tcp_gid_find(struct ibv_context *context, const struct sockaddr_storage *addr, uint8_t *number)
{
	struct ibv_gid_entry table[GID_TABLE_MAX];
	int count = table_query(context, table);

	for (int i = 0; i < count; i++)
		if (is_address(&table[i].gid, addr)) {
			*number = (uint8_t)table[i].port_num;
			return true;
		}
	return false;
}
