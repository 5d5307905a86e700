/* SPDX-License-Identifier: MIT */
/* memcached's meta commands, mg to me, with the flags of memcached 1.6.18, from their tokens. */
#ifndef KVD_SERVER_MEMCACHED_META_H
#define KVD_SERVER_MEMCACHED_META_H

#include "server/memcached/command.h"
#include "server/memcached/tokens.h"

/* @command is clear. False: no meta command has the name. */
bool mc_meta_decode(struct mc_command *command, const struct mc_tokens *tokens, uint32_t key_max);

#endif /* KVD_SERVER_MEMCACHED_META_H */
