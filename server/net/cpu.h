/* SPDX-License-Identifier: MIT */
/* The CPUs this process may run on, and how many workers that makes. */
#ifndef KVD_SERVER_NET_CPU_H
#define KVD_SERVER_NET_CPU_H

#include "server/config/config.h"

#define WORKERS_MAX 64

/* Worker threads: server.workers, or one for each CPU; at most WORKERS_MAX. */
unsigned int cpu_workers(const struct config *config);

/* The @n-th CPU, from 0 on, that this process may run on; -1: there are not that many. */
int cpu_number(unsigned int n);

#endif /* KVD_SERVER_NET_CPU_H */
