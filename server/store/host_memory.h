/* SPDX-License-Identifier: MIT */
/*
 * The memory that this host, the control groups of this process and its resource limits leave for a
 * store, so that a store that is too large is refused before the kernel kills the process.
 *
 * Two figures: the memory available now (free, or page cache that the kernel can drop), and the
 * most that could ever be available. Neither counts swap: a store that is swapped out answers in
 * milliseconds, and a verbs device pins it. Nor hugetlb pages: the kernel has put them aside.
 */
#ifndef KVD_SERVER_STORE_HOST_MEMORY_H
#define KVD_SERVER_STORE_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define HOST_MEMORY_NAME_MAX 320

struct host_limit {
	uint64_t bytes;			 /* UINT64_MAX: no limit is known */
	char name[HOST_MEMORY_NAME_MAX]; /* where it comes from: a file, or a resource limit */
};

struct host_memory {
	struct host_limit now;	/* the least of the amounts available now */
	struct host_limit ever; /* the least of the limits */
	uint64_t file_max;	/* bytes of a file; a memfd is one */
};

/*
 * Reads /proc/meminfo, and memory.max and memory.high (version 2) or memory.limit_in_bytes (version
 * 1) of the process's control group and all groups above it, below the folder @root: "" except in
 * tests. Reads RLIMIT_AS and RLIMIT_FSIZE, too. A limit that can't be read does not count.
 */
void host_memory_read(struct host_memory *memory, const char *root);

/*
 * Checks that there can ever be memory for a region of @bytes and @beside bytes that the process
 * needs beside it. If there is not enough now, that is an error if @now, else a warning. Returns 0
 * or, after logging both figures, -ENOMEM.
 */
int host_memory_check(const struct host_memory *memory, uint64_t bytes, uint64_t beside, bool now);

#endif /* KVD_SERVER_STORE_HOST_MEMORY_H */
