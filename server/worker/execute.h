/* SPDX-License-Identifier: MIT */
/*
 * Executes the requests that concern the table, and fills in their responses; knows no connections.
 */
#ifndef KVD_SERVER_WORKER_EXECUTE_H
#define KVD_SERVER_WORKER_EXECUTE_H

#include "server/store/store.h"

/* The place for the value that follows a response's header. */
struct response_value {
	void *value;
	uint32_t size;
	bool whole;   /* all of a value or nothing */
	bool sum;     /* the client may know the value's sum */
	uint32_t len; /* out */
};

/*
 * Executes a GET, PUT that is not pulled, DELETE, ARITH or TOUCH, and fills in @head except op, id
 * and clock_ns. A PING or ACCESS has nothing to execute, any other request is WIRE_PROTOCOL;
 * reports of GETs, which every request may carry, are for execute_access(). @value gets what fits
 * of a value, and head->result is its full length. False: nothing was done. If room_pending(@room),
 * run its steps, then call this again; else the key's item is large: start with
 * execute_large_begin(). @room is that of attempt.h; room_init() before the first call.
 */
bool execute(struct store_thread *thread, const struct request *request, uint64_t hash,
	     struct wire_response *head, struct response_value *value, struct room *room);

/*
 * Executes a SCAN, of the keys in @parts, until about @until_ns of clock_ns(): table_scan() in
 * server/store/scan.h.
 */
void execute_scan(struct store_thread *thread, const struct request *request, const uint64_t *parts,
		  uint64_t until_ns, struct wire_response *head, struct response_value *value);

/*
 * A PUT that appends or prepends to a large item, in steps: server/store/large.h. Key and value of
 * the request must stay until the end; large_cancel() ends it early. The change and its status are
 * for response_set_change().
 */
void execute_large_begin(struct large *large, struct store_thread *thread,
			 const struct request *request, uint64_t hash);

/* The change that a PUT makes, pulled or not. */
void put_change_init(const struct request *request, struct table_change *change);
/* Fills in the response to a change that has been made, or failed with @status. */
void response_set_change(const struct table_change *change, enum wire_status status,
			 struct wire_response *head);

/*
 * The most buckets looked at for a message's access records, two for each record: a client that
 * makes chains long does not make its messages take long.
 */
#define ACCESS_BUCKETS_MAX (2 * WIRE_ACCESS_MAX)

/* Records the GETs that the client reports with the request, within ACCESS_BUCKETS_MAX. */
void execute_access(struct store_thread *thread, const struct request *request);

/* Whether the response needs a buffer for a value. */
static inline bool response_has_value(const struct request *request)
{
	return request->op == WIRE_GET || request->op == WIRE_SCAN ||
	       (request->op == WIRE_TOUCH && request->flags & WIRE_F_VALUE);
}

#endif /* KVD_SERVER_WORKER_EXECUTE_H */
