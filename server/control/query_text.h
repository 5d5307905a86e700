/* SPDX-License-Identifier: MIT */
/* Texts in the answers of the control thread to queries (server/worker/query.h). */
#ifndef KVD_SERVER_CONTROL_QUERY_TEXT_H
#define KVD_SERVER_CONTROL_QUERY_TEXT_H

#include "server/worker/conn.h"

/* Fills in an answer whose text is @format, cut to the room that there is. */
void query_say(struct query *query, enum wire_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Fills in an answer with what fits of @text, of @bytes bytes, from @at on. Returns where the next
 * part begins; 0: this is the last one.
 */
uint64_t query_page(struct query *query, const char *text, uint64_t bytes, uint64_t at);

#endif /* KVD_SERVER_CONTROL_QUERY_TEXT_H */
