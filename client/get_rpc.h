/* SPDX-License-Identifier: MIT */
/* The two-sided GET: one request, for which the server looks the key up. */
#ifndef KVD_CLIENT_GET_RPC_H
#define KVD_CLIENT_GET_RPC_H

#include "client/handle.h"

/*
 * Does @request by one message to the server, with @flags and @ttl_s as in struct wire_request, and
 * fills in its status, value and item. Fails only if the connection does.
 */
enum kvd_status get_rpc(struct kvd *handle, struct kvd_get_request *request, uint16_t flags,
			uint32_t ttl_s);

#endif /* KVD_CLIENT_GET_RPC_H */
