/* SPDX-License-Identifier: MIT */
/* Grants a client the extents that the region got since its HELLO. */
#include "server/worker/extents.h"

#include <string.h>

#include "server/worker/grant.h"

static enum piece_next extents_step(struct deferred *deferred, struct response_list *responses,
				    uint64_t until_ns)
{
	struct wire_extents extents = { 0 };
	struct conn *conn = deferred->conn;
	struct response_wr *response;
	uint32_t size;
	void *value;

	(void)until_ns;
	response = response_start(responses, conn, WIRE_EXTENTS, deferred->request.id);
	if (conn->query.by_request) {
		response->head.status = WIRE_NOT_ALLOWED;
		return PIECE_DONE;
	}
	value = response_buffer(responses, response, &size);
	if (!value || !grant_bind(conn))
		return PIECE_DONE;
	grant_keys(conn, extents.rkeys);
	memcpy(value, &extents, sizeof(extents));
	response->head.result = conn->extents;
	response->value_len = sizeof(extents);
	return PIECE_DONE;
}

const struct deferred_kind extents_kind = { .step = extents_step };
