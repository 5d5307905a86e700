/* SPDX-License-Identifier: MIT */
/*
 * One call of etcd: which of its endpoints is asked, as which user, and what became of it. Threads:
 * as etcd.h says.
 */
#ifndef KVD_SERVER_FLEET_ETCD_CALL_H
#define KVD_SERVER_FLEET_ETCD_CALL_H

#include <stdbool.h>

#include <jansson.h>

#include "server/fleet/etcd_http.h"
#include "server/fleet/etcd_request.h"

#define ETCD_ENDPOINTS_MAX 16

/* Strings and lists need not outlive etcd_open(). */
struct etcd_options {
	/*
	 * "http://HOST:PORT" or "https://HOST:PORT", of members of one etcd; the port is 2379 if
	 * there is none. Addresses spare the name server.
	 */
	const char *const *urls;
	unsigned int url_count; /* 1 to ETCD_ENDPOINTS_MAX */

	/* Files for https://; "" or NULL: none. As common/tls/tls.h says, without psk. */
	struct tls_files tls;

	/*
	 * A file with NAME:PASSWORD in its first line, which only its owner may access; "" or NULL:
	 * no user. It is read again whenever kvd authenticates. An etcd whose users are turned on
	 * takes none from certificates here: it does not, for requests to its JSON gateway.
	 */
	const char *user;

	/* How long an endpoint is waited for while others are left to be asked. */
	unsigned int try_ms;
};

/* The handle; etcd.h describes its life. */
struct etcd {
	struct etcd_http *http;
	char urls[ETCD_ENDPOINTS_MAX][ETCD_URL_MAX];
	unsigned int url_count;
	unsigned int current; /* asked first, as it was the last that answered */
	unsigned int try_ms;
	char *ca, *certificate, *key, *user;
	struct tls_files tls; /* the above */
	char *token;	      /* of secret_alloc(), ETCD_TOKEN_MAX bytes; "": not authenticated */
	bool has_no_auth;     /* etcd has said that it does not ask for users */

	int err; /* of the last call, and what it says */
	char why[ETCD_WHY_MAX];
};

struct etcd_call {
	const char *path;
	const struct etcd_body *body;
	bool once; /* it may have an effect, which must not come twice */
	unsigned int timeout_ms;

	/* Result. */
	bool is_open; /* it failed, and may have had an effect, or have one later */
};

/*
 * Asks an endpoint, and the next ones while it is certain that the call has no effect, or does no
 * harm if it has it twice. 0 with *json, which the caller json_decref()s; or one of etcd.h's
 * errors, with etcd->why.
 */
int etcd_call(struct etcd *etcd, struct etcd_call *call, json_t **json);
/* Asks the one endpoint. */
int etcd_call_endpoint(struct etcd *etcd, unsigned int endpoint, struct etcd_call *call,
		       json_t **json);
/* Keep a call's error with the reason, of the endpoint or of none. They return @err. */
int etcd_fail_at(struct etcd *etcd, unsigned int endpoint, int err, const char *reason);
int etcd_fail(struct etcd *etcd, int err, const char *reason);

#endif /* KVD_SERVER_FLEET_ETCD_CALL_H */
