/* SPDX-License-Identifier: MIT */
/* Responses: built while a batch is worked on, sent as one chain per queue pair at its end. */
#ifndef KVD_SERVER_NET_REPLY_H
#define KVD_SERVER_NET_REPLY_H

#include "server/net/worker.h"

/* A response in the making. Lives as long as the batch. */
struct reply {
	struct wire_response head;
	struct conn *conn;
	uint32_t buffer;    /* that holds head and value, or BUFFER_NONE: head is all */
	uint32_t value_len; /* bytes of value in the buffer */
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

/* The replies of one batch. */
struct replies {
	struct endpoint *endpoint;
	struct reply list[BATCH_MAX];
	unsigned int count;
};

/*
 * Starts a reply to request @id: status WIRE_OK, nothing follows. There is always one: a batch has at
 * most BATCH_MAX completions and each makes at most one reply.
 */
struct reply *reply_start(struct replies *replies, struct conn *conn, enum wire_op op, uint32_t id);

/*
 * Gives the reply a buffer. Returns where the value goes, with room for *@size bytes, or NULL if the
 * connection was failed because it left more responses unseen than its window allows.
 */
void *reply_buffer(struct replies *replies, struct reply *reply, uint32_t *size);

/* The reply needs no buffer after all. */
void reply_drop_buffer(struct replies *replies, struct reply *reply);

/* Sends all; connections whose queue pair takes no more are failed. */
void replies_send(struct replies *replies);

/* A response, or what came before it on its queue pair, is done. */
void reply_done(struct endpoint *endpoint, struct conn *conn, uint64_t wr_id);

/* Takes back the buffers of all responses of a connection whose queue pair is gone. */
void reply_release_all(struct endpoint *endpoint, struct conn *conn);

#endif /* KVD_SERVER_NET_REPLY_H */
