/* SPDX-License-Identifier: MIT */
/* Scripts of commands on the standard input: one command a line (client/kvctl/words.h). */
#ifndef KVD_CLIENT_KVCTL_SCRIPT_H
#define KVD_CLIENT_KVCTL_SCRIPT_H

#include <stdbool.h>

struct arguments;

/*
 * Runs all lines, even if some fail, on one handle, opened as @arguments say. With --pipe many
 * changes are under way at once, and a summary is printed at the end. Returns the exit status of
 * the first line that failed. Unless NULL, *@is_empty is set if there was no line at all; then
 * nothing was done.
 */
int script_run(const struct arguments *arguments, bool *is_empty);

#endif /* KVD_CLIENT_KVCTL_SCRIPT_H */
