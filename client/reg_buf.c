/* SPDX-License-Identifier: MIT */
/* Registered buffers: allocates, registers, grows and frees memory for a client's RDMA. */
#include "client/reg_buf.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096

/* At least twice what there was, so that growing is rare. */
static size_t grown_bytes(const struct reg_buf *buf, size_t bytes)
{
	size_t grown = bytes > 2 * buf->bytes ? bytes : 2 * buf->bytes;

	return (grown + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

int reg_buf_resize(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, size_t bytes,
		   int access)
{
	struct device_mem mem = { .fd = -1 };
	struct ibv_mr *mr;
	int err;

	if (bytes <= buf->bytes)
		return 0;
	mem.length = grown_bytes(buf, bytes);
	mem.addr = mmap(NULL, mem.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	if (mem.addr == MAP_FAILED)
		return -errno;
	err = dev->ops->reg_mr(pd, &mem, access, &mr);
	if (err) {
		munmap(mem.addr, mem.length);
		return err;
	}
	if (buf->bytes)
		memcpy(mem.addr, buf->base, buf->bytes);
	reg_buf_release(buf, dev);
	*buf = (struct reg_buf){ .base = mem.addr, .bytes = mem.length, .mr = mr };
	return 0;
}

void reg_buf_release(struct reg_buf *buf, struct device *dev)
{
	if (!buf->base)
		return;
	dev->ops->dereg_mr(buf->mr);
	munmap(buf->base, buf->bytes);
	*buf = (struct reg_buf){ 0 };
}
