/* SPDX-License-Identifier: MIT */
/*
 * Why etcd refuses a request, and whether that is certain: a request that failed on its way through
 * the log may still have been executed. Threads: any.
 */
#ifndef KVD_SERVER_FLEET_ETCD_REFUSAL_H
#define KVD_SERVER_FLEET_ETCD_REFUSAL_H

#include <stdbool.h>

#include "server/fleet/etcd_response.h"

struct etcd_refusal {
	int err;	  /* as etcd.h says */
	bool is_definite; /* the request has had no effect, and will have none */
	bool renews;	  /* the token is missing, or not valid any more */
	bool has_no_auth; /* etcd does not ask for users */
};

/*
 * Reads an answer: its status of HTTP, and its body, whose @json is NULL if it is none. False: it
 * refuses nothing. True: @why says what etcd refuses and how to mend that, without a full stop.
 */
bool etcd_refusal_read(struct etcd_refusal *refusal, const struct etcd_reply *reply,
		       const json_t *json, char why[ETCD_WHY_MAX]);

#endif /* KVD_SERVER_FLEET_ETCD_REFUSAL_H */
