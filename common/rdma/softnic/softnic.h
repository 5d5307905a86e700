/* SPDX-License-Identifier: MIT */
/*
 * Declarations that all files of the software device share. context.c says how the device works and
 * what it guarantees, link.h what two peers share, README.md which header has which object.
 *
 * Locks, in the order in which they are taken:
 *
 *	sn_cm_channel.lock	ids and events of connection management
 *	sn_context.lock		lists of the device, registrations, grants
 *	sn_channel.lock		the CQs of a completion channel, and serving its events
 *	sn_cq.list_lock		the lists of the queue pairs that a CQ polls
 *	sn_qp.lock		all of a queue pair
 *	sn_srq.lock, sn_context.mr_lock, sn_context.file_lock, sn_context.map_lock
 *	sn_cq.lock		completions
 *	sn_channel.event_lock
 *	sn_context.async_lock
 *
 * A function called do_x() expects the lock of its object to be held.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_SOFTNIC_H
#define KVD_COMMON_RDMA_SOFTNIC_SOFTNIC_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define SN_LINE 64	 /* bytes of a cache line */
#define SN_QUEUE_FIRST 4 /* first entries of a queue that grows: the queues of a channel pair */

#define sn_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct sn_channel;
struct sn_cm_channel;
struct sn_context;
struct sn_cq;
struct sn_file;
struct sn_map;
struct sn_mr;
struct sn_mw;
struct sn_qp;
struct sn_srq;

static inline uint64_t sn_now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* The smallest power of two that is not less than @count. */
static inline uint32_t sn_round_up(uint32_t count)
{
	return count <= 1 ? 1 : 1u << (32 - __builtin_clz(count - 1));
}

#endif /* KVD_COMMON_RDMA_SOFTNIC_SOFTNIC_H */
