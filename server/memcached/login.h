/* SPDX-License-Identifier: MIT */
/*
 * Authentication of a session, as memcached's option -Y has it: the client's first command is a
 * `set` of any key, whose data block is "USER PASSWORD". Before that succeeds all other commands
 * are refused.
 *
 *   LOGIN-1. A session that is `locked` executes nothing: serve.c gives its input to login_run()
 *	 alone, and its user has no right.
 *   LOGIN-2. The control thread decides (server/control/logins.h). While it is asked it owns the
 *	 session's client: its tenant, account, principal and user may be others when it answers.
 *	 So the session's output is empty before it asks, and nothing counts for it meanwhile.
 *   LOGIN-3. A password is in memory that no core dump contains, or is overwritten at the end of
 *	 the turn: the worker's input while its sessions are locked.
 */
#ifndef KVD_SERVER_MEMCACHED_LOGIN_H
#define KVD_SERVER_MEMCACHED_LOGIN_H

#include "server/memcached/action.h"
#include "server/users/user.h"

/* The longest data block of a session that is locked, as of memcached's. */
#define LOGIN_BLOCK_MAX 2048u
/* The longest answer, with a zero. */
#define LOGIN_LINE_BYTES 192

/* What the control thread is asked: of secret_alloc(). */
struct login {
	char user[LOGIN_BLOCK_MAX + 1];
	char password[LOGIN_BLOCK_MAX + 1];
	/* The answer; of a session that is `locked` still, it refuses. */
	char line[LOGIN_LINE_BYTES];
	TAILQ_ENTRY(session) source_entry; /* in the sessions of session->source */
};

/* Takes the next command of a session that is locked; or, with an answer, has taken it. */
enum action_next login_run(struct session *session, struct session_input *input);
/* Whether the next command is login_run()'s. */
static inline bool login_due(const struct session *session)
{
	return session->login || session->locked;
}

/* Overwrites @bytes at @input, which may hold a password. */
void login_wipe(void *input, size_t bytes);
/* Frees what the session asked. */
void login_release(struct session *session);

#endif /* KVD_SERVER_MEMCACHED_LOGIN_H */
