/* SPDX-License-Identifier: MIT */
/* Executes memcached's meta commands and answers them. */
#ifndef KVD_SERVER_MEMCACHED_META_RUN_H
#define KVD_SERVER_MEMCACHED_META_RUN_H

#include "server/memcached/action.h"

/* MC_META_GET to MC_META_DEBUG but MC_META_NOOP; as classic_run(). */
enum action_next meta_run(struct session *session, const struct mc_command *command,
			  const uint8_t *block, uint32_t received, uint64_t until_ns);

/*
 * The request of MC_META_PUT; it may have to look at the item first, and can't be made if
 * action->head.status is not WIRE_OK then.
 */
void meta_put_request(struct action *action, const uint8_t *block);
/* Counts and answers MC_META_PUT, whose request has been executed. */
void meta_put_done(struct action *action);

#endif /* KVD_SERVER_MEMCACHED_META_RUN_H */
