/* SPDX-License-Identifier: MIT */
/* Turns requests into calls of the store, and their results into response headers. */
#include "server/net/execute.h"

#include "common/util/stat.h"
#include "server/store/store.h"

/* Tries of a GET with touch, each of which fails when the value is replaced in between. */
#define TOUCH_TRIES_MAX 64

void put_change_init(const struct request *request, struct table_change *change)
{
	*change = (struct table_change){
		.key = request->key,
		.key_len = request->key_len,
		.mode = (enum wire_put)request->mode,
		.value = request->value,
		.value_len = request->value_len,
		.flags = request->item_flags,
		.ttl = request->ttl,
		.wish.low = request->flags & WIRE_F_LOW,
	};
	if (request->flags & WIRE_F_PIN)
		change->wish.pin = (uint32_t)request->pin;
	else
		change->version = request->version;
}

void response_set_change(const struct table_change *change, enum wire_status status,
			 struct wire_response *head)
{
	head->status = (uint8_t)status;
	head->flags = status && change->pins_full ? WIRE_R_PINS : 0;
	if (status)
		return;
	head->slot = change->slot;
	head->version = change->version;
	head->expires = change->expires;
}

static void response_set_item(const struct item *item, struct wire_response *head)
{
	head->version = item->version;
	head->item_flags = item->flags;
	head->expires = item->expires;
	head->value_len = item->value_len;
}

static enum wire_status touch(struct store_thread *thread, const struct request *request,
			      uint64_t hash, struct table_change *change)
{
	*change = (struct table_change){
		.key = request->key,
		.key_len = request->key_len,
		.ttl = request->ttl,
	};
	return table_touch(thread, hash, change);
}

/*
 * A GET with touch has two steps. A touch keeps the version, so if the value that is read next has
 * the same one, both steps were on one value.
 */
static void execute_get(struct store_thread *thread, const struct request *request, uint64_t hash,
			struct wire_response *head, struct response_value *value)
{
	bool touches = request->flags & WIRE_F_TOUCH, whole = !(request->flags & WIRE_F_NO_VALUE);
	enum wire_status status = WIRE_OK;
	struct table_change change = { 0 };
	unsigned int tries = 0;
	struct item_ref ref;

	do {
		if (touches)
			status = touch(thread, request, hash, &change);
		if (!status)
			status = lookup_get(thread, hash, request->key, request->key_len,
					    value->value, whole ? value->size : 0, &ref);
		if (!status && touches && ref.head.version != change.version)
			status = ++tries < TOUCH_TRIES_MAX ? WIRE_EXISTS : WIRE_BUSY;
	} while (status == WIRE_EXISTS);
	head->status = (uint8_t)status;
	if (status)
		return;
	response_set_item(&ref.head, head);
	if (!whole) {
		head->result = head->value_len;
		head->value_len = 0;
	} else if (head->value_len <= value->size) {
		value->len = head->value_len;
	}
	/* To ask whether a key exists is no use of its value. */
	if (whole && !touches && thread->table->eviction != EVICTION_NONE)
		table_access(thread, hash);
}

/* Of a value that is longer than a response, for a client that may not READ. */
static void execute_get_part(struct store_thread *thread, const struct request *request,
			     uint64_t hash, struct wire_response *head,
			     struct response_value *value)
{
	struct item_ref ref;

	head->status = (uint8_t)lookup_get_part(thread, hash, request->key, request->key_len,
						request->offset, value->value, value->size, &ref,
						&value->len);
	if (head->status) {
		value->len = 0;
		return;
	}
	response_set_item(&ref.head, head);
	head->result = head->value_len;
	head->value_len = value->len;
	if (!request->offset && thread->table->eviction != EVICTION_NONE)
		table_access(thread, hash);
}

/* Nothing that was filled in for a value stays. */
static void response_set_failed(enum wire_status status, struct wire_response *head)
{
	*head = (struct wire_response){
		.op = head->op,
		.id = head->id,
		.status = (uint8_t)status,
		.clock_ns = head->clock_ns,
	};
}

static void response_set_copy(const struct store_thread *thread, const struct item *copy,
			      uint64_t hash, uint64_t seed, struct wire_response *head)
{
	head->status = WIRE_OK;
	response_set_item(copy, head);
	head->flags = WIRE_R_COPY;
	head->copy_seed = seed;
	head->slot = slot_make(hash_tag(hash), region_offset(thread->table->region, copy),
			       item_bytes(copy->key_len, copy->value_len));
}

struct item *execute_copy(struct store_thread *thread, const struct request *request, uint64_t hash,
			  uint64_t seed, struct wire_response *head)
{
	enum wire_status status;
	struct item *copy;

	status = lookup_copy(thread, hash, request->key, request->key_len, seed, &copy);
	/* The touch was on another value. */
	if (!status && request->flags & WIRE_F_TOUCH && copy->version != head->version) {
		table_abandon(thread, copy);
		status = WIRE_BUSY;
	}
	if (status) {
		response_set_failed(status, head);
		return NULL;
	}
	response_set_copy(thread, copy, hash, seed, head);
	return copy;
}

static bool execute_put(struct store_thread *thread, const struct request *request, uint64_t hash,
			struct wire_response *head, struct room *room)
{
	struct table_change change;

	put_change_init(request, &change);
	change.room = room;
	response_set_change(&change, attempt_put(thread, hash, &change), head);
	return !change.large && !room_pending(room);
}

static bool execute_arith(struct store_thread *thread, const struct request *request, uint64_t hash,
			  struct wire_response *head, struct room *room)
{
	struct table_change change = {
		.key = request->key,
		.key_len = request->key_len,
		.delta = request->delta,
		.decrement = request->mode == WIRE_DECR,
		.create = request->flags & WIRE_F_CREATE,
		.number = request->initial,
		.flags = request->item_flags,
		.ttl = request->ttl,
		.room = room,
	};

	response_set_change(&change, table_arith(thread, hash, &change), head);
	if (!head->status)
		head->result = change.number;
	return !room_pending(room);
}

static void execute_touch(struct store_thread *thread, const struct request *request, uint64_t hash,
			  struct wire_response *head)
{
	struct table_change change = { 0 };
	enum wire_status status = touch(thread, request, hash, &change);

	response_set_change(&change, status, head);
	head->slot = 0;
}

static void execute_delete(struct store_thread *thread, const struct request *request,
			   uint64_t hash, struct wire_response *head)
{
	const struct table_change change = {
		.key = request->key,
		.key_len = request->key_len,
		.if_version = request->flags & WIRE_F_IF_VERSION,
		.version = request->version,
	};

	head->status = (uint8_t)table_delete(thread, hash, &change);
}

void execute_scan(struct store_thread *thread, const struct request *request, uint64_t until_ns,
		  struct wire_response *head, struct response_value *value)
{
	struct scan scan = {
		.prefix = request->key,
		.prefix_len = request->key_len,
		.keys_max = request->keys_max,
		.values = request->flags & WIRE_F_VALUES,
		.uses = request->flags & WIRE_F_USES,
		.cursor = request->cursor,
		.buffer = value->value,
		.size = value->size,
		.until_ns = until_ns,
	};

	head->status = (uint8_t)table_scan(thread, &scan);
	if (head->status)
		return;
	head->cursor = scan.cursor;
	head->entries = scan.entries;
	head->value_len = value->len = scan.used;
}

bool execute(struct store_thread *thread, const struct request *request, uint64_t hash,
	     struct wire_response *head, struct response_value *value, struct room *room)
{
	switch (request->op) {
	case WIRE_GET:
		if (request->flags & WIRE_F_PART)
			execute_get_part(thread, request, hash, head, value);
		else
			execute_get(thread, request, hash, head, value);
		break;
	case WIRE_PUT:
		return execute_put(thread, request, hash, head, room);
	case WIRE_DELETE:
		execute_delete(thread, request, hash, head);
		break;
	case WIRE_ARITH:
		return execute_arith(thread, request, hash, head, room);
	case WIRE_TOUCH:
		execute_touch(thread, request, hash, head);
		break;
	case WIRE_PING:
	case WIRE_ACCESS:
		break;
	case WIRE_HELLO:
	case WIRE_STATS:
	case WIRE_SCAN:
	case WIRE_FLUSH:
	case WIRE_CLIENTS:
	case WIRE_KILL:
	case WIRE_TENANT:
	case WIRE_REVOKE:
	case WIRE_BATCH:
		head->status = WIRE_PROTOCOL;
		break;
	}
	return true;
}

void execute_large_begin(struct large_request *large, struct store_thread *thread,
			 const struct request *request, uint64_t hash, uint64_t seed)
{
	struct table_change change;

	large->seed = seed;
	large->tries = 0;
	large->touched = 0;
	if (request->op == WIRE_PUT) {
		put_change_init(request, &change);
		large_append(&large->steps, thread, hash, &change);
	} else {
		large_copy(&large->steps, thread, hash, request->key, request->key_len, seed);
	}
}

/* The value was copied; as execute_get(), the touch and the copy have one version. */
static enum large_next large_get_next(struct large_request *large, const struct request *request,
				      uint64_t hash, struct wire_response *head)
{
	struct store_thread *thread = large->steps.thread;
	enum wire_status status = large->steps.status;
	struct item *copy = large->steps.copy;

	if (!status && large->touched && copy->version != large->touched) {
		table_abandon(thread, copy);
		large->steps.copy = NULL;
		status = WIRE_BUSY;
		if (++large->tries < TOUCH_TRIES_MAX) {
			large->touched = 0;
			large_copy(&large->steps, thread, hash, request->key, request->key_len,
				   large->seed);
			return LARGE_AGAIN;
		}
	}
	if (status)
		response_set_failed(status, head);
	else
		response_set_copy(thread, copy, hash, large->seed, head);
	return LARGE_DONE;
}

/* Touches what is to be copied next. */
static enum wire_status large_get_touch(struct large_request *large, const struct request *request,
					uint64_t hash)
{
	struct table_change change;
	enum wire_status status = touch(large->steps.thread, request, hash, &change);

	large->touched = change.version;
	return status;
}

enum large_next execute_large_step(struct large_request *large, const struct request *request,
				   uint64_t hash, uint32_t bytes_max, struct wire_response *head)
{
	enum wire_status status = WIRE_OK;
	enum large_next next;

	if (request->flags & WIRE_F_TOUCH && !large->touched)
		status = large_get_touch(large, request, hash);
	if (status) {
		large_cancel(&large->steps);
		response_set_failed(status, head);
		return LARGE_DONE;
	}
	next = large_step(&large->steps, bytes_max);
	if (next != LARGE_DONE)
		return next;
	if (request->op == WIRE_GET)
		return large_get_next(large, request, hash, head);
	response_set_change(&large->steps.change, large->steps.status, head);
	return LARGE_DONE;
}

void execute_access(struct store_thread *thread, const struct request *request)
{
	uint32_t i;

	if (thread->table->eviction == EVICTION_NONE)
		return;
	for (i = 0; i < request->access_count; i++)
		table_prefetch_bucket(thread->table, request_access(request, i));
	for (i = 0; i < request->access_count; i++)
		table_access(thread, request_access(request, i));
}
