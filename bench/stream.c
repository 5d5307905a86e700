/* SPDX-License-Identifier: MIT */
/*
 * Sockets to servers that speak a text protocol: see stream.h.
 */
#include "bench/stream.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static enum kvd_status lose(struct stream *stream, enum kvd_status status, const char *what)
{
	snprintf(stream->error, sizeof(stream->error), "%s", what);
	stream->lost = true;
	return status;
}

enum kvd_status stream_refuse(struct stream *stream, const char *what)
{
	return lose(stream, KVD_ERR_PROTOCOL, what);
}

/* Handles errno of a call on the socket. */
static enum kvd_status lose_errno(struct stream *stream)
{
	if (errno == EAGAIN || errno == EINPROGRESS)
		return lose(stream, KVD_ERR_TIMEOUT, "no response in time");
	return lose(stream, KVD_ERR_DISCONNECTED, strerror(errno));
}

/* Returns a connected socket, or -errno. */
static int socket_connect(int family, const void *address, socklen_t len, uint32_t timeout_ms)
{
	const struct timeval timeout = { .tv_sec = timeout_ms / 1000,
					 .tv_usec = timeout_ms % 1000 * 1000 };
	const int yes = 1;
	int fd, error;

	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) &&
	    !connect(fd, address, len) &&
	    (family == AF_UNIX || !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes))))
		return fd;
	error = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	close(fd);
	return error;
}

static int unix_connect(const char *path, size_t len, uint32_t timeout_ms)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (len >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, len);
	return socket_connect(AF_UNIX, &address, sizeof(address), timeout_ms);
}

static int tcp_connect(const char *host, const char *port, uint32_t timeout_ms)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list, *one;
	int fd = -EHOSTUNREACH;

	if (getaddrinfo(host, port, &hints, &list))
		return -EHOSTUNREACH;
	for (one = list; one && fd < 0; one = one->ai_next)
		fd = socket_connect(one->ai_family, one->ai_addr, one->ai_addrlen, timeout_ms);
	freeaddrinfo(list);
	return fd;
}

/* Splits "HOST:PORT" or "[IPv6]:PORT" in place. Returns the port; NULL for another form. */
static const char *split(char **host)
{
	char *colon = strrchr(*host, ':'), *last;

	if (!colon || colon == *host || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
		return NULL;
	*colon = '\0';
	last = colon - 1;
	if (**host == '[' && *last == ']') {
		*last = '\0';
		(*host)++;
	}
	return colon + 1;
}

enum kvd_status stream_open(struct stream *stream, const char *address, uint32_t timeout_ms)
{
	const size_t len = strcspn(address, "?");
	char text[256], *host = text;
	const char *port;

	memset(stream, 0, sizeof(*stream));
	if (*address == '/') {
		stream->fd = unix_connect(address, len, timeout_ms);
	} else {
		snprintf(text, sizeof(text), "%.*s", (int)len, address);
		port = split(&host);
		if (!port)
			return lose(stream, KVD_ERR_INVALID, "give HOST:PORT or /PATH after ://");
		stream->fd = tcp_connect(host, port, timeout_ms);
	}
	if (stream->fd < 0)
		return lose(stream, KVD_ERR_UNREACHABLE, strerror(-stream->fd));
	return KVD_OK;
}

void stream_close(struct stream *stream)
{
	close(stream->fd);
}

enum kvd_status stream_send(struct stream *stream, struct iovec *parts, size_t count)
{
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };
	ssize_t sent;

	if (stream->lost)
		return KVD_ERR_DISCONNECTED;
	while (message.msg_iovlen) {
		sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
		if (sent < 0)
			return lose_errno(stream);
		while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
			sent -= (ssize_t)message.msg_iov->iov_len;
			message.msg_iov++;
			message.msg_iovlen--;
		}
		if (message.msg_iovlen) {
			message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
			message.msg_iov->iov_len -= (size_t)sent;
		}
	}
	return KVD_OK;
}

static enum kvd_status receive(struct stream *stream, void *bytes, size_t size, size_t *received)
{
	ssize_t got;

	*received = 0;
	if (stream->lost)
		return KVD_ERR_DISCONNECTED;
	got = recv(stream->fd, bytes, size, 0);
	if (got < 0)
		return lose_errno(stream);
	if (!got)
		return lose(stream, KVD_ERR_DISCONNECTED, "the server closed the connection");
	*received = (size_t)got;
	return KVD_OK;
}

enum kvd_status stream_take_line(struct stream *stream, char **line)
{
	enum kvd_status status;
	size_t received;
	char *end;

	while (!(end = memmem(stream->buffer + stream->begin, stream->end - stream->begin, "\r\n",
			      2))) {
		memmove(stream->buffer, stream->buffer + stream->begin,
			stream->end - stream->begin);
		stream->end -= stream->begin;
		stream->begin = 0;
		if (stream->end == sizeof(stream->buffer))
			return stream_refuse(stream, "a line without an end");
		status = receive(stream, stream->buffer + stream->end,
				 sizeof(stream->buffer) - stream->end, &received);
		if (status)
			return status;
		stream->end += received;
	}
	*end = '\0';
	*line = stream->buffer + stream->begin;
	stream->begin = (size_t)(end + 2 - stream->buffer);
	return KVD_OK;
}

enum kvd_status stream_take_bytes(struct stream *stream, void *bytes, size_t len)
{
	const size_t there = stream->end - stream->begin;
	size_t have = there < len ? there : len, received;
	enum kvd_status status;

	memcpy(bytes, stream->buffer + stream->begin, have);
	stream->begin += have;
	for (; have < len; have += received) {
		status = receive(stream, (char *)bytes + have, len - have, &received);
		if (status)
			return status;
	}
	return KVD_OK;
}

enum kvd_status stream_take_end(struct stream *stream)
{
	enum kvd_status status;
	char end[2];

	status = stream_take_bytes(stream, end, sizeof(end));
	if (!status && memcmp(end, "\r\n", 2))
		return stream_refuse(stream, "a value without \\r\\n after it");
	return status;
}
