/* SPDX-License-Identifier: MIT */
/* What the program does before and instead of a command: see kvctl.h. */
#include "client/kvctl/kvctl.h"

#include <stdio.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/help.h"
#include "client/kvctl/run.h"
#include "common/tls/tls.h"

int kvctl_main(int argc, char **argv)
{
	struct arguments arguments;
	int code;

	if (!tls_memory_protect())
		fputs("kvctl: OpenSSL's memory is in core dumps: a preloaded library uses it\n",
		      stderr);
	if (arguments_parse(&arguments, ARGUMENTS_OF_PROGRAM, argc, argv))
		return EX_USAGE;
	if (run_help(&arguments, &code))
		return code;
	if (!arguments.command) {
		help_print(stderr);
		return EX_USAGE;
	}
	return run_alone(&arguments);
}
