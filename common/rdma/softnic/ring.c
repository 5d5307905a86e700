/* SPDX-License-Identifier: MIT */
/* The ring's functions that check the peer's positions and that copy: see ring.h. */
#include "common/rdma/softnic/ring.h"

#include <errno.h>
#include <string.h>

int ring_out_update(struct ring_out *ring, uint32_t tail)
{
	uint32_t used = ring->head - ring->tail;
	uint32_t freed = tail - ring->tail;

	if (freed > used || (freed & (RING_UNIT - 1)))
		return -EPROTO;
	ring->tail = tail;
	return 0;
}

int ring_in_update(struct ring_in *ring, uint32_t head)
{
	uint32_t ready = ring_in_ready(ring);
	uint32_t now = head - ring->tail;

	if (now > RING_BYTES || now < ready || (now & (RING_UNIT - 1)))
		return -EPROTO;
	ring->head = head;
	return 0;
}

void ring_out_write(struct ring_out *ring, uint32_t offset, const void *from, uint32_t length)
{
	uint32_t at = (ring->head + offset) & (RING_BYTES - 1);
	uint32_t first = RING_BYTES - at;

	if (first > length)
		first = length;
	memcpy(ring->data + at, from, first);
	if (length > first)
		memcpy(ring->data, (const uint8_t *)from + first, length - first);
}

void ring_in_read(const struct ring_in *ring, uint32_t offset, void *to, uint32_t length)
{
	uint32_t at = (ring->tail + offset) & (RING_BYTES - 1);
	uint32_t first = RING_BYTES - at;

	if (first > length)
		first = length;
	memcpy(to, ring->data + at, first);
	if (length > first)
		memcpy((uint8_t *)to + first, ring->data, length - first);
}
