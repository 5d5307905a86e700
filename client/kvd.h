/* SPDX-License-Identifier: MIT */
/*
 * libkvd, the client library of kvd: everything a program needs to read and change keys of a kvd
 * server. This header is the library's manual.
 *
 * A GET reads the server's memory with one-sided RDMA READs and costs the server no CPU. A PUT, a
 * DELETE or another change is one message to a worker thread of the server and one message back.
 *
 *	struct kvd *db;
 *	struct kvd_item item;
 *	char value[100], url[KVD_URL_MAX];
 *
 *	if (kvd_open(&db, kvd_default_url(url), NULL))
 *		errx(1, "%s", kvd_error(NULL));
 *	if (kvd_put(db, "name", 4, "Ada", 3, NULL, NULL) ||
 *	    kvd_get(db, "name", 4, value, sizeof(value), &item))
 *		errx(1, "%s", kvd_error(db));
 *	printf("%.*s\n", (int)item.value_len, value);
 *	kvd_close(db);
 *
 * Threads. A handle is one connection and belongs to one thread at a time: calls on the same handle
 * must not overlap. Different handles are independent. Open one for each thread: a queue pair that
 * threads share is many times slower than one for each. kvd_status_text(), kvd_version() and
 * kvd_default_url() may be called by any thread at any time, and so may those that take NULL for
 * the process instead of a handle; every other function follows the rule for handles. A call that
 * another thread's call on the handle is under way at is refused: it returns KVD_ERR_INVALID
 * (kvd_poll() and kvd_wait() 0) and does nothing, and kvd_error(NULL) says so. kvd_info() and those
 * that read statistics are not protected in this way.
 *
 * Consistency. Operations are linearizable per key across all clients: after a PUT, a DELETE or
 * another change has returned KVD_OK, no GET that starts later, on any handle, returns an older
 * value. A GET returns bytes that one change of that key wrote, whole, or no bytes at all.
 * KVD_NOT_FOUND is a verified fact.
 *
 * Versions. Every change gives its key a new version (except kvd_touch(), which keeps it): never 0,
 * given to no other item of the server, and higher than all the key had since it was last absent.
 * So a change that depends on a version (KVD_PUT_IF_VERSION, kvd_delete_if()) happens only if
 * nothing has changed the key. That holds across restarts of the server, which lose all keys: a
 * version of before matches nothing that is stored afterwards. It is certain, and later versions
 * are higher, if by the server's time of day at least one second lies between the beginnings of the
 * two starts. If that clock was set back, or the server was started twice within a second, random
 * bits keep them apart: then each comparison with an old version succeeds wrongly with a
 * probability of at most 2^-32.
 *
 * Expiry. A key may have a time to live, in seconds. It expires for all clients at the instant when
 * the server's clock reaches the second kvd_item.expires_s: never earlier than the time to live
 * after the change, and less than one second later (plus the time that the change took). The
 * server's clock starts with its real time, runs at the rate of its hardware and never goes back. A
 * handle knows that clock to within an error bound (kvd_info.clock_error_ns): one network round
 * trip plus 0.4 % of the time since the last response, but at most 10 ms or that round trip,
 * whichever is longer. A GET that finds a key about to expire within that error asks the server. So
 * expiry is linearizable as well, as long as the rates of the two hosts' CLOCK_MONOTONIC_RAW differ
 * by no more than 0.2 % (client/libkvd/clock.h says why they do not). NTP does not steer that
 * clock, and setting the time of day changes nothing. A process that is stopped and goes on sees
 * what it would have seen.
 *
 * A host that is suspended (to memory or disk) is the exception, since that clock stands still
 * then. The server's clock leaves out the time its host was suspended. The client's host tells
 * afterwards that it was, and its handles ask the server before they judge the next key. A virtual
 * machine that is stopped from outside (paused, saved, moved) and goes on with connections alive
 * can't tell. For the handles of one that was, a key may expire late: a GET may return it after it
 * expired, as much later as the stop was long, if the server has not removed it yet. While the
 * server is such a machine, a key may expire early: a GET may miss it although the server's clock,
 * which stood still, has not reached its second, and other handles may still return it. Both end
 * for a handle with the next response that a call waits for and the server sent after the stop: at
 * the latest 2.5 s (of its own host's time) after the last one, when a GET of a key that expires
 * asks for one; kvd_stats.clock_jumps counts them.
 *
 * NULL. Where a pointer may be NULL, its function says so. Any other NULL is refused: functions
 * that return a status return KVD_ERR_INVALID and do nothing; kvd_options_init(), kvd_info() and
 * kvd_stats() do nothing; kvd_latency_ns() returns 0. kvd_error(NULL) then has the text if it was
 * the handle, else kvd_error() of the handle.
 *
 * Blocking. Every synchronous call that uses the network blocks until it is done or
 * kvd_options.timeout_ms has passed; submitted operations: see there. After KVD_ERR_TIMEOUT the
 * handle is as usable as before. A change that timed out may or may not have taken effect, or may
 * do so later. KVD_ERR_INVALID and the statuses that say what the server did leave the handle as it
 * is; of the others see Connections.
 *
 * Connections. A handle whose connection is lost, because the server stopped or crashed, the
 * network failed or somebody closed it, connects again by itself, whenever the library is called:
 * at once or after a few milliseconds, then after pauses that double up to a second, each of random
 * length, so that the clients of a server that restarts do not come all at once. A call or a
 * submitted operation meanwhile waits, with its deadline:
 *
 *	GETs, and all that changes nothing	are done on the next connection
 *	changes that were not sent		are sent on the next connection
 *	changes that were sent			are sent again, with the number that they have: the
 *						server executes each once, and answers those that
 *						it had executed as it did then
 *	kvd_client_kill(), and			end with KVD_ERR_DISCONNECTED
 *	lists of which a part has come
 *
 * Those whose deadline passes without a connection end alone with KVD_ERR_DISCONNECTED: nothing was
 * done, and kvd_error() says for how long there has been no connection and why the last try failed.
 * (A change that was sent before ends with KVD_ERR_TIMEOUT: it may have taken effect, or may do so
 * later.) The handle stays usable, and goes on trying, also if the server is full
 * (server.max_connections), the user has as many connections as it may have, the tenant is not
 * there (it may be being resized) or, after an update, the server has another version.
 * KVD_ERR_DEVICE and KVD_ERR_PROTOCOL of a call are losses, too.
 *
 * If the server answers a try that it has no user who this client is, or one end refuses the
 * other's certificate or key, nothing waits for further tries: all calls and submitted operations
 * end at once with KVD_ERR_AUTH and the reason, and nothing was done (changes that were sent before
 * and not answered end with KVD_ERR_UNKNOWN). Calls that follow wait for the next try, as another
 * file of users or other keys may let the client in again.
 *
 * Exactly once. A server keeps the answers to a handle's last changes, for server.identity_time
 * after its connection ended (60 s), and of limits.identities handles at most. If it has forgotten
 * them, has no room, or has restarted, changes that were sent and not answered end with
 * KVD_ERR_UNKNOWN: they took effect, did not, or, if the server has no room, still may; nothing is
 * guessed, and nothing done twice. Read the key to learn which. A server that has restarted has
 * lost all keys; cursors of kvd_scan() may be used on, tickets of flushes and ids of clients mean
 * nothing to it (kvd_info.incarnation tells), and what the handle had cached is dropped. With
 * kvd_options.reconnect 0 a handle does not connect again: after the first loss every call returns
 * KVD_ERR_DISCONNECTED, and what was submitted has ended; a change that ended so may have taken
 * effect. kvd_info.connection says how things are, kvd_stats counts, and kvd_set_log() has a line
 * for a loss, one for the first try that failed, the second, the fourth and so on, and one when the
 * handle has connected again.
 *
 * An RDMA device that died (IBV_EVENT_DEVICE_FATAL) is opened anew by the first handle that
 * connects again after that: this resolves the name, and only then kvd_poll() may block, for
 * connect_timeout_ms. What was registered with the dead one stays so, and values are copied, until
 * it is registered again, by any handle that has the new one.
 *
 * Limits. A server may limit the requests and the bytes of each connection
 * (limits.connection_requests and limits.connection_bytes of kvd). Beyond that, every call that
 * sends a request may return KVD_ERR_BUSY, also where this is not said below: the server did not
 * execute that request, and the handle stays usable. Try again after a pause. Refused requests do
 * not count. GETs by READ are not limited; those that have to ask the server are. A call that needs
 * several requests, kvd_server_stats() or kvd_client_list(), tries again itself once the first of
 * them was executed, for timeout_ms each.
 *
 * Users. A server may know users, and what each may do (users.file of kvd). Beyond its user's
 * rights, or the prefixes of its keys, a call returns KVD_ERR_NOT_ALLOWED; beyond the user's
 * limits, which all its connections share, KVD_ERR_LIMIT: in both cases the server did nothing,
 * also where this is not said below, and the handle stays usable. Where the user may not read all
 * keys the handle READs nothing: each GET is a message to the server, and one of a value that does
 * not fit a message as many as it takes. What a user may do can change at any time.
 *
 * Access records. A server that evicts has to know which keys are in use, but does not see GETs. If
 * it asks for access records, a handle reports hits that tell it something, of items that were not
 * used yet, or not lately, and one in 64 of the others; one in kvd_info.access_rate at most; and of
 * the keys of a sample each GET, where the server has memory.curve = yes: with the next request, or
 * some dozens at a time in a message of their own. How many GETs hit and missed it tells any
 * server, but only with the next request or records, and in kvd_close(): GETs cost a server that
 * does not evict nothing at all. No call waits for the response to such a message, except that a
 * synchronous GET after which the next such message is due waits for the response to the one
 * before. The records of an idle handle are reported by its next call or by kvd_close().
 *
 * Memory. A handle has some 40 KiB of memory registered with the device, beside the bucket cache,
 * which is not registered. Batches and operations that are in flight together add up to 250 KiB. A
 * value longer than 64 KiB is read in pieces, for which the handle gets 256 KiB once, whatever its
 * length, and copied to the caller; unless the caller registered the buffer: kvd_register(). A
 * value that is stored, does not fit a message and is not in registered memory is copied to memory
 * that all handles with the same URL share: 128 MiB at most, and beyond that one value of each
 * handle. Values that find no room there wait for others of their handle. If there is no memory for
 * the first one, the operation ends with KVD_ERR_NO_MEMORY, and the handle stays usable. What is
 * beyond 128 MiB is freed when so much was not in use at the same time for the last 512 such values
 * of all handles, and the rest when none of the handles has used it in its last 256 calls; so not
 * while they are idle. The memory of a value above 16 MiB is in use as long as shorter values find
 * their place in it. On softnic a handle has two descriptors.
 *
 * An RDMA device locks what is registered, and RLIMIT_MEMLOCK bounds that for a process without
 * CAP_IPC_LOCK: what it is too low for ends with KVD_ERR_NO_MEMORY, and kvd_error() has the limit
 * and the remedies. On softnic nothing is locked.
 *
 * Signals and fork. libkvd installs no signal handlers and starts no threads. The process that
 * opened a handle may fork(2) at any time between two calls and goes on with its handles: what it
 * PUTs is what it wrote. In the child they are the parent's. There all calls on them return
 * KVD_ERR_DISCONNECTED and do nothing, and kvd_close() frees the child's memory and leaves the
 * connection to the parent. The child may open handles of its own. The memory that a handle has
 * registered is not mapped in the child (MADV_DONTFORK, as ibv_fork_init(3) has libibverbs do; that
 * call is not needed on Linux 5.12 and later, where the kernel copies what libibverbs itself has
 * pinned; before that make it before the first kvd_open() of an rdma:// URL). A child that does not
 * exec(3) keeps the connection's descriptors until it exits, so a parent that dies without
 * kvd_close() stays connected until then. After vfork(2) call nothing of libkvd.
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

/* Longest key, in bytes. The shortest is 1. A key may have any bytes in it, zeros included. */
#define KVD_KEY_MAX 1024
/* Longest value that any server can be configured for, in bytes. */
#define KVD_VALUE_MAX (1u << 30)
/* Longest time to live, and longest delay of a flush, in seconds: 34 years. */
#define KVD_TTL_MAX (1u << 30)

/*
 * The statuses that calls return: X(name, number, text). The numbers are stable; new ones are only
 * added.
 */
#define KVD_STATUS_MAP(X)                                                                          \
	/* Done. */                                                                                \
	X(OK, 0, "ok")                                                                             \
	/* The key is not in the store: a verified fact, not a guess. */                           \
	X(NOT_FOUND, 1, "not found")                                                               \
	/* An argument is out of its documented range; nothing was done. */                        \
	X(ERR_INVALID, 2, "invalid argument")                                                      \
	/* Longer than the server's max_value, or than this host's device registers at once. */    \
	X(ERR_TOO_LARGE, 3, "value too large")                                                     \
	/* The caller's buffer is too small; the length needed was returned. */                    \
	X(ERR_BUFFER, 4, "buffer too small for the value")                                         \
	/* No room in the server's memory or in the key's bucket; the old value is unchanged. */   \
	X(ERR_NO_SPACE, 5, "the server's memory is full")                                          \
	/* The client could not allocate or register memory. */                                    \
	X(ERR_NO_MEMORY, 6, "out of memory in the client")                                         \
	/* The call took longer than timeout_ms; kvd_open(): than connect_timeout_ms. */           \
	X(ERR_TIMEOUT, 7, "timed out")                                                             \
	/* There was no connection until the deadline; see Connections at the top. */              \
	X(ERR_DISCONNECTED, 8, "connection lost")                                                  \
	/* No server listens at the address, or no route leads there. */                           \
	X(ERR_UNREACHABLE, 9, "server unreachable")                                                \
	/* The server or its socket's permissions refused it; kvd_error() has the reason. */       \
	X(ERR_REFUSED, 10, "connection refused by the server")                                     \
	/* The RDMA device failed, or none that fits the address exists. */                        \
	X(ERR_DEVICE, 11, "RDMA device error")                                                     \
	/* The server speaks another version, or sent what the protocol does not allow. */         \
	X(ERR_PROTOCOL, 12, "protocol error")                                                      \
	/* The server can't do this now (a bounded resource is in use); try again later. */        \
	X(ERR_BUSY, 13, "server busy")                                                             \
	/* A condition on the key does not hold: nothing was changed. */                           \
	X(ERR_EXISTS, 14, "the key exists or has another version")                                 \
	/* The value is not an unsigned decimal number of 64 bits: nothing was changed. */         \
	X(ERR_NOT_A_NUMBER, 15, "the value is not a number")                                       \
	/* kvd_cancel() ended the operation. */                                                    \
	X(ERR_CANCELED, 16, "canceled")                                                            \
	/* The connection was lost before a change was answered: nobody knows what it did. */      \
	X(ERR_UNKNOWN, 17, "it is unknown whether the change took effect")                         \
	/* One end is not who the other one wants, or has no user; kvd_error() has the reason. */  \
	X(ERR_AUTH, 18, "authentication failed")                                                   \
	/* The client's user has not the right, or may not use the key; nothing was done. */       \
	X(ERR_NOT_ALLOWED, 19, "not allowed")                                                      \
	/* Beyond a limit of the client's user; nothing was done: try again later. */              \
	X(ERR_LIMIT, 20, "over the user's limit")

enum kvd_status {
#define X(name, number, text) KVD_##name = (number),
	KVD_STATUS_MAP(X)
#undef X
};

/*
 * Returns a short English text for @status, or "unknown status". The string is static. Does not
 * block. Any thread.
 */
const char *kvd_status_text(enum kvd_status status);

/*
 * Returns the version of the library that is linked, "MAJOR.MINOR.PATCH". The string is static.
 * Does not block. Any thread.
 */
const char *kvd_version(void);

/*
 * How a handle behaves. Fill it with kvd_options_init(), then change what you need.
 */
struct kvd_options {
	/* Longest time that one call may take, in milliseconds; 1 to 3,600,000. Default 2,000. */
	uint32_t timeout_ms;
	/* Longest time that kvd_open() may take, in milliseconds; 1 to 3,600,000. Default 5,000. */
	uint32_t connect_timeout_ms;
	/*
	 * Size of the bucket cache in bytes; 0 turns it off, and then every GET takes two READs. A
	 * cache of 20 bytes per key in the store remembers where every key is (99.9 %; of 16 bytes,
	 * 99 %). It is rounded down to a power of two and is never larger than an eighth of the
	 * server's region. Its pages are allocated when they are first used, large ones (2 MiB) if
	 * the kernel has any. What it may use rises with the keys in the store, by 28 to 56 bytes
	 * for each: so beside a store of a million keys or more expect the resident memory of a
	 * process to grow by all of it. All handles of a process with one server share one cache:
	 * its size is what the first of them asked for that did not turn it off. Default 32 MiB.
	 */
	size_t cache_bytes;
	/*
	 * How long a call polls for its completion before it sleeps in the kernel, in microseconds;
	 * at most 1,000,000; 0: it sleeps at once. Beside programs that compute on the same CPU it
	 * sleeps sooner where polls are in vain. On softnic a call that stores a large value polls
	 * for up to 1 ms more for each MB, since its thread serves the server's READs. Default 200.
	 */
	uint32_t spin_us;
	/*
	 * How often a GET reads an item that keeps changing while it is read, before it asks the
	 * server; 1 to 1,000. Default 16.
	 */
	uint32_t get_tries;
	/*
	 * Submitted operations that are in flight together; 1 to 1,024. More wait in the library
	 * until one of these has ended. Each takes some 600 bytes from the first kvd_submit() on.
	 * Default 64.
	 */
	uint32_t depth;
	/*
	 * 1: a handle whose connection is lost connects again by itself: see Connections. 0: it is
	 * closed for ever, and every later call returns KVD_ERR_DISCONNECTED. Default 1.
	 */
	uint32_t reconnect;
	/*
	 * With rdma+tls://, names of files that say who this client is and whom it trusts. NULL:
	 * the name is in the environment variable in brackets, and if that is not set or empty
	 * there is none. They are read whenever a handle connects (see kvd_open()). The library
	 * copies the names. A private key, and keys that both ends have, are secrets: their files
	 * belong to the user of this process or to root, and others but their group have no right
	 * to them; else kvd_open() fails.
	 */
	/* PEM: the certificates of those who sign the server's (KVD_TLS_CA). None: the system's. */
	const char *tls_ca;
	/* PEM: this client's certificate, and then those between it and who signed it
	   (KVD_TLS_CERTIFICATE); its private key, not encrypted (KVD_TLS_KEY). Both or none. */
	const char *tls_certificate;
	const char *tls_key;
	/*
	 * The key that the server has, too (KVD_TLS_PSK): a line "identity:key", the key in 32 to
	 * 128 hexadecimal digits; of several lines the first one. With it the server needs no
	 * certificate; one with a certificate alone is then accepted only if tls_ca says who
	 * signed.
	 */
	const char *tls_psk;
	/*
	 * The tenant whose store the handle uses: 1 to 24 letters, digits, '-', '_' and '.'. NULL:
	 * the name is in KVD_TENANT, and if that is not set or empty, the server decides: it is
	 * "default", which every server has, or that of the user. The library copies it.
	 */
	const char *tenant;
};

/* Fills @options with the defaults. Does not block. */
void kvd_options_init(struct kvd_options *options);

/* Bytes that kvd_default_url() writes at most. */
#define KVD_URL_MAX 128

/*
 * Returns the URL to connect to if the user of a program names none; kvctl and kvbench use it. It
 * is the environment variable KVD_URL, if that is set and not empty; else it is written to @buffer,
 * of KVD_URL_MAX bytes, as the first of these sockets that exists:
 *
 *	$XDG_RUNTIME_DIR/kvd/kvd.sock	of a kvd that this user started
 *	/tmp/kvd-UID/kvd.sock		the same, where XDG_RUNTIME_DIR is not set
 *	/run/kvd/kvd.sock		of the system's kvd, or root's
 *
 * If none exists it is the first one where XDG_RUNTIME_DIR is set, else the last one. For root, and
 * if @buffer is NULL, there is only the last one. A socket of the first two counts only in a folder
 * that is this user's and that nobody else may write to, so that no other user can pose as the
 * server. Does not block. Any thread, while none changes the environment.
 */
const char *kvd_default_url(char buffer[KVD_URL_MAX]);

/* A handle: a connection to one server. */
struct kvd;

/*
 * Connects to the server at @url:
 *
 *	rdma://HOST:PORT	through the RDMA device that leads to HOST (InfiniBand, RoCE, iWARP,
 *				Soft-RoCE); HOST is a name, an IPv4 address or an [IPv6] address
 *	rdma+tcp://HOST:PORT	the same, where rdma_cm is not to be had: the queue pairs are set up
 *				over a TCP connection, which stays open; the RDMA device is the one
 *				that has the address from which HOST is reached, or else the first
 *				one with an active port (not iWARP)
 *	rdma+tls://HOST:PORT	the same by TLS 1.3: both ends know who the other one is, and nobody
 *				else learns how the queue pairs were set up; HOST is what the
 *				server's certificate has to name. What goes over the queue pairs is
 *				not encrypted. See kvd_options.tls_ca
 *	softnic:///PATH		through the software device of a server on this host, by the Unix
 *				socket at /PATH; the permissions of the file say who may connect
 *
 * The first three may end with options: "rdma+tcp://10.0.0.1:7472?gid_index=3&traffic_class=106".
 * What is not said is rdma_cm's choice, or with the other two the default in brackets:
 *
 *	gid_index	0 to 255; not rdma:// (of RoCE v2 before v1, the GID of the address
 *			that HOST is reached from)
 *	pkey_index	0 to 255; not rdma:// (0, the default partition)
 *	traffic_class	0 to 255: DSCP and ECN bits (0)
 *	service_level	0 to 15: on Ethernet the priority (0)
 *	ack_timeout	1 to 31: what is lost is sent again after 4.096 us x 2^ack_timeout (18, 1 s)
 *	retry_count	0 to 7: how often, until the connection is lost (6, with both)
 *	rnr_retry	0 to 7: how often a request is sent again to a server that has no receive for
 *			it; 7: for ever (7, with both)
 *	max_rd_atomic	1 to 254: outstanding READs (as many as both devices can, with both)
 *
 * Blocks for at most connect_timeout_ms (plus the time to resolve a host name). @options may be
 * NULL for the defaults; the library copies them. On KVD_OK *@handle belongs to the caller, who
 * ends it with kvd_close(). Otherwise *@handle is NULL and kvd_error(NULL) has the cause.
 *
 * The handles of a process with the same @url and the same names of files share the device and what
 * they learn of the server, whatever their threads: a further one takes little memory. HOST is
 * resolved for the first of them, and anew after an attempt that could not reach the server, or
 * when none is left.
 *
 * The files of credentials are read by each attempt to connect, also of a handle that connects
 * again by itself, and what they say then is what it uses: new ones need no handle to be closed,
 * and connections that there are stay. If the files can't be used (a certificate is replaced, and
 * its key is not yet), kvd_open() fails, and a handle that lost its connection tries again. Whom
 * the system trusts, where tls_ca is not given, is read when the first of these handles is opened.
 *
 * KVD_ERR_INVALID: @url can't be parsed, an option is out of its range, or a file of credentials
 * can't be used.
 * KVD_ERR_UNREACHABLE: no such host, no route by RDMA, no socket, or no server listens there.
 * KVD_ERR_REFUSED: the server is full or stopping, its socket's permissions forbid it, or it has no
 * such tenant, or the client's user has another one.
 * KVD_ERR_LIMIT: the client's user has as many connections as it may have.
 * KVD_ERR_AUTH: the server has no user who this client is, or serves none at its address; or the
 * server's certificate is not accepted, or it does not accept this client's, or its key; or it does
 * not speak TLS.
 * KVD_ERR_PROTOCOL: a program that is not kvd listens there, or kvd of another protocol version, or
 * it says other things of its memory than it said to another handle of this process.
 * KVD_ERR_DEVICE: this host has no RDMA device, or it failed.
 * KVD_ERR_NO_MEMORY: memory could not be allocated or registered (see RLIMIT_MEMLOCK), or there is
 * no descriptor left (see RLIMIT_NOFILE).
 * KVD_ERR_TIMEOUT: it took longer than connect_timeout_ms.
 * KVD_ERR_DISCONNECTED: the server closed the connection while it was being set up.
 */
enum kvd_status kvd_open(struct kvd **handle, const char *url, const struct kvd_options *options);

/*
 * Disconnects @handle and frees it with everything that belongs to it. NULL is allowed. If access
 * records or GETs are left to report (see the top), waits for the server, but at most 50 ms;
 * otherwise does not wait for it. While a call on @handle is under way, in a callback of that call
 * (done() of an operation, that of a scan or trace) or by another thread, it does nothing, and
 * kvd_error(NULL) and a line of the log (warn) say so: close @handle when that call has returned.
 */
void kvd_close(struct kvd *handle);

/*
 * Returns one line about the last call that failed on @handle: what happened, the cause and, if
 * there is one, the remedy; "" if none failed. With NULL: about the calling thread's last
 * kvd_open(), or later call with a NULL handle. The string belongs to the library and is valid
 * until the next call on the handle (with NULL: until the thread's next such call). Does not block.
 */
const char *kvd_error(const struct kvd *handle);

/* What is stored with a value. */
struct kvd_item {
	size_t value_len; /* bytes */
	uint64_t version; /* never 0; unique and increasing: see Versions at the top */
	uint32_t flags;	  /* as the PUT gave them; no meaning to kvd */
	/* The second of the server's clock, since 1970, at which the key expires; 0: never. */
	uint32_t expires_s;
};

/*
 * Reads the value of @key (@key_len bytes) into @value, a buffer of @value_size bytes; it may be
 * NULL if @value_size is 0. @item may be NULL. Blocks for at most timeout_ms.
 *
 * KVD_OK: @value holds item->value_len bytes; the rest of @value is unchanged, except as below.
 * KVD_NOT_FOUND: the key is not in the store, or has expired.
 * KVD_ERR_BUFFER: the value is longer than @value_size; *@item is filled.
 *
 * A value longer than 64 KiB, or in registered memory, is verified when all of it has arrived, and
 * read again if it was being changed. So the content of @value is undefined until KVD_OK, and with
 * any other status; and what is behind the value may be overwritten, up to @value_size.
 *
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX, or @value is NULL but @value_size
 * is not 0.
 * KVD_ERR_NO_MEMORY: memory for a large value could not be allocated or registered.
 * KVD_ERR_BUSY: the value kept changing, for get_tries reads, and then, if it is too large for a
 * message, while it was sent in parts; or it does not verify, since memory is damaged.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 *
 * Cost: one READ if the bucket cache knows where the key is, else two, one after the other; of an
 * absent key one. A value longer than 64 KiB takes one for each piece. No message, but where the
 * READs lead to no result.
 */
enum kvd_status kvd_get(struct kvd *handle, const void *key, size_t key_len, void *value,
			size_t value_size, struct kvd_item *item);

/* Pieces of a value, at most. */
#define KVD_IOV_MAX 64

/*
 * As kvd_get(), but the value goes to the @iov_count pieces of @iov (at most KVD_IOV_MAX; each may
 * be empty), one after the other: the first ones are filled, and what the value does not reach is
 * left. It is verified as a whole, before KVD_OK, as with kvd_get(). If all pieces lie in one
 * memory that was registered (kvd_register()), and each has 4 KiB at least, the device writes a
 * value longer than 4 KiB to them, by one READ for each 64 KiB (rdma://: 256 KiB) or part of a
 * piece; else it is copied to them, as to any other memory. Errors as for kvd_get(), and
 *
 * KVD_ERR_BUFFER: the value is longer than all pieces.
 * KVD_ERR_INVALID: also if @iov is NULL and @iov_count is not 0, if there are too many pieces, or
 * one is NULL and not empty or longer than KVD_VALUE_MAX.
 */
enum kvd_status kvd_getv(struct kvd *handle, const void *key, size_t key_len,
			 const struct iovec *iov, uint32_t iov_count, struct kvd_item *item);

/*
 * As kvd_get(), but sends a request to the server at once instead of reading its memory; kvd_get()
 * does the same when its READs lead to no result. It costs the server CPU. Errors as for kvd_get(),
 * except
 *
 * KVD_ERR_BUSY: the value is too large for a response, and kept changing while it was sent in
 * parts; or, of more than 128 bytes, it does not verify, since memory is damaged.
 *
 * Cost: one message and one response for each part of the value that fits one.
 */
enum kvd_status kvd_get_by_request(struct kvd *handle, const void *key, size_t key_len, void *value,
				   size_t value_size, struct kvd_item *item);

/*
 * Reads the value and, at the same instant, sets its time to live to @ttl_s seconds from now (at
 * most KVD_TTL_MAX; 0: it never expires). Sends a request to the server. Errors as for
 * kvd_get_by_request(), and
 *
 * KVD_ERR_INVALID: also if @ttl_s is too long.
 * KVD_ERR_BUFFER: the time to live was set nevertheless. KVD_ERR_BUSY, KVD_ERR_LIMIT: it may have
 * been, if the value is too large for a response.
 * KVD_ERR_UNKNOWN: see the top.
 *
 * Where the value is too large for a response, and another client replaces it before all of it has
 * come, the new value is touched and read instead. Changes of the same key that are submitted to
 * the handle meanwhile wait, and take effect after it.
 *
 * Cost: as kvd_get_by_request().
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
 * Does @count GETs as kvd_get() would, in any order, with their READs posted together: many GETs
 * take little longer than one. @count may be any number; the library does 32 at a time, and
 * timeout_ms applies to each 32. Each GET is linearizable on its own; together they are not a
 * snapshot.
 *
 * KVD_OK: every request was done; look at the status of each. KVD_ERR_INVALID: @handle is NULL, or
 * @requests is and @count is not 0. KVD_ERR_TIMEOUT: not all of 32 were done in time.
 * KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL, KVD_ERR_AUTH: see the top. The requests
 * that were not done have the status too.
 *
 * Cost: READs as for kvd_get(), of 32 keys in one round trip, or two.
 */
enum kvd_status kvd_get_many(struct kvd *handle, struct kvd_get_request *requests, size_t count);

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
 * Looks whether each of the @count keys exists, without reading values: by one READ of 40 bytes and
 * the key's length where a slot is cached (up to 128 bytes for small items), by two where it is
 * not, and by one of a bucket for a key that does not exist; 32 keys share a round trip. Each
 * answer is as certain as that of kvd_get(), and true at some instant of the call; together they
 * are not a snapshot. It counts as no use of a key for eviction.
 *
 * Writes to results[i] what keys[i] is, unless @results is NULL, and to *@present, unless it is
 * NULL, how many exist. Blocks; timeout_ms applies to each 32.
 *
 * KVD_OK: every key was looked up; those with a bad length have KVD_ERR_INVALID as their status.
 * KVD_ERR_INVALID: @handle is NULL, or @keys is and @count is not 0. KVD_ERR_TIMEOUT: not all of 32
 * were done in time. KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top. The keys
 * that were not looked up have the status too.
 */
enum kvd_status kvd_exists_many(struct kvd *handle, const struct kvd_key *keys, size_t count,
				struct kvd_exists *results, size_t *present);

/*
 * Writes to *@leading, unless it is NULL, how many of the keys exist before the first that does
 * not: for keys each of which is of use only if those before it exist. As kvd_exists_many(), but
 * looks up at most 32 keys, and no more than are known to exist and four, behind that one.
 *
 * KVD_OK: keys[*leading] does not exist, or all exist. Another status: it is not known of that one,
 * as for kvd_exists_many().
 */
enum kvd_status kvd_exists_leading(struct kvd *handle, const struct kvd_key *keys, size_t count,
				   size_t *leading);

/* What a PUT does, depending on whether the key exists. */
enum kvd_put_mode {
	KVD_PUT_SET = 0,	/* stores the value in any case */
	KVD_PUT_IF_ABSENT = 1,	/* stores it only if the key does not exist */
	KVD_PUT_IF_PRESENT = 2, /* stores it only if the key exists */
	KVD_PUT_IF_VERSION = 3, /* stores it only if the key exists with the version if_version */
	KVD_PUT_APPEND = 4,	/* adds the value behind the existing one */
	KVD_PUT_PREPEND = 5,	/* adds the value before the existing one */
};

/* What a server that is full evicts first. */
enum kvd_priority {
	KVD_PRIORITY_NORMAL = 0, /* what was not used for longest, or least often */
	/*
	 * Before anything of normal priority, and among their kind what was stored first: a GET
	 * does not change that.
	 */
	KVD_PRIORITY_LOW = 1,
};

/* What a PUT may have in addition to key and value. Zero it, then set what you need. */
struct kvd_put_args {
	uint32_t flags; /* stored with the value and returned by GET; no meaning to kvd */
	uint32_t ttl_s; /* time to live in seconds, at most KVD_TTL_MAX; 0: it never expires */
	enum kvd_put_mode mode;
	uint64_t if_version; /* with KVD_PUT_IF_VERSION; else 0 */
	uint32_t pin_s;	     /* the item is pinned for so many seconds, see below; 0: it is not */
	enum kvd_priority priority;
};

/*
 * Stores @value (@value_len bytes, may be 0) under @key (@key_len bytes), as @args->mode says.
 * @args may be NULL: KVD_PUT_SET, flags 0, never expires. APPEND and PREPEND keep the flags and the
 * expiry time of the existing value; with them @args->flags and ttl_s must be 0. @version, unless
 * NULL, gets the new version. The library does not use the caller's buffers after the call. Blocks
 * for at most timeout_ms.
 *
 * Pins and priorities are for servers that evict (memory.eviction); others take them and do
 * nothing. A pinned item is not evicted for @args->pin_s seconds (and up to 2 more); it can be
 * replaced, removed and flushed, and it expires. After that it counts as used at the time when its
 * pin ended, or, if it has low priority, as stored then. Append, prepend, kvd_incr(), kvd_decr()
 * and kvd_touch() keep pin and priority; any other PUT of the key ends both, and sets what its own
 * @args say. pin_s is for the modes SET, IF_ABSENT and IF_PRESENT; a priority not for APPEND and
 * PREPEND. All clients together may pin memory.pin_share of the server's memory, 25 percent by
 * default. A PUT that pins an item that is pinned already needs room for both pins. (There is one
 * exception: some 460 keys that were made up to have the same hash bits evict each other, pinned or
 * not.)
 *
 * KVD_OK: stored; every GET that starts from now on, on any handle, returns it or a later value.
 * KVD_NOT_FOUND: the key does not exist, and the mode is IF_PRESENT, IF_VERSION, APPEND or PREPEND.
 * KVD_ERR_EXISTS: the key exists (IF_ABSENT), or has another version (IF_VERSION).
 * KVD_ERR_TOO_LARGE: @value_len, or the length of the whole value to be stored, is larger than the
 * server's max_value (kvd_info.value_max). Or @value does not fit a message and is longer than the
 * device of this host registers at once (max_mr_size, which ibv_devinfo -v prints): the server
 * READs a value from one registration, also if it is in registered memory. kvd_error() says which;
 * nothing was done. Store shorter values, or use another device.
 * KVD_ERR_NO_SPACE: the server's item memory is full; the old value, if any, is unchanged.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX, @value is NULL but @value_len is
 * not 0, @args breaks a rule above, or pin_s is longer than the server allows
 * (memory.pin_time_max, an hour by default).
 * KVD_ERR_NO_MEMORY: memory for a large value could not be allocated or registered.
 * KVD_ERR_BUSY: the server has no resources to take a large value now, or as much is pinned as it
 * allows: also where a pinned value would get longer. Nothing was changed.
 * KVD_ERR_TIMEOUT, KVD_ERR_UNKNOWN, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the
 * top.
 *
 * Cost: one message and one response; submitted together, small changes share them. For a value
 * that does not fit a message, the server's READs of it.
 */
enum kvd_status kvd_put(struct kvd *handle, const void *key, size_t key_len, const void *value,
			size_t value_len, const struct kvd_put_args *args, uint64_t *version);

/*
 * As kvd_put(), of a value in @iov_count pieces (as for kvd_getv(); they are only read), one behind
 * the other. It is copied once: to the message, or to where the server READs it. The server gets it
 * by one address; so registered memory saves nothing unless there is only one piece, and then
 * kvd_put() is what to call. Errors as for kvd_put(), and for the pieces as for kvd_getv().
 */
enum kvd_status kvd_putv(struct kvd *handle, const void *key, size_t key_len,
			 const struct iovec *iov, uint32_t iov_count,
			 const struct kvd_put_args *args, uint64_t *version);

/*
 * Removes @key (@key_len bytes). Blocks for at most timeout_ms.
 *
 * KVD_OK: the key existed and is removed; no GET that starts from now on, on any handle, returns
 * it.
 * KVD_NOT_FOUND: the key did not exist.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX.
 * KVD_ERR_TIMEOUT, KVD_ERR_UNKNOWN, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the
 * top.
 *
 * Cost: one message and one response.
 */
enum kvd_status kvd_delete(struct kvd *handle, const void *key, size_t key_len);

/*
 * Removes @key only if its version is @if_version. As kvd_delete(), and
 *
 * KVD_ERR_EXISTS: the key exists with another version; it was not removed.
 */
enum kvd_status kvd_delete_if(struct kvd *handle, const void *key, size_t key_len,
			      uint64_t if_version);

/* What kvd_incr() and kvd_decr() do if the key does not exist. Zero it, then set what you need. */
struct kvd_arith_args {
	uint32_t create;  /* not 0: store `initial`, to which nothing is added; 0: KVD_NOT_FOUND */
	uint32_t flags;	  /* flags of the created value; 0 if create is 0 */
	uint32_t ttl_s;	  /* its time to live in seconds (0: never expires); 0 if create is 0 */
	uint64_t initial; /* its number; 0 if create is 0 */
};

/*
 * Adds @delta to, or subtracts it from, the number that is the value of @key: 1 to 20 decimal
 * digits, less than 2^64. kvd_incr() wraps around at 2^64; kvd_decr() stops at 0. Flags and expiry
 * time of an existing value do not change. @args may be NULL: a key that does not exist is not
 * created. @number and @version, unless NULL, get the new number and version. Blocks for at most
 * timeout_ms.
 *
 * KVD_OK: done; every GET that starts from now on, on any handle, returns it or a later value.
 * KVD_NOT_FOUND: the key does not exist, and create is 0.
 * KVD_ERR_NOT_A_NUMBER: the value is not such a number; it was not changed.
 * KVD_ERR_TOO_LARGE: the result has more digits than the server's max_value.
 * KVD_ERR_BUSY: the value is pinned and would need more memory than may be pinned now.
 * KVD_ERR_NO_SPACE: the server's item memory is full; the old value, if any, is unchanged.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX; @args->ttl_s is too long; or
 * another field of @args is set although create is 0.
 * KVD_ERR_TIMEOUT, KVD_ERR_UNKNOWN, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the
 * top.
 *
 * Cost: one message and one response.
 */
enum kvd_status kvd_incr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version);
enum kvd_status kvd_decr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version);

/*
 * Sets the time to live of @key to @ttl_s seconds from now (at most KVD_TTL_MAX; 0: it never
 * expires). Its value and flags do not change. @version, unless NULL, gets its version. Blocks for
 * at most timeout_ms.
 *
 * KVD_OK: set.
 * KVD_NOT_FOUND: the key does not exist.
 * KVD_ERR_INVALID: the key is empty or longer than KVD_KEY_MAX, or @ttl_s is too long.
 * KVD_ERR_TIMEOUT, KVD_ERR_UNKNOWN, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the
 * top.
 *
 * Cost: one message and one response.
 */
enum kvd_status kvd_touch(struct kvd *handle, const void *key, size_t key_len, uint32_t ttl_s,
			  uint64_t *version);

/*
 * Starts a flush: the removal of every item that is in the store @delay_s seconds (at most
 * KVD_TTL_MAX) from now. Does not wait until the flush is done. @ticket, unless NULL, gets a number
 * for kvd_flush_done(), valid on any handle to this server until the server stops.
 *
 * KVD_ERR_INVALID: @delay_s is too long.
 * KVD_ERR_BUSY: too many flushes with a delay are waiting in the server, 8 of this client's or 56
 * of all; this one was not started. kvd_flush_cancel() makes room. Without a delay, and
 * perhaps with one, it is a limit of the connection (see Limits at the top).
 * KVD_ERR_TIMEOUT, KVD_ERR_UNKNOWN, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the
 * top.
 */
enum kvd_status kvd_flush_start(struct kvd *handle, uint32_t delay_s, uint64_t *ticket);

/*
 * Asks the server whether the flush of @ticket is done. For a number that is no ticket, any of
 * these statuses is possible. Blocks for at most timeout_ms.
 *
 * KVD_OK: no reader can see any more an item that was stored before the flush's time; or the flush
 * was cancelled.
 * KVD_ERR_BUSY: not yet, as far as this call could find out; readers may still see some of them.
 * KVD_ERR_INVALID: @ticket is 0.
 * Else as kvd_flush_start().
 */
enum kvd_status kvd_flush_done(struct kvd *handle, uint64_t ticket);

/*
 * Cancels flushes that this client started with a delay and that have not begun: that of @ticket;
 * 0: all. Sets *@cancelled, unless @cancelled is NULL, to how many there were; if the connection
 * was lost meanwhile, some may not be counted. A flush belongs to the client that started it, as
 * kvd_server_stats() names it (flush.N.owner, with the ticket for N): the user of the server, else
 * the identity, the uid, or the address. With @any_owner not 0, those of others are cancelled, too:
 * for those with the right admin; where the server has no users, for whoever can connect.
 *
 * KVD_NOT_FOUND: no such flush waits: it has begun, or was cancelled, or is another client's.
 * Else as for kvd_ping().
 */
enum kvd_status kvd_flush_cancel(struct kvd *handle, uint64_t ticket, int any_owner,
				 uint64_t *cancelled);

/*
 * Starts a flush without delay and waits until it is done: asks the server every 1 to 20 ms and
 * sleeps in between. Blocks for about timeout_ms at most while the server responds; each of its
 * requests may block for timeout_ms.
 *
 * KVD_OK: no reader can see any more an item that was stored before this call.
 * KVD_ERR_TIMEOUT: the flush was not done within timeout_ms, and goes on in the server; or one of
 * the requests had no response within timeout_ms.
 * Else as kvd_flush_start().
 */
enum kvd_status kvd_flush_all(struct kvd *handle);

/* What a scan delivers. Zero it, then set what you need. */
struct kvd_scan_args {
	const void *prefix; /* only keys that begin with this; NULL if prefix_len is 0 */
	size_t prefix_len;  /* bytes; 0 to KVD_KEY_MAX */
	uint32_t count;	    /* at most so many keys per call; 0: as many as fit a message */
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

/*
 * Called with the @arg of the scan and one entry. Returns 0 to continue, anything else to stop.
 * Must not use the handle of the scan.
 */
typedef int (*kvd_entry_fn)(void *arg, const struct kvd_entry *entry);

/*
 * Asks the server for some of its keys, by one request, and calls @each for each of them, in no
 * order. Set *@cursor to 0 to begin a scan and call again with what it becomes; it is 0 again when
 * the scan is complete. A call may deliver nothing although the scan is not complete. @args may be
 * NULL: all keys, without values. Pass the same @args in all calls of a scan. Blocks for at most
 * timeout_ms, plus the time in @each.
 *
 * A key that is in the store from the first call to the last is delivered at least once, also while
 * the server's index grows. A key that is added or removed meanwhile may be delivered or not. Any
 * key may be delivered more than once. Values and versions are those at the time of the call that
 * delivers them.
 *
 * KVD_OK: if @each returned another value than 0, the rest of this call's keys was not delivered,
 * and *@cursor is unchanged: the next call delivers all of them again, as they are then.
 * KVD_ERR_BUSY: that part of the index kept changing for one second; *@cursor is unchanged, nothing
 * was delivered.
 * KVD_ERR_INVALID: the prefix is too long, or a pointer is missing.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 */
enum kvd_status kvd_scan(struct kvd *handle, uint64_t *cursor, const struct kvd_scan_args *args,
			 kvd_entry_fn each, void *arg);

/* How the server notes the use of a key. Later versions may have more. */
enum kvd_use {
	KVD_USE_NORMAL = 1, /* kvd_used.uses and age */
	KVD_USE_LOW = 2,    /* low priority: age alone, since it was stored */
	KVD_USE_PINNED = 3, /* its uses are not noted: both are 0 */
};

/* A key that kvd_scan_uses() delivers. The pointers are valid during the callback only. */
struct kvd_used {
	const void *key;
	size_t key_len;
	struct kvd_item item;
	uint32_t use; /* enum kvd_use */
	/*
	 * About how often it was used since it was stored, by what the server learned of: 2^n - 1,
	 * at most 32767. Half as many with each quarter of the server's memory that was added since
	 * the last use.
	 */
	uint32_t uses;
	/*
	 * Bytes added to the store since the last use, or since it was stored, in percent of its
	 * item memory. It begins at 0 again behind 1599, and with KVD_USE_LOW behind 12799.
	 */
	uint32_t age;
};

/* As kvd_entry_fn. */
typedef int (*kvd_used_fn)(void *arg, const struct kvd_used *used);

/*
 * As kvd_scan(), but delivers how keys were used, as the server notes it to choose what it evicts;
 * so only from a server that does (memory.eviction of kvd). args->values has to be 0. Needs the
 * rights scan and read. To be scanned is no use of a key, and costs the server what kvd_scan()
 * costs.
 *
 * Limits. The server does not see GETs by READ, but the clients' access records alone: one hit in
 * kvd_info.access_rate at most, up to memory.access_delay late, which stands for those that were
 * not reported. So the uses are estimates. GETs by request and PUTs are uses, too. A key that is
 * stored anew after it was deleted, evicted or has expired begins anew.
 *
 * KVD_ERR_INVALID: as of kvd_scan(); or the server does not evict.
 * KVD_ERR_NOT_ALLOWED: the user may not read, or not scan.
 * Else as for kvd_scan().
 */
enum kvd_status kvd_scan_uses(struct kvd *handle, uint64_t *cursor,
			      const struct kvd_scan_args *args, kvd_used_fn each, void *arg);

/*
 * Sends an empty request to the server's worker and waits for the response, for at most timeout_ms.
 *
 * KVD_OK: the server works, and so does the connection.
 * KVD_ERR_TIMEOUT, KVD_ERR_DISCONNECTED, KVD_ERR_DEVICE, KVD_ERR_PROTOCOL: see the top.
 *
 * Cost: one message and one response.
 */
enum kvd_status kvd_ping(struct kvd *handle);

/*
 * Gets the server's statistics: lines of "name value\n"; `kvd --help` explains the names. Writes at
 * most @size bytes to @text, including a terminating zero, and the length without it to *@len,
 * unless @len is NULL. May need several requests; each blocks for at most timeout_ms.
 *
 * KVD_ERR_BUFFER: @size is too small (64 KiB is always enough).
 * KVD_ERR_INVALID: @text is NULL or @size is 0.
 * Else as for kvd_ping().
 */
enum kvd_status kvd_server_stats(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * Gets a list of the server's connections: a line for each, of name=value pairs with a space
 * between them and a newline at the end. Later versions may add pairs.
 *
 *	id	  for kvd_client_kill(); never used again by this start of the server
 *	device	  of the server
 *	addr	  ADDRESS:PORT of the client, or on the software device pid:PROCESS
 *	uid	  the client's user; on the software device only
 *	worker	  the server's thread that serves it
 *	state	  hello: not yet open; open; closing
 *	age	  seconds since it connected
 *	idle	  seconds since its last request; GETs by READ are not seen
 *	requests  received from it
 *	received  bytes in them, without values that the server fetched by READs
 *	sent	  bytes in responses
 *	window	  requests that it may have outstanding: 1 when it has been idle for some seconds
 *
 * Writes at most @size bytes to @text, with a terminating zero, and the length without it to *@len,
 * unless @len is NULL. May need several requests, each of which blocks for at most timeout_ms. A
 * connection that is open from the first to the last is listed once. For those with the right
 * admin; where the server has no users, whoever can connect may ask.
 *
 * KVD_ERR_BUFFER: @size is too small (256 bytes for each connection are enough).
 * KVD_ERR_BUSY: the server has no memory for the list now.
 * KVD_ERR_INVALID: @text is NULL or @size is 0.
 * Else as for kvd_ping().
 */
enum kvd_status kvd_client_list(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * Closes the connection with this id on the server. Its client connects again (see Connections),
 * unless its kvd_options.reconnect is 0. For those with the right admin; where the server has no
 * users, whoever can connect may do this to all others.
 *
 * KVD_NOT_FOUND: there is no such connection, or not any more.
 * KVD_ERR_DISCONNECTED: it was the handle's own, or that was lost.
 * Else as for kvd_ping().
 */
enum kvd_status kvd_client_kill(struct kvd *handle, uint64_t id);

/*
 * Closes all connections of a client on the server, at once: when this returns KVD_OK, none of
 * their queue pairs serves anything any more, one-sided READs included. @who, a string, says which:
 *
 *	user=NAME	 of the server's users, as kvd_client_list() has it
 *	identity=NAME	 the one that it proved, as kvd_client_list() has it
 *	uid=N		 the user, likewise: on the software device
 *	addr=ADDRESS	 where it connected from, with its port or, for all of a host, without
 *	id=N		 one connection
 *
 * The handle's own connection stays. Sets *@closed, unless @closed is NULL, to how many there were.
 * A client that may still connect does so again. So to keep one out, take it out of the server's
 * files of credentials first, and have it read them (SIGHUP): those that had shown them before, and
 * were not connected yet, are refused. For those with the right admin; where the server has no
 * users, whoever can connect may do this to all others.
 *
 * KVD_NOT_FOUND: there is no such connection.
 * KVD_ERR_INVALID: @who is none of these.
 * KVD_ERR_BUSY: within timeout_ms it was not certain of all connections; or more than 16 identities
 * were revoked within ten seconds. The same again goes on with it.
 * Else as for kvd_ping().
 */
enum kvd_status kvd_revoke(struct kvd *handle, const char *who, uint64_t *closed);

/*
 * Writes the tenants of the server to @text, one a line, as kvd_client_list() does with clients:
 * name=, bytes= (its memory), state= (serves, closing or
 * working), connections=, items=, item_memory_live_bytes= and evictions=. For administrators: root
 * and the server's own user, on the Unix socket.
 *
 * KVD_ERR_BUFFER: it does not fit @size bytes. KVD_ERR_INVALID: you are no administrator.
 */
enum kvd_status kvd_tenant_list(struct kvd *handle, char *text, size_t size, size_t *len);

/*
 * Creates a tenant with @bytes of memory, of the server's tenants.memory; @name has 1 to 24
 * letters, digits, '-', '_' and '.'. Gives a tenant another size, with the items that it has: its
 * connections are closed meanwhile, and handles connect again by themselves. Drops one with all of
 * its items. For administrators, as above.
 *
 * Block until that is done, which takes as long as filling that memory: raise timeout_ms. What was
 * begun is done, also if the call has timed out or the connection was lost.
 *
 * KVD_ERR_EXISTS: there is a tenant of that name. KVD_NOT_FOUND: there is none. KVD_ERR_NO_SPACE:
 * not so much of tenants.memory is left, which kvd_error() says with figures (to resize takes the
 * old and the new size together); the host has not so much; or not all items fit, and nothing may
 * be evicted. KVD_ERR_INVALID: name or size is not allowed, the tenant is "default" or your own, it
 * has a value of more than memory.pull_share percent of the new size, or you are no administrator.
 */
enum kvd_status kvd_tenant_create(struct kvd *handle, const char *name, uint64_t bytes);
enum kvd_status kvd_tenant_resize(struct kvd *handle, const char *name, uint64_t bytes);
enum kvd_status kvd_tenant_drop(struct kvd *handle, const char *name);

/*
 * Submitted operations. kvd_submit() starts any number of operations and returns at once;
 * kvd_poll(), which never blocks, or kvd_wait(), which does, hand them back when they have ended. A
 * program with an event loop waits for kvd_fd() to be readable:
 *
 *	struct kvd_op get, put, *ops[] = { &put, &get }, *done[2];
 *
 *	kvd_prep_put(&put, "name", 4, "Ada", 3, NULL);
 *	kvd_prep_get(&get, "city", 4, value, sizeof(value));
 *	if (kvd_submit(db, ops, 2))
 *		errx(1, "%s", kvd_error(db));
 *	while (kvd_outstanding(db))
 *		for (size_t n = kvd_wait(db, done, 2, 1, 1000); n--;)
 *			if (done[n]->status)
 *				warnx("%s", kvd_status_text(done[n]->status));
 *
 * Order. The changes of a handle (PUT, DELETE, INCR, DECR, TOUCH, GET_AND_TOUCH) take effect in the
 * order in which they were submitted, synchronous calls included, whether they succeed or not. A
 * GET sees the changes that were submitted to its handle before it; it may see one that was
 * submitted after it. GETs end in any order, and so do a GET and a change.
 *
 * Ownership. From kvd_submit() until it is handed back, an operation and the memory it points to
 * (key, value) belong to the library, and must not be changed or freed. Then they are the caller's:
 * the operation may be submitted again as it is, or prepared for another. kvd_close() hands nothing
 * back: after it, all are the caller's; prepare them anew before another handle gets them.
 *
 * Deadlines. An operation that has not ended timeout_ms after kvd_submit() ends with
 * KVD_ERR_TIMEOUT, when the library is next called.
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
};

/*
 * An operation. Prepare it with one of the kvd_prep functions, or zero it and set what the
 * operation needs; sizes and offsets are stable. The arguments mean what they mean in the
 * synchronous call of the same name, and the statuses are those of that call, or KVD_ERR_CANCELED.
 */
struct kvd_op {
	const void *key;
	size_t key_len;
	void *value;	  /* GETs: where the value goes; PUT: the value, which is only read */
	size_t value_len; /* bytes; GETs: the size of the buffer */

	/* Results, valid when it is handed back. */
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
	 * Not NULL: kvd_poll() and kvd_wait() call it instead of putting the operation into their
	 * array. In it, kvd_submit() and kvd_cancel() may be called on the handle, and the
	 * operation may be submitted again or freed; any other call on the handle returns
	 * KVD_ERR_INVALID, and kvd_poll() and kvd_wait() return 0.
	 */
	void (*done)(struct kvd_op *op, void *user);
	void *user;

	/*
	 * GETs and PUTs of a value in pieces: set by kvd_prep_getv() and kvd_prep_putv(), together
	 * with `value` and `value_len`; 0: the value is in one piece.
	 */
	const struct iovec *iov;
	uint32_t iov_count;
	uint32_t reserved_u32;

	uint64_t reserved[12]; /* the library's; zero before the first kvd_submit() */
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

/* As kvd_getv(). */
static inline void kvd_prep_getv(struct kvd_op *op, const void *key, size_t key_len,
				 const struct iovec *iov, uint32_t iov_count)
{
	kvd_prep(op, KVD_OP_GET, key, key_len);
	op->iov = iov;
	op->iov_count = iov_count;
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

/* As kvd_putv(). */
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
 * Submits @count operations: any number, behind those that were submitted before. Does not block.
 * All or none: if one can't be submitted, none is, and kvd_error() says what is wrong with it.
 *
 * KVD_OK: each will be handed back, with its own status.
 * KVD_ERR_INVALID: an argument of one is out of its range, or one is submitted already.
 * KVD_ERR_TOO_LARGE: a value is longer than the server's max_value. (One that is longer than the
 * device registers at once, as kvd_put() says, is submitted, and ends with it.)
 * KVD_ERR_NO_MEMORY: no memory for `depth` operations, at the first call.
 * KVD_ERR_DISCONNECTED: the connection was lost, and kvd_options.reconnect is 0.
 */
enum kvd_status kvd_submit(struct kvd *handle, struct kvd_op *const ops[], size_t count);

/*
 * Moves operations on, hands back those that have ended: calls done() of those that have one, and
 * writes up to @max others to @done, whose number it returns. @done may be NULL if @max is 0. Never
 * blocks. 0 if @handle can't be used: see Threads at the top.
 */
size_t kvd_poll(struct kvd *handle, struct kvd_op **done, size_t max);

/*
 * As kvd_poll(), but waits until @min operations or all that are outstanding have ended, those with
 * done() included, or @timeout_ms have passed (UINT32_MAX: no limit; each has its own deadline). It
 * polls for spin_us before it sleeps.
 */
size_t kvd_wait(struct kvd *handle, struct kvd_op **done, size_t max, size_t min,
		uint32_t timeout_ms);

/* Returns the number of operations that are submitted and not handed back. Does not block. */
size_t kvd_outstanding(const struct kvd *handle);

/*
 * Ends an operation early. Does not block; the operation is handed back as any other.
 *
 * KVD_OK: it ends with KVD_ERR_CANCELED, and had no effect on the server.
 * KVD_ERR_BUSY: it has ended, or it is a change or a GET with touch that was sent to the server: it
 * ends as if it had not been canceled.
 * KVD_ERR_INVALID: it is not submitted to this handle.
 */
enum kvd_status kvd_cancel(struct kvd *handle, struct kvd_op *op);

/*
 * Returns a descriptor for poll(2), epoll(7) or an event loop, which belongs to the handle; -1 if
 * there is none, and kvd_error() says why. It is readable when kvd_poll() has something to do since
 * kvd_arm() returned KVD_OK; also for deadlines, and when the connection is lost. Never read from
 * it. It is made at the first call, and stays the same when the handle connects again.
 */
int kvd_fd(struct kvd *handle);

/*
 * Prepares kvd_fd() for a wait. The loop is: kvd_poll() until it has nothing to hand back,
 * kvd_arm(), wait, kvd_poll(), and so on. Does not block.
 *
 * KVD_OK: the descriptor will be readable when there is something to do. What came since the last
 * kvd_poll() is not missed.
 * KVD_ERR_BUSY: an operation has ended: call kvd_poll() first.
 * KVD_ERR_INVALID: kvd_fd() was not called before.
 * KVD_ERR_DISCONNECTED: the connection was lost, and kvd_options.reconnect is 0.
 */
enum kvd_status kvd_arm(struct kvd *handle);

/*
 * Registered memory. A value that is read to it, or stored from it, is not copied by the library:
 * the device writes a value of a GET where it belongs, and the server READs that of a PUT from
 * where it is. Register an arena once, when the program starts, for as long as it runs. Every
 * operation of every handle of the process that was opened with the same URL finds by the address
 * of its buffer that it lies in registered memory; nothing else is to be said. A GET uses it if the
 * value is longer than 4 KiB and all of the buffer (value_size bytes) lies in it, a PUT if the
 * value does not fit a message. Otherwise the value is copied, as from any other memory.
 *
 * The content of a GET's buffer is undefined from the call on until KVD_OK, and it stays so with
 * any other status. Bytes of the buffer behind the value may be overwritten, too, but none outside
 * of the buffer. A GET that ends early (kvd_cancel(), its deadline) ends when nothing can be
 * written any more: when the READs in flight have completed, up to 200 ms after the deadline. If
 * they have not then, and if a PUT from registered memory was sent and its deadline passes, the
 * connection is closed first, as after a loss: then neither device nor server uses the memory any
 * more.
 *
 * fork(2). Memory of kvd_alloc() is not mapped in the child. Other registered memory is, and where
 * the device pins pages (rdma://), the kernel copies all of them for the child at fork(2): use
 * madvise(2) with MADV_DONTFORK on it, or kvd_alloc(). Before Linux 5.12 a fork(2) without that may
 * leave parent and device with different pages. The child must not register, free or deregister the
 * parent's.
 */
struct kvd_mem;

/*
 * Registers @bytes of memory at @addr, which the caller may write and which stays mapped until
 * kvd_deregister(). The device of @handle keeps it in memory where it is hardware (pinned, some 0.1
 * to 0.4 s for each GiB; less with large pages: madvise(2), MADV_HUGEPAGE). Longer memory than the
 * device takes at once becomes several registrations; a PUT of a value across the border of two is
 * copied. At most 64 for each URL at the same time. Blocks, without the network. It outlives the
 * handle. On softnic a PUT from it is copied: there the server READs only memory of kvd_alloc() by
 * itself.
 *
 * KVD_ERR_INVALID: @mem or @addr is NULL, @bytes is 0, or some of it is registered already.
 * KVD_ERR_NO_MEMORY: the device can't register it (RLIMIT_MEMLOCK), or there are too many.
 * KVD_ERR_DEVICE: the device failed, or is being removed.
 * KVD_ERR_DISCONNECTED: the connection was lost, and kvd_options.reconnect is 0.
 */
enum kvd_status kvd_register(struct kvd *handle, void *addr, size_t bytes, struct kvd_mem **mem);

/*
 * Allocates at least @bytes of zeros and registers them: of large pages as far as the host has
 * some, and in the way that suits the device best. *@addr is at the begin of a page. Where half of
 * a large page (2 MiB) or more is needed, all of it may be allocated. Errors as for kvd_register().
 */
enum kvd_status kvd_alloc(struct kvd *handle, size_t bytes, void **addr, struct kvd_mem **mem);

/*
 * End the registration of @mem; kvd_free() also frees the memory of kvd_alloc(). @mem is invalid
 * after KVD_OK. Any thread, also while others begin operations: these copy then, or find the memory
 * and make this one fail. Do not block. kvd_error(NULL) has the text.
 *
 * KVD_ERR_BUSY: operations use it, of any handle; nothing was done. They have ended when kvd_poll()
 * or the call returned them.
 * KVD_ERR_INVALID: @mem is NULL, or is to be ended by the other function.
 * KVD_ERR_DISCONNECTED: it is the parent's (fork(2)).
 */
enum kvd_status kvd_deregister(struct kvd_mem *mem);
enum kvd_status kvd_free(struct kvd_mem *mem);

struct kvd_mem_info {
	void *addr;
	size_t bytes;
	unsigned int registrations; /* with the device: 1, or more if it takes no longer ones */
	uint64_t register_ns;	    /* how long registering took */
};

/* Fills @info. Does not block. Any thread, until @mem is ended. */
void kvd_mem_info(const struct kvd_mem *mem, struct kvd_mem_info *info);

/*
 * What a handle is connected to. The strings belong to the handle, and are valid until its next
 * call: the device may be another one then.
 */
struct kvd_info {
	const char *device_kind; /* "verbs", "verbs-tcp", "verbs-tls" or "softnic" */
	const char *device_name; /* e.g. "mlx5_0", "rxe1", "softnic0" */
	const char *device_why;	 /* one line: why this device */
	/*
	 * One line: the path of the connection's queue pair, "gid=::ffff:10.9.0.1 gid_index=1
	 * mtu=1024 ...", whether you chose it or not; see kvd_open(). "" on softnic.
	 */
	const char *device_link;
	uint64_t incarnation;	 /* random number of this start of the server */
	uint64_t region_bytes;	 /* size of the server's memory region */
	uint64_t value_max;	 /* longest value that the server takes, in bytes */
	uint32_t window;	 /* requests that may be outstanding, now: 1 after an idle second */
	uint32_t request_bytes;	 /* longest message the server takes; it READs longer values */
	size_t cache_bytes;	 /* size of the bucket cache in use; 0: this handle has none */
	uint64_t buckets;	 /* of the server's index, as far as this handle knows */
	uint64_t clock_error_ns; /* how exactly this handle knows the server's clock, now */
	uint32_t access_rate;	 /* one hit in so many at most is reported; 0: none */
	const char *connection;	 /* "up", "waiting" (for its next try), "connecting" or "closed" */
	uint64_t reconnects;	 /* times that the handle connected again */
	const char *tenant;	 /* that the handle asks for; "" if it leaves that to the server */
};

/* Fills @info. Does not block. Works on a lost connection too. */
void kvd_info(const struct kvd *handle, struct kvd_info *info);

/*
 * Returns the server's clock now, in nanoseconds since 1970, by which keys expire: kvd_item's
 * expires_s is a second of it. As the handle knows it, so wrong by kvd_info.clock_error_ns at most,
 * which is small behind a kvd_ping(). 0 if the handle does not know it, as after its host was
 * suspended, or is NULL. Does not block. Works on a lost connection too.
 */
uint64_t kvd_clock_ns(const struct kvd *handle);

/*
 * What a handle has done: X(name, help). All count from kvd_open() on and never decrease.
 */
#define KVD_STATS_MAP(X)                                                                           \
	X(gets, "GETs done, with any status")                                                      \
	X(hits, "GETs that found their key")                                                       \
	X(misses, "GETs that did not")                                                             \
	X(exists, "keys of which only the existence was asked, with any status")                   \
	X(exists_found, "of those, that existed")                                                  \
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
	X(clock_jumps, "times a host's clock was seen to have stood still: see Expiry")            \
	X(access_records, "access records sent to the server")                                     \
	X(access_messages, "messages with reports of GETs alone, included in requests")            \
	X(requests, "messages sent to the server")                                                 \
	X(sent_bytes, "bytes in them, without the values that the server READs")                   \
	X(pulled_bytes, "bytes of values that the server fetched with RDMA READs")                 \
	X(direct_bytes, "bytes of values READ to or from registered memory, without a copy")       \
	X(sleeps, "times a call slept in the kernel for its completion")                           \
	X(reconnects, "times the handle connected again")                                          \
	X(resent, "requests sent again on another connection")                                     \
	X(repeated, "changes sent again that the server had executed before, and answered")        \
	X(unknown, "changes that ended with KVD_ERR_UNKNOWN")

struct kvd_stats {
#define X(name, help) uint64_t name;
	KVD_STATS_MAP(X)
#undef X
};

/* Copies the counters of @handle to @stats. Does not block. Works on a lost connection too. */
void kvd_stats(const struct kvd *handle, struct kvd_stats *stats);

/*
 * Returns the latency in nanoseconds below which the share @quantile (0 to 1) of the operations @op
 * on @handle stayed, exact to 1.6 %; 0 if there were none. @op is KVD_OP_GET, PUT, DELETE or SCAN:
 * every change except DELETE counts as a PUT. Every operation is measured, except that of GETs one
 * in 16 is; a submitted one from kvd_submit() to its end. Does not block. Works on a lost
 * connection too.
 */
uint64_t kvd_latency_ns(const struct kvd *handle, enum kvd_opcode op, double quantile);

/*
 * Observing operations. kvd_observe() has a handle count its operations and take their times;
 * kvd_op_stats() and kvd_stats_text() give the figures, of one handle or of the process.
 * kvd_trace() has it call a function at the start and the end of each operation. Both are off at
 * first; then they cost a few instructions for each operation. On, a GET reads the clock three
 * times.
 *
 * Operations are those of enum kvd_opcode: submitted ones, synchronous ones, each GET of
 * kvd_get_many(), each key of kvd_exists_many() and kvd_exists_leading() (up to 32 of them start
 * together and end together), and each kvd_scan(). One that is refused
 * before it begins, as with KVD_ERR_INVALID, is not observed, except one of many. Statistics,
 * lists and flushes are not operations.
 */

/* Which way an operation took, known at its end. */
enum kvd_path {
	KVD_PATH_NONE = 0,    /* it ended before anything was posted for it */
	KVD_PATH_WARM = 1,    /* by READ, from where the bucket cache said */
	KVD_PATH_COLD = 2,    /* by READs, of the index first */
	KVD_PATH_REQUEST = 3, /* by requests to the server; perhaps after READs */
	KVD_PATH_PULL = 4,    /* the same, and the server READ the value from here */
	KVD_PATH_DIRECT = 5,  /* registered memory: READ to it, or by the server from it; no copy */
};

enum kvd_observe {
	KVD_OBSERVE_OFF = 0,
	KVD_OBSERVE_OPS = 1, /* counts and times by operation and path */
};

/*
 * Sets what is observed on @handle: KVD_OBSERVE_OFF or KVD_OBSERVE_OPS. What was recorded stays.
 * Takes 5 KiB, and 60 KiB more for each operation and path when it is first used; without memory
 * for that nothing is recorded of them. While it is on, kvd_latency_ns() measures every submitted
 * GET. Does not block. Works on a lost connection too.
 *
 * @handle may be NULL if @flags is 0: forgets what was recorded of handles that are closed, which
 * otherwise counts on in the figures of the process.
 *
 * KVD_ERR_INVALID: an unknown flag.
 * KVD_ERR_BUSY: operations are outstanding. Nothing was changed.
 * KVD_ERR_NO_MEMORY: nothing was changed.
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
	uint64_t errors;	  /* with another one than KVD_OK and KVD_NOT_FOUND */
	struct kvd_times queue;	  /* from the start to the first post; KVD_PATH_NONE: to the end */
	struct kvd_times service; /* from the first post to the end */
};

/*
 * Writes what was recorded of operations @op on @path to @stats, of which @size is the size: zeros
 * where nothing was, or where the library has fewer fields. @handle may be NULL: the sum of all
 * handles of the process on which kvd_observe() was on, closed ones included; then any thread may
 * call it at any time, and each figure is true at some instant of the call. Does not block, but for
 * other such calls. Works on a lost connection too.
 *
 * KVD_ERR_INVALID: no such operation or path, or @stats is NULL.
 * KVD_ERR_NO_MEMORY: 60 KiB could not be allocated.
 * The text of these is kvd_error(NULL).
 */
enum kvd_status kvd_op_stats(const struct kvd *handle, enum kvd_opcode op, enum kvd_path path,
			     struct kvd_op_stats *stats, size_t size);

/*
 * Writes the sum of kvd_stats() over all handles of the process on which kvd_observe() was on to
 * @stats, of which @size is the size: of each, since it was opened, until its last operation that
 * ended while it was on. Handles that are closed count on. Returns how many are open. @stats may be
 * NULL. Any thread may call it at any time. Does not block, but for other such calls.
 */
size_t kvd_process_stats(struct kvd_stats *stats, size_t size);

enum kvd_stats_format {
	/*
	 * Lines of "name value\n": the names of KVD_STATS_MAP, then for each operation and path
	 * that was used OP_PATH_count and _errors, OP_PATH_queue_p50_ns, _p99_ns, _p999_ns and
	 * _max_ns, and the same with service, e.g. get_warm_service_p50_ns.
	 */
	KVD_STATS_LINES = 0,
	/*
	 * Prometheus' text format 0.0.4: a counter kvd_client_NAME_total for each of KVD_STATS_MAP,
	 * kvd_client_operations_total{op,path,status}, and the histograms kvd_client_queue_seconds
	 * and kvd_client_service_seconds{op,path}. status is a name of KVD_STATUS_MAP.
	 */
	KVD_STATS_PROMETHEUS = 1,
};

/*
 * Writes the statistics of @handle, or of the process if it is NULL (as kvd_process_stats() and
 * kvd_op_stats(); any thread), to @text: at most @size bytes with the terminating zero. *@len is
 * the length of the whole text without it, also if @size is too small; @len may be NULL, and so may
 * @text if @size is 0. Does not block, but for other such calls. Works on a lost connection too.
 *
 * KVD_ERR_BUFFER: @size is too small; @text has the begin of the text (256 KiB is always enough).
 * KVD_ERR_INVALID: no such format, or @text is NULL.
 * KVD_ERR_NO_MEMORY: 60 KiB could not be allocated.
 * The text of these is kvd_error(NULL).
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
	uint64_t start_ns;		/* the same at start and end: kvd_submit(), or the call */

	/* At its end only; else 0. */
	uint64_t posted_ns; /* of its first READ or request; 0: none was */
	uint64_t end_ns;
	enum kvd_status status;
	enum kvd_path path;
	uint32_t reads;	   /* RDMA READs of it */
	uint32_t messages; /* requests of it */
};

/*
 * Called by the thread that uses the handle, in the middle of its call: it must be short, and may
 * call nothing on that handle, which returns KVD_ERR_INVALID (kvd_poll() and kvd_wait() 0). @event
 * is valid during the call.
 */
typedef void (*kvd_trace_fn)(void *user, const struct kvd_trace_event *event);

/*
 * Has @trace called with @user at the start and the end of each operation of @handle; NULL: no
 * more. An operation that is outstanding at kvd_close() has no end. Does not block. Works on a lost
 * connection too.
 *
 * KVD_ERR_BUSY: operations are outstanding. Nothing was changed.
 * KVD_ERR_NO_MEMORY: nothing was changed.
 */
enum kvd_status kvd_trace(struct kvd *handle, kvd_trace_fn trace, void *user);

/*
 * Log lines. The library writes nothing anywhere; a program may have its lines, one for each event:
 *
 *	error	what failed in the device, with cause and remedy
 *	warn	a connection that is lost, or could not be opened: the text of kvd_error(); tries to
 *		connect again that fail; a kvd_close() that does nothing
 *	notice	(rare) what a user may want to know
 *	info	connections that are opened, opened again and closed: server, time it took
 *	debug	memory that is registered: bytes and time; the device's steps
 */
enum kvd_log_level {
	KVD_LOG_OFF = 0,
	KVD_LOG_ERROR = 1,
	KVD_LOG_WARN = 2,
	KVD_LOG_NOTICE = 3,
	KVD_LOG_INFO = 4,
	KVD_LOG_DEBUG = 5,
};

/*
 * Gets a line, without a newline, of at most 1,023 bytes, in which control characters are replaced.
 * Called by any thread that uses the library, with its locks held: it must not block for long, and
 * may call nothing of the library but kvd_status_text() and kvd_version(). @text is valid during
 * the call.
 */
typedef void (*kvd_log_fn)(void *user, enum kvd_log_level level, const char *text);

/*
 * Has @log called with @user for each line of @level or more severe, of all handles of the process;
 * KVD_LOG_OFF: for none, and @log may be NULL. Call it before the first kvd_open(), or while no
 * other thread is in a call of the library. Does not block.
 *
 * KVD_ERR_INVALID: no such level, or @log is NULL.
 */
enum kvd_status kvd_set_log(enum kvd_log_level level, kvd_log_fn log, void *user);

/*
 * What the library allocates memory with instead of malloc(3), realloc(3) and free(3), and in their
 * manner: aligned for any type, NULL where there is no memory. Any thread that uses the library may
 * call them, so they have to be as thread-safe as that needs. free() does not get NULL.
 */
struct kvd_allocator {
	void *(*alloc)(void *user, size_t bytes);
	void *(*realloc)(void *user, void *memory, size_t bytes);
	void (*free)(void *user, void *memory);
	void *user;
};

/*
 * Has all of the library's memory on the heap come from @allocator, which is copied; NULL: from the
 * C library, as without this call. For the whole process, before the first kvd_open(). It returns
 * all when the last handle is closed and, if kvd_observe() was used, kvd_observe(NULL, 0) called.
 * Not on the heap, and so not from it, are memory that is registered with a device, the bucket
 * cache, and what libibverbs, librdmacm and the C library allocate for themselves. Does not block.
 *
 * KVD_ERR_INVALID: one of the functions is NULL.
 * KVD_ERR_BUSY: the library has allocated memory already. Nothing was changed.
 */
enum kvd_status kvd_set_allocator(const struct kvd_allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif /* KVD_H */
