/* SPDX-License-Identifier: MIT */
/* What kvctl doctor finds, for other commands. */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_H
#define KVD_CLIENT_KVCTL_DOCTOR_H

#include "client/kvctl/doctor_finding.h"

struct arguments;

/*
 * Checks this host and, unless @url is NULL, the server or fleet there. Returns an exit status,
 * after printing why it is not EX_OK. Not reentrant.
 */
int doctor_look(struct findings *findings, const char *url, const struct arguments *arguments);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_H */
