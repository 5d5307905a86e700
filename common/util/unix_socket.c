/* SPDX-License-Identifier: MIT */
#include "common/util/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/log.h"

#ifndef SO_PASSRIGHTS /* Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

#define LOCK_TRIES 100 /* of 10 ms, while another server starts in the same directory */

/* A flag of sockets in /proc/net/unix: __SO_ACCEPTCON of the kernel. */
#define LISTENING 0x10000

#define PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

static int name_set(struct sockaddr_un *name, const char *path)
{
	size_t len = strlen(path);

	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (len >= sizeof(name->sun_path))
		return -ENAMETOOLONG;
	memcpy(name->sun_path, path, len);
	return 0;
}

static int socket_make(int type, int *fd)
{
	*fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return *fd < 0 ? -errno : 0;
}

int unix_socket_connect(const char *path, int type, int *fd)
{
	struct sockaddr_un name;
	int sock, ret = name_set(&name, path);

	if (!ret)
		ret = socket_make(type, &sock);
	if (ret)
		return ret;
	if (connect(sock, (struct sockaddr *)&name, sizeof(name))) {
		ret = -errno;
		close(sock);
		return ret;
	}
	*fd = sock;
	return 0;
}

/* Removes the file if it is a socket on which no process listens. */
static int address_clear(const struct unix_socket_address *address)
{
	struct stat st;
	int sock, ret;

	if (lstat(address->path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	ret = unix_socket_connect(address->path, address->type, &sock);
	if (!ret && address->drop)
		address->drop(sock);
	else if (!ret)
		close(sock);
	/* Another user's socket may refuse us: a process may listen there. */
	if (ret != -ECONNREFUSED && ret != -ENOENT)
		return -EADDRINUSE;
	log_notice("%s: replacing %s, which a dead server left", address->name, address->path);
	return unlink(address->path) && errno != ENOENT ? -errno : 0;
}

static int address_listen(const struct unix_socket_address *address, int sock,
			  struct unix_socket_file *file)
{
	struct sockaddr_un name;
	struct stat st;
	int ret = name_set(&name, address->path);

	if (ret)
		return ret;
	if (bind(sock, (struct sockaddr *)&name, sizeof(name)))
		return -errno;
	/* No client can connect before this listens, so the file's first mode does not matter. */
	if (chmod(address->path, address->mode) || lstat(address->path, &st) || listen(sock, 0)) {
		ret = -errno;
		unlink(address->path);
		return ret;
	}
	*file = (struct unix_socket_file){ .dev = st.st_dev, .ino = st.st_ino };
	return 0;
}

/* Two servers that start at once must not both replace the same stale socket. */
static int folder_lock(const char *socket)
{
	char path[PATH_BYTES];
	unsigned int tries;
	int fd;

	snprintf(path, sizeof(path), "%s", socket);
	fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (tries = 0; fd >= 0 && tries < LOCK_TRIES; tries++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			break;
		usleep(10000);
	}
	return fd; /* start even without the lock */
}

int unix_socket_bind(const struct unix_socket_address *address, int *fd,
		     struct unix_socket_file *file)
{
	int folder = folder_lock(address->path);
	int sock, ret = address_clear(address);

	if (!ret)
		ret = socket_make(address->type, &sock);
	if (ret)
		goto unlock;
	unix_socket_let_files(sock, false);
	ret = address_listen(address, sock, file);
	if (ret)
		close(sock);
	else
		*fd = sock;
unlock:
	if (folder >= 0)
		close(folder);
	return ret;
}

void unix_socket_unlink(const char *path, const struct unix_socket_file *file)
{
	struct stat st;

	if (!lstat(path, &st) && st.st_dev == file->dev && st.st_ino == file->ino)
		unlink(path);
}

/* Whether a process listens at @path: in this network namespace, whose sockets Linux lists. */
static bool is_listening(const char *path)
{
	FILE *in = fopen("/proc/net/unix", "re");
	char line[256], at[PATH_BYTES];
	unsigned int flags;
	bool found = false;

	_Static_assert(PATH_BYTES == 108, "the width in the format");
	while (in && !found && fgets(line, sizeof(line), in))
		found = sscanf(line, "%*s %*s %*s %x %*s %*s %*s %107[^\n]", &flags, at) == 2 &&
			(flags & LISTENING) && !strcmp(at, path);
	if (in)
		fclose(in);
	return found;
}

int unix_socket_check(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	return is_listening(path) ? -EADDRINUSE : 0;
}

int unix_socket_peer(int sock, struct ucred *cred)
{
	socklen_t length = sizeof(*cred);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, cred, &length) ? -errno : 0;
}

void unix_socket_let_files(int sock, bool let)
{
	int value = let;

	setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof(value));
}
