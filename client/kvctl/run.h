/* SPDX-License-Identifier: MIT */
/* Runs commands: each on a handle of its own, or many of them on one. */
#ifndef KVD_CLIENT_KVCTL_RUN_H
#define KVD_CLIENT_KVCTL_RUN_H

#include <stdbool.h>

struct arguments;
struct kvd;
struct words;

/*
 * Runs the command of @arguments, whose connection is open (NULL: it needs none), and writes what
 * it prints. Returns its exit status, after printing why it is not 0.
 */
int run_command(struct kvd *db, const struct arguments *arguments);

/* Opens the connection that the command needs, if any, runs it, and closes it. */
int run_alone(const struct arguments *arguments);

/*
 * Runs the command in argv[1] and what follows, of a line of a script or of somebody who types, on
 * @db, with the server and the options of the connection of @outer, the program's command line; in
 * the line they are errors. argv[0] is anything, and argv[] is reordered. @words: those of argv[],
 * with their lengths. @is_script: the standard input has the lines, so that no value can be read
 * from it. Returns its exit status.
 */
int run_line(struct kvd *db, const struct arguments *outer, bool is_script, int argc, char **argv,
	     const struct words *words);

/*
 * What --help and --version ask for, and not the command, is done if one of them was given. True if
 * so; *@code is the exit status.
 */
bool run_help(const struct arguments *arguments, int *code);

#endif /* KVD_CLIENT_KVCTL_RUN_H */
