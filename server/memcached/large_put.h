/* SPDX-License-Identifier: MIT */
/*
 * A data block that does not fit the worker's input: its item is made first, and the block is
 * received into it. The item enters the table when all has arrived.
 *
 *   LARGE-PUT-1. Unfinished items are within the budget of values that arrive
 *	 (server/worker/budget.h), as those that are READ from clients are: a session asks once its
 *	 command has arrived, waits its turn, and holds memory for one value.
 *   LARGE-PUT-2. A session of whose block no part arrives for server.pull_stall, or not all within
 *	 server.pull_timeout, ends, and its principal is late (BUDGET-4). So slow clients keep
 *	 others waiting no longer than those that serve READs slowly.
 *   LARGE-PUT-3. The item enters the table only after the \r\n that ends the block.
 *   LARGE-PUT-4. A block for another member of the fleet is received into memory outside of the
 *	 store, within the same budget, and sent to that member when all has arrived.
 */
#ifndef KVD_SERVER_MEMCACHED_LARGE_PUT_H
#define KVD_SERVER_MEMCACHED_LARGE_PUT_H

#include "server/memcached/action.h"

/*
 * Begins to store the block of the action's command, whose line is @line, of action->received
 * bytes, MC_BUFFER_MIN at most. @foreign: another member has the key. False: no memory, and nothing
 * was begun.
 */
bool large_put_begin(struct session *session, const struct action *action, const uint8_t *line,
		     bool foreign);
/*
 * Goes on: takes bytes of @input, then receives. ACTION_DONE: @head is the answer to the PUT, or
 * @malformed says that no \r\n ended the block. Anything else as action_run(); ACTION_MORE: the
 * socket has no more.
 */
enum action_next large_put_run(struct session *session, struct session_input *input,
			       struct wire_response *head, bool *malformed, uint64_t until_ns);
/* Whether the request is another one than its command asks for: one whose item is stale. */
bool large_put_is_stale(const struct session *session, uint64_t *hash);
/* Decodes the command anew, after large_put_run() is done, for its answer. */
void large_put_command(const struct session *session, struct mc_command *command);
/* Frees what is left, at any time; what has not arrived of the block must be skipped. */
void large_put_end(struct session *session);

/* Whether a session has a block under way: then large_puts_expire() must be called now and then. */
static inline bool large_puts_any(const struct sockets *sockets)
{
	return !TAILQ_EMPTY(&sockets->puts);
}

/* The next session that has been too slow, or NULL: LARGE-PUT-2. */
struct session *large_puts_expired(struct sockets *sockets, uint64_t now_ns);

#endif /* KVD_SERVER_MEMCACHED_LARGE_PUT_H */
