/* SPDX-License-Identifier: MIT */
/*
 * Decides which clients may connect: rdma.networks for transports without a secret, and the users
 * of users.file.
 *
 * All functions are for the control thread.
 */
#ifndef KVD_SERVER_CONTROL_ADMISSION_H
#define KVD_SERVER_CONTROL_ADMISSION_H

#include "common/rdma/device.h"
#include "common/wire.h"
#include "server/config/config.h"
#include "server/control/accounts.h"
#include "server/users/users.h"
#include "server/worker/conn.h"

/* Reads users.file; *@users is NULL if none is set. 0, or a negative errno after logging. */
int admission_load(struct users **users, const struct config *config);

/* The decision on a connection request. */
struct admission {
	const struct user *user; /* NULL: the server has no users */
	/* 0: admitted; else why not. */
	enum wire_reject_reason reason;
	char text[WIRE_REJECT_TEXT_BYTES];
};

/* @kind: the transport of @peer. @users may be NULL. */
void admission_decide(struct admission *admission, const struct users *users,
		      const struct accounts *accounts, const struct config *config,
		      enum device_kind kind, const struct cm_peer *peer);

/*
 * The user of a client according to @users, a newer reading of the file, or NULL. One that gave its
 * password is the same user if that has the same password.
 */
const struct user *admission_user(const struct users *users, const struct client *client);

/*
 * Sets the client's user to @user, of @users; both NULL: none. The caller puts the old
 * client->users once no worker uses its user any more.
 */
void admission_set(struct client *client, struct users *users, const struct user *user);

#endif /* KVD_SERVER_CONTROL_ADMISSION_H */
