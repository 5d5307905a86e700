/* SPDX-License-Identifier: MIT */
/* A connection's user with limits of requests and bytes, and what its client has taken of them. */
#ifndef KVD_TESTS_SUPPORT_LIMIT_FIXTURE_H
#define KVD_TESTS_SUPPORT_LIMIT_FIXTURE_H

#include "server/worker/permit.h"

struct test_limit {
	struct user user;
	struct user_account account;
};

/* Limits the connection to @requests and @bytes in a second; 0: no limit. */
static inline void test_limit_set(struct test_limit *limit, struct conn *conn, uint64_t requests,
				  uint64_t bytes)
{
	*limit = (struct test_limit){
		.user = { .name = "limited",
			  .rights = USER_ALL,
			  .requests = requests,
			  .bytes = bytes },
		.account = { .base_ns = conn_thread(conn)->now_ns },
	};
	conn->client.account = &limit->account;
	atomic_store(&conn->client.user, &limit->user);
}

/* Takes requests until none is left. */
static inline void test_limit_use_up(struct test_limit *limit, const struct conn *conn)
{
	while (account_admit(&limit->account, limit->user.requests, 0, 1,
			     conn_thread(conn)->now_ns))
		;
}

/* What was taken of a limit of one request or byte in a second, in the first second. */
static inline uint64_t test_limit_taken(const _Atomic uint64_t *full)
{
	return atomic_load(full) / ACCOUNT_SECOND;
}

#endif /* KVD_TESTS_SUPPORT_LIMIT_FIXTURE_H */
