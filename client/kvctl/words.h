/* SPDX-License-Identifier: MIT */
/*
 * Lines of a script of commands, split to words as redis-cli does it: blanks between words, "..."
 * with \n \r \t \a \b \xHH and \ before any other byte, '...' with \' alone, and # before a comment
 * where a word could begin. A quoted word is never an option.
 */
#ifndef KVD_CLIENT_KVCTL_WORDS_H
#define KVD_CLIENT_KVCTL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORDS_MAX 4096 /* of a line */
/* Stands before each quoted word, so that getopt_long() takes it for none of its options. */
#define WORD_MARK '"'

/* Zero it first. */
struct words {
	char **word; /* with marks; word[0] is the program's name; after the last one NULL */
	char **argv; /* of words_argv() */
	size_t *len; /* words may have zeros in them */
	int count;   /* 1: an empty line, or a comment */
	int room;
};

/*
 * Splits @line, of @len bytes and a zero behind them, in place. NULL, or what is wrong with it, or
 * that there is no memory.
 */
const char *words_split(struct words *words, char *line, size_t len);
/* The words, with marks, in an array that the caller may reorder, until the next call. */
char **words_argv(struct words *words);
void words_release(struct words *words);

/* The word without the mark. */
static inline char *word_text(char *word)
{
	return word + (*word == WORD_MARK);
}

/* Of @text, which is word_text() of one of these; with NULL @words of a string. */
size_t word_len(const struct words *words, const char *text);
bool word_is_quoted(const struct words *words, const char *text);

/* A line of any length up to a limit. Zero it first. */
struct line {
	char *bytes; /* a zero behind them, and no newline */
	size_t len, size;
};

enum line_end { LINE_READ, LINE_TOO_LONG, LINE_NO_MEMORY, LINE_EOF, LINE_ERROR };

/* Where lines come from. Zero it first, but for fd and what is called before each read. */
struct line_input {
	int fd;
	int err; /* errno of a read that failed */
	void (*before_read)(void *arg);
	void *arg;
	size_t at, end;
	char bytes[64u << 10];
};

/* Reads until there is a byte. False: at the end, or it failed, or SIGINT was noted. */
bool line_input_fill(struct line_input *input);

/* Reads the next one; of one that has no place in @max bytes or in memory no more than that. */
enum line_end line_read(struct line *line, struct line_input *input, size_t max);
void line_release(struct line *line);

#endif /* KVD_CLIENT_KVCTL_WORDS_H */
