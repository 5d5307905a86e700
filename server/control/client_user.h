/* SPDX-License-Identifier: MIT */
/* Gives clients their user anew when users.file was read again. For the control thread. */
#ifndef KVD_SERVER_CONTROL_CLIENT_USER_H
#define KVD_SERVER_CONTROL_CLIENT_USER_H

#include "server/control/admission.h"

/*
 * Sets the client's user to that of @users, NULL if there are none now. The old one is in
 * client->users_old, to be put after a grace period. @reads: the client may READ the region, which
 * the device can't take back. False: it can't go on, which is logged, and nothing was changed; the
 * caller closes its connection.
 */
bool client_user_renew(struct client *client, struct users *users, bool reads);

#endif /* KVD_SERVER_CONTROL_CLIENT_USER_H */
