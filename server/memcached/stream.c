/* SPDX-License-Identifier: MIT */
#include "server/memcached/stream.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/util/stat.h"

size_t session_receive(struct session *session, void *bytes, size_t len)
{
	ssize_t n;

	do
		n = recv(session->fd, bytes, len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	if (n <= 0) {
		session->shut = true;
		session->broken = n < 0;
		return 0;
	}
	stat_add(&session_counters(session)->bytes_read, (uint64_t)n);
	stat_add(&session->client.received_bytes, (uint64_t)n);
	return (size_t)n;
}

size_t session_send(struct session *session, const void *bytes, size_t len)
{
	ssize_t n;

	do
		n = send(session->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			session->shut = session->broken = true;
		return 0;
	}
	stat_add(&session_counters(session)->bytes_written, (uint64_t)n);
	stat_add(&session->client.sent_bytes, (uint64_t)n);
	return (size_t)n;
}
