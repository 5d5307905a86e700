/* SPDX-License-Identifier: MIT */
/*
 * Mappings of files that servers passed, shared by the connections of a device: a server passes the
 * same one to each. A mapping costs page tables, 2 MiB for each GiB where pages are small, and
 * address space.
 *
 * Which file it is, the device and the number of its inode say. An inode that is mapped keeps its
 * number, so no other file has it. (Those of memfds have 32 bits, which wrap: two that exist at a
 * time could have the same number if billions were created in between. Both would be of a process
 * that listens at this device's path: whom its clients trust, whichever file they read.)
 */
#include "common/rdma/softnic/softnic.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/util/heap.h"
#include "common/util/large_page.h"

static struct sn_map *do_map_find(struct sn_context *ctx, const struct stat *st, uint64_t start,
				  size_t length)
{
	struct sn_map *map;

	TAILQ_FOREACH(map, &ctx->maps, in_context)
		if (map->dev == st->st_dev && map->ino == st->st_ino && map->start == start &&
		    map->length == length)
			return map;
	return NULL;
}

static int do_map_make(struct sn_context *ctx, int fd, const struct stat *st, uint64_t start,
		       size_t length, struct sn_map **out)
{
	struct sn_map *map = heap_calloc(1, sizeof(*map));
	int ret;

	if (!map)
		return -ENOMEM;
	map->dev = st->st_dev;
	map->ino = st->st_ino;
	map->start = start;
	map->length = length;
	/* With large pages a READ costs less, and each GiB 2 MiB of page tables less. */
	if (length >= LARGE_PAGE_BYTES && (size_t)st->st_blksize < LARGE_PAGE_BYTES)
		map->base = large_page_map(length, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
					   start);
	else
		map->base = mmap(NULL, length, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
				 (off_t)start);
	if (map->base == MAP_FAILED) {
		ret = -errno;
		heap_free(map);
		return ret;
	}
	/* It is the peer's: what others have stored, say. */
	if (madvise(map->base, length, MADV_DONTDUMP)) {
		ret = -errno;
		munmap(map->base, length);
		heap_free(map);
		return ret;
	}
	TAILQ_INSERT_HEAD(&ctx->maps, map, in_context);
	*out = map;
	return 0;
}

int sn_map_get(struct sn_context *ctx, int fd, const struct stat *st, uint64_t start, size_t length,
	       struct sn_map **out)
{
	int ret = 0;

	pthread_mutex_lock(&ctx->map_lock);
	*out = do_map_find(ctx, st, start, length);
	if (!*out)
		ret = do_map_make(ctx, fd, st, start, length, out);
	if (!ret)
		(*out)->users++;
	pthread_mutex_unlock(&ctx->map_lock);
	return ret;
}

void sn_map_put(struct sn_context *ctx, struct sn_map *map)
{
	bool last;

	pthread_mutex_lock(&ctx->map_lock);
	last = !--map->users;
	if (last)
		TAILQ_REMOVE(&ctx->maps, map, in_context);
	pthread_mutex_unlock(&ctx->map_lock);
	if (!last)
		return;
	munmap(map->base, map->length);
	heap_free(map);
}
