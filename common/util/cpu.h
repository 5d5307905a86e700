/* SPDX-License-Identifier: MIT */
/* The CPUs that this process may run on: its affinity mask. */
#ifndef KVD_COMMON_UTIL_CPU_H
#define KVD_COMMON_UTIL_CPU_H

/* The number of CPUs; 1 if the mask can't be read. */
unsigned int cpu_count(void);

/* The number of the @n-th CPU, counted from 0; -1: there are fewer. */
int cpu_number(unsigned int n);

#endif /* KVD_COMMON_UTIL_CPU_H */
