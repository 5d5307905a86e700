/* SPDX-License-Identifier: MIT */
/*
 * Grants, the owner's side: which files a peer may read. They are the files of the registrations
 * with REMOTE_READ in its queue pair's PD, and of the memory windows bound to the queue pair, while
 * the queue pair has REMOTE_READ too.
 * A file is passed over the socket once for each connection: when it is established, or when the
 * memory is registered. The word in granted[] says whether the grant still holds; it is written
 * first, since the accepting side closes files that it does not find there. Memory whose file can't
 * be passed (no slot, a full socket, too many GRANTs) is read like memory without a file: we serve
 * the READs.
 *
 * The side that connects may be asked to serve any READ, since the other side may have refused a
 * file.
 *
 * A queue pair declared for one thread (device_ops.create_channel_pair) belongs to a connecting
 * side. Registrations, which any thread makes, touch it in only one way: memory that is
 * deregistered loses its word, under the context's lock, at once. Its own thread does the rest,
 * before its next SEND, which may name new memory: sn_context.mr_changes says that there is
 * something to do.
 */
#include "common/rdma/softnic/file_grant.h"

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/life_word.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/util/log.h"
#include "common/util/parse.h"

static bool do_qp_may_read(const struct sn_qp *qp)
{
	return qp->announced && qp->verbs.state == IBV_QPS_RTS &&
	       (qp->access & IBV_ACCESS_REMOTE_READ);
}

static bool mr_readable(const struct sn_qp *qp, const struct sn_mr *mr)
{
	return mr && mr->verbs.pd == qp->verbs.pd && (mr->access & IBV_ACCESS_REMOTE_READ);
}

/* The memory of one key: a registration, or a window of it. */
struct readable {
	const struct sn_mr *mr;
	uint32_t rkey;
	uint64_t addr;
	uint64_t length;
};

static struct readable readable_mr(const struct sn_mr *mr)
{
	return (struct readable){ mr, mr->verbs.rkey, (uintptr_t)mr->verbs.addr, mr->verbs.length };
}

static bool do_grant_send(struct sn_qp *qp, const struct readable *memory, uint32_t slot)
{
	const struct sn_mr *mr = memory->mr;
	struct link_message message = {
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_GRANT,
		.grant_slot = (uint8_t)slot,
		.grant_rkey = memory->rkey,
		.grant_addr = memory->addr,
		.grant_length = memory->length,
		.grant_offset = mr->fd_offset + (memory->addr - (uintptr_t)mr->verbs.addr),
	};
	char size[PARSE_FORMAT_MAX];
	int ret;

	do_sn_life_send(qp);
	side_store(&qp->mine->granted[slot], memory->rkey);
	ret = link_send(qp->sock, &message, mr->fd);
	if (ret) {
		side_store(&qp->mine->granted[slot], 0);
		log_ratelimited(
			LOG_WARN, 1,
			"softnic: queue pair %#x: can't pass %s of memory to the peer: %s; READs "
			"of it will cost this process CPU time",
			qp->verbs.qp_num, show_size(memory->length, size), strerrordesc_np(-ret));
		return false;
	}
	qp->granted[slot] = memory->rkey;
	qp->grants_count += qp->is_active;
	return true;
}

bool do_sn_grant_allowed(const struct sn_qp *qp)
{
	return qp->grants_count < LINK_GRANTS_MAX + qp->sends_taken;
}

/* Whether the peer can read this memory by itself from now on. */
static bool do_grant(struct sn_qp *qp, const struct readable *memory)
{
	const struct sn_mr *mr = memory->mr;
	uint32_t slot, empty = LINK_GRANTS_MAX;

	for (slot = 0; slot < LINK_GRANTS_MAX; slot++) {
		if (qp->granted[slot] == memory->rkey)
			return true;
		if (!qp->granted[slot] && empty == LINK_GRANTS_MAX)
			empty = slot;
	}
	if (mr->fd < 0 || empty == LINK_GRANTS_MAX ||
	    (qp->is_active && (!mr->is_fixed || !do_sn_grant_allowed(qp) ||
			       link_queued(qp->sock) > SN_GRANTS_QUEUED)))
		return false;
	return do_grant_send(qp, memory, empty);
}

static bool do_key_stands(const struct sn_qp *qp, uint32_t rkey)
{
	const struct sn_mr *mr = atomic_load_explicit(&qp->ctx->mrs[rkey % SN_MR_MAX],
						      memory_order_acquire);

	return do_sn_mw_find(qp, rkey) || (mr_readable(qp, mr) && mr->verbs.rkey == rkey);
}

static void do_grants_revoke(struct sn_qp *qp, bool all)
{
	uint32_t slot;

	for (slot = 0; slot < LINK_GRANTS_MAX; slot++) {
		uint32_t rkey = qp->granted[slot];

		if (!rkey || (!all && do_key_stands(qp, rkey)))
			continue;
		qp->granted[slot] = 0;
		side_store(&qp->mine->granted[slot], 0);
		/* The other side must close the file, which keeps the memory allocated. */
		if (qp->is_active)
			qp->changed |= LINK_WAKE_EVENT;
	}
	do_sn_qp_publish(qp);
}

void do_sn_grant_revoke(struct sn_qp *qp, uint32_t rkey)
{
	uint32_t slot;

	for (slot = 0; slot < LINK_GRANTS_MAX; slot++)
		if (qp->granted[slot] == rkey) {
			qp->granted[slot] = 0;
			side_store(&qp->mine->granted[slot], 0);
		}
}

/* Passes the files that the peer may read. Returns whether READs of some memory must be served. */
static bool do_grants_pass(struct sn_qp *qp)
{
	struct readable memory;
	bool serves = false;
	struct sn_mw *mw;
	uint32_t slot;

	for (slot = 0; slot < SN_MR_MAX; slot++) {
		struct sn_mr *mr = atomic_load_explicit(&qp->ctx->mrs[slot], memory_order_acquire);

		if (!mr_readable(qp, mr))
			continue;
		memory = readable_mr(mr);
		serves |= !do_grant(qp, &memory);
	}
	LIST_FOREACH(mw, &qp->windows, in_qp) {
		memory = (struct readable){ mw->mr, mw->rkey, mw->addr, mw->length };
		serves |= !do_grant(qp, &memory);
	}
	return serves;
}

void do_sn_grants_update(struct sn_qp *qp)
{
	bool may, serves = false;

	sn_lock(&qp->lock);
	may = do_qp_may_read(qp);
	if (qp->mine)
		do_grants_revoke(qp, !may);
	if (qp->is_active)
		serves = may;
	qp->mr_changes = atomic_load_explicit(&qp->ctx->mr_changes, memory_order_relaxed);
	qp->window_new = false;
	if (may && do_grants_pass(qp))
		serves = true;
	/*
	 * The right may be granted before accept() has announced the queue pair: the peer has its
	 * response, sends, and is served already. Until it has the files, its READs must be served,
	 * not refused.
	 */
	if (!qp->announced && qp->verbs.state == IBV_QPS_RTS)
		serves = qp->access & IBV_ACCESS_REMOTE_READ;
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
