/* SPDX-License-Identifier: MIT */
/*
 * The server's statistics: "name value" lines, for STATS requests and kvctl stats. Numbers are read
 * while the workers count: each is right, together they are no snapshot.
 */
#ifndef KVD_SERVER_STATS_H
#define KVD_SERVER_STATS_H

#include <stdint.h>
#include <stdio.h>

struct server;

/* X(name, help): what belongs to no module with counters of its own. */
#define PROCESS_STATS(X)                                                                           \
	X(version, "of the server")                                                                \
	X(pid, "its process")                                                                      \
	X(uptime_s, "seconds since it started")                                                    \
	X(cpu_user_us, "CPU time of the process in user mode, microseconds")                       \
	X(cpu_system_us, "CPU time of the process in the kernel, microseconds")                    \
	X(workers, "worker threads")                                                               \
	X(device.N.kind, "verbs or softnic, for each device")                                      \
	X(device.N.name, "its name")                                                               \
	X(device.N.address, "where it listens")                                                    \
	X(device.N.why, "why it was chosen")                                                       \
	X(items, "keys in the store")                                                              \
	X(index_buckets, "home buckets")                                                           \
	X(index_bytes, "bytes in them")                                                            \
	X(eviction, "none, lru or lfu")                                                            \
	X(region_bytes, "size of the region; the memory.* are its parts")                          \
	X(region_page_bytes, "size of its pages")                                                  \
	X(region_numa, "NUMA placement of it")                                                     \
	X(memory.superblock, "bytes of the superblock")                                            \
	X(memory.pad, "bytes at the end that are not used")                                        \
	X(item_memory_bytes, "bytes for items and overflow buckets now")                           \
	X(item_memory_live_bytes, "bytes of all items: header, key and value")                     \
	X(item_memory_failures, "times no block was free at once")

/*
 * Writes lines from number @first on to @text, as many as fit @size bytes whole; no zero at the end.
 * Returns the bytes, and the number of the next line in *@next, 0 if that was the last. Any thread.
 */
uint32_t stats_print(const struct server *server, uint32_t first, char *text, uint32_t size,
		     uint32_t *next);

/* The names with their meaning, for --help. */
void stats_help(FILE *out);

#endif /* KVD_SERVER_STATS_H */
