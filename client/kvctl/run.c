/* SPDX-License-Identifier: MIT */
/* Runs commands: see run.h. */
#include "client/kvctl/run.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/help.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/members.h"
#include "client/kvctl/report.h"

/* Of a fleet: at each of its members, or not at all. */
static int run_at_fleet(struct kvd *db, const struct arguments *arguments)
{
	const struct command *command = arguments->command;

	/* The ids of connections are each member's own. */
	if (command->kind & COMMAND_ONE || (command->run == command_revoke &&
					    !strncmp(arguments->words[0], "id=", strlen("id=")))) {
		report_error("%s is about one server, and this is a fleet: name a member by -a "
			     "URL; kvctl fleet members prints the URLs",
			     command->name);
		return EX_USAGE;
	}
	return command->kind & COMMAND_EACH ? members_run(db, arguments, command->run) :
					      command->run(db, arguments);
}

int run_command(struct kvd *db, const struct arguments *arguments)
{
	const bool stops = arguments->command->kind & COMMAND_STOPS;
	struct sigaction before;
	int code, flushed;

	if (stops) {
		interrupt_clear();
		interrupt_catch_once(&before);
	}
	if (db && members_url_is(arguments->server))
		code = run_at_fleet(db, arguments);
	else
		code = arguments->command->run(db, arguments);
	flushed = output_flush();
	if (stops) {
		interrupt_leave(&before);
		if (!code && interrupted())
			code = EXIT_INTERRUPTED;
	}
	return code ? code : flushed;
}

int run_alone(const struct arguments *arguments)
{
	struct kvd *db = NULL;
	enum kvd_status status;
	int code;

	if (arguments->command->kind & COMMAND_CONNECTED) {
		status = kvd_open(&db, arguments->server, &arguments->options);
		if (status)
			return report_open(status, !arguments->url.given);
	}
	code = run_command(db, arguments);
	if (db)
		kvd_close(db);
	return code;
}

bool run_help(const struct arguments *arguments, int *code)
{
	if (!arguments->version.given && !arguments->help.given)
		return false;
	if (arguments->version.given)
		printf("kvctl %s\n", kvd_version());
	else if (arguments->command)
		help_print_command(stdout, arguments->command);
	else
		help_print(stdout);
	*code = output_flush();
	return true;
}

int run_line(struct kvd *db, const struct arguments *outer, bool is_script, int argc, char **argv,
	     const struct words *words)
{
	struct arguments arguments;
	int code;

	if (arguments_parse(&arguments, ARGUMENTS_OF_LINE, argc, argv))
		return EX_USAGE;
	if (run_help(&arguments, &code))
		return code;
	if (!arguments.command)
		return EX_OK;
	if (is_script && arguments.command->kind & COMMAND_SCREEN)
		return usage_error(arguments.command->name, "needs a terminal, not a script");
	arguments.server = outer->server;
	arguments.options = outer->options;
	arguments.line = words;
	arguments.input_is_script = is_script;
	return run_command(db, &arguments);
}
