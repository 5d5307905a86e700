/* SPDX-License-Identifier: MIT */
/* Looks up which keys the member serves, and sends the map. */
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

/*
 * The worker's clock was read after the request arrived. The end is put off only after the view
 * that it belongs to was published: OWNER-6.
 */
static bool is_over(const struct conn *conn)
{
	return conn->poller->worker->part.thread.now_ns >=
	       atomic_load_explicit(&conn->fleet->end_ns, memory_order_relaxed);
}

static enum wire_status away(const struct conn *conn)
{
	stat_add(&conn->poller->worker->stats.fleet_away, 1);
	return WIRE_AWAY;
}

static enum wire_status moved(const struct conn *conn)
{
	stat_add(&conn->poller->worker->stats.fleet_refused, 1);
	return WIRE_MOVED;
}

enum wire_status member_admit(const struct conn *conn, const struct request *request, uint64_t hash)
{
	const struct fleet_view *view = fleet_view(conn->fleet);
	uint32_t owner, shard = fleet_shard(hash);

	if (!is_keyed(request))
		return WIRE_OK;
	if (request->change && conn->answers->refuses)
		return moved(conn);
	if (fleet_view_serves(view, shard) && !is_over(conn))
		return WIRE_OK;
	owner = fleet_row_owner(view->map->rows[shard]);
	return owner == view->member || owner == FLEET_NO_OWNER ? away(conn) : moved(conn);
}

void member_refuse(const struct conn *conn, const struct request *request, enum wire_status status,
		   struct wire_response *head)
{
	head->epoch = fleet_view(conn->fleet)->map->head->epoch;
	/* What is AWAY is not sent again. */
	if (request->change && status == WIRE_MOVED)
		conn->answers->refuses = true;
}

void member_resume(const struct conn *conn, const struct request *request)
{
	if (request->flags & WIRE_F_RESUME)
		conn->answers->refuses = false;
}

bool member_serves(const struct conn *conn, uint64_t hash)
{
	const struct fleet_view *view = fleet_view(conn->fleet);

	return fleet_view_serves(view, fleet_shard(hash)) && !is_over(conn);
}

bool member_admit_scan(const struct conn *conn, const uint64_t **served)
{
	*served = fleet_view(conn->fleet)->served;
	return !is_over(conn) || !away(conn);
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
		map_part(fleet_view(fleet)->map, deferred->request.offset, response, value, size);
	return DEFERRED_DONE;
}

const struct deferred_kind map_kind = { .step = map_step };
