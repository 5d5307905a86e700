/* SPDX-License-Identifier: MIT */
/*
 * Gets rid of descriptors that a peer passed, and of sockets on which it may have passed some.
 *
 * A thread that drops the last reference to a file waits for work that depends on its kind: closing
 * a TCP socket with SO_LINGER waits for its peer, closing a file of a FUSE file system waits for
 * the file system's process, and closing a memfd frees its pages, a second's work for 16 GiB. With
 * SCM_RIGHTS a peer chooses the file. So no thread that serves closes a file that it did not open,
 * if closing may take long: a separate thread closes it, and may hang. (Such a thread ends with the
 * process: the kernel does not linger for a process that exits.)
 *
 * The kernel itself drops what it can't deliver, in the thread that receives or closes:
 *  - descriptors that find no room in the control buffer: ours has room for as many as a packet
 *    can carry;
 *  - what is in a socket's queue when it is closed: link_drop_socket() takes it out;
 *  - what comes when this process may have no more descriptors. Since Linux 6.16 a socket can
 *    refuse descriptors (SO_PASSRIGHTS): clients may pass them only once they are accepted, and a
 *    user that passed a file no kvd client passes may not at all (sn_file_bar()). An older kernel
 *    leaves this gap, for a local user who gets the server to the limit of its descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rdma/softnic/link.h"
#include "common/util/log.h"

#define FREE_BYTES_MAX (8u << 20) /* memory that the dropping thread may free itself: 0.3 ms */
#define DROPS_MAX 1024		  /* threads that close at a time: link_take() may bring as many */
#define DROP_STACK_BYTES (64u << 10)
#define DROP_PACKETS_MAX 64 /* packets taken out of a socket's queue */

static _Atomic unsigned int drops; /* threads that are closing something */

static void *drop_run(void *arg)
{
	close((int)(intptr_t)arg);
	atomic_fetch_sub(&drops, 1);
	return NULL;
}

/* Closes @fd in a new thread, on any CPU; false if the thread can't be created. */
static bool close_elsewhere(int fd)
{
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t all;
	int err = EAGAIN;

	if (atomic_fetch_add(&drops, 1) < DROPS_MAX) {
		memset(&all, 0xff, sizeof(all));
		err = pthread_attr_init(&attr);
		if (!err) {
			pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
			pthread_attr_setstacksize(&attr, DROP_STACK_BYTES);
			pthread_attr_setaffinity_np(&attr, sizeof(all), &all);
			err = pthread_create(&thread, &attr, drop_run, (void *)(intptr_t)fd);
			pthread_attr_destroy(&attr);
		}
	}
	if (err)
		atomic_fetch_sub(&drops, 1);
	return !err;
}

/* If no thread can be created, @fd stays open: one descriptor is lost, but no thread waits. */
static void close_slow(int fd)
{
	if (!close_elsewhere(fd))
		log_ratelimited(LOG_WARN, 1,
				"softnic: a file that a peer passed stays open: there is no thread "
				"that can close it (%u are closing others)",
				atomic_load(&drops));
}

void link_drop_file(int fd, bool serves)
{
	struct stat st;

	if (!link_file_is_memory(fd))
		close_slow(fd);
	else if (!serves || fstat(fd, &st) || link_file_bytes(&st) <= FREE_BYTES_MAX ||
		 !close_elsewhere(fd))
		close(fd);
}

/*
 * Whether a packet is in the queue of a socket that is shut down. The kernel adds the sender's
 * credentials to each packet (SO_PASSCRED), so a packet of no bytes differs from the end. Looking
 * drops nothing: descriptors, for which there is no room here, stay in the queue.
 */
static bool socket_has_packet(int sock)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct msghdr msg = { .msg_control = &control, .msg_controllen = sizeof(control) };

	return recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT) < 0 || msg.msg_controllen;
}

/* Takes packets that came and are not wanted any more; false if there may be more. */
static bool socket_empty(int sock, bool serves)
{
	static const int on = 1;
	struct link_message message;
	unsigned int i;
	int fd;

	if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return false;
	for (i = 0; i < DROP_PACKETS_MAX && socket_has_packet(sock); i++) {
		link_receive(sock, &message, &fd);
		if (fd >= 0)
			link_drop_file(fd, serves);
	}
	return i < DROP_PACKETS_MAX;
}

void link_drop_socket(int sock, bool serves)
{
	/* From now on nothing is added to its queue. */
	shutdown(sock, SHUT_RDWR);
	if (socket_empty(sock, serves))
		close(sock);
	else
		close_slow(sock);
}
