/* SPDX-License-Identifier: MIT */
/* Looks up the owners of keys in the fleet's map, and sends the map. */
#include "server/worker/member.h"

#include <string.h>

#include "common/util/stat.h"
#include "server/fleet/fleet.h"
#include "server/worker/worker.h"

static bool is_keyed(const struct request *request)
{
	return request->op == WIRE_GET || request->op == WIRE_PUT || request->op == WIRE_DELETE ||
	       request->op == WIRE_ARITH || request->op == WIRE_TOUCH;
}

enum wire_status member_admit(const struct conn *conn, const struct request *request, uint64_t hash)
{
	const struct fleet_view *view = rcu_dereference(conn->fleet->view);
	uint32_t shard = fleet_shard(hash), owner = fleet_row_owner(view->map->rows[shard]);

	if (!is_keyed(request) || fleet_view_serves(view, shard))
		return WIRE_OK;
	stat_add(&conn->poller->worker->stats.fleet_refused, 1);
	return owner == view->member || owner == FLEET_NO_OWNER ? WIRE_AWAY : WIRE_MOVED;
}

uint64_t member_epoch(const struct conn *conn)
{
	return rcu_dereference(conn->fleet->view)->map->head->epoch;
}

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

static enum deferred_next map_step(struct deferred *deferred, struct response_list *responses,
				   uint64_t until_ns)
{
	const struct fleet *fleet = deferred->conn->fleet;
	struct response_wr *response;
	uint32_t size;
	void *value;

	(void)until_ns;
	response = response_start(responses, deferred->conn, WIRE_MAP, deferred->request.id);
	if (!fleet) {
		response->head.status = WIRE_NOT_FOUND;
		return DEFERRED_DONE;
	}
	value = response_buffer(responses, response, &size);
	if (value)
		map_part(rcu_dereference(fleet->view)->map, deferred->request.offset, response,
			 value, size);
	return DEFERRED_DONE;
}

const struct deferred_kind map_kind = { .step = map_step };
