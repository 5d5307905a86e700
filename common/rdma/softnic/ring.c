/* SPDX-License-Identifier: MIT */
/* Copies a record out of the ring: see ring.h. */
#include "common/rdma/softnic/ring.h"

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
