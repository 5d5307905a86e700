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
#include "server/store/store.h"

/* X(name, help): the statistics that no module counts itself. */
#define PROCESS_STATS(X)                                                                           \
	X(version, "of the server")                                                                \
	X(pid, "process id of the server")                                                         \
	X(uptime_s, "seconds since the server started")                                            \
	X(cpu_user_us, "CPU time of the process in user mode, microseconds")                       \
	X(cpu_system_us, "CPU time of the process in the kernel, microseconds")                    \
	X(workers, "worker threads")                                                               \
	X(tenant, "the tenant that you are in; of another one than default only what concerns "    \
		  "its store is here")                                                             \
	X(tenants, "tenants that there are")                                                       \
	X(tenants_bytes, "memory of all of them but default, of tenants.memory")                   \
	X(log_lines_lost, "lines of the log that were lost because its file or pipe took no more") \
	X(device.N.kind, "rdma, rdma+tcp, rdma+tls or softnic, for each device N")                 \
	X(device.N.name, "its name")                                                               \
	X(device.N.address, "the address it listens at, the first one if there are several")       \
	X(device.N.why, "why it was chosen")                                                       \
	X(device.N.windows, "yes: each connection READs by a key of its own; no: all by one")      \
	X(device.N.state, "serves, or failed: it is looked for until it is back")                  \
	X(items, "keys in the store")                                                              \
	X(index_buckets, "home buckets of the index")                                              \
	X(index_bytes, "bytes of the home buckets")                                                \
	X(pinned_bytes, "memory of items that are pinned")                                         \
	X(pinned_items, "items that are pinned")                                                   \
	X(eviction, "none, object-hits or byte-hits")                                              \
	X(evictions_youngest_s, "age of the youngest item of normal priority that was evicted in " \
				"the last one or two minutes: seconds since it was used last, or " \
				"stored, for all that the server knows; none: none was")           \
	X(region_bytes, "size of the region; memory.* are its parts")                              \
	X(region_page_bytes, "size of the region's pages")                                         \
	X(region_large_bytes, "of them, bytes on transparent huge pages")                          \
	X(region_numa, "NUMA nodes of the region")                                                 \
	X(memory.superblock, "bytes of the superblock")                                            \
	X(memory.pad, "bytes at the end that are not used")                                        \
	X(item_memory_bytes, "bytes for items and overflow buckets now")                           \
	X(item_memory_live_bytes, "bytes of all items: header, key and value")                     \
	X(item_memory_failures, "times no block of a size was free at once")                       \
	X(flushes_waiting, "flushes with a delay that wait for their time")                        \
	X(flush.N.due_in_s, "seconds until it begins, for each of them, with the ticket N")        \
	X(flush.N.owner, "who started it, and may cancel it; of others for administrators alone")  \
	X(held.limbo, "large items and overflow buckets that wait until no reader uses them")

/* X(name, help): of the turns of all workers. They are followed by the histogram, TURN_CLASSES. */
#define TURN_STATS(X)                                                                              \
	X(worker.turns, "turns of the workers' loops in which there was something to do")          \
	X(worker.turn_us_max,                                                                      \
	  "the longest turn of a worker, microseconds; with the time of other threads "            \
	  "on its CPU")                                                                            \
	X(worker.turn_ns_p50, "median time of a worker's turn, nanoseconds")                       \
	X(worker.turn_ns_p99, "99th percentile of a worker's turn, nanoseconds")                   \
	X(worker.turn_ns_p99_9, "99.9th percentile of a worker's turn, nanoseconds")               \
	X(worker.turn_completions_max, "completions taken in a turn at most")                      \
	X(worker.turn_batched_max,                                                                 \
	  "requests of messages with several that were executed at once in a turn, at most")       \
	X(worker.cpu_useful_us, "CPU time of the workers in turns, microseconds; with the time "   \
				"of other threads on their CPUs, but no more than there is")       \
	X(worker.cpu_polling_us,                                                                   \
	  "CPU time of the workers between turns: polling in vain, going to sleep "                \
	  "and waking up")                                                                         \
	X(worker.N.cpu_useful_us, "CPU time of worker N in turns, microseconds")                   \
	X(worker.N.cpu_polling_us, "CPU time of worker N between turns, microseconds")             \
	X(worker.N.turns, "turns of worker N in which there was something to do")                  \
	X(worker.N.turn_us_max, "the longest turn of worker N, microseconds")                      \
	X(worker.N.turn_ns_p99, "99th percentile of worker N's turns, nanoseconds")

/* Where the numbers come from. */
struct stats_source {
	const struct net *net;
	uint64_t started_ns; /* of clock_ns() */
};

/*
 * For clients of @tenant: the server's own statistics are for those of `default`, and the others
 * have what concerns their store. @viewer: who reads them, and sees no names of other principals;
 * NULL: an administrator. Writes the lines to @text, as many as fit @size bytes, without a
 * zero at the end. Returns the bytes of all: if they are more than @size, some lines are missing.
 * Any thread.
 */
uint32_t stats_print(const struct stats_source *source, const struct tenant *tenant,
		     const struct principal *viewer, char *text, uint32_t size);

/* Writes the names with their meaning, for --help. */
void stats_help(FILE *out);

#endif /* KVD_SERVER_STATS_H */
