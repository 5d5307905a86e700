/* SPDX-License-Identifier: MIT */
/* Allocates, binds and frees the memory windows of connections. */
#include "server/worker/grant.h"

#include <errno.h>
#include <string.h>

#include "common/util/log.h"
#include "server/worker/worker.h"

static const struct region *region_of(const struct conn *conn)
{
	return conn->client.part->thread.table->region;
}

const struct ibv_mr *grant_mr(const struct conn *conn, const void *p)
{
	const struct region *region = region_of(conn);

	return conn->mrs[region_offset(region, p) / region->extent_bytes];
}

int grant_open(struct conn *conn, uint32_t extents)
{
	const struct nic *nic = conn->poller->nic;
	int err = 0;

	for (uint32_t i = 0; nic->windows && !err && i < extents; i++)
		if (!conn->mws[i])
			err = nic->dev->ops->alloc_mw(nic->pd, &conn->mws[i]);
	if (err == -ENOMEM && conn->mws[0]) {
		log_ratelimited(LOG_WARN, 1,
				CONN_FMT ": the device has no memory window left for a part of "
					 "the region: the client asks this server for what lies "
					 "there; lower server.max_connections",
				CONN_ARG(conn));
		return 0;
	}
	return err == -ENOMEM ? -ENOSPC : err;
}

bool grant_allow(const struct conn *conn)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | (conn->mws[0] ? IBV_ACCESS_MW_BIND : 0),
	};
	int err = conn->id->dev->ops->modify_qp(conn->qp, &attr, IBV_QP_ACCESS_FLAGS);

	if (err)
		log_ratelimited(LOG_ERROR, 1,
				CONN_FMT ": can't grant the client remote read (ibv_modify_qp): %s",
				CONN_ARG(conn), strerror(-err));
	return !err;
}

static uint32_t key_of(const struct conn *conn, uint32_t extent)
{
	return conn->mws[extent] ? ibv_inc_rkey(conn->mws[extent]->rkey) : conn->mrs[extent]->rkey;
}

static bool extent_bind(struct conn *conn, uint32_t extent)
{
	struct ibv_mr *mr = conn->mrs[extent];
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_BIND, conn->sq_unsignaled + 1, conn->serial, BUFFER_NONE),
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = conn->mws[extent],
			.rkey = key_of(conn, extent),
			.bind_info = {
				.mr = mr,
				.addr = (uintptr_t)mr->addr,
				.length = mr->length,
				.mw_access_flags = IBV_ACCESS_REMOTE_READ,
			},
		},
	};

	if (ibv_post_send(conn->qp, &wr, &bad)) {
		conn_fail(conn, "ibv_post_send of the bind of its memory window failed");
		return false;
	}
	sq_take(conn);
	conn->sq_unsignaled = 0;
	return true;
}

/* The welcome, or the response to EXTENTS, needs a place, too. */
bool grant_bind(struct conn *conn)
{
	const struct tenant_store *store = &conn->client.part->tenant->now;
	uint32_t extents = atomic_load_explicit(&store->extents, memory_order_acquire);

	if (!conn->poller->nic->windows) {
		conn->extents = extents;
		return true;
	}
	/* So far only HELLOs of a wrong version have taken any. */
	if (!conn->extents && !sq_room_for(conn, 2)) {
		conn_fail(conn, "its send queue has no room to bind its memory window");
		return false;
	}
	while (conn->extents < extents && conn->mws[conn->extents] && sq_room_for(conn, 2)) {
		if (!extent_bind(conn, conn->extents))
			return false;
		conn->extents++;
	}
	return true;
}

void grant_keys(const struct conn *conn, uint32_t rkeys[EXTENTS_MAX])
{
	for (uint32_t i = 0; i < conn->extents; i++)
		rkeys[i] = key_of(conn, i);
}

void grant_close(struct conn *conn)
{
	for (uint32_t i = 0; i < EXTENTS_MAX; i++) {
		if (conn->mws[i])
			conn->poller->nic->dev->ops->dealloc_mw(conn->mws[i]);
		conn->mws[i] = NULL;
	}
}
