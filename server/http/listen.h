/* SPDX-License-Identifier: MIT */
/* The socket that listens at server.http. Any thread. */
#ifndef KVD_SERVER_HTTP_LISTEN_H
#define KVD_SERVER_HTTP_LISTEN_H

#include "server/config/http_url.h"

/*
 * Makes *@fd, a socket that listens at @url. 0 or a negative errno; http_listen_error() logs what
 * it means.
 */
int http_listen(const struct http_url *url, int *fd);
void http_listen_error(const struct http_url *url, int err);

#endif /* KVD_SERVER_HTTP_LISTEN_H */
