/* SPDX-License-Identifier: MIT */
/*
 * Statistics of the server: "name value" lines, for STATS requests and kvctl stats. Counters are
 * read while threads change them: each is right, but together they are no snapshot.
 */
#ifndef KVD_SERVER_STATS_H
#define KVD_SERVER_STATS_H

#include <stdint.h>
#include <stdio.h>

#include "server/control/net.h"
#include "server/fleet/fleet.h"
#include "server/fleet/membership_thread.h"
#include "server/store/store.h"

/* X(name, help): the statistics that no module counts itself. */
#define PROCESS_STATS(X)                                                                           \
	X(version, "the server's version")                                                         \
	X(pid, "process id of the server")                                                         \
	X(uptime_s, "seconds since the server started")                                            \
	X(cpu_user_us, "CPU time of the process in user mode, microseconds")                       \
	X(cpu_system_us, "CPU time of the process in the kernel, microseconds")                    \
	X(workers, "worker threads")                                                               \
	X(tenant,                                                                                  \
	  "the client's tenant; if it is not default, only statistics of its store follow")        \
	X(tenants, "number of tenants")                                                            \
	X(tenants_bytes, "memory of tenants other than default, of tenants.memory")                \
	X(fleet_name, "the name of the fleet; none: the server is in none")                        \
	X(fleet_member, "the name of the server in the fleet; none: it is in none")                \
	X(fleet_epoch, "the epoch of the fleet's map; 0: the server is in no fleet")               \
	X(fleet_members, "members of the fleet")                                                   \
	X(fleet_shards, "shards of the fleet that this server owns, of 16384")                     \
	X(fleet_shards_served, "shards of the fleet that this server serves while it has a lease") \
	X(fleet_lease_ms,                                                                          \
	  "milliseconds until the server stops to serve unless it hears of etcd; 0: it serves "    \
	  "nothing; none: it needs no lease")                                                      \
	X(fleet_registrations, "times that the server registered in the fleet's etcd")             \
	X(fleet_controller, "1: this member assigns the fleet's shards; 0: another one does")      \
	X(fleet_waits, "why the server waits to be registered, or to assign shards; none: it "     \
		       "does not wait")                                                            \
	X(fleet_moves_left, "shards of this member that have to move to others")                   \
	X(fleet_moved_shards, "shards that moved from this member to others, with their items")    \
	X(fleet_moves_failed, "moves of shards from this member that failed, and were undone")     \
	X(fleet_move_to, "the member to which shards move now; none: no move is under way")        \
	X(fleet_move_state, "what this member does about its moves, in a word; idle: nothing")     \
	X(fleet_move_why, "why the last move failed; none: it did not")                            \
	X(log_lines_lost, "log lines lost because the log's file or pipe was full")                \
	X(audit_lines_lost, "lines of the audit log lost because its file was full")               \
	X(device.N.kind, "rdma, rdma+tcp, rdma+tls or softnic, for each device N")                 \
	X(device.N.name, "name of device N")                                                       \
	X(device.N.address, "the address that device N listens at; the first one of several")      \
	X(device.N.why, "why kvd chose device N")                                                  \
	X(device.N.windows, "yes: each connection has its own key for READs; no: all share one")   \
	X(device.N.state, "serves, or failed: kvd looks for device N until it is back")            \
	X(items, "keys in the store")                                                              \
	X(index_buckets, "home buckets of the index")                                              \
	X(index_bytes, "bytes of the home buckets")                                                \
	X(pinned_bytes, "memory of items that are pinned")                                         \
	X(pinned_items, "items that are pinned")                                                   \
	X(eviction, "none, object-hits or byte-hits")                                              \
	X(evictions_youngest_s, "age of the youngest item of normal priority that was evicted in " \
				"the last one or two minutes: seconds since the last use that "    \
				"the server knows of, or since it was stored; none: no eviction")  \
	X(region_bytes, "size of the region; memory.* are its parts")                              \
	X(region_page_bytes, "size of the region's pages")                                         \
	X(region_large_bytes, "bytes of the region on transparent huge pages")                     \
	X(region_kept, "1: the next kvd serves what the region has (memory.file)")                 \
	X(region_numa, "NUMA nodes of the region")                                                 \
	X(memory.superblock, "bytes of the superblock")                                            \
	X(memory.pad, "unused bytes at the end of the region")                                     \
	X(item_memory_bytes, "bytes for items and overflow buckets now")                           \
	X(item_memory_live_bytes, "bytes of all items: header, key and value")                     \
	X(item_memory_failures, "times no block of a size was free at once")                       \
	X(flushes_waiting, "flushes with a delay that are not due yet")                            \
	X(flush.N.due_in_s, "seconds until the waiting flush with ticket N begins")                \
	X(flush.N.owner,                                                                           \
	  "principal that asked for flush N and may cancel it; only administrators see others'")   \
	X(held.limbo, "large items and overflow buckets that wait until no reader uses them")

/* X(name, help): the turns of all workers. The histogram, TURN_CLASSES, follows. */
#define TURN_STATS(X)                                                                              \
	X(worker.turns, "turns of the workers' loops that found something to do")                  \
	X(worker.turn_us_max,                                                                      \
	  "the longest turn of a worker, microseconds; includes the time of other threads "        \
	  "on its CPU")                                                                            \
	X(worker.turn_ns_p50, "median time of a worker's turn, nanoseconds")                       \
	X(worker.turn_ns_p99, "99th percentile of a worker's turn, nanoseconds")                   \
	X(worker.turn_ns_p99_9, "99.9th percentile of a worker's turn, nanoseconds")               \
	X(worker.turn_completions_max, "most completions taken in one turn")                       \
	X(worker.turn_batched_max,                                                                 \
	  "most requests of batched messages that were executed at once in one turn")              \
	X(worker.cpu_useful_us, "CPU time of the workers in turns, microseconds; may include "     \
				"time of other threads on their CPUs")                             \
	X(worker.cpu_polling_us,                                                                   \
	  "CPU time of the workers between turns: polling in vain, going to sleep "                \
	  "and waking up")                                                                         \
	X(worker.N.cpu_useful_us, "CPU time of worker N in turns, microseconds")                   \
	X(worker.N.cpu_polling_us, "CPU time of worker N between turns, microseconds")             \
	X(worker.N.turns, "turns of worker N that found something to do")                          \
	X(worker.N.turn_us_max, "the longest turn of worker N, microseconds")                      \
	X(worker.N.turn_ns_p99, "99th percentile of worker N's turns, nanoseconds")

/* Where the numbers come from. */
struct stats_source {
	const struct net *net;
	const struct fleet *fleet;	      /* its map is NULL: the server is in none */
	struct membership_thread *membership; /* NULL: the fleet's map is not in etcd */
	const char *fleet_name;		      /* in etcd */
	uint64_t started_ns;		      /* of clock_ns() */
};

/*
 * Writes the statistics for clients of @tenant: all for clients of `default`, else those of the
 * tenant's store. @viewer, who sees no names of other principals, reads them; NULL: an
 * administrator. Writes as many lines as fit in @size bytes to @text, without a zero at the end.
 * Returns the bytes of all lines: if they are more than @size, some are missing. Any thread.
 */
uint32_t stats_print(const struct stats_source *source, const struct tenant *tenant,
		     const struct principal *viewer, char *text, uint32_t size);

/* Writes the names and their meaning, for --help. */
void stats_help(FILE *out);

#endif /* KVD_SERVER_STATS_H */
