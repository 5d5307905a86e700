/* SPDX-License-Identifier: MIT */
/* Executes a command of memcached's protocol and puts its answer into the output. */
#ifndef KVD_SERVER_MEMCACHED_PERFORM_H
#define KVD_SERVER_MEMCACHED_PERFORM_H

#include "server/memcached/action.h"

/*
 * Executes a command other than MC_NONE. @block is the data block of one that has one. @received
 * are the bytes of the command, which stay where they are until it is done. Anything but
 * ACTION_DONE and ACTION_END: call it again with the same command.
 */
enum action_next perform(struct session *session, const struct mc_command *command,
			 const uint8_t *block, uint32_t received, uint64_t until_ns);

/*
 * Refuses a command whose data block is larger than the largest value. As memcached does, a set
 * removes the key: its old value would be taken for the new one.
 */
enum action_next perform_too_large(struct session *session, const struct mc_command *command,
				   uint32_t received, uint64_t until_ns);

/*
 * Begins a command whose data block does not fit the worker's input. @line is the command, of
 * @received bytes. ACTION_DONE: session->put goes on with the block; if there is none, the command
 * is done, and the block must be skipped.
 */
enum action_next perform_large(struct session *session, const struct mc_command *command,
			       const uint8_t *line, uint32_t received, uint64_t until_ns);
/* Goes on with session->put. */
enum action_next perform_block(struct session *session, struct session_input *input,
			       uint64_t until_ns);

/* The command that a session sends has a data block. */
static inline bool perform_has_block(const struct mc_command *command)
{
	return command->op == MC_PUT || command->op == MC_META_PUT;
}

/* The command may be one that changes nothing. */
static inline bool perform_is_read(const struct mc_command *command)
{
	return command->op == MC_GET || command->op == MC_META_GET;
}

#endif /* KVD_SERVER_MEMCACHED_PERFORM_H */
