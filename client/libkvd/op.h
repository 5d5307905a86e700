/* SPDX-License-Identifier: MIT */
/* Operations: what struct kvd_op asks for, as a flight, and what that brought, as its result. */
#ifndef KVD_CLIENT_LIBKVD_OP_H
#define KVD_CLIENT_LIBKVD_OP_H

#include "client/libkvd/handle.h"
#include "client/libkvd/observe.h"

/* KVD_ERR_INVALID if an argument is out of its range. */
enum kvd_status op_check(struct kvd *handle, const struct kvd_op *op);
/* Makes @f the flight of the operation, which was checked. @left: a synchronous call's, or NULL. */
void op_flight(struct flight *f, struct kvd_op *op, unsigned int *left, uint64_t start_ns);
/* Hashes the key and prefetches: before op_begin(). */
void op_prepare(struct kvd *handle, struct flight *f);
/* Starts it; may end it at once. */
void op_begin(struct kvd *handle, struct flight *f);
/* Whether its latency is to be taken. */
bool op_is_timed(struct kvd *handle, const struct kvd_op *op);
/* Counts an operation that has ended, and its latency. */
void op_count(struct kvd *handle, const struct flight *f);
/* What client/libkvd/observe.h wants to know of a synchronous one. */
struct observed op_observed(struct kvd_op *op, uint64_t start_ns);
/* Does the operation at once; a whole call of the API. Returns its status. */
enum kvd_status op_call(struct kvd *handle, struct kvd_op *op);
/* The same of a PUT, in fewer instructions. */
enum kvd_status op_call_put(struct kvd *handle, struct kvd_op *op);

/* Frees what submitted operations need: slots and the descriptor. */
void submitted_release(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_OP_H */
