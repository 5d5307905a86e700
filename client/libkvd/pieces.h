/* SPDX-License-Identifier: MIT */
/*
 * Values in pieces: the struct iovec of an operation says where the parts of its value are, one
 * after another. The caller leaves it unchanged while the operation is submitted.
 *
 * To a lookup such an operation has a buffer of 0 bytes: so the path of every GET has no test for
 * it, and only code that finds the buffer too small looks here.
 */
#ifndef KVD_CLIENT_LIBKVD_PIECES_H
#define KVD_CLIENT_LIBKVD_PIECES_H

#include "client/libkvd/handle.h"

/* KVD_ERR_INVALID if the operation takes no pieces, or not as kvd_prep_getv() sets them. */
enum kvd_status pieces_check(struct kvd *handle, const struct kvd_op *op);
/* Bytes of all pieces. */
uint64_t pieces_bytes(const struct kvd_op *op);
/* The address of byte @at < pieces_bytes() of the value; *@left: contiguous bytes from there. */
uint8_t *pieces_at(const struct kvd_op *op, uint64_t at, size_t *left);
/* Copies the whole value to @to, which has room for it. */
void pieces_gather(const struct kvd_op *op, uint8_t *to);
/* Copies a value of @bytes to the pieces, which have room for it. */
void pieces_scatter(const struct kvd_op *op, const void *value, uint64_t bytes);

#endif /* KVD_CLIENT_LIBKVD_PIECES_H */
