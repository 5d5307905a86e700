/* SPDX-License-Identifier: MIT */
/* CPUs: those that this process may run on, and how many worker threads they are for. */
#ifndef KVD_SERVER_WORKER_CPU_H
#define KVD_SERVER_WORKER_CPU_H

#include "server/config/config.h"

#define WORKERS_MAX 64

/* The number of worker threads: server.workers, or one for each CPU; at most WORKERS_MAX. */
unsigned int cpu_workers(const struct config *config);

/* The number of the @n-th CPU, from 0 on, that this process may run on; -1: it has fewer. */
int cpu_number(unsigned int n);

#endif /* KVD_SERVER_WORKER_CPU_H */
