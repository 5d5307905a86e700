/* SPDX-License-Identifier: MIT */
/* What a request does to the table, and what its response says: neither knows of connections. */
#ifndef KVD_SERVER_NET_EXECUTE_H
#define KVD_SERVER_NET_EXECUTE_H

#include "server/store/store.h"

/* Where what follows the response's header goes. */
struct response_value {
	void *value;
	uint32_t size;
	uint32_t len; /* out */
};

/*
 * Does a GET, PUT, DELETE, ARITH, TOUCH, SCAN or ACCESS that was not pulled, and fills in @head but for
 * op and id. The access records of any request are execute_access()'s. A GET whose value does not fit
 * @value has WIRE_OK, the value's length in @head and nothing in @value: execute_copy() is next.
 */
void execute(struct store_thread *thread, const struct request *request, uint64_t hash,
	     struct wire_response *head, struct response_value *value);

/* Sets a copy of the GET's item aside; see server/store/lookup.h, lookup_copy(). NULL: head->status says why. */
struct item *execute_copy(struct store_thread *thread, const struct request *request, uint64_t hash,
			  uint64_t seed, struct wire_response *head);

/* The change that a PUT, pulled or not, asks for. */
void put_change_init(const struct request *request, struct table_change *change);
/* What a change that was made tells in its response. */
void response_set_change(const struct table_change *change, enum wire_status status,
			 struct wire_response *head);

/* Notes the GETs that the request tells of. */
void execute_access(struct store_thread *thread, const struct request *request);

/* Whether the response to the op needs a buffer. */
static inline bool response_has_value(enum wire_op op)
{
	return op == WIRE_GET || op == WIRE_SCAN;
}

#endif /* KVD_SERVER_NET_EXECUTE_H */
