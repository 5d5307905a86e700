/* SPDX-License-Identifier: MIT */
/* The buffer for items that are longer than the ring. */
#include "client/large.h"

#include "client/read.h"

/* Bytes of one READ of a long item, unless the device's longest message is shorter. */
#define PIECE_BYTES (1u << 20)

void large_read(struct kvd *handle, struct flight *flight)
{
	uint32_t piece = PIECE_BYTES, bytes;
	struct connection *conn = &handle->conn;
	uint64_t left;

	if (conn->chain_count >= conn->chain_max) {
		read_wait(handle, flight, 0);
		return;
	}
	if (handle->message_max < piece)
		piece = handle->message_max;
	flight->place = PLACE_READING;
	while (conn->chain_count < conn->chain_max) {
		left = flight->large_bytes - flight->large_at;
		bytes = left < piece ? (uint32_t)left : piece;
		left -= bytes;
		chain_add(handle, !left || conn->chain_count + 1 == conn->chain_max ? flight : NULL,
			  flight->large_offset + flight->large_at, &handle->large.buf,
			  flight->large_at, bytes);
		flight->large_at += bytes;
		if (!left)
			return;
	}
}

enum kvd_status large_begin(struct kvd *handle, struct flight *f)
{
	enum kvd_status status;

	f->large_at = 0;
	if (handle->large_flight) {
		f->place = PLACE_QUEUED;
		list_add(&handle->large_waiters, &f->link);
		return KVD_OK;
	}
	status = handle_bounce_resize(handle, &handle->large, f->large_bytes);
	if (status)
		return status;
	handle->large_flight = f;
	handle->large.busy = true;
	large_read(handle, f);
	return KVD_OK;
}

void large_release(struct kvd *handle)
{
	struct flight *f;

	handle->large_flight = NULL;
	handle->large.busy = false;
	while (!handle->large_flight && !list_empty(&handle->large_waiters) &&
	       !handle->conn.broken) {
		f = list_entry(handle->large_waiters.next, struct flight, link);
		list_remove(&f->link);
		f->place = PLACE_NONE;
		f->ops->ready(handle, f);
	}
}

static void orphan_done(struct kvd *handle, struct flight *f)
{
	(void)f;
	large_release(handle);
}

/* Has the buffer while READs to it are in flight for nobody. */
static const struct flight_ops orphan_ops = { .read_done = orphan_done };

void large_detach(struct kvd *handle, struct read *read)
{
	if (!read) {
		large_release(handle);
		return;
	}
	handle->orphan_flight.ops = &orphan_ops;
	handle->orphan_flight.kind = FLIGHT_OWN;
	read->flight = handle->large_flight = &handle->orphan_flight;
}
