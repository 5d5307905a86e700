/* SPDX-License-Identifier: MIT */
/*
 * Whether a client's user may do what a request asks for: its right, the prefix of its key, and the
 * limits of the user, which all connections of the client share (server/control/accounts.h).
 *
 *   PERMIT-1. A server without users asks for one pointer of each request, conn->user, and no more.
 *   PERMIT-2. A request that is beyond a limit is answered LIMIT and takes nothing. One that is not
 *	 allowed takes what it would take else: so nobody can ask for it beyond its limits.
 *   PERMIT-3. What was answered before is answered again, whatever the user may do now.
 *   PERMIT-4. One-sided READs are not seen, so who may not read all has no remote read: it gets no
 *	 rkey (server/control/query_answer.c), and its GETs come as requests.
 *
 * The worker's. The control thread replaces the user when the file of users is read again, and what
 * the worker has found stays for a grace period.
 */
#ifndef KVD_SERVER_WORKER_PERMIT_H
#define KVD_SERVER_WORKER_PERMIT_H

#include "server/users/account.h"
#include "server/users/user.h"
#include "server/worker/conn.h"

/* NULL: the server has no users, and everything is allowed. */
static inline const struct user *conn_user(const struct conn *conn)
{
	return atomic_load_explicit(&conn->user, memory_order_acquire);
}

/* Whether the client is an administrator now: as its user's rights say, or peer_is_admin(). */
static inline bool conn_is_admin(const struct conn *conn)
{
	const struct user *user = conn_user(conn);

	return user ? user->rights & USER_ADMIN : conn->by_admin;
}

/*
 * For a request of a client whose user is @user and whose account is @account, with a message of
 * @bytes (0: it is paid for), of which the clock at its arrival is @now_ns: WIRE_OK, WIRE_LIMIT or
 * WIRE_NOT_ALLOWED. HELLO is WIRE_OK, and so is a BATCH: each of its requests is asked for.
 */
enum wire_status permit_request(const struct user *user, struct user_account *account,
				const struct request *request, uint64_t bytes, uint64_t now_ns);

#define PERMIT_WHY_BYTES 192
/*
 * Writes why the user may not do what the request asks for, and returns the length of that; 0: it
 * may, by now.
 */
uint32_t permit_why(const struct user *user, const struct request *request,
		    char why[PERMIT_WHY_BYTES]);

/* permit_request() for a request of @conn, whose user is @user. Counts a refusal. */
enum wire_status permit_admit(struct conn *conn, const struct user *user,
			      const struct request *request, uint64_t bytes);

/*
 * Whether it asks for the part that follows the one that @conn got last: it is paid for (RATE-2).
 */
bool permit_is_paid(const struct conn *conn, const struct request *request, uint64_t hash);
/* @conn got @len bytes of a value of @value_len, from the request's offset on. */
void permit_note_part(struct conn *conn, const struct request *request, uint64_t hash, uint32_t len,
		      uint64_t value_len);

/* Takes @bytes that an admitted request of @conn moves otherwise out of its limit (RATE-2). */
static inline void permit_charge(struct conn *conn, uint64_t bytes, uint64_t now_ns)
{
	const struct user *user = conn_user(conn);

	if (user && user->bytes)
		account_charge(conn->account, user->bytes, bytes, now_ns);
}

/* Who may not READ has no GETs to report: takes what it reports away. */
static inline void permit_access(const struct conn *conn, struct request *request)
{
	const struct user *user = conn_user(conn);

	if (conn->query.by_request || (user && !(user->rights & USER_READ))) {
		request->access_count = 0;
		request->gets = (struct wire_gets){ 0 };
	}
}

#endif /* KVD_SERVER_WORKER_PERMIT_H */
