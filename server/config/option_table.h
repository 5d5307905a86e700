/* SPDX-License-Identifier: MIT */
/*
 * The table of the server's options, each of which is declared here and nowhere else. struct config
 * (below), the array option_table[] that the parser, --help and --print-config use
 * (server/config/option_kinds.h), and the test of conf/kvd.ini are made from it.
 *
 *	X(section, key, kind, change, default, min, max, help)
 *
 * Its `change` is one of these:
 *
 *	LIVE	  SIGHUP and CONFIG set change it while the server runs (server/option_change.h). The
 *		  control thread alone reads it in struct config; other threads have a copy, or read
 *		  it there by stat_read(), for which it has 64 bits
 *	RESTART	  it is read at the start alone
 *
 * The kinds, and the field of struct config for each:
 *
 *	UINT	  uint32_t, min to max
 *	AUTOUINT  uint32_t, min to max, or OPTION_UINT_AUTO, "auto"
 *	COUNT	  uint64_t, min to max
 *	SIZE	  uint64_t bytes, min to max
 *	AUTOSIZE  uint64_t bytes, min to max, or OPTION_SIZE_AUTO, "auto"
 *	TIME	  uint64_t nanoseconds, min to max
 *	BOOL	  bool
 *	MODE	  uint32_t, file permissions
 *	POLL	  uint32_t, enum poll_mode
 *	WINDOWS	  uint32_t, enum windows_mode
 *	HUGEPAGES uint32_t, enum hugepages_mode
 *	EVICTION  uint32_t, enum eviction_policy
 *	RECOVER	  uint32_t, enum recover_mode
 *	LEVEL	  uint32_t, enum log_level
 *	STYLE	  uint32_t, enum log_style
 *	LISTEN	  char[OPTION_LIST_MAX], URLs or "auto": server/config/listen_list.h
 *	NETWORKS  char[OPTION_LIST_MAX], networks with commas between them, or ""
 *	ETCD	  char[OPTION_LIST_MAX], URLs of etcd with commas between them, or ""
 *	URLS	  char[FLEET_URLS_MAX + 1], URLs of a server with commas between them, or ""
 *	NUMA	  char[OPTION_NUMA_MAX], default, local, interleave, or nodes
 *	FILE	  char[OPTION_FILE_MAX], a path or ""
 *	HTTP	  char[HTTP_URL_MAX], a URL of server/config/http_url.h, or ""
 *	NAME	  char[WIRE_TENANT_MAX + 1], a name with zeros after it, or ""
 */
#ifndef KVD_SERVER_CONFIG_OPTION_TABLE_H
#define KVD_SERVER_CONFIG_OPTION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/fleet/map.h"
#include "common/rdma/device.h"
#include "common/wire.h"
#include "server/config/http_url.h"
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

/* URLs of etcd. */
#define OPTION_ETCD_MAX 16

/* Bytes of a list of NUMA nodes, its zero included. */
#define OPTION_NUMA_MAX 64

/* A tenant has this many bytes at least, as memory.size does. */
#define OPTION_TENANT_MIN OPTION_MIB(16)

enum option_change { OPTION_LIVE, OPTION_RESTART };

#define OPTION_SIZE_AUTO UINT64_MAX
#define OPTION_UINT_AUTO UINT32_MAX

#define OPTION_KIB(n) ((uint64_t)(n) << 10)
#define OPTION_MIB(n) ((uint64_t)(n) << 20)
#define OPTION_GIB(n) ((uint64_t)(n) << 30)
#define OPTION_MS(n) ((n)*UINT64_C(1000000))
#define OPTION_S(n) ((n)*UINT64_C(1000000000))

/* clang-format off */
#define OPTIONS_server(X)                                                                          \
	X(server, listen, LISTEN, RESTART, "auto", 0, 0,                                           \
	  "URLs to serve at; no host: every address, of rdma:// the first RDMA device; no "        \
	  "port: 7471, +tcp 7472, +tls 7473, memcached 11211, +tls 11212; auto: rdma:// if "       \
	  "there is a device, else softnic://")                                                    \
	X(server, http, HTTP, RESTART, "", 0, 0,                                                   \
	  "address and port where kvd answers HTTP: / for people, /metrics for Prometheus, "       \
	  "/healthz, /readyz and /config; https:// before it: with the certificate of [tls]; "     \
	  "empty: nowhere")                                                                        \
	X(server, workers, UINT, LIVE, "0", 0, WORKERS_MAX,                                        \
	  "worker threads; 0: one for each CPU that the process may run on")                       \
	X(server, pin, BOOL, RESTART, "yes", 0, 0,                                                 \
	  "pin each worker thread to one CPU")                                                     \
	X(server, poll, POLL, RESTART, "adaptive", 0, 0,                                           \
	  "what an idle worker does; adaptive: it polls for server.spin_time, then sleeps; "       \
	  "busy: it never sleeps")                                                                 \
	X(server, spin_time, TIME, LIVE, "50us", 0, OPTION_S(1),                                   \
	  "time for which an idle worker polls before it sleeps")                                  \
	X(server, max_connections, UINT, RESTART, "1024", 1, 65536,                                \
	  "connections at a time; kvd refuses further ones")                                       \
	X(server, drain_timeout, TIME, LIVE, "5s", 0, OPTION_S(600),                               \
	  "time that a stopping server gives large values to arrive from their clients")           \
	X(server, handshake_timeout, TIME, RESTART, "5s", OPTION_MS(10), OPTION_S(600),            \
	  "kvd closes a connection that sends no HELLO within this time, or, by memcached+tls, "   \
	  "does not finish its handshake")                                                         \
	X(server, pull_stall, TIME, LIVE, "5s", OPTION_MS(10), OPTION_S(600),                      \
	  "kvd closes a connection if no part of its large value arrives for this time")           \
	X(server, pull_timeout, TIME, LIVE, "30s", OPTION_MS(10), OPTION_S(600),                   \
	  "kvd closes a connection whose large value does not arrive within this time")            \
	X(server, identity_time, TIME, LIVE, "60s", 0, OPTION_S(3600),                             \
	  "time for which kvd remembers a client that is away: it executes a change of that "      \
	  "client once, even if it is sent again")                                                 \
	X(server, keepalive_interval, TIME, LIVE, "15s", 0, OPTION_S(3600),                        \
	  "kvd probes a client on an RDMA device that sends nothing for this time, and closes "    \
	  "its connection if the device does not answer for two more; 0: never")

#define OPTIONS_rdma(X)                                                                            \
	X(rdma, networks, NETWORKS, LIVE, "", 0, 0,                                                \
	  "networks of the clients that may connect by rdma:// and rdma+tcp://, which do not "     \
	  "authenticate; empty: all")                                                              \
	X(rdma, gid_index, AUTOUINT, RESTART, "auto", 0, 255,                                      \
	  "GID of connections by rdma+tcp:// and rdma+tls://; auto: of RoCE v2, and of the "       \
	  "address that the client connects to")                                                   \
	X(rdma, pkey_index, AUTOUINT, RESTART, "auto", 0, 255,                                     \
	  "partition key of connections by rdma+tcp:// and rdma+tls://; auto: 0, the default "     \
	  "partition")                                                                             \
	X(rdma, traffic_class, AUTOUINT, RESTART, "auto", 0, 255,                                  \
	  "DSCP and ECN bits of packets that kvd sends; auto: rdma_cm's choice, or 0 for "         \
	  "rdma+tcp and rdma+tls")                                                                 \
	X(rdma, service_level, AUTOUINT, RESTART, "auto", 0, 15,                                   \
	  "service level, on Ethernet the priority, of packets that kvd sends; auto: "             \
	  "rdma_cm's choice, or 0 for rdma+tcp and rdma+tls")                                      \
	X(rdma, ack_timeout, AUTOUINT, RESTART, "auto", 1, 31,                                     \
	  "local ACK timeout, 4.096 us x 2^n, after which a packet is sent again; auto: "          \
	  "rdma_cm's choice, or 18 (1 s) for rdma+tcp and rdma+tls")                               \
	X(rdma, retry_count, AUTOUINT, RESTART, "auto", 0, 7,                                      \
	  "times that a packet without an ACK is sent again before the connection is lost; "       \
	  "auto: 6")                                                                               \
	X(rdma, max_rd_atomic, AUTOUINT, RESTART, "auto", 1, 254,                                  \
	  "READs that a connection may have outstanding in each direction; auto: as many as "      \
	  "the device can")                                                                        \
	X(rdma, windows, WINDOWS, RESTART, "auto", 0, 0,                                           \
	  "give each connection, on softnic too, its own key for READs, by a memory window of "    \
	  "type 2B; auto: where the device has them; no: one key for all")

#define OPTIONS_tls(X)                                                                             \
	X(tls, certificate, FILE, LIVE, "", 0, 0,                                                  \
	  "PEM file of the server's certificate for rdma+tls://, memcached+tls:// and https://, "  \
	  "followed by the intermediate certificates")                                             \
	X(tls, key, FILE, LIVE, "", 0, 0,                                                          \
	  "PEM file of the private key of tls.certificate; no other user may have access to it")   \
	X(tls, ca, FILE, LIVE, "", 0, 0,                                                           \
	  "PEM file of the CA certificates that sign the clients' certificates")                   \
	X(tls, psk, FILE, LIVE, "", 0, 0,                                                          \
	  "file of the keys that clients share with the server, lines identity:key; no other "     \
	  "user may have access to it")                                                            \
	X(tls, require_identity, BOOL, LIVE, "yes", 0, 0,                                          \
	  "admit by rdma+tls:// and memcached+tls:// only clients with a certificate that "        \
	  "tls.ca signed or a key of tls.psk, and by https:// with such a certificate; no: any "   \
	  "client")

#define OPTIONS_users(X)                                                                           \
	X(users, file, FILE, LIVE, "", 0, 0,                                                       \
	  "file of the users that may connect and of their rights; no other user may write to "    \
	  "it; empty: every client may do everything")                                             \
	X(users, require_identity, BOOL, LIVE, "no", 0, 0,                                         \
	  "refuse a configuration that lets clients in without an identity: serve by "             \
	  "softnic://, memcached:///PATH, or rdma+tls:// or memcached+tls:// with "                \
	  "tls.require_identity")

#define OPTIONS_softnic(X)                                                                         \
	X(softnic, socket_mode, MODE, RESTART, "0660", 0, 0777,                                    \
	  "permissions of the Unix sockets of softnic:// and memcached:///; clients need write "   \
	  "permission to connect")

#define OPTIONS_memory(X)                                                                          \
	X(memory, size, SIZE, LIVE, "1g", OPTION_MIB(16), OPTION_GIB(512),                         \
	  "size of the region, which holds the index and all items; it changes at run time only "  \
	  "if memory.max is set")                                                                  \
	X(memory, max, SIZE, RESTART, "0", 0, OPTION_GIB(512),                                     \
	  "the most that memory.size can be made at run time; memory.size is then a multiple of "  \
	  "a sixteenth of it, and this one of 32m; 0: memory.size can't change")                   \
	X(memory, file, FILE, RESTART, "", 0, 0,                                                   \
	  "file of the region, as /dev/shm/kvd, with which the next kvd serves what this one "     \
	  "has stored; a second one, FILE.state, is beside it; empty: kvd starts empty")           \
	X(memory, recover, RECOVER, RESTART, "verify", 0, 0,                                       \
	  "what kvd does with memory.file after it was killed; verify: it keeps the items that "   \
	  "verify; cold: it starts empty")                                                         \
	X(memory, hugepages, HUGEPAGES, RESTART, "auto", 0, 0,                                     \
	  "page size of the regions; auto: the largest there is; require: only pages that the "    \
	  "host has put aside, of 2 MiB or 1 GiB; pages of 1 GiB are for regions of whole GiB")    \
	X(memory, prefault, BOOL, RESTART, "yes", 0, 0,                                            \
	  "allocate all memory at start-up; no: as items fill it; memory that an RDMA device "     \
	  "uses is always allocated at start-up")                                                  \
	X(memory, dump, BOOL, RESTART, "no", 0, 0,                                                 \
	  "include the region and requests, which have what clients store, in core dumps")         \
	X(memory, numa, NUMA, RESTART, "default", 0, 0,                                            \
	  "NUMA nodes of the region; default: the kernel's choice; local: the RDMA device's "      \
	  "node; interleave: all nodes in turn")                                                   \
	X(memory, eviction, EVICTION, RESTART, "object-hits", 0, 0,                                \
	  "what kvd does when memory is full; none: PUTs fail; object-hits: it evicts items "      \
	  "so that most GETs hit; byte-hits: so that most bytes of GETs hit")                      \
	X(memory, pull_share, UINT, RESTART, "12", 1, 50,                                          \
	  "percentage of the item memory for large values that kvd is reading from one "           \
	  "client; for all clients it is twice that, and as much again for appends; "              \
	  "limits.max_value has to fit it")                                                        \
	X(memory, pin_share, UINT, RESTART, "25", 0, 75,                                           \
	  "percentage of the item memory that clients may pin, where items are evicted; 0: no "    \
	  "pins")                                                                                  \
	X(memory, pin_time_max, TIME, RESTART, "1h", OPTION_S(1), OPTION_S(PIN_TIME_MAX),          \
	  "longest time for which a client may pin an item")                                       \
	X(memory, access_rate, UINT, RESTART, "4", 1, WIRE_ACCESS_RATE_MAX,                        \
	  "where items are evicted, a client reports at most one hit in this many; 1 gives "       \
	  "the most hits where items are used a few times")                                        \
	X(memory, curve, BOOL, RESTART, "no", 0, 0,                                                \
	  "where items are evicted, estimate by a sample of keys how many GETs would hit with "    \
	  "less and with more memory, for kvctl curve; clients report all GETs of these keys")

#define OPTIONS_index(X)                                                                           \
	X(index, keys, COUNT, RESTART, "0", 0, UINT64_C(1) << 36,                                  \
	  "keys that the index has room for at start-up; it grows by itself")

#define OPTIONS_limits(X)                                                                          \
	X(limits, max_value, AUTOSIZE, RESTART, "auto", 0, OPTION_GIB(1),                          \
	  "size of the largest value that clients may store; auto: the least of 64m, a "           \
	  "sixteenth of memory.size, and what fits memory.pull_share; with memory.max as if "      \
	  "memory.size were a quarter of that")                                                    \
	X(limits, identities, UINT, RESTART, "2048", 0, 131072,                                    \
	  "clients, connected or away for up to server.identity_time, whose changes are "          \
	  "executed once even if they are sent again")

#define OPTIONS_request(X)                                                                         \
	X(request, window, UINT, RESTART, "8", 1, 31,                                              \
	  "requests that an active connection may have outstanding; an idle one may have 1")       \
	X(request, buffer, SIZE, RESTART, "2k", WIRE_REQUEST_MIN, WIRE_RESPONSE_MAX,               \
	  "size of a message buffer; kvd reads a value that does not fit in it from the "          \
	  "client's memory")                                                                       \
	X(request, srq_depth, UINT, RESTART, "4096", 64, 32768,                                    \
	  "receives of each worker on each device; bounds the sum of the windows, and so the "     \
	  "number of connections")

#define OPTIONS_memcached(X)                                                                       \
	X(memcached, key_max, UINT, LIVE, "250", 1, KEY_MAX,                                       \
	  "size of the longest key of a client of memcached's protocol")                           \
	X(memcached, output, SIZE, RESTART, "64m", OPTION_MIB(1), OPTION_GIB(64),                  \
	  "memory for values of more than 64 KiB on their way to clients of memcached's "          \
	  "protocol; more of them wait")                                                           \
	X(memcached, forward_timeout, TIME, LIVE, "2s", OPTION_MS(10), OPTION_S(600),              \
	  "how long another member of the fleet is waited for that has the key of a client of "    \
	  "memcached's protocol; for long values longer")                                          \
	X(memcached, idle_timeout, TIME, LIVE, "0", 0, OPTION_S(86400),                            \
	  "kvd closes a connection of memcached's protocol that sends nothing for this time; "     \
	  "0: never")

#define OPTIONS_log(X)                                                                             \
	X(log, level, LEVEL, LIVE, "notice", 0, 0,                                                 \
	  "least important level that is logged")                                                  \
	X(log, format, STYLE, LIVE, "text", 0, 0,                                                  \
	  "text, or json: each line is an object with ts, level, thread and msg")                  \
	X(log, slow, TIME, LIVE, "0", 0, OPTION_S(600),                                            \
	  "kvd logs requests that take longer in the server, such as 10ms, and keeps the last of " \
	  "them for kvctl slowlog; 0: none")                                                       \
	X(log, file, FILE, RESTART, "", 0, 0,                                                      \
	  "file to log to, opened again on SIGHUP; empty: stderr")                                 \
	X(log, audit, FILE, RESTART, "", 0, 0,                                                     \
	  "file for an audit log in JSON, opened again on SIGHUP; empty: there is none")

#define OPTIONS_tenants(X)                                                                         \
	X(tenants, memory, SIZE, RESTART, "0", 0, OPTION_GIB(512),                                 \
	  "memory of the tenants that users.file and administrators make; default has "            \
	  "memory.size; 0: there is no other tenant")

#define OPTIONS_fleet(X)                                                                           \
	X(fleet, file, FILE, RESTART, "", 0, 0,                                                    \
	  "file of the fleet's members, the same for all of them; no other user may write to "     \
	  "it; empty: fleet.etcd, or the server is in no fleet")                                   \
	X(fleet, member, NAME, RESTART, "", 0, 0,                                                  \
	  "name that this server has in the fleet; empty, with fleet.etcd: the host's name")       \
	X(fleet, etcd, ETCD, RESTART, "", 0, 0,                                                    \
	  "URLs of the etcd that has the fleet's map, of one or several of its members; instead "  \
	  "of fleet.file; no port: 2379")                                                          \
	X(fleet, name, NAME, RESTART, "", 0, 0, "name of the fleet in fleet.etcd")                 \
	X(fleet, lease, TIME, RESTART, "2s", OPTION_S(1), OPTION_S(60),                            \
	  "of a new fleet (kvd --fleet-init): time without an answer of fleet.etcd after which a " \
	  "member answers no request; soon after that, other members get its shards")              \
	X(fleet, url, URLS, RESTART, "", 0, 0,                                                     \
	  "URLs at which clients reach this member, as in fleet.file; empty: server.listen")       \
	X(fleet, etcd_user, FILE, RESTART, "", 0, 0,                                               \
	  "file with NAME:PASSWORD of etcd's user in its first line; no other user may have "      \
	  "access to it; empty: etcd asks for none")                                               \
	X(fleet, etcd_ca, FILE, RESTART, "", 0, 0,                                                 \
	  "PEM file of the CA certificates that sign the certificates of an etcd at https://")     \
	X(fleet, etcd_certificate, FILE, RESTART, "", 0, 0,                                        \
	  "PEM file of the certificate that kvd shows to etcd; empty: none")                       \
	X(fleet, etcd_key, FILE, RESTART, "", 0, 0,                                                \
	  "PEM file of the private key of fleet.etcd_certificate; no other user may have access "  \
	  "to it")

/* S(section), in the order in which they are printed. */
#define OPTION_SECTIONS(S)                                                                         \
	S(server) S(rdma) S(tls) S(users) S(softnic) S(memory) S(index) S(limits)        \
		S(request) S(memcached) S(tenants) S(fleet) S(log)
/* clang-format on */

#define OPTIONS(X)                                                                                 \
	OPTIONS_server(X) OPTIONS_rdma(X) OPTIONS_tls(X) OPTIONS_users(X) OPTIONS_softnic(X)       \
		OPTIONS_memory(X) OPTIONS_index(X) OPTIONS_limits(X) OPTIONS_request(X)            \
			OPTIONS_memcached(X) OPTIONS_tenants(X) OPTIONS_fleet(X) OPTIONS_log(X)

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
#define OPTION_FIELD_RECOVER(name) uint32_t name
#define OPTION_FIELD_LEVEL(name) uint32_t name
#define OPTION_FIELD_STYLE(name) uint32_t name
#define OPTION_FIELD_LISTEN(name) char name[OPTION_LIST_MAX]
#define OPTION_FIELD_NETWORKS(name) char name[OPTION_LIST_MAX]
#define OPTION_FIELD_ETCD(name) char name[OPTION_LIST_MAX]
#define OPTION_FIELD_URLS(name) char name[FLEET_URLS_MAX + 1]
#define OPTION_FIELD_NUMA(name) char name[OPTION_NUMA_MAX]
#define OPTION_FIELD_FILE(name) char name[OPTION_FILE_MAX]
#define OPTION_FIELD_HTTP(name) char name[HTTP_URL_MAX]
#define OPTION_FIELD_NAME(name) char name[WIRE_TENANT_MAX + 1]

/* config.server.workers, config.memory.size, ...: named by section and key. */
struct config {
#define X(section, key, kind, change, text, min, max, help) OPTION_FIELD_##kind(key);
#define S(section)                                                                                 \
	struct {                                                                                   \
		OPTIONS_##section(X)                                                               \
	} section;
	OPTION_SECTIONS(S)
#undef S
#undef X
};

/* The number of an option is its place in the table, that of a section its place in the list. */
#define X(section, key, kind, change, text, min, max, help) +1
#define S(section) +1
enum { OPTION_COUNT = 0 OPTIONS(X), OPTION_SECTION_COUNT = 0 OPTION_SECTIONS(S) };
#undef S
#undef X

#endif /* KVD_SERVER_CONFIG_OPTION_TABLE_H */
