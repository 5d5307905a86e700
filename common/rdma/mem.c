/* SPDX-License-Identifier: MIT */
/*
 * Memory for the data of RDMA: of large pages that the host has reserved, if enough are free; else
 * of normal pages that the kernel makes large, if it can. With small pages preadv(2), by which a
 * server on softnic READs it, copies 4 KiB at a time, and is half as fast.
 */
#include "common/rdma/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/large_page.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif
#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE /* Linux 6.1 */
#define MADV_COLLAPSE 25
#endif

#define PAGE_BYTES ((size_t)4096)

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) & ~(unit - 1);
}

/*
 * mmap() reserves large pages of the host, but a control group may allow fewer, and an access
 * beyond that raises SIGBUS: so all are taken now.
 */
static int map_large(struct device_mem *mem, size_t bytes, bool with_file)
{
	int flags = with_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	int fd = -1;
	void *base;

	if (with_file) {
		fd = memfd_create("kvd-mem",
				  MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
		if (fd < 0 || ftruncate(fd, (off_t)bytes))
			goto close_fd;
	}
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB | (int)MFD_HUGE_2MB,
		    fd, 0);
	if (base == MAP_FAILED)
		goto close_fd;
	if (!madvise(base, bytes, MADV_POPULATE_WRITE)) {
		*mem = (struct device_mem){ .addr = base, .length = bytes, .fd = fd };
		return 0;
	}
	munmap(base, bytes);
close_fd:
	if (fd >= 0)
		close(fd);
	return -ENOMEM;
}

/*
 * Large pages for a file, which the kernel's settings often don't give: on request it makes large
 * pages of those in which one small page exists. If it has none, the pages stay small.
 */
static void make_large(uint8_t *base, size_t bytes)
{
	size_t at;

	for (at = 0; at + LARGE_PAGE_BYTES <= bytes; at += LARGE_PAGE_BYTES)
		if (madvise(base + at, PAGE_BYTES, MADV_POPULATE_WRITE))
			return;
	if (at)
		madvise(base, at, MADV_COLLAPSE);
}

static int map_normal(struct device_mem *mem, size_t bytes, bool with_file)
{
	int fd = -1, err;
	void *base;

	if (with_file) {
		fd = memfd_create("kvd-mem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0)
			return -errno;
		if (ftruncate(fd, (off_t)bytes))
			goto close_fd;
	}
	base = large_page_map(bytes, PROT_READ | PROT_WRITE,
			      with_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (base == MAP_FAILED)
		goto close_fd;
	/*
	 * Takes effect when memory is first touched or pinned, if the kernel does that for this
	 * kind.
	 */
	madvise(base, bytes, MADV_HUGEPAGE);
	if (with_file)
		make_large(base, bytes);
	*mem = (struct device_mem){ .addr = base, .length = bytes, .fd = fd };
	return 0;

close_fd:
	err = errno;
	if (fd >= 0)
		close(fd);
	return -err;
}

/*
 * The length of memory of normal pages: a remainder of half a large page or more of a file gets a
 * whole one. Copying and summing 1 MiB of a file takes 51 us from a large page, 69 us from small
 * ones.
 */
static size_t normal_bytes(size_t bytes, bool with_file)
{
	size_t rest = bytes % LARGE_PAGE_BYTES;

	return round_up(bytes,
			with_file && rest >= LARGE_PAGE_BYTES / 2 ? LARGE_PAGE_BYTES : PAGE_BYTES);
}

int mem_map(struct device_mem *mem, size_t bytes, bool with_file)
{
	int ret = -ENOMEM;

	if (!bytes || bytes > SIZE_MAX / 2)
		return -EINVAL;
	if (bytes >= LARGE_PAGE_BYTES)
		ret = map_large(mem, round_up(bytes, LARGE_PAGE_BYTES), with_file);
	if (ret)
		ret = map_normal(mem, normal_bytes(bytes, with_file), with_file);
	if (!ret && madvise(mem->addr, mem->length, MADV_DONTFORK)) {
		ret = -errno;
		mem_unmap(mem);
	}
	return ret;
}

void mem_unmap(struct device_mem *mem)
{
	if (!mem->addr)
		return;
	munmap(mem->addr, mem->length);
	if (mem->fd >= 0) {
		/* Frees the pages although a server may still have the file open. */
		fallocate(mem->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			  (off_t)mem->length);
		close(mem->fd);
	}
	*mem = (struct device_mem){ .fd = -1 };
}
