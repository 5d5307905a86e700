/* SPDX-License-Identifier: MIT */
/*
 * What sessions of memcached's protocol (server/memcached/session.h) count, by memcached's names,
 * in their worker's part of their tenant. Other threads may read the counters.
 */
#ifndef KVD_SERVER_WORKER_MC_COUNTERS_H
#define KVD_SERVER_WORKER_MC_COUNTERS_H

#include <stdint.h>

/* X(name, help): for the default tenant also kvd's statistics, as memcached.NAME. */
#define MC_COUNTERS(X)                                                                             \
	X(cmd_get, "keys asked for by get, gets and mg")                                           \
	X(cmd_set, "commands that store a value")                                                  \
	X(cmd_flush, "flush_all commands")                                                         \
	X(cmd_touch, "keys touched, by touch, gat, gats and mg")                                   \
	X(cmd_meta, "meta commands")                                                               \
	X(get_hits, "keys of get, gets, gat, gats and mg that were found")                         \
	X(get_misses, "keys of get, gets and mg that were not found")                              \
	X(delete_hits, "deletes of keys that were found")                                          \
	X(delete_misses, "deletes of keys that were not found")                                    \
	X(incr_hits, "increments of keys that were found")                                         \
	X(incr_misses, "increments of keys that were not found")                                   \
	X(decr_hits, "decrements of keys that were found")                                         \
	X(decr_misses, "decrements of keys that were not found")                                   \
	X(cas_hits, "cas commands that stored")                                                    \
	X(cas_misses, "cas commands whose key was not found")                                      \
	X(cas_badval, "cas commands whose key had another cas unique")                             \
	X(touch_hits, "touches of keys that were found")                                           \
	X(touch_misses, "touches of keys that were not found")                                     \
	X(store_too_large, "values refused because they are larger than limits.max_value")         \
	X(store_no_memory, "values refused because there is no memory")                            \
	X(auth_cmds, "logins, of users.file's passwords, that were answered")                      \
	X(auth_errors, "logins that were refused")                                                 \
	X(idle_kicks, "sessions closed because they were idle for memcached.idle_timeout")         \
	X(forwarded, "requests sent to other members of the fleet, for their keys or to flush")    \
	X(forward_failed, "requests that other members of the fleet did not answer, or refused")   \
	X(conn_yields, "times a session had more commands than its share of a turn")               \
	X(bytes_read, "bytes received by sessions")                                                \
	X(bytes_written, "bytes sent by sessions")

struct mc_counters {
#define X(name, help) uint64_t name;
	MC_COUNTERS(X)
#undef X
};

#endif /* KVD_SERVER_WORKER_MC_COUNTERS_H */
