/* SPDX-License-Identifier: MIT */
/* Copies a part of the map into a response. */
#include "server/worker/map.h"

#include <string.h>

#include "server/fleet/fleet.h"

/* As many bytes as fit the response, from the offset on. */
static void map_part(const struct fleet_map *map, uint64_t offset, struct response_wr *response,
		     void *value, uint32_t size)
{
	response->head.epoch = map->head->epoch;
	response->head.result = map->bytes;
	if (offset >= map->bytes)
		return;
	if (map->bytes - offset < size)
		size = (uint32_t)(map->bytes - offset);
	memcpy(value, (const uint8_t *)map->head + offset, size);
	response->value_len = size;
}

static enum piece_next map_step(struct deferred *deferred, struct response_list *responses,
				uint64_t until_ns)
{
	const struct fleet *fleet = deferred->conn->client.fleet;
	struct response_wr *response;
	uint32_t size;
	void *value;

	(void)until_ns;
	response = response_start(responses, deferred->conn, WIRE_MAP, deferred->request.id);
	if (!fleet) {
		response->head.status = WIRE_NOT_FOUND;
		return PIECE_DONE;
	}
	value = response_buffer(responses, response, &size);
	if (value)
		map_part(fleet_view(fleet)->map, deferred->request.offset, response, value, size);
	return PIECE_DONE;
}

const struct deferred_kind map_kind = { .step = map_step };
