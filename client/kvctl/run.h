/* SPDX-License-Identifier: MIT */
/* Runs commands: each on a handle of its own, or many of them on one. */
#ifndef KVD_CLIENT_KVCTL_RUN_H
#define KVD_CLIENT_KVCTL_RUN_H

#include <stdbool.h>

struct arguments;
struct kvd;
struct words;

/*
 * Runs the command of @arguments on the open connection @db (NULL: it needs none), and flushes its
 * output. Returns its exit status, after printing why it is not 0.
 */
int run_command(struct kvd *db, const struct arguments *arguments);

/* Opens the connection that the command needs, if any, runs it, and closes it. */
int run_alone(const struct arguments *arguments);

/*
 * Runs the command in argv[1] and following, a line of a script or a typed line, on @db. Server and
 * connection options are those of @outer, the program's command line; in the line they are errors.
 * argv[0] is ignored, and argv[] is reordered. @words: the words of argv[], with their lengths.
 * @is_script: lines come from the standard input, so no value can be read from it. Returns the
 * command's exit status.
 */
int run_line(struct kvd *db, const struct arguments *outer, bool is_script, int argc, char **argv,
	     const struct words *words);

/*
 * Handles --help and --version, which replace the command. True: one of them was given, and *@code
 * is the exit status.
 */
bool run_help(const struct arguments *arguments, int *code);

#endif /* KVD_CLIENT_KVCTL_RUN_H */
