/* SPDX-License-Identifier: MIT */
/*
 * Threads of the server: each has a name, and a second stack for the handler of fatal signals
 * (server/crash.h), since the first one may be what overflowed.
 */
#ifndef KVD_COMMON_UTIL_THREAD_H
#define KVD_COMMON_UTIL_THREAD_H

#include <pthread.h>

/* The kernel stores registers there, up to 11 KiB on x86; the rest is the handler's. */
#define THREAD_SIGNAL_STACK_BYTES (32u << 10)

/* The kernel's limit, with the zero. */
#define THREAD_NAME_BYTES 16

/*
 * Starts a thread that runs run(@arg); @name is for top -H and reports. Returns 0 or a negative
 * errno, without logging.
 */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* The name of the calling thread; "kvd" in the main thread. */
const char *thread_name(void);

/*
 * Lets handlers of signals use @stack, of THREAD_SIGNAL_STACK_BYTES, in the calling thread, unless
 * a sanitizer's runtime has given it another one. NULL: ends that, before the memory is reused.
 */
void thread_signal_stack(void *stack);

#endif /* KVD_COMMON_UTIL_THREAD_H */
