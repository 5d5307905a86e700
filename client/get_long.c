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
#include "client/large.h"
#include "client/lookup.h"
#include "client/read.h"
#include "client/rpc.h"

/*
 * Checks a header that is not verified yet: before memory of the length it says is allocated and
 * READ.
 */
static bool header_is_plausible(const struct kvd *handle, const struct item *head)
{
	return head->sum != ITEM_SUM_INVALID && head->key_len && head->key_len <= KEY_MAX &&
	       head->value_len <= handle->geometry.value_max;
}

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

void item_head_read(struct kvd *handle, struct flight *f)
{
	f->phase = PHASE_HEAD;
	f->large_offset = slot_offset(f->lookup.slots[f->lookup.slot]);
	f->large_bytes = sizeof(struct item);
	if (region_holds(handle, f->large_offset, f->large_bytes)) {
		small_read(handle, f);
		return;
	}
	lookup_stale(handle, &f->lookup);
	lookup_step(handle, f);
}

static void large_start(struct kvd *handle, struct flight *f)
{
	enum kvd_status status = large_begin(handle, f);

	if (status)
		get_end(handle, f, status);
}

void item_large_read(struct kvd *handle, struct flight *f, uint64_t offset, uint64_t bytes)
{
	f->phase = PHASE_LARGE;
	f->large_offset = offset;
	f->large_bytes = bytes;
	large_start(handle, f);
}

/* READs all of the item, if the header may be right. */
static void head_done(struct kvd *handle, struct flight *f)
{
	struct lookup *l = &f->lookup;
	struct item head;
	uint64_t bytes;

	memcpy(&head, l->buffer, sizeof(head));
	bytes = item_bytes(head.key_len, head.value_len);
	if (header_is_plausible(handle, &head) && region_holds(handle, f->large_offset, bytes)) {
		item_large_read(handle, f, f->large_offset, bytes);
		return;
	}
	lookup_stale(handle, l);
	lookup_step(handle, f);
}

/* Sends the request again, before those that wait, and nothing until its end. */
static void get_alone(struct kvd *handle, struct flight *f)
{
	f->alone = true;
	f->place = PLACE_QUEUED;
	list_add_first(&handle->requests, &f->link);
	handle->attention = true;
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
	handle->conn.fence = f;
	f->copy_seed = response->copy_seed;
	f->large_offset = offset;
	f->large_bytes = bytes;
	if (bytes > RING_BYTES_MAX) {
		f->phase = PHASE_COPY_LARGE;
		large_start(handle, f);
	} else {
		f->phase = PHASE_COPY;
		small_read(handle, f);
	}
}

static void copy_done(struct kvd *handle, struct flight *f, const void *data)
{
	struct kvd_get_request *request = f->lookup.request;
	const struct item *item = data;
	enum kvd_status status;
	struct kvd_item about;

	if (!item_verifies(item, f->large_bytes, f->copy_seed, f->large_offset) ||
	    !item_is_for(item, request)) {
		status = handle_fail(handle, KVD_ERR_BUSY,
				     "the server freed its copy of the value before it was read; "
				     "try again");
	} else {
		about = item_info(item);
		status = lookup_deliver(handle, request, item_value(item), &about);
	}
	if (handle->large_flight == f)
		large_release(handle);
	get_end(handle, f, status);
}

void get_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	enum kvd_status status;
	struct kvd_item about;

	/* It did not fit the response to a batch. */
	if (response->status == WIRE_TOO_LARGE && !f->alone) {
		get_alone(handle, f);
		return;
	}
	status = response_status(handle, response);
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
			status = lookup_deliver(handle, f->lookup.request, response->value, &about);
		}
	}
	get_end(handle, f, status);
}

static void large_done(struct kvd *handle, struct flight *f)
{
	if (f->large_at < f->large_bytes) {
		large_read(handle, f);
	} else if (f->phase == PHASE_COPY_LARGE) {
		copy_done(handle, f, handle->large.buf.base);
	} else {
		lookup_item(handle, &f->lookup, (const struct item *)handle->large.buf.base,
			    f->large_bytes);
		large_release(handle);
		lookup_step(handle, f);
	}
}

void long_done(struct kvd *handle, struct flight *f)
{
	f->place = PLACE_NONE;
	if (f->phase == PHASE_HEAD)
		head_done(handle, f);
	else if (f->phase == PHASE_COPY)
		copy_done(handle, f, f->lookup.buffer);
	else
		large_done(handle, f);
}

void long_ready(struct kvd *handle, struct flight *f)
{
	if (f->phase == PHASE_HEAD || f->phase == PHASE_COPY)
		small_read(handle, f);
	else if (handle->large_flight == f)
		large_read(handle, f);
	else
		large_start(handle, f);
}
