/* SPDX-License-Identifier: MIT */
/*
 * Operations on the table, from an admitted message to its response. A message has one operation,
 * or is a BATCH with several, which are executed in order and answered in one response; both take
 * the same way.
 *
 *   A1. All of a message is checked, by wire_request_parse(), before any of it is executed.
 *   A2. The buckets of all its keys are prefetched, then their items, then it is executed.
 *   A3. In a turn BATCHED_TURN_MAX operations of BATCHes are executed at once, of all connections
 *	 together. Further BATCHes are deferred and then take turns (D1, D2 in
 *	 server/worker/deferred.h). So a turn is longer by those operations at most.
 *   A4. An operation that does not fit a turn (it needs room, or its item is large) is executed in
 *	 pieces, and later ones of its BATCH wait, to stay in order (D3). Meanwhile the message
 *	 keeps a place in the send queue, and the buffer with the results so far: so it waits for no
 *	 client, and others may wait for what it holds.
 *   A5. Each operation of a BATCH counts for the limits of its client, when it is executed. One
 *	 beyond a limit has the result that a message with that operation alone would have.
 *   A6. Numbered operations have consecutive numbers, and each is executed once (O1 to O3 in
 *	 server/worker/answers.h). Numbers are admitted when the message arrives.
 */
#ifndef KVD_SERVER_WORKER_OPERATION_H
#define KVD_SERVER_WORKER_OPERATION_H

#include "server/worker/deferred.h"

/* 4 full BATCHes: as long as some 100 PUTs, less than a turn of 32 clients takes. */
#define BATCHED_TURN_MAX (4 * WIRE_BATCH_MAX)

/*
 * Executes the message in receive buffer @buffer, which has just arrived, after HELLO. @hash is the
 * key's, if the message has one. False: it was deferred and keeps its buffer.
 */
bool operation_receive(struct response_list *responses, struct conn *conn,
		       const struct request *request, uint64_t hash, uint32_t buffer,
		       struct verdict verdict);

/* One that is deferred from its arrival on; its verdict is set. */
extern const struct deferred_kind operation_kind;

#endif /* KVD_SERVER_WORKER_OPERATION_H */
