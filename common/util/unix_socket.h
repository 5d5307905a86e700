/* SPDX-License-Identifier: MIT */
/*
 * A server's Unix socket and its file. A file that a server left when it died is replaced, one on
 * which a process listens is not, and ours is removed at the end, unless another process has
 * replaced it.
 *
 * Paths are absolute and shorter than sun_path. Functions return 0 or a negative errno, not logged.
 */
#ifndef KVD_COMMON_UTIL_UNIX_SOCKET_H
#define KVD_COMMON_UTIL_UNIX_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Which file it is, so that no other one is removed. */
struct unix_socket_file {
	dev_t dev;
	ino_t ino;
};

/* What unix_socket_bind() makes. */
struct unix_socket_address {
	const char *path;
	int type;		/* SOCK_STREAM, SOCK_SEQPACKET */
	unsigned int mode;	/* permissions; clients need write permission to connect */
	const char *name;	/* of what listens there, for the log: "softnic" */
	void (*drop)(int sock); /* closes a connection to another server; NULL: as close(2) */
};

/*
 * Makes the socket, which does not block and takes no files of clients. The socket listens from
 * then on, so that a second server sees that the address is in use; only one connection can wait
 * until the caller calls listen(2), so that clients that gave up meanwhile do not delay others.
 * -EADDRINUSE: a process may listen there; -ENOTSOCK: another kind of file is there.
 */
int unix_socket_bind(const struct unix_socket_address *address, int *fd,
		     struct unix_socket_file *file);

/* Removes the file at @path if it is @file. */
void unix_socket_unlink(const char *path, const struct unix_socket_file *file);

/*
 * Checks, without changing anything, that unix_socket_bind() would find the path free. The folder
 * is not checked. Unlike a connection, this finds no process of another network namespace.
 */
int unix_socket_check(const char *path);

/* Connects a socket that does not block. -EAGAIN: the listener's queue is full; try again. */
int unix_socket_connect(const char *path, int type, int *fd);

/* The process at the other end when the socket was connected. */
int unix_socket_peer(int sock, struct ucred *cred);

/* Whether files may come over this socket (Linux 6.16); what a listener accepts inherits it. */
void unix_socket_let_files(int sock, bool let);

#endif /* KVD_COMMON_UTIL_UNIX_SOCKET_H */
