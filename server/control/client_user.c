/* SPDX-License-Identifier: MIT */
#include "server/control/client_user.h"

#include <string.h>

#include "common/util/log.h"
#include "server/worker/tenant.h"

/* Why the client can't go on with @user; NULL: it can. */
static const char *user_objection(const struct client *client, const struct user *before,
				  const struct user *user, bool any, bool reads)
{
	if (client->by_password && !user)
		return "the password that its client gave is not in users.file any more";
	if ((before == &user_unauthenticated) != (user == &user_unauthenticated))
		return "users.file says otherwise now whether its client has to authenticate";
	if (any && !user)
		return "users.file has no user for this client any more";
	if (before && user && strcmp(before->name, user->name) != 0)
		return "its client is another user of users.file now";
	if (user && strcmp(client->part->tenant->name, user->tenant) != 0)
		return "its user has another tenant now";
	/* The device can't take back remote read. */
	if (user && !user_reads_all(user) && reads)
		return "its user may not read all keys any more";
	return NULL;
}

bool client_user_renew(struct client *client, struct users *users, bool reads)
{
	const struct user *user = users ? admission_user(users, client) : NULL;
	const char *objection;

	objection = user_objection(client, client_user(client), user, users, reads);
	if (objection) {
		log_ratelimited(LOG_NOTICE, 10, "connection of %s: closed: %s",
				client->peer.address, objection);
		return false;
	}
	client->users_old = client->users;
	admission_set(client, users, user);
	return true;
}
