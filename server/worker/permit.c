/* SPDX-License-Identifier: MIT */
#include "server/worker/permit.h"

/* The rights that the request needs; all of them. */
static uint32_t rights_needed(const struct request *request)
{
	switch (request->op) {
	case WIRE_GET:
		return USER_READ;
	case WIRE_TOUCH:
		return request->flags & WIRE_F_VALUE ? USER_READ | USER_WRITE : USER_WRITE;
	case WIRE_PUT:
	case WIRE_ARITH:
		return USER_WRITE;
	case WIRE_DELETE:
		return USER_DELETE;
	case WIRE_SCAN:
		return request->flags & (WIRE_F_VALUES | WIRE_F_USES) ? USER_SCAN | USER_READ :
									USER_SCAN;
	case WIRE_FLUSH:
		return request->mode == WIRE_FLUSH_CANCEL_ANY ? USER_FLUSH | USER_ADMIN :
								USER_FLUSH;
	case WIRE_STATS:
		return USER_STATS;
	case WIRE_CLIENTS:
	case WIRE_KILL:
	case WIRE_REVOKE:
	case WIRE_TENANT:
		return USER_ADMIN;
	case WIRE_HELLO:
	case WIRE_PING:
	case WIRE_ACCESS: /* permit_access() */
	case WIRE_BATCH:
		break;
	}
	return 0;
}

/* The key of a SCAN is a prefix: all keys that begin with it begin with the user's, too. */
static bool key_is_allowed(const struct user *user, const struct request *request)
{
	bool reads = request->op == WIRE_GET || request->op == WIRE_SCAN ||
		     (request->op == WIRE_TOUCH && request->flags & WIRE_F_VALUE);
	bool changes = request->op == WIRE_PUT || request->op == WIRE_ARITH ||
		       request->op == WIRE_TOUCH || request->op == WIRE_DELETE;

	return (!reads || user_prefixes_hold(&user->read, request->key, request->key_len)) &&
	       (!changes || user_prefixes_hold(&user->write, request->key, request->key_len));
}

enum wire_status permit_request(const struct user *user, struct user_account *account,
				const struct request *request, uint64_t bytes, uint64_t now_ns)
{
	uint32_t rights = rights_needed(request);

	if (request->op == WIRE_BATCH || request->op == WIRE_HELLO)
		return WIRE_OK;
	if (bytes && user_is_limited(user) &&
	    !account_admit(account, user->requests, user->bytes, bytes, now_ns))
		return WIRE_LIMIT;
	if ((user->rights & rights) != rights || !key_is_allowed(user, request))
		return WIRE_NOT_ALLOWED;
	return WIRE_OK;
}
