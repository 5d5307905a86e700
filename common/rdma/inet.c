/* SPDX-License-Identifier: MIT */
#include "common/rdma/inet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"

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
