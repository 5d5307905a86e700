/* SPDX-License-Identifier: MIT */
/*
 * Values in pieces: those of operations with a struct iovec, which says where their parts lie, one
 * behind the other. The caller keeps it as it is while the operation is submitted.
 *
 * To a lookup such an operation has a buffer of no bytes: what every GET does needs no test for it,
 * and what finds the buffer too small looks here.
 */
#ifndef KVD_CLIENT_LIBKVD_PIECES_H
#define KVD_CLIENT_LIBKVD_PIECES_H

#include "client/libkvd/handle.h"

/* KVD_ERR_INVALID if the operation takes none, or they are not as kvd_prep_getv() has them. */
enum kvd_status pieces_check(struct kvd *handle, const struct kvd_op *op);
/* Bytes of all. */
uint64_t pieces_bytes(const struct kvd_op *op);
/* Where byte @at of the value is, which is less than pieces_bytes(); in a row from there: @left. */
uint8_t *pieces_at(const struct kvd_op *op, uint64_t at, size_t *left);
/* The whole value to @to, which has room for it. */
void pieces_gather(const struct kvd_op *op, uint8_t *to);
/* A value of @bytes to the pieces, which have room for it. */
void pieces_scatter(const struct kvd_op *op, const void *value, uint64_t bytes);

#endif /* KVD_CLIENT_LIBKVD_PIECES_H */
