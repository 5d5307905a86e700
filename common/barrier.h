/* SPDX-License-Identifier: MIT */
/*
 * Memory ordering: all loads and stores of the region whose order other threads or RDMA devices
 * depend on, each in a function that is named by its use.
 *
 * Two kinds of readers read the server's region while it changes: threads of the server, for which
 * C11 atomics suffice, and RDMA devices, which read it by DMA for clients. A device sees the CPU's
 * stores in the order in which they become visible to the I/O coherence domain, so stores that must
 * be seen in order have dma_wmb() between them (rdma-core calls this barrier
 * udma_to_device_barrier; Linux: dma_wmb). The order in which one READ fetches the bytes it covers
 * is not defined (Ziegler et al., SIGMOD 2023): no function here relies on it, since the sums
 * detect a torn READ.
 *
 * A function called x_load() reads without the bucket's lock.
 */
#ifndef KVD_COMMON_BARRIER_H
#define KVD_COMMON_BARRIER_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

/* Orders earlier stores before later ones as DMA readers and other CPUs see them. */
static inline void dma_wmb(void)
{
#if defined(__x86_64__) || defined(__i386__)
	/* Total store order: only the compiler could reorder. */
	__asm__ __volatile__("" ::: "memory");
#elif defined(__aarch64__)
	/* Outer shareable: the domain that holds DMA-coherent devices. */
	__asm__ __volatile__("dmb oshst" ::: "memory");
#else
	__sync_synchronize();
#endif
}

/*
 * Orders earlier loads before later ones: for a reader that reads a sequence number again. Not an
 * atomic fence, which ThreadSanitizer does not support.
 */
static inline void load_barrier(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ __volatile__("" ::: "memory");
#elif defined(__aarch64__)
	__asm__ __volatile__("dmb ishld" ::: "memory");
#else
	__sync_synchronize();
#endif
}

/*
 * Orders earlier stores before later loads, and before later readings of the clock. No other
 * barrier here does, and no processor does it by itself: a store waits in the core's buffer for its
 * cache line, for a hundred ns if another core has it, while later loads are executed. It is for a
 * thread that stores to the region and then decides by what it loads: without it, a reader could
 * still see the old region at a time that the decision takes for later than the store
 * (tests/stress/test_store_buffering.c).
 *
 * x86: a locked instruction, which completes when the buffer is empty; the fence in front of the
 * kernel's RDTSC (LFENCE, or RDTSCP) waits for it. Faster than MFENCE. arm64: DSB, since the
 * counter is not memory, and what DMB orders is memory.
 */
static inline void store_load_barrier(void)
{
#if defined(__x86_64__)
	__asm__ __volatile__("lock; addl $0, -4(%%rsp)" ::: "memory", "cc");
#elif defined(__aarch64__)
	__asm__ __volatile__("dsb osh\n\tisb" ::: "memory");
#else
	__sync_synchronize();
#endif
}

/*
 * Orders an earlier reading of the clock before later loads. A core may execute loads that follow
 * RDTSC (or read the counter, arm64) before it.
 */
static inline void clock_load_barrier(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__asm__ __volatile__("lfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ __volatile__("isb" ::: "memory");
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
 * Makes @item invalid for every reader before any later store becomes visible: after this its bytes
 * may be rewritten or its slot cleared. A later load may be done before: store_load_barrier().
 */
static inline void item_invalidate(struct item *item)
{
	store_relaxed64(&item->sum, ITEM_SUM_INVALID);
	dma_wmb();
}

/*
 * Makes @item valid: the linearization point of every PUT. The item's bytes and the slot that
 * points to it were stored before, and become visible before.
 */
static inline void item_publish(struct item *item, uint64_t sum)
{
	dma_wmb();
	store_relaxed64(&item->sum, sum);
	/* The response that follows must not become visible earlier. */
	dma_wmb();
}

/* Points a slot at an item whose (still invalid) header was stored before, or clears it with 0. */
static inline void slot_store(uint64_t *slot, uint64_t value)
{
	dma_wmb();
	__atomic_store_n(slot, value, __ATOMIC_RELEASE);
}

/* Reads a slot without the bucket's lock: a hint for prefetching, to be read again under it. */
static inline uint64_t slot_load(const uint64_t *slot)
{
	return __atomic_load_n(slot, __ATOMIC_RELAXED);
}

/* Links an overflow bucket, which was filled and sealed before. */
static inline void bucket_link(struct bucket *bucket, uint32_t overflow)
{
	dma_wmb();
	__atomic_store_n(&bucket->overflow, overflow, __ATOMIC_RELEASE);
}

/* Follows a chain without the bucket's lock. */
static inline uint32_t bucket_overflow_load(const struct bucket *bucket)
{
	return __atomic_load_n(&bucket->overflow, __ATOMIC_ACQUIRE);
}

/*
 * Stores the sum that makes the bucket's new content verify. Until then it does not verify, and
 * readers read it again.
 */
static inline void bucket_seal(struct bucket *bucket, uint64_t sum)
{
	dma_wmb();
	store_relaxed64(&bucket->sum, sum);
	dma_wmb();
}

/*
 * The lock of a home bucket guards its slots, its chain and the items they point to. It is held for
 * one item change, never across a wait. It spins: the holder is a worker that runs on another core;
 * where it does not (more threads than cores), it gets this core after LOCK_SPINS tries.
 */
#define LOCK_SPINS 1000

static inline void bucket_lock(struct bucket *bucket)
{
	unsigned int spins;

	while (__atomic_exchange_n(&bucket->lock, 1, __ATOMIC_ACQUIRE))
		for (spins = 0; __atomic_load_n(&bucket->lock, __ATOMIC_RELAXED); spins++)
			if (spins < LOCK_SPINS)
				cpu_relax();
			else
				sched_yield();
}

static inline bool bucket_trylock(struct bucket *bucket)
{
	return !__atomic_exchange_n(&bucket->lock, 1, __ATOMIC_ACQUIRE);
}

static inline void bucket_unlock(struct bucket *bucket)
{
	__atomic_store_n(&bucket->lock, 0, __ATOMIC_RELEASE);
}

/*
 * Call before slots of a chain are moved: from here to chain_move_end() the home bucket's epoch is
 * odd, so its sum does not verify for readers of the region.
 */
static inline void chain_move_begin(struct bucket *home)
{
	__atomic_store_n(&home->epoch, (uint16_t)(home->epoch + 1), __ATOMIC_RELAXED);
	/* No reader sees a moved slot without having seen the odd epoch. */
	dma_wmb();
}

/*
 * Call when all other buckets have the next epoch and their slots; then seal the home bucket last.
 */
static inline void chain_move_end(struct bucket *home)
{
	dma_wmb();
	__atomic_store_n(&home->epoch, (uint16_t)(home->epoch + 1), __ATOMIC_RELEASE);
}

/* A reader in this process loads the epoch first, and again after it has followed the chain. */
static inline uint16_t chain_epoch_first(const struct bucket *home)
{
	return __atomic_load_n(&home->epoch, __ATOMIC_ACQUIRE);
}

static inline uint16_t chain_epoch_again(const struct bucket *home)
{
	load_barrier();
	return __atomic_load_n(&home->epoch, __ATOMIC_RELAXED);
}

static inline uint8_t bucket_level_load(const struct bucket *bucket)
{
	return __atomic_load_n(&bucket->level, __ATOMIC_ACQUIRE);
}

static inline void bucket_level_store(struct bucket *bucket, uint8_t level)
{
	__atomic_store_n(&bucket->level, level, __ATOMIC_RELEASE);
}

/* A slot that a reader in this process follows to an item, whose header was stored before. */
static inline uint64_t slot_follow(const uint64_t *slot)
{
	return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/*
 * For functions that read what another thread may be writing, and whose result is verified later.
 */
#define RACY __attribute__((no_sanitize("thread")))

/*
 * Readers in this process copy items while other threads may change them, and use the copy only if
 * the sum was the same, and valid, before and after: item_sum_first(), racy_copy(),
 * item_sum_again(). The sum covers version and offset, so it does not recur for another item.
 */
RACY static inline uint64_t item_sum_first(const struct item *item)
{
	return __atomic_load_n(&item->sum, __ATOMIC_ACQUIRE);
}

RACY static inline uint64_t item_sum_again(const struct item *item)
{
	load_barrier();
	return __atomic_load_n(&item->sum, __ATOMIC_RELAXED);
}

/* Copies what another thread may be writing. The copy must be verified before it is used. */
RACY static inline void racy_copy(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__) && defined(__SANITIZE_THREAD__)
	/* In assembler, since ThreadSanitizer would report memcpy() as the race that it is. */
	__asm__ __volatile__("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
	__builtin_memcpy(to, from, bytes);
	__asm__ __volatile__("" ::: "memory");
#endif
}

/* The coarse time of an item's last use. Stored under the bucket's lock, read without it. */
RACY static inline uint16_t item_access_load(const struct item *item)
{
	return __atomic_load_n(&item->access, __ATOMIC_RELAXED);
}

static inline void item_access_store(struct item *item, uint16_t access)
{
	__atomic_store_n(&item->access, access, __ATOMIC_RELAXED);
}

RACY static inline uint32_t item_expires_load(const struct item *item)
{
	return __atomic_load_n(&item->expires, __ATOMIC_RELAXED);
}

/* The bytes of an item that may be invalid: any number, but never fewer than an empty item's. */
RACY static inline uint64_t item_bytes_hint(const struct item *item)
{
	union item_front copy;

	copy.item.lengths = __atomic_load_n(&item->lengths, __ATOMIC_RELAXED);
	item_long(&copy.item)->value_len = __atomic_load_n(&item_long(item)->value_len,
							   __ATOMIC_RELAXED);
	return item_bytes(&copy.item);
}

#endif /* KVD_COMMON_BARRIER_H */
