/* SPDX-License-Identifier: MIT */
/* memcached's meta commands: see meta.h. */
#include "server/memcached/meta.h"

#include "common/util/base64.h"

static const char bad_line[] = "CLIENT_ERROR bad command line format";

/* The flag's token as a number; false: it is none. */
static bool number_decode(struct mc_command *command, char letter, const struct mc_token *token)
{
	uint64_t flags;

	switch (letter) {
	case 'N':
		return mc_token_signed(token, &command->vivify_exptime);
	case 'T':
		return mc_token_signed(token, &command->exptime);
	case 'R':
		return mc_token_signed(token, &command->recache_exptime);
	case 'C':
		return mc_token_unsigned(token, UINT64_MAX, &command->cas);
	case 'J':
		return mc_token_unsigned(token, UINT64_MAX, &command->initial);
	case 'D':
		return mc_token_unsigned(token, UINT64_MAX, &command->delta);
	default: /* 'F' */
		if (!mc_token_unsigned(token, UINT32_MAX, &flags))
			return false;
		command->client_flags = (uint32_t)flags;
		return true;
	}
}

static const char *number_error(char letter)
{
	switch (letter) {
	case 'D':
		return "CLIENT_ERROR invalid numeric delta value";
	case 'F':
		return bad_line;
	case 'J':
		return "CLIENT_ERROR invalid numeric initial value";
	default:
		return "CLIENT_ERROR bad token in command line format";
	}
}

static bool key_decode(struct mc_command *command)
{
	size_t len;

	if (!base64_decode(command->decoded, &len, (const char *)command->key_text,
			   command->key_text_len))
		return false;
	command->key = command->decoded;
	command->key_len = (uint32_t)len;
	return true;
}

/*
 * Decodes a flag. What is wrong with it goes to *error; false if the flags after it are not looked
 * at. As with memcached the last error is the one that is answered, and F's replaces no other.
 */
static bool flag_decode(struct mc_command *command, const struct mc_token *flag, char *mode,
			const char **error)
{
	const struct mc_token token = { .text = flag->text + 1, .len = flag->len - 1 };
	char letter = (char)*flag->text;

	if (strchr("CDFJNRT", letter)) {
		if (!number_decode(command, letter, &token) && (letter != 'F' || !*error))
			*error = number_error(letter);
	} else if (letter == 'b') {
		if (!key_decode(command))
			*error = "CLIENT_ERROR error decoding key";
	} else if (letter == 'M') {
		if (token.len == 1)
			*mode = (char)*token.text;
		else
			*error = "CLIENT_ERROR incorrect length for M token";
	} else if (letter == 'O') {
		command->opaque = flag->text;
		command->opaque_len = flag->len;
	} else if (!strchr("ILPcfhklqstuv", letter)) {
		*error = "CLIENT_ERROR invalid flag";
		return false;
	}
	command->flag_set |= mc_flag(letter);
	return true;
}

/* Decodes the flags from token @first on; returns what is wrong with them, or NULL. */
static const char *flags_decode(struct mc_command *command, const struct mc_tokens *tokens,
				uint32_t first, char *mode)
{
	const char *error = NULL;

	for (uint32_t i = first; i < tokens->count; i++) {
		uint8_t letter = *tokens->token[i].text;

		/* Bytes beyond ASCII are duplicates, too. */
		if (letter > '~' || (letter >= 'A' && mc_has(command, (char)letter)))
			return "CLIENT_ERROR duplicate flag";
		if (!flag_decode(command, &tokens->token[i], mode, &error))
			return error;
		command->flags[command->flag_count++] = (char)letter;
	}
	return error;
}

/* The mode that flag M asks for; without it the first one. */
static bool put_mode_set(struct mc_command *command, char mode)
{
	static const char letters[] = "SERAP";
	static const uint8_t modes[] = { WIRE_SET, WIRE_ADD, WIRE_REPLACE, WIRE_APPEND,
					 WIRE_PREPEND };
	const char *letter = mode ? strchr(letters, mode) : letters;

	if (!letter)
		return false;
	command->mode = modes[letter - letters];
	if (mc_has(command, 'C') && (command->mode == WIRE_SET || command->mode == WIRE_REPLACE))
		command->mode = WIRE_CAS;
	return true;
}

static bool arith_mode_set(struct mc_command *command, char mode)
{
	command->mode = mode == 'D' || mode == '-' ? WIRE_DECR : WIRE_INCR;
	return !mode || strchr("I+D-", mode);
}

static const char *opaque_check(const struct mc_command *command)
{
	return command->opaque_len > MC_OPAQUE_MAX ? "CLIENT_ERROR opaque token too long" : NULL;
}

static const char *get_decode(struct mc_command *command, const struct mc_tokens *tokens)
{
	const char *error;
	char mode = 0; /* valid as a flag, and says nothing here */

	if (tokens->count > MC_FLAGS_MAX + 2)
		return "CLIENT_ERROR options flags are too long";
	error = flags_decode(command, tokens, 2, &mode);
	return error ? error : opaque_check(command);
}

static const char *put_decode(struct mc_command *command, const struct mc_tokens *tokens)
{
	const char *error;
	uint64_t length;
	char mode = 0;

	if (tokens->count < 3)
		return bad_line;
	if (tokens->count > MC_FLAGS_MAX + 2)
		return "CLIENT_ERROR options flags too long";
	if (!mc_token_unsigned(&tokens->token[2], MC_VALUE_MAX, &length))
		return bad_line;
	command->value_len = (uint32_t)length;
	error = flags_decode(command, tokens, 3, &mode);
	if (!error && !put_mode_set(command, mode))
		error = "CLIENT_ERROR invalid mode for ms M token";
	if (!error)
		error = opaque_check(command);
	if (error)
		command->swallow = command->value_len + 2;
	return error;
}

/* MC_META_DELETE and MC_META_ARITH. */
static const char *change_decode(struct mc_command *command, const struct mc_tokens *tokens)
{
	char mode = 0;

	if (tokens->count > MC_FLAGS_MAX + 2)
		return "CLIENT_ERROR options flags too long";
	command->delta = 1;
	if (flags_decode(command, tokens, 2, &mode))
		return "CLIENT_ERROR invalid or duplicate flag";
	if (command->op == MC_META_ARITH && !arith_mode_set(command, mode))
		return "CLIENT_ERROR invalid mode for ma M token";
	return opaque_check(command);
}

/* Of its flags only b counts, and only as the first. */
static const char *debug_decode(struct mc_command *command, const struct mc_tokens *tokens)
{
	const char *error = NULL;

	if (tokens->count > 2 && mc_token_is(&tokens->token[2], "b"))
		flag_decode(command, &tokens->token[2], NULL, &error);
	return error ? bad_line : NULL;
}

static const char *command_decode(struct mc_command *command, const struct mc_tokens *tokens,
				  uint32_t key_max)
{
	const struct mc_token *key = &tokens->token[1];

	if (tokens->count < 2)
		return command->op == MC_META_DEBUG ? bad_line : "ERROR";
	if (key->len > key_max)
		return bad_line;
	command->key = command->key_text = key->text;
	command->key_len = command->key_text_len = key->len;
	switch (command->op) {
	case MC_META_GET:
		return get_decode(command, tokens);
	case MC_META_PUT:
		return put_decode(command, tokens);
	case MC_META_DEBUG:
		return debug_decode(command, tokens);
	default:
		return change_decode(command, tokens);
	}
}

bool mc_meta_decode(struct mc_command *command, const struct mc_tokens *tokens, uint32_t key_max)
{
	const struct mc_token *name = &tokens->token[0];
	const char *error;

	if (name->len != 2 || name->text[0] != 'm')
		return false;
	switch (name->text[1]) {
	case 'g':
		command->op = MC_META_GET;
		break;
	case 's':
		command->op = MC_META_PUT;
		break;
	case 'd':
		command->op = MC_META_DELETE;
		break;
	case 'a':
		command->op = MC_META_ARITH;
		break;
	case 'n':
		command->op = MC_META_NOOP;
		return true;
	case 'e':
		command->op = MC_META_DEBUG;
		break;
	default:
		return false;
	}
	error = command_decode(command, tokens, key_max);
	if (error)
		mc_refuse(command, error);
	return true;
}
