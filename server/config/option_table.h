/* SPDX-License-Identifier: MIT */
/*
 * Every option of the server, once. From this table come struct config, the parser, --help,
 * --print-config and the test that conf/kvd.ini names them all.
 *
 *	X(section, key, kind, default, min, max, help)
 *
 * Kinds and what they are in struct config:
 *
 *	UINT	  uint32_t, min to max
 *	COUNT	  uint64_t, min to max
 *	SIZE	  uint64_t bytes, min to max
 *	TIME	  uint64_t nanoseconds, min to max
 *	BOOL	  bool
 *	MODE	  uint32_t, file permissions
 *	DEVICES	  uint32_t, DEVICE_* bits of common/rdma/device.h; 0 = auto
 *	POLL	  uint32_t, enum poll_mode
 *	HUGEPAGES uint32_t, enum hugepages_mode
 *	EVICTION  uint32_t, enum eviction_policy
 *	LEVEL	  uint32_t, enum log_level
 *	ADDRESS	  char[DEVICE_HOST_MAX], an IP address or "auto"
 *	NUMA	  char[OPTION_NUMA_MAX], default, local, interleave, or nodes
 *	SOCKET	  char[DEVICE_PATH_MAX], a path, not empty
 *	FILE	  char[OPTION_FILE_MAX], a path or ""
 */
#ifndef KVD_SERVER_CONFIG_OPTION_TABLE_H
#define KVD_SERVER_CONFIG_OPTION_TABLE_H

#include <stdint.h>

#include "common/wire.h"
#include "server/store/store_options.h"

enum poll_mode {
	POLL_ADAPTIVE, /* poll while there is work and for spin_time after it, then sleep */
	POLL_BUSY,     /* never sleep */
};

/* Bytes of a path, its zero included: a line of the file has to hold it (see server/config/config.c). */
#define OPTION_FILE_MAX 160

/* Bytes of a list of NUMA nodes, its zero included. */
#define OPTION_NUMA_MAX 64

#define OPTION_KIB(n) ((uint64_t)(n) << 10)
#define OPTION_MIB(n) ((uint64_t)(n) << 20)
#define OPTION_GIB(n) ((uint64_t)(n) << 30)
#define OPTION_MS(n) ((n)*UINT64_C(1000000))
#define OPTION_S(n) ((n)*UINT64_C(1000000000))

/* clang-format off */
#define OPTIONS_server(X)                                                                          \
	X(server, device, DEVICES, "auto", 0, 0,                                                   \
	  "devices to serve on; auto is verbs if this host has an RDMA device, else softnic")      \
	X(server, workers, UINT, "0", 0, 64,                                                       \
	  "worker threads; 0 is one for each CPU the process may run on")                          \
	X(server, pin, BOOL, "yes", 0, 0,                                                          \
	  "tie each worker to a CPU of its own")                                                   \
	X(server, poll, POLL, "adaptive", 0, 0,                                                    \
	  "adaptive lets an idle worker sleep, busy never does")                                   \
	X(server, spin_time, TIME, "50us", 0, OPTION_S(1),                                         \
	  "how long an idle worker polls before it sleeps")                                        \
	X(server, max_connections, UINT, "1024", 1, 65536,                                         \
	  "connections at a time; the next one is refused")                                        \
	X(server, drain_timeout, TIME, "5s", 0, OPTION_S(600),                                     \
	  "how long a stopping server waits for large values on their way")                               \
	X(server, handshake_timeout, TIME, "5s", OPTION_MS(10), OPTION_S(600),                     \
	  "a connection that has not said HELLO by then is closed")                                \
	X(server, pull_timeout, TIME, "30s", OPTION_MS(10), OPTION_S(600),                         \
	  "a large value has to be read from its client within this time")

#define OPTIONS_rdma(X)                                                                            \
	X(rdma, address, ADDRESS, "auto", 0, 0,                                                    \
	  "IP address of the RDMA device to listen on; auto is the first one found")               \
	X(rdma, port, UINT, "7471", 1, 65535,                                                      \
	  "rdma_cm port to listen on")

#define OPTIONS_softnic(X)                                                                         \
	X(softnic, socket, SOCKET, "/run/kvd/kvd.sock", 0, 0,                                      \
	  "Unix socket that clients on this host connect to")                                      \
	X(softnic, socket_mode, MODE, "0660", 0, 0777,                                             \
	  "permissions of the socket: who may write to it may connect")

#define OPTIONS_memory(X)                                                                          \
	X(memory, size, SIZE, "1g", OPTION_MIB(16), OPTION_GIB(512),                               \
	  "the region: index and items; it never grows")                                           \
	X(memory, hugepages, HUGEPAGES, "auto", 0, 0,                                              \
	  "pages of the region: auto takes the largest that fit and are there, require no "       \
	  "normal ones")                                                                           \
	X(memory, numa, NUMA, "default", 0, 0,                                                     \
	  "nodes that hold the region; default leaves it to the kernel, local is the node of the " \
	  "RDMA device")                                                                           \
	X(memory, eviction, EVICTION, "lru", 0, 0,                                                 \
	  "what happens when memory is full: none fails PUTs, lru and lfu evict")                  \
	X(memory, access_rate, UINT, "4", 1, 1024,                                                 \
	  "with eviction: one in so many GETs is told to the server")                              \
	X(memory, access_delay, TIME, "100ms", OPTION_MS(1), OPTION_S(10),                         \
	  "with eviction: a client tells of its GETs at the latest after this time, when it does "  \
	  "something")

#define OPTIONS_index(X)                                                                           \
	X(index, keys, COUNT, "0", 0, UINT64_C(1) << 36,                                           \
	  "keys to have room for at the start, at a fill of 65 %; the index grows by itself")                         \
	X(index, fill, UINT, "65", 30, 90,                                                         \
	  "percent of the slots in use at which the index grows")

#define OPTIONS_expiry(X)                                                                          \
	X(expiry, sweep_share, UINT, "5", 1, 50,                                                   \
	  "percent of one CPU that looking for expired items may take")

#define OPTIONS_limits(X)                                                                          \
	X(limits, max_value, SIZE, "1m", 0, OPTION_GIB(1),                                         \
	  "largest value a client may store")

#define OPTIONS_request(X)                                                                         \
	X(request, window, UINT, "8", 1, 31,                                          \
	  "requests a connection may have outstanding")                                            \
	X(request, buffer, SIZE, "2k", WIRE_REQUEST_MIN, WIRE_RESPONSE_MAX,                        \
	  "receive buffer; a request that does not fit it is pulled from the client")              \
	X(request, srq_depth, UINT, "4096", 64, 32768,                                             \
	  "receives of each worker on each device; bounds the sum of the windows")                 \
	X(request, signal_every, UINT, "8", 1, 64,                                                 \
	  "responses for each signaled one")

#define OPTIONS_log(X)                                                                             \
	X(log, level, LEVEL, "notice", 0, 0,                                                       \
	  "the least important lines to log")                                                      \
	X(log, file, FILE, "", 0, 0,                                                               \
	  "file to log to, reopened on SIGHUP; empty is stderr")

/* S(section), in the order in which they are printed. */
#define OPTION_SECTIONS(S) \
	S(server) S(rdma) S(softnic) S(memory) S(index) S(expiry) S(limits) S(request) S(log)
/* clang-format on */

#define OPTIONS(X)                                                                                 \
	OPTIONS_server(X) OPTIONS_rdma(X) OPTIONS_softnic(X) OPTIONS_memory(X) OPTIONS_index(X)    \
		OPTIONS_expiry(X) OPTIONS_limits(X) OPTIONS_request(X) OPTIONS_log(X)

#endif /* KVD_SERVER_CONFIG_OPTION_TABLE_H */
