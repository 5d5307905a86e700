/* SPDX-License-Identifier: MIT */
/* The control thread's half of HELLO, CLIENTS, KILL, SHUTDOWN, WHOAMI, REPORT: query.h. */
#ifndef KVD_SERVER_CONTROL_QUERY_ANSWER_H
#define KVD_SERVER_CONTROL_QUERY_ANSWER_H

#include "server/control/net.h"

/* Slots of the registry that one CLIENTS looks at. */
#define QUERY_SLOTS_MAX 1024

/*
 * Fills in the answer to the query of @conn; an allowed SHUTDOWN sets net->stop_asked. Returns the
 * connection that it closes, or NULL; the caller closes it.
 */
struct client *query_answer(struct net *net, struct conn *conn);

#endif /* KVD_SERVER_CONTROL_QUERY_ANSWER_H */
