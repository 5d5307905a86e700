/* SPDX-License-Identifier: MIT */
/*
 * Checks the passwords of HTTP's clients in a thread of its own, at the lowest priority, since a
 * check takes milliseconds of a CPU by design. A request waits suspended meanwhile.
 *
 *   PASSWORD-1. One password of an address (for IPv6 of its /64) is checked at a time, and after
 *	 a wrong one HTTP_LOGIN_DELAY_NS pass before that is answered and the next one is checked.
 *	 So an address has 60 guesses a minute, and holds up only itself.
 *   PASSWORD-2. A password that was right is remembered, as a keyed sum over it and its hash, so
 *	 that a client that asks again is answered at once; with another hash it is another sum.
 *
 * Unless a function says so, libmicrohttpd's thread calls it.
 */
#ifndef KVD_SERVER_HTTP_LOGIN_H
#define KVD_SERVER_HTTP_LOGIN_H

#include <microhttpd.h>
#include <stdbool.h>

#include "common/util/network.h"

#define HTTP_LOGIN_DELAY_NS 1000000000ull
/* That wait: one for each connection. */
#define HTTP_LOGINS_MAX 64u
/* Right passwords that are remembered. */
#define HTTP_LOGINS_KNOWN_MAX 16u

struct http_logins;
struct http_login;

/* NULL after logging: no memory. Any thread. */
struct http_logins *http_logins_make(void);
/* After http_logins_stop(). Takes NULL. Any thread. */
void http_logins_free(struct http_logins *logins);

/* Whether @password, which has the hash @hash, was checked before. */
bool http_logins_know(const struct http_logins *logins, const char *password, const char *hash);
/*
 * Suspends the connection, until it is known whether @password has the hash @hash, a valid one.
 * NULL: it can't be checked, and the connection is not suspended.
 */
struct http_login *http_logins_ask(struct http_logins *logins, struct MHD_Connection *connection,
				   const struct ip_address *address, const char *password,
				   const char *hash);
/* Ends the login of a connection that goes on: whether the password was right, and has @hash. */
bool http_login_end(struct http_logins *logins, struct http_login *login, const char *hash);

/*
 * Ends the thread; connections go on, and http_logins_ask() returns NULL. Before the daemon stops.
 * Not libmicrohttpd's thread.
 */
void http_logins_stop(struct http_logins *logins);
/* After that, before the daemon starts again. */
void http_logins_start(struct http_logins *logins);

#endif /* KVD_SERVER_HTTP_LOGIN_H */
