/* SPDX-License-Identifier: MIT */
/* The steps of kvd_open() that a handle on no real device needs too. */
#ifndef KVD_CLIENT_OPEN_H
#define KVD_CLIENT_OPEN_H

#include "client/handle.h"
#include "common/wire.h"

/* Allocates what messages and READs need and posts the receives: the queue pair is there. */
enum kvd_status open_buffers(struct kvd *handle);
/* Checks the server's welcome, and takes from it what it says. */
enum kvd_status open_welcome(struct kvd *handle, const struct wire_welcome *welcome);

#endif /* KVD_CLIENT_OPEN_H */
