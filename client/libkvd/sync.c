/* SPDX-License-Identifier: MIT */
/* The synchronous calls that are one request: changes of one key, GETs by request, PING. */
#include "client/libkvd/op.h"

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

	/* What lies behind is refused, and not read. */
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

enum kvd_status kvd_ping(struct kvd *handle)
{
	struct kvd_op op;

	kvd_prep_ping(&op);
	return op_call(handle, &op);
}
