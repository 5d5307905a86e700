/* SPDX-License-Identifier: MIT */
/*
 * Whether a client's user may do what a request asks for: its right, the prefix of its key, and the
 * limits of the user, which all connections of the client share (server/control/accounts.h).
 *
 *   PERMIT-1. A server without users reads one pointer for each request, client.user, and no more.
 *   PERMIT-2. A request beyond a limit is answered LIMIT and charges nothing. A request that is not
 *	 allowed charges what it would charge if it were: so a client can't send those beyond its
 *	 limits either.
 *   PERMIT-3. A change answered before is answered again, whatever the user may do now.
 *   PERMIT-4. The server does not see one-sided READs, so a user that may not read all keys has no
 *	 remote read: its clients get no rkey (server/control/query_answer.c), and their GETs come
 *	 as requests.
 *
 * All functions are the worker's. The control thread replaces the user when the file of users is
 * read again, and the old one stays for a grace period.
 */
#ifndef KVD_SERVER_WORKER_PERMIT_H
#define KVD_SERVER_WORKER_PERMIT_H

#include "server/users/account.h"
#include "server/users/user.h"
#include "server/worker/conn.h"

/*
 * Whether @user, with account @account, may make a request in a message of @bytes (0: already paid
 * for) that arrived at @now_ns: WIRE_OK, WIRE_LIMIT or WIRE_NOT_ALLOWED. HELLO is WIRE_OK, and so
 * is a BATCH: each of its requests is checked on its own.
 */
enum wire_status permit_request(const struct user *user, struct user_account *account,
				const struct request *request, uint64_t bytes, uint64_t now_ns);

#define PERMIT_WHY_BYTES 192
/* Writes why the user may not make the request, and returns its length; 0: the user may, by now. */
uint32_t permit_why(const struct user *user, const struct request *request,
		    char why[PERMIT_WHY_BYTES]);

/* permit_request() for a request of @client, whose user is @user. Counts refusals. */
enum wire_status permit_admit(struct client *client, const struct user *user,
			      const struct request *request, uint64_t bytes);

/*
 * Whether @request asks for the part after the one that @conn got last: already paid for (RATE-2).
 */
bool permit_is_paid(const struct conn *conn, const struct request *request, uint64_t hash);
/* @conn got @len bytes of a value of @value_len, or of its range, from the request's offset on. */
void permit_note_part(struct conn *conn, const struct request *request, uint64_t hash, uint32_t len,
		      uint64_t value_len);

/* Charges further bytes that an admitted request of @client moves to its limit (RATE-2). */
static inline void permit_charge(struct client *client, uint64_t bytes, uint64_t now_ns)
{
	const struct user *user = client_user(client);

	if (user && user->bytes)
		account_charge(client->account, user->bytes, bytes, now_ns);
}

/* A client that may not READ has no GETs to report: drops its reports. */
static inline void permit_access(const struct conn *conn, struct request *request)
{
	const struct user *user = client_user(&conn->client);

	if (conn->query.by_request || (user && !(user->rights & USER_READ))) {
		request->access_count = 0;
		request->gets = (struct wire_gets){ 0 };
	}
}

#endif /* KVD_SERVER_WORKER_PERMIT_H */
