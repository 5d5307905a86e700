/* SPDX-License-Identifier: MIT */
/*
 * The control thread's part in changes of tenants: the stores that the start makes, those of
 * `default`, then of users with `memory`; TENANT requests; and what
 * `memory` of the users asks for when users.file was read again, one after the other, users first.
 *
 *	start	 as long as net->starting: a job makes the store; the tenant serves. Nobody
 *		 listens yet. One that can't be made is net->start_err, and no further one is begun
 *	create	 the memory is reserved; a job makes the store; the tenant serves
 *	resize	 the memory is reserved; the connections of the tenant are closed, and new ones
 *		 refused; the workers forget its parts (NOTE_TENANT_DETACH); a job makes the new
 *		 store and moves the items; the tenant serves again. Clients connect again by
 *		 themselves
 *	drop	 likewise; a job releases the store; its place is free
 *
 * The answer is sent at the end, if the connection that asked is there then. What was begun is
 * finished either way. Lists are answered at once. What a user's memory asks for and can't be done
 * is in the log, and asked for again when the file is read again. A tenant whose user has gone
 * stays, with its items; one that a user has is not dropped.
 */
#ifndef KVD_SERVER_CONTROL_TENANT_MANAGER_H
#define KVD_SERVER_CONTROL_TENANT_MANAGER_H

#include "server/control/net.h"

/* Goes on with the change that is under way, and answers requests; after each wait for events. */
void tenant_manager_run(struct net *net);

#endif /* KVD_SERVER_CONTROL_TENANT_MANAGER_H */
