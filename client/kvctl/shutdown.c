/* SPDX-License-Identifier: MIT */
/* kvctl shutdown: stops a server, and waits until it has ended. */
#include <inttypes.h>
#include <sysexits.h>
#include <time.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/failures.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/report.h"
#include "common/util/clock.h"

/* Longer than server.drain_timeout by default, and the 5 s that closing connections may take. */
#define WAIT_MS 60000u
#define PAUSE_NS 100000000l
#define TRY_MS 1000u /* to connect: a server that stops refuses at once */
#define NS_PER_MS 1000000u

/*
 * Whether process @pid of the server has ended: nobody listens there, or a supervisor has started a
 * new server. A stopping server refuses connections until it ends.
 */
static bool has_ended(const struct arguments *arguments, uint64_t pid)
{
	struct kvd_options options = arguments->options;
	enum kvd_status status;
	uint64_t now;
	struct kvd *db;

	options.timeout_ms = options.connect_timeout_ms = TRY_MS;
	status = kvd_open(&db, arguments->server, &options);
	if (status)
		return status == KVD_ERR_UNREACHABLE;
	now = server_stat(db, "pid");
	kvd_close(db);
	return now && now != pid;
}

int command_shutdown(struct kvd *db, const struct arguments *arguments)
{
	const uint64_t wait_ms = arguments->timeout.given ? arguments->timeout.number : WAIT_MS;
	const uint64_t until_ns = clock_ns() + wait_ms * NS_PER_MS;
	const uint64_t pid = server_stat(db, "pid");
	enum kvd_status status;

	if (arguments->keep.given && !pid) {
		report_error("--keep reads the server's statistics, and can't: it needs the right "
			     "'stats'");
		return EX_NOPERM;
	}
	if (arguments->keep.given && !server_stat(db, "region_kept")) {
		report_error("a stop would lose the server's data: it has no memory.file; without "
			     "--keep it is stopped all the same");
		return EX_UNAVAILABLE;
	}
	status = kvd_shutdown(db);
	if (status)
		return report(db, status);
	while (!has_ended(arguments, pid)) {
		if (clock_ns() > until_ns || interrupted()) {
			report_error("the server is stopping, but has not ended after %" PRIu64
				     " ms (server.drain_timeout); -t waits longer",
				     wait_ms);
			return EX_TEMPFAIL;
		}
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	return report_change(db, arguments, KVD_OK);
}
