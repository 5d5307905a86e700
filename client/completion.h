/* SPDX-License-Identifier: MIT */
/* Completions: posting receive buffers, and waiting for a READ or a response to complete. */
#ifndef KVD_CLIENT_COMPLETION_H
#define KVD_CLIENT_COMPLETION_H

#include "client/handle.h"

/* The kind of a work request, in the high half of its wr_id. */
enum wr_kind { WR_RECV, WR_SEND, WR_READ };

static inline uint64_t wr_id_make(enum wr_kind kind, uint32_t index)
{
	return (uint64_t)kind << 32 | index;
}

/*
 * Waits until the chain of READs with the number @chain has completed, or a response has arrived.
 * Polls for spin_us, then sleeps. KVD_ERR_TIMEOUT after handle->deadline_ns; KVD_ERR_DISCONNECTED,
 * KVD_ERR_DEVICE and KVD_ERR_PROTOCOL as in kvd.h.
 */
enum kvd_status completion_wait_read(struct kvd *handle, uint32_t chain);
enum kvd_status completion_wait_response(struct kvd *handle);
/* The same, until no ACCESS message is outstanding. */
enum kvd_status completion_wait_access(struct kvd *handle);
/* Posts the receive buffer @index, 0 to RECVS - 1. */
enum kvd_status recv_post(struct kvd *handle, uint32_t index);

#endif /* KVD_CLIENT_COMPLETION_H */
