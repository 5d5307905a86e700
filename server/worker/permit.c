/* SPDX-License-Identifier: MIT */
#include "server/worker/permit.h"

#include <stdio.h>

#include "common/util/stat.h"
#include "server/worker/audit.h"
#include "server/worker/worker.h"

/* All rights that the request needs. */
static uint32_t rights_needed(const struct request *request)
{
	switch (request->op) {
	case WIRE_GET:
		return USER_READ;
	case WIRE_TOUCH:
		return request->flags & WIRE_F_VALUE ? USER_READ | USER_WRITE : USER_WRITE;
	case WIRE_PUT:
		return request->mode == WIRE_COPY ? USER_ADMIN : USER_WRITE;
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
	case WIRE_SHUTDOWN:
	case WIRE_MOVE:
	case WIRE_FLEET:
	case WIRE_REPORT:
	case WIRE_CONFIG:
		return USER_ADMIN;
	case WIRE_HELLO:
	case WIRE_PING:
	case WIRE_WHOAMI:
	case WIRE_MAP:
	case WIRE_EXTENTS:
	case WIRE_ACCESS: /* permit_access() */
	case WIRE_BATCH:
		break;
	}
	return 0;
}

/* The key of a SCAN is a prefix: all keys that begin with it begin with the user's, too. */
static bool may_read_key(const struct user *user, const struct request *request)
{
	bool reads = request->op == WIRE_GET || request->op == WIRE_SCAN ||
		     (request->op == WIRE_TOUCH && request->flags & WIRE_F_VALUE);

	return !reads || user_prefixes_hold(&user->read, request->key, request->key_len);
}

static bool may_change_key(const struct user *user, const struct request *request)
{
	bool changes = (request->op == WIRE_PUT && request->mode != WIRE_COPY) ||
		       request->op == WIRE_ARITH || request->op == WIRE_TOUCH ||
		       request->op == WIRE_DELETE;

	return !changes || user_prefixes_hold(&user->write, request->key, request->key_len);
}

static bool key_is_allowed(const struct user *user, const struct request *request)
{
	return may_read_key(user, request) && may_change_key(user, request);
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

enum wire_status permit_admit(struct client *client, const struct user *user,
			      const struct request *request, uint64_t bytes)
{
	struct worker *worker = client->worker;
	enum wire_status status = permit_request(user, client->account, request, bytes,
						 worker->part.thread.now_ns);

	stat_add(&worker->stats.requests_over_limit, status == WIRE_LIMIT);
	stat_add(&worker->stats.requests_not_allowed, status == WIRE_NOT_ALLOWED);
	if (status == WIRE_NOT_ALLOWED && rights_needed(request) & (USER_ADMIN | USER_FLUSH))
		audit_admin(client, wire_op_name(request->op), "",
			    "the user has no right to do it");
	return status;
}

bool permit_is_paid(const struct conn *conn, const struct request *request, uint64_t hash)
{
	return request->op == WIRE_GET && request->offset && request->offset == conn->part_offset &&
	       request->length == conn->part_length && hash == conn->part_hash;
}

void permit_note_part(struct conn *conn, const struct request *request, uint64_t hash, uint32_t len,
		      uint64_t value_len)
{
	uint64_t end = request->offset + len;
	bool ends = end >= value_len || (request->length && len == request->length);

	conn->part_hash = hash;
	conn->part_offset = len && !ends ? end : 0;
	conn->part_length = request->length ? request->length - len : 0;
}

/* Removes the first right from @rights and returns its name, such as "read" or "scan". */
static const char *right_take(uint32_t *rights)
{
	static const char *const names[] = {
#define X(upper, name) name,
		USER_RIGHTS(X)
#undef X
	};
	unsigned int number = (unsigned int)__builtin_ctz(*rights);

	*rights &= *rights - 1;
	return names[number];
}

uint32_t permit_why(const struct user *user, const struct request *request,
		    char why[PERMIT_WHY_BYTES])
{
	uint32_t missing = rights_needed(request) & ~user->rights;
	int len = 0;

	if (missing) {
		len = snprintf(why, PERMIT_WHY_BYTES, "user %s has no right '%s'", user->name,
			       right_take(&missing));
		while (missing)
			len += snprintf(why + len, PERMIT_WHY_BYTES - (size_t)len, ", nor '%s'",
					right_take(&missing));
	} else if (!key_is_allowed(user, request)) {
		const bool reads = may_change_key(user, request);

		len = snprintf(why, PERMIT_WHY_BYTES,
			       "user %s may not %s this key: it begins with none of the user's "
			       "%s_prefixes",
			       user->name, reads ? "read" : "change", reads ? "read" : "write");
	}
	return (uint32_t)len;
}
