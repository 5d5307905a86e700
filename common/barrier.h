/* SPDX-License-Identifier: MIT */
/*
 * Every store whose order others depend on, named by its use.
 *
 * Two kinds of readers look at the server's region while it changes: threads of the server, for
 * which C11 atomics suffice, and RDMA devices, which read it by DMA on behalf of clients. A device
 * sees the CPU's stores in the order in which they become visible to the I/O coherence domain, so
 * stores that must be seen in order have dma_wmb() between them (the same barrier rdma-core calls
 * udma_to_device_barrier; Linux: dma_wmb). The order in which one READ fetches the bytes it covers
 * is not defined (Ziegler et al., SIGMOD 2023): no function here relies on it, the sums do that job.
 */
#ifndef KVD_COMMON_BARRIER_H
#define KVD_COMMON_BARRIER_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/layout.h"

/* Orders earlier stores before later ones as DMA readers and other CPUs see them. */
static inline void dma_wmb(void)
{
#if defined(__x86_64__) || defined(__i386__)
	/* Total store order: the compiler is all there is to hold back. */
	__asm__ __volatile__("" ::: "memory");
#elif defined(__aarch64__)
	/* Outer shareable: the domain that holds DMA-coherent devices. */
	__asm__ __volatile__("dmb oshst" ::: "memory");
#else
	__sync_synchronize();
#endif
}

/* Tells the core that this is a spin loop. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

static inline void store_relaxed64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/*
 * Makes @item invalid for every reader before anything that is stored later can be seen: its bytes
 * may then be rewritten or its slot cleared.
 */
static inline void item_invalidate(struct item *item)
{
	store_relaxed64(&item->sum, ITEM_SUM_INVALID);
	dma_wmb();
}

/*
 * Makes @item valid: the linearization point of every PUT. The item's bytes and the slot that leads
 * to it were stored before and are seen before.
 */
static inline void item_publish(struct item *item, uint64_t sum)
{
	dma_wmb();
	store_relaxed64(&item->sum, sum);
	/* The acknowledgement that follows must not be seen earlier. */
	dma_wmb();
}

/* Points a slot at an item whose (still invalid) header was stored before, or clears it with 0. */
static inline void slot_store(uint64_t *slot, uint64_t value)
{
	dma_wmb();
	__atomic_store_n(slot, value, __ATOMIC_RELEASE);
}

/* Reads a slot without the bucket's lock: a hint for prefetching, to be read again under it. */
static inline uint64_t slot_peek(const uint64_t *slot)
{
	return __atomic_load_n(slot, __ATOMIC_RELAXED);
}

/* Links an overflow bucket that was filled and sealed before. */
static inline void bucket_link(struct bucket *bucket, uint32_t overflow)
{
	dma_wmb();
	__atomic_store_n(&bucket->overflow, overflow, __ATOMIC_RELEASE);
}

/* Follows a chain without the bucket's lock. */
static inline uint32_t bucket_overflow_peek(const struct bucket *bucket)
{
	return __atomic_load_n(&bucket->overflow, __ATOMIC_ACQUIRE);
}

/*
 * Stores the sum that makes the bucket's new content verify. Until then readers find that it does
 * not and read again.
 */
static inline void bucket_seal(struct bucket *bucket, uint64_t sum)
{
	dma_wmb();
	store_relaxed64(&bucket->sum, sum);
	dma_wmb();
}

/*
 * The lock of a home bucket covers its slots, its chain and the items they lead to. Held for one
 * item change, never across a wait. Spinning: the holder is a worker that runs on a core of its own.
 */
static inline void bucket_lock(struct bucket *bucket)
{
	while (__atomic_exchange_n(&bucket->lock, 1, __ATOMIC_ACQUIRE))
		while (__atomic_load_n(&bucket->lock, __ATOMIC_RELAXED))
			cpu_relax();
}

static inline void bucket_unlock(struct bucket *bucket)
{
	__atomic_store_n(&bucket->lock, 0, __ATOMIC_RELEASE);
}

#endif /* KVD_COMMON_BARRIER_H */
