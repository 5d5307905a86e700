/* SPDX-License-Identifier: MIT */
/*
 * What commands of memcached's protocol have in common: each becomes a request, which enters the
 * execution of all requests (server/worker/execution.h). All functions are the worker's.
 */
#ifndef KVD_SERVER_MEMCACHED_ACTION_H
#define KVD_SERVER_MEMCACHED_ACTION_H

#include "server/memcached/next.h"
#include "server/memcached/output.h"

/* A request of a session, and what came of it. */
struct action {
	struct session *session;
	const struct mc_command *command;
	struct request request;
	uint64_t hash;	   /* of the key */
	uint32_t received; /* bytes of the command */
	uint64_t until_ns; /* of clock_ns(): when the turn should end */
	/*
	 * The command asks for what only the key's own member can do; others are not asked for
	 * it: its status is WIRE_MOVED if the key is not here.
	 */
	bool only_here;
	unsigned int stage; /* of requests that another member has answered */
	unsigned int paid;  /* stages that were admitted before */
	/* Results. */
	struct wire_response head; /* its status other than WIRE_OK: refused, or failed */
	/* A value that was read; it is in the worker's output, held by session->get, or `large`. */
	uint32_t gap;  /* bytes before it */
	bool no_value; /* action_read() reads no value: its length is a result all the same */
	bool foreign;  /* another member has answered: the item is not here */
	struct forward *large;
};

/* Fills in the session, the command and the key of its request, and what waits for that. */
void action_init(struct action *action, struct session *session, const struct mc_command *command,
		 enum wire_op op, uint32_t received, uint64_t until_ns);

/*
 * Whether the client may make the request, and this server may execute it: WIRE_OK, or why not;
 * WIRE_MOVED, unless only_here: another member has the key. It is charged for what it asks. Pieces
 * of a command that was admitted are admitted by the fleet again (OWNER-1).
 */
enum wire_status action_admit(const struct action *action);

/* The time to live that the command's @exptime means now, as mc_ttl(). */
int64_t action_ttl(int64_t exptime);

/*
 * Executes the request, or has another member execute it: then it waits, and all of the command is
 * run again, with what was answered. ACTION_DONE: action->head says what came of it. What it needs
 * between two turns is in session->work, and session->forwards.
 */
enum action_next action_run(struct action *action);

/*
 * Executes the request, a GET or a TOUCH with VALUE, and reads the value, with a gap of @gap bytes
 * before it for the line that action_send_value() puts there.
 */
enum action_next action_read(struct action *action, uint32_t gap);
/* Sends the value that was read, after @line; then @tail, if it is not NULL, and its end. */
enum action_next action_send_value(struct action *action, const char *line, uint32_t line_len,
				   const char *tail);

/*
 * Asks another member for the key of a read, which is command @number of the session, if it has it
 * and there is room. False: look at no further command.
 */
bool action_ahead(struct action *action, uint64_t number);

/* The request is a PUT of a value that is too large: if it may be made, a SET removes the key. */
enum action_next action_too_large(struct action *action);

/* Removes the item of the result, if it is still that version. The result stays. */
enum action_next action_expire(struct action *action);

/* Counts the request, with the status that its command has ended with: server/worker/commands.h. */
void action_count(const struct action *action);
/* Counts a PUT, or an ARITH that found its item or did not, by the result. */
void action_count_put(const struct action *action);
void action_count_arith(const struct action *action);

/* Sends a line in answer, unless the command wants none. */
void action_answer(const struct action *action, const char *line);
/* Sends the line of an error that head.status is, and that is no answer of its command. */
void action_refuse(const struct action *action);

/* Ends what the session has between two turns. */
void action_cancel(struct session *session);

#endif /* KVD_SERVER_MEMCACHED_ACTION_H */
