/* SPDX-License-Identifier: MIT */
#include "common/rdma/inet.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"

/*
 * A dead host is noticed after 10 s of silence and 3 probes, 5 s apart; or 20 s after something was
 * sent to it.
 */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3
#define USER_TIMEOUT_MS 20000

#define PORT_TEXT_MAX 6

const void *inet_bytes(const struct sockaddr_storage *addr, size_t *len)
{
	if (addr->ss_family == AF_INET) {
		*len = sizeof(struct in_addr);
		return &((const struct sockaddr_in *)addr)->sin_addr;
	}
	*len = sizeof(struct in6_addr);
	return &((const struct sockaddr_in6 *)addr)->sin6_addr;
}

bool inet_is_any(const struct sockaddr_storage *addr)
{
	static const struct in6_addr any; /* all zero, for either family */
	size_t len;
	const void *bytes = inet_bytes(addr, &len);

	return memcmp(bytes, &any, len) == 0;
}

socklen_t inet_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6);
}

void inet_set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
}

void inet_text(const struct sockaddr_storage *addr, char *text, size_t size)
{
	char host[NI_MAXHOST], port[PORT_TEXT_MAX];

	if (getnameinfo((const struct sockaddr *)addr, inet_len(addr), host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(text, size, "(unknown)");
	else
		snprintf(text, size, addr->ss_family == AF_INET ? "%s:%s" : "[%s]:%s", host, port);
}

void inet_addrs_add(struct inet_addrs *list, const struct sockaddr *addr, uint16_t port)
{
	struct sockaddr_storage *next = &list->addr[list->count];

	if (list->count == INET_ADDRS_MAX)
		return;
	memset(next, 0, sizeof(*next));
	memcpy(next, addr,
	       addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6));
	inet_set_port(next, port);
	list->count++;
}

int inet_addrs_named(struct inet_addrs *list, const char *host, uint16_t port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *all;
	int gai = getaddrinfo(host, NULL, &hints, &all);

	if (gai) {
		log_error("can't resolve the host name '%s': %s; check it, or use an IP address",
			  host, gai == EAI_SYSTEM ? strerror(errno) : gai_strerror(gai));
		return -EHOSTUNREACH;
	}
	for (const struct addrinfo *entry = all; entry; entry = entry->ai_next)
		if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6)
			inet_addrs_add(list, entry->ai_addr, port);
	freeaddrinfo(all);
	return list->count ? 0 : -EHOSTUNREACH;
}

static int option_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

int inet_local(int fd, struct sockaddr_storage *addr)
{
	socklen_t len = sizeof(*addr);

	return getsockname(fd, (struct sockaddr *)addr, &len) ? -errno : 0;
}

static int inet_socket(const struct sockaddr_storage *addr, int *fd)
{
	*fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	return *fd < 0 ? -errno : 0;
}

int inet_bind(struct sockaddr_storage *addr, int *fd)
{
	int err = inet_socket(addr, fd);

	if (err)
		return err;
	/* Connections of a server that ran before may still be in TIME_WAIT. */
	err = option_set(*fd, SOL_SOCKET, SO_REUSEADDR, 1);
	/* "::" is every IPv4 address, too, whatever the host's default. */
	if (!err && addr->ss_family == AF_INET6)
		err = option_set(*fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (!err && bind(*fd, (const struct sockaddr *)addr, inet_len(addr)))
		err = -errno;
	if (!err)
		err = inet_local(*fd, addr);
	if (err)
		close(*fd);
	return err;
}

void inet_refuse(int listener, int *spare)
{
	int fd;

	if (*spare >= 0)
		close(*spare);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	*spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int inet_stream_set(int fd)
{
	int err = option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	if (!err)
		err = option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	if (!err)
		err = option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	if (!err)
		err = option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
	if (!err)
		err = option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
	return err ? err : option_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

int inet_connect(const struct sockaddr_storage *addr, int *fd)
{
	int err = inet_socket(addr, fd);

	if (err)
		return err;
	if (connect(*fd, (const struct sockaddr *)addr, inet_len(addr)) && errno != EINPROGRESS) {
		err = -errno;
		close(*fd);
	}
	return err;
}
