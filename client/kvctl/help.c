/* SPDX-License-Identifier: MIT */
/* Prints the help: see help.h. */
#include "client/kvctl/help.h"

#include <stdbool.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"

#define COLUMNS 80
#define HELP_COLUMN 25 /* where the texts begin */

/* @text in lines that begin at HELP_COLUMN; the first one at @column, or on a line of its own. */
static void print_wrapped(FILE *out, int column, const char *text)
{
	if (column >= HELP_COLUMN) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", HELP_COLUMN - column - 1, "");
	column = HELP_COLUMN - 1;
	while (*text) {
		const int len = (int)strcspn(text, " ");

		if (column >= HELP_COLUMN && column + 1 + len > COLUMNS) {
			fprintf(out, "\n%*s", HELP_COLUMN - 1, "");
			column = HELP_COLUMN - 1;
		}
		column += fprintf(out, " %.*s", len, text);
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void print_command(FILE *out, const struct command *command)
{
	const char *words = command->words;
	int column = fprintf(out, "  %s%s%s", command->name, *words ? " " : "", words);

	if (*command->aliases) {
		char text[1000];

		snprintf(text, sizeof(text), "%s (also: %s)", command->help, command->aliases);
		print_wrapped(out, column, text);
	} else {
		print_wrapped(out, column, command->help);
	}
}

/* @with_commands: the text of an option of certain commands begins with their names. */
static void print_option(FILE *out, const struct option_row *row, bool with_commands)
{
	char text[1000];
	int column;

	column = row->letter ? fprintf(out, "  -%c, --%s", row->letter, row->long_name) :
			       fprintf(out, "      --%s", row->long_name);
	if (*row->argument)
		column += fprintf(out, " %s", row->argument);
	if (!with_commands || !*row->commands || strchr(FOR_ALL FOR_CONNECTION, *row->commands)) {
		print_wrapped(out, column, row->help);
		return;
	}
	snprintf(text, sizeof(text), "[%s] %s", row->commands, row->help);
	print_wrapped(out, column, text);
}

static void print_statuses(FILE *out)
{
	fputs("\nExit status:\n", out);
#define X(number, text) print_wrapped(out, fprintf(out, "  %d", number), text);
	KVCTL_STATUSES(X)
#undef X
}

static void print_group(FILE *out, enum command_group group, const char *heading)
{
	fprintf(out, "\n%s:\n", heading);
	for (size_t i = 0; i < command_row_count; i++)
		if (commands[i].group == group)
			print_command(out, &commands[i]);
}

void help_print(FILE *out)
{
	fputs("Usage: kvctl [-a URL] [OPTION]... COMMAND [WORD]...\n"
	      "\n"
	      "Reads and changes keys of a kvd server, and shows what it does. Options may\n"
	      "stand anywhere; what follows -- is no option.\n",
	      out);
#define X(name, heading) print_group(out, GROUP_##name, heading);
	KVCTL_GROUPS(X)
#undef X
	fputs("\nOptions, and the commands that take them, if not all do:\n", out);
	for (size_t i = 0; i < option_row_count; i++)
		print_option(out, &option_rows[i], true);
	print_statuses(out);
}

void help_print_command(FILE *out, const struct command *command)
{
	fprintf(out, "Usage: kvctl [OPTION]... %s%s%s\n\n", command->name,
		*command->words ? " " : "", command->words);
	print_command(out, command);
	fputs("\nOptions:\n", out);
	for (size_t i = 0; i < option_row_count; i++)
		if (command_is_among(command, option_rows[i].commands))
			print_option(out, &option_rows[i], false);
	print_statuses(out);
}

void help_print_brief(FILE *out, const struct command *command)
{
	print_command(out, command);
	for (size_t i = 0; i < option_row_count; i++)
		if (!strchr(FOR_ALL FOR_CONNECTION, *option_rows[i].commands) &&
		    command_is_among(command, option_rows[i].commands))
			print_option(out, &option_rows[i], false);
}

int command_help(struct kvd *db, const struct arguments *arguments)
{
	const struct command *command;

	(void)db;
	if (!arguments->word_count) {
		help_print(stdout);
		return EX_OK;
	}
	command = command_find(arguments->words[0]);
	if (!command)
		return usage_no_command(arguments->words[0]);
	if (arguments->line)
		help_print_brief(stdout, command);
	else
		help_print_command(stdout, command);
	return EX_OK;
}
