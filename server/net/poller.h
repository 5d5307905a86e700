/* SPDX-License-Identifier: MIT */
/*
 * Pollers: what a worker has on one device (struct poller in server/net/worker.h): its queues, its
 * message buffers, and how work requests are told apart when they complete.
 */
#ifndef KVD_SERVER_NET_POLLER_H
#define KVD_SERVER_NET_POLLER_H

#include "server/net/worker.h"

int poller_init(struct poller *poller, struct worker *worker, struct nic *nic);
void poller_release(struct poller *poller);
/* Asks to be told when an eighth of the receives is left. 0 or a negative errno. */
int poller_arm_srq_limit(struct poller *poller);
/* Posts @count receive buffers in one chain. A failure ends the process: no request could come. */
void poller_post_recvs(struct poller *poller, const uint32_t *buffers, unsigned int count);

static inline uint8_t *poller_buffer(const struct poller *poller, uint32_t buffer)
{
	return poller->memory + (size_t)buffer * poller->worker->limits.buffer_bytes;
}

static inline uint32_t buffer_take(struct poller *poller)
{
	return poller->free_count ? poller->free[--poller->free_count] : BUFFER_NONE;
}

static inline void buffer_put(struct poller *poller, uint32_t buffer)
{
	poller->free[poller->free_count++] = buffer;
}

/*
 * What a completion is of. Errors leave only the wr_id valid, so it says everything:
 *
 *	63    60 59        52 51           32 31        0
 *	+-------+------------+---------------+-----------+
 *	| kind  |   covers   | serial, 20 b  |  buffer   |
 *	+-------+------------+---------------+-----------+
 *
 * covers: work requests of this queue pair that are done when this one is, itself included.
 */
enum wr_kind { WR_RECV, WR_RESPONSE, WR_PULL };

#define WR_SERIAL_MASK 0xfffffu
#define WR_COVERS_MAX 255u

static inline uint64_t wr_id_make(enum wr_kind kind, uint32_t covers, uint32_t serial,
				  uint32_t buffer)
{
	return (uint64_t)kind << 60 | (uint64_t)covers << 52 |
	       (uint64_t)(serial & WR_SERIAL_MASK) << 32 | buffer;
}

static inline enum wr_kind wr_id_kind(uint64_t wr_id)
{
	return (enum wr_kind)(wr_id >> 60);
}

static inline uint32_t wr_id_covers(uint64_t wr_id)
{
	return wr_id >> 52 & 0xff;
}

static inline uint32_t wr_id_serial(uint64_t wr_id)
{
	return wr_id >> 32 & WR_SERIAL_MASK;
}

static inline uint32_t wr_id_buffer(uint64_t wr_id)
{
	return (uint32_t)wr_id;
}

#endif /* KVD_SERVER_NET_POLLER_H */
