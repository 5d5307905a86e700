/* SPDX-License-Identifier: MIT */
/* Feeds bytes to the parser of memcached's protocol: see mc_feed.h. */
#include "tests/support/mc_feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/memcached/parser.h"

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void print_bytes(FILE *out, const char *name, const uint8_t *bytes, uint32_t len)
{
	fprintf(out, " %s", name);
	for (uint32_t i = 0; i < len; i++)
		fprintf(out, bytes[i] > ' ' && bytes[i] <= '~' ? "%c" : "\\%02x", bytes[i]);
}

static void print_refusal(FILE *out, const struct mc_command *command)
{
	fprintf(out, "! %s", command->error ? command->error : "-");
	if (command->noreply)
		fputs(" (noreply)", out);
	if (command->swallow)
		fprintf(out, " (swallow %" PRIu32 ")", command->swallow);
	if (command->close)
		fputs(" (close)", out);
}

/* What differs from the value that it has where it was not sent. */
static void print_meta(FILE *out, const struct mc_command *command)
{
	fprintf(out, " %.*s", (int)command->flag_count, command->flags);
	for (uint32_t i = 0; i < command->flag_count; i++)
		must(mc_has(command, command->flags[i]));
	if (command->key_text)
		print_bytes(out, "text=", command->key_text, command->key_text_len);
	if (command->opaque)
		print_bytes(out, "opaque=", command->opaque, command->opaque_len);
	if (command->initial)
		fprintf(out, " initial=%" PRIu64, command->initial);
	if (command->vivify_exptime)
		fprintf(out, " vivify=%" PRId64, command->vivify_exptime);
	if (command->recache_exptime)
		fprintf(out, " recache=%" PRId64, command->recache_exptime);
}

static void print_command(FILE *out, const struct mc_command *command)
{
	static const char *const names[] = {
		"none",	 "refused", "get",     "put",	    "delete", "arith",	  "touch",
		"flush", "stats",   "version", "verbosity", "quit",   "shutdown", "mg",
		"ms",	 "md",	    "ma",      "mn",	    "me",
	};

	if (command->op == MC_REFUSED) {
		print_refusal(out, command);
		return;
	}
	fputs(names[command->op], out);
	if (command->mode)
		fprintf(out, ":%u", command->mode);
	if (command->key)
		print_bytes(out, "", command->key, command->key_len);
	if (command->exptime || command->with_touch)
		fprintf(out, " t%" PRId64, command->exptime);
	if (command->op == MC_PUT || command->op == MC_META_PUT)
		fprintf(out, " f%" PRIu32 " n%" PRIu32, command->client_flags, command->value_len);
	if (command->cas || command->with_cas)
		fprintf(out, " cas%" PRIu64, command->cas);
	if (command->op == MC_ARITH || command->op == MC_META_ARITH)
		fprintf(out, " d%" PRIu64, command->delta);
	if (command->op >= MC_META_GET)
		print_meta(out, command);
	fputs(command->noreply ? " noreply" : command->more ? " +" : "", out);
}

/* How many bytes after a command are no command. */
static size_t block_len(const struct mc_command *command)
{
	if (command->op == MC_PUT || command->op == MC_META_PUT)
		return (size_t)command->value_len + 2;
	return command->swallow;
}

/* Parses one command; returns what the parser does. */
static size_t feed_one(struct mc_parser *parser, const uint8_t *text, size_t len, FILE *out,
		       size_t *block, bool *close)
{
	/* Not read before the parser has filled it in. */
	struct mc_command *command = malloc(sizeof(*command));
	uint8_t *copy = malloc(len ? len : 1);
	size_t used;

	must(command && copy);
	memcpy(copy, text, len);
	used = mc_parse(parser, command, copy, len);
	must(used <= len && !memcmp(copy, text, len));
	*block = 0;
	if (used && command->op != MC_NONE) {
		print_command(out, command);
		fputc(';', out);
		*block = block_len(command);
		*close = command->close;
	}
	free(copy);
	free(command);
	return used;
}

char *mc_feed(const uint8_t *text, size_t len, size_t first, size_t step, uint32_t key_max)
{
	struct mc_parser parser = { .key_max = key_max };
	size_t at = 0, have = first, size, block;
	char *printed = NULL;
	bool close = false;
	FILE *out = open_memstream(&printed, &size);

	must(out && step);
	while (!close) {
		size_t used = at < have ?
				      feed_one(&parser, text + at, have - at, out, &block, &close) :
				      0;

		if (used) {
			at += used + block;
			continue;
		}
		/* A session's buffer need not be larger. */
		must(at >= have || have - at < MC_BUFFER_MIN);
		if (have == len)
			break;
		have = len - have > step ? have + step : len;
	}
	fclose(out);
	return printed;
}
