/* SPDX-License-Identifier: MIT */
/*
 * Files from which we READ with preadv(2), in one copy and without the peer's help: the memory that
 * a client registered and passed to us, and a server's that has holes (map.c).
 *
 * Why not a mapping, as clients use for a full region: preadv() needs no page tables and no address
 * space, and can't raise SIGBUS; a hole reads as zeros and stays one, where a mapping would
 * allocate a page for it, on our account, or fail to. It costs little: 1 MiB that is in no cache
 * takes 1.1 x as long as with memcpy() if the file has large pages, as from alloc_mem(), and 1.9 x
 * with small ones, which the kernel copies one by one.
 *
 * Only memfds get here. A file of a FUSE file system could make a read wait for its owner forever,
 * a file on a disk for the disk; F_GET_SEALS fails for these, and for pipes and devices. Files of a
 * mounted tmpfs or hugetlbfs can't be sealed. So a client can do no more to a read than to its own
 * memory: have it swapped out.
 *
 * Descriptors are bounded, and shared: all connections that pass the same open file use one of
 * ours. A connection that gets none is served as if the memory had no file.
 */
#include "common/rdma/softnic/peer_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/util/heap.h"
#include "common/util/log.h"
#include "common/util/unix_socket.h"

#define FILE_SHARE 4 /* one in this many of the process's descriptors may be a peer's file */

struct sn_file {
	LIST_ENTRY(sn_file) in_context;
	ino_t ino;	/* as a hint: another number is another file */
	uint64_t bytes; /* sealed: never changes */
	uint32_t users; /* grants; under file_lock */
	int fd;
};

static bool do_uid_barred(const struct sn_context *ctx, uid_t uid)
{
	uint32_t i;

	for (i = 0; i < SN_BARRED_MAX && i < ctx->barred_count; i++)
		if (ctx->barred[i] == uid)
			return true;
	return false;
}

bool sn_file_allowed(struct sn_context *ctx, int sock)
{
	struct ucred peer;
	bool barred;

	if (unix_socket_peer(sock, &peer))
		return false;
	pthread_mutex_lock(&ctx->file_lock);
	barred = do_uid_barred(ctx, peer.uid);
	pthread_mutex_unlock(&ctx->file_lock);
	return !barred;
}

void sn_file_bar(struct sn_context *ctx, int sock)
{
	struct ucred peer;
	bool is_new;

	if (unix_socket_peer(sock, &peer))
		return;
	pthread_mutex_lock(&ctx->file_lock);
	is_new = !do_uid_barred(ctx, peer.uid);
	if (is_new)
		ctx->barred[ctx->barred_count++ % SN_BARRED_MAX] = peer.uid;
	pthread_mutex_unlock(&ctx->file_lock);
	if (is_new)
		log_ratelimited(LOG_WARN, 1,
				"softnic: a process of user %u passed a file that is not memory, "
				"unlike any kvd client; no file of this user is taken until %u "
				"other users have done so, or the server is restarted",
				(unsigned int)peer.uid, SN_BARRED_MAX);
}

/* Whether @fd is memory whose length can't change, and which we may read: 0, or why not. */
static int file_check(int fd, struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);

	if (seals < 0)
		return -EBADF;
	if (!link_file_fixed(seals) || flags < 0 || (flags & O_ACCMODE) == O_WRONLY ||
	    fstat(fd, st) || !S_ISREG(st->st_mode) || st->st_size <= 0)
		return -EPERM;
	return 0;
}

/* Half of the places are for connections without a file: one client can't take them all. */
static bool do_files_room(const struct sn_context *ctx, bool is_first)
{
	struct rlimit limit;
	uint64_t max = SN_FILES_MAX;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / FILE_SHARE < max)
		max = limit.rlim_cur / FILE_SHARE;
	return ctx->file_count < (is_first ? max : max / 2);
}

static struct sn_file *do_file_find(struct sn_context *ctx, int fd, const struct stat *st)
{
	struct sn_file *file;

	LIST_FOREACH(file, &ctx->files, in_context)
		if (file->ino == st->st_ino && link_file_same(file->fd, fd))
			return file;
	return NULL;
}

static int do_file_add(struct sn_context *ctx, int fd, const struct stat *st, struct sn_file **out)
{
	struct sn_file *file = heap_calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	*file = (struct sn_file){
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

	if (!ret)
		ret = file_check(fd, &st);
	if (ret)
		return ret;
	pthread_mutex_lock(&ctx->file_lock);
	*out = do_file_find(ctx, fd, &st);
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
	link_drop_file(file->fd, ctx->role == DEVICE_LISTEN);
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
	/* The file's length is sealed, so this is not its end. */
	return got ? got : -EIO;
}
