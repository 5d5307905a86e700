/* SPDX-License-Identifier: MIT */
/* TCP sockets over which queue pairs are set up. */
#include "common/rdma/tcp/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "common/rdma/inet.h"

/*
 * A dead host is noticed after 10 s of silence and 3 probes, 5 s apart; or 20 s after something was
 * sent to it.
 */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3
#define USER_TIMEOUT_MS 20000

static int option_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static int socket_make(const struct sockaddr_storage *addr, int *fd)
{
	*fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	return *fd < 0 ? -errno : 0;
}

int tcp_socket_local(int fd, struct sockaddr_storage *addr)
{
	socklen_t len = sizeof(*addr);

	return getsockname(fd, (struct sockaddr *)addr, &len) ? -errno : 0;
}

int tcp_socket_bind(struct sockaddr_storage *addr, int *fd)
{
	int err = socket_make(addr, fd);

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
		err = tcp_socket_local(*fd, addr);
	if (err)
		close(*fd);
	return err;
}

int tcp_socket_connect(const struct sockaddr_storage *addr, int *fd)
{
	int err = socket_make(addr, fd);

	if (err)
		return err;
	if (connect(*fd, (const struct sockaddr *)addr, inet_len(addr)) && errno != EINPROGRESS) {
		err = -errno;
		close(*fd);
	}
	return err;
}

int tcp_socket_set(int fd)
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
