/* SPDX-License-Identifier: MIT */
/*
 * Messages: their buffers, and batches: requests that wait together go in one message, and are
 * answered in one (common/PROTOCOL.md, Batches).
 */
#ifndef KVD_CLIENT_LIBKVD_MESSAGE_H
#define KVD_CLIENT_LIBKVD_MESSAGE_H

#include "client/libkvd/handle.h"

/* Where message @i is written, and the response that receive buffer @i gets. */
static inline uint8_t *message_at(const struct connection *conn, uint32_t i)
{
	return conn->sends[i / MESSAGES_CHUNK].base +
	       (size_t)(i % MESSAGES_CHUNK) * conn->message_bytes;
}

static inline uint8_t *receive_at(const struct connection *conn, uint32_t i)
{
	return conn->recvs[i / MESSAGES_CHUNK].base + (size_t)(i % MESSAGES_CHUNK) * RESPONSE_BYTES;
}

/* Adds buffers for MESSAGES_CHUNK more messages and responses. */
enum kvd_status messages_grow(struct kvd *handle);
/* Makes the first buffers of messages: for HELLO. */
enum kvd_status messages_open(struct kvd *handle);
/* Makes buffers for messages of conn.request_bytes. Nothing is outstanding. */
enum kvd_status messages_resize(struct kvd *handle);

/* The requests of a BATCH message; NULL: nobody waits for that result any more. */
struct batch {
	unsigned int count;
	struct flight *flights[WIRE_BATCH_MAX];
};

/*
 * Whether the flight's request may be in a batch. A GET and touch, a GET without a value or of the
 * rest of a value, and a PUT of a value in pieces go alone.
 */
bool request_may_share(const struct flight *flight);

/*
 * How many waiting requests, from the first one on, may go in one message of at most
 * conn.request_bytes. Less than 2: the first one goes alone.
 */
unsigned int batch_count(const struct kvd *handle);

/*
 * Moves the first @count waiting requests to @batch, whose message has the index @message, and
 * writes the message, with this @id, to @to. Returns its length in bytes, without access records.
 */
size_t batch_fill(struct kvd *handle, struct batch *batch, unsigned int count, uint32_t message,
		  uint32_t id, uint8_t *to);

/*
 * Whether the response has a result for each request; if not, closes the connection. Must be called
 * before any flight moves on.
 */
bool batch_check(struct kvd *handle, const struct batch *batch, const struct response *response);

/* Gives each flight its result, from a response that was checked. */
void batch_response(struct kvd *handle, struct batch *batch, const struct response *response);

#endif /* KVD_CLIENT_LIBKVD_MESSAGE_H */
