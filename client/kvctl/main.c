/* SPDX-License-Identifier: MIT */
/* kvctl: the command line tool that reads and changes keys of a server, and shows what it does. */
#include <fcntl.h>
#include <stdbool.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvctl/kvctl.h"

/*
 * A standard descriptor that the caller has closed would be given to the next socket, and output
 * meant for the user would go to the server. Each such one is taken, for the direction that it is
 * not used in, so that who uses it gets EBADF. False: there is no /dev/null.
 */
static bool descriptors_take(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	return descriptors_take() ? kvctl_main(argc, argv) : EX_IOERR;
}
