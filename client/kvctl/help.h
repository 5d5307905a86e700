/* SPDX-License-Identifier: MIT */
/* The help texts of kvctl, made from its tables (client/kvctl/table.h). */
#ifndef KVD_CLIENT_KVCTL_HELP_H
#define KVD_CLIENT_KVCTL_HELP_H

#include <stdio.h>

struct command;

/* All commands, options and exit statuses. */
void help_print(FILE *out);
/* One command, and the options that it takes. */
void help_print_command(FILE *out, const struct command *command);
/* As help_print_command(), but without the options that choose the connection. */
void help_print_brief(FILE *out, const struct command *command);

#endif /* KVD_CLIENT_KVCTL_HELP_H */
