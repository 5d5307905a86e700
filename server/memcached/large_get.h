/* SPDX-License-Identifier: MIT */
/*
 * A value that does not fit the worker's output: it is sent from its item, in pieces of the
 * worker's turns, without a copy (server/store/hold.h), and its client gets all of one version.
 */
#ifndef KVD_SERVER_MEMCACHED_LARGE_GET_H
#define KVD_SERVER_MEMCACHED_LARGE_GET_H

#include "server/memcached/next.h"
#include "server/memcached/output.h"

/*
 * Holds the value of the item @ref of the key, which was found in this turn. False: no memory; or,
 * with *@waits, the session waits for its part of memcached.output (SESSION-4).
 */
bool large_get_hold(struct session *session, const struct mc_command *command, uint64_t hash,
		    const struct item_ref *ref, bool *waits);
/* Sends it from the next piece on: after the output before it comes @line, last comes @tail. */
void large_get_begin(struct session *session, const char *line, uint32_t line_len,
		     const char *tail);
/* Whether it is being sent: then nothing else is, before it is done. */
bool large_get_begun(const struct session *session);
/* A piece: ACTION_DONE, ACTION_AGAIN or ACTION_CLOGGED. */
enum action_next large_get_run(struct session *session, uint64_t until_ns);
/* Lets go of the value, at any time. */
void large_get_end(struct session *session);

#endif /* KVD_SERVER_MEMCACHED_LARGE_GET_H */
