/* SPDX-License-Identifier: MIT */
/* Turns requests into calls of the store, and their results into response headers. */
#include "server/worker/execute.h"

#include "common/util/stat.h"
#include "server/store/store.h"

/* Tries of a TOUCH with VALUE, each of which fails when the value is replaced in between. */
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
		.use = request->use,
		.wish.low = request->flags & WIRE_F_LOW,
		.expects = request->expects,
		.expected = request->expected,
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
	head->version = status == WIRE_EXISTS ? change->existing : 0;
	if (status)
		return;
	head->slot = change->slot;
	head->version = change->version;
	head->expires = change->expires;
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
 * A range that the client wants, or what fits of it. A client that may READ has tried that, in
 * vain: what it gets is verified here, since a part does not show whether it is damaged.
 */
static enum wire_status range_get(struct store_thread *thread, const struct request *request,
				  uint64_t hash, struct response_value *value, struct item_ref *ref)
{
	uint32_t size = request->length < value->size ? request->length : value->size;

	return (value->sum ? lookup_get_verified : lookup_get_part)(thread, hash, request->key,
								    request->key_len,
								    request->offset, value->value,
								    size, ref, &value->len);
}

/* Reads what fits of the value from the request's offset; in a batch the whole value or nothing. */
static enum wire_status value_get(struct store_thread *thread, const struct request *request,
				  uint64_t hash, struct response_value *value, struct item_ref *ref)
{
	uint32_t size = request->flags & WIRE_F_NO_VALUE ? 0 : value->size;
	enum wire_status status;

	value->len = 0;
	if (request->op == WIRE_GET && request->length)
		return range_get(thread, request, hash, value, ref);
	if (!value->whole)
		return lookup_get_part(thread, hash, request->key, request->key_len,
				       request->offset, value->value, size, ref, &value->len);
	status = lookup_get(thread, hash, request->key, request->key_len, value->value, value->size,
			    ref);
	if (!status && item_value_len(&ref->front.item) <= value->size)
		value->len = item_value_len(&ref->front.item);
	return status;
}

static void response_set_item(const struct item_ref *ref, const struct response_value *value,
			      struct wire_response *head)
{
	head->version = ref->front.item.version;
	head->item_flags = item_flags(&ref->front.item);
	head->expires = ref->front.item.expires;
	head->result = item_value_len(&ref->front.item);
	head->value_sum = value->sum ? lookup_ref_value_sum(ref) : 0;
}

static void execute_get(struct store_thread *thread, const struct request *request, uint64_t hash,
			struct wire_response *head, struct response_value *value)
{
	struct item_ref ref;

	/*
	 * Asking whether a key exists is not a use of its value, and all its parts are one use. A
	 * range that does not fit a response is more than one.
	 */
	const bool use = !request->no_use && !(request->flags & WIRE_F_NO_VALUE) &&
			 (!request->offset || request->length) &&
			 thread->table->eviction != EVICTION_NONE;

	head->status = (uint8_t)value_get(thread, request, hash, value, &ref);
	if (head->status) {
		value->len = 0;
		if (use && head->status == WIRE_NOT_FOUND)
			table_missed(thread, hash);
		return;
	}
	response_set_item(&ref, value, head);
	if (use)
		table_access(thread, hash, 1);
}

/*
 * A TOUCH with VALUE has two steps. A touch keeps the version, so if the value that is read next
 * has the same version, both steps saw one value; else another client has replaced it.
 */
static void execute_touch_value(struct store_thread *thread, const struct request *request,
				uint64_t hash, struct wire_response *head,
				struct response_value *value)
{
	enum wire_status status;
	struct table_change change;
	unsigned int tries = 0;
	struct item_ref ref;

	do {
		status = touch(thread, request, hash, &change);
		if (!status)
			status = value_get(thread, request, hash, value, &ref);
		if (!status && ref.front.item.version != change.version)
			status = ++tries < TOUCH_TRIES_MAX ? WIRE_EXISTS : WIRE_BUSY;
	} while (status == WIRE_EXISTS);
	head->status = (uint8_t)status;
	if (status)
		value->len = 0;
	else
		response_set_item(&ref, value, head);
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
		.expects = request->expects,
		.expected = request->expected,
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

void execute_scan(struct store_thread *thread, const struct request *request, const uint64_t *parts,
		  uint64_t until_ns, struct wire_response *head, struct response_value *value)
{
	struct scan scan = {
		.prefix = request->key,
		.prefix_len = request->key_len,
		.keys_max = request->keys_max,
		.values = request->flags & WIRE_F_VALUES,
		.uses = request->flags & WIRE_F_USES,
		.parts = parts,
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
	value->len = scan.used;
}

bool execute(struct store_thread *thread, const struct request *request, uint64_t hash,
	     struct wire_response *head, struct response_value *value, struct room *room)
{
	switch (request->op) {
	case WIRE_GET:
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
		if (request->flags & WIRE_F_VALUE)
			execute_touch_value(thread, request, hash, head, value);
		else
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
	case WIRE_SHUTDOWN:
	case WIRE_WHOAMI:
	case WIRE_MAP:
	case WIRE_MOVE:
	case WIRE_FLEET:
	case WIRE_REPORT:
	case WIRE_CONFIG:
	case WIRE_EXTENTS:
	case WIRE_BATCH:
		head->status = WIRE_PROTOCOL;
		break;
	}
	return true;
}

void execute_large_begin(struct large *large, struct store_thread *thread,
			 const struct request *request, uint64_t hash)
{
	struct table_change change;

	put_change_init(request, &change);
	large_append(large, thread, hash, &change);
}

static void gets_reported(struct store_thread *thread, const struct wire_gets *gets)
{
	uint64_t hits = gets->hits, misses = gets->misses;

	if (!(hits | misses))
		return;
	stat_add(&thread->stats.gets, hits + misses);
	stat_add(&thread->stats.get_hits, hits);
	stat_add(&thread->stats.get_misses, misses);
	stat_add(&thread->stats.gets_reported, hits + misses);
}

void execute_access(struct store_thread *thread, const struct request *request)
{
	uint32_t i, buckets = 0;
	struct wire_access record;

	gets_reported(thread, &request->gets);
	if (thread->table->eviction == EVICTION_NONE)
		return;
	for (i = 0; i < request->access_count; i++) {
		record = request_access(request, i);
		if (record.hits)
			table_prefetch_bucket(thread->table, wire_access_hash(record));
	}
	for (i = 0; i < request->access_count && buckets < ACCESS_BUCKETS_MAX; i++) {
		record = request_access(request, i);
		if (record.hits)
			buckets += table_access(thread, wire_access_hash(record), record.hits);
		else
			table_missed(thread, wire_access_hash(record));
	}
	for (; i < request->access_count; i++)
		if (table_samples(thread->table, wire_access_hash(request_access(request, i))))
			curve_lose(thread->table->curve, 1);
}
