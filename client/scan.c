/* SPDX-License-Identifier: MIT */
/* SCAN: some keys for each request, in the order of the index. Only the server reads the cursor. */
#include <string.h>

#include "client/handle.h"
#include "client/call.h"
#include "client/observe.h"
#include "common/util/clock.h"

static enum kvd_status scan_check(struct kvd *handle, const uint64_t *cursor,
				  const struct kvd_scan_args *args, kvd_entry_fn each)
{
	if (!cursor || !each)
		return handle_fail(handle, KVD_ERR_INVALID, "a scan needs a cursor and a function");
	if (args && (args->prefix_len > KVD_KEY_MAX || (args->prefix_len && !args->prefix)))
		return handle_fail(handle, KVD_ERR_INVALID,
				   "a prefix of %zu bytes: 0 to %d are allowed", args->prefix_len,
				   KVD_KEY_MAX);
	return KVD_OK;
}

/* Checks the whole message before any entry is delivered. */
static enum kvd_status entries_check(struct kvd *handle, const struct response *response)
{
	struct scan_entry entry;
	const char *error = NULL;
	uint32_t n = 0;
	size_t at = 0;

	while (!error && at < response->value_len) {
		error = wire_entry_parse(&entry, response->value, response->value_len, &at);
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

/* Returns what @each returned last: not 0 if it stopped the scan. */
static int entries_deliver(const struct response *response, bool values, kvd_entry_fn each,
			   void *arg)
{
	struct scan_entry from;
	struct kvd_entry entry;
	size_t at = 0;
	int stop = 0;

	while (!stop && at < response->value_len) {
		if (wire_entry_parse(&from, response->value, response->value_len, &at))
			break;
		entry = (struct kvd_entry){
			.key = from.key,
			.key_len = from.key_len,
			.value = values ? from.value : NULL,
			.item = {
				.value_len = from.value_len,
				.version = from.version,
				.flags = from.item_flags,
				.expires_s = from.expires,
			},
		};
		stop = each(arg, &entry);
	}
	return stop;
}

static enum kvd_status scan(struct kvd *handle, uint64_t *cursor, const struct kvd_scan_args *args,
			    kvd_entry_fn each, void *arg)
{
	bool values = args && args->values;
	struct observed observed = { .op = KVD_OP_SCAN, .start_ns = clock_ns() };
	uint64_t end;
	struct rpc rpc = { .on_loss = LOSS_REPEATS, .head.op = WIRE_SCAN };
	struct response response;
	enum kvd_status status;

	status = scan_check(handle, cursor, args, each);
	if (status)
		return status;
	if (handle->observing)
		observe_start(handle, &observed);
	rpc.head.cursor = *cursor;
	rpc.head.flags = values ? WIRE_F_VALUES : 0;
	if (args) {
		rpc.key = args->prefix;
		rpc.key_len = args->prefix_len;
		rpc.head.keys_max = args->count;
	}
	status = rpc_call(handle, &rpc, &response);
	if (!status)
		status = entries_check(handle, &response);
	end = clock_ns();
	handle_latency(handle, KVD_OP_SCAN, end - observed.start_ns);
	if (handle->observing)
		observe_call(handle, &observed, status, end);
	if (!status && !entries_deliver(&response, values, each, arg))
		*cursor = response.cursor;
	return status;
}

enum kvd_status kvd_scan(struct kvd *handle, uint64_t *cursor, const struct kvd_scan_args *args,
			 kvd_entry_fn each, void *arg)
{
	enum kvd_status status = call_begin(handle);

	return status ? status : call_end(handle, scan(handle, cursor, args, each, arg));
}
