/* SPDX-License-Identifier: MIT */
/* Executes memcached's meta commands and answers them. */
#ifndef KVD_SERVER_MEMCACHED_META_RUN_H
#define KVD_SERVER_MEMCACHED_META_RUN_H

#include "server/memcached/action.h"

/* MC_META_GET to MC_META_DEBUG but MC_META_NOOP; as classic_run(). */
enum action_next meta_run(struct session *session, const struct mc_command *command,
			  const uint8_t *block, uint32_t received, uint64_t until_ns);

/* As action_ahead(), for an MC_META_GET, which came in @received bytes. */
bool meta_get_ahead(struct session *session, const struct mc_command *command, uint64_t number,
		    size_t received);

/*
 * The request of MC_META_PUT; it may have to look at the item first, and can't be made if
 * action->head.status is not WIRE_OK then.
 */
void meta_put_request(struct action *action, const uint8_t *block);
/*
 * Before and after the piece of an MC_META_PUT that stores a stale item: MARK-3 in marks.h.
 * @stored: the item has been stored, as action->head says, and is marked.
 */
void meta_stale_begin(struct session *session, uint64_t hash);
void meta_stale_end(struct action *action, unsigned int bits, bool stored);
/* Counts and answers MC_META_PUT, whose request has been executed. */
void meta_put_done(struct action *action);

#endif /* KVD_SERVER_MEMCACHED_META_RUN_H */
