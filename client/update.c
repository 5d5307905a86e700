/* SPDX-License-Identifier: MIT */
/* Updates of one key: PUT, DELETE, arithmetic and TOUCH, one request and one response each. */
#include <string.h>

#include "client/handle.h"
#include "client/rpc.h"
#include "common/util/clock.h"
#include "common/sum.h"

static_assert((int)WIRE_SET == KVD_PUT_SET && (int)WIRE_ADD == KVD_PUT_IF_ABSENT &&
		      (int)WIRE_REPLACE == KVD_PUT_IF_PRESENT &&
		      (int)WIRE_CAS == KVD_PUT_IF_VERSION && (int)WIRE_APPEND == KVD_PUT_APPEND &&
		      (int)WIRE_PREPEND == KVD_PUT_PREPEND,
	      "wire modes are those of the API");

/* Caches where the key is now, so that the next GET of it takes one READ. */
static void learn_slot(struct kvd *handle, const struct rpc *rpc, const struct response *response)
{
	uint64_t hash = key_hash(rpc->key, rpc->key_len, handle->geometry.hash_seed);

	bcache_learn(&handle->cache, hash, response->slot);
}

/* In the statistics every change except DELETE is a PUT. */
static void count_put(struct kvd *handle, uint64_t start_ns)
{
	handle->stats.puts++;
	hist_record(&handle->latency[KVD_OP_PUT], clock_ns() - start_ns);
}

/* Copies a value too long for a message to memory that the server can READ. */
static enum kvd_status put_stage(struct kvd *handle, struct rpc *rpc)
{
	size_t bytes = rpc->head.value_len;
	enum kvd_status status;

	status = handle_scratch_resize(handle, bytes);
	if (status)
		return status;
	memcpy(handle->scratch.base, rpc->value, bytes);
	rpc->head.flags |= WIRE_F_PULL;
	rpc->head.pull_addr = (uintptr_t)handle->scratch.base;
	rpc->head.pull_rkey = handle->scratch.mr->rkey;
	handle->stats.pulled_bytes += bytes;
	return KVD_OK;
}

static enum kvd_status put_check_value(struct kvd *handle, const void *value, size_t value_len)
{
	if (value_len && !value)
		return handle_fail(handle, KVD_ERR_INVALID, "the value is NULL but not empty");
	if (value_len > handle->geometry.value_max)
		return handle_fail(handle, KVD_ERR_TOO_LARGE,
				   "a value of %zu bytes: the server takes at most %llu "
				   "(limits.max_value)",
				   value_len, (unsigned long long)handle->geometry.value_max);
	return KVD_OK;
}

/* The server checks them again; here they get a text that names the argument. */
static enum kvd_status put_check_args(struct kvd *handle, const struct kvd_put_args *args)
{
	if ((unsigned int)args->mode > KVD_PUT_PREPEND)
		return handle_fail(handle, KVD_ERR_INVALID, "%u is not a mode of PUT",
				   (unsigned int)args->mode);
	if (args->if_version && args->mode != KVD_PUT_IF_VERSION)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "if_version is for KVD_PUT_IF_VERSION only");
	if ((args->mode == KVD_PUT_APPEND || args->mode == KVD_PUT_PREPEND) &&
	    (args->flags || args->ttl_s))
		return handle_fail(
			handle, KVD_ERR_INVALID,
			"flags and ttl_s must be 0: append and prepend keep those of the "
			"value");
	return ttl_check(handle, args->ttl_s);
}

/* The same of pin_s and priority. */
static enum kvd_status put_check_priority(struct kvd *handle, const struct kvd_put_args *args)
{
	bool extends = args->mode == KVD_PUT_APPEND || args->mode == KVD_PUT_PREPEND;

	if ((unsigned int)args->priority > KVD_PRIORITY_LOW)
		return handle_fail(handle, KVD_ERR_INVALID, "%u is not a priority",
				   (unsigned int)args->priority);
	if (args->priority && extends)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "priority must be 0: append and prepend keep that of the value");
	if (args->pin_s && (extends || args->mode == KVD_PUT_IF_VERSION))
		return handle_fail(handle, KVD_ERR_INVALID,
				   "pin_s is not for KVD_PUT_IF_VERSION, append and prepend");
	if (args->pin_s > KVD_TTL_MAX)
		return handle_fail(handle, KVD_ERR_INVALID, "pin_s is at most %u", KVD_TTL_MAX);
	return KVD_OK;
}

/* A value that does not fit the server's receive buffer goes the other way: the server READs it. */
static enum kvd_status put_call(struct kvd *handle, struct rpc *rpc, uint64_t *version)
{
	struct response response;
	enum kvd_status status = KVD_OK;

	if (sizeof(rpc->head) + rpc->key_len + rpc->head.value_len > handle->request_bytes)
		status = put_stage(handle, rpc);
	if (!status)
		status = rpc_call(handle, rpc, &response);
	if (status)
		return status;
	learn_slot(handle, rpc, &response);
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
		status = key_check(handle, key, key_len);
	if (!status)
		status = put_check_value(handle, value, value_len);
	if (!status && args)
		status = put_check_args(handle, args);
	if (!status && args)
		status = put_check_priority(handle, args);
	if (status)
		return status;
	rpc.head.value_len = (uint32_t)value_len;
	if (args) {
		rpc.head.item_flags = args->flags;
		rpc.head.ttl = args->ttl_s;
		rpc.head.mode = (uint8_t)args->mode;
		rpc.head.version = args->if_version;
		if (args->priority == KVD_PRIORITY_LOW)
			rpc.head.flags |= WIRE_F_LOW;
		if (args->pin_s) {
			rpc.head.flags |= WIRE_F_PIN;
			rpc.head.pin = args->pin_s;
		}
	}
	status = put_call(handle, &rpc, version);
	count_put(handle, start);
	return status;
}

static enum kvd_status delete_call(struct kvd *handle, const void *key, size_t key_len,
				   uint16_t flags, uint64_t version)
{
	enum kvd_status status = call_begin(handle);
	uint64_t start = clock_ns();
	struct rpc rpc = {
		.head = { .op = WIRE_DELETE, .flags = flags, .version = version },
		.key = key,
		.key_len = key_len,
	};
	struct response response;

	if (!status)
		status = key_check(handle, key, key_len);
	if (status)
		return status;
	status = rpc_call(handle, &rpc, &response);
	handle->stats.deletes++;
	hist_record(&handle->latency[KVD_OP_DELETE], clock_ns() - start);
	return status;
}

enum kvd_status kvd_delete(struct kvd *handle, const void *key, size_t key_len)
{
	return delete_call(handle, key, key_len, 0, 0);
}

enum kvd_status kvd_delete_if(struct kvd *handle, const void *key, size_t key_len,
			      uint64_t if_version)
{
	return delete_call(handle, key, key_len, WIRE_F_IF_VERSION, if_version);
}

/* Without create nothing is stored that could have them. */
static enum kvd_status arith_check(struct kvd *handle, const struct kvd_arith_args *args)
{
	if (args && !args->create && (args->initial || args->ttl_s || args->flags))
		return handle_fail(handle, KVD_ERR_INVALID, "initial, ttl_s and flags need create");
	return ttl_check(handle, args ? args->ttl_s : 0);
}

static enum kvd_status arith(struct kvd *handle, enum wire_arith mode, struct rpc *rpc,
			     const struct kvd_arith_args *args, uint64_t *number, uint64_t *version)
{
	enum kvd_status status = call_begin(handle);
	uint64_t start = clock_ns();
	struct response response;

	if (!status)
		status = key_check(handle, rpc->key, rpc->key_len);
	if (!status)
		status = arith_check(handle, args);
	if (status)
		return status;
	rpc->head.op = WIRE_ARITH;
	rpc->head.mode = (uint8_t)mode;
	if (args && args->create) {
		rpc->head.flags = WIRE_F_CREATE;
		rpc->head.initial = args->initial;
		rpc->head.ttl = args->ttl_s;
		rpc->head.item_flags = args->flags;
	}
	status = rpc_call(handle, rpc, &response);
	count_put(handle, start);
	if (status)
		return status;
	learn_slot(handle, rpc, &response);
	if (number)
		*number = response.result;
	if (version)
		*version = response.version;
	return KVD_OK;
}

enum kvd_status kvd_incr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version)
{
	struct rpc rpc = { .head.delta = delta, .key = key, .key_len = key_len };

	return arith(handle, WIRE_INCR, &rpc, args, number, version);
}

enum kvd_status kvd_decr(struct kvd *handle, const void *key, size_t key_len, uint64_t delta,
			 const struct kvd_arith_args *args, uint64_t *number, uint64_t *version)
{
	struct rpc rpc = { .head.delta = delta, .key = key, .key_len = key_len };

	return arith(handle, WIRE_DECR, &rpc, args, number, version);
}

enum kvd_status kvd_touch(struct kvd *handle, const void *key, size_t key_len, uint32_t ttl_s,
			  uint64_t *version)
{
	enum kvd_status status = call_begin(handle);
	uint64_t start = clock_ns();
	struct rpc rpc = {
		.head = { .op = WIRE_TOUCH, .ttl = ttl_s },
		.key = key,
		.key_len = key_len,
	};
	struct response response;

	if (!status)
		status = key_check(handle, key, key_len);
	if (!status)
		status = ttl_check(handle, ttl_s);
	if (status)
		return status;
	status = rpc_call(handle, &rpc, &response);
	count_put(handle, start);
	if (!status && version)
		*version = response.version;
	return status;
}
