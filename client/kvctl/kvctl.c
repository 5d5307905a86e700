/* SPDX-License-Identifier: MIT */
/* What the program does before and instead of a command: see kvctl.h. */
#include "client/kvctl/kvctl.h"

#include <stdbool.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/error.h"
#include "client/kvctl/interactive.h"
#include "client/kvctl/run.h"
#include "client/kvctl/script.h"
#include "common/tls/tls.h"

int kvctl_main(int argc, char **argv)
{
	struct arguments arguments;
	bool is_empty = false;
	int code = EX_OK;

	if (!tls_memory_protect())
		report_error("OpenSSL's memory is in core dumps: a preloaded library uses it");
	if (arguments_parse(&arguments, ARGUMENTS_OF_PROGRAM, argc, argv))
		return EX_USAGE;
	if (run_help(&arguments, &code))
		return code;
	if (!arguments.command) {
		if (arguments.pipe.given)
			return script_run(&arguments, NULL);
		if (!isatty(STDIN_FILENO))
			code = script_run(&arguments, &is_empty);
		if (!isatty(STDIN_FILENO) && !is_empty)
			return code;
		if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
			return interactive_run(&arguments);
		report_error("no command, and none on the standard input. Try `kvctl -h`.");
		return EX_USAGE;
	}
	return run_alone(&arguments);
}
