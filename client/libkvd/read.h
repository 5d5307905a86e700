/* SPDX-License-Identifier: MIT */
/* One-sided reads of the server's region: chains of RDMA READs, several of them in flight. */
#ifndef KVD_CLIENT_LIBKVD_READ_H
#define KVD_CLIENT_LIBKVD_READ_H

#include "client/libkvd/handle.h"
#include "common/util/prefetch.h"

/* Memory in the ring begins at a line of the CPU's cache. */
#define RING_ALIGN 64u

/* The kind of a work request, in the high half of its wr_id. */
enum wr_kind { WR_RECV, WR_SEND, WR_READ };

static inline uint64_t wr_id_make(enum wr_kind kind, uint32_t index)
{
	return (uint64_t)kind << 32 | index;
}

/* From here on the hardware prefetches by itself. */
#define PREFETCH_BYTES_MAX 2048u

/*
 * Prefetches what a READ will soon copy, if the region is mapped here. The number of turns does not
 * depend on where the memory begins, which is known only when a line of the bucket cache arrives: a
 * branch mispredicted then would delay the next lookup.
 */
static inline void read_prefetch(const struct kvd *handle, uint64_t offset, uint32_t bytes)
{
	const struct connection *conn = &handle->conn;
	unsigned int extent = connection_extent(conn, offset);
	const uint8_t *from = conn->sources[extent];
	uint32_t at;

	if (!from)
		return;
	from += offset - extent * conn->extent_bytes;
	if (bytes > PREFETCH_BYTES_MAX)
		bytes = PREFETCH_BYTES_MAX;
	for (at = 0; at < bytes; at += PREFETCH_LINE)
		prefetch_line(from + at);
	prefetch_line(from + bytes - 1);
}

/* Whether @bytes do not fit even an empty ring, and so are READ in pieces. */
static inline bool ring_is_short(const struct connection *conn, uint64_t bytes)
{
	return bytes > RING_BYTES_MAX || (conn->ring_stuck && bytes > conn->ring.bytes);
}

/*
 * Takes memory of the ring for a READ, in the order of the READs, so it is freed at ring_tail.
 * False: there is no room now. The ring is never full: equal head and tail mean that it is empty,
 * and then both are 0.
 */
static inline bool ring_take(struct connection *conn, uint32_t bytes, uint32_t *at)
{
	uint32_t size = (uint32_t)conn->ring.bytes, head = conn->ring_head;

	bytes = (bytes + RING_ALIGN - 1) & ~(RING_ALIGN - 1);
	if (head < conn->ring_tail) {
		if (bytes >= conn->ring_tail - head)
			return false;
	} else if (bytes > size - head) {
		if (bytes >= conn->ring_tail)
			return false;
		head = 0;
	}
	*at = head;
	conn->ring_head = head + bytes;
	return true;
}

/* Adds a READ of @flight to the chain, which has room. */
static inline void chain_add(struct kvd *handle, struct flight *flight, uint64_t offset,
			     const struct reg_buf *buf, uint64_t at, uint32_t bytes)
{
	struct connection *conn = &handle->conn;
	struct ibv_send_wr *wr = &conn->read_wrs[conn->chain_count];
	struct ibv_sge *sge = conn->read_sges[conn->chain_count];
	struct read *read = &conn->reads[conn->read_head % READS_IN_FLIGHT_MAX];

	sge->addr = (uintptr_t)(buf->base + at);
	sge->length = bytes;
	sge->lkey = buf->mr->lkey;
	wr->num_sge = 1;
	wr->wr.rdma.remote_addr = conn->region_addr + offset;
	wr->wr.rdma.rkey = conn->rkeys[connection_extent(conn, offset)];
	read->flight = flight;
	flight->reads++;
	read->end = conn->ring_head;
	conn->chain_count++;
	conn->read_head++;
	handle->stats.read_bytes += bytes;
}

/* Whether the chain may get one more READ; recounts what is in flight only if it must. */
static inline bool chain_room(struct connection *conn)
{
	uint32_t max, room;

	if (conn->chain_count < conn->chain_max)
		return true;
	max = READS_IN_FLIGHT_MAX - (conn->read_posted - conn->read_tail);
	room = SENDS_MAX - (conn->sq_posted - conn->sq_done);
	if (max > room)
		max = room;
	conn->chain_max = max < GETS_MAX ? max : GETS_MAX;
	return conn->chain_count < conn->chain_max;
}

/*
 * Adds a READ of @bytes at @offset of the region to the ring to the chain. Its data will be at
 * lookup.buffer. False: there is no room now; read_wait() has to follow.
 */
static ALWAYS_INLINE bool read_add(struct kvd *handle, struct flight *flight, uint64_t offset,
				   uint32_t bytes)
{
	struct connection *conn = &handle->conn;
	uint32_t at;

	if (!chain_room(conn) || !ring_take(conn, bytes, &at))
		return false;
	read_prefetch(handle, offset, bytes);
	flight->lookup.buffer = conn->ring.base + at;
	flight->lookup.bytes = bytes;
	flight->place = PLACE_READING;
	chain_add(handle, flight, offset, &conn->ring, at, bytes);
	return true;
}

/* Lets the flight wait for room for its READ of @bytes to the ring. */
void read_wait(struct kvd *handle, struct flight *flight, uint32_t bytes);

/* Posts the chain, which has at least one READ. */
void chain_post(struct kvd *handle);

/* The READs up to this position have completed: moves their flights on. */
void reads_completed(struct kvd *handle, uint32_t position);

/* Detaches the flight from its READs in flight, which complete without an owner. */
void reads_forget(struct connection *conn, const struct flight *flight);

/* Makes the ring longer, while nothing is READ to it; without memory it stays as it is. */
void ring_resize(struct kvd *handle, size_t bytes);

/* How many bytes from @offset on one READ may fetch: to the end of the extent. 0: none. */
static inline uint64_t region_left(const struct kvd *handle, uint64_t offset)
{
	const struct connection *conn = &handle->conn;

	if (offset >= conn->readable)
		return 0;
	return offset < conn->extent_bytes ? conn->extent_bytes - offset :
					     conn->extent_bytes - offset % conn->extent_bytes;
}

#endif /* KVD_CLIENT_LIBKVD_READ_H */
