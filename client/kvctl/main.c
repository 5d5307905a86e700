/* SPDX-License-Identifier: MIT */
/* kvctl: the command line tool that reads and changes keys of a server, and shows what it does. */
#include "client/kvctl/kvctl.h"

int main(int argc, char **argv)
{
	return kvctl_main(argc, argv);
}
