/* SPDX-License-Identifier: MIT */
/*
 * BATCH: several requests in one message, executed in their order and answered in one response.
 *
 *   A1. All of a message is checked, by wire_request_parse(), before any of it is executed.
 *   A2. The buckets of all its keys are prefetched, then their items, then it is executed.
 *   A3. In a turn BATCHED_TURN_MAX requests of batches are executed at once, of all connections
 *	 together. Further batches are deferred, and then have turns as all that is deferred (D1, D2
 *	 in server/worker/deferred.h). So a turn is longer by those requests at most.
 *   A4. A request of a batch that does not fit a turn (it needs room, or its item is large) is
 *	 executed in pieces, and those behind it wait, since they come after it (D3). The results
 *	 until then are in the buffer of the response, which the batch keeps meanwhile, as it keeps
 *	 a place in the send queue: so it waits for no client.
 *   A5. Each request counts for the limits of the connection, and those that are beyond have the
 *	 result BUSY.
 *   A6. Numbered requests have consecutive numbers, and each is executed once, as if it had come
 *	 alone (O1 to O3 in server/worker/answers.h). Numbers are admitted when the message arrives.
 */
#ifndef KVD_SERVER_WORKER_BATCH_H
#define KVD_SERVER_WORKER_BATCH_H

#include "server/worker/deferred.h"

/* 4 full batches: as long as some 100 PUTs, less than a turn of 32 clients takes. */
#define BATCHED_TURN_MAX (4 * WIRE_BATCH_MAX)

/*
 * Executes the BATCH in receive buffer @buffer, which has just arrived, behind HELLO. False: it was
 * deferred and keeps its buffer.
 */
bool batch_receive(struct response_list *responses, struct conn *conn,
		   const struct request *request, uint32_t buffer);

/* One that is deferred from the begin on. */
extern const struct deferred_kind batch_kind;

#endif /* KVD_SERVER_WORKER_BATCH_H */
