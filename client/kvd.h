/* SPDX-License-Identifier: MIT */
/*
 * libkvd: the client of kvd, a key-value store for RDMA networks.
 *
 * A GET reads the server's memory with one-sided RDMA READs and costs the server no CPU; a PUT,
 * DELETE or other change is one message to a worker thread of the server and one message back.
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
 * Consistency. Operations are linearizable per key across all clients: once a PUT, DELETE or other
 * change has returned KVD_OK, no GET that starts later, on any handle, returns an older value. A GET
 * returns bytes that one change of that key wrote, whole, or no bytes at all. KVD_NOT_FOUND is a fact.
 *
 * Expiry. A key may be given a time to live, in seconds. It is gone for everybody from the instant at
 * which the server's clock reaches the second kvd_item.expires_s, never earlier than the time to live
 * after the change and less than a second later (and the time the change took). The server's clock
 * starts with its real time and never goes back. A handle knows it to within an error bound
 * (kvd_info.clock_error_ns): a network round trip, and 0.2 % of the time since the last answer, at
 * most 10 ms or that round trip; a GET that finds a key about to expire within that error asks the
 * server. So expiry is linearizable as well, as long as the monotonic clocks of the two hosts differ
 * in rate by no more than 0.1 % (NTP's own limit): a virtual machine whose clock stands still while it
 * is stopped, but for less than its connections live, may see a key expire early or late by that time.
 *
 * Blocking. Every call blocks until it is done or its timeout is over (kvd_options.timeout_ms).
 * After KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE or KVD_ERR_PROTOCOL the connection is
 * closed: the handle answers KVD_ERR_DISCONNECTED from then on and is good for kvd_close(),
 * kvd_error() and the statistics only. A change that ended this way may or may not have taken effect.
 * (One exception: kvd_flush_all(), whose KVD_ERR_TIMEOUT may leave the handle in order.) Every other
 * status leaves the handle as good as before.
 *
 * Access records. A server that evicts has to know which keys are in use, and does not see GETs. Where
 * it asks for that, a handle tells it of one hit in kvd_info.access_rate, chosen at random: with the
 * next request, or in a message of its own, some dozens at a time, for whose answer no call waits (but
 * for that to the message before). What an idle handle has to tell waits for its next call or for
 * kvd_close().
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
#define KVD_VERSION_MINOR 2
#define KVD_VERSION_PATCH 0

/* Longest key in bytes. The shortest is 1. Keys are bytes, zeros included. */
#define KVD_KEY_MAX 1024
/* No server can be configured for values longer than this, in bytes. */
#define KVD_VALUE_MAX (1u << 30)
/* Longest time to live, and delay of a flush, in seconds: 34 years. */
#define KVD_TTL_MAX (1u << 30)

/*
 * What a call can answer: X(name, number, text). The numbers are stable; new ones are only added.
 */
#define KVD_STATUS_MAP(X)                                                                             \
	/* Done. */                                                                                   \
	X(OK, 0, "ok")                                                                                \
	/* The key is not in the store: a verified fact, not a guess. */                              \
	X(NOT_FOUND, 1, "not found")                                                                  \
	/* An argument is out of its documented range; nothing was done. */                           \
	X(ERR_INVALID, 2, "invalid argument")                                                         \
	/* The value is longer than the server's max_value; nothing was done. */                      \
	X(ERR_TOO_LARGE, 3, "value too large for this server")                                        \
	/* The caller's buffer is too small; the length needed was returned. */                       \
	X(ERR_BUFFER, 4, "buffer too small for the value")                                            \
	/* The server's item memory is used up, or the chain of the key's bucket is full; the old   \
	 * value, if any, still stands. */ \
	X(ERR_NO_SPACE, 5, "the server's memory is full")                                             \
	/* The client could not allocate or register memory. */                                       \
	X(ERR_NO_MEMORY, 6, "out of memory in the client")                                            \
	/* The call took longer than timeout_ms. */                                                   \
	X(ERR_TIMEOUT, 7, "timed out")                                                                \
	/* The connection is lost: the server stopped, crashed or closed it. */                       \
	X(ERR_DISCONNECTED, 8, "connection lost")                                                     \
	/* Nobody listens at the address, or the network does not lead there. */                      \
	X(ERR_UNREACHABLE, 9, "server unreachable")                                                   \
	/* The server answered and refused the connection; kvd_error() has its reason. */             \
	X(ERR_REFUSED, 10, "connection refused by the server")                                        \
	/* The RDMA device failed, or none that fits the address exists. */                           \
	X(ERR_DEVICE, 11, "RDMA device error")                                                        \
	/* The server speaks another version, or sent what the protocol does not allow. */            \
	X(ERR_PROTOCOL, 12, "protocol error")                                                         \
	/* The server can't do this now (a bounded resource is in use); try again later. */           \
	X(ERR_BUSY, 13, "server busy")                                                                \
	/* A condition on the key does not hold: nothing was changed. */                              \
	X(ERR_EXISTS, 14, "the key exists or has another version")                                    \
	/* The value is no decimal number of 64 bits without a sign: nothing was changed. */          \
	X(ERR_NOT_A_NUMBER, 15, "the value is not a number")

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
	 * power of two and never larger than an eighth of the server's region. Its pages are taken
	 * when first used. Default 32 MiB.
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
 * Disconnects and frees @handle with all that belongs to it. NULL is allowed. Waits for the server
 * only if there are access records to be told (see the top), and then for at most 50 ms.
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
	/* Gone from this second of the server's clock on, since 1970; 0: never. */
	uint32_t expires_s;
};

/*
 * Reads the value of @key (@key_len bytes) into @value (@value_size bytes; may be NULL if that is
 * 0). @item may be NULL.
 *
 * KVD_OK: @value holds item->value_len bytes; what lies behind them in @value is unchanged.
 * KVD_NOT_FOUND: the key is not in the store, or has expired.
 * KVD_ERR_BUFFER: the value is longer than @value_size; *@item is filled, @value is unchanged.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX.
 * KVD_ERR_NO_MEMORY: memory for a large value could not be allocated or registered.
 * KVD_ERR_BUSY: the value kept changing for get_tries reads, it is too large for a message, and the
 * server has no memory to set a copy of it aside.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_get(struct kvd *handle, const void *key, size_t key_len, void *value,
			size_t value_size, struct kvd_item *item);

/*
 * The same, but asks the server at once instead of reading its memory: what kvd_get() does when reading
 * leads nowhere. Costs the server CPU. Errors as for kvd_get(), but that KVD_ERR_BUSY says that the
 * value is too large for a message and the server has no memory to set a copy of it aside, or took
 * that back before it was read.
 */
enum kvd_status kvd_get_by_request(struct kvd *handle, const void *key, size_t key_len, void *value,
				   size_t value_size, struct kvd_item *item);

/*
 * Reads the value and, at the same instant, has it live for @ttl_s seconds from now (0: for ever; at
 * most KVD_TTL_MAX). Asks the server. Errors as for kvd_get_by_request(), and KVD_ERR_INVALID also
 * if @ttl_s is too long. KVD_ERR_BUFFER and KVD_ERR_BUSY: the expiry time was set all the same.
 */
enum kvd_status kvd_get_and_touch(struct kvd *handle, const void *key, size_t key_len,
				  uint32_t ttl_s, void *value, size_t value_size,
				  struct kvd_item *item);

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

/* What a PUT does with what is there. */
enum kvd_put_mode {
	KVD_PUT_SET = 0,	/* stores the value, whatever was there */
	KVD_PUT_IF_ABSENT = 1,	/* only if the key is not there */
	KVD_PUT_IF_PRESENT = 2, /* only if it is */
	KVD_PUT_IF_VERSION = 3, /* only if it is, with the version if_version */
	KVD_PUT_APPEND = 4,	/* adds the value behind the one that is there */
	KVD_PUT_PREPEND = 5,	/* adds it before */
};

/* What a PUT may carry beside key and value. Zero it, then set what you need. */
struct kvd_put_args {
	uint32_t flags; /* stored with the value and returned by GET; no meaning to kvd */
	uint32_t ttl_s; /* seconds to live, at most KVD_TTL_MAX; 0: for ever */
	enum kvd_put_mode mode;
	uint64_t if_version; /* with KVD_PUT_IF_VERSION; else 0 */
};

/*
 * Stores @value (@value_len bytes, may be 0) under @key (@key_len bytes), as @args->mode says. @args
 * may be NULL: KVD_PUT_SET, flags 0, for ever. What is appended or prepended to keeps its flags and
 * expiry time; @args->flags and ttl_s must be 0 then. @version, unless NULL, gets the new version.
 * The buffers are the caller's again when the call returns.
 *
 * KVD_OK: stored; every GET that starts from now on, anywhere, sees it or a later one.
 * KVD_NOT_FOUND: the key is not there, and the mode is IF_PRESENT, IF_VERSION, APPEND or PREPEND.
 * KVD_ERR_EXISTS: the key is there (IF_ABSENT), or has another version (IF_VERSION).
 * KVD_ERR_TOO_LARGE: @value_len, or the length of all that would be stored, is larger than the
 * server's max_value (kvd_info.value_max).
 * KVD_ERR_NO_SPACE: the server's item memory is full; the old value still stands.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX, or @args is not as said above.
 * KVD_ERR_NO_MEMORY: memory for a large value could not be allocated or registered.
 * KVD_ERR_BUSY: the server has no means left to take a large value now; nothing was changed.
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
 * Removes @key only if its version is @if_version. As kvd_delete(), and
 *
 * KVD_ERR_EXISTS: it is there with another version, and stays.
 */
enum kvd_status kvd_delete_if(struct kvd *handle, const void *key, size_t key_len,
			      uint64_t if_version);

/* What arithmetic does if the key is not there. Zero it, then set what you need. */
struct kvd_arith_args {
	uint32_t create;  /* not 0: stores `initial`, to which nothing is added; 0: not found */
	uint32_t flags;	  /* of what is created; else 0 */
	uint32_t ttl_s;	  /* the same */
	uint64_t initial; /* the same */
};

/*
 * Adds @delta to, or subtracts it from, the number under @key: a value of 1 to 20 decimal digits that
 * is less than 2^64. Adding wraps at 2^64; subtracting stops at 0. Flags and expiry time of what is
 * there stay. @args may be NULL: a key that is not there is not created. @number and @version, unless
 * NULL, get the new value and version.
 *
 * KVD_OK: done; every GET that starts from now on, anywhere, sees it or a later change.
 * KVD_NOT_FOUND: the key is not there, and was not to be created.
 * KVD_ERR_NOT_A_NUMBER: the value is no such number, and stays.
 * KVD_ERR_TOO_LARGE: the number has more digits than the server's max_value.
 * KVD_ERR_NO_SPACE: the server's item memory is full; the old value, if any, still stands.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX; or @args->ttl_s is too long, or
 * something is set there although create is not.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_incr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version);
enum kvd_status kvd_decr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version);

/*
 * Has @key live for @ttl_s seconds from now (0: for ever; at most KVD_TTL_MAX). Its value and flags
 * stay. @version, unless NULL, gets its version.
 *
 * KVD_OK, KVD_NOT_FOUND: it was there, or not.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX, or @ttl_s is too long.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_touch(struct kvd *handle, const void *key, size_t key_len, uint32_t ttl_s,
			  uint64_t *version);

/*
 * Begins to remove every item that is stored when @delay_s seconds (at most KVD_TTL_MAX) from now are
 * over. Does not wait for it. @ticket, unless NULL, gets a number by which kvd_flush_done() tells of
 * it, on any handle to this server until it stops.
 *
 * KVD_ERR_INVALID: @delay_s is too long. KVD_ERR_BUSY: the server can't take one more flush now.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_flush_start(struct kvd *handle, uint32_t delay_s, uint64_t *ticket);

/*
 * Asks whether the flush of @ticket is done.
 *
 * KVD_OK: no reader anywhere can see an item that was stored before the flush's time.
 * KVD_ERR_BUSY: not yet; readers may still see some of them.
 * KVD_ERR_INVALID: @ticket is 0. Else as kvd_flush_start(); of a number that is no ticket, any answer.
 */
enum kvd_status kvd_flush_done(struct kvd *handle, uint64_t ticket);

/*
 * Begins a flush without delay and asks until it is done, every 1 to 20 ms, sleeping in between.
 *
 * KVD_OK: no reader anywhere can see an item that was stored before this call.
 * KVD_ERR_TIMEOUT: it was not done within timeout_ms, and goes on. The connection is *not* closed, if
 * the server answers: kvd_ping() tells. (Each question has timeout_ms of its own; if there is no
 * answer within that, this status is as elsewhere.)
 * Else as kvd_flush_start().
 */
enum kvd_status kvd_flush_all(struct kvd *handle);

/* What a scan is to deliver. Zero it, then set what you need. */
struct kvd_scan_args {
	const void *prefix; /* only keys that begin with this; NULL if prefix_len is 0 */
	size_t prefix_len;  /* 0 to KVD_KEY_MAX */
	uint32_t count;	    /* most keys per call; 0: as many as fit a message */
	uint32_t values;    /* not 0: values, too */
};

/* A key that a scan delivers. The pointers lead into a message and are good during the callback. */
struct kvd_entry {
	const void *key;
	size_t key_len;
	/* item.value_len bytes. NULL: not asked for, or too long for a message: use kvd_get(). */
	const void *value;
	struct kvd_item item;
};

/* Is given @arg and an entry; returns 0 to go on. Must not use the handle of the scan. */
typedef int (*kvd_entry_fn)(void *arg, const struct kvd_entry *entry);

/*
 * Asks the server for some of its keys and gives them to @each, in no order: one request. *@cursor is 0
 * to begin a scan; it then says where to go on, and is 0 again when the scan is complete. A call may
 * deliver nothing and yet not be the last. @args may be NULL: all keys, without values; it should be
 * the same in all calls of a scan.
 *
 * A key that is in the store from the first call to the last is delivered at least once, also while
 * the server's index grows. One that comes or goes meanwhile may be delivered or not, and any may be
 * delivered more than once. Values and versions are those of the time of the call that brought them.
 *
 * KVD_OK: if @each returned not 0, the rest of what this call brought was not delivered, and *@cursor
 * is as it was: the next call delivers all of it again, as it is then.
 * KVD_ERR_BUSY: what is there kept changing for a second; *@cursor is as it was, nothing was delivered.
 * KVD_ERR_INVALID: the prefix is too long, or a pointer is missing.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_scan(struct kvd *handle, uint64_t *cursor, const struct kvd_scan_args *args,
			 kvd_entry_fn each, void *arg);

/*
 * Sends an empty request to the server's worker and waits for its answer.
 *
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_ping(struct kvd *handle);

/*
 * Gets the server's statistics: lines of "name value\n", the names as in the manual of the server
 * (`kvd --help` lists them). Writes at most @size bytes into @text, a terminating zero included, and
 * the length without it to *@len (may be NULL).
 *
 * KVD_ERR_BUFFER: @size is too small (64 KiB always suffices). KVD_ERR_INVALID: @text is NULL or
 * @size is 0. Else as for kvd_ping().
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
	uint64_t buckets;	 /* of the server's index, as far as this handle knows */
	uint64_t clock_error_ns; /* how well this handle knows the server's clock, now */
	uint32_t access_rate;	 /* one GET in so many is told to the server; 0: none is */
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
	X(puts, "PUTs and other changes but DELETEs answered, with any status")                    \
	X(deletes, "DELETEs answered, with any status")                                            \
	X(reads, "RDMA READs posted")                                                              \
	X(read_bytes, "bytes asked for by RDMA READs")                                             \
	X(bucket_reads, "RDMA READs of index buckets, of those in reads")                          \
	X(round_trips, "times the client waited for the network: chains of READs and requests")    \
	X(cache_hits, "GETs whose key the bucket cache led to")                                    \
	X(cache_stale, "cached slots that no longer led to their key and were dropped")            \
	X(retries, "times a GET read again because what it read was being changed")                \
	X(fallbacks, "GETs that asked the server: get_tries, a colliding tag, or expiring now")    \
	X(geometry_reads, "RDMA READs of where the index is, since it grew")                       \
	X(expired, "items that a GET found, but expired")                                          \
	X(clock_asks, "requests for the server's clock, before an expiry time was judged")         \
	X(access_records, "GETs that the server was told of")                                      \
	X(access_messages, "messages that told of nothing else, of those in requests")             \
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

/* The operations whose latency a handle keeps. Every change but DELETE is a PUT. */
enum kvd_op { KVD_OP_GET = 0, KVD_OP_PUT = 1, KVD_OP_DELETE = 2, KVD_OP_SCAN = 3 };

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
