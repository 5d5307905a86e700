/* SPDX-License-Identifier: MIT */
/* memcached's classic commands but get, gets, gat and gats, from their tokens. */
#ifndef KVD_SERVER_MEMCACHED_CLASSIC_H
#define KVD_SERVER_MEMCACHED_CLASSIC_H

#include "server/memcached/command.h"
#include "server/memcached/tokens.h"

/* @command is clear, and there is a token at least. */
void mc_classic_decode(struct mc_command *command, const struct mc_tokens *tokens,
		       uint32_t key_max);

#endif /* KVD_SERVER_MEMCACHED_CLASSIC_H */
