/* SPDX-License-Identifier: MIT */
/* kvctl doctor: what is wrong with this host, a server or a fleet, and how to fix it. */
#include <stdio.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/doctor.h"
#include "client/kvctl/doctor_fleet.h"
#include "client/kvctl/doctor_host.h"
#include "client/kvctl/doctor_rdma.h"
#include "client/kvctl/doctor_server.h"
#include "client/kvctl/members.h"

static int exit_status(const struct findings *findings)
{
	if (findings->of[SEVERITY_ERROR])
		return EXIT_ERRORS;
	return findings->of[SEVERITY_WARNING] ? EXIT_WARNINGS : EX_OK;
}

/* The server's URL if one was given, else NULL: without a URL doctor checks only this host. */
static const char *server_url(const struct arguments *arguments)
{
	if (arguments->word_count)
		return arguments->words[0];
	return arguments->url.given ? arguments->url.text : NULL;
}

int doctor_look(struct findings *findings, const char *url, const struct arguments *arguments)
{
	static const struct doctor_roots roots = { "/sys", "/proc", "/lib/modules", "/dev" };
	static struct doctor_host host;
	static struct doctor_server server;

	*findings = (struct findings){ 0 };
	doctor_host_read(&host, &roots);
	doctor_check_host(findings, &host);
	doctor_check_ports(findings, &host, &roots);
	if (url && members_url_is(url))
		return doctor_fleet_look(findings, url, arguments);
	if (url) {
		doctor_server_read(&server, url, NULL, &arguments->options);
		doctor_check_server(findings, &server, kvd_version());
	}
	return EX_OK;
}

int command_doctor(struct kvd *db, const struct arguments *arguments)
{
	static struct findings findings;
	int code = doctor_look(&findings, server_url(arguments), arguments);

	(void)db;
	if (arguments->json.given)
		findings_print_json(&findings, stdout);
	else
		findings_print(&findings, stdout);
	return code ? code : exit_status(&findings);
}
