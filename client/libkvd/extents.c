/* SPDX-License-Identifier: MIT */
/* Takes the keys of extents, and asks for those of new ones. */
#include "client/libkvd/extents.h"

#include <string.h>

#include "client/libkvd/rpc.h"
#include "common/util/clock.h"

/* The shortest time between two asks: the server may have no key to give. */
#define ASK_NS_MIN 10000000u

const char *extents_check(const struct wire_welcome *welcome)
{
	uint64_t bytes = welcome->extent_bytes, all = welcome->geometry.region_bytes;

	if (!welcome->extents || welcome->extents > EXTENTS_MAX)
		return "number of extents out of range";
	/* So each offset in the region has an extent, and each extent that has a key is in it. */
	if (bytes % BUCKET_BYTES || bytes > all / welcome->extents ||
	    bytes < (all + EXTENTS_MAX - 1) / EXTENTS_MAX)
		return "size of extents out of range";
	return NULL;
}

void extents_take(struct kvd *handle, const uint32_t *rkeys, uint32_t count)
{
	struct connection *conn = &handle->conn;

	memcpy(conn->rkeys, rkeys, count * sizeof(*rkeys));
	conn->extents = count;
	conn->readable = count * conn->extent_bytes;
}

static void extents_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	struct wire_extents extents;
	uint64_t count = response->result;

	(void)f;
	/* Refused: the server goes on to do the GETs. */
	if (response->status || response->value_len != sizeof(extents) ||
	    count < handle->conn.extents || count > EXTENTS_MAX ||
	    handle->conn.extent_bytes > handle->geometry.region_bytes / count)
		return;
	memcpy(&extents, response->value, sizeof(extents));
	extents_take(handle, extents.rkeys, (uint32_t)count);
}

static const struct flight_ops extents_ops = { .response = extents_response };

void extents_ask(struct kvd *handle)
{
	struct flight *f = &handle->extents_flight;
	uint64_t now = clock_ns();

	if (f->place == PLACE_QUEUED || f->place == PLACE_SENT ||
	    now - handle->extents_ns < ASK_NS_MIN)
		return;
	handle->extents_ns = now;
	f->ops = &extents_ops;
	f->kind = FLIGHT_OWN;
	f->rpc = (struct rpc){ .on_loss = LOSS_FAILS, .head.op = WIRE_EXTENTS };
	request_add(handle, f);
}

void extents_find(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	const uint8_t *source;

	while (conn->sources_known < conn->extents) {
		source = handle->dev->ops->read_source(
			conn->qp, conn->rkeys[conn->sources_known],
			conn->region_addr + conn->sources_known * conn->extent_bytes,
			conn->extent_bytes);
		if (!source)
			return;
		conn->sources[conn->sources_known++] = source;
	}
}
