/* SPDX-License-Identifier: MIT */
/*
 * Splits lines of a script of commands into words as redis-cli does: blanks between words, "..."
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
	char **argv; /* the result of words_argv() */
	size_t *len; /* words may have zeros in them */
	int count;   /* 1: an empty line, or a comment */
	int room;
};

/*
 * Splits @line, of @len bytes and a terminating zero, in place. Returns NULL, or what is wrong with
 * the line, or that there is no memory.
 */
const char *words_split(struct words *words, char *line, size_t len);
/* The words, with marks, in an array that the caller may reorder; valid until the next call. */
char **words_argv(struct words *words);
void words_release(struct words *words);

/* The word without the mark. */
static inline char *word_text(char *word)
{
	return word + (*word == WORD_MARK);
}

/* Length and quoting of @text, the word_text() of one of @words; with NULL @words, a string. */
size_t word_len(const struct words *words, const char *text);
bool word_is_quoted(const struct words *words, const char *text);

/* A line of any length up to a limit. Zero it first. */
struct line {
	char *bytes; /* terminated by a zero, without the newline */
	size_t len, size;
};

enum line_end { LINE_READ, LINE_TOO_LONG, LINE_NO_MEMORY, LINE_EOF, LINE_ERROR };

/* The source of lines. Zero it first, then set fd and, if wanted, before_read and arg. */
struct line_input {
	int fd;
	int err; /* errno of a read that failed */
	void (*before_read)(void *arg);
	void *arg;
	size_t at, end;
	char bytes[64u << 10];
};

/* Reads until there is a byte. False: the end, an error, or a noted SIGINT. */
bool line_input_fill(struct line_input *input);

/* Reads the next line, and no more of it than @max bytes or than fit in memory. */
enum line_end line_read(struct line *line, struct line_input *input, size_t max);
void line_release(struct line *line);

#endif /* KVD_CLIENT_KVCTL_WORDS_H */
