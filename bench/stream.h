/* SPDX-License-Identifier: MIT */
/*
 * A socket to a server that speaks a text protocol: sends whole messages, receives lines and bytes.
 * For the backends other than kvd's.
 *
 * Functions that return a status return KVD_OK, or what ended the connection: then every later call
 * returns KVD_ERR_DISCONNECTED, and stream->error is one line about the cause.
 */
#ifndef KVD_BENCH_STREAM_H
#define KVD_BENCH_STREAM_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "bench/db.h"

#define STREAM_BUFFER_SIZE 65536
/* Parts of one message: sendmsg(2) takes 1,024. */
#define STREAM_PARTS_MAX 1024

struct stream {
	int fd;
	bool lost;
	size_t begin, end; /* in the buffer: bytes received and not yet taken */
	char buffer[STREAM_BUFFER_SIZE];
	char error[DB_ERROR_MAX];
};

/*
 * Connects to @address, "HOST:PORT" or the "/PATH" of a Unix socket; it ends at a zero or a '?'.
 * No call on the stream waits longer than @timeout_ms for the network. KVD_ERR_INVALID: @address
 * has neither form. KVD_ERR_UNREACHABLE: nobody listens there. The caller closes the stream if that
 * succeeded.
 */
enum kvd_status stream_open(struct stream *stream, const char *address, uint32_t timeout_ms);
void stream_close(struct stream *stream);

/* Sends all bytes of @parts, STREAM_PARTS_MAX at most, which it changes. */
enum kvd_status stream_send(struct stream *stream, struct iovec *parts, size_t count);

/* Takes one line. A zero replaces its \r\n; the line is valid until the next call. */
enum kvd_status stream_take_line(struct stream *stream, char **line);

/* Takes @len bytes. */
enum kvd_status stream_take_bytes(struct stream *stream, void *bytes, size_t len);

/* Takes the \r\n after a value. */
enum kvd_status stream_take_end(struct stream *stream);

/* Ends the connection because of @what the server sent. Returns KVD_ERR_PROTOCOL. */
enum kvd_status stream_refuse(struct stream *stream, const char *what);

#endif /* KVD_BENCH_STREAM_H */
