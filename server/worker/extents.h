/* SPDX-License-Identifier: MIT */
/* EXTENTS: the keys of the extents of the region, for a client that has met one without a key. */
#ifndef KVD_SERVER_WORKER_EXTENTS_H
#define KVD_SERVER_WORKER_EXTENTS_H

#include "server/worker/deferred.h"

extern const struct deferred_kind extents_kind;

#endif /* KVD_SERVER_WORKER_EXTENTS_H */
