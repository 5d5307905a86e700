/* SPDX-License-Identifier: MIT */
/*
 * Registered buffers: memory that the client's device may write to, and that the server may read if
 * @access says so. A child after fork(2) does not have them.
 */
#ifndef KVD_CLIENT_LIBKVD_REG_BUF_H
#define KVD_CLIENT_LIBKVD_REG_BUF_H

#include "common/rdma/device.h"
#include "common/util/memlock.h"

/* Zeroed: no buffer yet. */
struct reg_buf {
	uint8_t *base;
	size_t bytes;
	struct ibv_mr *mr;
};

/*
 * Makes @buf @bytes bytes long, rounded up to pages, and keeps its content as far as it fits; base
 * and mr change. At no time are both sizes registered. No device may be using the buffer. @access:
 * IBV_ACCESS_*. Returns 0 or a negative errno (-ENOMEM when RLIMIT_MEMLOCK forbids it, too: verbs).
 * Then @buf has its old size, or none if that could not be registered again either.
 */
int reg_buf_resize(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, size_t bytes,
		   int access);

/*
 * Registers @mem, which the log says with the time that it took: all registrations of the library
 * are made by it. 0 or a negative errno.
 */
int mr_register(struct device *dev, struct ibv_pd *pd, const struct device_mem *mem, int access,
		struct ibv_mr **mr);

/*
 * What bounds registrations, if that may be why one failed with @err, to go behind the text of the
 * failure. Returns @text, which may be "".
 */
const char *mr_failed_why(const struct device *dev, int err, char text[MEMLOCK_WHY_BYTES]);

/* Deregisters and frees it, if there is one. */
void reg_buf_release(struct reg_buf *buf, struct device *dev);

#endif /* KVD_CLIENT_LIBKVD_REG_BUF_H */
