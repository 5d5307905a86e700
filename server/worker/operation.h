/* SPDX-License-Identifier: MIT */
/*
 * Operations on the table, alone in a message or one of several: what is counted, and the steps of
 * those that do not fit a turn. Whoever calls has the place for the response.
 */
#ifndef KVD_SERVER_WORKER_OPERATION_H
#define KVD_SERVER_WORKER_OPERATION_H

#include "server/worker/deferred.h"
#include "server/worker/worker.h"

/* What an operation does when its response is filled in (O1 in server/worker/answers.h). */
void operation_done(struct conn *conn, const struct request *request,
		    const struct wire_response *head);

/* Steps of a room, until the time is up. DEFERRED_DONE: it has ended. */
enum deferred_next operation_room_run(struct room *room, uint64_t until_ns);

/*
 * An append or prepend to a large item. The caller has reserved a place for the response: others
 * may wait for the memory that it takes.
 */
void operation_large_begin(struct deferred_large *large, struct conn *conn,
			   const struct request *request, uint64_t hash);
/* Steps of it, until the time is up. DEFERRED_DONE: it has ended, and @head is filled in. */
enum deferred_next operation_large_run(struct deferred_large *large, struct conn *conn,
				       struct wire_response *head, uint64_t until_ns);
/* Ends it early, if it was begun. */
void operation_large_cancel(struct deferred_large *large, struct conn *conn);

#endif /* KVD_SERVER_WORKER_OPERATION_H */
