/* SPDX-License-Identifier: MIT */
/* The commands of kvctl as rows of an array, made from the table (client/kvctl/table.h). */
#ifndef KVD_CLIENT_KVCTL_COMMAND_H
#define KVD_CLIENT_KVCTL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "client/kvctl/table.h"

struct kvd;
struct arguments;

enum command_group {
#define X(name, heading) GROUP_##name,
	KVCTL_GROUPS(X)
#undef X
};

struct command {
	const char *name;
	const char *aliases; /* "delete unlink"; "" without any */
	enum command_group group;
	const char *words; /* "KEY [VALUE]" */
	int words_min, words_max;
	unsigned int kind; /* COMMAND_... */
	/*
	 * @db is open, or NULL for a COMMAND_LOCAL. Returns an exit status, after printing why it
	 * is not 0. It may be called any number of times in a process, on one handle.
	 */
	int (*run)(struct kvd *db, const struct arguments *arguments);
	const char *help;
};

#define X(name, aliases, group, words, min, max, kind, help)                                       \
	int command_##name(struct kvd *db, const struct arguments *arguments);
KVCTL_COMMANDS(X)
#undef X

/* In the order of the table. */
extern const struct command commands[];
extern const size_t command_row_count;

/* Finds a command by its name or an alias, in upper or lower case. NULL: there is none. */
const struct command *command_find(const char *name);

/* Longest text that command_advise() writes, its zero included. */
#define COMMAND_ADVICE_BYTES 128
/*
 * What to use in place of @name, which is no command: a command that does the same, or one with a
 * similar name. "" if there is none.
 */
void command_advise(char advice[COMMAND_ADVICE_BYTES], const char *name);

/*
 * Whether @names (separated by blanks, or FOR_ALL or FOR_CONNECTION) includes @command. If @command
 * is NULL: whether an option for @names can be given without a command.
 */
bool command_is_among(const struct command *command, const char *names);

#endif /* KVD_CLIENT_KVCTL_COMMAND_H */
