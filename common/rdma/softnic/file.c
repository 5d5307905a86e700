/* SPDX-License-Identifier: MIT */
/*
 * Files of clients: the memory that a client registered and passed to us, from which we READ with
 * preadv(2), in one copy and without the client's help.
 *
 * Why not a mapping, as clients have one of our region. preadv() needs no page tables and no place
 * in our address space, and can't end in a SIGBUS; a hole reads as zeros and stays one, where a
 * mapping would allocate a page for it, on our account, or fail to. It costs little: 1 MiB that is
 * in no cache takes 1.1 x as long as with memcpy() if the file has large pages, as alloc_mem() has
 * them, and 1.9 x with small ones, which the kernel copies one by one (bench/rdma/read-bench.c).
 *
 * Only memfds get here. A file of a FUSE file system could make a read wait for its owner for ever,
 * one on a disk for the disk; F_GET_SEALS fails for these, and for pipes and devices. Files of a
 * tmpfs or hugetlbfs that is mounted can't be sealed. So what a client can do to a read is what it
 * can do to its own memory: have it swapped out.
 *
 * Descriptors are bounded, and shared: all connections that pass the same file use one of ours. A
 * connection that can't have one is served as if the memory had no file.
 */
#include "common/rdma/softnic/softnic.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/util/heap.h"
#include "common/util/log.h"

#define FILE_SHARE 4 /* of the descriptors that this process may have, one of so many */
#define FREE_BYTES_MAX (8u << 20) /* whose pages the closing thread may free itself: 0.3 ms */
#define STAT_BLOCK_BYTES 512u	  /* stat(2) */
#define CLOSER_STACK_BYTES (64u << 10)

struct sn_file {
	LIST_ENTRY(sn_file) in_context;
	dev_t dev;
	ino_t ino;
	uint64_t bytes; /* sealed: never changes */
	uint32_t users; /* grants; under file_lock */
	int fd;
};

static void *closer_run(void *arg)
{
	close((int)(intptr_t)arg);
	return NULL;
}

/* Closes @fd in a thread of its own, on whatever CPU is free; false if there can't be one. */
static bool close_elsewhere(int fd)
{
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t all;
	int err;

	if (pthread_attr_init(&attr))
		return false;
	memset(&all, 0xff, sizeof(all));
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, CLOSER_STACK_BYTES);
	pthread_attr_setaffinity_np(&attr, sizeof(all), &all);
	err = pthread_create(&thread, &attr, closer_run, (void *)(intptr_t)fd);
	pthread_attr_destroy(&attr);
	return !err;
}

/*
 * Whoever closes a memfd last frees its pages, a second's work for 16 GiB. A client that exits
 * leaves that to us: no worker may do it.
 */
void sn_file_close(int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && (uint64_t)st.st_blocks * STAT_BLOCK_BYTES > FREE_BYTES_MAX &&
	    close_elsewhere(fd))
		return;
	close(fd);
}

/* Whether @fd is a memfd whose length can't change, which we may read. */
static bool file_is_safe(int fd, struct stat *st)
{
	int flags = fcntl(fd, F_GETFL);

	return link_file_fixed(fcntl(fd, F_GET_SEALS)) && flags >= 0 &&
	       (flags & O_ACCMODE) != O_WRONLY && !fstat(fd, st) && S_ISREG(st->st_mode) &&
	       st->st_size > 0;
}

/* Half of the places are for those who have none: one client can't take them all. */
static bool do_files_room(const struct sn_context *ctx, bool is_first)
{
	struct rlimit limit;
	uint64_t max = SN_FILES_MAX;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / FILE_SHARE < max)
		max = limit.rlim_cur / FILE_SHARE;
	return ctx->file_count < (is_first ? max : max / 2);
}

static struct sn_file *do_file_find(struct sn_context *ctx, const struct stat *st)
{
	struct sn_file *file;

	LIST_FOREACH(file, &ctx->files, in_context)
		if (file->ino == st->st_ino && file->dev == st->st_dev)
			return file;
	return NULL;
}

static int do_file_add(struct sn_context *ctx, int fd, const struct stat *st, struct sn_file **out)
{
	struct sn_file *file = heap_calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	*file = (struct sn_file){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.bytes = (uint64_t)st->st_size,
		.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
	};
	if (file->fd < 0) {
		int err = errno;

		heap_free(file);
		return -err;
	}
	LIST_INSERT_HEAD(&ctx->files, file, in_context);
	ctx->file_count++;
	*out = file;
	return 0;
}

int sn_file_get(struct sn_context *ctx, int fd, bool is_first, struct sn_file **out)
{
	struct stat st;
	int ret = fault_check(FAULT_take_file, ctx);

	if (ret)
		return ret;
	if (!file_is_safe(fd, &st))
		return -EPERM;
	pthread_mutex_lock(&ctx->file_lock);
	*out = do_file_find(ctx, &st);
	if (!*out)
		ret = do_files_room(ctx, is_first) ? do_file_add(ctx, fd, &st, out) : -EMFILE;
	if (!ret)
		(*out)->users++;
	pthread_mutex_unlock(&ctx->file_lock);
	return ret;
}

void sn_file_put(struct sn_context *ctx, struct sn_file *file)
{
	bool last;

	pthread_mutex_lock(&ctx->file_lock);
	last = !--file->users;
	if (last) {
		LIST_REMOVE(file, in_context);
		ctx->file_count--;
	}
	pthread_mutex_unlock(&ctx->file_lock);
	if (!last)
		return;
	sn_file_close(file->fd);
	heap_free(file);
}

uint64_t sn_file_bytes(const struct sn_file *file)
{
	return file->bytes;
}

int64_t sn_file_read(struct sn_context *ctx, const struct sn_file *file, uint64_t offset,
		     const struct iovec *to, unsigned int count)
{
	ssize_t got;
	int ret = fault_check(FAULT_read_file, ctx);

	if (ret)
		return ret;
	got = preadv(file->fd, to, (int)count, (off_t)offset);
	if (got < 0)
		return -errno;
	/* It has the length that it had, so the end is none. */
	return got ? got : -EIO;
}
