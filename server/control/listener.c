/* SPDX-License-Identifier: MIT */
#include "server/control/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/rdma/inet.h"
#include "common/util/log.h"
#include "server/control/unix_address.h"

/* Connections that may wait to be taken; the kernel limits it to net.core.somaxconn. */
#define LISTEN_BACKLOG 1024

static bool is_unix(const struct device_addr *addr)
{
	return *addr->path;
}

static int unix_open_error(const struct device_addr *addr, const char *url, int err)
{
	char at[DEVICE_URL_MAX + 32];

	snprintf(at, sizeof(at), "server.listen = %s", url);
	unix_address_error(at, addr, err);
	return err;
}

static int open_error(const struct device_addr *addr, int err)
{
	char url[DEVICE_URL_MAX];

	device_addr_text(addr, url);
	if (is_unix(addr))
		return unix_open_error(addr, url, err);
	switch (err) {
	case -EADDRINUSE:
		log_error("server.listen = %s is in use: stop the program that listens there, or "
			  "set another port",
			  url);
		break;
	case -EADDRNOTAVAIL:
		log_error("server.listen = %s is not an address of this host: set one that `ip "
			  "addr` lists, or none, for every address",
			  url);
		break;
	case -EACCES:
		log_error("server.listen = %s: this user may not listen there: set a port above "
			  "1023",
			  url);
		break;
	default:
		log_error("server.listen = %s: can't listen there: %s%s", url, strerror(-err),
			  err == -EMFILE ? ": " ADVICE_OPEN_FILES : "");
	}
	return err;
}

/* Every address: of IPv6 and IPv4, or of IPv4 alone where there is no IPv6. */
static int bind_any(uint16_t port, int *fd)
{
	struct sockaddr_storage v6 = { .ss_family = AF_INET6 }, v4 = { .ss_family = AF_INET };
	int err;

	inet_set_port(&v6, port);
	inet_set_port(&v4, port);
	err = inet_bind(&v6, fd);
	return err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL ? inet_bind(&v4, fd) : err;
}

static int bind_inet(const struct device_addr *addr, int *fd)
{
	struct inet_addrs named = { .count = 0 };
	int err;

	if (!strcmp(addr->host, DEVICE_HOST_AUTO))
		return bind_any(addr->port, fd);
	err = inet_addrs_named(&named, addr->host, addr->port);
	return err ? err : inet_bind(&named.addr[0], fd);
}

/* Makes the socket, and its folder if that is missing. */
static int bind_unix(struct listener *listener)
{
	const struct device_addr *addr = &listener->addr;
	const struct unix_socket_address address = {
		.path = addr->path,
		.type = SOCK_STREAM,
		.mode = addr->mode,
		.name = "memcached",
	};
	int err = socket_folder_make(&listener->folder, addr->path, false);

	if (!err)
		err = unix_socket_bind(&address, &listener->fd, &listener->file);
	if (err)
		socket_folder_release(&listener->folder);
	return err;
}

static int listener_bind(struct listener *listener)
{
	return is_unix(&listener->addr) ? bind_unix(listener) :
					  bind_inet(&listener->addr, &listener->fd);
}

/* The next URL of memcached:// of the list, with the options that are not in it. */
static bool address_next(const char **at, const struct config *config, struct device_addr *addr)
{
	while (listen_list_next(at, addr))
		if (addr->kind & LISTEN_MEMCACHED_ALL) {
			addr->mode = config->softnic.socket_mode;
			return true;
		}
	return false;
}

int listeners_open(struct listeners *listeners, const struct config *config)
{
	const char *at = config->server.listen;
	struct listener *listener;
	struct device_addr addr;
	int err;

	while (address_next(&at, config, &addr)) {
		listener = &listeners->list[listeners->count];
		*listener = (struct listener){ .addr = addr };
		err = listener_bind(listener);
		if (err)
			return open_error(&addr, err);
		listeners->count++;
	}
	return 0;
}

/* Binds a TCP address for a moment; no client can connect meanwhile. */
static int address_check(const struct device_addr *addr)
{
	int err, fd;

	if (is_unix(addr))
		return unix_address_check(addr, false);
	err = bind_inet(addr, &fd);
	if (!err)
		close(fd);
	return err;
}

int listeners_check(const struct config *config, bool warn)
{
	const char *at = config->server.listen;
	char url[DEVICE_URL_MAX];
	struct device_addr addr;
	int err, first = 0;

	while (address_next(&at, config, &addr)) {
		err = address_check(&addr);
		if (!err)
			continue;
		device_addr_text(&addr, url);
		if (err == -EADDRINUSE && warn)
			log_warn("server.listen = %s is in use: while that program runs, kvd can't "
				 "start with it",
				 url);
		if (err == -EADDRINUSE)
			continue;
		first = first ? first : open_error(&addr, err);
	}
	return first;
}

int listeners_start(struct listeners *listeners)
{
	struct listener *listener;
	char url[DEVICE_URL_MAX];

	for (unsigned int i = 0; i < listeners->count; i++) {
		listener = &listeners->list[i];
		if (listen(listener->fd, LISTEN_BACKLOG))
			return open_error(&listener->addr, -errno);
		device_addr_text(&listener->addr, url);
		log_notice("listening on %s", url);
	}
	return 0;
}

static void listener_close(struct listener *listener)
{
	if (is_unix(&listener->addr))
		unix_socket_unlink(listener->addr.path, &listener->file);
	close(listener->fd);
	socket_folder_release(&listener->folder);
}

void listeners_close(struct listeners *listeners)
{
	while (listeners->count)
		listener_close(&listeners->list[--listeners->count]);
}

int listener_accept(const struct listener *listener, int *fd, struct cm_peer *peer)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int err;

	*fd = accept4(listener->fd, (struct sockaddr *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (*fd < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (is_unix(&listener->addr)) {
		err = cm_peer_local(peer, *fd);
	} else {
		*peer = (struct cm_peer){ 0 };
		inet_text(&addr, peer->address, sizeof(peer->address));
		err = inet_stream_set(*fd);
	}
	if (err)
		close(*fd);
	return err;
}

void listener_refuse(const struct listener *listener, int *spare_fd)
{
	inet_refuse(listener->fd, spare_fd);
	log_ratelimited(
		LOG_ERROR, 1,
		"memcached: a connection is refused, for lack of descriptors: " ADVICE_OPEN_FILES
		" or lower server.max_connections");
}
