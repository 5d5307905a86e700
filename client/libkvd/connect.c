/* SPDX-License-Identifier: MIT */
/*
 * Connecting: queue pair, rdma_cm, HELLO. Only the response to HELLO says where the server's memory
 * is and with which key the client may READ it. Nothing here waits: client/libkvd/reconnect.c takes
 * the steps. Completions of a connection, and what a failed one says about it.
 */
#include "client/libkvd/connect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "client/libkvd/changes.h"
#include "client/libkvd/extents.h"
#include "client/libkvd/message.h"
#include "client/libkvd/read.h"
#include "client/libkvd/rpc.h"
#include "common/sum.h"
#include "common/util/clock.h"
#include "common/util/text.h"

/* Bytes of inline data to ask for: a request header with a short key and value. */
#define INLINE_WANTED 220
/* Transport retries. Not 7, the maximum, which rdma_rxe (Linux 6.1) takes for no limit. */
#define RETRY_COUNT 6
/* IBTA code 12: 0.64 ms. rdma_cm's default, 0, is 655 ms. */
#define MIN_RNR_TIMER 12
/*
 * The index grows, so not its current size bounds the cache, but an eighth of the region: an index
 * with more slots than fit in that has items so small that caching all is useless.
 */
#define CACHE_SHARE 8

/* A completion for each work request that can be posted, so that the queue can't overrun. */
#define CQ_SIZE (SENDS_MAX + MESSAGES_MAX)
/* Completions taken at once. */
#define POLL_MAX 16

void connection_init(struct connection *conn)
{
	unsigned int i;

	for (i = 0; i < GETS_MAX; i++)
		conn->read_wrs[i] = (struct ibv_send_wr){
			.next = i + 1 < GETS_MAX ? &conn->read_wrs[i + 1] : NULL,
			.sg_list = conn->read_sges[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
		};
	conn->send_wr = (struct ibv_send_wr){
		.sg_list = &conn->send_sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
	};
	conn->window = 1; /* for HELLO */
}

void connection_reset(struct connection *conn)
{
	struct reg_buf recvs[MESSAGES_MAX / MESSAGES_CHUNK], sends[MESSAGES_MAX / MESSAGES_CHUNK];
	uint32_t count = conn->message_count, bytes = conn->message_bytes, i;
	uint32_t sges_max = conn->read_sges_max;
	struct batch *batches = conn->batches;
	struct reg_buf ring = conn->ring;

	memcpy(recvs, conn->recvs, sizeof(recvs));
	memcpy(sends, conn->sends, sizeof(sends));
	memset(conn, 0, sizeof(*conn));
	connection_init(conn);
	memcpy(conn->recvs, recvs, sizeof(recvs));
	memcpy(conn->sends, sends, sizeof(sends));
	conn->ring = ring;
	conn->batches = batches;
	conn->read_sges_max = sges_max;
	conn->message_count = count;
	conn->message_bytes = bytes;
	for (i = count; i-- > 0;) {
		conn->free[conn->free_count++] = (uint8_t)i;
		conn->recv_free[conn->recv_free_count++] = (uint8_t)i;
	}
}

bool connect_is_shortage(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -ENOBUFS;
}

enum kvd_status connect_status(int err)
{
	if (connect_is_shortage(err))
		return KVD_ERR_NO_MEMORY;
	switch (err) {
	case -ENODEV:
	case -ENOSYS:
	case -EXDEV:
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

enum kvd_status connect_no_permission(struct kvd *handle, const char *path, int err)
{
	return handle_fail(handle, KVD_ERR_REFUSED,
			   "no permission for %s: %s; run as a user that the socket "
			   "(softnic.socket_mode) and its folders admit",
			   path, strerror(-err));
}

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

/* The buffers outlive a connection, as the identity does. */
enum kvd_status open_buffers(struct kvd *handle)
{
	enum kvd_status status = messages_open(handle);

	if (!handle->sent.next)
		changes_init(&handle->sent);
	return status ? status :
			handle_buf_resize(handle, &handle->conn.ring, RING_BYTES_MIN,
					  IBV_ACCESS_LOCAL_WRITE);
}

/* A fleet's descriptor says which of its members has an event. */
static int fd_add(struct kvd *handle, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = handle };

	return epoll_ctl(handle->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int connection_watch(struct kvd *handle)
{
	const struct connection *conn = &handle->conn;
	int err = 0;

	if (handle->epoll_fd < 0 || !conn->cm_channel)
		return 0;
	err = fd_add(handle, conn->comp_channel->fd);
	if (!err && conn->cm_channel->fd != conn->comp_channel->fd)
		err = fd_add(handle, conn->cm_channel->fd);
	return err;
}

/* Closing does not suffice: a child after fork(2) may have the descriptors. */
static void connection_unwatch(struct kvd *handle)
{
	const struct connection *conn = &handle->conn;

	if (handle->epoll_fd < 0)
		return;
	if (conn->comp_channel)
		epoll_ctl(handle->epoll_fd, EPOLL_CTL_DEL, conn->comp_channel->fd, NULL);
	if (conn->cm_channel)
		epoll_ctl(handle->epoll_fd, EPOLL_CTL_DEL, conn->cm_channel->fd, NULL);
}

void connection_drop(struct kvd *handle)
{
	const struct device_ops *ops = handle->dev->ops;
	struct connection *conn = &handle->conn;

	connection_unwatch(handle);
	/* The queue pair first: after that no device writes to the buffers. */
	if (conn->id) {
		ops->disconnect(conn->id);
		ops->destroy_qp(conn->id);
	}
	ops->destroy_id(conn->id);
	ops->destroy_cm_channel(conn->cm_channel);
	ops->destroy_cq(conn->cq);
	ops->destroy_comp_channel(conn->comp_channel);
	rpc_bounces_release(handle);
	connection_reset(conn);
	explicit_bzero(&handle->sum_key, sizeof(handle->sum_key));
	conn->broken = true;
}

static enum kvd_status open_resources(struct kvd *handle)
{
	int err = open_queues(handle);

	if (!err)
		err = open_qp(handle);
	if (!err)
		err = connection_watch(handle);
	if (err)
		return handle_fail(handle,
				   connect_is_shortage(err) ? KVD_ERR_NO_MEMORY : KVD_ERR_DEVICE,
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

static enum kvd_status reject_status(uint32_t reason)
{
	switch (reason) {
	case WIRE_REJECT_VERSION:
		return KVD_ERR_PROTOCOL;
	case WIRE_REJECT_USER:
		return KVD_ERR_AUTH;
	case WIRE_REJECT_LIMIT:
		return KVD_ERR_LIMIT;
	default:
		return KVD_ERR_REFUSED;
	}
}

/* The reason is in the peer's private data, unless the peer is not kvd. */
static enum kvd_status connect_rejected(struct kvd *handle, const struct cm_event *event)
{
	struct wire_reject reject;

	memcpy(&reject, event->private_data, sizeof(reject));
	if (event->private_len < sizeof(reject) || reject.magic != WIRE_MAGIC)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "the server at %s refuses the connection: is it kvd?",
				   handle->dev->address);
	if (reject.reason == WIRE_REJECT_VERSION && reject.abi != WIRE_ABI)
		return abi_differs(handle, reject.abi);
	reject.text[sizeof(reject.text) - 1] = '\0';
	text_mask(reject.text, strlen(reject.text));
	return handle_fail(handle, reject_status(reject.reason),
			   "the server at %s refuses the connection: %s%s", handle->dev->address,
			   reject.text,
			   reject.reason == WIRE_REJECT_TENANT && *handle->tenant ?
				   "; --tenant, $KVD_TENANT or kvd_options.tenant names another" :
				   "");
}

static enum kvd_status connect_closed(struct kvd *handle)
{
	return handle_fail(handle, KVD_ERR_DISCONNECTED,
			   "%s closed the connection while it was set up", handle->dev->address);
}

static enum kvd_status route_left(struct kvd *handle)
{
	return handle_fail(handle, KVD_ERR_DEVICE,
			   "device %s: the route to %s uses another one now", handle->dev->name,
			   handle->dev->address);
}

/* Connecting failed, and the server did not say why. */
static enum kvd_status connect_failed(struct kvd *handle, const struct cm_event *event)
{
	const char *address = handle->dev->address;
	int err = event->status;

	if (connect_is_shortage(err))
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "can't connect to %s: %s", address,
				   strerror(-err));
	switch (err) {
	case -EACCES:
	case -EPERM:
		return connect_no_permission(handle, address, err);
	case -ECONNREFUSED:
		return handle_fail(handle, KVD_ERR_UNREACHABLE,
				   "nobody listens at %s: is kvd running? (%s)", address,
				   strerror(-err));
	case -EADDRNOTAVAIL:
		return handle_fail(handle, KVD_ERR_INVALID,
				   "device %s has no such GID to reach %s by: see `ibv_devinfo "
				   "-v`, and gid_index in the URL",
				   handle->dev->name, address);
	case -EXDEV:
		return route_left(handle);
	case -ETIMEDOUT:
		return handle_fail(handle, KVD_ERR_TIMEOUT, "no response from %s: %s", address,
				   strerror(-err));
	case -ECONNRESET:
	case -EPIPE:
		return connect_closed(handle);
	case -EKEYREJECTED:
		return handle_fail(handle, KVD_ERR_AUTH, "%s: %s", address,
				   (const char *)event->private_data);
	case -EPROTO:
		return handle_fail(handle, KVD_ERR_PROTOCOL, "%s does not speak kvd's protocol",
				   address);
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

static enum kvd_status connect_event(struct kvd *handle, const struct cm_event *event, bool *done)
{
	switch (event->type) {
	case CM_ESTABLISHED:
		device_link_text(handle->dev, handle->conn.qp, handle->conn.link);
		*done = true;
		return KVD_OK;
	case CM_REJECTED:
		return connect_rejected(handle, event);
	case CM_UNREACHABLE:
		return connect_failed(handle, event);
	case CM_DISCONNECTED:
		return connect_closed(handle);
	case CM_DEVICE_REMOVED:
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s was removed",
				   handle->dev->name);
	case CM_CONNECT_REQUEST:
		break;
	}
	return KVD_OK;
}

/* The device does the steps of connecting in cm_get_event(). */
enum kvd_status connect_progress(struct kvd *handle, bool *done)
{
	enum kvd_status status = KVD_OK;
	struct cm_event event;
	int err = 0;

	*done = false;
	while (!status && !*done && !err) {
		err = handle->dev->ops->cm_get_event(handle->conn.cm_channel, &event);
		if (!err)
			status = connect_event(handle, &event, done);
	}
	if (err && err != -EAGAIN)
		return handle_fail(handle, KVD_ERR_DEVICE, "device %s: no events: %s",
				   handle->dev->name, strerror(-err));
	return status;
}

/* Reads changed files: another handle may have opened the device before they changed. */
static enum kvd_status credentials_renew(struct kvd *handle)
{
	char why[TLS_WHY_MAX] = "";
	int err = 0;

	if (handle->dev->ops->renew)
		err = handle->dev->ops->renew(handle->dev, &handle->credentials, why);
	if (err == -ENOMEM)
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "out of memory");
	return err ? handle_fail(handle, KVD_ERR_INVALID, "credentials: %s", why) : KVD_OK;
}

enum kvd_status connect_start(struct kvd *handle)
{
	struct wire_connect hello = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
	};
	const struct cm_param param = {
		.private_data = &hello,
		.private_len = sizeof(hello),
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = 7,
		.min_rnr_timer = MIN_RNR_TIMER,
	};
	enum kvd_status status;
	int err;

	memcpy(hello.tenant, handle->tenant, sizeof(hello.tenant));
	handle->conn.broken = false;
	status = credentials_renew(handle);
	if (!status)
		status = open_resources(handle);
	if (status)
		return status;
	err = handle->dev->ops->connect(handle->conn.id, &param);
	if (err == -EXDEV)
		return route_left(handle);
	if (err)
		return handle_fail(handle, connect_status(err), "can't connect to %s: %s",
				   handle->dev->address, strerror(-err));
	return KVD_OK;
}

/* NULL, or what is wrong. All later code relies on these bounds. */
static const char *welcome_check(const struct kvd *handle, const struct wire_welcome *welcome)
{
	const char *error;

	if (welcome->identity_known > 1 || welcome->change_last >= handle->sent.next)
		return "a change that was never sent";
	if (welcome->by_request > 1 || welcome->reserved)
		return "fields that the protocol does not have";
	if (!welcome->window || welcome->window > WIRE_WINDOW_MAX)
		return "window out of range";
	if (welcome->request_bytes < WIRE_REQUEST_MIN || welcome->request_bytes > WIRE_RESPONSE_MAX)
		return "request size out of range";
	if (welcome->access_rate > WIRE_ACCESS_RATE_MAX)
		return "access rate out of range";
	error = geometry_check(&welcome->geometry);
	return error || welcome->by_request ? error : extents_check(welcome);
}

/* Takes what this handle shares with others of the process: client/libkvd/shared.h. */
static enum kvd_status open_shared(struct kvd *handle, const struct geometry *geometry)
{
	size_t cache_bytes = handle->options.cache_bytes;
	struct shared_server *server;
	struct bcache cache;
	int err = shared_server_get(&server, handle->shared_device->url, geometry);

	if (err == -EPROTO)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "%s says other things of its memory than it said to another "
				   "handle of this process",
				   handle->dev->address);
	if (cache_bytes > geometry->region_bytes / CACHE_SHARE)
		cache_bytes = geometry->region_bytes / CACHE_SHARE;
	if (!err) {
		err = shared_server_cache(server, cache_bytes, &cache);
		if (err)
			shared_server_put(server);
	}
	if (err)
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "no memory for a cache of %zu bytes",
				   cache_bytes);
	/* The previous incarnation's may be freed here, with its cache. */
	shared_server_put(handle->server);
	handle->server = server;
	/* A client that may not READ has no use for slots. */
	handle->cache = cache;
	if (handle->conn.by_request)
		handle->cache.lines = NULL;
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
	error = welcome_check(handle, welcome);
	if (error)
		return handle_fail(handle, KVD_ERR_PROTOCOL, "%s: bad welcome: %s",
				   handle->dev->address, error);
	/* The server would refuse every change. There may be two servers at the address. */
	if (welcome->identity_known && changes_are_missing(&handle->sent, welcome->change_last)) {
		changes_identify(&handle->sent);
		return handle_fail(handle, KVD_ERR_DISCONNECTED,
				   "%s has an old record of this handle's changes; it connects "
				   "again under a new identity",
				   handle->dev->address);
	}
	handle->conn.region_addr = welcome->region_addr;
	handle->conn.extent_bytes = welcome->extent_bytes;
	extents_take(handle, welcome->rkeys, welcome->by_request ? 0 : welcome->extents);
	handle->conn.window = welcome->window;
	/* MEMBER-2 */
	handle->conn.by_request = welcome->by_request ||
				  (welcome->fleet_generation && !handle->member.home);
	handle->conn.request_bytes = welcome->request_bytes;
	access_init(&handle->access, welcome->access_rate, welcome->access_delay_ms,
		    clock_ns() ^ (uintptr_t)handle);
	status = open_shared(handle, &welcome->geometry);
	if (!status) {
		handle->geometry = welcome->geometry;
		handle->sum_key = welcome->sum_key;
		handle->geometry_ns = 0;
		status = messages_resize(handle);
	}
	if (!status)
		changes_welcome(&handle->sent, welcome);
	if (!status && handle->member.home)
		status = handle->member.home->fleet_ops->welcome(handle, welcome);
	handle->up = !status;
	return status;
}

/* HELLO also tells the server how long our receive buffers are. */
void hello_post(struct kvd *handle, struct flight *f)
{
	static const uint8_t none[WIRE_IDENTITY_BYTES];
	struct wire_hello hello = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.response_bytes = RESPONSE_BYTES,
	};

	memcpy(hello.identity, handle->sent.identity, sizeof(hello.identity));
	if (memcmp(hello.identity, none, sizeof(none)))
		hello.change_next = handle->sent.next;

	f->rpc = (struct rpc){
		.on_loss = LOSS_FAILS,
		.head = { .op = WIRE_HELLO, .value_len = sizeof(hello) },
		.value = &hello,
	};
	request_post_now(handle, f);
	f->rpc.value = NULL;
}

enum kvd_status hello_take(struct kvd *handle, const struct response *response)
{
	struct wire_welcome welcome = { 0 };
	enum kvd_status status = response_status(handle, response);

	if (status)
		return status;
	if (response->value_len)
		memcpy(&welcome, response->value,
		       response->value_len < sizeof(welcome) ? response->value_len :
							       sizeof(welcome));
	/* A welcome of another ABI may have another length. */
	if (response->value_len != sizeof(welcome) && welcome.abi == WIRE_ABI)
		return handle_fail(handle, KVD_ERR_PROTOCOL, "%s: welcome of %u bytes",
				   handle->dev->address, response->value_len);
	status = open_welcome(handle, &welcome);
	/* Only the handle keeps the key: buffers live longer. */
	explicit_bzero(&welcome.sum_key, sizeof(welcome.sum_key));
	explicit_bzero((void *)(uintptr_t)response->value, response->value_len);
	return status;
}

/*
 * A work request failed, and with it the connection: the device flushes all others. Only the first
 * failure tells the cause; the texts of flushed ones would hide it, so polling stops here.
 */
static void completion_failed(struct kvd *handle, const struct ibv_wc *wc)
{
	switch (wc->status) {
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		connection_lost(handle, ibv_wc_status_str(wc->status));
		break;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		handle_fail(handle, KVD_ERR_DISCONNECTED,
			    "the server at %s no longer serves the connection, or this process "
			    "could not map its memory (%s)",
			    handle->dev->address, ibv_wc_status_str(wc->status));
		break;
	default:
		handle_fail(handle, KVD_ERR_DEVICE, "device %s: %s", handle->dev->name,
			    ibv_wc_status_str(wc->status));
	}
}

static void completion_take(struct kvd *handle, const struct ibv_wc *wc)
{
	if (wc->status) {
		completion_failed(handle, wc);
		return;
	}
	switch ((enum wr_kind)(wc->wr_id >> 32)) {
	case WR_READ:
		reads_completed(handle, (uint32_t)wc->wr_id);
		break;
	case WR_RECV:
		response_arrived(handle, wc);
		break;
	case WR_SEND:
		handle->conn.sq_done = (uint32_t)wc->wr_id;
		break;
	}
}

unsigned int completions_poll(struct kvd *handle)
{
	struct ibv_wc wcs[POLL_MAX];
	int i, n = ibv_poll_cq(handle->conn.cq, POLL_MAX, wcs);

	if (n < 0) {
		handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_poll_cq failed",
			    handle->dev->name);
		return 0;
	}
	for (i = 0; i < n && !handle->conn.broken; i++)
		completion_take(handle, &wcs[i]);
	return (unsigned int)n;
}
