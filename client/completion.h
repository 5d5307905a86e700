/* SPDX-License-Identifier: MIT */
/*
 * Completions: posts receives, polls the completion queue, and waits for a READ or a response, first
 * by polling, then asleep.
 */
#ifndef KVD_CLIENT_COMPLETION_H
#define KVD_CLIENT_COMPLETION_H

#include "client/handle.h"

/* What a completion is of; in the high half of its wr_id. */
enum wr_kind { WR_RECV, WR_SEND, WR_READ };

static inline uint64_t wr_id_make(enum wr_kind kind, uint32_t index)
{
	return (uint64_t)kind << 32 | index;
}

/*
 * Waits until the last READ of the chain with number @chain, or a response, is there. Polls for
 * spin_us, then sleeps. KVD_ERR_TIMEOUT after handle->deadline_ns; else why the connection broke.
 */
enum kvd_status completion_wait_read(struct kvd *handle, uint32_t chain);
enum kvd_status completion_wait_response(struct kvd *handle);
/* Until no ACCESS message is outstanding. */
enum kvd_status completion_wait_access(struct kvd *handle);
/* Posts receive buffer @index. */
enum kvd_status recv_post(struct kvd *handle, uint32_t index);

#endif /* KVD_CLIENT_COMPLETION_H */
