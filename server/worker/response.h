/* SPDX-License-Identifier: MIT */
/*
 * Responses: built while a batch is executed, and posted at its end, one chain for each queue pair.
 */
#ifndef KVD_SERVER_WORKER_RESPONSE_H
#define KVD_SERVER_WORKER_RESPONSE_H

#include "server/worker/conn.h"
#include "server/worker/poller.h"

/* A response that is being built. Valid until the end of the batch. */
struct response_wr {
	struct wire_response head;
	struct conn *conn;
	uint32_t buffer;    /* for head and value; BUFFER_NONE: the response is the head alone */
	uint32_t value_len; /* bytes of value in the buffer */
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

/* The responses of one batch. */
struct response_list {
	struct poller *poller;
	struct response_wr list[BATCH_MAX];
	unsigned int count;
};

/*
 * Whether a response of the connection, and its value, can be started now. If not, at least one
 * response of the same connection is posted, signaled and not completed, so the request can be
 * deferred until it completes, and that wait ends: the client's device acknowledges it, or retries
 * are exhausted and the connection fails. Other clients have no influence.
 */
bool response_room(const struct conn *conn);

/*
 * Reserves the place of a response without a value, to be started later whether or not there is
 * room then. response_room() holds, or a READ of the connection has just completed.
 */
void response_reserve(struct conn *conn);
/* Gives the place back; a response_start() may follow at once. */
void response_unreserve(struct conn *conn);

/*
 * Starts a response to request @id, with status WIRE_OK and no value. It can't fail: a batch has at
 * most BATCH_MAX completions, and each causes at most one response. response_room() holds, or a
 * reserved place was given back just now.
 */
struct response_wr *response_start(struct response_list *responses, struct conn *conn,
				   enum wire_op op, uint32_t id);

/*
 * Gives the response a buffer. Returns the place for the value, which has *@size bytes; or NULL
 * after failing the connection, if there was no room.
 */
void *response_buffer(struct response_list *responses, struct response_wr *response,
		      uint32_t *size);

/* Drops the response that was started last. */
void response_cancel(struct response_list *responses);

/* The response needs no buffer after all. */
void response_drop_buffer(struct response_list *responses, struct response_wr *response);

/*
 * Drops the response that was started last and keeps its buffer for a later one: with
 * response_buffer_again(), or response_buffer_free() if there will be none.
 */
uint32_t response_keep_buffer(struct response_list *responses);
void *response_buffer_again(struct response_list *responses, struct response_wr *response,
			    uint32_t buffer, uint32_t *size);
void response_buffer_free(struct conn *conn, uint32_t buffer);

/* Posts all responses. */
void responses_send(struct response_list *responses);

/* A response completed: it and the unsignaled ones before it on its queue pair are done. */
void response_done(struct poller *poller, struct conn *conn, uint64_t wr_id);

/* Takes back the buffers of all responses of a connection whose queue pair is destroyed. */
void response_release_all(struct poller *poller, struct conn *conn);

#endif /* KVD_SERVER_WORKER_RESPONSE_H */
