/* SPDX-License-Identifier: MIT */
/* kvctl doctor: what is wrong with this host, and how to fix it. */
#include <stdio.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/doctor_host.h"

static int exit_status(const struct findings *findings)
{
	if (findings->of[SEVERITY_ERROR])
		return EXIT_ERRORS;
	return findings->of[SEVERITY_WARNING] ? EXIT_WARNINGS : EX_OK;
}

int command_doctor(struct kvd *db, const struct arguments *arguments)
{
	static const struct doctor_roots roots = { "/sys", "/proc", "/lib/modules" };
	static struct findings findings;
	static struct doctor_host host;

	(void)db;
	findings = (struct findings){ 0 };
	doctor_host_read(&host, &roots);
	doctor_check_host(&findings, &host);
	if (arguments->json.given)
		findings_print_json(&findings, stdout);
	else
		findings_print(&findings, stdout);
	return exit_status(&findings);
}
