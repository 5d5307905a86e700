/* SPDX-License-Identifier: MIT */
/* Takes the window from responses. */
#include "client/libkvd/window.h"

enum kvd_status window_learn(struct kvd *handle, const struct response *response)
{
	/* That of HELLO is in the welcome. */
	if (!response->window != (response->op == WIRE_HELLO))
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "response with a window of %u from the server at %s",
				   response->window, handle->dev->address);
	if (response->window)
		handle->conn.window = response->window;
	return KVD_OK;
}
