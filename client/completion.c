/* SPDX-License-Identifier: MIT */
/*
 * Completions: a call waits for its READs or its response here, first by polling, which is enough
 * when they come within microseconds, then asleep on the completion channel and the connection's
 * events.
 */
#include "client/completion.h"

#include <string.h>

#include "client/window.h"
#include "common/util/clock.h"
#include "common/util/spin.h"
#include "common/wire.h"

#define POLL_MAX 16
/* Longest sleep at once: a lost peer may cause no event, so completions are polled again. */
#define SLEEP_MS_MAX 100

/* What a call waits for. */
enum awaited { AWAIT_READ, AWAIT_RESPONSE, AWAIT_ACCESS };

/* What the completions polled so far have brought. */
struct progress {
	bool any; /* since a wait or sleep began, or began anew */
	bool read;
	uint32_t chain; /* the READs that the call waits for; 0: none */
};

/* Two users of a handle corrupt softnic's rings, and then the server closes the connection, too. */
static enum kvd_status connection_lost(struct kvd *handle, const char *how)
{
	return handle_fail(handle, KVD_ERR_DISCONNECTED,
			   "the connection to %s is lost (%s): the server closed it, stopped or "
			   "crashed, or a second thread or process used this handle",
			   handle->dev->address, how);
}

/*
 * A work request failed, and with it the connection: the device flushes all others. Only the first
 * failure has a cause; the text of the flushed ones would hide it, so polling stops here.
 */
static enum kvd_status completion_failed(struct kvd *handle, const struct ibv_wc *wc)
{
	switch (wc->status) {
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return connection_lost(handle, ibv_wc_status_str(wc->status));
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return handle_fail(handle, KVD_ERR_DISCONNECTED,
				   "the server at %s no longer serves the connection (%s)",
				   handle->dev->address, ibv_wc_status_str(wc->status));
	default:
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s: %s", handle->dev->name,
				   ibv_wc_status_str(wc->status));
	}
}

/* The response to an ACCESS message has nothing in it; the next call that polls drops it. */
static bool is_access_response(const struct kvd *handle, const struct ibv_wc *wc,
			       struct response *response)
{
	const uint8_t *p = handle->messages.base + (wc->wr_id & UINT32_MAX) * RESPONSE_BYTES;

	return handle->access_id && !wire_response_parse(response, p, wc->byte_len) &&
	       response->op == WIRE_ACCESS && response->id == handle->access_id &&
	       response->status == WIRE_OK;
}

/* Keeps the response for the call that waits for it: one request at a time, so one response. */
static enum kvd_status response_arrived(struct kvd *handle, const struct ibv_wc *wc)
{
	struct response response;
	enum kvd_status status;

	if (is_access_response(handle, wc, &response)) {
		handle->access_id = 0;
		status = window_learn(handle, &response);
		return status ? status : recv_post(handle, (uint32_t)wc->wr_id);
	}
	if (handle->recv_ready)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "two responses to one request from the server at %s: %s",
				   handle->dev->address, HANDLE_SHARED_HINT);
	handle->recv_ready = true;
	handle->recv_index = (uint32_t)wc->wr_id;
	handle->recv_len = wc->byte_len;
	return KVD_OK;
}

/*
 * The last READ of a chain is the only one signaled, and a call waits for each chain it posts. So
 * the completion of another chain was meant for another call on the handle.
 */
static enum kvd_status read_completed(struct kvd *handle, const struct ibv_wc *wc,
				      struct progress *progress)
{
	if ((uint32_t)wc->wr_id != progress->chain)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "a READ completed that this call did not post: %s",
				   HANDLE_SHARED_HINT);
	progress->read = true;
	return KVD_OK;
}

/* Takes in all completions that have arrived, up to POLL_MAX. */
static enum kvd_status completions_poll(struct kvd *handle, struct progress *progress)
{
	enum kvd_status status = KVD_OK;
	struct ibv_wc wcs[POLL_MAX];
	int i, n = ibv_poll_cq(handle->cq, POLL_MAX, wcs);

	if (n < 0)
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_poll_cq failed",
				   handle->dev->name);
	progress->any |= n > 0;
	for (i = 0; i < n; i++) {
		if (wcs[i].status)
			return completion_failed(handle, &wcs[i]);
		switch ((enum wr_kind)(wcs[i].wr_id >> 32)) {
		case WR_RECV:
			status = response_arrived(handle, &wcs[i]);
			break;
		case WR_READ:
			status = read_completed(handle, &wcs[i], progress);
			break;
		case WR_SEND:
			break;
		}
		if (status)
			return status;
	}
	return KVD_OK;
}

/* A server that closes the connection while no SEND or READ is posted causes only an event. */
static enum kvd_status cm_events_poll(struct kvd *handle)
{
	struct cm_event event;

	while (!handle->dev->ops->cm_get_event(handle->cm_channel, &event)) {
		if (event.type == CM_DISCONNECTED)
			return connection_lost(handle, "disconnected");
		if (event.type == CM_DEVICE_REMOVED)
			return connection_lost(handle, "the RDMA device was removed");
	}
	return KVD_OK;
}

/* Sleeps until a completion or an event of the connection comes; 1: the latter did. */
static int sleep_once(struct kvd *handle, uint64_t left_ns)
{
	uint64_t ms = left_ns / 1000000 + 1;

	handle->stats.sleeps++;
	return handle->dev->ops->sleep(handle->comp_channel, handle->cm_channel->fd,
				       ms < SLEEP_MS_MAX ? (int)ms : SLEEP_MS_MAX);
}

static bool is_done(const struct kvd *handle, const struct progress *progress, enum awaited awaited)
{
	switch (awaited) {
	case AWAIT_READ:
		return progress->read;
	case AWAIT_RESPONSE:
		return handle->recv_ready;
	case AWAIT_ACCESS:
		break;
	}
	return !handle->access_id;
}

/*
 * Waits asleep until a completion came: requests a notification, polls once more, sleeps. The order
 * matters: a completion that arrives before the request causes no notification, but the poll finds
 * it. Completions come before events: a response that arrived before the disconnect counts.
 */
static enum kvd_status completion_sleep(struct kvd *handle, struct progress *progress)
{
	enum kvd_status status;
	int has_event = 0;
	uint64_t now;

	progress->any = false;
	for (;;) {
		if (ibv_req_notify_cq(handle->cq, 0))
			return handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_req_notify_cq",
					   handle->dev->name);
		status = completions_poll(handle, progress);
		if (status || progress->any)
			return status;
		if (has_event) {
			status = cm_events_poll(handle);
			if (status)
				return status;
		}
		now = clock_ns();
		if (now >= handle->deadline_ns)
			return handle_fail(
				handle, KVD_ERR_TIMEOUT,
				"no response from %s within the timeout; the connection is "
				"closed",
				handle->dev->address);
		has_event = sleep_once(handle, handle->deadline_ns - now);
		if (has_event < 0)
			return handle_fail(handle, KVD_ERR_DEVICE, "device %s: can't sleep: %s",
					   handle->dev->name, strerror(-has_event));
	}
}

/*
 * How long a call may poll. One whose value the server READs polls longer on softnic: there the
 * polls are what serves the READs, and a byte takes less than a nanosecond. Asleep, it would be
 * woken up for each of their pieces, and run on the worker's CPU, which it would keep from work.
 */
static uint64_t poll_ns_max(const struct kvd *handle)
{
	uint64_t spin_ns = handle->options.spin_us * 1000ull;

	return spin_ns && handle->dev->kind == DEVICE_SOFTNIC ? spin_ns + handle->served_bytes :
								spin_ns;
}

/*
 * Waits by polling, for poll_ns_max() since the last completion or less where that is in vain
 * (spin.h), then asleep. A call that finds its completion at the first poll reads no clock, so the
 * deadline of a call is set at the first poll that finds nothing.
 */
static enum kvd_status completion_wait(struct kvd *handle, enum awaited awaited, uint32_t chain)
{
	struct progress progress = { .chain = chain };
	struct spin *spin = &handle->spin;
	enum kvd_status status;
	bool waited = false;
	uint64_t now;

	for (;;) {
		status = completions_poll(handle, &progress);
		if (status || is_done(handle, &progress, awaited))
			break;
		now = clock_ns();
		if (!handle->deadline_ns)
			handle->deadline_ns = now + handle->options.timeout_ms * 1000000ull;
		if (!waited || progress.any)
			spin_begin(spin, poll_ns_max(handle), now);
		waited = true;
		progress.any = false;
		if (now < handle->deadline_ns && spin_wait(spin, now))
			continue;
		spin_end(spin, true);
		status = completion_sleep(handle, &progress);
		if (status || is_done(handle, &progress, awaited))
			return status;
		waited = false;
	}
	if (waited)
		spin_end(spin, false);
	return status;
}

enum kvd_status completion_wait_read(struct kvd *handle, uint32_t chain)
{
	return completion_wait(handle, AWAIT_READ, chain);
}

enum kvd_status completion_wait_response(struct kvd *handle)
{
	return completion_wait(handle, AWAIT_RESPONSE, 0);
}

enum kvd_status completion_wait_access(struct kvd *handle)
{
	return completion_wait(handle, AWAIT_ACCESS, 0);
}

enum kvd_status recv_post(struct kvd *handle, uint32_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(handle->messages.base + (size_t)index * RESPONSE_BYTES),
		.length = RESPONSE_BYTES,
		.lkey = handle->messages.mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id_make(WR_RECV, index),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int err = ibv_post_recv(handle->qp, &wr, &bad);

	if (err)
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_recv: %s",
				   handle->dev->name, strerror(err));
	return KVD_OK;
}
