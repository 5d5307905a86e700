/* SPDX-License-Identifier: MIT */
/*
 * What a client has used of its user's limits, over all its connections: a token bucket for
 * requests, and one for bytes.
 *
 *   RATE-1. A request is executed if there is a token for it and at least one for bytes.
 *   RATE-2. A request takes its message's bytes at once, and other bytes when their number is
 *	 known: the response, a value that is READ from the client. Later parts of a value, or of a
 *	 range of it, that the client asks for in a row need no token, and take the bytes of their
 *	 responses. So a value larger than the bucket passes alone, and its debt is paid before the
 *	 next request; at most a window of requests, those under way when the debt is made, still
 *	 passes.
 *   RATE-3. A bucket holds a tenth of a second's worth, but at least ACCOUNT_REQUESTS_MIN requests,
 *	 so that a client that was idle may use its window, and ACCOUNT_BYTES_MIN bytes, the longest
 *	 message.
 *   RATE-4. Several workers serve a client's connections and share its buckets: each is one word,
 *	 the time when the bucket will be full again (GCRA, ITU-T I.371), changed by
 *	 compare-and-swap. Two workers may both see the last token for bytes: the debt is paid all
 *	 the same.
 *   RATE-5. READs of the region do not count: the server does not see them.
 *
 * Threads: any; base_ns does not change while a worker may use it.
 */
#ifndef KVD_SERVER_USERS_ACCOUNT_H
#define KVD_SERVER_USERS_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A second in the units of the buckets: 1/16 ns, of which 64 bits hold 36 years. */
#define ACCOUNT_SECOND 16000000000ull
#define ACCOUNT_PER_NS 16u

#define ACCOUNT_BURSTS_PER_S 10u
#define ACCOUNT_REQUESTS_MIN 32u /* more than the largest request.window */
#define ACCOUNT_BYTES_MIN 65536u

struct user_account {
	_Atomic uint64_t requests_full, bytes_full; /* when the buckets are full again */
	uint64_t base_ns;			    /* the clock when it was opened */
};

/* How long @tokens take to come at @rate in a second. */
static inline uint64_t account_cost(uint64_t tokens, uint64_t rate)
{
	unsigned __int128 cost = (unsigned __int128)tokens * ACCOUNT_SECOND / rate;

	/* A debt of a year lasts forever. */
	return cost < (ACCOUNT_SECOND << 25) ? (uint64_t)cost : ACCOUNT_SECOND << 25;
}

static inline uint64_t account_now(const struct user_account *account, uint64_t now_ns)
{
	return now_ns > account->base_ns ? (now_ns - account->base_ns) * ACCOUNT_PER_NS : 0;
}

/* When both buckets are full, in ns since base_ns. */
static inline uint64_t account_full_ns(const struct user_account *account)
{
	uint64_t requests = atomic_load_explicit(&account->requests_full, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&account->bytes_full, memory_order_relaxed);

	return (requests > bytes ? requests : bytes) / ACCOUNT_PER_NS;
}

/* How far ahead of the clock a bucket with a token left may be. */
static inline uint64_t account_ahead(uint64_t rate, uint64_t burst_min)
{
	uint64_t burst = rate / ACCOUNT_BURSTS_PER_S;

	return account_cost((burst > burst_min ? burst : burst_min) - 1, rate);
}

/* Takes @tokens, going into debt if needed. */
static inline void account_take(_Atomic uint64_t *full, uint64_t rate, uint64_t tokens,
				uint64_t now)
{
	uint64_t cost = account_cost(tokens, rate);
	uint64_t at = atomic_load_explicit(full, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(full, &at, (at > now ? at : now) + cost,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

/* Takes one token, if it is there. */
static inline bool account_try(_Atomic uint64_t *full, uint64_t rate, uint64_t burst_min,
			       uint64_t now)
{
	uint64_t ahead = account_ahead(rate, burst_min), cost = account_cost(1, rate);
	uint64_t at = atomic_load_explicit(full, memory_order_relaxed);

	do
		if (at > now + ahead)
			return false;
	while (!atomic_compare_exchange_weak_explicit(full, &at, (at > now ? at : now) + cost,
						      memory_order_relaxed, memory_order_relaxed));
	return true;
}

/*
 * Charges a request with a message of @bytes to a client that may have @requests and @bytes_rate
 * per second; 0: no limit. False: it is beyond a limit, and took nothing.
 */
static inline bool account_admit(struct user_account *account, uint64_t requests,
				 uint64_t bytes_rate, uint64_t bytes, uint64_t now_ns)
{
	uint64_t now = account_now(account, now_ns);

	if (bytes_rate && atomic_load_explicit(&account->bytes_full, memory_order_relaxed) >
				  now + account_ahead(bytes_rate, ACCOUNT_BYTES_MIN))
		return false;
	if (requests && !account_try(&account->requests_full, requests, ACCOUNT_REQUESTS_MIN, now))
		return false;
	if (bytes_rate)
		account_take(&account->bytes_full, bytes_rate, bytes, now);
	return true;
}

/* Charges the other bytes that an admitted request moves. */
static inline void account_charge(struct user_account *account, uint64_t bytes_rate, uint64_t bytes,
				  uint64_t now_ns)
{
	if (bytes_rate)
		account_take(&account->bytes_full, bytes_rate, bytes, account_now(account, now_ns));
}

#endif /* KVD_SERVER_USERS_ACCOUNT_H */
