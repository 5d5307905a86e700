/* SPDX-License-Identifier: MIT */
/*
 * A single-producer single-consumer ring of records, in memory shared with a peer that is not
 * trusted.
 *
 * Each side keeps its own position privately and publishes copies of it; the peer's position is
 * read once per update and must have moved forward, by whole units, to between our position and a
 * ring's length from it; else the peer is broken (-EPROTO). So whatever the peer writes, no access
 * is outside the ring and every loop ends. A record is copied out before it is checked.
 *
 * Positions count bytes and wrap at 2^32. A record starts on a unit, so a short one is one cache
 * line.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_RING_H
#define KVD_COMMON_RDMA_SOFTNIC_RING_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define RING_BYTES 8192u
#define RING_UNIT 64u

_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "positions wrap by mask");

struct ring_out {
	uint8_t *data;
	uint32_t head; /* ours: bytes produced */
	uint32_t tail; /* the peer's: bytes consumed, as last published */
};

struct ring_in {
	const uint8_t *data;
	uint32_t head; /* the peer's: bytes produced, as last published */
	uint32_t tail; /* ours: bytes consumed */
};

/* The room that a record of @bytes takes in the ring. */
static inline uint32_t ring_span(uint32_t bytes)
{
	return (bytes + RING_UNIT - 1) & ~(RING_UNIT - 1);
}

static inline uint32_t ring_out_room(const struct ring_out *ring)
{
	return RING_BYTES - (ring->head - ring->tail);
}

static inline uint32_t ring_in_ready(const struct ring_in *ring)
{
	return ring->head - ring->tail;
}

/* Take the position that the peer published; -EPROTO if it is impossible. */
static inline int ring_out_update(struct ring_out *ring, uint32_t tail)
{
	uint32_t used = ring->head - ring->tail;
	uint32_t freed = tail - ring->tail;

	if (freed > used || (freed & (RING_UNIT - 1)))
		return -EPROTO;
	ring->tail = tail;
	return 0;
}

static inline int ring_in_update(struct ring_in *ring, uint32_t head)
{
	uint32_t ready = ring_in_ready(ring);
	uint32_t now = head - ring->tail;

	if (now > RING_BYTES || now < ready || (now & (RING_UNIT - 1)))
		return -EPROTO;
	ring->head = head;
	return 0;
}

/* Copies to @offset bytes after the head; the caller has checked that there is room. */
static inline void ring_out_write(struct ring_out *ring, uint32_t offset, const void *from,
				  uint32_t length)
{
	uint32_t at = (ring->head + offset) & (RING_BYTES - 1);
	uint32_t first = RING_BYTES - at;

	if (length <= first) {
		memcpy(ring->data + at, from, length);
		return;
	}
	memcpy(ring->data + at, from, first);
	memcpy(ring->data, (const uint8_t *)from + first, length - first);
}

/*
 * Copies from @offset bytes after the tail; the caller has checked that all of it is there. Not
 * inline: the compiler might use what is in the ring, which the peer may change, for the copy.
 */
void ring_in_read(const struct ring_in *ring, uint32_t offset, void *to, uint32_t length);

/* Ends a record of @bytes. */
static inline void ring_out_commit(struct ring_out *ring, uint32_t bytes)
{
	ring->head += ring_span(bytes);
}

static inline void ring_in_consume(struct ring_in *ring, uint32_t bytes)
{
	ring->tail += ring_span(bytes);
}

#endif /* KVD_COMMON_RDMA_SOFTNIC_RING_H */
