/* SPDX-License-Identifier: MIT */
/* The bytes of a session's socket. The worker calls these functions; none blocks. */
#ifndef KVD_SERVER_MEMCACHED_STREAM_H
#define KVD_SERVER_MEMCACHED_STREAM_H

#include "server/memcached/session.h"

/*
 * Receives up to @len bytes, and counts them. Returns their number; 0: there are none now, or the
 * session is shut: nothing more comes.
 */
size_t session_receive(struct session *session, void *bytes, size_t len);
/*
 * Sends up to @len bytes, and counts them. Returns how many the socket took; fewer than @len: it
 * takes no more now, or the session is broken.
 */
size_t session_send(struct session *session, const void *bytes, size_t len);

#endif /* KVD_SERVER_MEMCACHED_STREAM_H */
