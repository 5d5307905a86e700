/* SPDX-License-Identifier: MIT */
/*
 * Remote procedure calls: posts requests in the order in which they came, as many as the window
 * allows, and gives each response to the flight that waits for it. One SEND in SIGNAL_EVERY is
 * signaled: the response proves that the request arrived, and a SEND that fails completes anyway.
 *
 * A request that waits at the head of the queue holds up the others, so changes reach the server in
 * the order of submission. It executes them in that order.
 */
#include "client/libkvd/rpc.h"

#include <errno.h>
#include <string.h>

#include "client/libkvd/changes.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/memory.h"
#include "client/libkvd/message.h"
#include "client/libkvd/observe.h"
#include "client/libkvd/pieces.h"
#include "client/libkvd/read.h"
#include "common/util/clock.h"
#include "common/util/parse.h"
#include "common/util/text.h"

static_assert((int)WIRE_OK == KVD_OK && (int)WIRE_NOT_FOUND == KVD_NOT_FOUND &&
		      (int)WIRE_INVALID == KVD_ERR_INVALID &&
		      (int)WIRE_TOO_LARGE == KVD_ERR_TOO_LARGE &&
		      (int)WIRE_NO_SPACE == KVD_ERR_NO_SPACE &&
		      (int)WIRE_PROTOCOL == KVD_ERR_PROTOCOL && (int)WIRE_BUSY == KVD_ERR_BUSY &&
		      (int)WIRE_EXISTS == KVD_ERR_EXISTS &&
		      (int)WIRE_NOT_A_NUMBER == KVD_ERR_NOT_A_NUMBER &&
		      (int)WIRE_NOT_ALLOWED == KVD_ERR_NOT_ALLOWED &&
		      (int)WIRE_LIMIT == KVD_ERR_LIMIT,
	      "wire statuses are those of the API");

/* After this time without a request the connection's events are checked: a system call. */
#define EVENTS_IDLE_NS 10000000u

/*
 * Values from FILL_MIN on are copied to bounce memory while the server READs them, in pieces of
 * FILL_PIECE bytes; shorter ones are there before the server has taken the request. 1 MiB that one
 * CPU copied and another one read, summed and stored took 195 to 250 us one after another, and 152
 * to 155 in pieces of 16 to 64 KiB (8 KiB: 184; 256 KiB: 229); 64 KiB took 17.7 and 14.8.
 */
#define FILL_MIN (64u << 10)
#define FILL_PIECE (16u << 10)

static void rpc_bounce_put(struct kvd *handle, struct bounce *bounce)
{
	if (!bounce->count)
		return;
	bounce_put(&handle->shared_device->bounces, bounce);
	handle->bounces--;
}

void rpc_bounces_release(struct kvd *handle)
{
	unsigned int i;

	for (i = 0; i < MESSAGES_MAX; i++)
		rpc_bounce_put(handle, &handle->conn.messages[i].bounce);
}

void rpc_release(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	unsigned int i;

	rpc_bounces_release(handle);
	if (handle->bounce_user)
		bounce_pool_leave(&handle->shared_device->bounces);
	for (i = 0; i < MESSAGES_MAX / MESSAGES_CHUNK; i++) {
		reg_buf_release(&conn->recvs[i], handle->dev);
		reg_buf_release(&conn->sends[i], handle->dev);
	}
}

/*
 * Moves as many reports of GETs as fit to the end of the message, and notes them in @head; returns
 * the message's length.
 */
static uint32_t access_append(struct kvd *handle, struct wire_request *head, uint8_t *message,
			      size_t used)
{
	const size_t size = handle->conn.request_bytes;
	uint32_t n;

	if (access_is_empty(&handle->access) || used > size)
		return (uint32_t)used;
	if (access_take_gets(&handle->access, message + used, size - used)) {
		head->flags |= WIRE_F_GETS;
		used += sizeof(struct wire_gets);
	}
	n = access_take(&handle->access, message + used, size - used);
	handle->stats.access_records += n;
	head->access_count = (uint16_t)n;
	return (uint32_t)(used + n * WIRE_ACCESS_BYTES);
}

/* Copies the whole value of a PUT to @to. */
static void value_copy(const struct rpc *rpc, uint8_t *to)
{
	if (rpc->pieces)
		pieces_gather(rpc->pieces, to);
	else
		memcpy(to, rpc->value, rpc->head.value_len);
}

/* Writes header, key, value, GETs and access records; returns the message's length in bytes. */
static uint32_t message_fill(struct kvd *handle, const struct rpc *rpc, uint8_t *message)
{
	uint32_t value_len = rpc->head.flags & WIRE_F_PULL ? 0 : rpc->head.value_len;
	struct wire_request head = rpc->head;
	size_t used = sizeof(head);

	if (rpc->key_len)
		memcpy(message + used, rpc->key, rpc->key_len);
	used += rpc->key_len;
	if (value_len)
		value_copy(rpc, message + used);
	used += value_len;
	head.flags |= change_flag(&handle->sent, rpc->change);
	/* The reports are this message's alone: the request may be sent again, with others. */
	head.key_len = (uint16_t)rpc->key_len;
	used = access_append(handle, &head, message, used);
	memcpy(message, &head, sizeof(head));
	return (uint32_t)used;
}

static bool receive_post(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	uint32_t i = conn->recv_free[--conn->recv_free_count];
	struct ibv_sge sge = {
		.addr = (uintptr_t)receive_at(conn, i),
		.length = RESPONSE_BYTES,
		.lkey = conn->recvs[i / MESSAGES_CHUNK].mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id_make(WR_RECV, i),
		.sg_list = &sge,
		.num_sge = 1,
	};
	int err = ibv_post_recv(conn->qp, &wr, &bad);

	if (err) {
		handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_recv: %s",
			    handle->dev->name, strerror(err));
		return false;
	}
	conn->receives++;
	return true;
}

/*
 * Posts a message, inline if it is short enough: then the device need not read it from memory. The
 * buffer may be written again when the response has arrived.
 */
static void message_post(struct kvd *handle, uint32_t i, uint32_t bytes)
{
	struct connection *conn = &handle->conn;
	struct ibv_send_wr *bad, *wr = &conn->send_wr;
	int err;

	conn->send_sge = (struct ibv_sge){
		.addr = (uintptr_t)message_at(conn, i),
		.length = bytes,
		.lkey = conn->sends[i / MESSAGES_CHUNK].mr->lkey,
	};
	conn->chain_max = 0;
	wr->wr_id = wr_id_make(WR_SEND, ++conn->sq_posted);
	wr->send_flags = bytes <= conn->inline_max ? IBV_SEND_INLINE : 0;
	if (++conn->unsignaled >= SIGNAL_EVERY) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		conn->unsignaled = 0;
	}
	handle->stats.requests++;
	handle->stats.sent_bytes += bytes;
	err = ibv_post_send(conn->qp, wr, &bad);
	if (err)
		handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_post_send: %s",
			    handle->dev->name, strerror(err));
}

/*
 * Takes a message for a request that may be sent now, and posts the receive for its response. NULL:
 * nothing may be sent now. @now_ns: clock_raw_ns().
 */
static struct message *message_take(struct kvd *handle, uint64_t now_ns)
{
	struct connection *conn = &handle->conn;
	struct message *message;
	uint32_t i;

	/* A change sent on a connection that was lost while idle would have an unknown outcome. */
	if (!conn->outstanding && now_ns - conn->posted_ns > EVENTS_IDLE_NS) {
		events_poll(handle);
		if (conn->broken)
			return NULL;
	}
	window_look(conn, now_ns);
	if (conn->outstanding >= conn->window || !connection_room(conn))
		return NULL;
	if (!conn->free_count || (conn->receives == conn->outstanding && !conn->recv_free_count)) {
		/* Without memory for more, it waits for one of these. */
		if (conn->message_count == MESSAGES_MAX || messages_grow(handle))
			return NULL;
	}
	if (conn->receives == conn->outstanding && !receive_post(handle))
		return NULL;
	i = conn->free[--conn->free_count];
	if (!(++conn->number & (UINT32_MAX / MESSAGES_MAX)))
		conn->number = 1;
	message = &conn->messages[i];
	message->id = conn->number * MESSAGES_MAX + i;
	message->sent_ns = now_ns;
	message->batch = false;
	message->bounce.count = 0;
	message->pulled = 0;
	message->flight = NULL;
	message->change = message->changes = 0;
	conn->outstanding++;
	window_posted(conn, now_ns);
	return message;
}

static void message_release(struct connection *conn, struct message *message)
{
	conn->free[conn->free_count++] = (uint8_t)(message - conn->messages);
	conn->outstanding--;
	message->id = 0;
}

/* Whether the value is too long for a message, so that the server must READ it. */
static bool rpc_pulls(const struct connection *conn, const struct rpc *rpc)
{
	return sizeof(rpc->head) + rpc->key_len + rpc->head.value_len > conn->request_bytes;
}

/*
 * Gets memory that the server can READ, for a value too long for a message. -EAGAIN: the handle
 * holds some for other values, and can get no more now.
 */
static int rpc_bounce_get(struct kvd *handle, const struct rpc *rpc, struct bounce *bounce)
{
	struct bounce_pool *pool = &handle->shared_device->bounces;
	int err;

	/* Without room in the window it would be given back at once. */
	if (handle->conn.outstanding >= handle->conn.window || !connection_room(&handle->conn))
		return -EAGAIN;
	if (!handle->bounce_user)
		bounce_pool_hold(pool);
	handle->bounce_user = true;
	handle->bounce_calls = 0;
	err = bounce_get(pool, rpc->head.value_len, !handle->bounces, bounce);
	handle->bounces += !err;
	return err;
}

/* Says that @left bytes of the value, from @to on, are missing. False: the server does not wait. */
static bool fill_say(struct kvd *handle, const uint8_t *to, uint32_t left)
{
	return handle->dev->ops->fill(handle->conn.qp, (uintptr_t)to, left);
}

/*
 * Copies the value to bounce memory at @to now; or returns true, if the server follows the copy:
 * then rpc_stage_end() copies it after the request was sent.
 */
static bool rpc_stage_begin(struct kvd *handle, const struct rpc *rpc, uint8_t *to)
{
	bool fills = rpc->head.value_len >= FILL_MIN && !rpc->pieces &&
		     fill_say(handle, to, rpc->head.value_len);

	if (!fills)
		value_copy(rpc, to);
	return fills;
}

static void rpc_stage_end(struct kvd *handle, const struct rpc *rpc, uint8_t *to)
{
	const uint8_t *from = rpc->value;
	uint32_t done, part, bytes = rpc->head.value_len;

	for (done = 0; done < bytes; done += part) {
		part = bytes - done < FILL_PIECE ? bytes - done : FILL_PIECE;
		memcpy(to + done, from + done, part);
		fill_say(handle, to + done + part, bytes - done - part);
	}
}

/*
 * Whether the server READs the value from memory that the caller registered. A value across the
 * border of two registrations is copied, and so are pieces; on softnic also memory without a file,
 * which this thread would have to pass to the server's 4 KiB at a time, with a context switch each
 * if there are more threads than CPUs.
 */
static bool rpc_is_direct(struct kvd *handle, struct flight *f, uint32_t *rkey)
{
	const struct rpc *rpc = &f->rpc;
	const struct ibv_mr *mr;
	size_t left;

	if (rpc->pieces || !flight_get_memory(handle, f, rpc->value, rpc->head.value_len))
		return false;
	mr = memory_at(f->mem, rpc->value, &left);
	if (left < rpc->head.value_len || (handle->dev->serves_plain && f->mem->own.fd < 0)) {
		flight_put_memory(handle, f);
		return false;
	}
	*rkey = mr->rkey;
	return true;
}

/* Lets the server READ the value at @from. */
static void pull_begin(struct kvd *handle, struct message *message, struct rpc *rpc,
		       const void *from, uint32_t rkey)
{
	uint32_t bytes = rpc->head.value_len;

	rpc->head.pull_addr = (uintptr_t)from;
	rpc->head.pull_rkey = rkey;
	rpc->head.flags |= WIRE_F_PULL;
	message->pulled = bytes;
	handle->served_bytes += bytes;
	handle->stats.pulled_bytes += bytes;
	if (!message->bounce.count)
		handle->stats.direct_bytes += bytes;
}

static void pull_end(struct kvd *handle, struct message *message)
{
	rpc_bounce_put(handle, &message->bounce);
	handle->served_bytes -= message->pulled;
}

static inline void flight_post(struct kvd *handle, struct flight *f, struct message *message)
{
	uint32_t i = (uint32_t)(message - handle->conn.messages);

	message->flight = f;
	message->op = f->rpc.head.op;
	f->place = PLACE_SENT;
	f->message = i;
	f->sent = true;
	if (change_is_numbered(&handle->sent, f)) {
		change_number(&handle->sent, f);
		f->rpc.head.change = (uint32_t)f->rpc.change;
		message->change = f->rpc.change;
		message->changes = 1;
	}
	f->rpc.head.id = message->id;
	handle->stats.round_trips++;
	message_post(handle, i, message_fill(handle, &f->rpc, message_at(&handle->conn, i)));
}

/* There is no memory for the value. A change that was sent before may have been executed. */
static enum kvd_status bounce_failed(struct kvd *handle, const struct flight *f, int err)
{
	enum kvd_status status = handle_bounce_failed(handle, f->rpc.head.value_len, err);

	if (!f->sent)
		return status;
	handle->stats.unknown++;
	return handle_error_set(handle, KVD_ERR_UNKNOWN,
				"the connection to %s was lost before the response to a change "
				"came, and there is no memory to send its value again: read the "
				"key to learn what it did",
				handle->dev->address);
}

enum posted {
	POST_WAITS,
	POST_DONE,
	POST_FAILED, /* the flight has ended */
};

/* Later changes of the key wait until the value has come: see request_waits(). */
static void touch_begin(struct kvd *handle, struct flight *f)
{
	if (f->touching)
		return;
	f->touching = true;
	handle->touches++;
	handle->touch_filter[f->lookup.hash % (1 << TOUCH_FILTER_BITS)]++;
}

/* The flight has a message: it leaves the queue, if it waited there. */
static inline void request_leave(struct kvd *handle, struct flight *f)
{
	if (f->place == PLACE_QUEUED)
		list_remove(&f->link);
	if (handle->observing)
		observe_request(f);
	if (f->kind == FLIGHT_GET && f->rpc.head.op == WIRE_TOUCH)
		touch_begin(handle, f);
}

/* Posts the request of a PUT whose value the server READs. */
static enum posted pull_post(struct kvd *handle, struct flight *f, uint64_t now_ns)
{
	struct bounce bounce = { .count = 0 };
	struct message *message;
	uint8_t *to = NULL;
	bool fills = false;
	uint32_t rkey = 0;
	int err = 0;

	if (!rpc_is_direct(handle, f, &rkey))
		err = rpc_bounce_get(handle, &f->rpc, &bounce);
	if (err == -EAGAIN)
		return POST_WAITS;
	if (err) {
		flight_cut(handle, f, bounce_failed(handle, f, err));
		return POST_FAILED;
	}
	message = message_take(handle, now_ns);
	if (!message) {
		rpc_bounce_put(handle, &bounce);
		return POST_WAITS;
	}
	message->bounce = bounce;
	if (bounce.count) {
		to = bounce_addr(&handle->shared_device->bounces, &bounce, &rkey);
		fills = rpc_stage_begin(handle, &f->rpc, to);
	}
	pull_begin(handle, message, &f->rpc, to ? to : f->rpc.value, rkey);
	request_leave(handle, f);
	flight_post(handle, f, message);
	if (fills)
		rpc_stage_end(handle, &f->rpc, to);
	return POST_DONE;
}

/*
 * Gives a change of a shard that is held back to the fleet's handle, after those that were sent:
 * these may be refused as well.
 */
static __attribute__((noinline)) enum posted held_back(struct kvd *handle, struct flight *f)
{
	if (handle->sent.first != handle->sent.next)
		return POST_WAITS;
	flight_cut(handle, f, KVD_ERR_MOVED);
	return POST_FAILED;
}

/* Posts the flight's request. @now_ns: clock_raw_ns(). */
static enum posted request_post(struct kvd *handle, struct flight *f, uint64_t now_ns)
{
	struct message *message;

	if (request_waits(handle, f) || (change_is_numbered(&handle->sent, f) && !f->rpc.change &&
					 !changes_room(&handle->sent)))
		return POST_WAITS;
	if (change_is_held(f))
		return held_back(handle, f);
	if (f->kind == FLIGHT_CHANGE && rpc_pulls(&handle->conn, &f->rpc))
		return pull_post(handle, f, now_ns);
	message = message_take(handle, now_ns);
	if (!message)
		return POST_WAITS;
	request_leave(handle, f);
	flight_post(handle, f, message);
	return POST_DONE;
}

/* Posts the first @count requests in one message. False: they have to wait. */
static bool batch_post(struct kvd *handle, unsigned int count)
{
	struct connection *conn = &handle->conn;
	struct wire_request *head;
	struct message *message;
	uint8_t *to;
	size_t used;
	uint32_t i;

	message = message_take(handle, clock_raw_ns());
	if (!message)
		return false;
	i = (uint32_t)(message - conn->messages);
	to = message_at(conn, i);
	message->op = WIRE_BATCH;
	message->batch = true;
	used = batch_fill(handle, &conn->batches[i], count, i, message->id, to);
	head = (struct wire_request *)(void *)to;
	used = access_append(handle, head, to, used);
	handle->stats.round_trips++;
	message_post(handle, i, (uint32_t)used);
	return true;
}

void request_begin(struct kvd *handle, struct flight *f, uint64_t now_ns)
{
	if (!handle->up || handle->attention || !list_empty(&handle->requests) ||
	    request_post(handle, f, now_ns) == POST_WAITS)
		request_add(handle, f);
}

void request_post_now(struct kvd *handle, struct flight *f)
{
	struct message *message = message_take(handle, clock_raw_ns());

	if (message)
		flight_post(handle, f, message);
}

/* Posts a PING in place of a change that was given up. */
static bool placeholder_post(struct kvd *handle, uint64_t number)
{
	struct wire_request head = {
		.op = WIRE_PING,
		.change = (uint32_t)number,
		.flags = change_flag(&handle->sent, number),
	};
	struct connection *conn = &handle->conn;
	struct message *message = message_take(handle, clock_raw_ns());
	uint32_t i;

	if (!message)
		return false;
	i = (uint32_t)(message - conn->messages);
	head.id = message->id;
	memcpy(message_at(conn, i), &head, sizeof(head));
	message->op = WIRE_PING;
	message->change = number;
	message->changes = 1;
	message_post(handle, i, (uint32_t)sizeof(head));
	return true;
}

/* The flight whose change has the number; NULL: it was given up. */
static struct flight *resend_find(const struct kvd *handle, uint64_t number)
{
	struct list *link;

	for (link = handle->resends.next; link != &handle->resends; link = link->next)
		if (list_entry(link, struct flight, link)->rpc.change == number)
			return list_entry(link, struct flight, link);
	return NULL;
}

/* Resends the changes without an answer. False: some must wait, and all other requests too. */
static bool changes_resend(struct kvd *handle)
{
	struct changes *sent = &handle->sent;
	enum posted posted;
	struct flight *f;

	while (sent->resend != sent->next && !handle->conn.broken) {
		if (change_is_answered(sent, sent->resend)) {
			sent->resend++;
			continue;
		}
		f = resend_find(handle, sent->resend);
		if (f)
			posted = request_post(handle, f, clock_raw_ns());
		else
			posted = placeholder_post(handle, sent->resend) ? POST_DONE : POST_WAITS;
		if (posted == POST_WAITS)
			return false;
		/* The change was given up without memory for its value: a PING takes the number. */
		if (posted == POST_FAILED)
			continue;
		handle->stats.resent++;
		sent->resend++;
	}
	return true;
}

/* Reports GETs in a message of their own. */
static void access_post(struct kvd *handle)
{
	struct wire_request head = { .op = WIRE_ACCESS };
	struct connection *conn = &handle->conn;
	struct message *message;
	uint32_t i, bytes;

	if (conn->accesses)
		return;
	message = message_take(handle, clock_raw_ns());
	if (!message)
		return;
	i = (uint32_t)(message - conn->messages);
	head.id = message->id;
	bytes = access_append(handle, &head, message_at(conn, i), sizeof(head));
	memcpy(message_at(conn, i), &head, sizeof(head));
	message->op = WIRE_ACCESS;
	conn->accesses++;
	handle->stats.access_messages++;
	message_post(handle, i, bytes);
}

void requests_post(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	unsigned int count;
	bool posted;

	posted = changes_resend(handle);
	while (posted && !list_empty(&handle->requests) && !conn->broken) {
		count = conn->batches ? batch_count(handle) : 1;
		if (count > 1)
			posted = batch_post(handle, count);
		else
			posted = request_post(handle,
					      list_entry(handle->requests.next, struct flight,
							 link),
					      clock_raw_ns()) != POST_WAITS;
	}
	if (handle->access.due && !conn->broken)
		access_post(handle);
}

/* A request in a BATCH, or one sent again, is refused without the server's reason. */
static enum kvd_status refused(struct kvd *handle, const struct response *response)
{
	if (!response->value_len)
		return handle_fail(handle, KVD_ERR_NOT_ALLOWED,
				   "this client's user has no right to do that, or not with this "
				   "key (users.file of the server; kvctl whoami)");
	handle_fail(handle, KVD_ERR_NOT_ALLOWED, "%.*s (users.file of the server)",
		    (int)response->value_len, (const char *)response->value);
	text_mask(handle->error, strlen(handle->error));
	return KVD_ERR_NOT_ALLOWED;
}

static void epoch_learn(struct kvd *handle, const struct response *response)
{
	if (response->epoch > handle->member.refused_epoch)
		handle->member.refused_epoch = response->epoch;
}

/* Of FLEET and MOVE, which are about no key: client/libkvd/copy.c has more to say of the latter. */
static enum kvd_status fleet_refused(struct kvd *handle, const struct response *response)
{
	switch (response->status) {
	case WIRE_INVALID:
		return handle_fail(handle, KVD_ERR_INVALID,
				   "the fleet's members are in a file (fleet.file), which does not "
				   "change while they run");
	case WIRE_BUSY:
		return handle_fail(handle, KVD_ERR_BUSY,
				   "the member at %s can't do this now; try again later",
				   handle->dev->address);
	default:
		return handle_fail(handle, KVD_ERR_AWAY,
				   "the member at %s has no part in that now; nothing was done",
				   handle->dev->address);
	}
}

static bool is_about_fleet(const struct response *response)
{
	return (response->op == WIRE_FLEET || response->op == WIRE_MOVE) &&
	       (response->status == WIRE_INVALID || response->status == WIRE_BUSY ||
		response->status == WIRE_AWAY);
}

enum kvd_status response_status(struct kvd *handle, const struct response *response)
{
	char longest[PARSE_FORMAT_MAX];

	if (is_about_fleet(response))
		return fleet_refused(handle, response);
	switch (response->status) {
	case WIRE_OK:
		return KVD_OK;
	case WIRE_NOT_FOUND:
		return KVD_NOT_FOUND;
	case WIRE_INVALID:
		return handle_fail(handle, KVD_ERR_INVALID,
				   "the server pins no item for that long (memory.pin_time_max)");
	case WIRE_TOO_LARGE:
		return handle_fail(handle, KVD_ERR_TOO_LARGE,
				   "the server takes values of at most %s (limits.max_value)",
				   show_size(handle->geometry.value_max, longest));
	case WIRE_NO_SPACE:
		return handle_fail(handle, KVD_ERR_NO_SPACE,
				   "the server's memory is full: raise memory.size or delete keys");
	case WIRE_BUSY:
		if (response->flags & WIRE_R_PINS)
			return handle_fail(handle, KVD_ERR_BUSY,
					   "as many bytes are pinned as the server allows "
					   "(memory.pin_share); try again later, or without a pin");
		return handle_fail(handle, KVD_ERR_BUSY,
				   "the server can't do this now; try again later");
	case WIRE_NOT_ALLOWED:
		return refused(handle, response);
	case WIRE_LIMIT:
		return handle_fail(handle, KVD_ERR_LIMIT,
				   "this client's user is over its limit of requests or bytes in a "
				   "second (users.file of the server); try again later");
	case WIRE_MOVED:
		epoch_learn(handle, response);
		handle->member.refused_first = !handle->sent.moved;
		handle->sent.moved |= handle->sent.limit && wire_batched_numbered(response->op);
		return handle_fail(handle, KVD_ERR_MOVED,
				   "another member of the fleet has the key: open the fleet "
				   "(fleet://), not the server at %s",
				   handle->dev->address);
	case WIRE_AWAY:
		epoch_learn(handle, response);
		handle->stats.away++;
		if (handle->member.home)
			handle->member.home->fleet_ops->want(handle->member.home);
		return handle_fail(handle, KVD_ERR_AWAY,
				   "the member of the fleet at %s may not serve the key now: its "
				   "lease has ended, or that of the shard's last owner has not "
				   "ended yet; nothing was done",
				   handle->dev->address);
	case WIRE_EXISTS:
		return handle_fail(handle, KVD_ERR_EXISTS,
				   "the condition does not hold; nothing was changed");
	case WIRE_NOT_A_NUMBER:
		return handle_fail(handle, KVD_ERR_NOT_A_NUMBER,
				   "a number has 1 to 20 digits and is less than 2^64");
	case WIRE_UNKNOWN:
		handle->stats.unknown++;
		return handle_fail(handle, KVD_ERR_UNKNOWN,
				   "the connection to %s was lost before the response to a change "
				   "came, and the server has no record of it any more "
				   "(server.identity_time): read the key to learn what it did",
				   handle->dev->address);
	case WIRE_PROTOCOL:
		break;
	}
	return handle_fail(handle, KVD_ERR_PROTOCOL,
			   "the server at %s refuses the request: it speaks another version of the "
			   "protocol; use the same version of kvd on both sides",
			   handle->dev->address);
}

/* Finds the request that @response answers. NULL: there is none; the connection is closed. */
static struct message *response_match(struct kvd *handle, const struct response *response)
{
	struct message *message = &handle->conn.messages[response->id % MESSAGES_MAX];

	if (response->id && message->id == response->id && message->op == response->op)
		return message;
	handle_fail(handle, KVD_ERR_PROTOCOL,
		    "the server at %s sent the response to another request: %s",
		    handle->dev->address, HANDLE_SHARED_HINT);
	return NULL;
}

enum kvd_status window_learn(struct kvd *handle, const struct response *response)
{
	/* The window of HELLO is in the welcome. */
	if (!response->window != (response->op == WIRE_HELLO))
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "response with a window of %u from the server at %s",
				   response->window, handle->dev->address);
	if (response->window)
		handle->conn.window = response->window;
	return KVD_OK;
}

void response_arrived(struct kvd *handle, const struct ibv_wc *wc)
{
	struct connection *conn = &handle->conn;
	uint32_t receive = (uint32_t)wc->wr_id;
	struct batch *batch = NULL;
	struct response response;
	uint32_t changes;
	uint64_t change;
	struct message *message;
	const char *error;
	struct flight *f;

	conn->receives--;
	error = wire_response_parse(&response, receive_at(conn, receive), wc->byte_len);
	if (error) {
		handle_fail(handle, KVD_ERR_PROTOCOL,
			    "malformed response from the server at %s: %s", handle->dev->address,
			    error);
		return;
	}
	message = response_match(handle, &response);
	if (!message || window_learn(handle, &response))
		return;
	access_learn(&handle->access, response.tick);
	conn->response_ns = clock_raw_ns();
	/* A response to ACCESS may have waited long before it was taken. */
	if (message->op != WIRE_ACCESS && !server_clock_learn(&handle->clock, response.clock_ns,
							      message->sent_ns, conn->response_ns))
		handle->stats.clock_jumps++;
	if (message->pulled)
		pull_end(handle, message);
	if (message->op == WIRE_ACCESS)
		conn->accesses--;
	f = message->flight;
	change = message->change;
	changes = message->changes;
	message_release(conn, message);
	conn->response_index = receive;
	if (message->batch)
		batch = &conn->batches[message - conn->messages];
	if (batch && !batch_check(handle, batch, &response))
		return;
	if (response.flags & WIRE_R_REPEATED)
		handle->stats.repeated++;
	if (batch) {
		batch_response(handle, batch, &response);
	} else if (f) {
		f->place = PLACE_NONE;
		f->ops->response(handle, f, &response);
	}
	/* What these flights let go on is sent after all that was refused is known to be. */
	if (change)
		changes_answered(&handle->sent, change, changes);
	if (!conn->held || conn->held_index != receive)
		conn->recv_free[conn->recv_free_count++] = (uint8_t)receive;
	if (!list_empty(&handle->requests) || changes_to_resend(&handle->sent) ||
	    handle->access.due)
		handle->attention = true;
}
