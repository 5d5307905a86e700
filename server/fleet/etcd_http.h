/* SPDX-License-Identifier: MIT */
/*
 * HTTP requests to etcd's JSON gateway, with libcurl: one POST at a time, in HTTP/1.1, on a
 * connection that is kept for the next. No redirect is followed and no proxy of the environment is
 * used; an answer is bounded in size and time, whatever the peer sends.
 *
 * libcurl is Debian's with OpenSSL, which kvd has anyway: its memory, and through
 * etcd_memory_protect() libcurl's, is kept out of core dumps (tls_memory_protect()).
 *
 * Threads: one at a time; any may call etcd_http_interrupt().
 */
#ifndef KVD_SERVER_FLEET_ETCD_HTTP_H
#define KVD_SERVER_FLEET_ETCD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/tls/tls.h"
#include "server/fleet/etcd_url.h"

/*
 * Bytes of an answer, besides headers, of which libcurl takes 300 KiB. etcd's own limit on a
 * request is 1.5 MiB.
 */
#define ETCD_REPLY_MAX ((size_t)4 << 20)
/* Bytes of a user's token, with its zero byte; those of JWT are the longest. */
#define ETCD_TOKEN_MAX 4096

/*
 * Gives libcurl and jansson OpenSSL's memory: passwords and tokens pass through them. Before either
 * is used otherwise. 0 or a negative errno. Each 0 is followed by one etcd_memory_release().
 */
int etcd_memory_protect(void);
void etcd_memory_release(void);

/*
 * @files name the CAs that sign etcd's certificates (else the system's are trusted), and kvd's own
 * certificate and key, if etcd asks for one. They are read again for each new connection, and their
 * names must stay valid. 0 or -ENOMEM.
 */
struct etcd_http;
int etcd_http_create(struct etcd_http **http, const struct tls_files *files);
/* May be NULL. */
void etcd_http_destroy(struct etcd_http *http);

/* From now on requests fail with -ECANCELED, the one in progress too, until the next resume. */
void etcd_http_interrupt(struct etcd_http *http);
void etcd_http_resume(struct etcd_http *http);

struct etcd_post {
	const char *url;   /* of etcd_url_parse() */
	const char *path;  /* "/v3/kv/range" */
	const char *token; /* of the user; "": none */
	const void *body;
	size_t length;
	/*
	 * The request may have an effect, so it is never sent twice: libcurl would send a request
	 * again if a kept connection breaks before any byte of the answer.
	 */
	bool once;
	/*
	 * By clock_ns(): when the request fails with -ETIMEDOUT. That is @end_ns for one that is
	 * sent once, after a byte of its body was sent: nobody else may be asked then.
	 */
	uint64_t try_end_ns, end_ns;
};

struct etcd_reply {
	bool given;  /* bytes of the body were given to the connection: it may have an effect */
	long status; /* of HTTP */
	char *text;  /* the body, with a zero byte after it; the caller frees it */
	size_t length;
};

/*
 * Sends a request and waits for the whole answer. 0, whatever its status; or with @why, which names
 * no endpoint and has no full stop, and without a text in @reply, but with reply->given:
 *
 *	-EHOSTUNREACH	the name is not known, or no connection was accepted
 *	-EKEYREJECTED	one end does not accept the other's certificate, or there is no TLS
 *	-ETIMEDOUT	the time is over
 *	-ECONNRESET	the connection broke before the whole answer came
 *	-EPROTO		the answer is not HTTP/1
 *	-EMSGSIZE	it is larger than ETCD_REPLY_MAX
 *	-ECANCELED	etcd_http_interrupt()
 *	-ENOMEM
 */
int etcd_http_post(struct etcd_http *http, const struct etcd_post *post, struct etcd_reply *reply,
		   char why[ETCD_WHY_MAX]);

#endif /* KVD_SERVER_FLEET_ETCD_HTTP_H */
