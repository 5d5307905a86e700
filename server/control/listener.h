/* SPDX-License-Identifier: MIT */
/*
 * The sockets at which clients of memcached's protocol connect: one for each memcached:// and
 * memcached+tls:// URL of server.listen, of TCP or a Unix socket. The control thread uses them, and
 * the thread of TLS handshakes (handshake.h) takes connections of those with TLS. Nothing blocks
 * but listeners_open(), which waits up to a second for another server that starts.
 */
#ifndef KVD_SERVER_CONTROL_LISTENER_H
#define KVD_SERVER_CONTROL_LISTENER_H

#include "common/rdma/device.h"
#include "common/util/unix_socket.h"
#include "server/config/config.h"
#include "server/config/listen_list.h"
#include "server/control/socket_folder.h"

struct listener {
	struct device_addr addr;
	int fd; /* bound, and listening after listeners_start() */
	/* Of a Unix socket. */
	struct unix_socket_file file;
	struct socket_folder folder;
};

struct listeners {
	struct listener list[LISTEN_MAX];
	unsigned int count;
};

/* Binds all URLs of memcached://. 0, or a negative errno after logging. */
int listeners_open(struct listeners *listeners, const struct config *config);
/* Checks that listeners_open() would succeed, and changes nothing; as nic_address_check(). */
int listeners_check(const struct config *config, bool warn);
/* Starts to take connections. 0, or a negative errno after logging. */
int listeners_start(struct listeners *listeners);
/* A zeroed struct is fine, too. */
void listeners_close(struct listeners *listeners);

/*
 * Takes the next connection: its socket, which does not block, and its peer. -EAGAIN: there is
 * none; other negative errnos: one could not be taken, and is gone.
 */
int listener_accept(const struct listener *listener, int *fd, struct cm_peer *peer);

/* inet_refuse(), which it logs. */
void listener_refuse(const struct listener *listener, int *spare_fd);

static inline bool listener_is_tls(const struct listener *listener)
{
	return listener->addr.kind == LISTEN_MEMCACHED_TLS;
}

#endif /* KVD_SERVER_CONTROL_LISTENER_H */
