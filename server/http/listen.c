/* SPDX-License-Identifier: MIT */
#include "server/http/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rdma/inet.h"
#include "common/util/log.h"

/* Connections that may wait to be taken. */
#define LISTEN_BACKLOG 128

int http_listen(const struct http_url *url, int *fd)
{
	struct inet_addrs named = { .count = 0 };
	int err = inet_addrs_named(&named, url->host, url->port);

	if (!err)
		err = inet_bind(&named.addr[0], fd);
	if (!err && listen(*fd, LISTEN_BACKLOG)) {
		err = -errno;
		close(*fd);
	}
	return err;
}

void http_listen_error(const struct http_url *url, int err)
{
	char text[HTTP_URL_MAX];

	http_url_text(url, text);
	switch (err) {
	case -EADDRINUSE:
		log_error("server.http = %s is in use: stop the program that listens there, or set "
			  "another port",
			  text);
		break;
	case -EADDRNOTAVAIL:
		log_error("server.http = %s is not an address of this host: set one that `ip addr` "
			  "lists",
			  text);
		break;
	case -EACCES:
		log_error("server.http = %s: this user may not listen there: set a port above 1023",
			  text);
		break;
	default:
		log_error("server.http = %s: can't listen there: %s%s", text, strerror(-err),
			  err == -EMFILE ? ": " ADVICE_OPEN_FILES : "");
	}
}
