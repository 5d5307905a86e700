/* SPDX-License-Identifier: MIT */
/* The parser of memcached's text protocol: see parser.h. */
#include "server/memcached/parser.h"

#include "server/memcached/classic.h"
#include "server/memcached/meta.h"

/* The first byte of each request of the binary protocol. */
#define BINARY_MAGIC 0x80

static size_t refuse_and_close(struct mc_command *command, const char *error, size_t used)
{
	mc_refuse(command, error);
	command->close = true;
	return used;
}

/* Drops a line up to its end, if that is there. */
static size_t rest_drop(struct mc_parser *parser, const uint8_t *p, size_t len)
{
	const uint8_t *newline = len ? memchr(p, '\n', len) : NULL;

	parser->state = newline ? MC_LINE_START : MC_LINE_REST;
	return newline ? (size_t)(newline - p) + 1 : len;
}

/* The next key of a get, or its end. */
static size_t key_parse(struct mc_parser *parser, struct mc_command *command, const uint8_t *p,
			size_t len)
{
	struct mc_token key;
	size_t used;
	enum mc_found found = mc_token_find(&key, &used, p, len, parser->key_max);

	if (found == MC_FOUND_PARTIAL)
		return used;
	if (found == MC_FOUND_LONG) {
		mc_refuse(command, "CLIENT_ERROR bad command line format");
	} else if (found == MC_FOUND_END && parser->state == MC_FIRST_KEY) {
		mc_refuse(command, "ERROR");
	} else {
		command->op = MC_GET;
		command->with_cas = parser->with_cas;
		command->with_touch = parser->with_touch;
		command->exptime = parser->exptime;
		command->more = found == MC_FOUND_SPACE;
		if (found != MC_FOUND_END) {
			command->key = key.text;
			command->key_len = key.len;
		}
	}
	if (command->more) {
		parser->state = MC_KEYS;
		return used;
	}
	return used + rest_drop(parser, p + used, len - used);
}

/* Takes the time of a gat at @at. 0: the line is no such one, or its time is not there yet. */
static size_t touch_parse(struct mc_parser *parser, struct mc_command *command, const uint8_t *p,
			  size_t at, size_t len)
{
	struct mc_token time;
	size_t used;
	enum mc_found found = mc_token_find(&time, &used, p + at, len - at, MC_LINE_MAX);

	if (found != MC_FOUND_SPACE && found != MC_FOUND_LAST)
		return 0;
	/* Without a key it is a line with END for an answer. */
	parser->state = MC_KEYS;
	if (!mc_token_signed(&time, &parser->exptime)) {
		mc_refuse(command, "CLIENT_ERROR invalid exptime argument");
		parser->state = MC_LINE_REST;
	}
	return at + used;
}

/*
 * Takes what stands before the keys of a get, gets, gat or gats that begins at @at. 0: the line is
 * none of these, or that is not all there.
 */
static size_t get_parse(struct mc_parser *parser, struct mc_command *command, const uint8_t *p,
			size_t at, size_t len)
{
	size_t name = at + 3;

	if (len - at < 5 || p[at] != 'g' || (p[at + 1] != 'e' && p[at + 1] != 'a') ||
	    p[at + 2] != 't')
		return 0;
	parser->with_cas = p[name] == 's';
	parser->with_touch = p[at + 1] == 'a';
	parser->exptime = 0;
	name += parser->with_cas;
	if (p[name] != ' ')
		return 0;
	if (parser->with_touch)
		return touch_parse(parser, command, p, name, len);
	parser->state = MC_FIRST_KEY;
	return name;
}

static size_t line_parse(struct mc_parser *parser, struct mc_command *command, const uint8_t *p,
			 size_t len)
{
	const uint8_t *newline = memchr(p, '\n', len);
	struct mc_tokens tokens;
	size_t used;

	if (!newline)
		return len <= MC_LINE_MAX ?
			       0 :
			       refuse_and_close(command, "CLIENT_ERROR line too long", len);
	used = (size_t)(newline - p) + 1;
	len = used - 1;
	if (len && p[len - 1] == '\r')
		len--;
	mc_tokens_split(&tokens, p, len);
	if (!tokens.count || tokens.token[0].len < 2)
		mc_refuse(command, "ERROR");
	else if (!mc_meta_decode(command, &tokens, parser->key_max))
		mc_classic_decode(command, &tokens, parser->key_max);
	return used;
}

size_t mc_parse(struct mc_parser *parser, struct mc_command *command, const void *input, size_t len)
{
	const uint8_t *p = input;
	size_t head, begin = 0, line_len = len < MC_BUFFER_MIN ? len : MC_BUFFER_MIN;

	mc_command_clear(command);
	if (!len)
		return 0;
	if (parser->state == MC_LINE_REST)
		return rest_drop(parser, p, len);
	if (parser->state != MC_LINE_START)
		return key_parse(parser, command, p, len);
	if (*p == BINARY_MAGIC)
		return refuse_and_close(command,
					"CLIENT_ERROR the binary protocol is not supported", len);
	while (begin < line_len && p[begin] == ' ')
		begin++;
	head = get_parse(parser, command, p, begin, line_len);
	if (!head)
		return line_parse(parser, command, p, line_len);
	if (parser->state == MC_LINE_REST)
		return head + rest_drop(parser, p + head, len - head);
	return head + key_parse(parser, command, p + head, len - head);
}
