/* SPDX-License-Identifier: MIT */
#include "server/control/admission.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/network.h"
#include "server/control/user_tenants.h"
#include "server/worker/permit.h"

int admission_load(struct users **users, const struct config *config)
{
	char why[USERS_WHY_MAX] = "no memory";
	int err;

	*users = NULL;
	if (!*config->users.file)
		return 0;
	err = users_load(users, config->users.file, why);
	if (err)
		log_error("users.file = %s", why);
	return err;
}

/* Whether nothing but its address identifies a client. */
static bool is_open(const struct cm_peer *peer, enum device_kind kind)
{
	return kind == DEVICE_RDMA || kind == DEVICE_RDMA_TCP ||
	       (kind == LISTEN_MEMCACHED && !peer->uid_known);
}

static struct user_peer user_peer_of(const struct cm_peer *peer, enum device_kind kind)
{
	return (struct user_peer){
		.identity = peer->identity,
		.uid_known = peer->uid_known,
		.uid = peer->uid,
		.address = peer->address,
		.open = is_open(peer, kind),
	};
}

/*
 * The user of a client. In memcached's protocol clients that match no user otherwise authenticate,
 * if there is a password: "*" would keep them from that.
 */
static const struct user *user_of(const struct users *users, const struct cm_peer *peer,
				  enum device_kind kind)
{
	const struct user_peer who = user_peer_of(peer, kind);
	const struct user *user = users_match(users, &who);

	if (kind & LISTEN_MEMCACHED_ALL && users->with_password &&
	    (!user || user_is_wildcard(user)))
		return &user_unauthenticated;
	return user;
}

static void user_decide(struct admission *admission, const struct accounts *accounts,
			const struct cm_peer *peer)
{
	const struct user *user = admission->user;
	struct principal who;

	principal_init(&who, peer, user);
	if (!user) {
		admission->reason = WIRE_REJECT_USER;
		snprintf(admission->text, sizeof(admission->text),
			 "users.file has no user for %.60s", who.name);
	} else if (user->connections && accounts_connections(accounts, &who) >= user->connections) {
		admission->reason = WIRE_REJECT_LIMIT;
		snprintf(admission->text, sizeof(admission->text),
			 "%.50s is at its limit of connections (%u)", who.name, user->connections);
	}
}

void admission_decide(struct admission *admission, const struct users *users,
		      const struct accounts *accounts, const struct config *config,
		      enum device_kind kind, const struct cm_peer *peer)
{
	*admission = (struct admission){ 0 };
	if (is_open(peer, kind) && !networks_hold(config->rdma.networks, peer->address)) {
		admission->reason = WIRE_REJECT_USER;
		snprintf(admission->text, sizeof(admission->text), "%s is in none of rdma.networks",
			 peer->address);
		return;
	}
	if (config->users.require_identity && !peer->identity && !peer->uid_known) {
		admission->reason = WIRE_REJECT_USER;
		snprintf(admission->text, sizeof(admission->text),
			 "the client has no identity (users.require_identity)");
		return;
	}
	if (!users)
		return;
	admission->user = user_of(users, peer, kind);
	user_decide(admission, accounts, peer);
}

const struct user *admission_user(const struct users *users, const struct client *client)
{
	const struct user *before = client_user(client), *user;

	if (!client->by_password)
		return user_of(users, &client->peer, client->kind);
	user = users_named(users, before->name);
	return user && user->password && !strcmp(user->password, before->password) ? user : NULL;
}

void admission_set(struct client *client, struct users *users, const struct user *user)
{
	client->users = users ? users_hold(users) : NULL;
	atomic_store_explicit(&client->user, user, memory_order_release);
}
