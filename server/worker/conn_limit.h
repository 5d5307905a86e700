/* SPDX-License-Identifier: MIT */
/*
 * What a connection may ask of its worker: limits.connection_requests and limits.connection_bytes,
 * a token bucket for each. A request beyond one of them is answered BUSY (server/worker/request.c),
 * and takes nothing.
 *
 *   LIMIT-1. A request is executed if there is a token for it and at least one for bytes. It takes
 *	 its message's bytes, and what it moves otherwise when that is known: the response, a value
 *	 that is READ from the client. What follows of a value in parts is executed without a token,
 *	 if the connection asks for it in a row, and pays for its response. So a value that is
 *	 larger than the bucket passes alone, and the debt is paid before the next request. What is
 *	 under way when the debt is made, a window of requests at most, still passes.
 *   LIMIT-2. READs of the region do not count: the server does not see them.
 *   LIMIT-3. A bucket holds a tenth of a second's worth, but at least LIMIT_REQUESTS_MIN requests,
 *	 so that a client that was idle may use its window, and LIMIT_BYTES_MIN, the longest
 *	 message.
 *
 * The worker's, by the clock that it reads once for each batch.
 */
#ifndef KVD_SERVER_WORKER_CONN_LIMIT_H
#define KVD_SERVER_WORKER_CONN_LIMIT_H

#include "common/wire.h"
#include "server/worker/token_bucket.h"

#define LIMIT_BURSTS_PER_S 10u
#define LIMIT_REQUESTS_MIN 32u /* more than the largest request.window */
#define LIMIT_BYTES_MIN WIRE_RESPONSE_MAX

struct conn_limit {
	bool on; /* there is one */
	struct token_bucket requests, bytes;
};

static inline uint64_t limit_burst(uint64_t rate, uint64_t burst_min)
{
	return rate / LIMIT_BURSTS_PER_S > burst_min ? rate / LIMIT_BURSTS_PER_S : burst_min;
}

/* Requests and bytes in a second; 0: no limit. */
static inline void conn_limit_init(struct conn_limit *limit, uint64_t requests, uint64_t bytes)
{
	limit->on = requests || bytes;
	token_bucket_init(&limit->requests, requests, limit_burst(requests, LIMIT_REQUESTS_MIN));
	token_bucket_init(&limit->bytes, bytes, limit_burst(bytes, LIMIT_BYTES_MIN));
}

/* For a request with a message of @bytes. False: it is beyond a limit. Only if limit->on. */
static inline bool conn_limit_admit(struct conn_limit *limit, uint64_t bytes, uint64_t now_ns)
{
	token_bucket_refill(&limit->requests, now_ns);
	token_bucket_refill(&limit->bytes, now_ns);
	if (!token_bucket_ready(&limit->requests) || !token_bucket_ready(&limit->bytes))
		return false;
	token_bucket_take(&limit->requests, 1);
	token_bucket_take(&limit->bytes, bytes);
	return true;
}

/* For bytes that an admitted request moves otherwise. */
static inline void conn_limit_charge(struct conn_limit *limit, uint64_t bytes)
{
	if (limit->on)
		token_bucket_take(&limit->bytes, bytes);
}

#endif /* KVD_SERVER_WORKER_CONN_LIMIT_H */
