/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of users_parse(), which reads files of users: what it takes has names and limits in
 * their ranges, and each user is found by what it is recognised by; what it does not take gets a
 * text with a line.
 */
#include "common/wire.h"
#include "server/users/password.h"
#include "server/users/users.h"
#include "tests/fuzz/fuzz.h"

static int uid_of(const char *name, uid_t *uid)
{
	*uid = (uid_t)strlen(name);
	return *name == '?' ? -1 : 0;
}

static void check_user(const struct user *user)
{
	must(strlen(user->name) >= 1 && strlen(user->name) <= USER_NAME_MAX);
	must(user->rights && !(user->rights & ~(uint32_t)USER_ALL));
	must(strlen(user->tenant) >= 1 && strlen(user->tenant) <= WIRE_TENANT_MAX);
	must(!user->memory || (user->memory >= USER_MEMORY_MIN && user->memory <= USER_MEMORY_MAX &&
			       tenant_name_valid(user->tenant)));
	must(user->requests <= 1000000000);
	must(!user->password || password_hash_valid(user->password));
	must(user->read.count <= USER_PREFIXES_MAX && user->write.count <= USER_PREFIXES_MAX);
	for (unsigned int i = 0; i < user->write.count; i++) {
		const struct user_prefix *prefix = &user->write.list[i];

		must(prefix->length);
		touch(prefix->bytes, prefix->length);
		must(user_prefixes_hold(&user->write, prefix->bytes, prefix->length));
	}
}

static void check(const struct users *users)
{
	size_t i;

	must(users->count <= USERS_MAX);
	must(!users->with_password || users->with_password->password);
	for (i = 0; i < users->count; i++)
		check_user(&users->list[i]);
	for (i = 0; i < users->identities.count; i++) {
		const struct user_key *key = &users->identities.list[i];

		must(users_match(users,
				 &(struct user_peer){ .identity = key->identity, .address = "" }) ==
		     &users->list[key->user]);
	}
	for (i = 0; i < users->uids.count; i++) {
		const struct user_key *key = &users->uids.list[i];

		must(users_match(users, &(struct user_peer){ .identity = "",
							     .uid_known = true,
							     .uid = key->uid,
							     .address = "" }) ==
		     &users->list[key->user]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[USERS_WHY_MAX] = "", *text = exact_copy(data, size);
	struct users *users = NULL;

	if (users_parse(&users, text, size, uid_of, why)) {
		must(!strncmp(why, "line ", 5) && strlen(why) < sizeof(why) - 1);
	} else {
		free(text);
		text = NULL;
		check(users);
	}
	users_put(users);
	free(text);
	return 0;
}
