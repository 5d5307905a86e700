/* SPDX-License-Identifier: MIT */
/* Sends descriptors over a Unix socket: as many with a packet as it can carry, or fewer. */
#ifndef KVD_TESTS_SUPPORT_SEND_FILES_H
#define KVD_TESTS_SUPPORT_SEND_FILES_H

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "common/rdma/softnic/link.h"

/* @count times @fd, at most LINK_FDS_MAX. As sendmsg(2): the bytes sent, or -1 with errno. */
static inline ssize_t send_files(int sock, const void *bytes, size_t length, int fd,
				 unsigned int count)
{
	struct iovec iov = { (void *)(uintptr_t)bytes, length };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(LINK_FDS_MAX * sizeof(int))];
	} control = { .bytes = { 0 } };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	for (unsigned int i = 0; i < count; i++)
		memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &fd, sizeof(int));
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

#endif /* KVD_TESTS_SUPPORT_SEND_FILES_H */
