/* SPDX-License-Identifier: MIT */
/* The URL of server.http, where kvd answers HTTP: "127.0.0.1:7480" or "https://[::]:7480". */
#ifndef KVD_SERVER_CONFIG_HTTP_URL_H
#define KVD_SERVER_CONFIG_HTTP_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/parse.h"

/* Bytes of an IPv6 address with the name of its interface, the zero included. */
#define HTTP_HOST_MAX 64
/* Bytes of a URL, its zero included. */
#define HTTP_URL_MAX (HTTP_HOST_MAX + sizeof("https://[]:65535"))

struct http_url {
	bool tls;
	char host[HTTP_HOST_MAX]; /* an address, without brackets */
	uint16_t port;
};

/* 0, or -EINVAL and fills in @why. */
int http_url_parse(struct http_url *url, const char *text, struct parse_why *why);

/* With its scheme. Returns @text. */
const char *http_url_text(const struct http_url *url, char text[HTTP_URL_MAX]);

#endif /* KVD_SERVER_CONFIG_HTTP_URL_H */
