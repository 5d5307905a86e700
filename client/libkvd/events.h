/* SPDX-License-Identifier: MIT */
/* Events of a connection that is up: its end. */
#ifndef KVD_CLIENT_LIBKVD_EVENTS_H
#define KVD_CLIENT_LIBKVD_EVENTS_H

#include "client/libkvd/handle.h"

/* Closes the connection; @how says by which sign its loss was seen. */
void connection_lost(struct kvd *handle, const char *how);
/* Looks whether the connection was closed: without a SEND or READ posted that is an event only. */
void events_poll(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_EVENTS_H */
