/* SPDX-License-Identifier: MIT */
/*
 * Synchronous calls that are one request: changes of one key, GETs by request, PING, and SCAN: some
 * keys for each request, in the order of the index. Only the server reads the cursor of a scan.
 */
#include <string.h>

#include "client/libkvd/engine.h"
#include "client/libkvd/fleet.h"
#include "client/libkvd/fleet_links.h"
#include "client/libkvd/fleet_scan.h"
#include "client/libkvd/handle.h"
#include "client/libkvd/observe.h"
#include "client/libkvd/op.h"
#include "common/util/clock.h"

enum kvd_status kvd_put(struct kvd *handle, const void *key, size_t key_len, const void *value,
			size_t value_len, const struct kvd_put_args *args, uint64_t *version)
{
	enum kvd_status status;
	struct kvd_op op;

	kvd_prep_put(&op, key, key_len, value, value_len, args);
	status = op_call_put(handle, &op);
	if (!status && version)
		*version = op.item.version;
	return status;
}

enum kvd_status kvd_putv(struct kvd *handle, const void *key, size_t key_len,
			 const struct iovec *iov, uint32_t iov_count,
			 const struct kvd_put_args *args, uint64_t *version)
{
	enum kvd_status status;
	struct kvd_op op;

	/* Such an iov is refused, and must not be read. */
	if ((!iov && iov_count) || iov_count > KVD_IOV_MAX)
		kvd_prep_getv(&op, key, key_len, NULL, iov_count);
	else
		kvd_prep_putv(&op, key, key_len, iov, iov_count, args);
	status = op_call(handle, &op);
	if (!status && version)
		*version = op.item.version;
	return status;
}

enum kvd_status kvd_delete(struct kvd *handle, const void *key, size_t key_len)
{
	struct kvd_op op;

	kvd_prep_delete(&op, key, key_len);
	return op_call(handle, &op);
}

enum kvd_status kvd_delete_if(struct kvd *handle, const void *key, size_t key_len,
			      uint64_t if_version)
{
	struct kvd_op op;

	kvd_prep_delete_if(&op, key, key_len, if_version);
	return op_call(handle, &op);
}

static enum kvd_status arith_call(struct kvd *handle, struct kvd_op *op, uint64_t *number,
				  uint64_t *version)
{
	enum kvd_status status = op_call(handle, op);

	if (!status && number)
		*number = op->number;
	if (!status && version)
		*version = op->item.version;
	return status;
}

enum kvd_status kvd_incr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version)
{
	struct kvd_op op;

	kvd_prep_incr(&op, key, key_len, delta, args);
	return arith_call(handle, &op, number, version);
}

enum kvd_status kvd_decr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version)
{
	struct kvd_op op;

	kvd_prep_decr(&op, key, key_len, delta, args);
	return arith_call(handle, &op, number, version);
}

enum kvd_status kvd_touch(struct kvd *handle, const void *key, size_t key_len, uint32_t ttl_s,
			  uint64_t *version)
{
	struct kvd_op op;

	kvd_prep_touch(&op, key, key_len, ttl_s);
	return arith_call(handle, &op, NULL, version);
}

static enum kvd_status get_call(struct kvd *handle, struct kvd_op *op, struct kvd_item *item)
{
	enum kvd_status status = op_call(handle, op);

	if (item && (status == KVD_OK || status == KVD_ERR_BUFFER))
		*item = op->item;
	return status;
}

enum kvd_status kvd_getv(struct kvd *handle, const void *key, size_t key_len,
			 const struct iovec *iov, uint32_t iov_count, struct kvd_item *item)
{
	struct kvd_op op;

	kvd_prep_getv(&op, key, key_len, iov, iov_count);
	return get_call(handle, &op, item);
}

enum kvd_status kvd_get_range(struct kvd *handle, const void *key, size_t key_len, size_t offset,
			      void *value, size_t value_size, struct kvd_item *item)
{
	struct kvd_op op;

	kvd_prep_get_range(&op, key, key_len, offset, value, value_size);
	return get_call(handle, &op, item);
}

enum kvd_status kvd_get_by_request(struct kvd *handle, const void *key, size_t key_len, void *value,
				   size_t value_size, struct kvd_item *item)
{
	struct kvd_op op;

	kvd_prep_get_by_request(&op, key, key_len, value, value_size);
	return get_call(handle, &op, item);
}

enum kvd_status kvd_get_and_touch(struct kvd *handle, const void *key, size_t key_len,
				  uint32_t ttl_s, void *value, size_t value_size,
				  struct kvd_item *item)
{
	struct kvd_op op;

	kvd_prep_get_and_touch(&op, key, key_len, ttl_s, value, value_size);
	return get_call(handle, &op, item);
}

static enum kvd_status ping(struct kvd *handle)
{
	struct kvd_op op;

	kvd_prep_ping(&op);
	return op_call(handle, &op);
}

enum kvd_status kvd_ping(struct kvd *handle)
{
	enum kvd_status status;

	if (!handle || !handle->fleet)
		return ping(handle);
	status = call_begin(handle);
	return status ? status : call_end(handle, fleet_each(handle, ping, false));
}

/* The function that gets entries, one of the two, with its @arg. */
struct scan_taker {
	kvd_entry_fn entry;
	kvd_used_fn used;
	void *arg;
};

/* A server reports uses only if it evicts, and then asks for access records. */
static enum kvd_status uses_check(struct kvd *handle, const struct kvd_scan_args *args)
{
	if (args && args->values)
		return handle_fail(handle, KVD_ERR_INVALID, "a scan of uses has no values");
	if (handle->access.rate)
		return KVD_OK;
	return handle_fail(handle, KVD_ERR_INVALID,
			   "%s does not note how keys are used, since it does not evict: start it "
			   "with memory.eviction = object-hits",
			   handle->dev->address);
}

static enum kvd_status scan_check(struct kvd *handle, const uint64_t *cursor,
				  const struct kvd_scan_args *args, const struct scan_taker *taker)
{
	if (!cursor || (!taker->entry && !taker->used))
		return handle_fail(handle, KVD_ERR_INVALID, "a scan needs a cursor and a function");
	if (args && (args->prefix_len > KVD_KEY_MAX || (args->prefix_len && !args->prefix)))
		return handle_fail(handle, KVD_ERR_INVALID,
				   "a prefix of %zu bytes: 0 to %d are allowed", args->prefix_len,
				   KVD_KEY_MAX);
	return KVD_OK;
}

/* Checks the whole message, before any entry is delivered. */
static enum kvd_status entries_check(struct kvd *handle, const struct response *response, bool uses)
{
	struct scan_entry entry;
	const char *error = NULL;
	uint32_t n = 0;
	size_t at = 0;

	while (!error && at < response->value_len) {
		error = wire_entry_parse(&entry, response->value, response->value_len, &at);
		if (!error && (entry.use != WIRE_USE_NONE) != uses)
			error = uses ? "an entry without its use" : "a use that was not asked for";
		n++;
	}
	if (!error && n != response->entries)
		error = "the number of entries is wrong";
	if (error)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "malformed response from the server at %s: %s",
				   handle->dev->address, error);
	return KVD_OK;
}

static int entry_deliver(const struct scan_entry *from, bool values, const struct scan_taker *taker)
{
	const struct kvd_item item = {
		.value_len = from->value_len,
		.version = from->version,
		.flags = from->item_flags,
		.expires_s = from->expires,
	};
	const struct kvd_entry entry = {
		.key = from->key,
		.key_len = from->key_len,
		.value = values ? from->value : NULL,
		.item = item,
	};
	const struct kvd_used used = {
		.key = from->key,
		.key_len = from->key_len,
		.item = item,
		.use = from->use,
		.uses = from->uses,
		.age = from->age * 100 / WIRE_AGE_MEMORY,
	};

	return taker->used ? taker->used(taker->arg, &used) : taker->entry(taker->arg, &entry);
}

/* Returns what the taker returned last: not 0 if it stopped the scan. */
static int entries_deliver(const struct response *response, bool values,
			   const struct scan_taker *taker)
{
	struct scan_entry from;
	size_t at = 0;
	int stop = 0;

	while (!stop && at < response->value_len) {
		if (wire_entry_parse(&from, response->value, response->value_len, &at))
			break;
		stop = entry_deliver(&from, values, taker);
	}
	return stop;
}

/* *@stopped: the function that takes entries has stopped the scan, and *@cursor is unchanged. */
static enum kvd_status scan(struct kvd *handle, uint64_t *cursor, const struct kvd_scan_args *args,
			    const struct scan_taker *taker, bool *stopped)
{
	bool values = args && args->values;
	struct observed observed = { .op = KVD_OP_SCAN, .start_ns = clock_ns() };
	uint64_t end;
	struct rpc rpc = { .on_loss = LOSS_REPEATS, .head.op = WIRE_SCAN };
	struct response response;
	enum kvd_status status;

	status = scan_check(handle, cursor, args, taker);
	if (!status && taker->used)
		status = uses_check(handle, args);
	if (status)
		return status;
	if (handle->observing)
		observe_start(handle, &observed);
	rpc.head.cursor = *cursor;
	rpc.head.flags = (values ? WIRE_F_VALUES : 0) | (taker->used ? WIRE_F_USES : 0);
	if (args) {
		rpc.key = args->prefix;
		rpc.key_len = args->prefix_len;
		rpc.head.keys_max = args->count;
	}
	status = rpc_call(handle, &rpc, &response);
	if (!status)
		status = entries_check(handle, &response, taker->used);
	end = clock_ns();
	handle_latency(handle, KVD_OP_SCAN, end - observed.start_ns);
	if (handle->observing)
		observe_call(handle, &observed, status, end);
	*stopped = !status && entries_deliver(&response, values, taker);
	if (!status && !*stopped)
		*cursor = response.cursor;
	return status;
}

/* Responses without a step of the cursor: no member has that many keys that agree in it. */
#define CURSOR_STEPS_MAX 256

/* Passes on what was not delivered before. */
struct scan_filter {
	const struct scan_taker *to;
	const struct fleet_scan *scan;
};

static int filter_entry(void *arg, const struct kvd_entry *entry)
{
	const struct scan_filter *filter = arg;

	return scan_has(filter->scan, entry->key, entry->key_len) ?
		       0 :
		       filter->to->entry(filter->to->arg, entry);
}

static int filter_used(void *arg, const struct kvd_used *used)
{
	const struct scan_filter *filter = arg;

	return scan_has(filter->scan, used->key, used->key_len) ?
		       0 :
		       filter->to->used(filter->to->arg, used);
}

/*
 * Scans some of one member. Its own cursor loses its low bits, so a call goes on until the others
 * have changed; then it begins at most the keys anew that agree in 36 bits of the hash.
 */
static enum kvd_status member_scan(struct kvd *handle, struct fleet_scan *scan_of, uint64_t *cursor,
				   const struct kvd_scan_args *args, const struct scan_taker *taker)
{
	struct scan_filter filter = { .to = taker, .scan = scan_of };
	const struct scan_taker through = {
		.entry = taker->entry ? filter_entry : NULL,
		.used = taker->used ? filter_used : NULL,
		.arg = &filter,
	};
	uint64_t start = *cursor & CURSOR_OWN, at = start;
	uint32_t number = cursor_member(*cursor);
	struct kvd *member = fleet_member(handle, number);
	enum kvd_status status;
	unsigned int steps = 0;
	bool stopped;

	if (!member)
		return KVD_ERR_DISCONNECTED;
	do {
		member->deadline_ns = 0;
		status = scan(member, &at, args, &through, &stopped);
		if (status)
			return member_failed(member, status);
		if (stopped)
			return KVD_OK;
		if (++steps == CURSOR_STEPS_MAX)
			return handle_error_set(handle, KVD_ERR_PROTOCOL,
						"%s sent a cursor that stands still",
						member->dev->address);
	} while (at && (at & CURSOR_OWN) == start);
	if (!at)
		return scan_member_end(handle, scan_of, cursor);
	*cursor = cursor_make(scan_of, at, number);
	return KVD_OK;
}

static enum kvd_status fleet_scan(struct kvd *handle, uint64_t *cursor,
				  const struct kvd_scan_args *args, const struct scan_taker *taker)
{
	enum kvd_status status = scan_check(handle, cursor, args, taker);
	struct fleet_scan *scan_of;
	uint64_t at, first;

	if (!status)
		status = fleet_settle(handle);
	if (status)
		return status;
	if (cursor_member(*cursor) >= fleet_members(handle))
		return handle_fail(handle, KVD_ERR_INVALID, "a cursor of another fleet");
	scan_of = scan_find(handle, *cursor);
	if (!scan_of)
		return handle_error_set(handle, KVD_ERR_NO_MEMORY, "out of memory");
	first = at = *cursor ? *cursor : scan_first(handle, scan_of);
	if (at)
		status = scan_member_begin(handle, scan_of, at);
	if (at && !status)
		status = member_scan(handle, scan_of, &at, args, taker);
	if (at != first)
		*cursor = at;
	/* The scan has ended, or begins anew. */
	if (!*cursor)
		scan_forget(handle, scan_of);
	return status;
}

static enum kvd_status any_scan(struct kvd *handle, uint64_t *cursor,
				const struct kvd_scan_args *args, const struct scan_taker *taker)
{
	enum kvd_status status = call_begin(handle);
	bool stopped;

	if (status)
		return status;
	return call_end(handle, handle->fleet ? fleet_scan(handle, cursor, args, taker) :
						scan(handle, cursor, args, taker, &stopped));
}

enum kvd_status kvd_scan(struct kvd *handle, uint64_t *cursor, const struct kvd_scan_args *args,
			 kvd_entry_fn each, void *arg)
{
	const struct scan_taker taker = { .entry = each, .arg = arg };

	return any_scan(handle, cursor, args, &taker);
}

enum kvd_status kvd_scan_uses(struct kvd *handle, uint64_t *cursor,
			      const struct kvd_scan_args *args, kvd_used_fn each, void *arg)
{
	const struct scan_taker taker = { .used = each, .arg = arg };

	return any_scan(handle, cursor, args, &taker);
}
