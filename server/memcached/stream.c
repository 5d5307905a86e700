/* SPDX-License-Identifier: MIT */
#include "server/memcached/stream.h"

#include <errno.h>
#include <sys/socket.h>

#include "common/tls/tls.h"
#include "common/util/stat.h"

/* A negative errno, or how many bytes; 0: nothing more comes. */
static ssize_t receive(struct session *session, void *bytes, size_t len)
{
	ssize_t n;

	if (session->tls)
		return tls_recv(session->tls, bytes, len);
	do
		n = recv(session->fd, bytes, len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

size_t session_receive(struct session *session, void *bytes, size_t len)
{
	ssize_t n = receive(session, bytes, len);

	session->unread = n > 0 && session->tls && tls_pending(session->tls);
	if (n == -EAGAIN)
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

/* In records of 16 KiB. */
static ssize_t send_by_tls(struct session *session, const uint8_t *bytes, size_t len)
{
	size_t most = len < SESSION_TLS_BYTES ? len : SESSION_TLS_BYTES, sent = 0;
	ssize_t n;

	do {
		n = tls_send(session->tls, bytes + sent, most - sent);
		if (n > 0)
			sent += (size_t)n;
	} while (n > 0 && sent < most);
	return sent ? (ssize_t)sent : n;
}

static ssize_t send_some(struct session *session, const void *bytes, size_t len)
{
	ssize_t n;

	if (session->tls)
		return send_by_tls(session, bytes, len);
	do
		n = send(session->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

size_t session_send(struct session *session, const void *bytes, size_t len)
{
	ssize_t n = send_some(session, bytes, len);

	if (n < 0) {
		if (n != -EAGAIN)
			session->shut = session->broken = true;
		return 0;
	}
	stat_add(&session_counters(session)->bytes_written, (uint64_t)n);
	stat_add(&session->client.sent_bytes, (uint64_t)n);
	return (size_t)n;
}

void session_finish(struct session *session)
{
	if (session->tls && !session->broken)
		tls_finish(session->tls);
}
