/* SPDX-License-Identifier: MIT */
/* Executes memcached's classic commands that concern keys, and answers them. */
#ifndef KVD_SERVER_MEMCACHED_CLASSIC_RUN_H
#define KVD_SERVER_MEMCACHED_CLASSIC_RUN_H

#include "server/memcached/action.h"

/*
 * A command on a key, MC_GET to MC_TOUCH. @block is the data block of MC_PUT. @received are the
 * bytes of the command, which stay where they are until it is done.
 */
enum action_next classic_run(struct session *session, const struct mc_command *command,
			     const uint8_t *block, uint32_t received, uint64_t until_ns);

/* As action_ahead(), for an MC_GET with a key, which came in @received bytes. */
bool classic_get_ahead(struct session *session, const struct mc_command *command, uint64_t number,
		       size_t received);

/* The request of MC_PUT. */
void classic_put_request(struct request *request, const struct mc_command *command,
			 const uint8_t *block);
/* Counts and answers MC_PUT, whose request has been executed. */
void classic_put_done(struct action *action);

#endif /* KVD_SERVER_MEMCACHED_CLASSIC_RUN_H */
