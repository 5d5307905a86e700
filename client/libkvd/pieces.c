/* SPDX-License-Identifier: MIT */
/* Values in pieces: checks them, finds bytes, copies. */
#include "client/libkvd/pieces.h"

static bool takes_pieces(const struct kvd_op *op)
{
	return op->op == KVD_OP_PUT || op->op == KVD_OP_GET || op->op == KVD_OP_GET_BY_REQUEST ||
	       op->op == KVD_OP_GET_AND_TOUCH;
}

enum kvd_status pieces_check(struct kvd *handle, const struct kvd_op *op)
{
	uint64_t bytes = 0;
	uint32_t i;

	if (!takes_pieces(op))
		return handle_fail(handle, KVD_ERR_INVALID, "iov is for GETs and PUTs");
	if (!op->iov || op->iov_count > KVD_IOV_MAX)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "iov is NULL, or has %u pieces: %u are allowed", op->iov_count,
				   KVD_IOV_MAX);
	for (i = 0; i < op->iov_count; i++) {
		if (op->iov[i].iov_len > KVD_VALUE_MAX ||
		    (!op->iov[i].iov_base && op->iov[i].iov_len))
			return handle_fail(handle, KVD_ERR_INVALID,
					   "piece %u of iov is NULL but not empty, or longer than "
					   "any value",
					   i);
		bytes += op->iov[i].iov_len;
	}
	if (op->value || op->value_len != (op->op == KVD_OP_PUT ? bytes : 0))
		return handle_fail(handle, KVD_ERR_INVALID,
				   "value and value_len are not as kvd_prep_getv() and "
				   "kvd_prep_putv() set them");
	return KVD_OK;
}

uint64_t pieces_bytes(const struct kvd_op *op)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < op->iov_count; i++)
		bytes += op->iov[i].iov_len;
	return bytes;
}

uint8_t *pieces_at(const struct kvd_op *op, uint64_t at, size_t *left)
{
	const struct iovec *piece = op->iov;

	for (; at >= piece->iov_len; piece++)
		at -= piece->iov_len;
	*left = piece->iov_len - (size_t)at;
	return (uint8_t *)piece->iov_base + at;
}

void pieces_gather(const struct kvd_op *op, uint8_t *to)
{
	uint32_t i;

	for (i = 0; i < op->iov_count; i++) {
		if (op->iov[i].iov_len)
			memcpy(to, op->iov[i].iov_base, op->iov[i].iov_len);
		to += op->iov[i].iov_len;
	}
}

void pieces_scatter(const struct kvd_op *op, const void *value, uint64_t bytes)
{
	const uint8_t *from = value;
	size_t part;
	uint32_t i;

	for (i = 0; bytes; i++) {
		part = op->iov[i].iov_len < bytes ? op->iov[i].iov_len : (size_t)bytes;
		if (part)
			memcpy(op->iov[i].iov_base, from, part);
		from += part;
		bytes -= part;
	}
}
