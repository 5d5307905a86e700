/* SPDX-License-Identifier: MIT */
/* Transparent huge pages: mappings that the kernel can use them for. */
#ifndef KVD_COMMON_UTIL_LARGE_PAGE_H
#define KVD_COMMON_UTIL_LARGE_PAGE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a transparent huge page. */
#define LARGE_PAGE_BYTES ((size_t)2 << 20)

/*
 * mmap(2) at an address that equals @offset modulo LARGE_PAGE_BYTES: only there can the kernel map
 * large pages. Returns the mapping, which munmap(2) ends; or MAP_FAILED, with errno.
 */
void *large_page_map(size_t bytes, int prot, int flags, int fd, uint64_t offset);

#endif /* KVD_COMMON_UTIL_LARGE_PAGE_H */
