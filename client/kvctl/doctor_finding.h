/* SPDX-License-Identifier: MIT */
/*
 * What `kvctl doctor` has found: a list of findings in groups, each with its severity and its fix.
 */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_FINDING_H
#define KVD_CLIENT_KVCTL_DOCTOR_FINDING_H

#include <stdio.h>

enum severity {
	SEVERITY_OK,
	SEVERITY_INFO,	  /* worth knowing; nothing to do */
	SEVERITY_WARNING, /* it works, but slowly, or not for all */
	SEVERITY_ERROR,	  /* something does not work until it is fixed */
};

/* Further findings are only counted. */
#define FINDINGS_MAX 256

#define FINDING_GROUP_MAX 160 /* bytes of a heading, with its zero byte */

struct finding {
	enum severity severity;
	char group[FINDING_GROUP_MAX]; /* "This host" */
	const char *check;	       /* static: "memlock" */
	char text[320];
	char fix[256]; /* a command line to type; "": there is nothing to do */
};

struct findings {
	struct finding list[FINDINGS_MAX];
	char group[FINDING_GROUP_MAX]; /* of findings added from now on */
	unsigned int count;
	unsigned int dropped;
	unsigned int of[SEVERITY_ERROR + 1]; /* how many of each severity, dropped ones included */
};

/* Begins a group with this heading. */
void findings_group(struct findings *findings, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* @fix may be NULL. A text that is too long is cut. */
void findings_add(struct findings *findings, enum severity severity, const char *check,
		  const char *fix, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* "ok", "info", "warning" or "error". */
const char *severity_name(enum severity severity);

/*
 * For people: under each heading a line for each finding, followed by a line with its fix; then the
 * numbers of errors and warnings. Write errors stay in @out (ferror(3)).
 */
void findings_print(const struct findings *findings, FILE *out);

/* For programs: a line of JSON for each finding, and one with their number if any were dropped. */
void findings_print_json(const struct findings *findings, FILE *out);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_FINDING_H */
