/* SPDX-License-Identifier: MIT */
/* Events of a connection that is up. */
#include "client/libkvd/events.h"

/* Two users of a handle corrupt softnic's rings, and then the server closes the connection, too. */
void connection_lost(struct kvd *handle, const char *how)
{
	handle_fail(
		handle, KVD_ERR_DISCONNECTED,
		"the connection to %s is lost (%s): the server closed it, stopped or crashed, or "
		"a second process used this handle",
		handle->dev->address, how);
}

void events_poll(struct kvd *handle)
{
	struct cm_event event;

	while (!handle->conn.broken &&
	       !handle->dev->ops->cm_get_event(handle->conn.cm_channel, &event)) {
		if (event.type == CM_DISCONNECTED)
			connection_lost(handle, "disconnected");
		if (event.type == CM_DEVICE_REMOVED)
			connection_lost(handle, "the RDMA device was removed");
	}
}
