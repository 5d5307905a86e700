/* SPDX-License-Identifier: MIT */
/* Memory for the data of RDMA, as device_ops.alloc_mem gives it: mapped, with large pages. */
#ifndef KVD_COMMON_RDMA_MEM_H
#define KVD_COMMON_RDMA_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/rdma/device.h"

/* @with_file: a shared mapping of a memfd, else anonymous. 0 or a negative errno. */
int mem_map(struct device_mem *mem, size_t bytes, bool with_file);

/* Accepts memory that was not mapped. */
void mem_unmap(struct device_mem *mem);

#endif /* KVD_COMMON_RDMA_MEM_H */
