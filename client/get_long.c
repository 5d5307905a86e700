/* SPDX-License-Identifier: MIT */
/*
 * GETs that need more than READs to the ring: of items that are longer than it, and by request. For
 * the latter the server looks the key up without a lock (server/store/lookup.h) and sends the
 * value, or the offset of a copy that this client READs.
 *
 * A copy stands until the connection's next request. So while one is READ no request is sent; and
 * if one was sent already, behind that of the GET, the GET is done again, and alone: no request is
 * sent between its own and its end. With touch it touches twice then, which nobody can tell from
 * once.
 */
#include "client/get.h"
#include "client/landing.h"
#include "client/lookup.h"
#include "client/memory.h"
#include "client/pieces.h"
#include "client/read.h"
#include "client/rpc.h"
#include "client/transfer.h"

/* Ends a GET. */
static void get_end(struct kvd *handle, struct flight *f, enum kvd_status status)
{
	lookup_finish(&f->lookup, status);
	flight_end(handle, f);
}

void get_request(struct kvd *handle, struct flight *f, uint16_t flags, uint32_t ttl_s)
{
	const struct kvd_get_request *request = f->lookup.request;

	f->rpc = (struct rpc){
		.on_loss = flags & WIRE_F_TOUCH ? LOSS_UNKNOWN : LOSS_REPEATS,
		.head = { .op = WIRE_GET, .flags = flags, .ttl = ttl_s },
		.key = request->key,
		.key_len = request->key_len,
	};
	request_add(handle, f);
}

/* A READ of f->large_bytes to the ring. */
static void small_read(struct kvd *handle, struct flight *f)
{
	if (!read_add(handle, f, f->large_offset, (uint32_t)f->large_bytes))
		read_wait(handle, f, (uint32_t)f->large_bytes);
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
	return flight_get_memory(handle, f, request->value, request->value_size);
}

static void transfer_start(struct kvd *handle, struct flight *f)
{
	enum kvd_status status;

	value_is_direct(handle, f);
	status = transfer_begin(
		handle, f, f->phase == PHASE_LARGE ? handle->geometry.incarnation : f->copy_seed);
	if (status)
		get_end(handle, f, status);
}

void item_transfer(struct kvd *handle, struct flight *f, uint64_t offset, uint64_t bytes)
{
	if (!region_holds(handle, offset, sizeof(struct item) + ITEM_VALUE_SUM_BYTES + KEY_MAX)) {
		lookup_stale(handle, &f->lookup);
		lookup_step(handle, f);
		return;
	}
	f->phase = PHASE_LARGE;
	f->large_offset = offset;
	f->large_bytes = bytes;
	transfer_start(handle, f);
}

/* Sends the request again, before those that wait, and nothing until its end. */
static void get_alone(struct kvd *handle, struct flight *f)
{
	f->alone = true;
	f->rpc.change = 0; /* it takes the next number */
	f->rpc.head.change = 0;
	f->place = PLACE_QUEUED;
	list_add_first(&handle->requests, &f->link);
	handle->attention = true;
}

/*
 * The server has touched the item, and only its value is still to come: if the connection is lost
 * it is asked for without touch.
 */
static void touch_done(struct flight *f, uint64_t version)
{
	f->rpc.on_loss = LOSS_REPEATS;
	f->rpc.change = 0;
	f->rpc.version = version;
	f->rpc.head.change = 0;
	f->rpc.head.flags = 0;
	f->rpc.head.ttl = 0;
}

static void copy_begin(struct kvd *handle, struct flight *f)
{
	if (ring_is_short(&handle->conn, f->large_bytes)) {
		f->phase = PHASE_COPY_LARGE;
		transfer_start(handle, f);
	} else {
		f->phase = PHASE_COPY;
		small_read(handle, f);
	}
}

/* READs the copy that the server made of a large value; its sum has a seed of its own. */
static void copy_read(struct kvd *handle, struct flight *f, const struct response *response)
{
	uint64_t bytes = item_bytes(f->lookup.request->key_len, response->value_len);
	uint64_t offset = slot_offset(response->slot);

	if (!region_holds(handle, offset, bytes)) {
		get_end(handle, f,
			handle_fail(handle, KVD_ERR_PROTOCOL,
				    "the copy of the value is out of the server's region"));
		return;
	}
	if (!handle->conn.copy_stands) {
		get_alone(handle, f);
		return;
	}
	if (f->rpc.head.flags & WIRE_F_TOUCH)
		touch_done(f, response->version);
	handle->conn.fence = f;
	f->copy_seed = response->copy_seed;
	f->large_offset = offset;
	f->large_bytes = bytes;
	copy_begin(handle, f);
}

/* @value: NULL if it is in the caller's buffer; @item: NULL if the copy did not verify. */
static void copy_done(struct kvd *handle, struct flight *f, const struct item *item,
		      const void *value)
{
	enum kvd_status status;
	struct kvd_item about;

	if (!item) {
		status = handle_fail(handle, KVD_ERR_BUSY,
				     "the server freed its copy of the value before it was read; "
				     "try again");
	} else {
		about = item_info(item);
		status = lookup_deliver(handle, &f->lookup, value, &about);
	}
	get_end(handle, f, status);
}

static void small_copy_done(struct kvd *handle, struct flight *f)
{
	const struct item *item = (const struct item *)(const void *)f->lookup.buffer;

	if (item_verifies(item, f->large_bytes, &handle->sum_key, f->copy_seed, f->large_offset) &&
	    item_is_for(item, f->lookup.request))
		copy_done(handle, f, item, item_value(item));
	else
		copy_done(handle, f, NULL, NULL);
}

/*
 * The value of a GET with touch that was executed before: asks for it, without touch, before later
 * changes of the handle are sent.
 */
static void get_again(struct kvd *handle, struct flight *f, uint64_t version)
{
	touch_done(f, version);
	f->place = PLACE_QUEUED;
	list_add_first(&handle->requests, &f->link);
	handle->attention = true;
}

/* Whether the item is not the one any more that was touched then. */
static bool item_has_changed(const struct flight *f, const struct response *response)
{
	return f->rpc.version && (response->status == WIRE_NOT_FOUND ||
				  (!response->status && response->version != f->rpc.version));
}

static enum kvd_status change_is_unknown(struct kvd *handle)
{
	handle->stats.unknown++;
	return handle_error_set(handle, KVD_ERR_UNKNOWN,
				"the connection to %s was lost before the response to a GET with "
				"touch came, and the item that it touched has changed since",
				handle->dev->address);
}

/*
 * Whether a GET may be answered so: too large says that it did not fit the response to a batch; or,
 * where the client may not READ, its own response.
 */
static bool status_fits(const struct flight *f, enum wire_status status, bool by_request)
{
	return status == WIRE_OK || status == WIRE_NOT_FOUND || status == WIRE_BUSY ||
	       status == WIRE_UNKNOWN || status == WIRE_PROTOCOL || status == WIRE_NOT_ALLOWED ||
	       status == WIRE_LIMIT || (status == WIRE_TOO_LARGE && (!f->alone || by_request));
}

/*
 * NULL, or what is wrong. Only what has a number can have been executed before, and where no value
 * was asked for there is no copy.
 */
static const char *answer_check(const struct flight *f, const struct response *response,
				bool by_request)
{
	if (!status_fits(f, response->status, by_request))
		return "a status that no GET has";
	if (response->status)
		return NULL;
	if (response->flags & WIRE_R_REPEATED && !f->rpc.change)
		return "a GET without a number was executed before";
	if (response->flags & WIRE_R_COPY && f->lookup.exists)
		return "a copy where no value was asked for";
	if (response->flags & WIRE_R_COPY && by_request)
		return "a copy for a client that may not READ";
	return NULL;
}

/* Asks for what follows of a value that fits no response, before other requests are sent. */
static void part_request(struct kvd *handle, struct flight *f, uint64_t offset)
{
	touch_done(f, offset ? f->rpc.version : 0);
	f->rpc.head.flags = WIRE_F_PART;
	f->rpc.head.offset = offset;
	f->place = PLACE_QUEUED;
	list_add_first(&handle->requests, &f->link);
	handle->attention = true;
}

/* Another value has taken the place of the one of which there are parts. */
static void parts_begin_again(struct kvd *handle, struct flight *f)
{
	if (++f->lookup.tries < handle->options.get_tries)
		part_request(handle, f, 0);
	else
		get_end(handle, f,
			handle_fail(handle, KVD_ERR_BUSY,
				    "the value kept changing while it was read in parts; try "
				    "again"));
}

static void part_deliver(const struct flight *f, const uint8_t *from, uint64_t offset, size_t bytes)
{
	size_t left;
	uint8_t *to;

	if (!f->lookup.pieces) {
		memcpy((uint8_t *)f->lookup.request->value + offset, from, bytes);
		return;
	}
	for (; bytes; from += left, offset += left, bytes -= left) {
		to = pieces_at(f->op, offset, &left);
		left = left < bytes ? left : bytes;
		memcpy(to, from, left);
	}
}

/* NULL, or what is wrong with the next part of a value. */
static const char *part_check(const struct response *response, uint64_t offset)
{
	if (response->flags)
		return "a part of a value with flags";
	if (response->result > VALUE_MAX || offset > response->result ||
	    response->value_len > response->result - offset ||
	    (!response->value_len && offset < response->result))
		return "a part of a value that is not the next one";
	return NULL;
}

static enum kvd_status part_take(struct kvd *handle, struct flight *f,
				 const struct response *response)
{
	struct kvd_get_request *request = f->lookup.request;
	uint64_t size = f->lookup.pieces ? pieces_bytes(f->op) : request->value_size;

	request->item = (struct kvd_item){
		.value_len = response->result,
		.version = response->version,
		.flags = response->item_flags,
		.expires_s = response->expires,
	};
	if (response->result > size)
		return value_deliver(handle, &f->lookup, NULL);
	if (response->value_len)
		part_deliver(f, response->value, f->rpc.head.offset, response->value_len);
	return KVD_OK;
}

static void part_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	uint64_t offset = f->rpc.head.offset;
	enum kvd_status status = response_status(handle, response);
	const char *error;

	if (!status && offset && response->version != f->rpc.version) {
		parts_begin_again(handle, f);
		return;
	}
	error = status ? NULL : part_check(response, offset);
	if (error)
		status = handle_fail(handle, KVD_ERR_PROTOCOL,
				     "malformed response from the server at %s: %s",
				     handle->dev->address, error);
	if (!status)
		status = part_take(handle, f, response);
	f->rpc.version = response->version;
	if (!status && offset + response->value_len < response->result)
		part_request(handle, f, offset + response->value_len);
	else
		get_end(handle, f, status);
}

void get_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	const char *error = answer_check(f, response, handle->conn.by_request);
	enum kvd_status status;
	struct kvd_item about;

	if (error) {
		get_end(handle, f,
			handle_fail(handle, KVD_ERR_PROTOCOL,
				    "malformed response from the server at %s: %s",
				    handle->dev->address, error));
		return;
	}
	if (f->rpc.head.flags & WIRE_F_PART) {
		part_response(handle, f, response);
		return;
	}
	if (response->status == WIRE_TOO_LARGE && handle->conn.by_request) {
		f->lookup.tries = 0;
		part_request(handle, f, 0);
		return;
	}
	if (response->status == WIRE_TOO_LARGE) {
		get_alone(handle, f);
		return;
	}
	status = item_has_changed(f, response) ? change_is_unknown(handle) :
						 response_status(handle, response);
	if (!status && response->flags & WIRE_R_REPEATED) {
		get_again(handle, f, response->version);
		return;
	}
	if (!status && response->flags & WIRE_R_COPY) {
		copy_read(handle, f, response);
		return;
	}
	if (!status) {
		about = (struct kvd_item){
			.value_len = response->value_len,
			.version = response->version,
			.flags = response->item_flags,
			.expires_s = response->expires,
		};
		if (f->lookup.exists) {
			about.value_len = response->result;
			f->lookup.request->item = about;
		} else {
			status = lookup_deliver(handle, &f->lookup, response->value, &about);
		}
	}
	get_end(handle, f, status);
}

/* The transfer, which was released, is another's now: the flight has what is left of it. */
static void transfer_done(struct kvd *handle, struct flight *f)
{
	enum transfer_outcome outcome = f->transfer->outcome;
	enum kvd_status stopped = f->transfer->stopped;
	struct item item = f->transfer->head;
	struct lookup *l = &f->lookup;

	transfer_release(handle, f);
	/* What is READ next may be short, and copied. */
	if (outcome != TRANSFER_FOUND && f->direct)
		flight_put_memory(handle, f);
	if (outcome == TRANSFER_ENDED) {
		get_end(handle, f, stopped);
		return;
	}
	if (f->phase == PHASE_COPY_LARGE) {
		copy_done(handle, f, outcome == TRANSFER_FOUND ? &item : NULL, NULL);
		return;
	}
	if (outcome == TRANSFER_FOUND)
		lookup_found(handle, l, &item);
	else if (outcome == TRANSFER_OTHER)
		lookup_other_key(handle, l);
	else
		lookup_stale(handle, l);
	lookup_step(handle, f);
}

void long_done(struct kvd *handle, struct flight *f)
{
	if (f->phase == PHASE_COPY) {
		f->place = PLACE_NONE;
		small_copy_done(handle, f);
	} else if (transfer_piece(handle, f)) {
		transfer_done(handle, f);
	}
}

void long_ready(struct kvd *handle, struct flight *f)
{
	f->place = PLACE_NONE;
	if (f->phase == PHASE_COPY)
		copy_begin(handle, f);
	else if (f->has_transfer)
		transfer_post(handle, f);
	else
		transfer_start(handle, f);
}
