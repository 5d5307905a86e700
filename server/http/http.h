/* SPDX-License-Identifier: MIT */
/*
 * Answers HTTP at server.http, with libmicrohttpd: a page for people, /metrics for Prometheus,
 * /healthz and /readyz for supervisors, and /config.
 *
 *   HTTP-1. One thread, libmicrohttpd's, answers all requests. It takes no time of a worker: it
 *	 reads counters as they are, and asks no other thread for anything.
 *   HTTP-2. Bounded: HTTP_CONNECTIONS_MAX connections, HTTP_CONNECTIONS_OF_ADDRESS_MAX of one
 *	 address, each with HTTP_CONNECTION_BYTES of memory for its headers, and closed after
 *	 HTTP_TIMEOUT_S without progress, also between two requests. Requests have no body.
 *	 Metrics are made once in HTTP_SCRAPE_NS, however many ask, so clients that read slowly
 *	 share a text.
 *   HTTP-3. What the control thread owns it writes down, under a lock, for that thread: the census
 *	 (server/control/census.h) once a second, and the configuration when it changes.
 *
 * Unless a function says so, the control thread calls it. All take NULL: server.http is empty.
 */
#ifndef KVD_SERVER_HTTP_HTTP_H
#define KVD_SERVER_HTTP_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "server/http/pages.h"

/* At a time. */
#define HTTP_CONNECTIONS_MAX 64u
#define HTTP_CONNECTIONS_OF_ADDRESS_MAX 16u
#define HTTP_CONNECTION_BYTES 8192u
#define HTTP_TIMEOUT_S 10u

struct http;

/*
 * Checks, without changing anything, that the server could listen at server.http; @warn: warns if
 * the address is in use. 0 or a negative errno after logging.
 */
int http_check(const struct config *config, bool warn);

/*
 * Takes the address of server.http; *@http is NULL if that is empty. 0 or a negative errno after
 * logging, with nothing to close.
 */
int http_open(struct http **http, const struct config *config, const struct metrics_source *source);
/* Starts the thread. 0 or a negative errno after logging. */
int http_start(struct http *http);
/*
 * Takes the configuration and the users as they are now, and with @tls the files of [tls], for
 * https://: then open connections end.
 */
void http_renew(struct http *http, const struct config *config, bool tls);
/* Once a second: the census. */
void http_tick(struct http *http);
/* Ends the thread, and all connections. May be called twice. */
void http_stop(struct http *http);
void http_close(struct http **http);

void http_set_phase(struct http *http, enum http_phase phase);
/* At @now_ns, by clock_ns(), the control thread and all workers are alive. */
void http_alive(struct http *http, uint64_t now_ns);

#endif /* KVD_SERVER_HTTP_HTTP_H */
