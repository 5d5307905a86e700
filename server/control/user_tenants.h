/* SPDX-License-Identifier: MIT */
/*
 * The tenants that users.file makes: those of users with `memory`.
 *
 * All functions are for the control thread. @users may be NULL everywhere.
 */
#ifndef KVD_SERVER_CONTROL_USER_TENANTS_H
#define KVD_SERVER_CONTROL_USER_TENANTS_H

#include "server/config/config.h"
#include "server/users/users.h"

/* Whether tenants.memory, and the places for tenants, suffice. 0, or -EINVAL after logging. */
int user_tenants_fit(const struct users *users, const struct config *config);

/* The first user that has the tenant @name; NULL: none. @owns: with `memory`, its size. */
const struct user *user_tenants_holder(const struct users *users, const char *name, bool owns);

#endif /* KVD_SERVER_CONTROL_USER_TENANTS_H */
