/* SPDX-License-Identifier: MIT */
/*
 * Chooses kvbench's exit status: see exit_status.h.
 */
#include "bench/exit_status.h"

#include <errno.h>

enum exit_status exit_status_of_error(int error)
{
	switch (error) {
	case 0:
		return EXIT_FINE;
	case -EINVAL:
		return EXIT_USAGE;
	case -ENOTCONN:
		return EXIT_UNAVAILABLE;
	default:
		return EXIT_WRONG;
	}
}

enum exit_status exit_status_of_result(const struct result *result)
{
	if (result->wrong)
		return EXIT_WRONG;
	if (db_status_is_fatal(result->ended))
		return EXIT_UNAVAILABLE;
	return result->failed || result->not_found ? EXIT_WRONG : EXIT_FINE;
}
