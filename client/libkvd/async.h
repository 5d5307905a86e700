/* SPDX-License-Identifier: MIT */
/* Submitted operations: kvd_submit() and what belongs to it. */
#ifndef KVD_CLIENT_LIBKVD_ASYNC_H
#define KVD_CLIENT_LIBKVD_ASYNC_H

#include "client/libkvd/handle.h"

/* Frees what they need: slots and the descriptor. */
void submitted_release(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_ASYNC_H */
