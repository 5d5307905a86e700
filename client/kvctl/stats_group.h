/* SPDX-License-Identifier: MIT */
/*
 * What kvctl knows about the server's statistics: the heading of each, and whether it is a counter.
 * kvd --help explains them.
 */
#ifndef KVD_CLIENT_KVCTL_STATS_GROUP_H
#define KVD_CLIENT_KVCTL_STATS_GROUP_H

#include <stdbool.h>
#include <stddef.h>

/* X(name, heading): in the order in which they are shown. */
#define STATS_GROUPS(X)                                                                            \
	X(SERVER, "Server")                                                                        \
	X(DEVICES, "Devices")                                                                      \
	X(KEYS, "Keys")                                                                            \
	X(MEMORY, "Memory")                                                                        \
	X(SIZE_CLASSES, "Memory by size class")                                                    \
	X(INDEX, "Index")                                                                          \
	X(CONNECTIONS, "Connections")                                                              \
	X(REQUESTS, "Requests")                                                                    \
	X(LARGE, "Large values")                                                                   \
	X(WORKERS, "Workers")                                                                      \
	X(HELD, "Held for clients")                                                                \
	X(MEMCACHED, "memcached's clients")                                                        \
	X(OTHER, "Other")

enum stats_group {
#define X(name, heading) STATS_##name,
	STATS_GROUPS(X)
#undef X
};

/* STATS_OTHER: an unknown statistic, of a newer server. */
enum stats_group stats_group_of(const char *name, size_t len);

/* Whether it only grows while the server runs, so that its rate is meaningful. */
bool stats_is_counter(const char *name, size_t len);

/* Whether it is a number of bytes. */
bool stats_is_bytes(const char *name, size_t len);

#endif /* KVD_CLIENT_KVCTL_STATS_GROUP_H */
