/* SPDX-License-Identifier: MIT */
/* How flights end, in time or early, and the memory of the caller's that they use. */
#include "client/libkvd/flight.h"

#include "client/libkvd/memory.h"
#include "client/libkvd/message.h"
#include "client/libkvd/read.h"
#include "client/libkvd/transfer.h"
#include "common/util/clock.h"
#include "common/util/log.h"

/*
 * The last change for which the lookup has waited was refused, and may have to be made by another
 * member: so the lookup waits with it.
 */
static bool is_refused(const struct kvd *handle, const struct flight *f)
{
	const struct kvd *home = handle->member.home;

	return home && f->at == handle && !change_blocks(handle, f->lookup.hash) &&
	       home->fleet_ops->holds(home, f);
}

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
		if (is_refused(handle, f))
			flight_cut(handle, f, KVD_ERR_MOVED);
		else
			f->ops->begin(handle, f);
	}
}

/* The flight's change is not outstanding any more: GETs of the key may begin. */
static void change_end(struct kvd *handle, struct flight *f)
{
	f->counted = false;
	handle->changes--;
	handle->change_filter[f->lookup.hash % (1 << CHANGE_FILTER_BITS)]--;
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

/* From now on the server is away, unless the loss is too recent: client/libkvd/reconnect.h. */
static void away_begin(struct kvd *handle)
{
	struct reconnect *reconnect = &handle->reconnect;

	if (reconnect->away ||
	    clock_ns() - reconnect->since_ns < handle->options.timeout_ms * 1000000ull / 2)
		return;
	reconnect->away = true;
	handle->attention = true;
	log_warn("%s is away: operations fail at once until a try to connect succeeds",
		 handle->dev->address);
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
	if (reconnect->status != KVD_ERR_AUTH)
		away_begin(handle);
	return handle_error_set(handle, status,
				"no connection to %s for %llu.%03llu s, %u tries failed; %s: %s",
				handle->dev->address, (unsigned long long)ms / 1000,
				(unsigned long long)ms % 1000, reconnect->tries,
				sent ? "the change may have taken effect" : "nothing was done",
				reconnect->why);
}

/* clock_raw_ns() from which on the server has sent nothing, although it had to. */
static uint64_t owed_since_ns(const struct connection *conn)
{
	uint64_t oldest_ns = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < conn->message_count; i++)
		if (conn->messages[i].id && conn->messages[i].sent_ns < oldest_ns)
			oldest_ns = conn->messages[i].sent_ns;
	return oldest_ns > conn->response_ns ? oldest_ns : conn->response_ns;
}

/* Looks whether the server is silent. Without a window nothing is posted: a response has one. */
static void silence_look(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	uint64_t now_ns = clock_raw_ns();

	if (!conn->outstanding || connection_is_silent(conn) ||
	    now_ns - owed_since_ns(conn) < SILENCE_NS)
		return;
	conn->silent_ns = now_ns;
	conn->window = 0;
	handle->attention = true;
	log_warn("%s does not answer: requests fail at once until it does", handle->dev->address);
}

/* Neither requests nor READs of the connection get on: only another one can. */
static void connection_give_up(struct kvd *handle)
{
	handle_fail(handle, KVD_ERR_DISCONNECTED,
		    "the connection to %s was closed: neither READs nor requests were answered",
		    handle->dev->address);
}

enum kvd_status timeout_fail(struct kvd *handle, const struct flight *f)
{
	if (handle->fleet && f)
		return handle_error_set(handle, KVD_ERR_MOVED,
					"no member of the fleet serves the key now; nothing was "
					"done");
	if (handle->fleet)
		return handle_error_set(handle, KVD_ERR_TIMEOUT,
					"the operation did not begin within the timeout");
	if (!handle->up)
		return no_connection(handle, f);
	if (f && f->place == PLACE_READING && connection_is_silent(&handle->conn) &&
	    handle->options.reconnect)
		connection_give_up(handle);
	silence_look(handle);
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
	bool is_change = f->counted;

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
	/* Not before: a change that another member has to make holds back those that follow it. */
	if (is_change && !list_empty(&handle->blocked) && handle->up && !handle->conn.broken)
		blocked_begin(handle);
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
	struct kvd *home = handle_home(handle);
	unsigned int i;

	for (i = 0; i < home->call_count; i++)
		if (home->calls[i].place != PLACE_ENDED && flight_is_at(handle, &home->calls[i]))
			visit(handle, &home->calls[i]);
	/* A fleet's handle calls its members, too. */
	for (i = 0; home != handle && i < handle->call_count; i++)
		if (handle->calls[i].place != PLACE_ENDED)
			visit(handle, &handle->calls[i]);
	if (home->submitted)
		home->submitted->each(handle, visit);
}

void each_waiting(struct kvd *handle, struct list *list,
		  void (*visit)(struct kvd *handle, struct flight *f))
{
	struct list waiters;
	struct flight *f;

	list_init(&waiters);
	list_move_all(&waiters, list);
	while (!list_empty(&waiters)) {
		f = list_entry(waiters.next, struct flight, link);
		list_remove(&f->link);
		list_add(list, &f->link);
		visit(handle, f);
	}
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

void silence_cut(struct kvd *handle, struct flight *f)
{
	uint64_t ms = (clock_raw_ns() - owed_since_ns(&handle->conn)) / 1000000;

	handle->stats.away++;
	flight_cut(handle, f,
		   handle_error_set(handle, KVD_ERR_AWAY,
				    "%s is away: it has not answered for %llu.%03llu s; nothing "
				    "was done",
				    handle->dev->address, (unsigned long long)ms / 1000,
				    (unsigned long long)ms % 1000));
}

/* Ends the flight if it has no effect on the server. */
static void flight_silenced(struct kvd *handle, struct flight *f)
{
	if (flight_may_have_acted(f))
		return;
	/* The handle's own asks for the clock: its waiters end, too. */
	if (f->kind == FLIGHT_OWN)
		flight_detach(handle, f);
	else
		silence_cut(handle, f);
}

void silence_end(struct kvd *handle)
{
	if (handle->conn.broken || !connection_is_silent(&handle->conn))
		return;
	each_waiting(handle, &handle->requests, flight_silenced);
	each_waiting(handle, &handle->clock_waiters, flight_silenced);
	if (handle->member.word_clock)
		each_waiting(handle, &handle->word_waiters, flight_silenced);
	handle->member.word_clock = false;
}
