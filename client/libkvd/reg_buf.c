/* SPDX-License-Identifier: MIT */
/* Registered buffers: allocates, registers, resizes and frees memory for a client's RDMA. */
#include "client/libkvd/reg_buf.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util/clock.h"
#include "common/util/log.h"

#define PAGE_BYTES 4096u

/*
 * Maps a new buffer. A child after fork(2) does not get it: with pages that a device has pinned, a
 * fork would leave the device and the parent with different ones, or copy them all at once
 * (ibv_fork_init(3)).
 */
static int reg_buf_map(struct reg_buf *buf, size_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (base == MAP_FAILED)
		return -errno;
	if (madvise(base, bytes, MADV_DONTFORK)) {
		err = -errno;
		munmap(base, bytes);
		return err;
	}
	*buf = (struct reg_buf){ .base = base, .bytes = bytes };
	return 0;
}

/*
 * The mapping keeps its content, as far as it fits, and what madvise() said of it. ThreadSanitizer
 * does not know mremap(2): addresses that it moves from one thread's buffer to another's would be a
 * race of the two, so there the content is copied.
 */
static int reg_buf_remap(struct reg_buf *buf, size_t bytes)
{
#ifdef __SANITIZE_THREAD__
	const struct reg_buf old = *buf;
	int err = reg_buf_map(buf, bytes);

	if (err)
		return err;
	memcpy(buf->base, old.base, bytes < old.bytes ? bytes : old.bytes);
	munmap(old.base, old.bytes);
	return 0;
#else
	void *base = mremap(buf->base, buf->bytes, bytes, MREMAP_MAYMOVE);

	if (base == MAP_FAILED)
		return -errno;
	buf->base = base;
	buf->bytes = bytes;
	return 0;
#endif
}

int mr_register(struct device *dev, struct ibv_pd *pd, const struct device_mem *mem, int access,
		struct ibv_mr **mr)
{
	uint64_t start_ns = log_enabled(LOG_DEBUG) ? clock_ns() : 0;
	int err = dev->ops->reg_mr(pd, mem, access, mr);

	if (!err && start_ns)
		log_debug("registered %zu bytes in %llu us", mem->length,
			  (unsigned long long)(clock_ns() - start_ns) / 1000);
	return err;
}

const char *mr_failed_why(const struct device *dev, int err, char text[MEMLOCK_WHY_BYTES])
{
	text[0] = '\0';
	return device_kind_is_rdma(dev->kind) && (err == -ENOMEM || err == -EAGAIN) ?
		       memlock_why(text) :
		       text;
}

static int reg_buf_register(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, int access)
{
	const struct device_mem mem = { .addr = buf->base, .length = buf->bytes, .fd = -1 };
	int err = mr_register(dev, pd, &mem, access, &buf->mr);

	if (err)
		buf->mr = NULL;
	return err;
}

/*
 * Deregisters first: a device that holds the old pages beside the new ones would need the sum of
 * both, of locked memory as well. If the new size fails the old one is registered again; it shrinks
 * in place, which needs no memory.
 */
int reg_buf_resize(struct reg_buf *buf, struct device *dev, struct ibv_pd *pd, size_t bytes,
		   int access)
{
	size_t old = buf->bytes, length = (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	int err;

	if (length == old)
		return 0;
	if (buf->mr)
		dev->ops->dereg_mr(buf->mr);
	buf->mr = NULL;
	err = old ? reg_buf_remap(buf, length) : reg_buf_map(buf, length);
	if (!err) {
		err = reg_buf_register(buf, dev, pd, access);
		if (!err)
			return 0;
	}
	if (!old || (buf->bytes > old && reg_buf_remap(buf, old)) ||
	    reg_buf_register(buf, dev, pd, access))
		reg_buf_release(buf, dev);
	return err;
}

void reg_buf_release(struct reg_buf *buf, struct device *dev)
{
	if (!buf->base)
		return;
	if (buf->mr)
		dev->ops->dereg_mr(buf->mr);
	munmap(buf->base, buf->bytes);
	*buf = (struct reg_buf){ 0 };
}
