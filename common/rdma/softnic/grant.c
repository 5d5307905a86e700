/* SPDX-License-Identifier: MIT */
/*
 * Grants, the owner's side: which files a peer may map. They are the files behind the registrations
 * with REMOTE_READ in its queue pair's PD, while the queue pair has REMOTE_READ too. A file is
 * passed over the socket once; the word in granted[] says whether the grant still holds. Memory
 * whose file can't be passed (no slot, a full socket) is read like memory without a file: we serve
 * the READs.
 *
 * A queue pair that is one thread's (device_ops.create_channel_pair) has connected, so it passes no
 * files. It always says that it serves READs, and refuses those of memory that is not registered
 * when they come: so registrations, which any thread makes, need not touch it.
 */
#include "common/rdma/softnic/softnic.h"

#include "common/util/log.h"

static bool do_qp_may_read(const struct sn_qp *qp)
{
	return qp->announced && qp->verbs.state == IBV_QPS_RTS &&
	       (qp->access & IBV_ACCESS_REMOTE_READ);
}

static bool mr_readable(const struct sn_qp *qp, const struct sn_mr *mr)
{
	return mr && mr->verbs.pd == qp->verbs.pd && (mr->access & IBV_ACCESS_REMOTE_READ);
}

static bool do_grant_send(struct sn_qp *qp, const struct sn_mr *mr, uint32_t slot)
{
	struct link_message message = {
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_GRANT,
		.grant_slot = (uint8_t)slot,
		.grant_rkey = mr->verbs.rkey,
		.grant_addr = (uintptr_t)mr->verbs.addr,
		.grant_length = mr->verbs.length,
		.grant_offset = mr->fd_offset,
	};
	int ret = link_send(qp->sock, &message, mr->fd);

	if (ret) {
		log_ratelimited(
			LOG_WARN, 1,
			"softnic: queue pair %#x: can't pass %zu bytes of memory to the peer: %s; "
			"READs of them will cost this process CPU time",
			qp->verbs.qp_num, mr->verbs.length, strerrordesc_np(-ret));
		return false;
	}
	qp->granted[slot] = mr->verbs.rkey;
	side_store(&qp->mine->granted[slot], mr->verbs.rkey);
	return true;
}

/* Whether the peer can map this registration from now on. */
static bool do_grant(struct sn_qp *qp, const struct sn_mr *mr)
{
	uint32_t slot, empty = LINK_GRANTS_MAX;

	for (slot = 0; slot < LINK_GRANTS_MAX; slot++) {
		if (qp->granted[slot] == mr->verbs.rkey)
			return true;
		if (!qp->granted[slot] && empty == LINK_GRANTS_MAX)
			empty = slot;
	}
	/* The side that accepts maps nothing: read.c says why. */
	if (mr->fd < 0 || qp->is_active || empty == LINK_GRANTS_MAX)
		return false;
	return do_grant_send(qp, mr, empty);
}

static void do_grants_revoke(struct sn_qp *qp, bool all)
{
	uint32_t slot;

	for (slot = 0; slot < LINK_GRANTS_MAX; slot++) {
		uint32_t rkey = qp->granted[slot];
		struct sn_mr *mr = atomic_load_explicit(&qp->ctx->mrs[rkey % SN_MR_MAX],
							memory_order_acquire);

		if (!rkey || (!all && mr_readable(qp, mr) && mr->verbs.rkey == rkey))
			continue;
		qp->granted[slot] = 0;
		side_store(&qp->mine->granted[slot], 0);
	}
}

void do_sn_grants_update(struct sn_qp *qp)
{
	uint32_t serves = 0;
	uint32_t slot;
	bool may;

	sn_lock(&qp->lock);
	may = do_qp_may_read(qp);
	if (qp->mine)
		do_grants_revoke(qp, !may);
	if (qp->lock.single)
		serves = may;
	for (slot = 0; may && !qp->lock.single && slot < SN_MR_MAX; slot++) {
		struct sn_mr *mr = atomic_load_explicit(&qp->ctx->mrs[slot], memory_order_acquire);

		if (mr_readable(qp, mr) && !do_grant(qp, mr))
			serves = 1;
	}
	/*
	 * The right may be given before accept() has announced the queue pair: the peer has its
	 * response, sends, and is served already. Until it has the files, its READs must be served,
	 * not refused.
	 */
	if (!qp->announced && qp->verbs.state == IBV_QPS_RTS)
		serves = !!(qp->access & IBV_ACCESS_REMOTE_READ);
	if (qp->mine)
		side_store(&qp->mine->serves, serves);
	sn_unlock(&qp->lock);
}

void sn_grants_update(struct sn_qp *qp)
{
	pthread_mutex_lock(&qp->ctx->lock);
	do_sn_grants_update(qp);
	pthread_mutex_unlock(&qp->ctx->lock);
}
