/* SPDX-License-Identifier: MIT */
/* What changes the store, or only talks to the server: one request, one response. */
#include <string.h>

#include "client/handle.h"
#include "common/clock.h"
#include "common/sum.h"

static uint64_t hash_of(const struct kvd *handle, const void *key, size_t key_len)
{
	return key_hash(key, key_len, handle->geometry.hash_seed);
}

/* A value too long for a message is laid out where the server can READ it. */
static enum kvd_status put_stage(struct kvd *handle, struct rpc *rpc)
{
	size_t bytes = rpc->head.value_len;
	enum kvd_status status;

	status = memory_resize(handle, &handle->scratch, bytes,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (status)
		return status;
	memcpy(handle->scratch.base, rpc->value, bytes);
	rpc->head.flags = WIRE_F_PULL;
	rpc->head.pull_addr = (uintptr_t)handle->scratch.base;
	rpc->head.pull_rkey = handle->scratch.mr->rkey;
	handle->stats.pulled_bytes += bytes;
	return KVD_OK;
}

static enum kvd_status put_check(struct kvd *handle, const void *key, size_t key_len,
				 const void *value, size_t value_len)
{
	enum kvd_status status = key_check(handle, key, key_len);

	if (status)
		return status;
	if (value_len && !value)
		return kvd_fail(handle, KVD_ERR_INVALID, "the value is NULL but not empty");
	if (value_len > handle->geometry.value_max)
		return kvd_fail(handle, KVD_ERR_TOO_LARGE,
				"a value of %zu bytes: the server takes at most %llu "
				"(limits.max_value)",
				value_len, (unsigned long long)handle->geometry.value_max);
	return KVD_OK;
}

static enum kvd_status put_call(struct kvd *handle, struct rpc *rpc, uint64_t *version)
{
	struct response response;
	enum kvd_status status = KVD_OK;

	if (sizeof(rpc->head) + rpc->key_len + rpc->head.value_len > handle->request_bytes)
		status = put_stage(handle, rpc);
	if (!status)
		status = rpc_call(handle, rpc, &response);
	if (!status)
		status = rpc_status(handle, &response);
	if (status)
		return status;
	bcache_learn(&handle->cache, home_offset(handle, hash_of(handle, rpc->key, rpc->key_len)),
		     response.slot);
	if (version)
		*version = response.version;
	return KVD_OK;
}

enum kvd_status kvd_put(struct kvd *handle, const void *key, size_t key_len, const void *value,
			size_t value_len, const struct kvd_put_args *args, uint64_t *version)
{
	enum kvd_status status = call_begin(handle);
	uint64_t start = clock_ns();
	struct rpc rpc = {
		.head.op = WIRE_PUT,
		.key = key,
		.key_len = key_len,
		.value = value,
	};

	if (!status)
		status = put_check(handle, key, key_len, value, value_len);
	if (status)
		return status;
	rpc.head.value_len = (uint32_t)value_len;
	rpc.head.item_flags = args ? args->flags : 0;
	status = put_call(handle, &rpc, version);
	handle->stats.puts++;
	hist_record(&handle->latency[KVD_OP_PUT], clock_ns() - start);
	return status;
}

enum kvd_status kvd_delete(struct kvd *handle, const void *key, size_t key_len)
{
	enum kvd_status status = call_begin(handle);
	uint64_t start = clock_ns();
	struct rpc rpc = {
		.head.op = WIRE_DELETE,
		.key = key,
		.key_len = key_len,
	};
	struct response response;

	if (!status)
		status = key_check(handle, key, key_len);
	if (status)
		return status;
	status = rpc_call(handle, &rpc, &response);
	if (!status)
		status = rpc_status(handle, &response);
	handle->stats.deletes++;
	hist_record(&handle->latency[KVD_OP_DELETE], clock_ns() - start);
	return status;
}

enum kvd_status kvd_ping(struct kvd *handle)
{
	enum kvd_status status = call_begin(handle);
	struct rpc rpc = { .head.op = WIRE_PING };
	struct response response;

	if (!status)
		status = rpc_call(handle, &rpc, &response);
	return status ? status : rpc_status(handle, &response);
}

/* The server gives as many lines at a time as fit a response, and the number of the next. */
enum kvd_status kvd_server_stats(struct kvd *handle, char *text, size_t size, size_t *len)
{
	enum kvd_status status = call_begin(handle);
	struct rpc rpc = { .head.op = WIRE_STATS };
	struct response response;
	size_t used = 0;

	if (!status && (!text || !size))
		status = kvd_fail(handle, KVD_ERR_INVALID, "no room for the statistics");
	do {
		if (!status)
			status = rpc_call(handle, &rpc, &response);
		if (!status)
			status = rpc_status(handle, &response);
		if (status)
			return status;
		if (response.value_len >= size - used)
			return kvd_fail(handle, KVD_ERR_BUFFER,
					"the statistics need more than %zu bytes", size);
		memcpy(text + used, response.value, response.value_len);
		used += response.value_len;
		/* A server that does not go forward would keep us here. */
		if (response.item_flags && response.item_flags <= rpc.head.item_flags)
			return kvd_fail(handle, KVD_ERR_PROTOCOL, "the server repeats itself");
		rpc.head.item_flags = response.item_flags;
	} while (response.item_flags);
	text[used] = '\0';
	if (len)
		*len = used;
	return KVD_OK;
}
