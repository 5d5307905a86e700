/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a session's socket, which TLS may protect. The worker calls these functions; none
 * blocks.
 */
#ifndef KVD_SERVER_MEMCACHED_STREAM_H
#define KVD_SERVER_MEMCACHED_STREAM_H

#include "server/memcached/session.h"

/* Bytes that one call encrypts, at most: some 30 us. */
#define SESSION_TLS_BYTES (64u << 10)

/*
 * Receives up to @len bytes, and counts them. Returns their number; 0: there are none now, or the
 * session is shut: nothing more comes. If session->unread is set, there are more, of which epoll(7)
 * does not know.
 */
size_t session_receive(struct session *session, void *bytes, size_t len);
/*
 * Sends up to @len bytes, and counts them. Returns how many the socket took; fewer than @len: it
 * takes no more now, or these were SESSION_TLS_BYTES, or the session is broken. What it did not
 * take has to be sent next.
 */
size_t session_send(struct session *session, const void *bytes, size_t len);
/* Tells the client that nothing more comes, before the socket is closed. */
void session_finish(struct session *session);

#endif /* KVD_SERVER_MEMCACHED_STREAM_H */
