/* SPDX-License-Identifier: MIT */
/*
 * The tenants that users of users.file have by `memory`: each has the user's name. What is asked of
 * them together with tenants.create, before any is made; and who has a tenant.
 *
 * All functions are for the control thread. @users may be NULL everywhere.
 */
#ifndef KVD_SERVER_CONTROL_USER_TENANTS_H
#define KVD_SERVER_CONTROL_USER_TENANTS_H

#include "server/config/config.h"
#include "server/users/users.h"

/*
 * One that tenants.create makes, too, has to have the same size there. 0, or -EINVAL with @why
 * (USERS_WHY_MAX bytes).
 */
int user_tenants_agree(const struct users *users, const struct config *config, char *why);
/*
 * Whether a start has enough of tenants.memory, and of places, for them and for tenants.create. 0,
 * or -EINVAL after logging.
 */
int user_tenants_fit(const struct users *users, const struct config *config);

/* The first user that has the tenant @name; NULL: none. @owns: by `memory`, which is its size. */
const struct user *user_tenants_holder(const struct users *users, const char *name, bool owns);

#endif /* KVD_SERVER_CONTROL_USER_TENANTS_H */
