/* SPDX-License-Identifier: MIT */
/* Answers MOVE and FLEET by the view, and tells the fleet's thread what is wanted. */
#include "server/worker/move.h"

#include <string.h>

#include "server/fleet/fleet.h"
#include "server/store/store.h"
#include "server/worker/member.h"
#include "server/worker/permit.h"

static_assert(KEY_PARTS_WORDS == FLEET_SHARDS / 64, "a part of the keys is a shard");

enum wire_status move_admit(const struct conn *conn)
{
	if (!conn->client.fleet)
		return WIRE_NOT_FOUND;
	return conn->client.fleet->inbox ? WIRE_OK : WIRE_INVALID;
}

static enum wire_status move_ask(const struct fleet *fleet, const struct fleet_view *view)
{
	fleet_want_look(fleet);
	return view->takes ? WIRE_OK : WIRE_BUSY;
}

/* Whether another member has closed shards in @epoch. */
static bool others_closed(const struct fleet_view *view, uint64_t epoch)
{
	for (uint32_t shard = 0; shard < FLEET_SHARDS; shard++)
		if (fleet_row_moves(view->map->rows[shard], view->member, epoch))
			return true;
	return false;
}

static enum wire_status move_begin(struct conn *conn, const struct fleet_view *view,
				   const struct request *request)
{
	const struct fleet_head *head = view->map->head;

	conn->move_epoch = 0;
	if (!request->epoch)
		return WIRE_INVALID;
	if (head->generation == request->generation) {
		if (fleet_view_accept(view, request->epoch)) {
			if (!table_no_flush(conn_thread(conn)->table, &conn->move_flushes))
				return WIRE_BUSY;
			conn->move_epoch = request->epoch;
			return WIRE_OK;
		}
		if (head->epoch >= request->epoch && !others_closed(view, request->epoch))
			return WIRE_AWAY;
	}
	fleet_want_accept(conn->client.fleet, request->generation, request->epoch);
	return WIRE_BUSY;
}

static enum wire_status move_clear(struct conn *conn, const struct fleet_accept *accept,
				   uint64_t segment)
{
	if (segment >= KEY_SEGMENTS)
		return WIRE_INVALID;
	if (!accept)
		return WIRE_AWAY;
	moving_clear(conn_thread(conn), (uint32_t)segment, accept->shards);
	return WIRE_OK;
}

/*
 * A flush here removes copies of items that clients have stored at their member after that was
 * flushed.
 */
static bool all_are_there(const struct conn *conn)
{
	uint64_t flushes;

	return table_no_flush(conn_thread(conn)->table, &flushes) && flushes == conn->move_flushes;
}

static enum wire_status move_end(struct conn *conn, const struct fleet_accept *accept,
				 uint64_t counter, const struct fleet_view *view, uint64_t *own)
{
	if (!version_counter_may_be(counter, conn_thread(conn)->now_ns))
		return WIRE_INVALID;
	if (!accept || !view->own || !all_are_there(conn))
		return WIRE_AWAY;
	table_raise_versions(conn_thread(conn)->table, counter);
	*own = (uint64_t)view->own;
	return WIRE_OK;
}

static enum wire_status move_answer(struct conn *conn, const struct request *request,
				    struct wire_response *head)
{
	const struct fleet_view *view = fleet_view(conn->client.fleet);
	const struct fleet_accept *accept = member_accept(conn);

	head->epoch = view->map->head->epoch;
	switch ((enum wire_move)request->mode) {
	case WIRE_MOVE_ASK:
		return move_ask(conn->client.fleet, view);
	case WIRE_MOVE_BEGIN:
		return move_begin(conn, view, request);
	case WIRE_MOVE_CLEAR:
		return move_clear(conn, accept, request->segment);
	case WIRE_MOVE_END:
		return move_end(conn, accept, request->counter, view, &head->result);
	}
	return WIRE_PROTOCOL;
}

static enum piece_next move_step(struct deferred *deferred, struct response_list *responses,
				 uint64_t until_ns)
{
	struct response_wr *response = response_start(responses, deferred->conn, WIRE_MOVE,
						      deferred->request.id);

	(void)until_ns;
	response->head.status = (uint8_t)move_answer(deferred->conn, &deferred->request,
						     &response->head);
	return PIECE_DONE;
}

const struct deferred_kind move_kind = { .step = move_step };

/* The flags of the member named @id. False: there is none. */
static bool member_flags(const struct fleet_map *map, const char id[FLEET_NAME_MAX],
			 uint32_t *flags)
{
	uint32_t number = fleet_map_find(map, id);

	if (number == map->head->members)
		return false;
	*flags = map->members[number]->flags;
	return true;
}

/* Whether the fleet balances, or did so later than in @epoch, which is not 0. */
static bool has_balanced(const struct fleet *fleet, const struct fleet_map *map, uint64_t epoch)
{
	return fleet_map_balances(map) ||
	       (epoch &&
		atomic_load_explicit(&fleet->balanced_epoch, memory_order_relaxed) > epoch);
}

/* What the request wants is so already, can't be, or is wanted from now on. */
static enum wire_status fleet_answer(const struct fleet *fleet, const struct fleet_map *map,
				     const struct request *request)
{
	enum wire_fleet what = (enum wire_fleet)request->mode;
	char id[FLEET_NAME_MAX] = { 0 };
	uint32_t flags;

	if (what == WIRE_FLEET_REBALANCE) {
		if (has_balanced(fleet, map, request->epoch))
			return WIRE_OK;
	} else {
		memcpy(id, request->key, request->key_len);
		if (wire_tenant_length(id) != request->key_len || !member_flags(map, id, &flags))
			return WIRE_NOT_FOUND;
		if (!(flags & FLEET_MEMBER_DRAINED) == (what == WIRE_FLEET_UNDRAIN))
			return WIRE_OK;
	}
	fleet_want_change(fleet, what, id);
	return WIRE_BUSY;
}

static enum piece_next fleet_step(struct deferred *deferred, struct response_list *responses,
				  uint64_t until_ns)
{
	const struct fleet *fleet = deferred->conn->client.fleet;
	const struct fleet_map *map = fleet_view(fleet)->map;
	struct response_wr *response = response_start(responses, deferred->conn, WIRE_FLEET,
						      deferred->request.id);

	(void)until_ns;
	response->head.epoch = map->head->epoch;
	response->head.status = (uint8_t)fleet_answer(fleet, map, &deferred->request);
	return PIECE_DONE;
}

const struct deferred_kind fleet_kind = { .step = fleet_step };
