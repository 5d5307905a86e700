/* SPDX-License-Identifier: MIT */
/* The files of [tls] as libmicrohttpd takes them, for https:// in server.http. */
#ifndef KVD_SERVER_HTTP_PEM_H
#define KVD_SERVER_HTTP_PEM_H

#include <stddef.h>

#include "server/config/config.h"

/* Texts that end with a zero byte. */
struct http_pem {
	char *certificate, *ca; /* ca: NULL if tls.ca is not set */
	char *key;		/* of secret_alloc() */
	size_t key_bytes;
};

/* 0, or a negative errno after logging, with nothing to release. */
int http_pem_load(struct http_pem *pem, const struct config *config);
/* Accepts a zeroed @pem, too. */
void http_pem_release(struct http_pem *pem);

#endif /* KVD_SERVER_HTTP_PEM_H */
