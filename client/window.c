/* SPDX-License-Identifier: MIT */
/* Takes the window from responses. */
#include "client/window.h"

enum kvd_status window_learn(struct kvd *handle, const struct response *response)
{
	struct connection *conn = &handle->conn;

	if (!response->window != !conn->window_moves)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "response with a window of %u from the server at %s, whose "
				   "windows %s",
				   response->window, handle->dev->address,
				   conn->window_moves ? "are 1 at least" : "do not change");
	if (conn->window_moves)
		conn->window = response->window;
	return KVD_OK;
}
