/* SPDX-License-Identifier: MIT */
/*
 * The locks of queue pairs and completion queues: a mutex, or nothing where their owner promised
 * that one thread at a time uses them (device_ops.create_channel_pair), since an uncontended mutex
 * costs 5 to 15 ns, and a GET would take three. With KVD_DEBUG, and under ThreadSanitizer, a
 * broken promise ends the process.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_LOCK_H
#define KVD_COMMON_RDMA_SOFTNIC_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#if defined(KVD_DEBUG) || defined(__SANITIZE_THREAD__)
#define SN_LOCK_CHECK 1
#endif

struct sn_lock {
	pthread_mutex_t mutex;
	bool single;
#ifdef SN_LOCK_CHECK
	_Atomic bool held; /* if single */
#endif
};

#ifdef SN_LOCK_CHECK
/* Logs that two threads use a connection declared for one thread, and aborts. */
_Noreturn void sn_lock_broken(void);
#endif

static inline void sn_lock_init(struct sn_lock *lock, bool single)
{
	lock->single = single;
	pthread_mutex_init(&lock->mutex, NULL);
}

static inline void sn_lock_destroy(struct sn_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline void sn_lock_enter(struct sn_lock *lock)
{
#ifdef SN_LOCK_CHECK
	if (atomic_exchange_explicit(&lock->held, true, memory_order_relaxed))
		sn_lock_broken();
#else
	(void)lock;
#endif
}

static inline void sn_lock(struct sn_lock *lock)
{
	if (lock->single)
		sn_lock_enter(lock);
	else
		pthread_mutex_lock(&lock->mutex);
}

/* 0, or EBUSY if another thread has it. */
static inline int sn_trylock(struct sn_lock *lock)
{
	if (!lock->single)
		return pthread_mutex_trylock(&lock->mutex);
	sn_lock_enter(lock);
	return 0;
}

static inline void sn_unlock(struct sn_lock *lock)
{
	if (!lock->single) {
		pthread_mutex_unlock(&lock->mutex);
		return;
	}
#ifdef SN_LOCK_CHECK
	atomic_store_explicit(&lock->held, false, memory_order_relaxed);
#endif
}

#endif /* KVD_COMMON_RDMA_SOFTNIC_LOCK_H */
