/* SPDX-License-Identifier: MIT */
/* memcached's classic commands: see classic.h. */
#include "server/memcached/classic.h"

#define ANY UINT8_MAX

/* A command's name, and how many tokens it may have, the name included. */
struct form {
	const char *name;
	uint8_t len, op, mode, min, max;
};

#define FORM(name, ...)                                                                            \
	{                                                                                          \
		name, sizeof(name) - 1, __VA_ARGS__                                                \
	}

/* The frequent ones first. */
static const struct form forms[] = {
	FORM("set", MC_PUT, WIRE_SET, 5, 6),
	FORM("add", MC_PUT, WIRE_ADD, 5, 6),
	FORM("delete", MC_DELETE, 0, 2, 4),
	FORM("incr", MC_ARITH, WIRE_INCR, 3, 4),
	FORM("touch", MC_TOUCH, 0, 3, 4),
	FORM("cas", MC_PUT, WIRE_CAS, 6, 7),
	FORM("replace", MC_PUT, WIRE_REPLACE, 5, 6),
	FORM("append", MC_PUT, WIRE_APPEND, 5, 6),
	FORM("prepend", MC_PUT, WIRE_PREPEND, 5, 6),
	FORM("decr", MC_ARITH, WIRE_DECR, 3, 4),
	FORM("version", MC_VERSION, 0, 1, ANY),
	FORM("stats", MC_STATS, 0, 1, ANY),
	FORM("flush_all", MC_FLUSH, 0, 1, 3),
	FORM("verbosity", MC_VERBOSITY, 0, 2, 3),
	FORM("quit", MC_QUIT, 0, 1, ANY),
	FORM("shutdown", MC_SHUTDOWN, 0, 1, ANY),
};

static const char *key_set(struct mc_command *command, const struct mc_tokens *tokens,
			   uint32_t key_max)
{
	const struct mc_token *key = &tokens->token[1];

	if (key->len > key_max)
		return "CLIENT_ERROR bad command line format";
	command->key = key->text;
	command->key_len = key->len;
	return NULL;
}

static const char *put_decode(struct mc_command *command, const struct mc_tokens *tokens)
{
	const struct mc_token *token = tokens->token;
	uint64_t flags, length;

	if (!mc_token_unsigned(&token[2], UINT32_MAX, &flags) ||
	    !mc_token_signed(&token[3], &command->exptime) ||
	    !mc_token_unsigned(&token[4], MC_VALUE_MAX, &length) ||
	    (command->mode == WIRE_CAS && !mc_token_unsigned(&token[5], UINT64_MAX, &command->cas)))
		return "CLIENT_ERROR bad command line format";
	command->client_flags = (uint32_t)flags;
	command->value_len = (uint32_t)length;
	return NULL;
}

/* Besides the key, 0 is allowed, once a time for which the key was locked. */
static bool delete_is_valid(const struct mc_tokens *tokens, bool noreply)
{
	bool zero = tokens->count > 2 && mc_token_is(&tokens->token[2], "0");

	return tokens->count == 2u + zero + noreply;
}

/* flush_all, flush_all noreply, flush_all TIME, flush_all TIME noreply */
static const char *flush_decode(struct mc_command *command, const struct mc_tokens *tokens)
{
	if (tokens->count != (command->noreply ? 2 : 1) &&
	    !mc_token_signed(&tokens->token[1], &command->exptime))
		return "CLIENT_ERROR invalid exptime argument";
	if (command->exptime < 0)
		command->exptime = 0;
	return NULL;
}

static const char *verbosity_check(const struct mc_tokens *tokens)
{
	uint64_t level;

	return mc_token_unsigned(&tokens->token[1], UINT32_MAX, &level) ?
		       NULL :
		       "CLIENT_ERROR bad command line format";
}

/* What of the tokens is wrong, or NULL. */
static const char *form_decode(struct mc_command *command, const struct mc_tokens *tokens,
			       uint32_t key_max)
{
	const char *error;

	switch (command->op) {
	case MC_PUT:
		error = key_set(command, tokens, key_max);
		return error ? error : put_decode(command, tokens);
	case MC_DELETE:
		if (!delete_is_valid(tokens, command->noreply))
			return "CLIENT_ERROR bad command line format.  "
			       "Usage: delete <key> [noreply]";
		return key_set(command, tokens, key_max);
	case MC_ARITH:
		error = key_set(command, tokens, key_max);
		if (!error && !mc_token_unsigned(&tokens->token[2], UINT64_MAX, &command->delta))
			error = "CLIENT_ERROR invalid numeric delta argument";
		return error;
	case MC_TOUCH:
		error = key_set(command, tokens, key_max);
		if (!error && !mc_token_signed(&tokens->token[2], &command->exptime))
			error = "CLIENT_ERROR invalid exptime argument";
		return error;
	case MC_FLUSH:
		return flush_decode(command, tokens);
	case MC_VERBOSITY:
		return verbosity_check(tokens);
	default:
		return NULL;
	}
}

/* A line of HTTP: a browser that was tricked into it must not send commands in what follows. */
static bool is_http(const struct mc_tokens *tokens)
{
	const struct mc_token *last = &tokens->token[tokens->count - 1];

	return last->len >= 5 && !memcmp(last->text, "HTTP/", 5);
}

static const struct form *form_find(const struct mc_token *name)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (name->len == forms[i].len && !memcmp(name->text, forms[i].name, name->len))
			return &forms[i];
	}
	return NULL;
}

/* Whatever else is wrong: as with memcached, some errors go unanswered. */
static bool noreply_is_set(const struct mc_tokens *tokens, enum mc_op op)
{
	/* A key of that name may be deleted. */
	if (op == MC_DELETE && tokens->count == 2)
		return false;
	return mc_token_is(&tokens->token[tokens->count - 1], "noreply");
}

void mc_classic_decode(struct mc_command *command, const struct mc_tokens *tokens, uint32_t key_max)
{
	const struct form *form = form_find(&tokens->token[0]);
	const char *error;

	if (!form || tokens->count < form->min || tokens->count > form->max) {
		mc_refuse(command, "ERROR");
		if (!form && is_http(tokens)) {
			command->error = NULL;
			command->close = true;
		}
		return;
	}
	command->op = form->op;
	command->mode = form->mode;
	if (form->op == MC_STATS && tokens->count > 1) {
		command->key = tokens->token[1].text;
		command->key_len = tokens->token[1].len;
	}
	command->noreply = form->max != ANY && noreply_is_set(tokens, form->op);
	error = form_decode(command, tokens, key_max);
	if (error)
		mc_refuse(command, error);
}
