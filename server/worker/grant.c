/* SPDX-License-Identifier: MIT */
/* Allocates, binds and frees the memory windows of connections. */
#include "server/worker/grant.h"

#include <errno.h>
#include <string.h>

#include "common/util/log.h"
#include "server/worker/worker.h"

struct conn_region conn_region(const struct conn *conn)
{
	const struct region *region = conn->client.part->thread.table->region;

	return (struct conn_region){ conn->mr, region->base, region->bytes };
}

int grant_open(struct conn *conn)
{
	const struct nic *nic = conn->poller->nic;
	int err;

	if (!nic->windows)
		return 0;
	err = nic->dev->ops->alloc_mw(nic->pd, &conn->mw);
	return err == -ENOMEM ? -ENOSPC : err;
}

bool grant_allow(const struct conn *conn)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | (conn->mw ? IBV_ACCESS_MW_BIND : 0),
	};
	int err = conn->id->dev->ops->modify_qp(conn->qp, &attr, IBV_QP_ACCESS_FLAGS);

	if (err)
		log_ratelimited(LOG_ERROR, 1,
				CONN_FMT ": can't grant the client remote read (ibv_modify_qp): %s",
				CONN_ARG(conn), strerror(-err));
	return !err;
}

bool grant_bind(struct conn *conn)
{
	const struct conn_region region = conn_region(conn);
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_BIND, conn->sq_unsignaled + 1, conn->serial, BUFFER_NONE),
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = conn->mw,
			.rkey = grant_rkey(conn),
			.bind_info = {
				.mr = region.mr,
				.addr = (uintptr_t)region.addr,
				.length = region.length,
				.mw_access_flags = IBV_ACCESS_REMOTE_READ,
			},
		},
	};

	if (!conn->mw)
		return true;
	/* The welcome needs a place, too. So far only HELLOs of a wrong version have taken any. */
	if (!sq_room_for(conn, 2)) {
		conn_fail(conn, "its send queue has no room to bind its memory window");
		return false;
	}
	if (ibv_post_send(conn->qp, &wr, &bad)) {
		conn_fail(conn, "ibv_post_send of the bind of its memory window failed");
		return false;
	}
	sq_take(conn);
	conn->sq_unsignaled = 0;
	return true;
}

uint32_t grant_rkey(const struct conn *conn)
{
	return conn->mw ? ibv_inc_rkey(conn->mw->rkey) : conn_region(conn).mr->rkey;
}

void grant_close(struct conn *conn)
{
	if (conn->mw)
		conn->poller->nic->dev->ops->dealloc_mw(conn->mw);
	conn->mw = NULL;
}
