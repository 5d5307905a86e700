/* SPDX-License-Identifier: MIT */
/* kvctl stats: the statistics of a server. */
#include <stdio.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/report.h"

#define STATS_BYTES (64u << 10)

int command_stats(struct kvd *db, const struct arguments *arguments)
{
	static char text[STATS_BYTES];
	enum kvd_status status = kvd_server_stats(db, text, sizeof(text), NULL);

	(void)arguments;
	if (!status)
		fputs(text, stdout);
	return report(db, status);
}
