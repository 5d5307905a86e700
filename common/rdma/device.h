/* SPDX-License-Identifier: MIT */
/*
 * The device interface: all that kvd needs from an RDMA device, whatever its kind.
 *
 * All code above common/ uses libibverbs' own types. The data path needs no interface of ours:
 * ibv_post_send(), ibv_post_recv(), ibv_post_srq_recv(), ibv_poll_cq() and ibv_req_notify_cq() are
 * inline functions of <infiniband/verbs.h> that call through ibv_context.ops, which both kinds of
 * device fill in. The control path is struct device_ops, with two implementations:
 *
 *	verbs	(common/rdma/verbs/verbs.c)	the machine's RDMA devices: libibverbs and librdmacm
 *	softnic	(common/rdma/softnic/)	a software device for processes on the same host
 *
 * Conventions. Functions return 0 or a negative errno, whatever libibverbs or librdmacm return
 * inside. Only device_open() and sleep() block. Events are copied and acknowledged inside the call
 * that takes them, so no destroy call ever waits for one. Every destroy function accepts NULL.
 *
 * Threads: as in libibverbs, every call may be made on any thread, and an object must not be used
 * while it is being destroyed. Only one thread at a time may take events of a channel. Objects that
 * one thread uses for one connection can be declared so: create_channel_pair().
 */
#ifndef KVD_COMMON_RDMA_DEVICE_H
#define KVD_COMMON_RDMA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "common/rdma/link.h"
#include "common/tls/tls.h"

enum device_kind {
	DEVICE_RDMA = 1 << 0,	  /* rdma:// */
	DEVICE_SOFTNIC = 1 << 1,  /* softnic:// */
	DEVICE_RDMA_TCP = 1 << 2, /* rdma+tcp:// */
	DEVICE_RDMA_TLS = 1 << 3, /* rdma+tls:// */
	/* No devices: URLs for a server to listen at for clients of memcached's protocol. */
	LISTEN_MEMCACHED = 1 << 4,     /* memcached:// */
	LISTEN_MEMCACHED_TLS = 1 << 5, /* memcached+tls:// */
};

/* The kinds that set up connections over TCP or TLS, without rdma_cm. */
#define DEVICES_OVER_TCP (DEVICE_RDMA_TCP | DEVICE_RDMA_TLS)
/* The kinds that need an RDMA device. */
#define DEVICES_VERBS (DEVICE_RDMA | DEVICES_OVER_TCP)
/* The kinds that device_open() takes. */
#define DEVICES_ALL (DEVICES_VERBS | DEVICE_SOFTNIC)
#define LISTEN_MEMCACHED_ALL (LISTEN_MEMCACHED | LISTEN_MEMCACHED_TLS)

enum device_role {
	DEVICE_LISTEN,	/* a server: the address is its own */
	DEVICE_CONNECT, /* a client: the address is the server's */
};

#define DEVICE_HOST_MAX 256 /* bytes of a host name or address, with its zero byte */
#define DEVICE_PATH_MAX 108 /* bytes of a Unix socket's path, with its zero byte (sun_path) */
#define DEVICE_PEER_MAX 64  /* bytes of the address of a connection's other end, likewise */

/* The host to listen at if a URL names none. */
#define DEVICE_HOST_AUTO "auto"
/* Bytes of a URL, with its zero byte: scheme, [host], port. */
#define DEVICE_URL_MAX (DEVICE_HOST_MAX + 32)

struct device_addr {
	enum device_kind kind;
	/*
	 * Empty: a Unix socket. Listening at DEVICE_HOST_AUTO: rdma at the first usable address of
	 * an RDMA device, the others at every address of this host.
	 */
	char host[DEVICE_HOST_MAX];
	uint16_t port;		    /* likewise */
	struct device_link link;    /* not softnic */
	struct tls_files tls;	    /* rdma+tls; the names are the caller's, until open() returns */
	char path[DEVICE_PATH_MAX]; /* of the Unix socket: softnic, memcached:/// */
	unsigned int mode;	    /* of the Unix socket to listen at: its permissions */
};

/* An RDMA device in use. Made by device_open(), freed by device_close(). */
struct device {
	enum device_kind kind;
	const struct device_ops *ops;
	struct ibv_context *verbs; /* for the inline verbs and the queries */
	char name[IBV_SYSFS_NAME_MAX];
	uint8_t port_number; /* of the RDMA device; 0: softnic */
	bool serves_plain;   /* serves READs of memory without a file with this process's CPU */
	char address[DEVICE_HOST_MAX + 8]; /* "10.9.0.1:7471" or "/run/kvd.sock", for messages */
};

/*
 * Memory to register. If @fd is not -1, the memory is a shared mapping of that file (at
 * @fd_offset), a memfd with MFD_ALLOW_SEALING, and softnic passes it to the peers that may read,
 * which copy from it by themselves: those that connected to us map it read-only, those that we
 * connected to read it. For that it seals the file's length forever. Otherwise, and where a client
 * has no /proc, through which the file is reopened read-only, the owner serves READs while it
 * polls. Verbs ignores @fd.
 */
struct device_mem {
	void *addr;
	size_t length;
	int fd;
	uint64_t fd_offset;
};

struct value_sum; /* common/sum.h */

struct cm_channel {
	struct device *dev;
	int fd; /* readable when cm_get_event() has something to do */
};

/* One end of a connection, or a listener. */
struct cm_id {
	struct device *dev;
	struct cm_channel *channel;
	struct ibv_qp *qp; /* set by create_qp */
	void *context;	   /* the owner's */
};

/* The client that requested a connection. */
struct cm_peer {
	char address[DEVICE_PEER_MAX]; /* "10.9.0.1:4711", "[fe80::1]:4711" or "pid:4711" */
	bool uid_known;		       /* the kernel knows its user: a Unix socket's */
	uid_t uid;
	const char *identity; /* from tls_identity(), valid as long as the connection; or NULL */
	uint64_t since_ns;    /* rdma+tcp, rdma+tls: when it connected, by clock_ns(); else 0 */
};

/* Sets @peer to the process that connected the Unix socket. 0 or a negative errno. */
int cm_peer_local(struct cm_peer *peer, int sock);

#define CM_PRIVATE_MAX_CONNECT 56 /* bytes of private data: the least of what RDMA_PS_TCP allows */
#define CM_PRIVATE_MAX_ACCEPT 196
#define CM_PRIVATE_MAX_REJECT 148

struct cm_param {
	const void *private_data;
	uint8_t private_len;
	uint8_t responder_resources; /* READs the peer may have outstanding; 0 = the maximum */
	uint8_t initiator_depth;     /* READs we may have outstanding; 0 = the maximum */
	uint8_t retry_count;	     /* transport retries of what we send, 0 to 7 */
	uint8_t rnr_retry_count;     /* retries of our sends without a receive; 7 = forever */
	uint8_t min_rnr_timer;	     /* how long peers wait before they retry; IBTA code 1 to 31 */
};

enum cm_event_type {
	CM_CONNECT_REQUEST, /* listener: a new id, to be accepted or rejected, then destroyed */
	CM_ESTABLISHED,	    /* both ends: the queue pair is in RTS */
	CM_REJECTED,	    /* connecting end: private_data is the reason, as the peer gave it */
	CM_UNREACHABLE,	    /* connecting end: no such peer, or no response; status says why; if
			     * TLS failed, -EKEYREJECTED, private_data is a text that does; -EXDEV:
			     * the route to the peer uses another device now */
	CM_DISCONNECTED,   /* both ends: the peer disconnected, exited or died; the queue pair is in
			     * error. The end that called disconnect() does not get it. */
	CM_DEVICE_REMOVED, /* the device is gone; destroy everything on it */
};

struct cm_event {
	enum cm_event_type type;
	struct cm_id *id;
	/*
	 * Negative errno, or 0. DISCONNECTED, at an accepting end: -EACCES if the queue pair was
	 * already in the error state after a forbidden access by the peer, on devices that report
	 * no asynchronous event for that.
	 */
	int status;
	uint8_t private_data[256]; /* zero-padded: carry your own length in it */
	uint8_t private_len;
	uint8_t responder_resources; /* CONNECT_REQUEST, ESTABLISHED: what was negotiated for us */
	uint8_t initiator_depth;
};

struct device_async_event {
	enum ibv_event_type type;
	struct ibv_qp *qp;   /* for QP events, else NULL */
	struct ibv_srq *srq; /* for SRQ events, else NULL */
	struct ibv_cq *cq;   /* for CQ events, else NULL */
};

struct device_ops {
	const char *name;

	/*
	 * Opens the device of @addr. LISTEN: binds the address (EADDRINUSE, EADDRNOTAVAIL, ENODEV:
	 * no RDMA device has it; EINVAL: it means every device; ENOTSOCK: the path is a file that
	 * is not a socket; ENOENT, EACCES: librdmacm's device can't be opened) but accepts no
	 * connection yet; the caller logs why it failed, with the option to change. CONNECT:
	 * resolves address and route; waits up to @timeout_ms (ETIMEDOUT, EHOSTUNREACH, ENODEV,
	 * ECONNREFUSED, EACCES).
	 */
	int (*open)(struct device **dev, const struct device_addr *addr, enum device_role role,
		    int timeout_ms);
	void (*close)(struct device *dev);
	/*
	 * Reads the files of credentials again, for new connections. 0, or a negative errno with
	 * @why (TLS_WHY_MAX bytes; not for -ENOMEM), and nothing changes. Any thread. NULL: it has
	 * no credentials.
	 */
	int (*renew)(struct device *dev, const struct tls_files *files, char *why);
	int (*query)(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port);
	/*
	 * The most memory that a connection takes, with a queue pair of @cap and a shared receive
	 * queue; an estimate where a driver allocates the queue. Any thread, without a device.
	 */
	uint64_t (*conn_bytes)(const struct ibv_qp_cap *cap);
	/* Takes the next asynchronous event off dev->verbs->async_fd; -EAGAIN if there is none. */
	int (*get_async_event)(struct device *dev, struct device_async_event *event);

	/*
	 * Allocates at least @bytes bytes of zeros for reg_mr(), which a peer can READ in the best
	 * way that the device has: on softnic by itself, with one copy (a memfd: mem->fd). Uses
	 * pages of 2 MiB as far as this host has them, and takes them now where the device does not
	 * pin memory: some 0.2 s for each GiB. A child after fork(2) does not have the memory. Any
	 * thread may call alloc_mem() and free_mem(). -EINVAL: 0 or too many bytes; -ENOMEM;
	 * -EMFILE, -ENFILE: descriptors.
	 */
	int (*alloc_mem)(struct device *dev, size_t bytes, struct device_mem *mem);
	/*
	 * Frees the memory, after all its registrations: at once, whatever a peer still has open.
	 * Sets *mem so that it may be called again.
	 */
	void (*free_mem)(struct device *dev, struct device_mem *mem);
	int (*alloc_pd)(struct device *dev, struct ibv_pd **pd);
	void (*dealloc_pd)(struct ibv_pd *pd);
	/* @access: IBV_ACCESS_*. -ENOMEM if RLIMIT_MEMLOCK forbids it (verbs). */
	int (*reg_mr)(struct ibv_pd *pd, const struct device_mem *mem, int access,
		      struct ibv_mr **mr);
	void (*dereg_mr)(struct ibv_mr *mr);
	/*
	 * Allocates a memory window of type 2B, where the device has them
	 * (IBV_DEVICE_MEM_WINDOW_TYPE_2B in device_cap_flags): one queue pair's key to a part of a
	 * registration. It is bound once, by ibv_post_send() of IBV_WR_BIND_MW on that queue pair,
	 * with a key that ibv_inc_rkey() makes of its rkey: from the completion on, and for
	 * requests posted after it, the peer of this queue pair, and no other, may READ by that
	 * key. The registration and the queue pair need IBV_ACCESS_MW_BIND, the queue pair
	 * IBV_ACCESS_REMOTE_READ, too. A bind that is not allowed fails with IBV_WC_MW_BIND_ERR,
	 * and so does the queue pair. 0, -ENOMEM: there are no more, or -EOPNOTSUPP.
	 */
	int (*alloc_mw)(struct ibv_pd *pd, struct ibv_mw **mw);
	/* Ends its key. Call it before its queue pair and its registration are destroyed. */
	void (*dealloc_mw)(struct ibv_mw *mw);

	/*
	 * The channel's fd is non-blocking and readable when get_cq_event has something to do. That
	 * need not be a notification (softnic's peers wake us to be served), so -EAGAIN then only
	 * means: poll the CQs and sleep again.
	 */
	int (*create_comp_channel)(struct device *dev, struct ibv_comp_channel **channel);
	void (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	/*
	 * Creates both channels of a program with one connection, which one thread at a time uses:
	 * no two calls on the channels, their CQs, the id and its queue pair may overlap, those of
	 * the data path included. Then softnic takes no locks in these, and has one descriptor for
	 * both channels, which are readable when either has something to do. Any thread may make
	 * the calls, one after another; the device and its other objects are not affected.
	 * Providers of libibverbs take their locks all the same. Only one id may exist at a time,
	 * it can't listen, and its queue pair's CQs are this channel's. Where sleep(), with the CM
	 * channel's fd, returns 1, take the events of the CM channel. Destroy @cm before @comp.
	 */
	int (*create_channel_pair)(struct device *dev, struct ibv_comp_channel **comp,
				   struct cm_channel **cm);
	int (*create_cq)(struct device *dev, int cqe, void *cq_context,
			 struct ibv_comp_channel *channel, struct ibv_cq **cq);
	void (*destroy_cq)(struct ibv_cq *cq);
	/*
	 * Takes the next notification off @channel and acknowledges it; -EAGAIN if there is none.
	 */
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq);
	/*
	 * Sleeps until @channel has something to do, @fd (-1: none) is readable, or @timeout_ms
	 * have passed (-1: never). Then does that work, like get_cq_event, and takes all
	 * notifications: call ibv_req_notify_cq() and poll before, and poll after. Returns 1 if @fd
	 * is readable, 0 if that is not known, or a negative errno. Call it with the same @fd each
	 * time.
	 */
	int (*sleep)(struct ibv_comp_channel *channel, int fd, int timeout_ms);

	int (*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **srq);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
	void (*destroy_srq)(struct ibv_srq *srq);

	/*
	 * Creates the queue pair of @id, in INIT with exactly @access (IBV_ACCESS_*) for the peer.
	 * Connection management moves it on to RTS. Updates @attr with the sizes granted.
	 */
	int (*create_qp)(struct cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			 int access);
	/* For IBV_QP_STATE to IBV_QPS_ERR, and IBV_QP_ACCESS_FLAGS in RTS. */
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	/*
	 * Where a READ of this memory by @qp would copy from, if that is mapped here, else NULL:
	 * only for prefetching, since nothing keeps it mapped.
	 */
	const uint8_t *(*read_source)(struct ibv_qp *qp, uint32_t rkey, uint64_t addr,
				      uint64_t length);
	/*
	 * READs memory within the call and without a work request, where that can be done without
	 * the peer: on softnic, memory that has a file. Adds the READ bytes to @sum. Returns their
	 * number, at least one of @bytes; with 0 bytes, 0 says that it can be done. Or a negative
	 * errno, with @sum unchanged: then post a READ, which completes with the error, if any. Not
	 * ordered with posted work requests. @to need not be registered. The accepting end's copies
	 * go past the CPU's cache. -EBUSY: the peer is filling the memory, as it said by fill(),
	 * and too little is there yet.
	 */
	int64_t (*read_now)(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to,
			    uint32_t bytes, struct value_sum *sum);
	/*
	 * Tells the peer to wait with READs of our memory that has a file: @left bytes from @addr
	 * on are being filled, from the first to the last, and nothing after them; 0: all is there.
	 * Until then the queue pair serves no READs that need its help. False: the peer does not
	 * wait, so all must be there before a READ is possible; for one connection the answer is
	 * always the same.
	 */
	bool (*fill)(struct ibv_qp *qp, uint64_t addr, uint32_t left);
	/* Destroys id->qp and sets it to NULL. Its completions that were not polled are lost. */
	void (*destroy_qp)(struct cm_id *id);

	int (*create_cm_channel)(struct device *dev, struct cm_channel **channel);
	void (*destroy_cm_channel)(struct cm_channel *channel);
	/* Takes the next event off @channel; -EAGAIN if there is none. */
	int (*cm_get_event)(struct cm_channel *channel, struct cm_event *event);
	/* Starts to accept connections at the address that the device was opened with. */
	int (*listen)(struct cm_channel *channel, int backlog, struct cm_id **id);
	/* Creates an id for connect(), for the address that the device was opened with. */
	int (*create_id)(struct cm_channel *channel, struct cm_id **id);
	/*
	 * The response is ESTABLISHED, REJECTED or UNREACHABLE, and comes only if the caller takes
	 * events: cm_get_event does the steps of connecting.
	 */
	int (*connect)(struct cm_id *id, const struct cm_param *param);
	/* accept() and reject() answer a request, once: after that they return -ENOTCONN. */
	int (*accept)(struct cm_id *id, const struct cm_param *param);
	int (*reject)(struct cm_id *id, const void *private_data, uint8_t private_len);
	/* For an id of CONNECT_REQUEST, until it is destroyed. */
	int (*query_peer)(struct cm_id *id, struct cm_peer *peer);
	/*
	 * Moves the queue pair to the error state, so that all its work requests are flushed, and
	 * notifies the peer. May be called more than once and in any state.
	 */
	int (*disconnect)(struct cm_id *id);
	/* Destroys the queue pair too, if there is still one. */
	void (*destroy_id)(struct cm_id *id);
};

extern const struct device_ops verbs_ops;
extern const struct device_ops tcp_ops;
extern const struct device_ops tcp_tls_ops;
extern const struct device_ops softnic_ops;

/*
 * Parses the URL of a server: "rdma://HOST:PORT", "rdma+tcp://HOST:PORT", "rdma+tls://HOST:PORT" or
 * "softnic:///PATH". HOST is a name, an IPv4 address or [IPv6]; without ":PORT" the scheme's
 * default port is used. All but softnic's may end with options, "?traffic_class=106&retry_count=7"
 * (common/rdma/link.h). -EINVAL if @url is none of them; @why (@why_size bytes) then is a whole
 * sentence that says what is wrong and how to fix it.
 */
int device_addr_parse(struct device_addr *addr, const char *url, char *why, size_t why_size);

/*
 * As device_addr_parse(), for a URL to listen at. The host may be missing: then it is
 * DEVICE_HOST_AUTO. So may softnic's path, which is then "". Options are refused.
 */
int device_listen_parse(struct device_addr *addr, const char *url, char *why, size_t why_size);

/* Writes the URL from which device_listen_parse() makes @addr, with port: DEVICE_URL_MAX bytes. */
void device_addr_text(const struct device_addr *addr, char *text);

/* How the URL of a server starts, like "rdma://". @kind is a single kind. */
const char *device_scheme(enum device_kind kind);

/*
 * Returns whether this host has an RDMA device that libibverbs can use, and its name in @name
 * (IBV_SYSFS_NAME_MAX bytes).
 */
bool device_verbs_present(char *name);

#define DEVICE_LINK_TEXT_MAX 256

/*
 * Says how the queue pair of a connection uses the network, "gid=::ffff:10.9.0.1 gid_index=1 ...":
 * with the names of common/rdma/link.h, whether set or chosen by the device. "": softnic, or the
 * queue pair can't be queried.
 */
void device_link_text(struct device *dev, struct ibv_qp *qp, char text[DEVICE_LINK_TEXT_MAX]);

static inline const struct device_ops *device_ops_of(enum device_kind kind)
{
	switch (kind) {
	case DEVICE_RDMA:
		return &verbs_ops;
	case DEVICE_RDMA_TCP:
		return &tcp_ops;
	case DEVICE_RDMA_TLS:
		return &tcp_tls_ops;
	default:
		return &softnic_ops;
	}
}

static inline bool device_kind_is_rdma(enum device_kind kind)
{
	return kind & DEVICES_VERBS;
}

static inline int device_open(struct device **dev, const struct device_addr *addr,
			      enum device_role role, int timeout_ms)
{
	return device_ops_of(addr->kind)->open(dev, addr, role, timeout_ms);
}

/*
 * Whether both are on the same port of an RDMA device: then objects of one can be used for
 * connections of the other.
 */
static inline bool device_is_same(const struct device *a, const struct device *b)
{
	return device_kind_is_rdma(a->kind) && device_kind_is_rdma(b->kind) &&
	       !strcmp(a->name, b->name) && a->port_number == b->port_number;
}

static inline void device_close(struct device *dev)
{
	if (dev)
		dev->ops->close(dev);
}

static inline const char *device_kind_name(enum device_kind kind)
{
	return device_ops_of(kind)->name;
}

#endif /* KVD_COMMON_RDMA_DEVICE_H */
