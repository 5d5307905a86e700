/* SPDX-License-Identifier: MIT */
/* How a connected queue pair uses the network, as text for people. */
#include <arpa/inet.h>
#include <stdio.h>

#include "common/rdma/device.h"

#define QUERY                                                                                      \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_PKEY_INDEX | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |     \
	 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

#define MTU_BYTES_LEAST 128u /* << IBV_MTU_256, 1 */

static const char *gid_type_name(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCEv2";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCEv1";
	default:
		return "InfiniBand";
	}
}

/* This end's address: a GID, or a LID if packets have no GID. */
static int source_print(const struct device *dev, const struct ibv_ah_attr *path, char *text,
			size_t size)
{
	char address[INET6_ADDRSTRLEN];
	struct ibv_gid_entry gid;
	struct ibv_port_attr port;

	if (path->is_global &&
	    !ibv_query_gid_ex(dev->verbs, dev->port_number, path->grh.sgid_index, &gid, 0))
		return snprintf(text, size, "gid=%s gid_index=%u gid_type=%s",
				inet_ntop(AF_INET6, gid.gid.raw, address, sizeof(address)),
				path->grh.sgid_index, gid_type_name(gid.gid_type));
	if (!path->is_global && !ibv_query_port(dev->verbs, dev->port_number, &port))
		return snprintf(text, size, "lid=%u", port.lid);
	return 0;
}

void device_link_text(struct device *dev, struct ibv_qp *qp, char text[DEVICE_LINK_TEXT_MAX])
{
	struct ibv_qp_attr attr;
	int used;

	*text = '\0';
	if (!device_kind_is_rdma(dev->kind) || dev->ops->query_qp(qp, &attr, QUERY))
		return;
	used = source_print(dev, &attr.ah_attr, text, DEVICE_LINK_TEXT_MAX);
	snprintf(text + used, DEVICE_LINK_TEXT_MAX - (size_t)used,
		 "%smtu=%u pkey_index=%u traffic_class=%u service_level=%u ack_timeout=%u "
		 "retry_count=%u rnr_retry=%u max_rd_atomic=%u",
		 used ? " " : "", MTU_BYTES_LEAST << attr.path_mtu, attr.pkey_index,
		 attr.ah_attr.grh.traffic_class, attr.ah_attr.sl, attr.timeout, attr.retry_cnt,
		 attr.rnr_retry, attr.max_rd_atomic);
}
