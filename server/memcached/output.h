/* SPDX-License-Identifier: MIT */
/*
 * The output of the session whose turn it is: collected in the worker's buffer, and sent once in a
 * turn, or when the buffer is full. All functions are the worker's; none blocks.
 */
#ifndef KVD_SERVER_MEMCACHED_OUTPUT_H
#define KVD_SERVER_MEMCACHED_OUTPUT_H

#include "server/memcached/session.h"

/* Appends to the output. There is room: output_room(). */
void output_bytes(struct sockets *sockets, const void *bytes, size_t len);
/* A line of text, with its end. */
void output_line(struct sockets *sockets, const char *text);

/*
 * A line of keys begins. If one of its keys is refused, output_line_drop() takes away the answers
 * to the keys before it, unless they have been sent: so does memcached.
 */
static inline void output_line_begin(struct sockets *sockets)
{
	sockets->line_at = sockets->output_len;
}

static inline void output_line_drop(struct sockets *sockets)
{
	sockets->output_len = sockets->line_at;
}

/* The bytes that the buffer has room for. */
static inline uint32_t output_left(const struct sockets *sockets)
{
	return SESSION_OUTPUT_BYTES - sockets->output_len;
}

/*
 * Makes room for @bytes in the buffer, SESSION_OUTPUT_BYTES at most; sends what is in it if need
 * be. False: the socket takes no more now, or never, and the session may not go on.
 */
bool output_room(struct session *session, uint32_t bytes);

/*
 * A value of @value_len bytes that the caller has written @gap bytes after the end of the output,
 * with room for two bytes more, gets @line before it, of @line_len bytes, @gap at most, and \r\n
 * after it.
 */
void output_value(struct sockets *sockets, uint32_t gap, const char *line, uint32_t line_len,
		  uint32_t value_len);

/*
 * Sends what is in the worker's buffer. False: the session keeps what the socket did not take and
 * is clogged; or the socket has failed, and the session is shut.
 */
bool output_send(struct session *session);

/*
 * Sends what the session keeps: as output_send(). output_keep() takes over @bytes, of malloc(), and
 * sends those from @at to @len; the session keeps nothing yet.
 */
bool output_keep(struct session *session, uint8_t *bytes, size_t at, size_t len);
bool output_resume(struct session *session);
/* Frees what the session keeps, and ends its wait for memory. */
void output_release(struct session *session);

/*
 * Counts @bytes that the session keeps until its client has taken them: SESSION-4. False: it waits,
 * and is woken when it should try again. output_drop() takes them off.
 */
bool output_count(struct session *session, size_t bytes);
void output_drop(struct session *session, size_t bytes);
/* The next session whose output is too slow, while another one waits; or NULL: SESSION-4. */
struct session *output_expired(struct sockets *sockets, uint64_t now_ns);

#endif /* KVD_SERVER_MEMCACHED_OUTPUT_H */
