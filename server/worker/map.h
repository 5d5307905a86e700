/* SPDX-License-Identifier: MIT */
/* The answer to MAP: the map of the fleet that the server is in, part by part. */
#ifndef KVD_SERVER_WORKER_MAP_H
#define KVD_SERVER_WORKER_MAP_H

#include "server/worker/deferred.h"

extern const struct deferred_kind map_kind;

#endif /* KVD_SERVER_WORKER_MAP_H */
