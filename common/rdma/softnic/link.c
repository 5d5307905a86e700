/* SPDX-License-Identifier: MIT */
/* The shared memory and the socket of a connection: link.h says what may be trusted. */
#include "common/rdma/softnic/link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/log.h"

#ifndef F_DUPFD_QUERY /* Linux 6.10 */
#define F_DUPFD_QUERY 1027
#endif

#define STAT_BLOCK_BYTES 512u /* stat(2) */

static int link_map_fd(struct link_shared **shared, int fd)
{
	void *addr = mmap(NULL, LINK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (addr == MAP_FAILED) {
		int err = errno;

		log_ratelimited(LOG_ERROR, 1,
				"softnic: can't map the memory of a connection (%zu bytes): %m",
				LINK_BYTES);
		return -err;
	}
	*shared = addr;
	return 0;
}

int link_create(struct link_shared **shared, int *fd)
{
	int ret;

	*fd = memfd_create("softnic", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0) {
		ret = -errno;
		log_ratelimited(
			LOG_ERROR, 1, "softnic: can't create the memory of a connection: %m%s",
			ret == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
		return ret;
	}
	if (ftruncate(*fd, LINK_BYTES) || fcntl(*fd, F_ADD_SEALS, LINK_SEALS_FIXED)) {
		ret = -errno;
		log_ratelimited(LOG_ERROR, 1,
				"softnic: can't size and seal the memory of a connection: %m");
		goto close_fd;
	}
	ret = link_map_fd(shared, *fd);
	if (ret)
		goto close_fd;
	return 0;

close_fd:
	close(*fd);
	*fd = -1;
	return ret;
}

int link_map(struct link_shared **shared, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (!link_file_fixed(seals) || fstat(fd, &st) || st.st_size != (off_t)LINK_BYTES) {
		log_ratelimited(
			LOG_ERROR, 1,
			"softnic: refused the server's connection memory, whose size or seals "
			"(%#x) are wrong: use the same version of kvd on both sides",
			(unsigned int)seals);
		return -EPROTO;
	}
	return link_map_fd(shared, fd);
}

void link_unmap(struct link_shared *shared)
{
	if (shared)
		munmap(shared, LINK_BYTES);
}

bool link_file_is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

bool link_file_same(int a, int b)
{
	int same = fcntl(a, F_DUPFD_QUERY, b);

	if (same < 0)
		same = !syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b);
	return same;
}

bool link_file_fixed(int seals)
{
	return seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW);
}

bool link_file_safe(int seals)
{
	return link_file_fixed(seals) && (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE));
}

bool link_file_owned(int fd, const struct stat *st, uid_t uid)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && S_ISREG(st->st_mode) &&
	       (st->st_uid == uid || !st->st_uid) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

uint64_t link_file_bytes(const struct stat *st)
{
	return (uint64_t)st->st_blocks * STAT_BLOCK_BYTES;
}

bool link_file_full(const struct stat *st)
{
	return link_file_bytes(st) >= (uint64_t)st->st_size;
}

int link_send(int sock, const struct link_message *message, int fd)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	if (sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/*
 * Room for all descriptors that a packet can carry: the kernel would drop further ones itself. The
 * sender's credentials come first, if the socket asked for them (drop.c).
 */
union link_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(LINK_FDS_MAX * sizeof(int))];
};

/*
 * The one file that comes with a message, if @wants one; all others are dropped, and *@stray says
 * that there were some.
 */
static int link_take_fd(struct msghdr *msg, bool wants, bool *stray)
{
	struct cmsghdr *c;
	int kept = -1;

	*stray = msg->msg_flags & MSG_CTRUNC;
	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count, i;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (wants && kept < 0) {
				kept = fd;
				continue;
			}
			*stray = true;
			link_drop_file(fd, true);
		}
	}
	return kept;
}

int link_receive(int sock, struct link_message *message, int *fd)
{
	struct iovec iov = { .iov_base = message, .iov_len = sizeof(*message) };
	union link_control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	bool stray;
	ssize_t got;
	int kept;

	if (fd)
		*fd = -1;
	memset(message, 0, sizeof(*message));
	got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	kept = link_take_fd(&msg, fd, &stray);
	if (fd)
		*fd = kept;
	return !stray ? (int)got : -EPROTO;
}

int link_take(int sock, struct link_packet packets[LINK_PACKETS_TAKEN])
{
	struct mmsghdr messages[LINK_PACKETS_TAKEN] = { 0 };
	struct iovec iovs[LINK_PACKETS_TAKEN];
	union link_control control[LINK_PACKETS_TAKEN];
	int got, i;

	for (i = 0; i < LINK_PACKETS_TAKEN; i++) {
		iovs[i] = (struct iovec){ &packets[i].message, sizeof(packets[i].message) };
		messages[i].msg_hdr.msg_iov = &iovs[i];
		messages[i].msg_hdr.msg_iovlen = 1;
		control[i].header = (struct cmsghdr){ 0 };
		messages[i].msg_hdr.msg_control = control[i].bytes;
		messages[i].msg_hdr.msg_controllen = sizeof(control[i].bytes);
	}
	/* MSG_TRUNC: the true length of a packet that is too long. */
	got = recvmmsg(sock, messages, LINK_PACKETS_TAKEN,
		       MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC, NULL);
	for (i = 0; i < got; i++) {
		packets[i].length = (int)messages[i].msg_len;
		packets[i].fd = link_take_fd(&messages[i].msg_hdr, true, &packets[i].stray);
	}
	/* No bytes: an empty packet, or the end, which the caller's epoll shows. */
	while (got > 0 && !packets[got - 1].length && packets[got - 1].fd < 0 &&
	       !packets[got - 1].stray && link_hung_up(sock))
		got--;
	return got < 0 ? 0 : got;
}

void link_wake(int sock)
{
	static const char byte = 1;

	/*
	 * EAGAIN: the peer's socket is full of wake-ups already. EPIPE: the peer is gone. After
	 * another error, such as ENOBUFS, the peer would sleep forever: it sees the end of the
	 * connection instead.
	 */
	if (send(sock, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN &&
	    errno != EPIPE)
		shutdown(sock, SHUT_RDWR);
}

int link_queued(int sock)
{
	int bytes = 0;

	return ioctl(sock, SIOCOUTQ, &bytes) ? INT_MAX : bytes;
}

bool link_hung_up(int sock)
{
	struct pollfd pfd = { .fd = sock, .events = POLLRDHUP };

	return poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}
