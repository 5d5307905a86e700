/* SPDX-License-Identifier: MIT */
/*
 * Queue pairs that are brought up without rdma_cm. The attributes of each transition are those that
 * the InfiniBand Architecture Specification (volume 1, 11.2.5.2, "Modify Queue Pair") requires for
 * a reliable connection. Where they leave a choice:
 *
 *	INIT	P_Key index 0, the default partition. The access flags are the caller's from the
 *		first instant (guarantee D).
 *	RTR	path MTU: the smaller of both ports'. A GRH on Ethernet, where there is no LID, and on
 *		InfiniBand if the peer's subnet is another one. Hop limit 64, as the kernel's
 *		connection manager takes for RoCE. Service level and traffic class 0.
 *	RTS	a timeout of 18, 4.096 us x 2^18 = 1.07 s, as UCX has (UCX_RC_TIMEOUT); with the
 *		caller's 6 retries a connection outlives 7 s in which the peer's host stands still,
 *		as one made by rdma_cm does (19 on RoCE). The 67 ms of perftest would be over after
 *		half a second, before a virtual machine has moved. The RNR timer is the caller's.
 *
 * The user may set most of these otherwise: common/rdma/link.h.
 *
 *	PSN	random (volume 1, 9.7.2 leaves it to software): stray packets of an older queue
 *		pair with this number do not fit this connection.
 *
 * InfiniBand is written from the specification, and untested for lack of a device.
 */
#include "common/rdma/tcp/tcp.h"

#include <string.h>
#include <sys/random.h>

#include "common/util/log.h"

#define PKEY_INDEX 0
#define HOP_LIMIT 64
#define ACK_TIMEOUT 18
#define PSN_MASK 0xffffffu

/* The network part of a GID. */
#define SUBNET_PREFIX_BYTES 8

static int enter_init(const struct tcp_id *oid, struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = link_or(&verbs_port_of(oid->id.dev)->link, LINK_PKEY_INDEX,
				      PKEY_INDEX),
		.port_num = oid->id.dev->port_number,
		.qp_access_flags = (unsigned int)access,
	};
	int err = verbs_error(ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));

	if (err) {
		errno = -err;
		log_ratelimited(LOG_ERROR, 1, "%s: can't move queue pair 0x%x to INIT: %m",
				oid->id.dev->name, qp->qp_num);
	}
	return err;
}

int tcp_create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access)
{
	struct tcp_channel *oc = tcp_channel_of(id->channel);
	struct ibv_qp *qp;
	int err = verbs_access_check(access);

	if (err)
		return err;
	if (id->qp)
		return -EBUSY;
	err = verbs_qp_create(id->dev, pd, attr, &qp);
	if (err)
		return err;
	err = enter_init(tcp_id_of(id), qp, access);
	if (err) {
		ibv_destroy_qp(qp);
		return err;
	}
	pthread_mutex_lock(&oc->lock);
	id->qp = qp;
	pthread_mutex_unlock(&oc->lock);
	return 0;
}

void tcp_destroy_qp(struct cm_id *id)
{
	struct tcp_channel *oc;

	if (!id)
		return;
	oc = tcp_channel_of(id->channel);
	pthread_mutex_lock(&oc->lock);
	verbs_qp_destroy(id->dev, id->qp);
	id->qp = NULL;
	pthread_mutex_unlock(&oc->lock);
}

int tcp_qp_error(struct tcp_id *oid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return oid->id.qp ? verbs_error(ibv_modify_qp(oid->id.qp, &attr, IBV_QP_STATE)) : 0;
}

/* How this end's port reaches the peer's. */
static struct ibv_ah_attr path(const struct tcp_id *oid)
{
	const struct verbs_port *port = verbs_port_of(oid->id.dev);
	const struct tcp_end *mine = &oid->mine, *peer = &oid->got.end;
	bool ethernet = port->link_layer == IBV_LINK_LAYER_ETHERNET;

	return (struct ibv_ah_attr){
		.port_num = port->dev.port_number,
		.sl = link_or(&port->link, LINK_SERVICE_LEVEL, 0),
		.dlid = ethernet ? 0 : peer->lid,
		.is_global = ethernet ||
			     memcmp(mine->gid.raw, peer->gid.raw, SUBNET_PREFIX_BYTES) != 0,
		.grh = {
			.dgid = peer->gid,
			.sgid_index = (uint8_t)oid->gid_index,
			.hop_limit = HOP_LIMIT,
			.traffic_class = link_or(&port->link, LINK_TRAFFIC_CLASS, 0),
		},
	};
}

static int enter_rtr(struct tcp_id *oid)
{
	const struct tcp_end *mine = &oid->mine, *peer = &oid->got.end;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)verbs_min_u8(mine->mtu, peer->mtu),
		.dest_qp_num = peer->qp_num,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = mine->responder_resources,
		.min_rnr_timer = oid->param.min_rnr_timer,
		.ah_attr = path(oid),
	};

	return verbs_error(ibv_modify_qp(oid->id.qp, &attr,
					 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static int enter_rts(struct tcp_id *oid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = link_or(&verbs_port_of(oid->id.dev)->link, LINK_ACK_TIMEOUT,
				   ACK_TIMEOUT),
		.retry_cnt = oid->param.retry_count,
		.rnr_retry = oid->param.rnr_retry_count,
		.sq_psn = oid->mine.psn,
		.max_rd_atomic = oid->mine.initiator_depth,
	};

	return verbs_error(ibv_modify_qp(oid->id.qp, &attr,
					 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						 IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						 IBV_QP_MAX_QP_RD_ATOMIC));
}

int tcp_qp_connect(struct tcp_id *oid)
{
	int err;

	if (!oid->id.qp)
		return -EINVAL;
	err = enter_rtr(oid);
	if (!err)
		err = enter_rts(oid);
	if (err) {
		errno = -err;
		/* Peers decide how often this happens, so limit it. */
		log_ratelimited(LOG_WARN, 1, "%s: can't connect queue pair 0x%x: %m",
				oid->id.dev->name, oid->id.qp->qp_num);
	}
	return err;
}

int tcp_end_describe(struct tcp_id *oid, const struct sockaddr_storage *local,
		     const struct tcp_end *peer)
{
	struct verbs_port *port = verbs_port_of(oid->id.dev);
	struct ibv_gid_entry gid;
	struct ibv_port_attr attr;
	uint32_t psn;
	int err = verbs_error(ibv_query_port(port->dev.verbs, port->dev.port_number, &attr));

	if (!err)
		err = tcp_gid_choose(port, local, peer, &gid);
	if (err)
		return err;
	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		return -EIO;
	oid->gid_index = gid.gid_index;
	oid->mine.qp_num = oid->id.qp->qp_num;
	oid->mine.psn = psn & PSN_MASK;
	oid->mine.gid = gid.gid;
	oid->mine.gid_type = (uint8_t)gid.gid_type;
	oid->mine.lid = attr.lid;
	oid->mine.link_layer = port->link_layer;
	oid->mine.mtu = (uint8_t)attr.active_mtu;
	return 0;
}
