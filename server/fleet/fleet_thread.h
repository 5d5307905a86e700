/* SPDX-License-Identifier: MIT */
/* What the threads of a fleet's member have in common. */
#ifndef KVD_SERVER_FLEET_FLEET_THREAD_H
#define KVD_SERVER_FLEET_FLEET_THREAD_H

#include <pthread.h>

/*
 * Starts a thread of that name, in which all signals are blocked, as in those that it starts. 0, or
 * a negative errno after logging.
 */
int fleet_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* Makes a condition whose waits end by CLOCK_MONOTONIC. 0 or a negative errno. */
int fleet_thread_cond_init(pthread_cond_t *cond);

#endif /* KVD_SERVER_FLEET_FLEET_THREAD_H */
