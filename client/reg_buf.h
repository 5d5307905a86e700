/* SPDX-License-Identifier: MIT */
/*
 * Registered buffers: memory that the client's device may write to, and that the server may read if
 * @access says so. They grow and never shrink.
 */
#ifndef KVD_CLIENT_REG_BUF_H
#define KVD_CLIENT_REG_BUF_H

#include "common/rdma/device.h"

/* Zeroed: no buffer yet. */
struct reg_buf {
	uint8_t *base;
	size_t bytes;
	struct ibv_mr *mr;
};

/*
 * Grows @buf to at least @bytes bytes and keeps its content; base and mr change. Does nothing if it
 * is large enough. @access: IBV_ACCESS_*. Returns 0 or a negative errno, with @buf unchanged:
 * -ENOMEM when RLIMIT_MEMLOCK forbids it, too (verbs).
 */
int reg_buf_resize(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, size_t bytes,
		   int access);

/* Deregisters and frees it, if there is one. */
void reg_buf_release(struct reg_buf *buf, struct device *dev);

#endif /* KVD_CLIENT_REG_BUF_H */
