/* SPDX-License-Identifier: MIT */
/*
 * The two-sided GET: the server looks the key up without a lock (server/store/lookup.h) and sends
 * the value, or the offset of a copy that this client READs.
 */
#include "client/get_rpc.h"

#include "client/lookup.h"
#include "client/read.h"
#include "client/rpc.h"

/* READs the copy that the server made of a large value; its sum has a seed of its own. */
static enum kvd_status read_copy(struct kvd *handle, struct kvd_get_request *request,
				 const struct response *response)
{
	uint64_t bytes = item_bytes(request->key_len, response->value_len);
	uint64_t offset = slot_offset(response->slot);
	const struct item *item;
	struct kvd_item about;
	enum kvd_status status;

	if (!region_holds(handle, offset, bytes))
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "the copy of the value is out of the server's region");
	status = handle_scratch_resize(handle, bytes);
	if (!status)
		status = read_long(handle, offset, bytes);
	if (status)
		return status;
	item = (const struct item *)handle->scratch.base;
	if (!item_verifies(item, bytes, response->copy_seed, offset) || !item_is_for(item, request))
		return handle_fail(handle, KVD_ERR_BUSY,
				   "the server freed its copy of the value before it was read; try "
				   "again");
	about = item_info(item);
	return lookup_deliver(handle, request, item_value(item), &about);
}

enum kvd_status get_rpc(struct kvd *handle, struct kvd_get_request *request, uint16_t flags,
			uint32_t ttl_s)
{
	struct rpc rpc = {
		.head = { .op = WIRE_GET, .flags = flags, .ttl = ttl_s },
		.key = request->key,
		.key_len = request->key_len,
	};
	struct response response;
	struct kvd_item about;
	enum kvd_status status = rpc_call(handle, &rpc, &response);

	if (!status && response.flags & WIRE_R_COPY) {
		status = read_copy(handle, request, &response);
	} else if (!status) {
		about = (struct kvd_item){
			.value_len = response.value_len,
			.version = response.version,
			.flags = response.item_flags,
			.expires_s = response.expires,
		};
		status = lookup_deliver(handle, request, response.value, &about);
	}
	request->status = status;
	return handle->broken ? status : KVD_OK;
}
