/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing a handle: device, queue pair, rdma_cm, HELLO. Only the response to HELLO says
 * where the server's memory is and with which key the client may READ it.
 */
#include "client/open.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/async.h"
#include "client/call.h"
#include "client/observe.h"
#include "client/transfer.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/sum.h"
#include "common/util/heap.h"

/* Bytes of inline data to ask for: a request header with a short key and value. */
#define INLINE_WANTED 220
/* Transport retries. Not 7, the most there is: rdma_rxe (Linux 6.1) takes that for no limit. */
#define RETRY_COUNT 6
/* IBTA code 12: 0.64 ms. rdma_cm's default, 0, is 655 ms. */
#define MIN_RNR_TIMER 12
/*
 * The index grows, so what bounds the cache is not the index's size now, but an eighth of the
 * region: with more slots than that has room for, items are so small that caching all is useless.
 */
#define CACHE_SHARE 8
/* How long kvd_close() waits for the responses to the last access records. */
#define CLOSE_WAIT_MS 50
/* A completion for each work request that can be posted, so that the queue can't overrun. */
#define CQ_SIZE (SENDS_MAX + MESSAGES_MAX)

void kvd_options_init(struct kvd_options *options)
{
	if (!options)
		return;
	*options = (struct kvd_options){
		.timeout_ms = 2000,
		.connect_timeout_ms = 5000,
		.cache_bytes = 32u << 20,
		.spin_us = 200,
		.get_tries = 16,
		.depth = 64,
	};
}

static enum kvd_status options_check(struct kvd *handle)
{
	const struct kvd_options *o = &handle->options;

	if (o->timeout_ms < 1 || o->timeout_ms > 3600000)
		return handle_fail(handle, KVD_ERR_INVALID, "timeout_ms is %u: 1 to 3600000",
				   o->timeout_ms);
	if (o->connect_timeout_ms < 1 || o->connect_timeout_ms > 3600000)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "connect_timeout_ms is %u: 1 to 3600000", o->connect_timeout_ms);
	if (o->spin_us > 1000000)
		return handle_fail(handle, KVD_ERR_INVALID, "spin_us is %u: at most 1000000",
				   o->spin_us);
	if (o->get_tries < 1 || o->get_tries > 1000)
		return handle_fail(handle, KVD_ERR_INVALID, "get_tries is %u: 1 to 1000",
				   o->get_tries);
	if (o->depth < 1 || o->depth > 1024)
		return handle_fail(handle, KVD_ERR_INVALID, "depth is %u: 1 to 1024", o->depth);
	return KVD_OK;
}

/* The process, or the host, has no memory or no descriptor for it. */
static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -ENOBUFS;
}

/* The status for a device's negative errno while connecting. */
static enum kvd_status status_of(int err)
{
	if (is_shortage(err))
		return KVD_ERR_NO_MEMORY;
	switch (err) {
	case -ENODEV:
	case -ENOSYS:
		return KVD_ERR_DEVICE;
	case -ETIMEDOUT:
		return KVD_ERR_TIMEOUT;
	case -EACCES:
	case -EPERM:
		return KVD_ERR_REFUSED;
	default:
		return KVD_ERR_UNREACHABLE;
	}
}

/* The permissions of the socket, or of a folder on its path, forbid it. */
static enum kvd_status fail_no_permission(struct kvd *handle, const char *path, int err)
{
	return handle_fail(handle, KVD_ERR_REFUSED,
			   "no permission for %s: %s; run as a user whom the socket "
			   "(softnic.socket_mode) and its folders let in",
			   path, strerror(-err));
}

/* The device says ECONNREFUSED if there is no socket at the path, or a file that is none. */
static enum kvd_status open_softnic_failed(struct kvd *handle, const char *path, int err)
{
	struct stat st;

	if (err == -EACCES || err == -EPERM)
		return fail_no_permission(handle, path, err);
	if (err == -ECONNREFUSED && !stat(path, &st))
		return handle_fail(handle, KVD_ERR_UNREACHABLE,
				   "%s is not a socket: give the path of kvd's (softnic.socket)",
				   path);
	if (err == -ECONNREFUSED)
		return handle_fail(handle, KVD_ERR_UNREACHABLE, "no socket at %s: is kvd running?",
				   path);
	return handle_fail(handle, status_of(err), "softnic device for %s: %s", path,
			   strerror(-err));
}

static enum kvd_status open_verbs_failed(struct kvd *handle, const char *url, int err)
{
	char name[IBV_SYSFS_NAME_MAX];

	if (err == -ENODEV && !device_verbs_present(name))
		return handle_fail(
			handle, KVD_ERR_DEVICE,
			"%s: this host has no RDMA device; for a server on this host use "
			"softnic:///PATH",
			url);
	if (err == -ENODEV)
		return handle_fail(handle, KVD_ERR_DEVICE,
				   "%s: the route to this host leads over no RDMA device; `rdma "
				   "link` shows those there are",
				   url);
	return handle_fail(handle, status_of(err), "%s can't be reached by RDMA: %s", url,
			   strerror(-err));
}

/*
 * Opens the device that leads to @url, or takes that of other handles with this URL: for verbs,
 * resolves the name, the address and the route.
 */
static enum kvd_status open_device(struct kvd *handle, const char *url)
{
	struct shared_failure failure;
	struct device_addr addr;
	char reason[160];
	int err;

	if (!url)
		return handle_fail(handle, KVD_ERR_INVALID, "the URL is NULL");
	if (device_addr_parse(&addr, url, reason, sizeof(reason)))
		return handle_fail(handle, KVD_ERR_INVALID, "%s: %s", url, reason);
	err = shared_device_get(&handle->shared_device, url, &addr,
				(int)handle->options.connect_timeout_ms, &failure);
	if (err && failure.what)
		return handle_fail(handle, is_shortage(err) ? KVD_ERR_NO_MEMORY : KVD_ERR_DEVICE,
				   "device %s %s: %s", failure.name, failure.what, strerror(-err));
	if (err)
		return addr.kind == DEVICE_SOFTNIC ? open_softnic_failed(handle, addr.path, err) :
						     open_verbs_failed(handle, url, err);
	handle->dev = handle->shared_device->dev;
	handle->pd = handle->shared_device->pd;
	handle->message_max = handle->shared_device->port.max_msg_sz;
	handle->conn.read_sges_max = handle->shared_device->read_sges_max;
	return KVD_OK;
}

/* What fails half way is destroyed by kvd_close(), as everything else. */
static int open_queues(struct kvd *handle)
{
	const struct device_ops *ops = handle->dev->ops;
	int err;

	/* A handle belongs to one thread at a time. */
	err = ops->create_channel_pair(handle->dev, &handle->conn.comp_channel,
				       &handle->conn.cm_channel);
	if (!err)
		err = ops->create_cq(handle->dev, CQ_SIZE, handle, handle->conn.comp_channel,
				     &handle->conn.cq);
	if (!err)
		err = ops->create_id(handle->conn.cm_channel, &handle->conn.id);
	return err;
}

/* The server may READ memory for which it has an rkey: values too long for a message. */
static int open_qp(struct kvd *handle)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = handle->conn.cq,
		.recv_cq = handle->conn.cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = SENDS_MAX,
			.max_recv_wr = MESSAGES_MAX,
			.max_send_sge = handle->conn.read_sges_max,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_WANTED,
		},
	};
	int err = handle->dev->ops->create_qp(handle->conn.id, handle->pd, &attr,
					      IBV_ACCESS_REMOTE_READ);

	if (err)
		return err;
	handle->conn.qp = handle->conn.id->qp;
	handle->conn.inline_max = attr.cap.max_inline_data;
	return 0;
}

enum kvd_status open_buffers(struct kvd *handle)
{
	enum kvd_status status = rpc_open(handle);

	return status ? status :
			handle_buf_resize(handle, &handle->conn.ring, RING_BYTES_MIN,
					  IBV_ACCESS_LOCAL_WRITE);
}

static enum kvd_status open_resources(struct kvd *handle)
{
	int err = open_queues(handle);

	if (!err)
		err = open_qp(handle);
	if (err)
		return handle_fail(handle, is_shortage(err) ? KVD_ERR_NO_MEMORY : KVD_ERR_DEVICE,
				   "device %s: can't set up a queue pair: %s", handle->dev->name,
				   strerror(-err));
	return open_buffers(handle);
}

static enum kvd_status abi_differs(struct kvd *handle, uint32_t server_abi)
{
	char text[WIRE_REJECT_TEXT_BYTES];

	wire_abi_text(text, WIRE_ABI, server_abi);
	return handle_fail(handle, KVD_ERR_PROTOCOL, "%s: %s", handle->dev->address, text);
}

/* The reason is the peer's private data; a peer that is not kvd sends none, or another one. */
static enum kvd_status connect_rejected(struct kvd *handle, const struct cm_event *event)
{
	struct wire_reject reject;

	memcpy(&reject, event->private_data, sizeof(reject));
	if (event->private_len < sizeof(reject) || reject.magic != WIRE_MAGIC)
		return handle_fail(handle, KVD_ERR_REFUSED, "%s refuses the connection: is it kvd?",
				   handle->dev->address);
	if (reject.reason == WIRE_REJECT_VERSION && reject.abi != WIRE_ABI)
		return abi_differs(handle, reject.abi);
	reject.text[sizeof(reject.text) - 1] = '\0';
	return handle_fail(
		handle, reject.reason == WIRE_REJECT_VERSION ? KVD_ERR_PROTOCOL : KVD_ERR_REFUSED,
		"%s refuses the connection: %s", handle->dev->address, reject.text);
}

/* No connection came about, and the server did not say why. */
static enum kvd_status connect_failed(struct kvd *handle, int err)
{
	const char *address = handle->dev->address;

	if (is_shortage(err))
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "can't connect to %s: %s", address,
				   strerror(-err));
	switch (err) {
	case -EACCES:
	case -EPERM:
		return fail_no_permission(handle, address, err);
	case -ECONNREFUSED:
		return handle_fail(handle, KVD_ERR_UNREACHABLE,
				   "nobody listens at %s: is kvd running? (%s)", address,
				   strerror(-err));
	case -ETIMEDOUT:
		return handle_fail(handle, KVD_ERR_TIMEOUT, "no response from %s: %s", address,
				   strerror(-err));
	case -EPROTONOSUPPORT:
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "kvd at %s has another version of the protocol: use the same "
				   "version of kvd on both sides",
				   address);
	default:
		return handle_fail(handle, KVD_ERR_UNREACHABLE, "can't connect to %s: %s", address,
				   strerror(-err));
	}
}

/* *@done: the attempt has ended, with the status that is returned. */
static enum kvd_status connect_event(struct kvd *handle, const struct cm_event *event, bool *done)
{
	*done = true;
	switch (event->type) {
	case CM_ESTABLISHED:
		return KVD_OK;
	case CM_REJECTED:
		return connect_rejected(handle, event);
	case CM_UNREACHABLE:
		return connect_failed(handle, event->status);
	case CM_DISCONNECTED:
		return handle_fail(handle, KVD_ERR_DISCONNECTED,
				   "%s closed the connection while it was set up",
				   handle->dev->address);
	case CM_DEVICE_REMOVED:
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s was removed",
				   handle->dev->name);
	case CM_CONNECT_REQUEST:
		break;
	}
	*done = false;
	return KVD_OK;
}

/* The device does the steps of connecting in cm_get_event(), so it is called until the end. */
static enum kvd_status wait_connected(struct kvd *handle)
{
	struct pollfd fd = { handle->conn.cm_channel->fd, POLLIN, 0 };
	enum kvd_status status = KVD_OK;
	struct cm_event event;
	bool done = false;
	uint64_t now;
	int err;

	for (;;) {
		err = handle->dev->ops->cm_get_event(handle->conn.cm_channel, &event);
		if (!err)
			status = connect_event(handle, &event, &done);
		else if (err != -EAGAIN)
			return handle_fail(handle, KVD_ERR_DEVICE, "device %s: no events: %s",
					   handle->dev->name, strerror(-err));
		if (status || done)
			return status;
		now = clock_ns();
		if (now >= handle->deadline_ns)
			return handle_fail(handle, KVD_ERR_TIMEOUT,
					   "no response from %s within connect_timeout_ms",
					   handle->dev->address);
		if (err)
			poll(&fd, 1, (int)((handle->deadline_ns - now) / 1000000 + 1));
	}
}

static enum kvd_status open_connect(struct kvd *handle)
{
	const struct wire_connect hello = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.bytes = WIRE_CONNECT_BYTES,
		.features = WIRE_FEATURE_WINDOW,
	};
	const struct cm_param param = {
		.private_data = &hello,
		.private_len = sizeof(hello),
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = 7,
		.min_rnr_timer = MIN_RNR_TIMER,
	};
	int err = handle->dev->ops->connect(handle->conn.id, &param);

	if (err)
		return handle_fail(handle, status_of(err), "can't connect to %s: %s",
				   handle->dev->address, strerror(-err));
	return wait_connected(handle);
}

/* NULL, or what is wrong. All later code relies on these bounds. */
static const char *welcome_check(const struct wire_welcome *welcome)
{
	if (welcome->features & ~WIRE_FEATURE_WINDOW)
		return "features that were not offered";
	if (!welcome->window || welcome->window > WIRE_WINDOW_MAX)
		return "window out of range";
	if (welcome->request_bytes < WIRE_REQUEST_MIN || welcome->request_bytes > WIRE_RESPONSE_MAX)
		return "request size out of range";
	return geometry_check(&welcome->geometry);
}

/* What this handle has in common with others of the process: client/shared.h. */
static enum kvd_status open_shared(struct kvd *handle, const struct geometry *geometry)
{
	size_t cache_bytes = handle->options.cache_bytes;
	int err = shared_server_get(&handle->server, handle->shared_device->url, geometry);

	if (err == -EPROTO)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "%s says other things of its memory than it said to another "
				   "handle of this process",
				   handle->dev->address);
	if (cache_bytes > geometry->region_bytes / CACHE_SHARE)
		cache_bytes = geometry->region_bytes / CACHE_SHARE;
	if (!err)
		err = shared_server_cache(handle->server, cache_bytes, &handle->cache);
	if (err)
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "no memory for a cache of %zu bytes",
				   cache_bytes);
	bcache_level(&handle->cache, geometry->level);
	return KVD_OK;
}

enum kvd_status open_welcome(struct kvd *handle, const struct wire_welcome *welcome)
{
	enum kvd_status status;
	const char *error;

	if (welcome->magic != WIRE_MAGIC)
		return handle_fail(handle, KVD_ERR_PROTOCOL, "%s does not speak kvd's protocol",
				   handle->dev->address);
	if (welcome->abi != WIRE_ABI)
		return abi_differs(handle, welcome->abi);
	error = welcome_check(welcome);
	if (error)
		return handle_fail(handle, KVD_ERR_PROTOCOL, "%s: bad welcome: %s",
				   handle->dev->address, error);
	handle->geometry = welcome->geometry;
	handle->conn.region_addr = welcome->region_addr;
	handle->conn.rkey = welcome->rkey;
	handle->conn.window = welcome->window;
	handle->conn.window_moves = welcome->features & WIRE_FEATURE_WINDOW;
	handle->conn.request_bytes = welcome->request_bytes;
	access_init(&handle->access, welcome->access_rate, welcome->access_delay_ms,
		    clock_ns() ^ (uintptr_t)handle);
	status = open_shared(handle, &welcome->geometry);
	return status ? status : rpc_resize(handle);
}

/* HELLO also tells the server how long our receive buffers are. */
static enum kvd_status open_hello(struct kvd *handle)
{
	const struct wire_hello hello = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.response_bytes = RESPONSE_BYTES,
	};
	struct rpc rpc = {
		.head = { .op = WIRE_HELLO, .value_len = sizeof(hello) },
		.value = &hello,
	};
	struct wire_welcome welcome = { 0 };
	struct response response;
	enum kvd_status status = rpc_call(handle, &rpc, &response);

	if (status)
		return status;
	if (response.value_len)
		memcpy(&welcome, response.value,
		       response.value_len < sizeof(welcome) ? response.value_len : sizeof(welcome));
	/* That of another ABI may have another length. */
	if (response.value_len != sizeof(welcome) && welcome.abi == WIRE_ABI)
		return handle_fail(handle, KVD_ERR_PROTOCOL, "%s: welcome of %u bytes",
				   handle->dev->address, response.value_len);
	return open_welcome(handle, &welcome);
}

static enum kvd_status open_all(struct kvd *handle, const char *url)
{
	enum kvd_status status = options_check(handle);

	handle->deadline_ns = clock_ns() + handle->options.connect_timeout_ms * 1000000ull;
	if (!status)
		status = open_device(handle, url);
	if (!status)
		status = open_resources(handle);
	if (!status)
		status = open_connect(handle);
	if (!status)
		status = open_hello(handle);
	return status;
}

/*
 * A server that can't be reached may be where the name leads now, and a device that failed may be
 * back: later handles get a device of their own. Returns whether it was an old one.
 */
static bool open_condemns(struct kvd *handle, enum kvd_status status)
{
	if (!handle->shared_device)
		return false;
	if (status != KVD_ERR_DEVICE && status != KVD_ERR_UNREACHABLE && status != KVD_ERR_TIMEOUT)
		return false;
	return shared_device_condemn(handle->shared_device);
}

/* *@stale: it failed on other handles' device, and may not on another. */
static enum kvd_status open_once(struct kvd **out, const char *url,
				 const struct kvd_options *options, bool *stale)
{
	enum kvd_status status;
	struct kvd *handle;

	*stale = false;
	handle = heap_calloc(1, sizeof(*handle));
	if (!handle)
		return handle_error_set(NULL, KVD_ERR_NO_MEMORY, "out of memory");
	handle_init(handle, options);
	status = open_all(handle, url);
	if (status) {
		handle_error_set(NULL, status, "%s", handle->error);
		*stale = open_condemns(handle, status) && status == KVD_ERR_DEVICE;
		kvd_close(handle);
		return status;
	}
	/* HELLO does not count. */
	memset(&handle->stats, 0, sizeof(handle->stats));
	*out = handle;
	return KVD_OK;
}

static void open_log(const struct kvd *handle, uint64_t start_ns)
{
	if (handle)
		log_info("connected to %s in %llu us: %s device %s", handle->dev->address,
			 (unsigned long long)(clock_ns() - start_ns) / 1000,
			 device_kind_name(handle->dev->kind), handle->dev->name);
	else
		log_warn("%s", kvd_error(NULL));
}

enum kvd_status kvd_open(struct kvd **out, const char *url, const struct kvd_options *options)
{
	uint64_t start_ns = clock_ns();
	enum kvd_status status;
	bool stale;

	if (!out)
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"the pointer to the handle to open is NULL");
	*out = NULL;
	handle_error_set(NULL, KVD_OK, "%s", "");
	status = open_once(out, url, options, &stale);
	if (stale)
		status = open_once(out, url, options, &stale);
	open_log(*out, start_ns);
	return status;
}

void kvd_close(struct kvd *handle)
{
	const struct device_ops *ops;
	unsigned int i;
	bool inherited;

	if (!handle)
		return;
	/* Without the page that says so (client/handle.c), too. */
	inherited = handle_is_inherited(handle) || handle->process != getpid();
	if (!inherited)
		access_report_all(handle, CLOSE_WAIT_MS);
	observe_close(handle, inherited);
	if (handle->server && !inherited)
		log_info("the connection to %s is closed", handle->dev->address);
	for (i = 0; i < LATENCIES; i++) {
		if (handle->latency[i])
			hist_sparse_release(handle->latency[i]);
		heap_free(handle->latency[i]);
	}
	/* Any call to the device would be the parent's, and so is all that its handles share. */
	if (handle->dev && !inherited) {
		ops = handle->dev->ops;
		/* The queue pair first: after that no device writes to the buffers. */
		if (handle->conn.id) {
			ops->disconnect(handle->conn.id);
			ops->destroy_qp(handle->conn.id);
		}
		ops->destroy_id(handle->conn.id);
		ops->destroy_cm_channel(handle->conn.cm_channel);
		ops->destroy_cq(handle->conn.cq);
		ops->destroy_comp_channel(handle->conn.comp_channel);
		rpc_release(handle);
		reg_buf_release(&handle->conn.ring, handle->dev);
		handle_bounce_release(handle, &handle->stage);
	}
	/* Lets go of the caller's memory. */
	submitted_release(handle);
	transfers_release(handle);
	if (!inherited) {
		shared_device_put(handle->shared_device);
		shared_server_put(handle->server);
	}
	heap_free(handle);
}
