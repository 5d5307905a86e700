/* SPDX-License-Identifier: MIT */
/*
 * The table of the server's options, each of which is declared here and nowhere else. struct config
 * (below), the array option_table[] that the parser, --help and --print-config use
 * (server/config/option_kinds.h), and the test of conf/kvd.ini are made from it.
 *
 *	X(section, key, kind, default, min, max, help)
 *
 * The kinds, and the field of struct config for each:
 *
 *	UINT	  uint32_t, min to max
 *	AUTOUINT  the same, or OPTION_UINT_AUTO, "auto"
 *	COUNT	  uint64_t, min to max
 *	SIZE	  uint64_t bytes, min to max
 *	AUTOSIZE  the same, or OPTION_SIZE_AUTO, "auto"
 *	TIME	  uint64_t nanoseconds, min to max
 *	BOOL	  bool
 *	MODE	  uint32_t, file permissions
 *	POLL	  uint32_t, enum poll_mode
 *	WINDOWS	  uint32_t, enum windows_mode
 *	HUGEPAGES uint32_t, enum hugepages_mode
 *	EVICTION  uint32_t, enum eviction_policy
 *	LEVEL	  uint32_t, enum log_level
 *	LISTEN	  char[OPTION_LIST_MAX], URLs or "auto": server/config/listen_list.h
 *	NETWORKS  char[OPTION_LIST_MAX], networks with commas between them, or ""
 *	NUMA	  char[OPTION_NUMA_MAX], default, local, interleave, or nodes
 *	FILE	  char[OPTION_FILE_MAX], a path or ""
 *	TENANTS	  char[OPTION_LIST_MAX], names with sizes, or "": server/config/tenant_list.h
 */
#ifndef KVD_SERVER_CONFIG_OPTION_TABLE_H
#define KVD_SERVER_CONFIG_OPTION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rdma/device.h"
#include "common/wire.h"
#include "server/store/store_options.h"

enum poll_mode {
	POLL_ADAPTIVE, /* poll while requests arrive and for spin_time afterwards, then sleep */
	POLL_BUSY,     /* never sleep */
};

enum windows_mode {
	WINDOWS_AUTO, /* where the device has them */
	WINDOWS_YES,  /* else it is not served on */
	WINDOWS_NO,
};

/* Worker threads. */
#define WORKERS_MAX 64

/* Bytes of a path, its zero included: it has to fit a line of the file (server/config/config.c). */
#define OPTION_FILE_MAX 160

/* Bytes of a list, its zero included: 240 networks of IPv4, 100 tenants. */
#define OPTION_LIST_MAX 4096

/* Bytes of a list of NUMA nodes, its zero included. */
#define OPTION_NUMA_MAX 64

/* A tenant has this many bytes at least, as memory.size does. */
#define OPTION_TENANT_MIN OPTION_MIB(16)

#define OPTION_SIZE_AUTO UINT64_MAX
#define OPTION_UINT_AUTO UINT32_MAX

#define OPTION_KIB(n) ((uint64_t)(n) << 10)
#define OPTION_MIB(n) ((uint64_t)(n) << 20)
#define OPTION_GIB(n) ((uint64_t)(n) << 30)
#define OPTION_MS(n) ((n)*UINT64_C(1000000))
#define OPTION_S(n) ((n)*UINT64_C(1000000000))

/* clang-format off */
#define OPTIONS_server(X)                                                                          \
	X(server, listen, LISTEN, "auto", 0, 0,                                                    \
	  "URLs that clients use, without a port at 7471, 7472 (rdma+tcp) or 7473 (rdma+tls); "    \
	  "auto is rdma:// on a host with an RDMA device, else softnic://")                        \
	X(server, workers, UINT, "0", 0, WORKERS_MAX,                                                       \
	  "worker threads; 0 is one for each CPU that the process may run on")                     \
	X(server, pin, BOOL, "yes", 0, 0,                                                          \
	  "pin each worker thread to one CPU")                                                     \
	X(server, poll, POLL, "adaptive", 0, 0,                                                    \
	  "adaptive: an idle worker polls for spin_time, then sleeps; busy: it polls "             \
	  "all the time")                                                                          \
	X(server, spin_time, TIME, "50us", 0, OPTION_S(1),                                         \
	  "how long an idle worker polls before it sleeps")                                        \
	X(server, max_connections, UINT, "1024", 1, 65536,                                         \
	  "most connections at a time; further ones are refused")                                  \
	X(server, drain_timeout, TIME, "5s", 0, OPTION_S(600),                                     \
	  "how long a stopping server waits for large values that it reads from clients")          \
	X(server, handshake_timeout, TIME, "5s", OPTION_MS(10), OPTION_S(600),                     \
	  "a connection that sends no HELLO within this time is closed")                           \
	X(server, pull_stall, TIME, "5s", OPTION_MS(10), OPTION_S(600),                            \
	  "a connection is closed if no part of its large value is read for this time")            \
	X(server, pull_timeout, TIME, "30s", OPTION_MS(10), OPTION_S(600),                         \
	  "a connection whose large value is not read within this time is closed")                 \
	X(server, identity_time, TIME, "60s", 0, OPTION_S(3600),                                   \
	  "how long a client may be away and then still send changes again that are executed once") \
	X(server, keepalive_interval, TIME, "15s", 0, OPTION_S(3600),                              \
	  "on RDMA devices, a client that sends nothing for this long is probed; 0: never")

#define OPTIONS_rdma(X)                                                                            \
	X(rdma, networks, NETWORKS, "", 0, 0,                                                      \
	  "verbs and rdma+tcp, which have no secret: networks of the clients that may connect; "  \
	  "empty: all")                                                                            \
	X(rdma, gid_index, AUTOUINT, "auto", 0, 255,                                               \
	  "rdma+tcp and rdma+tls: the GID; auto: of RoCE v2, and of the address that a client "       \
	  "connects to")                                                                           \
	X(rdma, pkey_index, AUTOUINT, "auto", 0, 255,                                              \
	  "rdma+tcp and rdma+tls: the partition key; auto: 0, the default partition")                 \
	X(rdma, traffic_class, AUTOUINT, "auto", 0, 255,                                           \
	  "DSCP and ECN bits of what is sent; auto: rdma_cm's choice, by hand: 0")                 \
	X(rdma, service_level, AUTOUINT, "auto", 0, 15,                                            \
	  "service level, on Ethernet the priority; auto: rdma_cm's choice, by hand: 0")           \
	X(rdma, ack_timeout, AUTOUINT, "auto", 1, 31,                                              \
	  "what is sent is sent again after 4.096 us x 2^this; auto: rdma_cm's choice, by "        \
	  "hand: 18, 1 s")                                                                       \
	X(rdma, retry_count, AUTOUINT, "auto", 0, 7,                                               \
	  "how often, until the connection is lost; auto: 6")                                      \
	X(rdma, max_rd_atomic, AUTOUINT, "auto", 1, 254,                                           \
	  "outstanding READs of a connection in each direction; auto: what the device can")         \
	X(rdma, windows, WINDOWS, "auto", 0, 0,                                                    \
	  "softnic too: a key, as a memory window of type 2B, for each connection; auto: where "   \
	  "the device has them; no: one key for all")

#define OPTIONS_tls(X)                                                                             \
	X(tls, certificate, FILE, "", 0, 0,                                                        \
	  "rdma+tls: PEM file of the server's certificate, then of those between it and who "     \
	  "signed it")                                                                             \
	X(tls, key, FILE, "", 0, 0,                                                                \
	  "PEM file of its private key, which no other user may read")                             \
	X(tls, ca, FILE, "", 0, 0,                                                                 \
	  "PEM file of the certificates of those who sign the clients' certificates")              \
	X(tls, psk, FILE, "", 0, 0,                                                                \
	  "file of keys that clients have too, lines identity:key, which no other user may read")  \
	X(tls, require_identity, BOOL, "yes", 0, 0,                                                \
	  "only clients with a certificate of ca or a key of psk may connect; no: any may")

#define OPTIONS_users(X)                                                                           \
	X(users, file, FILE, "", 0, 0,                                                             \
	  "file of the users that may connect, and what each may do, to which nobody else may "    \
	  "write; empty: everybody may do everything")                                             \
	X(users, require_identity, BOOL, "no", 0, 0,                                               \
	  "serve only where clients prove who they are: softnic, and rdma+tls with "              \
	  "tls.require_identity")

#define OPTIONS_softnic(X)                                                                         \
	X(softnic, socket_mode, MODE, "0660", 0, 0777,                                             \
	  "permissions of the socket; clients need write permission to connect")

#define OPTIONS_memory(X)                                                                          \
	X(memory, size, SIZE, "1g", OPTION_MIB(16), OPTION_GIB(512),                               \
	  "size of the region, which holds the index and all items; it never grows")               \
	X(memory, hugepages, HUGEPAGES, "auto", 0, 0,                                              \
	  "pages of the region: auto is the largest there are; require allows no normal or "       \
	  "transparent ones; those of 1 GiB are for regions, tenants' too, of whole GiB")          \
	X(memory, prefault, BOOL, "yes", 0, 0,                                                     \
	  "allocate all memory at the start; no: as items fill it, unless a verbs device pins it") \
	X(memory, dump, BOOL, "no", 0, 0,                                                          \
	  "core dumps have the region and requests, that is, what clients have stored")            \
	X(memory, numa, NUMA, "default", 0, 0,                                                     \
	  "NUMA nodes of the region: default is the kernel's choice, local the RDMA "              \
	  "device's node")                                                                         \
	X(memory, eviction, EVICTION, "object-hits", 0, 0,                                         \
	  "when memory is full: none fails PUTs, the others evict items, so that as many GETs, "   \
	  "or as many bytes of them, as possible hit")                                             \
	X(memory, pull_share, UINT, "12", 1, 50,                                                   \
	  "percentage of the item memory for large values being pulled from one client (user, "    \
	  "identity, uid or address), twice that for all, and again for appends to them; "         \
	  "limits.max_value has to fit it")                                                        \
	X(memory, pin_share, UINT, "25", 0, 75,                                                    \
	  "with eviction: percentage of the item memory that clients may pin; 0: no pins")         \
	X(memory, pin_time_max, TIME, "1h", OPTION_S(1), OPTION_S(PIN_TIME_MAX),                   \
	  "the longest time for which a client may pin an item")                                   \
	X(memory, access_rate, UINT, "4", 1, WIRE_ACCESS_RATE_MAX,                                 \
	  "with eviction: a client reports one hit in this many at most, those first that tell "    \
	  "the server something: 1 hits most where items are used a few times")                    \
	X(memory, curve, BOOL, "no", 0, 0,                                                         \
	  "with eviction: estimate by a sample of keys how many GETs would hit with less memory "  \
	  "and with more, for kvctl curve; clients report all GETs of these keys")

#define OPTIONS_index(X)                                                                           \
	X(index, keys, COUNT, "0", 0, UINT64_C(1) << 36,                                           \
	  "keys that the index has room for at the start; it grows by itself")

#define OPTIONS_limits(X)                                                                          \
	X(limits, max_value, AUTOSIZE, "auto", 0, OPTION_GIB(1),                                   \
	  "size of the largest value that a client may store; auto: 64m, or a sixteenth of "       \
	  "memory.size, or what fits memory.pull_share, if that is less")                          \
	X(limits, identities, UINT, "2048", 0, 131072,                                             \
	  "clients, connected or not long away, whose changes are executed once if sent again")    \
	X(limits, connection_requests, UINT, "0", 0, 1000000000,                                   \
	  "requests per second of a connection; those beyond are answered BUSY; 0: no limit")      \
	X(limits, connection_bytes, SIZE, "0", 0, OPTION_GIB(64),                                  \
	  "bytes per second of a connection's requests, responses and large values; 0: no limit")

#define OPTIONS_request(X)                                                                         \
	X(request, window, UINT, "8", 1, 31,                                                       \
	  "most requests that an active connection may have outstanding; an idle one has 1")       \
	X(request, buffer, SIZE, "2k", WIRE_REQUEST_MIN, WIRE_RESPONSE_MAX,                        \
	  "size of a message buffer; the value of a request that does not fit is read "            \
	  "from its client")                                                                       \
	X(request, srq_depth, UINT, "4096", 64, 32768,                                             \
	  "receives of each worker on each device; bounds the sum of the windows, and so the "     \
	  "connections")

#define OPTIONS_log(X)                                                                             \
	X(log, level, LEVEL, "notice", 0, 0,                                                       \
	  "the least important level that is logged")                                              \
	X(log, file, FILE, "", 0, 0,                                                               \
	  "file to log to, opened again on SIGHUP; empty is stderr")

#define OPTIONS_tenants(X)                                                                         \
	X(tenants, memory, SIZE, "0", 0, OPTION_GIB(512),                                          \
	  "memory of all tenants together, beside memory.size, which the tenant default has; "     \
	  "0: there are no others")                                                                \
	X(tenants, create, TENANTS, "", 0, 0,                                                      \
	  "tenants that are there from the start; users.file and an administrator add others")

/* S(section), in the order in which they are printed. */
#define OPTION_SECTIONS(S)                                                                         \
	S(server) S(rdma) S(tls) S(users) S(softnic) S(memory) S(index) S(limits)        \
		S(request) S(tenants) S(log)
/* clang-format on */

#define OPTIONS(X)                                                                                 \
	OPTIONS_server(X) OPTIONS_rdma(X) OPTIONS_tls(X) OPTIONS_users(X) OPTIONS_softnic(X)       \
		OPTIONS_memory(X) OPTIONS_index(X) OPTIONS_limits(X) OPTIONS_request(X)            \
			OPTIONS_tenants(X) OPTIONS_log(X)

/* The field of an option of each kind. */
#define OPTION_FIELD_UINT(name) uint32_t name
#define OPTION_FIELD_COUNT(name) uint64_t name
#define OPTION_FIELD_AUTOUINT(name) uint32_t name
#define OPTION_FIELD_SIZE(name) uint64_t name
#define OPTION_FIELD_AUTOSIZE(name) uint64_t name
#define OPTION_FIELD_TIME(name) uint64_t name
#define OPTION_FIELD_BOOL(name) bool name
#define OPTION_FIELD_MODE(name) uint32_t name
#define OPTION_FIELD_POLL(name) uint32_t name
#define OPTION_FIELD_WINDOWS(name) uint32_t name
#define OPTION_FIELD_HUGEPAGES(name) uint32_t name
#define OPTION_FIELD_EVICTION(name) uint32_t name
#define OPTION_FIELD_LEVEL(name) uint32_t name
#define OPTION_FIELD_LISTEN(name) char name[OPTION_LIST_MAX]
#define OPTION_FIELD_NETWORKS(name) char name[OPTION_LIST_MAX]
#define OPTION_FIELD_NUMA(name) char name[OPTION_NUMA_MAX]
#define OPTION_FIELD_FILE(name) char name[OPTION_FILE_MAX]
#define OPTION_FIELD_TENANTS(name) char name[OPTION_LIST_MAX]

/* config.server.workers, config.memory.size, ...: named by section and key. */
struct config {
#define X(section, key, kind, text, min, max, help) OPTION_FIELD_##kind(key);
#define S(section)                                                                                 \
	struct {                                                                                   \
		OPTIONS_##section(X)                                                               \
	} section;
	OPTION_SECTIONS(S)
#undef S
#undef X
};

#endif /* KVD_SERVER_CONFIG_OPTION_TABLE_H */
