/* SPDX-License-Identifier: MIT */
/*
 * The text of `stats` of memcached's protocol: what its tools and exporters read, with memcached's
 * names. Left out are statistics of what kvd has not: slab classes of memcached's, LRU lists,
 * crawlers. For the control thread.
 */
#ifndef KVD_SERVER_CONTROL_SESSION_STATS_H
#define KVD_SERVER_CONTROL_SESSION_STATS_H

#include "server/control/net.h"
#include "server/memcached/session.h"

/* Answers the session's query: session->query. */
void session_stats_answer(struct net *net, struct session *session);

#endif /* KVD_SERVER_CONTROL_SESSION_STATS_H */
