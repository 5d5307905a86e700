/* SPDX-License-Identifier: MIT */
/* Responses: built while a batch is worked on, sent as one chain per queue pair at its end. */
#ifndef KVD_SERVER_NET_RESPONSE_H
#define KVD_SERVER_NET_RESPONSE_H

#include "server/net/conn.h"
#include "server/net/poller.h"

/* A response in the making. Lives as long as the batch. */
struct response_wr {
	struct wire_response head;
	struct conn *conn;
	uint32_t buffer;    /* that holds head and value, or BUFFER_NONE: head is all */
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
 * Starts a response to request @id: status WIRE_OK, nothing follows. There is always one: a batch has at
 * most BATCH_MAX completions and each makes at most one response.
 */
struct response_wr *response_start(struct response_list *responses, struct conn *conn,
				   enum wire_op op, uint32_t id);

/*
 * Gives the response a buffer. Returns where the value goes, with room for *@size bytes, or NULL if the
 * connection was failed because it left more responses unseen than its window allows.
 */
void *response_buffer(struct response_list *responses, struct response_wr *response,
		      uint32_t *size);

/* The response needs no buffer after all. */
void response_drop_buffer(struct response_list *responses, struct response_wr *response);

/* Sends all; connections whose queue pair takes no more are failed. */
void responses_send(struct response_list *responses);

/* A response, or what came before it on its queue pair, is done. */
void response_done(struct poller *poller, struct conn *conn, uint64_t wr_id);

/* Takes back the buffers of all responses of a connection whose queue pair is gone. */
void response_release_all(struct poller *poller, struct conn *conn);

#endif /* KVD_SERVER_NET_RESPONSE_H */
