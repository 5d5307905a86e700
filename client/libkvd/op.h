/* SPDX-License-Identifier: MIT */
/* Operations: makes flights of struct kvd_op, and stores their results. */
#ifndef KVD_CLIENT_LIBKVD_OP_H
#define KVD_CLIENT_LIBKVD_OP_H

#include "client/libkvd/handle.h"
#include "client/libkvd/observe.h"

/* KVD_ERR_INVALID if an argument is out of its range. */
enum kvd_status op_check(struct kvd *handle, const struct kvd_op *op);
/* Makes @f the flight of a checked operation. @left: a synchronous call's, or NULL. */
void op_flight(struct flight *f, struct kvd_op *op, unsigned int *left, uint64_t start_ns);
/* Hashes the key and prefetches: before op_begin(). */
void op_prepare(struct kvd *handle, struct flight *f);
/* Starts the operation; may end it at once. */
void op_begin(struct kvd *handle, struct flight *f);
/* Whether the operation's latency is measured. */
bool op_is_timed(struct kvd *handle, const struct kvd_op *op);
/* Counts an operation that has ended, and its latency. */
void op_count(struct kvd *handle, const struct flight *f);
/* The description of a synchronous operation for client/libkvd/observe.h. */
struct observed op_observed(struct kvd_op *op, uint64_t start_ns);
/* Does the operation, as a whole call of the API. Returns its status. */
enum kvd_status op_call(struct kvd *handle, struct kvd_op *op);
/* op_call() of a PUT, in fewer instructions. */
enum kvd_status op_call_put(struct kvd *handle, struct kvd_op *op);

/* The descriptor of kvd_fd(), made at the first call. -1: kvd_error() says why. */
int submitted_fd(struct kvd *handle);
/* Frees what submitted operations need: slots and the descriptor. */
void submitted_release(struct kvd *handle);
/* Makes the slots, for flights that @ops knows, unless they are there. KVD_ERR_NO_MEMORY. */
enum kvd_status slots_make(struct kvd *handle, const struct submitted_ops *ops);

#endif /* KVD_CLIENT_LIBKVD_OP_H */
