/* SPDX-License-Identifier: MIT */
/* Completions: of READs and of responses; and what a failed one says about the connection. */
#include "client/libkvd/completion.h"

#include "client/libkvd/events.h"
#include "client/libkvd/read.h"
#include "client/libkvd/rpc.h"

#define POLL_MAX 16

/*
 * A work request failed, and with it the connection: the device flushes all others. Only the first
 * failure has a cause; the text of the flushed ones would hide it, so polling stops here.
 */
static void completion_failed(struct kvd *handle, const struct ibv_wc *wc)
{
	switch (wc->status) {
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		connection_lost(handle, ibv_wc_status_str(wc->status));
		break;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		handle_fail(handle, KVD_ERR_DISCONNECTED,
			    "the server at %s no longer serves the connection, or this process "
			    "could not map its memory (%s)",
			    handle->dev->address, ibv_wc_status_str(wc->status));
		break;
	default:
		handle_fail(handle, KVD_ERR_DEVICE, "device %s: %s", handle->dev->name,
			    ibv_wc_status_str(wc->status));
	}
}

static void completion_take(struct kvd *handle, const struct ibv_wc *wc)
{
	if (wc->status) {
		completion_failed(handle, wc);
		return;
	}
	switch ((enum wr_kind)(wc->wr_id >> 32)) {
	case WR_READ:
		reads_completed(handle, (uint32_t)wc->wr_id);
		break;
	case WR_RECV:
		response_arrived(handle, wc);
		break;
	case WR_SEND:
		handle->conn.sq_done = (uint32_t)wc->wr_id;
		break;
	}
}

unsigned int completions_poll(struct kvd *handle)
{
	struct ibv_wc wcs[POLL_MAX];
	int i, n = ibv_poll_cq(handle->conn.cq, POLL_MAX, wcs);

	if (n < 0) {
		handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_poll_cq failed",
			    handle->dev->name);
		return 0;
	}
	for (i = 0; i < n && !handle->conn.broken; i++)
		completion_take(handle, &wcs[i]);
	return (unsigned int)n;
}
