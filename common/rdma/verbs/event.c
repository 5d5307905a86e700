/* SPDX-License-Identifier: MIT */
/*
 * Connection events on verbs: turns librdmacm's events into those of the device interface. Many of
 * librdmacm's events are steps that are completed here: the resolution of an address, the peer's
 * response, which moves the queue pair on, the end of a disconnect that we began.
 *
 * An event is handled before it is acknowledged. rdma_destroy_id() waits until all events of an id
 * are acknowledged, so another thread that destroys the id can't free it under the handler.
 */
#include "common/rdma/verbs/verbs.h"

#include <string.h>

#include "common/util/log.h"

/* Events that one call may take without a result; those left keep the channel's fd readable. */
#define EVENTS_PER_CALL_MAX 64

/* Why a connect request was refused: IBTA's numbers, as InfiniBand and RoCE give them. */
enum reject_reason {
	REJECT_NO_QP = 1,
	REJECT_NO_RESOURCES = 3,
	REJECT_TIMEOUT = 4,
	REJECT_INVALID_SERVICE = 8, /* no listener */
	REJECT_STALE = 10,
	REJECT_CONSUMER = 28, /* the peer's program rejected it */
};

static int reject_errno(int reason)
{
	switch (reason) {
	case REJECT_INVALID_SERVICE:
		return -ECONNREFUSED;
	case REJECT_NO_QP:
	case REJECT_NO_RESOURCES:
		return -ENOBUFS;
	case REJECT_TIMEOUT:
		return -ETIMEDOUT;
	case REJECT_STALE:
		return -ESTALE;
	default:
		return -ECONNABORTED;
	}
}

static void private_data_copy(struct cm_event *event, const struct rdma_conn_param *conn)
{
	size_t len = conn->private_data_len;

	if (!conn->private_data)
		return;
	if (len > sizeof(event->private_data))
		len = sizeof(event->private_data);
	memcpy(event->private_data, conn->private_data, len);
	event->private_len = (uint8_t)(len > UINT8_MAX ? UINT8_MAX : len);
}

static bool deliver(struct cm_event *event, struct verbs_id *vid, enum cm_event_type type,
		    int status)
{
	event->type = type;
	event->id = &vid->id;
	event->status = status;
	if (type == CM_CONNECT_REQUEST || type == CM_ESTABLISHED) {
		event->responder_resources = vid->responder_resources;
		event->initiator_depth = vid->initiator_depth;
	}
	return true;
}

/* Connecting failed. The accepting end sees this as a peer that disconnected. */
static bool deliver_failure(struct cm_event *event, struct verbs_id *vid, int status)
{
	bool was_open = vid->state != VERBS_ID_CLOSED;

	vid->state = VERBS_ID_CLOSED;
	if (vid->passive)
		verbs_qp_error(vid);
	if (!was_open)
		return false;
	return deliver(event, vid, vid->passive ? CM_DISCONNECTED : CM_UNREACHABLE, status);
}

/* Handlers return true if they made an event to deliver. The id's lock is held. */

static bool on_resolve_error(struct verbs_id *vid, struct cm_event *event, int status)
{
	if (status >= 0)
		status = -EHOSTUNREACH;
	vid->resolve_error = status;
	if (vid->connect_wanted)
		return deliver_failure(event, vid, status);
	vid->state = VERBS_ID_CLOSED; /* connect() will return it */
	return false;
}

static bool on_addr_resolved(struct verbs_id *vid, struct cm_event *event)
{
	struct verbs_device *vd = verbs_device_of(vid->id.dev);

	if (vid->state != VERBS_ID_RESOLVING)
		return false;
	/* The route changed since open(): the queue pair would be on the wrong device. */
	if (vid->rdma->verbs->device != vd->port.dev.verbs->device ||
	    vid->rdma->port_num != vd->port.dev.port_number)
		return on_resolve_error(vid, event, -EXDEV);
	if (rdma_resolve_route(vid->rdma, vd->timeout_ms))
		return on_resolve_error(vid, event, verbs_errno());
	return false;
}

static bool on_route_resolved(struct verbs_id *vid, struct cm_event *event)
{
	int err;

	if (vid->state != VERBS_ID_RESOLVING)
		return false;
	vid->state = VERBS_ID_READY;
	if (!vid->connect_wanted)
		return false;
	err = verbs_id_connect(vid);
	if (!err)
		return false;
	return deliver(event, vid, CM_UNREACHABLE, err);
}

static bool on_response(struct verbs_id *vid, struct cm_event *event,
			const struct rdma_conn_param *conn)
{
	int err;

	if (vid->state != VERBS_ID_CONNECTING) { /* disconnect() was called meanwhile */
		rdma_reject(vid->rdma, NULL, 0);
		return false;
	}
	vid->responder_resources = verbs_min_u8(vid->responder_resources,
						conn->responder_resources);
	vid->initiator_depth = verbs_min_u8(vid->initiator_depth, conn->initiator_depth);
	err = verbs_qp_connect(vid);
	if (err) {
		rdma_reject(vid->rdma, NULL, 0);
		return deliver_failure(event, vid, err);
	}
	err = verbs_error(rdma_establish(vid->rdma));
	if (err)
		return deliver_failure(event, vid, err);
	vid->state = VERBS_ID_CONNECTED;
	private_data_copy(event, conn);
	return deliver(event, vid, CM_ESTABLISHED, 0);
}

/* Accepting end; on iWARP the connecting end too, which gets no CONNECT_RESPONSE. */
static bool on_established(struct verbs_id *vid, struct cm_event *event,
			   const struct rdma_conn_param *conn)
{
	if (vid->state != VERBS_ID_CONNECTING) { /* disconnect() was called meanwhile */
		rdma_disconnect(vid->rdma);
		return false;
	}
	vid->state = VERBS_ID_CONNECTED;
	if (!vid->passive)
		private_data_copy(event, conn);
	return deliver(event, vid, CM_ESTABLISHED, 0);
}

static bool on_rejected(struct verbs_id *vid, struct cm_event *event,
			const struct rdma_conn_param *conn, int status)
{
	bool consumer = status == REJECT_CONSUMER;

	/* iWARP gives no reasons, but only a program's rejection carries data. */
	if (status < 0)
		consumer = conn->private_data_len > 0;
	if (vid->passive || !consumer || vid->state == VERBS_ID_CLOSED)
		return deliver_failure(event, vid, status < 0 ? status : reject_errno(status));
	vid->state = VERBS_ID_CLOSED;
	private_data_copy(event, conn);
	return deliver(event, vid, CM_REJECTED, 0);
}

static bool on_disconnected(struct verbs_id *vid, struct cm_event *event)
{
	int status;

	if (vid->state == VERBS_ID_CLOSED) /* the response to our own disconnect() */
		return false;
	status = vid->passive && verbs_qp_failed(vid->id.qp) ? -EACCES : 0;
	vid->state = VERBS_ID_CLOSED;
	verbs_qp_error(vid);
	rdma_disconnect(vid->rdma); /* the response; without it the peer would retry */
	return deliver(event, vid, CM_DISCONNECTED, status);
}

static bool id_event(struct verbs_id *vid, const struct rdma_cm_event *raw, struct cm_event *event)
{
	switch (raw->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return on_addr_resolved(vid, event);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return on_route_resolved(vid, event);
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return on_resolve_error(vid, event, raw->status);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return on_response(vid, event, &raw->param.conn);
	case RDMA_CM_EVENT_ESTABLISHED:
		return on_established(vid, event, &raw->param.conn);
	case RDMA_CM_EVENT_REJECTED:
		return on_rejected(vid, event, &raw->param.conn, raw->status);
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return deliver_failure(event, vid, raw->status < 0 ? raw->status : -ECONNABORTED);
	case RDMA_CM_EVENT_DISCONNECTED:
		return on_disconnected(vid, event);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return deliver(event, vid, CM_DEVICE_REMOVED, -ENODEV);
	default:
		/* TIMEWAIT_EXIT, ADDR_CHANGE and multicast events need no action. */
		return false;
	}
}

/* A new connection to the listener whose context the raw id has inherited. */
static bool request_event(struct cm_channel *channel, const struct rdma_cm_event *raw,
			  struct cm_event *event)
{
	struct verbs_device *vd = verbs_device_of(channel->dev);
	const struct rdma_conn_param *conn = &raw->param.conn;
	struct rdma_cm_id *rdma = raw->id;
	struct verbs_id *vid;
	int err = -ENODEV;

	if (rdma->verbs && rdma->verbs->device == vd->port.dev.verbs->device)
		err = verbs_id_alloc(channel, &vid);
	if (err) {
		errno = -err;
		log_ratelimited(
			LOG_WARN, 1,
			"%s: refused a connection: %m; it came over another RDMA device, or "
			"memory is short",
			channel->dev->address);
		rdma_reject(rdma, NULL, 0);
		rdma_destroy_id(rdma);
		return false;
	}
	verbs_id_attach(vid, rdma);
	vid->passive = true;
	vid->state = VERBS_ID_READY;
	vid->responder_resources = verbs_min_u8(vd->port.responder_resources_max,
						conn->responder_resources);
	vid->initiator_depth = verbs_min_u8(vd->port.initiator_depth_max, conn->initiator_depth);
	private_data_copy(event, conn);
	return deliver(event, vid, CM_CONNECT_REQUEST, 0);
}

static bool event_translate(struct cm_channel *channel, const struct rdma_cm_event *raw,
			    struct cm_event *event)
{
	struct verbs_id *vid;
	bool delivered;

	if (raw->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return request_event(channel, raw, event);
	vid = raw->id->context;
	pthread_mutex_lock(&vid->lock);
	delivered = id_event(vid, raw, event);
	pthread_mutex_unlock(&vid->lock);
	return delivered;
}

int verbs_cm_get_event(struct cm_channel *channel, struct cm_event *event)
{
	struct rdma_cm_event *raw;
	bool delivered = false;
	int err;

	for (int i = 0; i < EVENTS_PER_CALL_MAX && !delivered; i++) {
		if (rdma_get_cm_event(verbs_channel_of(channel)->rdma, &raw)) {
			err = verbs_errno();
			if (err != -EAGAIN)
				log_ratelimited(LOG_ERROR, 1,
						"%s: can't take connection events: %m",
						channel->dev->name);
			return err;
		}
		memset(event, 0, sizeof(*event));
		delivered = event_translate(channel, raw, event);
		rdma_ack_cm_event(raw);
	}
	return delivered ? 0 : -EAGAIN;
}
