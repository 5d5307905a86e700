/* SPDX-License-Identifier: MIT */
/* Reads that follow the session's current one in its input go to other members at once with it. */
#ifndef KVD_SERVER_MEMCACHED_FORWARD_AHEAD_H
#define KVD_SERVER_MEMCACHED_FORWARD_AHEAD_H

#include "server/memcached/session.h"

/*
 * The current command @first, a get, waits for another member, and @parser has taken it. Asks for
 * the keys of the gets after it, of the @len bytes at @input, that belong to others, too: as far as
 * there is room, and nothing else is in between.
 */
void forward_ahead(struct session *session, const struct mc_command *first, struct mc_parser parser,
		   const uint8_t *input, size_t len, uint64_t until_ns);

#endif /* KVD_SERVER_MEMCACHED_FORWARD_AHEAD_H */
