/* SPDX-License-Identifier: MIT */
/* Looks up which keys the member serves. */
#include "server/worker/member.h"

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
static bool is_over(const struct client *client)
{
	return client->worker->part.thread.now_ns >=
	       atomic_load_explicit(&client->fleet->end_ns, memory_order_relaxed);
}

static enum wire_status away(const struct client *client)
{
	stat_add(&client->worker->stats.fleet_away, 1);
	return WIRE_AWAY;
}

static enum wire_status moved(const struct client *client)
{
	stat_add(&client->worker->stats.fleet_refused, 1);
	return WIRE_MOVED;
}

const struct fleet_accept *member_accept(const struct conn *conn)
{
	return conn->move_epoch ?
		       fleet_view_accept(fleet_view(conn->client.fleet), conn->move_epoch) :
		       NULL;
}

/*
 * OWNER-7. The end of the word does not matter: the shard's last owner still serves it, and this
 * server will not before it has read the row that gives it the shard.
 */
static bool is_accepted(const struct conn *conn, const struct fleet_view *view, uint32_t shard)
{
	const struct fleet_accept *accept = member_accept(conn);

	return accept && fleet_shards_have(accept->shards, shard) &&
	       !fleet_view_serves(view, shard);
}

static bool is_copy(const struct request *request)
{
	return request->op == WIRE_PUT && request->mode == WIRE_COPY;
}

enum wire_status member_find_key(const struct client *client, uint64_t hash)
{
	const struct fleet_view *view = fleet_view(client->fleet);
	uint32_t owner, shard = fleet_shard(hash);

	if (fleet_view_serves(view, shard) && !is_over(client))
		return WIRE_OK;
	if (fleet_shards_have(view->frozen, shard) && !is_over(client))
		return WIRE_MOVED;
	owner = fleet_row_owner(view->map->rows[shard]);
	return owner == view->member || owner == FLEET_NO_OWNER ? away(client) : WIRE_MOVED;
}

enum wire_status member_admit_key(const struct client *client, uint64_t hash)
{
	enum wire_status status = member_find_key(client, hash);

	return status == WIRE_MOVED ? moved(client) : status;
}

static enum wire_status copy_admit(const struct conn *conn, const struct request *request,
				   uint64_t hash)
{
	if (!is_accepted(conn, fleet_view(conn->client.fleet), fleet_shard(hash)))
		return away(&conn->client);
	return version_counter_may_be(request->version >> THREAD_ID_BITS,
				      conn->client.worker->part.thread.now_ns) ?
		       WIRE_OK :
		       WIRE_INVALID;
}

enum wire_status member_admit(const struct conn *conn, const struct request *request, uint64_t hash)
{
	if (!is_keyed(request))
		return WIRE_OK;
	if (request->change && conn->answers->refuses)
		return moved(&conn->client);
	return is_copy(request) ? copy_admit(conn, request, hash) :
				  member_admit_key(&conn->client, hash);
}

void member_refuse(const struct conn *conn, const struct request *request, enum wire_status status,
		   struct wire_response *head)
{
	head->epoch = fleet_view(conn->client.fleet)->map->head->epoch;
	/* What is AWAY is not sent again. */
	if (request->change && status == WIRE_MOVED)
		conn->answers->refuses = true;
}

void member_resume(const struct conn *conn, const struct request *request)
{
	if (request->flags & WIRE_F_RESUME)
		conn->answers->refuses = false;
}

bool member_serves(const struct conn *conn, const struct request *request, uint64_t hash)
{
	const struct fleet_view *view = fleet_view(conn->client.fleet);

	if (is_copy(request))
		return is_accepted(conn, view, fleet_shard(hash));
	return fleet_view_serves(view, fleet_shard(hash)) && !is_over(&conn->client);
}

bool member_freezes(const struct client *client)
{
	return fleet_view(client->fleet)->freezes;
}

bool member_admit_scan(const struct client *client, const uint64_t **served)
{
	*served = fleet_view(client->fleet)->served;
	return !is_over(client) || !away(client);
}
