/* SPDX-License-Identifier: MIT */
/*
 * Queue pairs on verbs: creates them and moves them through their states. rdma_create_qp() is not
 * used: it would put the queue pair into INIT with the access flags that the kernel proposes,
 * remote write among them, so for an instant guarantee D would not hold. Here the kernel's
 * connection manager gives all attributes but the access flags, which are the caller's from the
 * first instant.
 *
 * iWARP: the kernel itself moves the queue pair on from INIT. That path is untested, for lack of a
 * device.
 */
#include "common/rdma/verbs/verbs.h"

#include "common/util/log.h"

/*
 * Bits of the attribute mask that old kernels return for RoCE (source MAC and VLAN) and that
 * their InfiniBand drivers refuse.
 */
#define ATTR_MASK_ETHERNET_ONLY 0xe00000

static int attr_init(struct verbs_id *vid, struct ibv_qp_attr *attr, int *mask)
{
	struct verbs_device *vd = verbs_device_of(vid->id.dev);

	if (vid->state == VERBS_ID_RESOLVING) {
		*attr = vd->init_attr;
		*mask = vd->init_mask;
		return 0;
	}
	attr->qp_state = IBV_QPS_INIT;
	return verbs_error(rdma_init_qp_attr(vid->rdma, attr, mask));
}

static int enter_init(struct verbs_id *vid, struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = { 0 };
	int mask = 0;
	int err = attr_init(vid, &attr, &mask);

	if (!err) {
		attr.qp_access_flags = (unsigned int)access;
		err = verbs_error(ibv_modify_qp(qp, &attr, mask | IBV_QP_ACCESS_FLAGS));
	}
	if (err) {
		errno = -err;
		log_ratelimited(LOG_ERROR, 1, "%s: can't move queue pair 0x%x to INIT: %m",
				vid->id.dev->name, qp->qp_num);
	}
	return err;
}

int verbs_create_qp(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int access)
{
	struct verbs_id *vid = verbs_id_of(id);
	struct ibv_qp *qp;
	int err = verbs_access_check(access);

	if (err)
		return err;
	if (id->qp)
		return -EBUSY;
	err = verbs_qp_create(id->dev, pd, attr, &qp);
	if (err)
		return err;
	pthread_mutex_lock(&vid->lock);
	err = enter_init(vid, qp, access);
	if (!err)
		id->qp = qp;
	pthread_mutex_unlock(&vid->lock);
	if (err)
		ibv_destroy_qp(qp);
	return err;
}

void verbs_destroy_qp(struct cm_id *id)
{
	struct verbs_id *vid = verbs_id_of(id);

	if (!id)
		return;
	pthread_mutex_lock(&vid->lock);
	verbs_qp_destroy(id->dev, id->qp);
	id->qp = NULL;
	pthread_mutex_unlock(&vid->lock);
}

int verbs_qp_error(struct verbs_id *vid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return vid->id.qp ? verbs_error(ibv_modify_qp(vid->id.qp, &attr, IBV_QP_STATE)) : 0;
}

/* rdma_init_qp_attr() gives EINVAL if the peer gave up or died meanwhile. */
static int attr_proposed(struct verbs_id *vid, struct ibv_qp_attr *attr, int *mask)
{
	int err = verbs_error(rdma_init_qp_attr(vid->rdma, attr, mask));

	return err == -EINVAL ? -ECONNABORTED : err;
}

static int enter_rtr(struct verbs_id *vid)
{
	const struct device_link *link = &verbs_port_of(vid->id.dev)->link;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask;
	int err = attr_proposed(vid, &attr, &mask);

	if (err)
		return err;
	mask &= ~IBV_QP_ACCESS_FLAGS; /* keep what create_qp() or modify_qp() set */
	if (verbs_port_of(vid->id.dev)->link_layer == IBV_LINK_LAYER_INFINIBAND)
		mask &= ~ATTR_MASK_ETHERNET_ONLY;
	/* What the user does not set is the connection manager's choice. */
	attr.ah_attr.sl = link_or(link, LINK_SERVICE_LEVEL, attr.ah_attr.sl);
	attr.ah_attr.grh.traffic_class = link_or(link, LINK_TRAFFIC_CLASS,
						 attr.ah_attr.grh.traffic_class);
	attr.max_dest_rd_atomic = vid->responder_resources;
	/* The connection manager proposes 0, which means 655 ms. */
	attr.min_rnr_timer = vid->param.min_rnr_timer;
	return verbs_error(ibv_modify_qp(vid->id.qp, &attr,
					 mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static int enter_rts(struct verbs_id *vid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	int mask;
	int err = attr_proposed(vid, &attr, &mask);

	if (err)
		return err;
	mask &= ~IBV_QP_ACCESS_FLAGS;
	attr.max_rd_atomic = vid->initiator_depth;
	attr.timeout = link_or(&verbs_port_of(vid->id.dev)->link, LINK_ACK_TIMEOUT, attr.timeout);
	/* Our own retry counts, not those that the peer proposes. */
	attr.retry_cnt = vid->param.retry_count;
	attr.rnr_retry = vid->param.rnr_retry_count;
	return verbs_error(ibv_modify_qp(vid->id.qp, &attr,
					 mask | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT |
						 IBV_QP_RNR_RETRY));
}

int verbs_qp_connect(struct verbs_id *vid)
{
	int err;

	if (!vid->id.qp)
		return -EINVAL;
	if (verbs_port_of(vid->id.dev)->iwarp)
		return 0;
	err = enter_rtr(vid);
	if (!err)
		err = enter_rts(vid);
	if (err) {
		errno = -err;
		/* Usually the peer has gone: peers decide how often this happens, so limit it. */
		log_ratelimited(LOG_WARN, 1,
				"%s: can't connect queue pair 0x%x: %m; the peer has probably gone",
				vid->id.dev->name, vid->id.qp->qp_num);
	}
	return err;
}
