/* SPDX-License-Identifier: MIT */
/* How flights end, in time or early, and the memory of the caller's that they use. */
#include "client/libkvd/flight.h"

#include "client/libkvd/memory.h"
#include "client/libkvd/message.h"
#include "client/libkvd/read.h"
#include "client/libkvd/transfer.h"
#include "common/util/clock.h"

void blocked_begin(struct kvd *handle)
{
	struct list waiters;
	struct flight *f;

	list_init(&waiters);
	list_move_all(&waiters, &handle->blocked);
	while (!list_empty(&waiters)) {
		f = list_entry(waiters.next, struct flight, link);
		list_remove(&f->link);
		f->place = PLACE_NONE;
		f->ops->begin(handle, f);
	}
}

/* The flight's change is not outstanding any more: GETs of the key may begin. */
static void change_end(struct kvd *handle, struct flight *f)
{
	f->counted = false;
	handle->changes--;
	handle->change_filter[f->lookup.hash % (1 << CHANGE_FILTER_BITS)]--;
	if (!list_empty(&handle->blocked) && handle->up && !handle->conn.broken)
		blocked_begin(handle);
}

/* The touch is done: changes of the key may be sent. */
static void touch_end(struct kvd *handle, struct flight *f)
{
	f->touching = false;
	handle->touches--;
	handle->touch_filter[f->lookup.hash % (1 << TOUCH_FILTER_BITS)]--;
	handle->attention = true;
}

bool flight_get_memory(struct kvd *handle, struct flight *f, const void *value, size_t bytes)
{
	if (!f->direct && bytes) {
		f->mem = memory_get(atomic_load_explicit(&handle->shared_device->memory,
							 memory_order_acquire),
				    value, bytes);
		f->direct = f->mem;
		handle->directs += f->direct;
	}
	return f->direct;
}

static void flight_leave_memory(struct kvd *handle, struct flight *f)
{
	memory_put(f->mem);
	handle->directs--;
}

void flight_put_memory(struct kvd *handle, struct flight *f)
{
	flight_leave_memory(handle, f);
	f->direct = false;
}

void connection_let_go(struct kvd *handle)
{
	struct connection *conn = &handle->conn;

	if (!handle->directs || !conn->id || !conn->qp)
		return;
	handle->dev->ops->destroy_qp(conn->id);
	conn->qp = NULL;
}

bool flight_may_have_acted(const struct flight *f)
{
	return f->touching || (f->sent && f->rpc.on_loss == LOSS_UNKNOWN);
}

static enum kvd_status no_connection(struct kvd *handle, const struct flight *f)
{
	const struct reconnect *reconnect = &handle->reconnect;
	uint64_t ms = (clock_ns() - reconnect->since_ns) / 1000000;
	bool sent = f && flight_may_have_acted(f);
	enum kvd_status status = KVD_ERR_DISCONNECTED;

	if (sent)
		status = KVD_ERR_TIMEOUT;
	else if (reconnect->status == KVD_ERR_AUTH)
		status = KVD_ERR_AUTH;
	return handle_error_set(handle, status,
				"no connection to %s for %llu.%03llu s, %u tries failed; %s: %s",
				handle->dev->address, (unsigned long long)ms / 1000,
				(unsigned long long)ms % 1000, reconnect->tries,
				sent ? "the change may have taken effect" : "nothing was done",
				reconnect->why);
}

enum kvd_status timeout_fail(struct kvd *handle, const struct flight *f)
{
	if (!handle->up)
		return no_connection(handle, f);
	return handle_fail(handle, KVD_ERR_TIMEOUT, "no response from %s within the timeout",
			   handle->dev->address);
}

/* Whether the server may READ the caller's memory for the flight. */
static bool server_reads(const struct kvd *handle, const struct flight *f)
{
	return f->direct && f->place == PLACE_SENT && handle->conn.messages[f->message].pulled;
}

bool flight_expire(struct kvd *handle, struct flight *f)
{
	enum kvd_status status;

	if (transfer_touches(f) && !f->transfer->expired) {
		f->transfer->expired = true;
		if (f->transfer->outcome != TRANSFER_ENDED)
			transfer_stop(f, timeout_fail(handle, f));
		return true;
	}
	if (transfer_touches(f) || server_reads(handle, f)) {
		handle_fail(handle, KVD_ERR_DISCONNECTED,
			    "the connection to %s was closed: an operation on registered memory "
			    "timed out, and the server or the device might use that memory later",
			    handle->dev->address);
		status = transfer_touches(f) ? f->transfer->stopped : KVD_ERR_TIMEOUT;
		connection_let_go(handle);
	} else {
		status = timeout_fail(handle, f);
	}
	flight_cut(handle, f, status);
	return false;
}

void flight_end(struct kvd *handle, struct flight *f)
{
	f->place = PLACE_ENDED;
	/* `direct` stays set, for the statistics. */
	if (f->direct)
		flight_leave_memory(handle, f);
	if (f->counted)
		change_end(handle, f);
	if (f->touching)
		touch_end(handle, f);
	if (f->left)
		--*f->left;
	else if (f->ended)
		f->ended(handle, f);
}

void flight_fail(struct kvd *handle, struct flight *f, enum kvd_status status)
{
	f->ops->fail(f, status);
	flight_end(handle, f);
}

static void request_detach(struct connection *conn, const struct flight *f)
{
	struct message *message = &conn->messages[f->message];
	struct batch *batch;
	unsigned int i;

	message->flight = NULL;
	if (!message->batch)
		return;
	batch = &conn->batches[f->message];
	for (i = 0; i < batch->count; i++)
		if (batch->flights[i] == f)
			batch->flights[i] = NULL;
}

void each_flight(struct kvd *handle, void (*visit)(struct kvd *handle, struct flight *f))
{
	unsigned int i;

	for (i = 0; i < handle->call_count; i++)
		if (handle->calls[i].place != PLACE_ENDED)
			visit(handle, &handle->calls[i]);
	if (handle->submitted)
		handle->submitted->each(handle, visit);
}

void flight_detach(struct kvd *handle, struct flight *f)
{
	switch ((enum flight_place)f->place) {
	case PLACE_QUEUED:
		list_remove(&f->link);
		break;
	case PLACE_READING:
		reads_forget(&handle->conn, f);
		break;
	case PLACE_SENT:
		request_detach(&handle->conn, f);
		break;
	case PLACE_NONE:
	case PLACE_ENDED:
		break;
	}
	f->place = PLACE_NONE;
	if (f->has_transfer)
		transfer_release(handle, f);
}

void flight_cut(struct kvd *handle, struct flight *f, enum kvd_status status)
{
	flight_detach(handle, f);
	flight_fail(handle, f, status);
}
