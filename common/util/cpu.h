/* SPDX-License-Identifier: MIT */
/* The CPUs that this process may run on: its affinity mask. */
#ifndef KVD_COMMON_UTIL_CPU_H
#define KVD_COMMON_UTIL_CPU_H

/* How many there are; 1 if the mask can't be read. */
unsigned int cpu_count(void);

/* The number of the @n-th of them, from 0 on; -1: there are fewer. */
int cpu_number(unsigned int n);

#endif /* KVD_COMMON_UTIL_CPU_H */
