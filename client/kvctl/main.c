/* SPDX-License-Identifier: MIT */
/* kvctl: the command line tool that reads and changes keys of a server, and shows what it does. */
#include <sysexits.h>

#include "client/kvctl/kvctl.h"
#include "common/util/streams.h"

int main(int argc, char **argv)
{
	return streams_init("kvctl") ? EX_IOERR : kvctl_main(argc, argv);
}
