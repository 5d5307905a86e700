/* SPDX-License-Identifier: MIT */
#include "server/memcached/login.h"

#include <string.h>

#include "common/util/secret.h"
#include "common/util/stat.h"
#include "server/memcached/tokens.h"

/* The tokens of the line: set KEY FLAGS EXPTIME LENGTH. More may follow. */
#define TOKENS_MIN 5
#define TOKEN_LENGTH 4
#define LENGTH_MAX UINT32_MAX

static size_t line_length(const uint8_t *line, size_t len)
{
	return len && line[len - 1] == '\r' ? len - 1 : len;
}

/* False: the line is no command that authenticates. */
static bool line_decode(const uint8_t *line, size_t len, uint64_t *block_len)
{
	struct mc_tokens tokens;

	mc_tokens_split(&tokens, line, line_length(line, len));
	return tokens.count >= TOKENS_MIN && mc_token_is(&tokens.token[0], "set") &&
	       mc_token_unsigned(&tokens.token[TOKEN_LENGTH], LENGTH_MAX, block_len);
}

static enum action_next answer(struct session *session, const char *line)
{
	output_line(session->sockets, line);
	return ACTION_DONE;
}

static enum action_next broken(struct session *session)
{
	(void)client_ends(&session->client, CLIENT_PROTOCOL);
	return ACTION_END;
}

static void token_copy(char *to, const struct mc_token *token)
{
	memcpy(to, token->text, token->len);
	to[token->len] = '\0';
}

/* Asks the control thread, once what was answered before is sent: LOGIN-2. */
static enum action_next ask(struct session *session, const struct mc_tokens *tokens)
{
	if (!output_send(session))
		return ACTION_CLOGGED;
	session->login = secret_alloc(sizeof(*session->login));
	if (!session->login)
		return answer(session, "SERVER_ERROR out of memory");
	token_copy(session->login->user, &tokens->token[0]);
	token_copy(session->login->password, &tokens->token[1]);
	session->ask = SESSION_ASKED;
	session_note_send(session, session->client.worker->env->control, NOTE_SESSION_ASKS);
	return ACTION_WAIT;
}

static enum action_next answered(struct session *session)
{
	struct mc_counters *counters = session_counters(session);

	session->ask = SESSION_ASKS_NOTHING;
	stat_add(&counters->auth_cmds, 1);
	stat_add(&counters->auth_errors, session->locked);
	output_line(session->sockets, session->login->line);
	login_release(session);
	return ACTION_DONE;
}

/* The block has arrived, with the two bytes that end it. */
static enum action_next block_run(struct session *session, const uint8_t *block, size_t len)
{
	struct mc_tokens tokens;

	if (session->ask == SESSION_ASKED)
		return ACTION_WAIT;
	if (session->ask == SESSION_ANSWERED)
		return answered(session);
	if (memcmp(block + len, "\r\n", 2) != 0)
		return answer(session, "CLIENT_ERROR bad command line termination");
	mc_tokens_split(&tokens, block, len);
	if (tokens.count < 2)
		return answer(session, "CLIENT_ERROR bad authentication token format");
	return ask(session, &tokens);
}

enum action_next login_run(struct session *session, struct session_input *input)
{
	const uint8_t *line = input->bytes + input->at, *newline;
	size_t left = input->len - input->at, used;
	enum action_next next;
	uint64_t block_len;

	newline = memchr(line, '\n', left < MC_BUFFER_MIN ? left : MC_BUFFER_MIN);
	if (!newline && left < MC_BUFFER_MIN)
		return ACTION_MORE;
	if (!newline)
		return broken(session);
	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	used = (size_t)(newline - line) + 1;
	if (!line_decode(line, used - 1, &block_len)) {
		input->at += (uint32_t)used;
		return answer(session, "CLIENT_ERROR unauthenticated");
	}
	if (block_len > LOGIN_BLOCK_MAX) {
		output_line(session->sockets, "CLIENT_ERROR authentication token is too long");
		return broken(session);
	}
	if (left < used + block_len + 2)
		return ACTION_MORE;
	next = block_run(session, line + used, block_len);
	if (next == ACTION_DONE)
		input->at += (uint32_t)(used + block_len + 2);
	return next;
}

void login_wipe(void *input, size_t bytes)
{
	explicit_bzero(input, bytes);
}

void login_release(struct session *session)
{
	secret_free(session->login, sizeof(*session->login));
	session->login = NULL;
}
