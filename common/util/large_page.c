/* SPDX-License-Identifier: MIT */
/* Maps memory at addresses that allow large pages. */
#include "common/util/large_page.h"

#include <errno.h>
#include <sys/mman.h>

/* Reserves one large page of addresses more than needed, and gives the rest back. */
void *large_page_map(size_t bytes, int prot, int flags, int fd, uint64_t offset)
{
	const size_t reserved = bytes + LARGE_PAGE_BYTES;
	uint8_t *room = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
	size_t before;
	void *base;
	int err;

	if (room == MAP_FAILED)
		return MAP_FAILED;
	before = (offset - (uintptr_t)room) & (LARGE_PAGE_BYTES - 1);
	base = mmap(room + before, bytes, prot, flags | MAP_FIXED, fd, (off_t)offset);
	if (base == MAP_FAILED) {
		err = errno;
		munmap(room, reserved);
		errno = err;
		return MAP_FAILED;
	}
	if (before)
		munmap(room, before);
	munmap(room + before + bytes, LARGE_PAGE_BYTES - before);
	return base;
}
