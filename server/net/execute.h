/* SPDX-License-Identifier: MIT */
/*
 * Executes the requests that concern the table, and fills in their responses; knows no connections.
 */
#ifndef KVD_SERVER_NET_EXECUTE_H
#define KVD_SERVER_NET_EXECUTE_H

#include "server/store/store.h"

/* The place for the value that follows a response's header. */
struct response_value {
	void *value;
	uint32_t size;
	uint32_t len; /* out */
};

/*
 * Executes a GET, PUT that is not pulled, DELETE, ARITH or TOUCH, and fills in @head except op, id
 * and clock_ns. A PING or ACCESS has nothing to execute, any other request is WIRE_PROTOCOL;
 * access records, which every request may carry, are for execute_access(). A GET whose value does
 * not fit @value returns WIRE_OK, the value's length in @head and nothing in @value: call
 * execute_copy() next. False: nothing was done. If room_pending(@room), its steps come first, and
 * then the same again; else the key's item is large: begin with execute_large_begin(). @room is
 * that of attempt.h; room_init() before the first call.
 */
bool execute(struct store_thread *thread, const struct request *request, uint64_t hash,
	     struct wire_response *head, struct response_value *value, struct room *room);

/*
 * Executes a SCAN, in the same way, until about @until_ns of clock_ns(): table_scan() in
 * server/store/scan.h.
 */
void execute_scan(struct store_thread *thread, const struct request *request, uint64_t until_ns,
		  struct wire_response *head, struct response_value *value);

/*
 * Makes a copy of the GET's item for the client to READ, with its sum made from @seed:
 * lookup_copy() in server/store/lookup.h. NULL: head->status says why; WIRE_TOO_LARGE: the item is
 * large, or memory is short: begin with execute_large_begin().
 */
struct item *execute_copy(struct store_thread *thread, const struct request *request, uint64_t hash,
			  uint64_t seed, struct wire_response *head);

/* A request on a large item, which is executed in steps: server/store/large.h. */
struct large_request {
	struct large steps; /* steps.copy is a GET's copy, after LARGE_DONE: as execute_copy() */
	uint64_t seed;	    /* of the copy */
	uint64_t touched;   /* the version that a GET with touch has touched; 0: none */
	unsigned int tries; /* of the same */
};

/*
 * A PUT that appends or prepends, or a GET of which the value goes into a copy with @seed.
 * Key and value of the request have to stay until the end; large_cancel(&large->steps) ends it
 * early.
 */
void execute_large_begin(struct large_request *large, struct store_thread *thread,
			 const struct request *request, uint64_t hash, uint64_t seed);
/* One step. Fills in @head when it returns LARGE_DONE. */
enum large_next execute_large_step(struct large_request *large, const struct request *request,
				   uint64_t hash, uint32_t bytes_max, struct wire_response *head);

/* The change that a PUT makes, pulled or not. */
void put_change_init(const struct request *request, struct table_change *change);
/* Fills in the response to a change that has been made, or failed with @status. */
void response_set_change(const struct table_change *change, enum wire_status status,
			 struct wire_response *head);

/* Records the GETs that the client reports with the request. */
void execute_access(struct store_thread *thread, const struct request *request);

/* Whether the response needs a buffer for a value. */
static inline bool response_has_value(enum wire_op op)
{
	return op == WIRE_GET || op == WIRE_SCAN;
}

#endif /* KVD_SERVER_NET_EXECUTE_H */
