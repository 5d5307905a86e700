/* SPDX-License-Identifier: MIT */
/*
 * libkvd, the client library of kvd: reads and changes the keys of a kvd server over RDMA. This
 * header has the contract of each function. The manual is client/README.md, installed as libkvd(3);
 * "libkvd(3), Expiry" is its section of that name.
 *
 * Threads. Calls on one handle must not overlap; different handles are independent. "Any thread"
 * means any thread at any time. A call made during another call on the handle, by another thread or
 * by a callback, does nothing: it returns KVD_ERR_INVALID (kvd_poll() and kvd_wait() 0), and
 * kvd_error(NULL) says so. kvd_info() and the functions that read statistics do not check that.
 *
 * Arguments. A pointer may be NULL only where its function says so. With another NULL, or an
 * argument out of its range, a function that returns a status does nothing and returns
 * KVD_ERR_INVALID; kvd_options_init(), kvd_info() and kvd_stats() do nothing; kvd_latency_ns()
 * returns 0. kvd_error() has the text: of the handle, or of NULL if the handle was NULL. A time to
 * live is in seconds, at most KVD_TTL_MAX; 0: the key never expires.
 *
 * Blocking. The functions from kvd_get() to kvd_tenant_drop() use the network and block for at most
 * kvd_options.timeout_ms. The others do not block, unless their comments say so.
 *
 * Statuses. Functions that use the network, and submitted operations, may end with KVD_ERR_INVALID,
 * TIMEOUT, DISCONNECTED, AWAY, DEVICE, PROTOCOL, AUTH, BUSY, LIMIT and NOT_ALLOWED; changes also
 * with UNKNOWN, and calls with a large value with NO_MEMORY. enum kvd_status has the causes; the
 * comment of a function adds its own. The handle stays usable; but with kvd_options.reconnect 0,
 * after a loss, every call returns KVD_ERR_DISCONNECTED: kvd_submit(), kvd_arm() and kvd_register()
 * do, too. While the server is away (libkvd(3), Away) a call blocks for 20 ms at most. "Admin"
 * marks calls that need the right admin, which every client has on a server without users.
 */
#ifndef KVD_H
#define KVD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVD_VERSION_MAJOR 0
#define KVD_VERSION_MINOR 4
#define KVD_VERSION_PATCH 0

/* Longest key, in bytes. The shortest is 1. It may have any bytes, zeros included. */
#define KVD_KEY_MAX 1024
/* Longest value that any server can be configured for, in bytes. */
#define KVD_VALUE_MAX (1u << 30)
/* Longest time to live, and longest delay of a flush, in seconds: 34 years. */
#define KVD_TTL_MAX (1u << 30)

/* The statuses that calls return: X(name, number, text). Numbers are stable; new ones are added. */
#define KVD_STATUS_MAP(X)                                                                          \
	/* Done. */                                                                                \
	X(OK, 0, "ok")                                                                             \
	/* The key is not in the store, or has expired: a verified fact, not a guess. */           \
	X(NOT_FOUND, 1, "not found")                                                               \
	/* An argument is out of its documented range; nothing was done. */                        \
	X(ERR_INVALID, 2, "invalid argument")                                                      \
	/* Longer than the server's max_value, or than this host's device registers at once. */    \
	X(ERR_TOO_LARGE, 3, "value too large")                                                     \
	/* The caller's buffer is too small; the length needed was returned. */                    \
	X(ERR_BUFFER, 4, "buffer too small for the value")                                         \
	/* No room in the server's memory or in the key's bucket; the old value is unchanged. */   \
	X(ERR_NO_SPACE, 5, "the server's memory is full")                                          \
	/* The client could not allocate or register memory, as for a large value. */              \
	X(ERR_NO_MEMORY, 6, "out of memory in the client")                                         \
	/* timeout_ms passed. A change may have taken effect, or may do so later. */               \
	X(ERR_TIMEOUT, 7, "timed out")                                                             \
	/* No connection until the deadline; nothing was done. Next: KVD_ERR_AWAY. */              \
	X(ERR_DISCONNECTED, 8, "connection lost")                                                  \
	/* No server listens at the address, or no route leads there. */                           \
	X(ERR_UNREACHABLE, 9, "server unreachable")                                                \
	/* The server, or its socket's permissions, refused the client: see kvd_error(). */        \
	X(ERR_REFUSED, 10, "connection refused by the server")                                     \
	/* The RDMA device failed, so the connection is lost; or none fits the address. */         \
	X(ERR_DEVICE, 11, "RDMA device error")                                                     \
	/* The server has another version, or broke the protocol: the connection is lost. */       \
	X(ERR_PROTOCOL, 12, "protocol error")                                                      \
	/* A bounded resource of the server is used up: try again later. */                        \
	X(ERR_BUSY, 13, "server busy")                                                             \
	/* A condition on the key does not hold: nothing was changed. */                           \
	X(ERR_EXISTS, 14, "the key exists or has another version")                                 \
	/* The value is not an unsigned decimal number of 64 bits: nothing was changed. */         \
	X(ERR_NOT_A_NUMBER, 15, "the value is not a number")                                       \
	/* kvd_cancel() ended the operation. */                                                    \
	X(ERR_CANCELED, 16, "canceled")                                                            \
	/* A change was sent and not answered: see libkvd(3), Exactly once. */                     \
	X(ERR_UNKNOWN, 17, "it is unknown whether the change took effect")                         \
	/* One end does not accept the other, or the client has no user; nothing was done. */      \
	X(ERR_AUTH, 18, "authentication failed")                                                   \
	/* The client's user lacks the right, or may not use the key; nothing was done. */         \
	X(ERR_NOT_ALLOWED, 19, "not allowed")                                                      \
	/* Beyond a limit of the client's user; nothing was done: try again later. */              \
	X(ERR_LIMIT, 20, "over the user's limit")                                                  \
	/* Nothing was done, at once, until the server is back: see libkvd(3), Away. */            \
	X(ERR_AWAY, 21, "the server is away")                                                      \
	/* No member of the fleet that this handle knows has the key now; nothing was done. */     \
	X(ERR_MOVED, 22, "another member has the key")

enum kvd_status {
#define X(name, number, text) KVD_##name = (number),
	KVD_STATUS_MAP(X)
#undef X
};

/* Returns a static English text for @status, or "unknown status". Any thread. */
const char *kvd_status_text(enum kvd_status status);

/* Returns the version of the linked library, "MAJOR.MINOR.PATCH", static. Any thread. */
const char *kvd_version(void);

/* How a handle behaves: libkvd(3), Options. kvd_options_init() sets the defaults. */
struct kvd_options {
	uint32_t timeout_ms;	     /* longest time of a call: 1 to 3,600,000; default 2,000 */
	uint32_t connect_timeout_ms; /* of kvd_open(): 1 to 3,600,000; default 5,000 */
	size_t cache_bytes;	     /* size of the bucket cache; 0: none; default 32 MiB */
	uint32_t spin_us;	     /* polling before a call sleeps: 0 to 1,000,000; default 200 */
	uint32_t get_tries;	     /* READs of a changing item: 1 to 1,000; default 16 */
	uint32_t depth;		     /* submitted operations in flight: 1 to 1,024; default 64 */
	uint32_t reconnect;	     /* 1: connects again after a loss; 0: does not; default 1 */
	/* Files of credentials. NULL: the environment variable in parentheses has the name. */
	const char *tls_ca;	     /* authorities that sign the server's (KVD_TLS_CA) */
	const char *tls_certificate; /* the client's, with its chain (KVD_TLS_CERTIFICATE) */
	const char *tls_key;	     /* private key of tls_certificate (KVD_TLS_KEY) */
	const char *tls_psk;	     /* pre-shared key, which the server has, too (KVD_TLS_PSK) */
	const char *tenant;	     /* store to use; NULL: KVD_TENANT, else the server's choice */
};

/* Fills @options with the defaults. */
void kvd_options_init(struct kvd_options *options);

/* Bytes that kvd_default_url() writes at most. */
#define KVD_URL_MAX 128

/*
 * Returns the URL for a program whose user names none: the environment variable KVD_URL, else the
 * URL of this host's kvd (libkvd(3), URLs), written to @buffer of KVD_URL_MAX bytes (NULL: that of
 * the system's kvd). Any thread, while none changes the environment.
 */
const char *kvd_default_url(char buffer[KVD_URL_MAX]);

/* A handle: a connection to one server, or to each member of a fleet (libkvd(3), Fleets). */
struct kvd;

/*
 * Connects to the server at @url (libkvd(3), URLs). Blocks for at most connect_timeout_ms, plus the
 * time to resolve HOST. @options may be NULL for the defaults; the library copies them with their
 * strings. On KVD_OK *@handle belongs to the caller, which ends it with kvd_close(). Otherwise
 * *@handle is NULL and kvd_error(NULL) has the cause.
 * KVD_ERR_INVALID: @url can't be parsed, an option is out of range, or a credential file is
 * unusable.
 * KVD_ERR_UNREACHABLE: no such host, no route by RDMA, no socket, or no server listens there.
 * KVD_ERR_REFUSED: the server is full or stopping, the permissions of its socket forbid it, it has
 * no such tenant, or the client's user belongs to another one.
 * KVD_ERR_LIMIT: the client's user has reached its limit of connections.
 * KVD_ERR_AUTH: the server has no user for this client, or does not serve its address; one end does
 * not accept the other's certificate or key; or the server does not speak TLS.
 * KVD_ERR_PROTOCOL: a program that is not kvd listens there, or a kvd of another protocol version,
 * or one that describes its memory differently to another handle of this process.
 * KVD_ERR_DEVICE: this host has no RDMA device, or it failed.
 * KVD_ERR_NO_MEMORY: memory could not be allocated or registered (RLIMIT_MEMLOCK), or no descriptor
 * is left (RLIMIT_NOFILE).
 * KVD_ERR_TIMEOUT: it took longer than connect_timeout_ms.
 * KVD_ERR_DISCONNECTED: the server closed the connection while it was being set up.
 * KVD_ERR_AWAY: the fleet has no member yet.
 */
enum kvd_status kvd_open(struct kvd **handle, const char *url, const struct kvd_options *options);

/*
 * Disconnects @handle, which may be NULL, and frees it with all that belongs to it. Blocks for at
 * most 50 ms, and only to report GETs or access records. During another call on @handle it does
 * nothing, and kvd_error(NULL) and a log line (warn) say so: call it again after that call.
 */
void kvd_close(struct kvd *handle);

/*
 * Returns one line about the last call that failed on @handle: what happened, the cause, and the
 * remedy if there is one; "" if none failed. With NULL it is about the last kvd_open() of this
 * thread, or its last call with a NULL handle, whichever was later. The library owns the string; it
 * is valid until the next call on the handle, or the next such call of the thread.
 */
const char *kvd_error(const struct kvd *handle);

/* What is stored with a value. */
struct kvd_item {
	size_t value_len;   /* bytes */
	uint64_t version;   /* never 0; unique and increasing: see libkvd(3), Consistency */
	uint32_t flags;	    /* as the PUT gave them; no meaning to kvd */
	uint32_t expires_s; /* second of the server's clock, since 1970; 0: never expires */
};

/*
 * Reads the value of @key into @value, a buffer of @value_size bytes; it may be NULL if @value_size
 * is 0. @item may be NULL. If the value is longer than 64 KiB, or @value is in registered memory,
 * the content of the buffer is undefined without KVD_OK, and bytes after the value may be
 * overwritten.
 * KVD_OK: @value holds item->value_len bytes; the rest is unchanged, except as above.
 * KVD_NOT_FOUND: the key does not exist, or has expired.
 * KVD_ERR_BUFFER: the value is longer than @value_size; *@item is filled.
 * KVD_ERR_BUSY: also if the value kept changing, for get_tries READs and then, if too large for a
 * message, while it was sent in parts; or if it does not verify, since memory is damaged.
 */
enum kvd_status kvd_get(struct kvd *handle, const void *key, size_t key_len, void *value,
			size_t value_size, struct kvd_item *item);

/* Pieces of a value, at most. */
#define KVD_IOV_MAX 64

/*
 * As kvd_get(), but fills the @iov_count pieces of @iov one after another; what the value does not
 * reach is unchanged. @iov_count is at most KVD_IOV_MAX; a piece may be empty; @iov may be NULL if
 * @iov_count is 0. libkvd(3), Registered memory, says when nothing is copied.
 * KVD_ERR_BUFFER: the value is longer than all pieces.
 * KVD_ERR_INVALID: also if a piece is NULL and not empty, or longer than KVD_VALUE_MAX.
 */
enum kvd_status kvd_getv(struct kvd *handle, const void *key, size_t key_len,
			 const struct iovec *iov, uint32_t iov_count, struct kvd_item *item);

/*
 * As kvd_get(), but asks the server at once; kvd_get() does so when its READs have no result.
 * KVD_ERR_BUSY: also if a value too large for a response kept changing while it was sent in parts;
 * or if a value of more than 128 bytes does not verify, since memory is damaged.
 */
enum kvd_status kvd_get_by_request(struct kvd *handle, const void *key, size_t key_len, void *value,
				   size_t value_size, struct kvd_item *item);

/*
 * As kvd_get_by_request(), and sets the time to live to @ttl_s from now, at the same instant: a
 * change. If the value is too large for a response, later changes of the key on this handle wait
 * until all of it has arrived; if another client replaces the value meanwhile, the new one is
 * touched and read instead.
 * KVD_ERR_BUFFER: the time to live was set nevertheless.
 * KVD_ERR_BUSY, KVD_ERR_LIMIT: it may have been set, if the value is too large for a response.
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
 * Does @count GETs, any number, as kvd_get() would, in any order, 32 at a time; timeout_ms applies
 * to each 32. Each is linearizable on its own; together they are not a snapshot. @requests may be
 * NULL if @count is 0.
 * KVD_OK: every request was done; look at the status of each. Another status: the requests that
 * were not done have it too.
 */
enum kvd_status kvd_get_many(struct kvd *handle, struct kvd_get_request *requests, size_t count);

/*
 * As kvd_get(), but reads a range of the value: @value gets its bytes from @offset on, @value_size
 * at most. Only the pieces of 64 KiB that the range touches are read and verified, and 8 bytes for
 * each piece of the value. Without KVD_OK the content of the buffer is undefined.
 * KVD_OK: item->value_len is the length of the whole value. The range has @value_size bytes, or
 * fewer if the value ends before; none if it ends at @offset or before. The rest of the buffer may
 * be overwritten, by what a longer value had there; bytes beside the buffer are not.
 * KVD_ERR_BUSY: as kvd_get() has it. If the memory of one piece is damaged, ranges of others can
 * still be read.
 */
enum kvd_status kvd_get_range(struct kvd *handle, const void *key, size_t key_len, size_t offset,
			      void *value, size_t value_size, struct kvd_item *item);

/* One range of many. The caller fills the first part; kvd_get_ranges() fills the second. */
struct kvd_range {
	const void *key;
	size_t key_len;
	size_t offset;
	void *value;
	size_t value_size;

	enum kvd_status status; /* as kvd_get_range() would have returned it */
	struct kvd_item item;
};

/*
 * Reads @count ranges, any number, of any keys, as kvd_get_range() would, in any order, 32 at a
 * time; timeout_ms applies to each 32. Each range is of one version of its value; ranges of one key
 * may be of different ones, which item.version shows. @ranges may be NULL if @count is 0.
 * KVD_OK: every range was read; look at the status of each. Another status: the ranges that were
 * not read have it too.
 */
enum kvd_status kvd_get_ranges(struct kvd *handle, struct kvd_range *ranges, size_t count);

/* A key, as an argument. */
struct kvd_key {
	const void *key;
	size_t key_len; /* bytes, 1 to 1,024 */
};

/* What is known of a key. */
struct kvd_exists {
	enum kvd_status status; /* KVD_OK: it exists; KVD_NOT_FOUND; or why it is not known */
	struct kvd_item item;	/* with KVD_OK: value length, version, flags, expiry time */
};

/*
 * Checks whether each of the @count keys exists, without reading values, 32 at a time; timeout_ms
 * applies to each 32. Writes to results[i] what is known of keys[i], unless @results is NULL, and
 * to *@present, unless it is NULL, how many exist. @keys may be NULL if @count is 0. Each answer is
 * as certain as that of kvd_get(), and true at some instant of the call; together they are not a
 * snapshot. For eviction, the call does not count as a use of the keys.
 * KVD_OK: every key was looked up; a key of a bad length has the status KVD_ERR_INVALID. Another
 * status: the keys that were not looked up have it too. Without @results, it may also be that of
 * one key, of which it is not known whether it exists.
 */
enum kvd_status kvd_exists_many(struct kvd *handle, const struct kvd_key *keys, size_t count,
				struct kvd_exists *results, size_t *present);

/*
 * As kvd_exists_many(), but writes to *@leading, unless it is NULL, how many of the keys exist
 * before the first that does not: for keys of which each is useful only if all before it exist.
 * Looks ahead by at most 32 keys, and by at most four more than it has found so far.
 * KVD_OK: keys[*leading] does not exist, or all exist. Another status: that is not known.
 */
enum kvd_status kvd_exists_leading(struct kvd *handle, const struct kvd_key *keys, size_t count,
				   size_t *leading);

/* What a PUT does, depending on whether the key exists. */
enum kvd_put_mode {
	KVD_PUT_SET = 0,	/* stores the value in any case */
	KVD_PUT_IF_ABSENT = 1,	/* stores it only if the key does not exist */
	KVD_PUT_IF_PRESENT = 2, /* stores it only if the key exists */
	KVD_PUT_IF_VERSION = 3, /* stores it only if the key exists with the version if_version */
	KVD_PUT_APPEND = 4,	/* adds the value after the existing one */
	KVD_PUT_PREPEND = 5,	/* adds the value before the existing one */
};

/* What a full server evicts first. */
enum kvd_priority {
	KVD_PRIORITY_NORMAL = 0, /* what was unused for longest, or used least often */
	KVD_PRIORITY_LOW = 1,	 /* before all normal ones: what was stored first */
};

/* What a PUT may have in addition to key and value. Zero it, then set what you need. */
struct kvd_put_args {
	uint32_t flags; /* stored with the value and returned by GET; no meaning to kvd */
	uint32_t ttl_s; /* time to live in seconds, at most KVD_TTL_MAX; 0: it never expires */
	enum kvd_put_mode mode;
	uint64_t if_version; /* with KVD_PUT_IF_VERSION; else 0 */
	uint32_t pin_s;	     /* seconds for which the item is pinned; 0: it is not */
	enum kvd_priority priority;
};

/*
 * Stores @value (@value_len bytes, may be 0) under @key, as @args->mode says. @args may be NULL:
 * KVD_PUT_SET, flags 0, never expires. APPEND and PREPEND keep flags and expiry time of the
 * existing value; with them @args->flags, ttl_s and priority must be 0. pin_s is for SET, IF_ABSENT
 * and IF_PRESENT (libkvd(3), Pins and priorities). @version, unless NULL, gets the new version. The
 * library does not use the caller's buffers after the call.
 * KVD_NOT_FOUND: the key does not exist (IF_PRESENT, IF_VERSION, APPEND, PREPEND).
 * KVD_ERR_EXISTS: the key exists (IF_ABSENT), or has another version (IF_VERSION).
 * KVD_ERR_TOO_LARGE: the value to be stored is longer than the server's max_value
 * (kvd_info.value_max); or @value does not fit a message, and this host's device can't register it
 * at once, also if it is in registered memory. kvd_error() says which. Nothing was done.
 * KVD_ERR_NO_SPACE: the server's item memory is full. The old value, if any, is unchanged.
 * KVD_ERR_INVALID: also if @args break these rules, or pin_s is longer than the server allows
 * (memory.pin_time_max, an hour by default).
 * KVD_ERR_BUSY: also if the server can't take a large value now, or as much is pinned as it allows,
 * which a pinned value that gets longer may hit as well. Nothing was changed.
 */
enum kvd_status kvd_put(struct kvd *handle, const void *key, size_t key_len, const void *value,
			size_t value_len, const struct kvd_put_args *args, uint64_t *version);

/*
 * As kvd_put(), of a value in @iov_count pieces, one after another (as for kvd_getv(), but only
 * read). It is copied once, in registered memory too, since the server READs it from one address.
 */
enum kvd_status kvd_putv(struct kvd *handle, const void *key, size_t key_len,
			 const struct iovec *iov, uint32_t iov_count,
			 const struct kvd_put_args *args, uint64_t *version);

/* Removes @key. KVD_NOT_FOUND: the key did not exist. */
enum kvd_status kvd_delete(struct kvd *handle, const void *key, size_t key_len);

/* As kvd_delete(), but only if the version is @if_version. KVD_ERR_EXISTS: it has another one. */
enum kvd_status kvd_delete_if(struct kvd *handle, const void *key, size_t key_len,
			      uint64_t if_version);

/* What kvd_incr() and kvd_decr() do if the key does not exist. Zero it, then set what you need. */
struct kvd_arith_args {
	uint32_t create;  /* not 0: store `initial`, without @delta; 0: KVD_NOT_FOUND */
	uint32_t flags;	  /* flags of the created value; 0 if create is 0 */
	uint32_t ttl_s;	  /* its time to live in seconds (0: never expires); 0 if create is 0 */
	uint64_t initial; /* its number; 0 if create is 0 */
};

/*
 * Adds @delta to, or subtracts it from, the number that is the value of @key: 1 to 20 decimal
 * digits, less than 2^64. kvd_incr() wraps around at 2^64; kvd_decr() stops at 0. Flags and expiry
 * time of an existing value do not change. @args may be NULL: a key that does not exist is not
 * created. @number and @version, unless NULL, get the new number and version.
 * KVD_NOT_FOUND: the key does not exist, and create is 0.
 * KVD_ERR_NOT_A_NUMBER: the value is not such a number. It was not changed.
 * KVD_ERR_NO_SPACE: the server's item memory is full. The old value, if any, is unchanged.
 * KVD_ERR_TOO_LARGE: the result has more digits than the server's max_value allows.
 * KVD_ERR_BUSY: also if the item is pinned, and would need more memory than may be pinned now.
 * KVD_ERR_INVALID: also if another field of @args is set although create is 0.
 */
enum kvd_status kvd_incr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version);
enum kvd_status kvd_decr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version);

/*
 * Sets the time to live of @key to @ttl_s from now. Its value, flags and version do not change.
 * @version, unless NULL, gets the version. KVD_NOT_FOUND: the key does not exist.
 */
enum kvd_status kvd_touch(struct kvd *handle, const void *key, size_t key_len, uint32_t ttl_s,
			  uint64_t *version);

/*
 * Starts a flush: the removal of every item that is in the store @delay_s seconds from now (at most
 * KVD_TTL_MAX). Does not wait for it. @ticket, unless NULL, gets a number for kvd_flush_done(),
 * valid on any handle to this server until the server stops.
 * KVD_ERR_BUSY: also if too many flushes with a delay wait in the server, 8 of this client or 56 in
 * all: kvd_flush_cancel() makes room. The flush was not started.
 */
enum kvd_status kvd_flush_start(struct kvd *handle, uint32_t delay_s, uint64_t *ticket);

/*
 * Asks the server whether the flush of @ticket is done. For a number that is not a ticket, any of
 * these statuses is possible.
 * KVD_OK: no reader sees items any more that were stored before the flush; or it was cancelled.
 * KVD_ERR_BUSY: not yet, as far as this call could find out: readers may still see some.
 * KVD_ERR_INVALID: @ticket is 0.
 */
enum kvd_status kvd_flush_done(struct kvd *handle, uint64_t ticket);

/*
 * Cancels flushes that this client started with a delay and that have not begun: that of @ticket,
 * or all if it is 0. *@cancelled, unless NULL, gets their number, which may be too low if the
 * connection was lost. @any_owner not 0: also other clients' (admin; libkvd(3), Administration).
 * KVD_NOT_FOUND: no such flush waits: it has begun, was cancelled, or is another client's.
 */
enum kvd_status kvd_flush_cancel(struct kvd *handle, uint64_t ticket, int any_owner,
				 uint64_t *cancelled);

/*
 * Starts a flush without delay, and asks the server every 1 to 20 ms whether it is done, for about
 * timeout_ms at most; each request may block for timeout_ms.
 * KVD_OK: no reader sees an item any more that was stored before this call. Of a fleet: all of its
 * members have flushed while none of its shards went to another member; else it flushes again.
 * KVD_ERR_AWAY: also if a member of the fleet can't be reached: others may have flushed.
 * KVD_ERR_TIMEOUT: the flush was not done within timeout_ms, and goes on in the server; or a
 * request had no response within timeout_ms.
 */
enum kvd_status kvd_flush_all(struct kvd *handle);

/* What a scan delivers. Zero it, then set what you need. */
struct kvd_scan_args {
	const void *prefix; /* only keys that begin with this; NULL if prefix_len is 0 */
	size_t prefix_len;  /* bytes; 0 to KVD_KEY_MAX */
	uint32_t count;	    /* keys per call, at most; 0: as many as fit a message */
	uint32_t values;    /* not 0: values, too */
};

/* A key that a scan delivers. The pointers are valid during the callback only. */
struct kvd_entry {
	const void *key;
	size_t key_len;
	/* item.value_len bytes. NULL: not wanted, or too long for a message: use kvd_get(). */
	const void *value;
	struct kvd_item item;
};

/* Gets the scan's @arg and one entry; returns 0 to continue. Must not use the scan's handle. */
typedef int (*kvd_entry_fn)(void *arg, const struct kvd_entry *entry);

/*
 * Asks the server for some of its keys, by one request, and calls @each for each of them, in no
 * order. Set *@cursor to 0 to begin a scan, and repeat the call, with the same @args, until
 * *@cursor is 0 again; a call before that may deliver nothing. @args may be NULL: all keys, without
 * values. Blocks for at most timeout_ms, plus the time in @each. A key that is in the store from
 * the first call to the last is delivered at least once, even while the server's index grows; a key
 * that is added or removed meanwhile may or may not be. Any key may be delivered more than once,
 * each time with its value and version of that moment. A handle of a fleet scans the members whose
 * keys went to others meanwhile again, and remembers up to 8 scans at a time: with the cursor of an
 * earlier one, or of another handle, it scans all members again unless they are in a file.
 * KVD_OK: if @each stopped the call, its remaining keys were not delivered and *@cursor is
 * unchanged: the next call delivers all of them again, as they are then.
 * KVD_ERR_BUSY: also if that part of the index kept changing for one second; nothing was delivered,
 * and *@cursor is unchanged.
 */
enum kvd_status kvd_scan(struct kvd *handle, uint64_t *cursor, const struct kvd_scan_args *args,
			 kvd_entry_fn each, void *arg);

/* How the server notes the use of a key. Later versions may have more. */
enum kvd_use {
	KVD_USE_NORMAL = 1, /* kvd_used.uses and age */
	KVD_USE_LOW = 2,    /* low priority: age alone, since it was stored */
	KVD_USE_PINNED = 3, /* not noted: uses and age are 0 */
};

/* A key that kvd_scan_uses() delivers. The pointers are valid during the callback only. */
struct kvd_used {
	const void *key;
	size_t key_len;
	struct kvd_item item;
	uint32_t use;  /* enum kvd_use */
	uint32_t uses; /* about how often since it was stored: 2^n - 1, at most 32767 */
	uint32_t age;  /* bytes stored since the last use, in percent of item memory */
};

/* As kvd_entry_fn. */
typedef int (*kvd_used_fn)(void *arg, const struct kvd_used *used);

/*
 * As kvd_scan(), but delivers how keys were used, as the server estimates it to choose what it
 * evicts (libkvd(3), Access records). args->values must be 0. For eviction, the call does not count
 * as a use of the keys.
 * KVD_ERR_INVALID: also if the server does not evict (memory.eviction of kvd).
 * KVD_ERR_NOT_ALLOWED: the user lacks the right read, or scan.
 */
enum kvd_status kvd_scan_uses(struct kvd *handle, uint64_t *cursor,
			      const struct kvd_scan_args *args, kvd_used_fn each, void *arg);

/* Sends the server's worker an empty request. KVD_OK: it works, and so does the connection. */
enum kvd_status kvd_ping(struct kvd *handle);

/*
 * Writes the server's statistics to @text: lines of "name value\n", whose names `kvd --help`
 * explains; at most @size bytes with the terminating zero. *@len, unless @len is NULL, gets the
 * length without it. May need several requests, each of which blocks for at most timeout_ms.
 * KVD_ERR_BUFFER: @size is too small (64 KiB is always enough).
 */
enum kvd_status kvd_server_stats(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * As kvd_server_stats(), but writes a line for each of the server's connections, of pairs
 * name=value (libkvd(3), Administration). A connection that stays open is listed once. Admin.
 * KVD_ERR_BUFFER: @size is too small (256 bytes for each connection are enough).
 * KVD_ERR_BUSY: also if the server has no memory for the list now.
 */
enum kvd_status kvd_client_list(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * Closes the connection with this id on the server. Its client connects again, unless its
 * kvd_options.reconnect is 0. Admin.
 * KVD_NOT_FOUND: there is no such connection any more.
 * KVD_ERR_DISCONNECTED: it was the handle's own connection, or that was lost.
 */
enum kvd_status kvd_client_kill(struct kvd *handle, uint64_t id);

/*
 * Closes all connections of a client on the server, except the handle's own: when this returns
 * KVD_OK, none of their queue pairs serves anything any more, one-sided READs included. @who names
 * the client (libkvd(3), Administration). *@closed, unless NULL, gets their number. Admin.
 * KVD_NOT_FOUND: there is no such connection.
 * KVD_ERR_BUSY: not all connections were known to be cut off within timeout_ms; or more than 16
 * identities were revoked within ten seconds. Repeat the call to continue.
 */
enum kvd_status kvd_revoke(struct kvd *handle, const char *who, uint64_t *closed);

/*
 * Stops the server, as SIGTERM does: it executes the requests that have arrived, closes all
 * connections and exits. Returns when the server has begun to stop; later calls on this handle
 * fail. Admin; on a server without users, root and the server's own user on the Unix socket.
 * KVD_ERR_NOT_ALLOWED: this client may not stop the server; nothing was done.
 * KVD_ERR_DISCONNECTED: the connection was lost before the answer came: the server may be stopping.
 */
enum kvd_status kvd_shutdown(struct kvd *handle);

/*
 * Writes who this client is to the server, and what it may do, as one line of pairs name=value:
 *
 *	user		  of users.file; empty if the server has none, and everything is allowed
 *	rights		  read,write,delete,scan,flush,stats,admin: those that it has
 *	tenant		  whose keys it uses
 *	read_prefixes	  how many prefixes limit the keys that it may read; 0: none does
 *	write_prefixes	  how many limit the keys that it may change; both only if one is not 0
 *	addr, uid, identity, id  of this connection, as kvd_client_list() has them
 *
 * @text, of @size bytes, gets a terminating zero, and *@len, unless @len is NULL, the length
 * without it. KVD_ERR_BUFFER: it does not fit.
 */
enum kvd_status kvd_whoami(struct kvd *handle, char *text, size_t size, size_t *len);

/* What kvd_server_report() writes. */
enum kvd_report {
	KVD_REPORT_SLOW = 0,	/* the slow log, the oldest request first */
	KVD_REPORT_RESET = 1,	/* nothing, but empties the slow log */
	KVD_REPORT_LOG = 3,	/* the last 256 lines of the server's log */
	KVD_REPORT_PROCESS = 4, /* the kernel, and the files and sizes that are mapped */
};

/*
 * As kvd_server_stats(), but writes what an administrator looks for. The slow log has a line for
 * each of the last requests that took longer than log.slow of kvd, of pairs name=value (libkvd(3),
 * Administration). 1 MiB is enough for each report. Admin; the log and the process, on a server
 * without users, root and the server's own user on the Unix socket.
 * KVD_ERR_INVALID: also if there is no such report.
 */
enum kvd_status kvd_server_report(struct kvd *handle, enum kvd_report report, char *text,
				  size_t size, size_t *len);

/*
 * Writes some of the operations that the server has executed since the last call, one in @every, in
 * lines like those of the slow log. *@cursor is 0 in the first call, which has no lines, and what
 * the last call has set in each further one. A gap in the lines' numbers, and one between *@cursor
 * and the next line, are operations that were lost, as the server had more than it keeps. The
 * server samples for 5 seconds from a call on; while there are several readers, the smallest @every
 * counts for all of them. Sends one request. Admin.
 * KVD_ERR_BUFFER: @size is too small (64 KiB is always enough); *@cursor stays.
 */
enum kvd_status kvd_sample(struct kvd *handle, uint32_t every, uint64_t *cursor, char *text,
			   size_t size, size_t *len);

/*
 * As kvd_server_stats(), but writes a line "section.key = value" for each of the server's options,
 * as they are now. Admin; on a server without users, root and the server's own user on the Unix
 * socket. KVD_ERR_BUSY: options are being changed; call again.
 */
enum kvd_status kvd_config_get(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * Changes options of the running server, all of them or none: @assignments has "section.key=value",
 * several with '\n' between them, KVD_KEY_MAX bytes at most. Only options that kvd.ini(5) marks
 * "run time" can change. They last until the server ends or reads its file again (SIGHUP), unless
 * kvd_config_rewrite() writes them there. Admin, as kvd_config_get().
 * KVD_ERR_INVALID: nothing was changed: there is no such option, it needs a restart, its value is
 * not allowed or does not fit those of other options, or a file that it names can't be used;
 * kvd_error() says which, why and what to do.
 * KVD_ERR_DISCONNECTED: the connection was lost before the answer came: all may be set.
 */
enum kvd_status kvd_config_set(struct kvd *handle, const char *assignments);

/*
 * Writes what kvd_config_set() has changed into the server's file (kvd -c FILE), which keeps its
 * comments, its order, and what was changed in it meanwhile. @text, of @size bytes, gets a line
 * that says what was written, with a terminating zero, and *@len, unless @len is NULL, the length
 * without it. Blocks for the server's disk. Admin, as kvd_config_get().
 * KVD_ERR_INVALID: the file is as it was: there is none, it has errors, or the server can't write
 * it; kvd_error() says why and what to do.
 * KVD_ERR_BUFFER: the file was written, but the text does not fit (1 KiB is always enough).
 */
enum kvd_status kvd_config_rewrite(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * As kvd_server_stats(), but writes a line for each of the server's tenants. For administrators of
 * tenants (libkvd(3), Tenants). KVD_ERR_INVALID: this client is not one.
 */
enum kvd_status kvd_tenant_list(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * Create a tenant with @bytes of memory; resize one, with its items; drop one with all of its
 * items. For administrators of tenants (libkvd(3), Tenants, which also has the rules for @name).
 * Block until that is done, which takes as long as filling that memory: raise timeout_ms. What was
 * begun is completed, even after a timeout or a loss.
 * KVD_ERR_EXISTS: there is a tenant of that name. KVD_NOT_FOUND: there is none.
 * KVD_ERR_NO_SPACE: too little of the server's tenants.memory is left (kvd_error() has the
 * figures), or of the host's memory; or not all items fit, and nothing may be evicted.
 * KVD_ERR_INVALID: also if the tenant is "default" or your own, users.file decides on it, the size
 * is not allowed, a value is longer than memory.pull_share percent of it, or this client is not an
 * administrator.
 */
enum kvd_status kvd_tenant_create(struct kvd *handle, const char *name, uint64_t bytes);
enum kvd_status kvd_tenant_resize(struct kvd *handle, const char *name, uint64_t bytes);
enum kvd_status kvd_tenant_drop(struct kvd *handle, const char *name);

/*
 * Submitted operations. kvd_submit() starts them; kvd_poll() and kvd_wait() hand them back when
 * they have ended. libkvd(3), Submitted operations, has the rules of order and ownership, and the
 * loops.
 */

/* What an operation does. kvd_latency_ns() knows the first four; a SCAN can't be submitted. */
enum kvd_opcode {
	KVD_OP_GET = 0,
	KVD_OP_PUT = 1,
	KVD_OP_DELETE = 2,
	KVD_OP_SCAN = 3,
	KVD_OP_INCR = 4,
	KVD_OP_DECR = 5,
	KVD_OP_TOUCH = 6,
	KVD_OP_GET_BY_REQUEST = 7,
	KVD_OP_GET_AND_TOUCH = 8,
	KVD_OP_PING = 9,
	KVD_OP_EXISTS = 10,
	KVD_OP_GET_RANGE = 11,
};

/*
 * An operation. Prepare it with one of the kvd_prep functions, or zero it and set what it needs;
 * sizes and offsets are stable. Its arguments and statuses are those of the synchronous call of the
 * same name; kvd_cancel() adds KVD_ERR_CANCELED.
 */
struct kvd_op {
	const void *key;
	size_t key_len;
	void *value;	  /* GETs: where the value goes; PUT: the value, which is only read */
	size_t value_len; /* bytes; GETs: the size of the buffer */

	/* Results, valid once the operation is handed back. */
	enum kvd_status status;
	struct kvd_item
		item;	 /* GETs, EXISTS: all of it; PUT, INCR, DECR, TOUCH: version, expires_s */
	uint64_t number; /* INCR, DECR */

	enum kvd_opcode op;
	uint32_t timeout_ms; /* 0: kvd_options.timeout_ms */
	/* As in struct kvd_put_args and struct kvd_arith_args; 0 where they mean nothing. */
	uint32_t flags;
	uint32_t ttl_s;		/* also TOUCH, GET_AND_TOUCH */
	enum kvd_put_mode mode; /* DELETE: KVD_PUT_IF_VERSION, or 0: any version */
	uint32_t create;
	uint32_t pin_s;
	enum kvd_priority priority;
	uint64_t if_version;
	uint64_t delta;
	uint64_t initial;

	/*
	 * Unless NULL, kvd_poll() and kvd_wait() call it instead of putting the operation into
	 * their array. It may submit the operation again or free it, and may call kvd_submit() and
	 * kvd_cancel() on the handle, but nothing else.
	 */
	void (*done)(struct kvd_op *op, void *user);
	void *user;

	/* A value in pieces, by kvd_prep_getv() and kvd_prep_putv(); 0: it is in one piece. */
	const struct iovec *iov;
	uint32_t iov_count;
	uint32_t reserved_u32;

	size_t offset;	       /* GET_RANGE: the first byte that is wanted */
	uint64_t reserved[11]; /* the library's; zero before the first kvd_submit() */
};

/* Prepare an operation. All of its fields are set; change others, as timeout_ms, afterwards. */
static inline void kvd_prep(struct kvd_op *op, enum kvd_opcode code, const void *key,
			    size_t key_len)
{
	memset(op, 0, sizeof(*op));
	op->op = code;
	op->key = key;
	op->key_len = key_len;
}

static inline void kvd_prep_get(struct kvd_op *op, const void *key, size_t key_len, void *value,
				size_t value_size)
{
	kvd_prep(op, KVD_OP_GET, key, key_len);
	op->value = value;
	op->value_len = value_size;
}

static inline void kvd_prep_getv(struct kvd_op *op, const void *key, size_t key_len,
				 const struct iovec *iov, uint32_t iov_count)
{
	kvd_prep(op, KVD_OP_GET, key, key_len);
	op->iov = iov;
	op->iov_count = iov_count;
}

static inline void kvd_prep_get_range(struct kvd_op *op, const void *key, size_t key_len,
				      size_t offset, void *value, size_t value_size)
{
	kvd_prep(op, KVD_OP_GET_RANGE, key, key_len);
	op->offset = offset;
	op->value = value;
	op->value_len = value_size;
}

/* As kvd_exists_many(), of one key. KVD_OK: it exists; `item` says more. */
static inline void kvd_prep_exists(struct kvd_op *op, const void *key, size_t key_len)
{
	kvd_prep(op, KVD_OP_EXISTS, key, key_len);
}

static inline void kvd_prep_get_by_request(struct kvd_op *op, const void *key, size_t key_len,
					   void *value, size_t value_size)
{
	kvd_prep(op, KVD_OP_GET_BY_REQUEST, key, key_len);
	op->value = value;
	op->value_len = value_size;
}

static inline void kvd_prep_get_and_touch(struct kvd_op *op, const void *key, size_t key_len,
					  uint32_t ttl_s, void *value, size_t value_size)
{
	kvd_prep(op, KVD_OP_GET_AND_TOUCH, key, key_len);
	op->ttl_s = ttl_s;
	op->value = value;
	op->value_len = value_size;
}

/* @args may be NULL, as in kvd_put(). */
static inline void kvd_prep_put(struct kvd_op *op, const void *key, size_t key_len,
				const void *value, size_t value_len,
				const struct kvd_put_args *args)
{
	kvd_prep(op, KVD_OP_PUT, key, key_len);
	op->value = (void *)(uintptr_t)value;
	op->value_len = value_len;
	if (args) {
		op->flags = args->flags;
		op->ttl_s = args->ttl_s;
		op->mode = args->mode;
		op->pin_s = args->pin_s;
		op->priority = args->priority;
		op->if_version = args->if_version;
	}
}

static inline void kvd_prep_putv(struct kvd_op *op, const void *key, size_t key_len,
				 const struct iovec *iov, uint32_t iov_count,
				 const struct kvd_put_args *args)
{
	size_t bytes = 0;
	uint32_t i;

	for (i = 0; i < iov_count; i++)
		bytes += iov[i].iov_len;
	kvd_prep_put(op, key, key_len, NULL, bytes, args);
	op->iov = iov;
	op->iov_count = iov_count;
}

static inline void kvd_prep_delete(struct kvd_op *op, const void *key, size_t key_len)
{
	kvd_prep(op, KVD_OP_DELETE, key, key_len);
}

static inline void kvd_prep_delete_if(struct kvd_op *op, const void *key, size_t key_len,
				      uint64_t if_version)
{
	kvd_prep(op, KVD_OP_DELETE, key, key_len);
	op->mode = KVD_PUT_IF_VERSION;
	op->if_version = if_version;
}

/* INCR or DECR; @args may be NULL, as in kvd_incr(). */
static inline void kvd_prep_arith(struct kvd_op *op, enum kvd_opcode code, const void *key,
				  size_t key_len, uint64_t delta, const struct kvd_arith_args *args)
{
	kvd_prep(op, code, key, key_len);
	op->delta = delta;
	if (args) {
		op->create = args->create;
		op->flags = args->flags;
		op->ttl_s = args->ttl_s;
		op->initial = args->initial;
	}
}

static inline void kvd_prep_incr(struct kvd_op *op, const void *key, size_t key_len, uint64_t delta,
				 const struct kvd_arith_args *args)
{
	kvd_prep_arith(op, KVD_OP_INCR, key, key_len, delta, args);
}

static inline void kvd_prep_decr(struct kvd_op *op, const void *key, size_t key_len, uint64_t delta,
				 const struct kvd_arith_args *args)
{
	kvd_prep_arith(op, KVD_OP_DECR, key, key_len, delta, args);
}

static inline void kvd_prep_touch(struct kvd_op *op, const void *key, size_t key_len,
				  uint32_t ttl_s)
{
	kvd_prep(op, KVD_OP_TOUCH, key, key_len);
	op->ttl_s = ttl_s;
}

static inline void kvd_prep_ping(struct kvd_op *op)
{
	kvd_prep(op, KVD_OP_PING, NULL, 0);
}

/*
 * Submits @count operations, any number, after those submitted earlier: all of them, or none if one
 * can't be submitted; kvd_error() then says why. Until an operation is handed back, with its own
 * status, it and the memory it points to belong to the library, and must not be changed or freed.
 * KVD_ERR_INVALID: an argument of one is out of its range, or one is submitted already.
 * KVD_ERR_TOO_LARGE: a value is longer than the server's max_value. (An operation whose value the
 * device can't register at once is submitted, and ends with this status.)
 * KVD_ERR_NO_MEMORY: no memory for `depth` operations, at the first call.
 */
enum kvd_status kvd_submit(struct kvd *handle, struct kvd_op *const ops[], size_t count);

/*
 * Advances operations and hands back those that have ended: calls done() where there is one, writes
 * up to @max of the others to @done, and returns how many it wrote. @done may be NULL if @max is 0.
 * Blocks only to reopen an RDMA device that died, for at most connect_timeout_ms.
 */
size_t kvd_poll(struct kvd *handle, struct kvd_op **done, size_t max);

/*
 * As kvd_poll(), but waits until @min operations (or all, if fewer are outstanding) have ended,
 * those with done() included, or @timeout_ms have passed (UINT32_MAX: no limit; each operation has
 * its own deadline). Polls for spin_us before it sleeps.
 */
size_t kvd_wait(struct kvd *handle, struct kvd_op **done, size_t max, size_t min,
		uint32_t timeout_ms);

/* Returns the number of operations that are submitted and not handed back. */
size_t kvd_outstanding(const struct kvd *handle);

/*
 * Ends an operation early, which is then handed back like any other.
 * KVD_OK: it ends with KVD_ERR_CANCELED, and had no effect on the server.
 * KVD_ERR_BUSY: it has ended, or is a change (GET_AND_TOUCH included) that was sent to the server:
 * it ends as if it had not been canceled.
 * KVD_ERR_INVALID: it is not submitted to this handle.
 */
enum kvd_status kvd_cancel(struct kvd *handle, struct kvd_op *op);

/*
 * Returns a descriptor for poll(2), epoll(7) or an event loop; -1 on failure, and kvd_error() says
 * why. The first call creates it. The handle owns it, and keeps it when it reconnects; never read
 * from it. After kvd_arm() has returned KVD_OK it becomes readable when kvd_poll() has something to
 * do, deadlines and a lost connection included.
 */
int kvd_fd(struct kvd *handle);

/*
 * Prepares kvd_fd() for a wait. The loop: kvd_poll() until it hands nothing back, kvd_arm(), wait.
 * KVD_OK: the descriptor becomes readable when there is something to do, events since the last
 * kvd_poll() included.
 * KVD_ERR_BUSY: an operation has ended: call kvd_poll() first.
 * KVD_ERR_INVALID: kvd_fd() was not called before.
 */
enum kvd_status kvd_arm(struct kvd *handle);

/*
 * Registered memory: values are read to it, and stored from it, without a copy (libkvd(3),
 * Registered memory). The content of a GET's buffer in it is undefined until KVD_OK: see kvd_get().
 */
struct kvd_mem;

/*
 * Registers @bytes of memory at @addr with the device of @handle, for all handles of the process
 * with the same URL; the registration outlives @handle. The memory must be writable, and stay
 * mapped until kvd_deregister(). Blocks, without the network: 0.1 to 0.4 s per GiB that is pinned.
 * KVD_ERR_INVALID: also if @bytes is 0, or some of the memory is registered already.
 * KVD_ERR_NO_MEMORY: the device can't register it (RLIMIT_MEMLOCK), or the URL has 64 registered
 * memories already.
 * KVD_ERR_DEVICE: the device failed, or is being removed.
 */
enum kvd_status kvd_register(struct kvd *handle, void *addr, size_t bytes, struct kvd_mem **mem);

/*
 * As kvd_register(), but allocates at least @bytes of zeros, in the way that suits the device best.
 * *@addr gets their address, at the start of a page.
 */
enum kvd_status kvd_alloc(struct kvd *handle, size_t bytes, void **addr, struct kvd_mem **mem);

/*
 * End the registration of @mem, which is invalid after KVD_OK; kvd_free() also frees the memory of
 * kvd_alloc(). Any thread, even while others start operations: these either copy, or use the memory
 * and make this call fail. kvd_error(NULL) has the text.
 * KVD_ERR_BUSY: operations of some handle use it; nothing was done. An operation uses it until its
 * call returns, or kvd_poll() hands it back.
 * KVD_ERR_INVALID: @mem is NULL, or the other function must end it.
 * KVD_ERR_DISCONNECTED: it belongs to the parent of a fork(2).
 */
enum kvd_status kvd_deregister(struct kvd_mem *mem);
enum kvd_status kvd_free(struct kvd_mem *mem);

struct kvd_mem_info {
	void *addr;
	size_t bytes;
	unsigned int registrations; /* with the device: more than 1 if it bounds their length */
	uint64_t register_ns;	    /* how long registering took */
};

/* Fills @info. Any thread, until @mem is ended. */
void kvd_mem_info(const struct kvd_mem *mem, struct kvd_mem_info *info);

/*
 * What a handle is connected to. The strings are valid until its next call. kvd_info() and the
 * functions after it, up to kvd_trace(), work on a lost connection, too.
 */
struct kvd_info {
	const char *device_kind; /* "rdma", "rdma+tcp", "rdma+tls" or "softnic" */
	const char *device_name; /* e.g. "mlx5_0", "rxe1", "softnic0" */
	const char *device_why;	 /* one line: why this device */
	const char *device_link; /* path of the queue pair: "gid=... mtu=1024 ..."; softnic: "" */
	/* A random number of this start of the server; a fleet: the sum of the members used. */
	uint64_t incarnation;
	uint64_t region_bytes;	 /* size of the server's memory region */
	uint64_t value_max;	 /* longest value that the server takes, in bytes */
	uint32_t window;	 /* requests that may be outstanding, now: 1 after an idle second */
	uint32_t request_bytes;	 /* longest message the server takes; it READs longer values */
	size_t cache_bytes;	 /* size of the bucket cache in use; 0: this handle has none */
	uint64_t buckets;	 /* of the server's index, as far as this handle knows */
	uint64_t clock_error_ns; /* largest error of kvd_clock_ns() now */
	uint32_t access_rate;	 /* one hit in this number, at most, is reported; 0: none */
	/*
	 * "up"; "waiting" (for its next try), "connecting"; "away" (operations end with
	 * KVD_ERR_AWAY); "closed"
	 */
	const char *connection;
	uint64_t reconnects; /* times that the handle connected again */
	const char *tenant;  /* the one asked for; "": the server chooses */
};

/* Fills @info. */
void kvd_info(const struct kvd *handle, struct kvd_info *info);

/* A fleet, by the map that its handle has. Later versions only add fields at the end. */
struct kvd_fleet_info {
	char name[32];
	uint64_t epoch;	     /* of the map: it grows with each change of who has which keys */
	uint64_t generation; /* of the map's history: adopting a fleet begins another one */
	uint32_t shards;     /* equal parts of the keys, each of one member */
	uint32_t unowned;    /* shards that no member has yet: KVD_ERR_AWAY */
	uint32_t members;    /* that the map has, whether they are there or not */
	uint32_t reserved;   /* 0 */
};

/*
 * Writes what @handle knows of its fleet to @info, of @size bytes: zeros where the library has
 * fewer fields. No member is asked.
 * KVD_ERR_INVALID: also if @handle is for one server.
 */
enum kvd_status kvd_fleet_info(struct kvd *handle, struct kvd_fleet_info *info, size_t size);

/* A member of a fleet. Later versions only add fields at the end. */
struct kvd_fleet_member {
	char id[32];
	char urls[520]; /* at which clients reach it, with commas between them */
	/* Of this handle, as in struct kvd_info, or "unused" by it; static. */
	const char *connection;
	uint32_t weight; /* its share of the shards, relative to other members' */
	uint32_t shards; /* that it has */
	uint32_t open;	 /* its shards that clients may READ */
	uint32_t flags;	 /* KVD_FLEET_MEMBER_... */
};

/* The fleet saw that the member is absent: it gets no shard until it is back. */
#define KVD_FLEET_MEMBER_AWAY 1u
/* The member gives its shards to others, and gets none: kvd_fleet_drain(). */
#define KVD_FLEET_MEMBER_DRAINED 2u
/* All members get their share: kvd_fleet_rebalance(). */
#define KVD_FLEET_MEMBER_BALANCES 4u

/*
 * As kvd_fleet_info(), of member @number, from 0 on, in the order of the map, which another call
 * can change.
 * KVD_NOT_FOUND: the fleet has fewer members.
 */
enum kvd_status kvd_fleet_member(struct kvd *handle, uint32_t number,
				 struct kvd_fleet_member *member, size_t size);

/* A shard of a fleet. Later versions only add fields at the end. */
struct kvd_fleet_shard {
	uint32_t member; /* number of its member; KVD_FLEET_NO_MEMBER: it has none yet */
	uint32_t open;	 /* 1: clients may READ it */
	uint64_t since;	 /* the epoch in which that changed last */
};

#define KVD_FLEET_NO_MEMBER UINT32_MAX

/*
 * As kvd_fleet_info(), of shard @number, from 0 on.
 * KVD_NOT_FOUND: a fleet has fewer shards.
 */
enum kvd_status kvd_fleet_shard(struct kvd *handle, uint32_t number, struct kvd_fleet_shard *shard,
				size_t size);
/* Writes the number of the shard that the key belongs to to *@number. As kvd_fleet_info(). */
enum kvd_status kvd_fleet_key(struct kvd *handle, const void *key, size_t key_len,
			      uint32_t *number);

/*
 * Change the fleet (admin; libkvd(3), Administration). They ask a member to note it in the map,
 * again every 1 to 20 ms until it has, for about timeout_ms at most; each request may block for
 * timeout_ms. The members then move shards, with their keys, one after another:
 * kvd_fleet_member() shows how far they are, once the handle has the map. A move that fails is
 * tried again, and goes on whoever restarts.
 *
 * kvd_fleet_drain(): the member @id gives all of its shards to the others, and gets none, until
 * kvd_fleet_undrain() or the end of its process. It can be stopped once it has no shard.
 * kvd_fleet_rebalance(): all members that are there and not drained get their share of the shards,
 * by their weights, and as few as possible move; for members that have joined.
 *
 * KVD_OK: the map says so.
 * KVD_NOT_FOUND: the fleet has no member @id.
 * KVD_ERR_INVALID: also if @id is no name of a member, if @handle is for one server, or if the
 * fleet's members are in a file (fleet.file), which does not change while they run.
 * KVD_ERR_BUSY: the map did not change within timeout_ms, mostly since the members do not reach
 * etcd: it may still change.
 * KVD_ERR_AWAY: no member can be reached.
 */
enum kvd_status kvd_fleet_drain(struct kvd *handle, const char *id);
enum kvd_status kvd_fleet_undrain(struct kvd *handle, const char *id);
enum kvd_status kvd_fleet_rebalance(struct kvd *handle);

/*
 * Returns the server's clock now, in nanoseconds since 1970: the clock of kvd_item.expires_s. It is
 * wrong by at most kvd_info.clock_error_ns, which is small after a kvd_ping(). 0 if @handle is NULL
 * or does not know the clock, as after its host was suspended.
 */
uint64_t kvd_clock_ns(const struct kvd *handle);

/* What a handle has done since kvd_open(): X(name, help). No counter decreases. */
#define KVD_STATS_MAP(X)                                                                           \
	X(gets, "GETs done, with any status")                                                      \
	X(hits, "GETs that found their key")                                                       \
	X(misses, "GETs that did not find their key")                                              \
	X(exists, "keys of which only the existence was asked, with any status")                   \
	X(exists_found, "keys found to exist, where only that was asked")                          \
	X(puts, "PUTs and other changes except DELETEs done, with any status")                     \
	X(deletes, "DELETEs done, with any status")                                                \
	X(reads, "RDMA READs posted")                                                              \
	X(read_bytes, "bytes requested by RDMA READs")                                             \
	X(bucket_reads, "RDMA READs of index buckets, included in reads")                          \
	X(round_trips, "times the client waited for the network: chains of READs and requests")    \
	X(cache_hits, "GETs whose key was where the bucket cache said")                            \
	X(cache_stale, "cached slots that no longer led to their key and were dropped")            \
	X(retries, "times a GET read again because the data was being changed")                    \
	X(fallbacks, "GETs that asked the server: get_tries, a colliding tag, or expiring now")    \
	X(geometry_reads, "RDMA READs of the index's geometry, after the index grew")              \
	X(expired, "items that a GET found expired")                                               \
	X(clock_asks, "requests for the server's clock, before an expiry time was judged")         \
	X(clock_jumps, "times a host's clock was seen to have stood still")                        \
	X(access_records, "access records sent to the server")                                     \
	X(access_messages, "messages with reports of GETs alone, included in requests")            \
	X(requests, "messages sent to the server")                                                 \
	X(sent_bytes, "bytes sent to the server in messages; it READs large values itself")        \
	X(pulled_bytes, "bytes of values that the server fetched with RDMA READs")                 \
	X(direct_bytes, "bytes of values READ to or from registered memory, without a copy")       \
	X(sleeps, "times a call slept in the kernel for its completion")                           \
	X(reconnects, "times the handle connected again")                                          \
	X(resent, "requests sent again on another connection")                                     \
	X(repeated, "changes sent again that the server had executed before, and answered")        \
	X(unknown, "changes that ended with KVD_ERR_UNKNOWN")                                      \
	X(away, "operations that ended at once, with KVD_ERR_AWAY")                                \
	X(moved, "times an operation began again, since a member of the fleet lost its key")       \
	X(maps, "newer maps that the handle of a fleet got")

struct kvd_stats {
#define X(name, help) uint64_t name;
	KVD_STATS_MAP(X)
#undef X
};

/* Copies the counters of @handle to @stats. */
void kvd_stats(const struct kvd *handle, struct kvd_stats *stats);

/*
 * Returns the quantile @quantile (0 to 1) of the latency of the operations @op on @handle, in
 * nanoseconds, exact to 1.6 %; 0 if there were none. @op is KVD_OP_GET, PUT (all changes but
 * DELETE), DELETE or SCAN. One GET in 16 is measured; a submitted operation from kvd_submit() on.
 */
uint64_t kvd_latency_ns(const struct kvd *handle, enum kvd_opcode op, double quantile);

/*
 * Observing operations (libkvd(3), Observing): off at first. The figures are those of a handle, or,
 * if @handle is NULL, of all handles of the process that were observed, closed ones too: then any
 * thread may ask for them. kvd_op_stats(), kvd_process_stats() and kvd_stats_text() block for each
 * other only; kvd_error(NULL) has the text of their errors. KVD_ERR_NO_MEMORY: a call that sets
 * something changed nothing; one that asks for figures could not allocate 60 KiB.
 */

/* Which way an operation took, known at its end. */
enum kvd_path {
	KVD_PATH_NONE = 0,    /* it ended before anything was posted for it */
	KVD_PATH_WARM = 1,    /* by READ, from where the bucket cache said */
	KVD_PATH_COLD = 2,    /* by READs, of the index first */
	KVD_PATH_REQUEST = 3, /* by requests to the server; perhaps after READs */
	KVD_PATH_PULL = 4,    /* by a request; the server READ the value from this host */
	KVD_PATH_DIRECT = 5,  /* registered memory: READ to it, or by the server from it; no copy */
};

enum kvd_observe {
	KVD_OBSERVE_OFF = 0,
	KVD_OBSERVE_OPS = 1, /* counts and times by operation and path */
};

/*
 * Sets what is observed on @handle; what was recorded stays. While observing is on,
 * kvd_latency_ns() measures every submitted GET. @handle may be NULL if @flags is 0: forgets what
 * was recorded of closed handles, which otherwise stays in the figures of the process.
 * KVD_ERR_INVALID: an unknown flag.
 * KVD_ERR_BUSY: operations are outstanding. Nothing was changed.
 */
enum kvd_status kvd_observe(struct kvd *handle, uint32_t flags);

/* Times of operations, in nanoseconds. Quantiles are exact to 1.6 %, all else is exact. */
struct kvd_times {
	uint64_t count, sum_ns, min_ns, max_ns;
	uint64_t p50_ns, p90_ns, p99_ns, p999_ns;
};

/* Operations of one kind that took one path. Later versions only add fields at the end. */
struct kvd_op_stats {
	uint64_t count;		  /* that have ended, with any status */
	uint64_t errors;	  /* those with a status other than KVD_OK and KVD_NOT_FOUND */
	struct kvd_times queue;	  /* from the start to the first post; KVD_PATH_NONE: to the end */
	struct kvd_times service; /* from the first post to the end */
};

/*
 * Writes what was recorded of operations @op on @path to @stats, of @size bytes: zeros where
 * nothing was recorded, or where the library has fewer fields. Each figure is true at some instant
 * of the call.
 */
enum kvd_status kvd_op_stats(const struct kvd *handle, enum kvd_opcode op, enum kvd_path path,
			     struct kvd_op_stats *stats, size_t size);

/*
 * Writes the sum of kvd_stats() over the handles of the process to @stats of @size bytes, which may
 * be NULL. Each handle counts from kvd_open() to its last operation that ended while it was
 * observed. Returns how many are open.
 */
size_t kvd_process_stats(struct kvd_stats *stats, size_t size);

enum kvd_stats_format {
	KVD_STATS_LINES = 0,	  /* "name value\n" */
	KVD_STATS_PROMETHEUS = 1, /* text format 0.0.4 */
};

/*
 * Writes the statistics of @handle, or of the process, to @text: at most @size bytes with the
 * terminating zero; @text may be NULL if @size is 0. *@len, unless @len is NULL, always gets the
 * length of the whole text without the zero.
 * KVD_ERR_BUFFER: @size is too small; @text has the start of the text (256 KiB is always enough).
 */
enum kvd_status kvd_stats_text(const struct kvd *handle, enum kvd_stats_format format, char *text,
			       size_t size, size_t *len);

/* The start or the end of an operation. Times are of CLOCK_MONOTONIC, in nanoseconds. */
struct kvd_trace_event {
	uint32_t ended; /* 0: it starts; 1: it has ended */
	enum kvd_opcode op;
	const void *key; /* the caller's; NULL: a PING or a SCAN */
	size_t key_len;
	const struct kvd_op *submitted; /* NULL: a synchronous call's */
	uint64_t start_ns;		/* of kvd_submit(), or the call; equal in both events */

	/* At its end only; else 0. */
	uint64_t posted_ns; /* its first READ or request was posted; 0: it had none */
	uint64_t end_ns;
	enum kvd_status status;
	enum kvd_path path;
	uint32_t reads;	   /* its RDMA READs */
	uint32_t messages; /* its requests */
};

/*
 * Called by the thread that uses the handle, within its call: it must be short, and must not call
 * anything on that handle. @event is valid during the call.
 */
typedef void (*kvd_trace_fn)(void *user, const struct kvd_trace_event *event);

/*
 * Sets the function that is called with @user at the start and the end of each operation of
 * @handle; NULL: none. An operation that is outstanding at kvd_close() has no end.
 * KVD_ERR_BUSY: operations are outstanding. Nothing was changed.
 */
enum kvd_status kvd_trace(struct kvd *handle, kvd_trace_fn trace, void *user);

/* Log lines that a program may have; libkvd(3), Log lines, says what is logged at which level. */
enum kvd_log_level {
	KVD_LOG_OFF = 0,
	KVD_LOG_ERROR = 1,
	KVD_LOG_WARN = 2,
	KVD_LOG_NOTICE = 3,
	KVD_LOG_INFO = 4,
	KVD_LOG_DEBUG = 5,
};

/*
 * Gets a line without a newline, of at most 1,023 bytes, valid during the call. Called by any
 * thread that uses the library, with its locks held: it must not block for long, and must call
 * nothing of the library but kvd_status_text() and kvd_version().
 */
typedef void (*kvd_log_fn)(void *user, enum kvd_log_level level, const char *text);

/*
 * Sets the function that is called with @user for each line of @level or more severe, of all
 * handles of the process; KVD_LOG_OFF: none, and @log may be NULL. Call it before the first
 * kvd_open(), or while no other thread is in a call of the library. KVD_ERR_INVALID: no such level,
 * or @log is NULL.
 */
enum kvd_status kvd_set_log(enum kvd_log_level level, kvd_log_fn log, void *user);

/*
 * Called like malloc(3), realloc(3) and free(3), by any thread that uses the library. Memory is
 * aligned for any type; NULL: there is none. free() does not get NULL.
 */
struct kvd_allocator {
	void *(*alloc)(void *user, size_t bytes);
	void *(*realloc)(void *user, void *memory, size_t bytes);
	void (*free)(void *user, void *memory);
	void *user;
};

/*
 * Takes all of the library's heap memory from @allocator, which is copied; NULL: from the C
 * library, the default. Applies to the whole process; call it before the first kvd_open().
 * libkvd(3), Memory, says what is not on the heap, and when all is returned.
 * KVD_ERR_INVALID: one of the functions is NULL.
 * KVD_ERR_BUSY: the library has allocated memory already. Nothing was changed.
 */
enum kvd_status kvd_set_allocator(const struct kvd_allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif /* KVD_H */
