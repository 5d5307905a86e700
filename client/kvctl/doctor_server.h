/* SPDX-License-Identifier: MIT */
/*
 * What `kvctl doctor URL` learns about a server by using it, and the checks of these facts. Checks
 * see only the facts, so that tests can pass others.
 */
#ifndef KVD_CLIENT_KVCTL_DOCTOR_SERVER_H
#define KVD_CLIENT_KVCTL_DOCTOR_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvctl/doctor_finding.h"
#include "client/kvd.h"

/* The paths by which bytes move between client and server: X(name, what it is). */
#define DOCTOR_PATHS(X)                                                                            \
	X(PING, "an empty request")                                                                \
	X(REQUEST, "GET by request")                                                               \
	X(READ, "GET by READs of this host")                                                       \
	X(PULL, "PUT by READs of the server")

enum doctor_path {
#define X(name, text) DOCTOR_PATH_##name,
	DOCTOR_PATHS(X)
#undef X
		DOCTOR_PATH_COUNT
};

struct doctor_loop {
	enum kvd_status status; /* of the first call that failed; of others than this path's, too */
	char error[160];	/* its reason */
	uint64_t count;		/* calls that took this path */
	uint64_t p50_ns, max_ns;
	uint64_t bytes; /* of the value */
};

struct doctor_server {
	const char *url;
	const char *member;	     /* its name; NULL: it was not looked at as one of a fleet */
	bool keyless;		     /* a member without shards: only PINGs were tried */
	enum kvd_status open_status; /* if it is not KVD_OK the rest is 0 */
	char open_error[200];
	uint64_t open_ns;
	char device[64];      /* "rdma rxe0" */
	char link[256];	      /* kvd_info.device_link */
	uint32_t message_max; /* bytes; longer values are pulled */
	uint64_t value_max;
	uint64_t clock_error_ns;
	enum kvd_status stats_status;
	char version[32]; /* of the server; "": unknown */
	struct doctor_loop loop[DOCTOR_PATH_COUNT];
};

/* A member of a fleet: keys are found by a handle of the fleet. */
struct doctor_member_of {
	const char *fleet; /* its URL */
	uint32_t number;
	const char *id;
};

/*
 * Connects to @url, stores a value under a key of its own for a minute at most, uses each path a
 * few times and removes the key. Blocks at most for a few of the timeouts in @options. @of: NULL,
 * or the member that the server is.
 */
void doctor_server_read(struct doctor_server *server, const char *url,
			const struct doctor_member_of *of, const struct kvd_options *options);

/* @version: of this program. */
void doctor_check_server(struct findings *findings, const struct doctor_server *server,
			 const char *version);

#endif /* KVD_CLIENT_KVCTL_DOCTOR_SERVER_H */
