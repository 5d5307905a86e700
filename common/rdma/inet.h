/* SPDX-License-Identifier: MIT */
/* IPv4 and IPv6 addresses, with ports: by name, as text, and those of this host. */
#ifndef KVD_COMMON_RDMA_INET_H
#define KVD_COMMON_RDMA_INET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* The most addresses of a host that are tried. */
#define INET_ADDRS_MAX 64

struct inet_addrs {
	struct sockaddr_storage addr[INET_ADDRS_MAX];
	int count;
};

/* Adds @addr with @port (in the host's byte order) if there is room. */
void inet_addrs_add(struct inet_addrs *list, const struct sockaddr *addr, uint16_t port);

/*
 * Adds the addresses of @host, a name or an address. Blocks as getaddrinfo(3) does. 0, or
 * -EHOSTUNREACH after logging.
 */
int inet_addrs_named(struct inet_addrs *list, const char *host, uint16_t port);

/* The bytes of the address itself, without family and port. */
const void *inet_bytes(const struct sockaddr_storage *addr, size_t *len);
/* The length of the socket address. */
socklen_t inet_len(const struct sockaddr_storage *addr);
/* 0.0.0.0 or :: */
bool inet_is_any(const struct sockaddr_storage *addr);
void inet_set_port(struct sockaddr_storage *addr, uint16_t port);
/* "10.9.0.1:7471" or "[fe80::1%eth0]:7471" */
void inet_text(const struct sockaddr_storage *addr, char *text, size_t size);

/* The address of a TCP or UDP socket at this end. 0 or a negative errno. */
int inet_local(int fd, struct sockaddr_storage *addr);
/* Starts to connect a TCP socket, which does not block. 0, also if that is under way. */
int inet_connect(const struct sockaddr_storage *addr, int *fd);
/*
 * Makes a TCP socket that does not block and binds it to @addr, which is replaced by what it is
 * bound to: port 0 becomes the port chosen. 0 or a negative errno.
 */
int inet_bind(struct sockaddr_storage *addr, int *fd);
/*
 * Closes a connection that waits at the socket @listener, if no descriptor is left to take it: it
 * would keep the socket readable. *@spare is used for that, and opened anew; -1: there is none.
 */
void inet_refuse(int listener, int *spare);
/* Sets the options of a connected socket: no delays, keepalive. 0 or a negative errno. */
int inet_stream_set(int fd);

#endif /* KVD_COMMON_RDMA_INET_H */
