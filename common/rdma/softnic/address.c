/* SPDX-License-Identifier: MIT */
/*
 * The listening socket's file: binding it for a server, finding it and connecting to it for a
 * client. A file that a server left when it died is replaced, one on which a process listens is
 * not, and ours is removed when the device is closed, unless another process has replaced it.
 *
 * The socket listens from the time the device is opened, so that a second server sees that the
 * address is in use. No connection is accepted before listen(), and only one can wait until then,
 * so that clients that gave up meanwhile do not delay others.
 */
#include "common/rdma/softnic/device_context.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/rdma/softnic/link.h"
#include "common/util/log.h"

#define ADDRESS_LOCK_TRIES 100 /* of 10 ms, while another server starts in the same directory */

int sn_address_connect(const struct device_addr *addr, int *out)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int sock, ret;

	memcpy(un.sun_path, addr->path, sizeof(un.sun_path));
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *)&un, sizeof(un))) {
		ret = -errno;
		close(sock);
		return ret;
	}
	*out = sock;
	return 0;
}

int sn_address_find(const struct device_addr *addr)
{
	struct stat st;

	errno = 0;
	if (!stat(addr->path, &st) && S_ISSOCK(st.st_mode))
		return 0;
	/* No file, or another kind of file: there is no server. */
	return errno == EACCES ? -EACCES : -ECONNREFUSED;
}

/* Removes the file if it is a socket on which no process listens. */
static int address_clear(const struct device_addr *addr)
{
	struct stat st;
	int sock;
	int ret;

	if (lstat(addr->path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	ret = sn_address_connect(addr, &sock);
	if (!ret)
		link_drop_socket(sock, false);
	/* Another user's socket may refuse us: a process may listen there. */
	if (ret != -ECONNREFUSED && ret != -ENOENT)
		return -EADDRINUSE;
	log_notice("softnic: replacing %s, which a dead server left", addr->path);
	return unlink(addr->path) && errno != ENOENT ? -errno : 0;
}

static int address_listen(struct sn_context *ctx, int sock)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct stat st;

	memcpy(un.sun_path, ctx->addr.path, sizeof(un.sun_path));
	if (bind(sock, (struct sockaddr *)&un, sizeof(un)))
		return -errno;
	/* No client can connect before this listens, so the file's first mode does not matter. */
	if (chmod(ctx->addr.path, ctx->addr.mode) || lstat(ctx->addr.path, &st) ||
	    listen(sock, 0)) {
		int err = errno;

		unlink(ctx->addr.path);
		return -err;
	}
	ctx->listen_dev = st.st_dev;
	ctx->listen_ino = st.st_ino;
	return 0;
}

/* Two servers that start at once must not both replace the same stale socket. */
static int address_lock_dir(const struct device_addr *addr)
{
	char path[DEVICE_PATH_MAX];
	unsigned int tries;
	int fd;

	memcpy(path, addr->path, sizeof(path));
	fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (tries = 0; fd >= 0 && tries < ADDRESS_LOCK_TRIES; tries++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			break;
		usleep(10000);
	}
	return fd; /* start even without the lock */
}

int sn_address_bind(struct sn_context *ctx)
{
	int dir = address_lock_dir(&ctx->addr);
	int sock = -1;
	int ret = address_clear(&ctx->addr);

	if (ret)
		goto unlock;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0) {
		ret = -errno;
		goto unlock;
	}
	link_let_files(sock, false);
	ret = address_listen(ctx, sock);
	if (ret)
		close(sock);
	else
		ctx->listen_fd = sock;
unlock:
	if (dir >= 0)
		close(dir);
	return ret;
}

void sn_address_release(struct sn_context *ctx)
{
	struct stat st;

	if (ctx->listen_fd < 0)
		return;
	if (!lstat(ctx->addr.path, &st) && st.st_dev == ctx->listen_dev &&
	    st.st_ino == ctx->listen_ino)
		unlink(ctx->addr.path);
	close(ctx->listen_fd);
	ctx->listen_fd = -1;
}
