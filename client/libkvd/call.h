/* SPDX-License-Identifier: MIT */
/* Synchronous requests whose response the caller reads himself; and reports of GETs. */
#ifndef KVD_CLIENT_LIBKVD_CALL_H
#define KVD_CLIENT_LIBKVD_CALL_H

#include "client/libkvd/rpc.h"

/*
 * Sends the request and waits for the response. *@response is valid until the next rpc_call() on
 * the handle. Returns the status of the response.
 */
enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response);

/* After a synchronous GET: if a message of reports is due, waits until it is posted. */
void access_settle(struct kvd *handle);
/* Reports all GETs that wait, and waits for the responses, for at most @wait_ms. */
void access_report_all(struct kvd *handle, unsigned int wait_ms);

#endif /* KVD_CLIENT_LIBKVD_CALL_H */
