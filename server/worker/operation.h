/* SPDX-License-Identifier: MIT */
/*
 * Operations on the table, from an admitted message to its response. A message has one operation,
 * or is a BATCH with several, which are executed in order and answered in one response; both take
 * the same way.
 *
 *   OPERATION-1. All of a message is checked, by wire_request_parse(), before any of it is
 *	 executed.
 *   OPERATION-2. The buckets of all its keys are prefetched, then their items, then it is executed.
 *   OPERATION-3. A turn executes at most BATCHED_TURN_MAX operations of BATCHes, of all connections
 *	 together. Further BATCHes are deferred and then take turns (DEFERRED-1, DEFERRED-2 in
 *	 server/worker/deferred.h). So BATCHes make a turn longer by that many operations at most.
 *	 A GET of a range that is verified is deferred, too: it hashes pieces of 64 KiB.
 *   OPERATION-4. An operation that does not fit a turn (it needs room, or its item is large) is
 *	 executed in pieces, and later ones of its BATCH wait, to stay in order (DEFERRED-3).
 *	 Meanwhile the message keeps a place in the send queue, and the buffer with the results so
 *	 far: so it waits for no client, and others may wait for what it holds.
 *   OPERATION-5. Each operation of a BATCH counts against the limits of its client when it is
 *	 executed. An operation beyond a limit has the result that a message with it alone would
 *	 have.
 *   OPERATION-6. Numbered operations have consecutive numbers, and each is executed once (ANSWER-1
 *	 to ANSWER-3 in server/worker/answers.h). Numbers are admitted when the message arrives.
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

/* Fills in the response to a request that is not admitted. */
void operation_refuse(const struct conn *conn, const struct request *request,
		      enum wire_status status, struct wire_response *head);

/* Records the GETs by READ that the request reports. */
void operation_report(struct conn *conn, const struct request *request);

/* For a message that is deferred when it arrives; its verdict is set. */
extern const struct deferred_kind operation_kind;

#endif /* KVD_SERVER_WORKER_OPERATION_H */
