/* SPDX-License-Identifier: MIT */
/* Opening a handle: the steps that tests also do, on a handle without a device. */
#ifndef KVD_CLIENT_OPEN_H
#define KVD_CLIENT_OPEN_H

#include "client/handle.h"
#include "common/wire.h"

/* Allocates the buffers of messages and READs and posts the receives. The queue pair exists. */
enum kvd_status open_buffers(struct kvd *handle);
/* Checks the server's welcome and stores what it says in the handle; creates the bucket cache. */
enum kvd_status open_welcome(struct kvd *handle, const struct wire_welcome *welcome);

#endif /* KVD_CLIENT_OPEN_H */
