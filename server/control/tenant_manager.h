/* SPDX-License-Identifier: MIT */
/*
 * The control thread's part in changes of tenants: the stores made at the start, for `default`,
 * then for users with `memory`; then TENANT requests, and changes of users' `memory` when
 * users.file is read again, one after another, users first.
 *
 *	start	 while net->starting: a job makes the store; the tenant serves. The server does not
 *		 listen yet. A failure sets net->start_err, and no further store is begun
 *	create	 the memory is reserved; a job makes the store; the tenant serves
 *	resize	 the memory is reserved; the connections of the tenant are closed, and new ones
 *		 refused; the workers forget its parts (NOTE_TENANT_DETACH); a job makes the new
 *		 store and moves the items; the tenant serves again. Clients connect again by
 *		 themselves
 *	drop	 as for resize, but a job releases the store, and its place is free
 *
 * The answer is sent at the end, if the connection that asked still exists. A change once begun is
 * finished either way. Lists are answered at once. A change for a user's memory that fails is
 * logged, and tried again when the file is read again. A tenant whose user has gone stays, with its
 * items; a tenant that has a user is not dropped. A change waits while workers are taken away,
 * which takes a bounded time.
 */
#ifndef KVD_SERVER_CONTROL_TENANT_MANAGER_H
#define KVD_SERVER_CONTROL_TENANT_MANAGER_H

#include "server/control/net.h"

/* Continues the change under way, and answers requests. Called after each wait for events. */
void tenant_manager_run(struct net *net);

#endif /* KVD_SERVER_CONTROL_TENANT_MANAGER_H */
