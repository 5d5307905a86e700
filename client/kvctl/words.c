/* SPDX-License-Identifier: MIT */
/* Splits lines of a script to words: see words.h. */
#include "client/kvctl/words.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/kvctl/interrupt.h"

#define LINE_BYTES_FIRST 256u
#define WORDS_FIRST 16

/* Where a line is read and written in place; writing is never ahead of reading. */
struct split {
	const char *from, *end;
	char *to;
};

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The byte after a backslash between "...". */
static void take_escape(struct split *split)
{
	static const char names[] = "nrtab", bytes[] = "\n\r\t\a\b";
	const char *at = strchr(names, *split->from);

	if (*split->from == 'x' && isxdigit((unsigned char)split->from[1]) &&
	    isxdigit((unsigned char)split->from[2])) {
		const char digits[] = { split->from[1], split->from[2], '\0' };

		*split->to = (char)strtoul(digits, NULL, 16);
		split->from += 3;
		split->to++;
		return;
	}
	*split->to++ = *split->from && at ? bytes[at - names] : *split->from;
	split->from++;
}

/* The mark of a word takes the place of the quote. */
static const char *take_quoted(struct split *split, bool is_word)
{
	const char quote = *split->from++;

	if (is_word)
		*split->to++ = WORD_MARK;
	for (; split->from < split->end && *split->from != quote;) {
		if (quote == '"' && *split->from == '\\' && split->from + 1 < split->end) {
			split->from++;
			take_escape(split);
		} else {
			if (split->from[0] == '\\' && split->from[1] == '\'')
				split->from++;
			*split->to++ = *split->from++;
		}
	}
	if (split->from == split->end)
		return "a quote is not closed";
	split->from++;
	if (split->from < split->end && !is_blank(*split->from))
		return "no blank after a closing quote";
	return NULL;
}

static const char *take_word(struct split *split)
{
	const char *const start = split->from;

	while (split->from < split->end && !is_blank(*split->from)) {
		if (*split->from == '"' || *split->from == '\'')
			return take_quoted(split, split->from == start);
		*split->to++ = *split->from++;
	}
	return NULL;
}

static bool room_make(struct words *words)
{
	const int room = words->room ? 2 * words->room : WORDS_FIRST;
	char **word;
	size_t *len;

	if (words->count + 1 < words->room)
		return true;
	word = realloc(words->word, (size_t)room * sizeof(*word));
	if (!word)
		return false;
	words->word = word;
	word = realloc(words->argv, (size_t)room * sizeof(*word));
	if (!word)
		return false;
	words->argv = word;
	len = realloc(words->len, (size_t)room * sizeof(*len));
	if (!len)
		return false;
	words->len = len;
	words->room = room;
	return true;
}

const char *words_split(struct words *words, char *line, size_t len)
{
	static char program[] = "kvctl";
	struct split split = { line, line + len, line };
	const char *error = NULL;

	words->count = 0;
	if (!room_make(words))
		return "out of memory";
	words->word[0] = program;
	words->len[0] = sizeof(program) - 1;
	words->count = 1;
	for (;;) {
		while (split.from < split.end && is_blank(*split.from))
			split.from++;
		if (split.from == split.end || *split.from == '#')
			break;
		if (words->count == WORDS_MAX)
			return "too many words";
		if (!room_make(words))
			return "out of memory";
		words->word[words->count] = split.to;
		error = take_word(&split);
		if (error)
			return error;
		words->len[words->count] = (size_t)(split.to -
						    word_text(words->word[words->count]));
		words->count++;
		/* Overwrites the blank, which has been read. */
		split.from += split.from < split.end;
		*split.to++ = '\0';
	}
	words->word[words->count] = NULL;
	return NULL;
}

char **words_argv(struct words *words)
{
	memcpy(words->argv, words->word, ((size_t)words->count + 1) * sizeof(*words->argv));
	return words->argv;
}

void words_release(struct words *words)
{
	free(words->word);
	free(words->argv);
	free(words->len);
	*words = (struct words){ 0 };
}

static int word_find(const struct words *words, const char *text)
{
	for (int i = 0; words && i < words->count; i++)
		if (word_text(words->word[i]) == text)
			return i;
	return -1;
}

size_t word_len(const struct words *words, const char *text)
{
	const int i = word_find(words, text);

	return i < 0 ? strlen(text) : words->len[i];
}

bool word_is_quoted(const struct words *words, const char *text)
{
	const int i = word_find(words, text);

	return i >= 0 && words->word[i] != text;
}

static bool line_grow(struct line *line)
{
	const size_t size = line->size ? 2 * line->size : LINE_BYTES_FIRST;
	char *bytes = realloc(line->bytes, size);

	if (!bytes)
		return false;
	line->bytes = bytes;
	line->size = size;
	return true;
}

static bool is_empty(const struct line_input *input)
{
	return input->at == input->end;
}

bool line_input_fill(struct line_input *input)
{
	ssize_t n = 1;

	while (is_empty(input) && n) {
		if (input->before_read)
			input->before_read(input->arg);
		n = read(input->fd, input->bytes, sizeof(input->bytes));
		if (n < 0 && (errno != EINTR || interrupted())) {
			input->err = errno;
			return false;
		}
		input->at = 0;
		input->end = n > 0 ? (size_t)n : 0;
	}
	return !is_empty(input);
}

/* EOF: at the end, or it failed. */
static int next_byte(struct line_input *input)
{
	if (is_empty(input) && !line_input_fill(input))
		return EOF;
	return (unsigned char)input->bytes[input->at++];
}

enum line_end line_read(struct line *line, struct line_input *input, size_t max)
{
	enum line_end end = LINE_READ;
	int c = '\0';

	line->len = 0;
	if (!line->size && !line_grow(line))
		return LINE_NO_MEMORY;
	while (end == LINE_READ && (c = next_byte(input)) != EOF && c != '\n') {
		if (line->len == max)
			end = LINE_TOO_LONG;
		else if (line->len + 1 == line->size && !line_grow(line))
			end = LINE_NO_MEMORY;
		else
			line->bytes[line->len++] = (char)c;
	}
	line->bytes[line->len] = '\0';
	if (input->err)
		return LINE_ERROR;
	return c == EOF && !line->len && end == LINE_READ ? LINE_EOF : end;
}

void line_release(struct line *line)
{
	free(line->bytes);
	*line = (struct line){ 0 };
}
