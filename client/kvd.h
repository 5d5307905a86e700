/* SPDX-License-Identifier: MIT */
/*
 * libkvd: the client of kvd, a key-value store for RDMA networks.
 *
 * A GET reads the server's memory with one-sided RDMA READs and costs the server no CPU; a PUT or
 * DELETE is one message to a worker thread of the server and one message back.
 *
 *	struct kvd *db;
 *	struct kvd_item item;
 *	char value[100];
 *
 *	if (kvd_open(&db, "softnic:///run/kvd/kvd.sock", NULL))
 *		errx(1, "%s", kvd_error(NULL));
 *	if (kvd_put(db, "name", 4, "Ada", 3, NULL, NULL) ||
 *	    kvd_get(db, "name", 4, value, sizeof(value), &item))
 *		errx(1, "%s", kvd_error(db));
 *	printf("%.*s\n", (int)item.value_len, value);
 *	kvd_close(db);
 *
 * Threads. A handle is one connection and belongs to one thread at a time: calls on the same handle
 * must not overlap. Different handles are independent; open one per thread, since a queue pair that
 * threads share is many times slower than one each. The only functions that may be called on any
 * thread at any time are kvd_status_text() and kvd_version().
 *
 * Consistency. Operations are linearizable per key across all clients: once a PUT or DELETE has
 * returned KVD_OK, no GET that starts later, on any handle, returns an older value. A GET returns
 * bytes that one PUT of that key wrote, whole, or no bytes at all. KVD_NOT_FOUND is a fact.
 *
 * Blocking. Every call blocks until it is done or its timeout is over (kvd_options.timeout_ms).
 * After KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE or KVD_ERR_PROTOCOL the connection is
 * closed: the handle answers KVD_ERR_DISCONNECTED from then on and is good for kvd_close(),
 * kvd_error() and the statistics only. A PUT or DELETE that ended this way may or may not have
 * taken effect. Every other status leaves the handle as good as before.
 *
 * Signals and fork. libkvd installs no signal handlers and starts no threads. A handle must not be
 * used in a child process after fork(2).
 */
#ifndef KVD_H
#define KVD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVD_VERSION_MAJOR 0
#define KVD_VERSION_MINOR 1
#define KVD_VERSION_PATCH 0

/* Longest key in bytes. The shortest is 1. Keys are bytes, zeros included. */
#define KVD_KEY_MAX 1024
/* No server can be configured for values longer than this, in bytes. */
#define KVD_VALUE_MAX (1u << 30)

/*
 * What a call can answer: X(name, number, text). The numbers are stable; new ones are only added.
 */
#define KVD_STATUS_MAP(X)                                                                          \
	/* Done. */                                                                                \
	X(OK, 0, "ok")                                                                             \
	/* The key is not in the store: a verified fact, not a guess. */                           \
	X(NOT_FOUND, 1, "not found")                                                               \
	/* An argument is out of its documented range; nothing was done. */                        \
	X(ERR_INVALID, 2, "invalid argument")                                                      \
	/* The value is longer than the server's max_value; nothing was done. */                   \
	X(ERR_TOO_LARGE, 3, "value too large for this server")                                     \
	/* The caller's buffer is too small; the length needed was returned. */                    \
	X(ERR_BUFFER, 4, "buffer too small for the value")                                         \
	/* The server's item memory is used up; the old value, if any, still stands. */            \
	X(ERR_NO_SPACE, 5, "the server's memory is full")                                          \
	/* The client could not allocate or register memory. */                                    \
	X(ERR_NO_MEMORY, 6, "out of memory in the client")                                         \
	/* The call took longer than timeout_ms. */                                                \
	X(ERR_TIMEOUT, 7, "timed out")                                                             \
	/* The connection is lost: the server stopped, crashed or closed it. */                    \
	X(ERR_DISCONNECTED, 8, "connection lost")                                                  \
	/* Nobody listens at the address, or the network does not lead there. */                   \
	X(ERR_UNREACHABLE, 9, "server unreachable")                                                \
	/* The server answered and refused the connection; kvd_error() has its reason. */          \
	X(ERR_REFUSED, 10, "connection refused by the server")                                     \
	/* The RDMA device failed, or none that fits the address exists. */                        \
	X(ERR_DEVICE, 11, "RDMA device error")                                                     \
	/* The server speaks another version, or sent what the protocol does not allow. */         \
	X(ERR_PROTOCOL, 12, "protocol error")                                                      \
	/* The server can't do this now (a bounded resource is in use); try again later. */        \
	X(ERR_BUSY, 13, "server busy")

enum kvd_status {
#define X(name, number, text) KVD_##name = (number),
	KVD_STATUS_MAP(X)
#undef X
};

/*
 * Returns a short English text for @status, or "unknown status". The string is static. Any thread.
 */
const char *kvd_status_text(enum kvd_status status);

/*
 * Returns the version of the library that is linked, "MAJOR.MINOR.PATCH". Static. Any thread.
 */
const char *kvd_version(void);

/*
 * How a handle behaves. Fill it with kvd_options_init(), then change what you need.
 */
struct kvd_options {
	/* Longest time one call may take, in milliseconds; 1 to 3,600,000. Default 2,000. */
	uint32_t timeout_ms;
	/* Longest time kvd_open() may take, in milliseconds; 1 to 3,600,000. Default 5,000. */
	uint32_t connect_timeout_ms;
	/*
	 * Size of the bucket cache in bytes; 0 turns it off, and then every GET takes two READs. A
	 * cache of 15 bytes per key in the store remembers where every key is. Rounded down to a
	 * power of two and never larger than the server's index. Its pages are taken when first
	 * used. Default 32 MiB.
	 */
	size_t cache_bytes;
	/*
	 * How long a call polls for its completion before it sleeps in the kernel, in microseconds;
	 * 0 sleeps at once, at most 1,000,000. Default 200.
	 */
	uint32_t spin_us;
	/*
	 * How often a GET reads an item that is being changed under its hands before it asks the
	 * server; 1 to 1,000. Default 16.
	 */
	uint32_t get_tries;
};

/* Fills @options with the defaults. */
void kvd_options_init(struct kvd_options *options);

/* A connection to one server. */
struct kvd;

/*
 * Connects to the server at @url:
 *
 *	rdma://HOST:PORT	through the RDMA device that leads to HOST (InfiniBand, RoCE, iWARP,
 *				Soft-RoCE); HOST is a name, an IPv4 address or an [IPv6] address
 *	softnic:///PATH		through the software device of a server on this host, by the Unix
 *				socket at /PATH; the file's permissions say who may
 *
 * Blocks for at most connect_timeout_ms (host name resolution not counted). @options may be NULL
 * for the defaults and is not kept. On KVD_OK *@handle is the caller's, to be given to kvd_close();
 * else it is NULL and kvd_error(NULL) tells more.
 *
 * KVD_ERR_INVALID: @url can't be parsed, or an option is out of its range.
 * KVD_ERR_UNREACHABLE: no such host, no route by RDMA, or nobody listens there.
 * KVD_ERR_REFUSED: the server is full or stopping, or its socket's permissions forbid it.
 * KVD_ERR_PROTOCOL: what listens there is not kvd, or a kvd of another protocol version.
 * KVD_ERR_DEVICE: there is no RDMA device here, or it failed.
 * KVD_ERR_NO_MEMORY: memory could not be allocated or registered (see RLIMIT_MEMLOCK).
 * KVD_ERR_TIMEOUT: it took longer than connect_timeout_ms.
 * KVD_ERR_DISCONNECTED: the server closed the connection while it was being set up.
 */
enum kvd_status kvd_open(struct kvd **handle, const char *url, const struct kvd_options *options);

/*
 * Disconnects and frees @handle with all that belongs to it. NULL is allowed. Does not wait for the
 * server.
 */
void kvd_close(struct kvd *handle);

/*
 * Returns one line that says what the last failed call on @handle met, with the cause and, where
 * there is one, the remedy; "" if none failed. With NULL: what the last kvd_open() of the calling
 * thread met. The string belongs to the library and stands until the next call on the handle.
 */
const char *kvd_error(const struct kvd *handle);

/* What is known of a value beside its bytes. */
struct kvd_item {
	size_t value_len; /* bytes */
	uint64_t version; /* unique in the store, increasing for a key while it lives */
	uint32_t flags;	  /* the client's own, as the PUT gave them */
};

/*
 * Reads the value of @key (@key_len bytes) into @value (@value_size bytes; may be NULL if that is
 * 0). @item may be NULL.
 *
 * KVD_OK: @value holds item->value_len bytes; what lies behind them in @value is unchanged.
 * KVD_NOT_FOUND: the key is not in the store.
 * KVD_ERR_BUFFER: the value is longer than @value_size; *@item is filled, @value is unchanged.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX.
 * KVD_ERR_NO_MEMORY: memory for a large value could not be allocated or registered.
 * KVD_ERR_BUSY: the value kept changing for get_tries reads, it is too large for a message, and the
 * server has no memory to set a copy of it aside.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_get(struct kvd *handle, const void *key, size_t key_len, void *value,
			size_t value_size, struct kvd_item *item);

/* One GET of many. The caller fills the first part; kvd_get_many() fills the second. */
struct kvd_get_request {
	const void *key;
	size_t key_len;
	void *value;
	size_t value_size;

	enum kvd_status status; /* as kvd_get() would have returned it */
	struct kvd_item item;
};

/*
 * Does @count GETs as kvd_get() would, in any order, with their READs posted together: the time of
 * many GETs is little more than that of one. Any @count; it works on 32 at a time. timeout_ms holds
 * for each 32. Each GET is linearizable on its own; together they are not a snapshot.
 *
 * Returns KVD_OK if every request was answered (look at each status), or the status that closed the
 * connection, which is then also the status of each request that was not answered.
 */
enum kvd_status kvd_get_many(struct kvd *handle, struct kvd_get_request *requests, size_t count);

/* What a PUT may carry beside key and value. Zero it, then set what you need. */
struct kvd_put_args {
	uint32_t flags; /* stored with the value and returned by GET; no meaning to kvd */
};

/*
 * Stores @value (@value_len bytes, may be 0) under @key (@key_len bytes), replacing what was there.
 * @args may be NULL (flags 0). @version, unless NULL, gets the new version. The buffers are the
 * caller's again when the call returns.
 *
 * KVD_OK: stored; every GET that starts from now on, anywhere, sees it or a later one.
 * KVD_ERR_TOO_LARGE: @value_len is larger than the server's max_value (kvd_info.value_max).
 * KVD_ERR_NO_SPACE: the server's item memory is full; the old value still stands.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX.
 * KVD_ERR_NO_MEMORY: memory for a large value could not be allocated or registered.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_put(struct kvd *handle, const void *key, size_t key_len, const void *value,
			size_t value_len, const struct kvd_put_args *args, uint64_t *version);

/*
 * Removes @key (@key_len bytes).
 *
 * KVD_OK: it was there and is gone; no GET that starts from now on, anywhere, sees it.
 * KVD_NOT_FOUND: it was not there.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_delete(struct kvd *handle, const void *key, size_t key_len);

/*
 * Sends an empty request to the server's worker and waits for its answer. Errors as for
 * kvd_delete().
 */
enum kvd_status kvd_ping(struct kvd *handle);

/*
 * Gets the server's statistics: lines of "name value\n", the names as in the manual of the server
 * (`kvd --help` lists them). Writes at most @size bytes into @text, a terminating zero included, and
 * the length without it to *@len (may be NULL).
 *
 * KVD_ERR_BUFFER: @size is too small (64 KiB always suffices). Else as for kvd_ping().
 */
enum kvd_status kvd_server_stats(struct kvd *handle, char *text, size_t size, size_t *len);

/* What a handle is connected to. Strings belong to the handle. */
struct kvd_info {
	const char *device_kind; /* "verbs" or "softnic" */
	const char *device_name; /* e.g. "mlx5_0", "rxe1", "softnic0" */
	const char *device_why;	 /* one line: why this device */
	uint64_t incarnation;	 /* random number of this start of the server */
	uint64_t region_bytes;	 /* size of the server's memory region */
	uint64_t value_max;	 /* longest value the server takes, in bytes */
	uint32_t window;	 /* requests that may be outstanding on this connection */
	uint32_t request_bytes;	 /* longest message the server takes; longer values it pulls */
	size_t cache_bytes;	 /* size of the bucket cache in use */
};

/* Fills @info. Works on a lost connection too. */
void kvd_info(const struct kvd *handle, struct kvd_info *info);

/*
 * What a handle has done: X(name, help). All count from kvd_open() and never go down.
 */
#define KVD_STATS_MAP(X)                                                                           \
	X(gets, "GETs answered, with any status")                                                  \
	X(hits, "GETs that found their key")                                                       \
	X(misses, "GETs that did not")                                                             \
	X(puts, "PUTs answered, with any status")                                                  \
	X(deletes, "DELETEs answered, with any status")                                            \
	X(reads, "RDMA READs posted")                                                              \
	X(read_bytes, "bytes asked for by RDMA READs")                                             \
	X(bucket_reads, "RDMA READs of index buckets, of those in reads")                          \
	X(round_trips, "times the client waited for the network: chains of READs and requests")    \
	X(cache_hits, "GETs whose key the bucket cache led to")                                    \
	X(cache_stale, "cached slots that no longer led to their key and were dropped")            \
	X(retries, "times a GET read again because what it read was being changed")                \
	X(fallbacks, "GETs that asked the server after get_tries reads or a colliding tag")        \
	X(requests, "messages sent to the server")                                                 \
	X(sent_bytes, "bytes in them, pulled values not included")                                 \
	X(pulled_bytes, "bytes of values that the server fetched with RDMA READs")                 \
	X(sleeps, "times a call slept in the kernel for its completion")

struct kvd_stats {
#define X(name, help) uint64_t name;
	KVD_STATS_MAP(X)
#undef X
};

/* Copies the counters of @handle to @stats. */
void kvd_stats(const struct kvd *handle, struct kvd_stats *stats);

/* The operations whose latency a handle keeps. */
enum kvd_op { KVD_OP_GET, KVD_OP_PUT, KVD_OP_DELETE };

/*
 * Returns the latency of @op below which the share @quantile (0 to 1) of the calls on @handle
 * stayed, in nanoseconds, within 1.6 %; 0 if there were none. Every call is timed but for GETs, of
 * which one in 16 is.
 */
uint64_t kvd_latency_ns(const struct kvd *handle, enum kvd_op op, double quantile);

#ifdef __cplusplus
}
#endif

#endif /* KVD_H */
