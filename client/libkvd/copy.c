/* SPDX-License-Identifier: MIT */
/*
 * Sends items to another member of a fleet. Copies are submitted operations of a handle that has no
 * others: their flights are its slots. They have no number, since `use` is in its place, and go
 * alone, since the handle makes no batches.
 */
#include "client/libkvd/copy.h"

#include "client/libkvd/engine.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/op.h"
#include "client/libkvd/rpc.h"

static enum kvd_status not_accepted(struct kvd *handle)
{
	return handle_error_set(handle, KVD_ERR_AWAY,
				"the member of the fleet at %s does not accept the shards",
				handle->dev->address);
}

/* Keeps the status, and the text, of the first that fails. */
static void copy_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	f->status = KVD_OK;
	if (response->status != WIRE_EXISTS && !handle->copied)
		f->status = response_status(handle, response);
	if (response->status == WIRE_AWAY && f->status)
		f->status = not_accepted(handle);
	flight_end(handle, f);
}

static void copy_fail(struct flight *f, enum kvd_status status)
{
	f->status = status;
}

static const struct flight_ops copy_ops = { .response = copy_response, .fail = copy_fail };

static void copy_ended(struct kvd *handle, struct flight *f)
{
	if (!handle->copied)
		handle->copied = f->status;
	list_add_first(&handle->slots, &f->link);
	handle->outstanding--;
}

static void copies_each(struct kvd *handle, void (*visit)(struct kvd *handle, struct flight *f))
{
	struct flight *f = handle->slot_memory;
	uint32_t i;

	for (i = 0; i < handle->options.depth; i++, f++)
		if (f->place != PLACE_NONE && f->place != PLACE_ENDED)
			visit(handle, f);
}

/* A copy that has no slot was not submitted, and copies have no deadlines of their own. */
static void nothing_close(struct kvd *handle, enum kvd_status status)
{
	(void)handle, (void)status;
}

static const struct submitted_ops copies = { .each = copies_each, .close = nothing_close };

static bool is_less(struct kvd *handle, const void *arg)
{
	return handle->outstanding < *(const size_t *)arg;
}

static void copy_expire(struct kvd *handle, struct flight *f)
{
	flight_expire(handle, f);
}

/* Waits until less than @count copies are under way; each answer may take timeout_ms. */
static enum kvd_status copies_wait(struct kvd *handle, size_t count)
{
	size_t now;

	while (handle->outstanding >= count) {
		now = handle->outstanding;
		handle->deadline_ns = 0;
		if (!engine_wait(handle, is_less, &now, &handle->deadline_ns))
			copies_each(handle, copy_expire);
	}
	return handle->copied;
}

static void copy_begin(struct kvd *handle, const struct rpc *rpc)
{
	struct flight *f = list_entry(handle->slots.next, struct flight, link);

	list_remove(&f->link);
	flight_init_lookup(f, NULL, NULL);
	f->kind = FLIGHT_CHANGE;
	f->ops = &copy_ops;
	f->ended = copy_ended;
	f->rpc = *rpc;
	handle->outstanding++;
	request_add(handle, f);
	engine_step(handle);
}

static enum kvd_status submit(struct kvd *handle, const struct rpc *rpc)
{
	enum kvd_status status = call_begin(handle);

	if (status)
		return status;
	status = slots_make(handle, &copies);
	if (!status)
		status = copies_wait(handle, handle->options.depth);
	if (!status)
		copy_begin(handle, rpc);
	return call_end(handle, status);
}

enum kvd_status copy_put(struct kvd *handle, const struct copy_item *item)
{
	const struct rpc rpc = {
		.on_loss = LOSS_FAILS,
		.head = {
			.op = WIRE_PUT,
			.mode = WIRE_COPY,
			.value_len = item->value_len,
			.item_flags = item->flags,
			.version = item->version,
			.ttl = item->ttl,
			.use = item->use,
		},
		.key = item->key,
		.key_len = item->key_len,
		.value = item->value,
	};

	return submit(handle, &rpc);
}

enum kvd_status copy_clear(struct kvd *handle, uint32_t segment)
{
	const struct rpc rpc = {
		.on_loss = LOSS_FAILS,
		.head = { .op = WIRE_MOVE, .mode = WIRE_MOVE_CLEAR, .segment = segment },
	};

	return submit(handle, &rpc);
}

/* Returns the failure of a copy, and forgets it. */
static enum kvd_status settle(struct kvd *handle)
{
	enum kvd_status status = copies_wait(handle, 1);

	handle->copied = KVD_OK;
	return status;
}

enum kvd_status copy_settle(struct kvd *handle)
{
	enum kvd_status status = call_begin(handle);

	return status ? status : call_end(handle, settle(handle));
}

static enum kvd_status move(struct kvd *handle, struct rpc *rpc, uint64_t *result)
{
	struct response response = { 0 };
	enum kvd_status status;

	handle->deadline_ns = 0;
	status = rpc_call(handle, rpc, &response);
	if (response.status == WIRE_AWAY)
		return not_accepted(handle);
	if (!status && result)
		*result = response.result;
	return status;
}

enum kvd_status copy_move(struct kvd *handle, enum wire_move mode, uint64_t arg,
			  uint64_t generation, uint64_t *result)
{
	struct rpc rpc = {
		.on_loss = LOSS_FAILS,
		.head = {
			.op = WIRE_MOVE,
			.mode = (uint8_t)mode,
			.arg64 = arg,
			.arg_addr = generation,
		},
	};
	enum kvd_status status = call_begin(handle);

	if (status)
		return status;
	status = settle(handle);
	return call_end(handle, status ? status : move(handle, &rpc, result));
}
