/* SPDX-License-Identifier: MIT */
/*
 * Mappings of files that servers passed, shared by the connections of a device: a server passes the
 * same file to each. A mapping costs page tables, 2 MiB for each GiB where pages are small, and
 * address space.
 *
 * A file with holes is not mapped: an access to a hole would allocate a page, on this process's
 * account, or with large pages raise SIGBUS. Its READs use preadv(2): file.c. Its block count says
 * whether it is full, and the seal against writing prevents holes later. (A server can give a file
 * blocks beyond its end, before it seals its length, to hide holes: then the server pays for as
 * many pages as the client may. The large pages of a file are all mapped at once.)
 */
#include "common/rdma/softnic/peer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/link.h"
#include "common/util/heap.h"
#include "common/util/large_page.h"

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

static struct sn_map *do_map_find(struct sn_context *ctx, int fd, const struct stat *st,
				  uint64_t start, size_t length)
{
	struct sn_map *map;

	TAILQ_FOREACH(map, &ctx->maps, in_context)
		if (map->ino == st->st_ino && map->start == start && map->length == length &&
		    link_file_same(map->fd, fd))
			return map;
	return NULL;
}

static int map_memory(struct sn_map *map, int fd, const struct stat *st)
{
	bool large = (size_t)st->st_blksize >= LARGE_PAGE_BYTES;
	int err;

	/* Large pages make a READ cheaper, and save 2 MiB of page tables for each GiB. */
	if (map->length >= LARGE_PAGE_BYTES && !large)
		map->base = large_page_map(map->length, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
					   map->start);
	else
		map->base = mmap(NULL, map->length, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
				 (off_t)map->start);
	if (map->base == MAP_FAILED)
		return -errno;
	/* No core dump should contain the peer's memory, such as values of other users. */
	if (!madvise(map->base, map->length, MADV_DONTDUMP) &&
	    (!large || !madvise(map->base, map->length, MADV_POPULATE_READ)))
		return 0;
	err = errno;
	munmap(map->base, map->length);
	return -err;
}

static int do_map_make(struct sn_context *ctx, int fd, const struct stat *st, uint64_t start,
		       size_t length, struct sn_map **out)
{
	struct sn_map *map = heap_calloc(1, sizeof(*map));
	int ret;

	if (!map)
		return -ENOMEM;
	map->ino = st->st_ino;
	map->start = start;
	map->length = length;
	map->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ret = map->fd >= 0 ? map_memory(map, fd, st) : -errno;
	if (ret) {
		if (map->fd >= 0)
			close(map->fd);
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
	*out = do_map_find(ctx, fd, st, start, length);
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
	close(map->fd);
	heap_free(map);
}
