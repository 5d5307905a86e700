/* SPDX-License-Identifier: MIT */
/*
 * A parsed command line of kvctl: its command, options and words. Options may stand anywhere; after
 * `--` there are only words. In a line of a script, anything quoted is a word. An option that the
 * command does not take is an error.
 */
#ifndef KVD_CLIENT_KVCTL_ARGUMENTS_H
#define KVD_CLIENT_KVCTL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvctl/table.h"
#include "client/kvd.h"

struct command;
struct words;

/* The value of an option. If the option was given several times, the last one counts. */
struct option_value {
	bool given;
	uint64_t number; /* 0 if it was not given */
	const char *text;
};

struct arguments {
	const struct command *command; /* NULL: none was named */
	char **words;		       /* after the command's name */
	int word_count;
	/* The options by their names: arguments->hex.given. */
#define X(name, letter, long_name, kind, min, max, argument, for_commands, help)                   \
	struct option_value name;
	KVCTL_OPTIONS(X)
#undef X
	const char *server;	    /* the URL to connect to, given or by default */
	struct kvd_options options; /* to connect with */
	/*
	 * The standard input is a script of commands, so no command may read it. Set by the
	 * function that runs the script.
	 */
	bool input_is_script;
	const struct words *line; /* the words of a line, which may have zeros; NULL: strings */
};

/* A row of the table of options. */
struct option_row {
	const char *name; /* of the field */
	int letter;	  /* 0: none */
	const char *long_name;
	enum option_kind kind;
	uint64_t min, max;
	const char *argument; /* "TTL"; "" without one */
	const char *commands; /* that take it */
	const char *help;
	size_t offset; /* of its struct option_value in struct arguments */
};

/* In the order of the table. */
extern const struct option_row option_rows[];
extern const size_t option_row_count;

/* A program's command line, or a line of a script, whose connection is open. */
enum arguments_of { ARGUMENTS_OF_PROGRAM, ARGUMENTS_OF_LINE };

/*
 * Parses argv[1] and what follows, to @arguments. argv[] is reordered, and belongs to @arguments;
 * that of a line is what words_argv() returned (client/kvctl/words.h).
 * Returns EX_OK, also if no command is named; or EX_USAGE after printing what is wrong. With
 * --help or --version nothing but the options' form is checked. Not for several threads.
 */
int arguments_parse(struct arguments *arguments, enum arguments_of of, int argc, char **argv);

/*
 * Prints what is wrong with @word, and how to get the command's help. All errors of usage are
 * printed so. Returns EX_USAGE.
 */
int usage_error(const char *word, const char *what);
/* Prints that @name is no command, and which command may be meant. Returns EX_USAGE. */
int usage_no_command(const char *name);

/*
 * Parsing of words. All return EX_OK and set the value, or EX_USAGE after printing what is wrong.
 * Times: 90, 90s, 5m, 2h, 7d. Sizes: 4096, 64m, 2g.
 */
int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);
int parse_seconds(const char *text, uint64_t min, uint64_t max, uint64_t *seconds);
int parse_ttl(const char *text, uint32_t *seconds);
int parse_bytes(const char *text, uint64_t *bytes);

#endif /* KVD_CLIENT_KVCTL_ARGUMENTS_H */
