/* SPDX-License-Identifier: MIT */
/*
 * One-sided reads of the server's region, in chains of RDMA READs. A reliable connection completes
 * READs in order, so only the last one of a chain is signaled. A READ that fails completes anyway.
 */
#include "client/libkvd/read.h"

#include <string.h>

#include "client/libkvd/observe.h"

/* Work requests before the last signaled one are complete with it: their entries are free again. */
void chain_post(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	struct ibv_send_wr *last = &conn->read_wrs[conn->chain_count - 1], *next = last->next, *bad;
	uint32_t position = conn->read_head - 1;
	int err;

	if (handle->observing)
		observe_chain(handle);
	handle->stats.reads += conn->chain_count;
	handle->stats.round_trips++;
	conn->unsignaled = 0;
	conn->sq_posted += conn->chain_count;
	conn->reads[position % READS_IN_FLIGHT_MAX].sent = conn->sq_posted;
	conn->chain_count = 0;
	conn->chain_max = 0;
	conn->chain_ns = 0;
	conn->read_posted = conn->read_head;
	last->wr_id = wr_id_make(WR_READ, position);
	last->send_flags = IBV_SEND_SIGNALED;
	last->next = NULL;
	err = ibv_post_send(conn->qp, conn->read_wrs, &bad);
	last->send_flags = 0;
	last->next = next;
	if (err)
		handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_send: %s",
			    handle->dev->name, strerror(err));
}

void read_wait(struct kvd *handle, struct flight *flight, uint32_t bytes)
{
	struct connection *conn = &handle->conn;

	if (chain_room(conn) && bytes + conn->ring_head > conn->ring.bytes)
		conn->ring_small = true;
	flight->place = PLACE_QUEUED;
	list_add(&handle->ready, &flight->link);
	handle->attention = true;
}

void reads_forget(struct connection *conn, const struct flight *flight)
{
	uint32_t at;

	for (at = conn->read_tail; at != conn->read_head; at++)
		if (conn->reads[at % READS_IN_FLIGHT_MAX].flight == flight)
			conn->reads[at % READS_IN_FLIGHT_MAX].flight = NULL;
}

/* Not by reg_buf_resize() of the ring itself: if that fails there may be no ring left. */
void ring_resize(struct kvd *handle, size_t bytes)
{
	struct reg_buf longer = { 0 };

	if (reg_buf_resize(&longer, handle->dev, handle->pd, bytes, IBV_ACCESS_LOCAL_WRITE))
		return;
	reg_buf_release(&handle->conn.ring, handle->dev);
	handle->conn.ring = longer;
}

/*
 * Work requests before the last signaled one are complete with it. Memory of the ring is free after
 * its data was used.
 */
void reads_completed(struct kvd *handle, uint32_t position)
{
	struct connection *conn = &handle->conn;
	uint32_t tail = conn->read_tail;
	struct read *read;

	if (position - tail >= conn->read_posted - tail) {
		handle_fail(handle, KVD_ERR_PROTOCOL, "a READ completed that was not posted: %s",
			    HANDLE_SHARED_HINT);
		return;
	}
	conn->sq_done = conn->reads[position % READS_IN_FLIGHT_MAX].sent;
	do {
		read = &conn->reads[tail % READS_IN_FLIGHT_MAX];
		if (read->flight)
			read->flight->ops->read_done(handle, read->flight);
		conn->ring_tail = read->end;
		conn->read_tail = ++tail;
	} while (tail != position + 1);
	if (tail == conn->read_head)
		conn->ring_head = conn->ring_tail = 0;
}
