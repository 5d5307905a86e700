/* SPDX-License-Identifier: MIT */
/* kvctl completion: scripts by which bash and zsh complete kvctl's commands and options. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"

static void print_commands(void)
{
	for (size_t i = 0; i < command_row_count; i++)
		printf("%s%s", i ? " " : "", commands[i].name);
}

/* With NULL @command, prints the options that can be given before a command is named. */
static void print_options(const struct command *command)
{
	bool blank = false;

	for (size_t i = 0; i < option_row_count; i++) {
		if (!command_is_among(command, option_rows[i].commands))
			continue;
		printf("%s--%s", blank ? " " : "", option_rows[i].long_name);
		blank = true;
	}
}

/* The options that take an argument, as a pattern of the shell. */
static void print_with_argument(bool files)
{
	bool bar = false;

	for (size_t i = 0; i < option_row_count; i++) {
		const struct option_row *row = &option_rows[i];

		if (row->kind == OPTION_FLAG || (files && row->kind != OPTION_FILE))
			continue;
		printf("%s--%s", bar ? "|" : "", row->long_name);
		if (row->letter)
			printf("|-%c", row->letter);
		bar = true;
	}
}

/*
 * Prints the function that both shells run (zsh through its bashcompinit). It completes word
 * number COMP_CWORD of the line's words, COMP_WORDS[], to COMPREPLY[].
 */
static void print_function(void)
{
	fputs("_kvctl() {\n"
	      "	local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "	local command= word skip= options=\n"
	      "	COMPREPLY=()\n"
	      "	case $before in\n"
	      "	",
	      stdout);
	print_with_argument(true);
	fputs(") COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n	", stdout);
	print_with_argument(false);
	fputs(") return ;;\n"
	      "	esac\n"
	      "	for word in \"${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}\"; do\n"
	      "		[ -z \"$skip\" ] || { skip=; continue; }\n"
	      "		case $word in\n"
	      "		",
	      stdout);
	print_with_argument(false);
	fputs(") skip=1 ;;\n"
	      "		-*) ;;\n"
	      "		*) command=$word; break ;;\n"
	      "		esac\n"
	      "	done\n"
	      "	case $command in\n",
	      stdout);
	for (size_t i = 0; i < command_row_count; i++) {
		printf("	%s) options='", commands[i].name);
		print_options(&commands[i]);
		fputs("' ;;\n", stdout);
	}
	fputs("	'') options='", stdout);
	print_options(NULL);
	fputs("' ;;\n"
	      "	esac\n"
	      "	if [[ $current == -* ]]; then\n"
	      "		COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
	      "	elif [ -z \"$command\" ] || [ \"$command\" = help ]; then\n"
	      "		COMPREPLY=($(compgen -W '",
	      stdout);
	print_commands();
	fputs("' -- \"$current\"))\n"
	      "	elif [ \"$command\" = completion ]; then\n"
	      "		COMPREPLY=($(compgen -W 'bash zsh' -- \"$current\"))\n"
	      "	elif [ \"$command\" = dump ] || [ \"$command\" = restore ]; then\n"
	      "		COMPREPLY=($(compgen -f -- \"$current\"))\n"
	      "	fi\n"
	      "}\n",
	      stdout);
}

int command_completion(struct kvd *db, const struct arguments *arguments)
{
	const char *shell = arguments->words[0];

	(void)db;
	if (!strcmp(shell, "bash")) {
		print_function();
		puts("complete -F _kvctl kvctl");
		return EX_OK;
	}
	if (!strcmp(shell, "zsh")) {
		puts("#compdef kvctl");
		puts("autoload -U +X bashcompinit && bashcompinit");
		print_function();
		puts("complete -F _kvctl kvctl");
		/* In a folder of $fpath the first completion loads this file and expects words. */
		puts("[[ ${funcstack[1]} != _kvctl ]] || _bash_complete -F _kvctl");
		return EX_OK;
	}
	return usage_error(shell, "bash or zsh");
}
