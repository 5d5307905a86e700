/* SPDX-License-Identifier: MIT */
/*
 * GETs that need more than READs to the ring: of items that are longer than it, and by request. For
 * a request the server looks the key up without a lock (server/store/lookup.h) and sends what fits
 * a response. More requests fetch the other parts, which must all be of one version of the item, or
 * the GET starts again.
 *
 * A GET and touch is a TOUCH whose response has the value, or its first part. GETs, which have no
 * effect, fetch the other parts, and the whole value if the TOUCH was repeated and had been
 * executed before. If another client has replaced the item meanwhile, a new change touches the key
 * again: the effect of the first one is gone. This handle's own changes of the key wait until then
 * (request_waits()).
 */
#include "client/libkvd/flight.h"
#include "client/libkvd/get.h"
#include "client/libkvd/lookup.h"
#include "client/libkvd/memory.h"
#include "client/libkvd/message.h"
#include "client/libkvd/pieces.h"
#include "client/libkvd/read.h"
#include "client/libkvd/rpc.h"
#include "client/libkvd/transfer.h"

/* Ends a GET. */
static void get_end(struct kvd *handle, struct flight *f, enum kvd_status status)
{
	lookup_finish(&f->lookup, status);
	flight_end(handle, f);
}

static void request_set(struct flight *f, enum loss on_loss, const struct wire_request *head)
{
	const struct kvd_get_request *request = f->lookup.request;

	f->rpc = (struct rpc){
		.on_loss = on_loss,
		.head = *head,
		.key = request->key,
		.key_len = request->key_len,
	};
}

/* Asks for what is wanted from @offset on, and no more. */
static void range_request(struct flight *f, uint64_t offset)
{
	const struct kvd_get_request *request = f->lookup.request;
	uint64_t size = request->value_size < VALUE_MAX ? request->value_size : VALUE_MAX;
	uint64_t left = size - (offset - f->lookup.range_at);

	f->rpc.alone = true;
	if (!left) {
		f->rpc.head.flags = WIRE_F_NO_VALUE;
		return;
	}
	f->rpc.head.offset = offset;
	f->rpc.head.length = (uint32_t)left;
}

static void touch_set(struct flight *f)
{
	request_set(f, LOSS_UNKNOWN,
		    &(struct wire_request){
			    .op = WIRE_TOUCH, .flags = WIRE_F_VALUE, .ttl = f->op->ttl_s });
}

void get_request(struct kvd *handle, struct flight *f)
{
	request_set(f, LOSS_REPEATS,
		    &(struct wire_request){ .op = WIRE_GET,
					    .flags = f->lookup.part == PART_NONE ? WIRE_F_NO_VALUE :
										   0 });
	if (f->lookup.part == PART_RANGE)
		range_request(f, f->lookup.range_at);
	f->lookup.tries = 0;
	/* A member that has refused a change of the key executes the GET after it. */
	if (f->kind == FLIGHT_GET && handle->member.home && change_blocks(handle, f->lookup.hash)) {
		f->place = PLACE_QUEUED;
		list_add(&handle->blocked, &f->link);
		return;
	}
	request_add(handle, f);
}

void touch_request(struct kvd *handle, struct flight *f)
{
	touch_set(f);
	f->lookup.tries = 0;
	request_add(handle, f);
}

/*
 * Whether all pieces lie in one memory that the caller registered, and each is long enough for a
 * READ of its own. Then the flight has the memory until it ends.
 */
static bool pieces_are_direct(struct kvd *handle, struct flight *f)
{
	const struct kvd_op *op = f->op;
	uint32_t i;

	if (f->direct)
		return true;
	for (i = 0; i < op->iov_count; i++)
		if (op->iov[i].iov_len < TRANSFER_DIRECT_MIN)
			return false;
	if (!op->iov_count ||
	    !flight_get_memory(handle, f, op->iov[0].iov_base, op->iov[0].iov_len))
		return false;
	for (i = 1; i < op->iov_count; i++) {
		if (memory_holds(f->mem, op->iov[i].iov_base, op->iov[i].iov_len))
			continue;
		flight_put_memory(handle, f);
		return false;
	}
	return true;
}

bool value_is_direct(struct kvd *handle, struct flight *f)
{
	const struct kvd_get_request *request = f->lookup.request;

	if (handle->conn.read_sges_max < READ_SGES_MAX)
		return false;
	if (f->lookup.pieces)
		return pieces_are_direct(handle, f);
	if (f->lookup.part == PART_RANGE && request->value_size < TRANSFER_DIRECT_MIN)
		return false;
	return flight_get_memory(handle, f, request->value, request->value_size);
}

static void transfer_start(struct kvd *handle, struct flight *f)
{
	enum kvd_status status;

	value_is_direct(handle, f);
	status = transfer_begin(handle, f);
	if (status)
		get_end(handle, f, status);
}

void item_transfer(struct kvd *handle, struct flight *f, uint64_t offset, uint64_t bytes)
{
	if (region_left(handle, offset) < sizeof(union item_front) + KEY_MAX) {
		lookup_stale(handle, &f->lookup);
		lookup_step(handle, f);
		return;
	}
	f->phase = PHASE_LARGE;
	f->large_offset = offset;
	f->large_bytes = bytes;
	transfer_start(handle, f);
}

/*
 * Whether a GET may have this status. WIRE_TOO_LARGE: its value does not fit the response to a
 * batch.
 */
static bool status_fits(const struct flight *f, enum wire_status status)
{
	return status == WIRE_OK || status == WIRE_NOT_FOUND || status == WIRE_BUSY ||
	       status == WIRE_UNKNOWN || status == WIRE_PROTOCOL || status == WIRE_NOT_ALLOWED ||
	       status == WIRE_LIMIT || status == WIRE_MOVED || status == WIRE_AWAY ||
	       (status == WIRE_TOO_LARGE && request_may_share(f));
}

/* Where what the flight wants of a value of @value_len bytes ends. */
static uint64_t wanted_end(const struct flight *f, uint64_t value_len)
{
	switch ((enum lookup_part)f->lookup.part) {
	case PART_WHOLE:
		return value_len;
	case PART_NONE:
		return 0;
	case PART_RANGE:
		break;
	}
	/* Of an empty range nothing is asked for, from wherever it is. */
	return f->lookup.request->value_size ? range_of(&f->lookup, value_len).end : 0;
}

/* NULL, or what is wrong with the value, or a part of one. */
static const char *part_check(const struct flight *f, const struct response *response)
{
	uint64_t offset = f->rpc.head.offset, end = wanted_end(f, response->result);
	uint64_t left = offset < end ? end - offset : 0;

	if (f->lookup.part == PART_NONE && response->value_len)
		return "a value that was not asked for";
	if (response->result > VALUE_MAX || response->value_len > left ||
	    (f->lookup.part != PART_RANGE && offset > response->result))
		return "more than the value, or its range";
	return left && !response->value_len ? "no part of the value" : NULL;
}

/* Whether the item that was touched, or of which a part has come, was replaced. */
static bool item_has_changed(const struct flight *f, const struct response *response)
{
	if (!f->rpc.version)
		return false;
	return response->status == WIRE_NOT_FOUND ||
	       (!response->status && response->version != f->rpc.version);
}

/*
 * NULL, or what is wrong. Only a request with a number can have been executed before; then the
 * answer has no value. An answer about another item, which may be shorter, is not checked.
 */
static const char *answer_check(const struct flight *f, const struct response *response)
{
	if (!status_fits(f, response->status))
		return "a status that no GET has";
	if (response->status || item_has_changed(f, response))
		return NULL;
	if (!(response->flags & WIRE_R_REPEATED))
		return part_check(f, response);
	return f->rpc.change ? NULL : "a GET without a number was executed before";
}

/* Sends the next request of the GET, before those that wait. */
static void request_next(struct kvd *handle, struct flight *f)
{
	f->place = PLACE_QUEUED;
	list_add_first(&handle->requests, &f->link);
	handle->attention = true;
}

/* Asks for the value from @offset on, of the item with @version; 0: of any. */
static void part_request(struct kvd *handle, struct flight *f, uint64_t version, uint64_t offset)
{
	request_set(f, LOSS_REPEATS, &(struct wire_request){ .op = WIRE_GET, .offset = offset });
	if (f->lookup.part == PART_RANGE)
		range_request(f, offset);
	f->rpc.alone = true;
	f->rpc.version = version;
	request_next(handle, f);
}

/* Another client has replaced the item that was touched, or of which parts have come. */
static void value_begin_again(struct kvd *handle, struct flight *f)
{
	if (++f->lookup.tries >= handle->options.get_tries) {
		get_end(handle, f,
			handle_fail(handle, KVD_ERR_BUSY,
				    "the value kept changing while it was read in parts; try "
				    "again"));
	} else if (f->touching) {
		touch_set(f);
		request_next(handle, f);
	} else {
		part_request(handle, f, 0, f->lookup.part == PART_RANGE ? f->lookup.range_at : 0);
	}
}

/* Where byte @at of the value goes; *@count: how many of @bytes are contiguous from there. */
static uint8_t *value_at(const struct flight *f, uint64_t at, uint64_t bytes, size_t *count)
{
	uint8_t *to;

	*count = bytes;
	if (f->lookup.part == PART_RANGE)
		at -= f->lookup.range_at;
	if (!f->lookup.pieces)
		return (uint8_t *)f->lookup.request->value + at;
	to = pieces_at(f->op, at, count);
	if (*count > bytes)
		*count = bytes;
	return to;
}

static void part_deliver(const struct flight *f, const uint8_t *from, uint64_t at, uint64_t bytes)
{
	size_t count;
	uint8_t *to;

	for (; bytes; from += count, at += count, bytes -= count) {
		to = value_at(f, at, bytes, &count);
		memcpy(to, from, count);
	}
}

/*
 * Whether the parts, of which @response has the last, are the value that was stored. The server has
 * verified those of a range.
 */
static bool value_verifies(const struct kvd *handle, const struct flight *f,
			   const struct response *response)
{
	uint64_t at, bytes = response->result;
	struct value_sum sum;
	const uint8_t *from;
	size_t count;

	if (handle->conn.by_request || f->lookup.part != PART_WHOLE ||
	    !item_has_value_sum(f->lookup.request->key_len, response->result))
		return true;
	value_sum_begin(&sum, &handle->sum_key);
	for (at = 0; at < bytes; at += count) {
		from = value_at(f, at, bytes - at, &count);
		value_sum_add(&sum, from, count);
	}
	return value_sum_end(&sum) == response->value_sum;
}

static enum kvd_status value_end(struct kvd *handle, const struct flight *f,
				 const struct response *response)
{
	if (value_verifies(handle, f, response))
		return KVD_OK;
	return handle_fail(handle, KVD_ERR_BUSY,
			   "the value does not verify: the server's memory, or this process's, is "
			   "damaged");
}

static enum kvd_status part_take(struct kvd *handle, struct flight *f,
				 const struct response *response)
{
	struct kvd_get_request *request = f->lookup.request;
	enum kvd_status status;

	request->item = (struct kvd_item){
		.value_len = response->result,
		.version = response->version,
		.flags = response->item_flags,
		.expires_s = response->expires,
	};
	status = f->lookup.part == PART_WHOLE ? value_deliver(handle, &f->lookup, NULL) : KVD_OK;
	if (!status && response->value_len)
		part_deliver(f, response->value, f->rpc.head.offset, response->value_len);
	return status;
}

void get_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	const char *error = answer_check(f, response);
	enum kvd_status status;
	uint64_t end;

	if (error) {
		get_end(handle, f,
			handle_fail(handle, KVD_ERR_PROTOCOL,
				    "malformed response from the server at %s: %s",
				    handle->dev->address, error));
		return;
	}
	if (item_has_changed(f, response)) {
		value_begin_again(handle, f);
		return;
	}
	if (response->status == WIRE_TOO_LARGE) {
		part_request(handle, f, 0, 0);
		return;
	}
	status = response_status(handle, response);
	if (status == KVD_ERR_BUSY && f->lookup.part == PART_RANGE)
		handle_fail(handle, status,
			    "the server can't read the value now, or it does not verify, since its "
			    "memory is damaged; try again later");
	if (!status && response->flags & WIRE_R_REPEATED) {
		part_request(handle, f, response->version, 0);
		return;
	}
	if (!status)
		status = part_take(handle, f, response);
	end = f->rpc.head.offset + response->value_len;
	if (!status && end < wanted_end(f, response->result)) {
		part_request(handle, f, response->version, end);
		return;
	}
	if (!status)
		status = value_end(handle, f, response);
	get_end(handle, f, status);
}

/* Copies what it needs of the transfer first: once released, another flight may use it. */
static void transfer_done(struct kvd *handle, struct flight *f)
{
	enum transfer_outcome outcome = f->transfer->outcome;
	enum kvd_status stopped = f->transfer->stopped;
	union item_front front = f->transfer->front;
	struct lookup *l = &f->lookup;

	transfer_release(handle, f);
	/* What is READ next may be short, and then is copied. */
	if (outcome != TRANSFER_FOUND && f->direct)
		flight_put_memory(handle, f);
	if (outcome == TRANSFER_ENDED) {
		get_end(handle, f, stopped);
		return;
	}
	if (outcome == TRANSFER_FOUND)
		lookup_found(handle, l, &front.item);
	else if (outcome == TRANSFER_OTHER)
		lookup_other_key(handle, l);
	else
		lookup_stale(handle, l);
	lookup_step(handle, f);
}

void large_done(struct kvd *handle, struct flight *f)
{
	if (transfer_piece(handle, f))
		transfer_done(handle, f);
}

void large_ready(struct kvd *handle, struct flight *f)
{
	f->place = PLACE_NONE;
	if (f->has_transfer)
		transfer_post(handle, f);
	else
		transfer_start(handle, f);
}
