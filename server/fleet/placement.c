/* SPDX-License-Identifier: MIT */
/* Computes quotas by largest remainder, and moves as few shards as they allow. */
#include "server/fleet/placement.h"

#include <assert.h>
#include <stdlib.h>

/* What a member is due, and what it has. */
struct share {
	uint32_t member;
	uint32_t quota;
	uint32_t has;
	uint64_t remainder; /* of the exact share, in units of 1 / (sum of weights) */
};

/*
 * The member that gets one more first: one that has as many already, since then nothing moves; then
 * the one with the largest remainder.
 */
static int by_claim(const void *a, const void *b)
{
	const struct share *x = a, *y = b;
	const bool keeps = x->has > x->quota, other_keeps = y->has > y->quota;

	if (keeps != other_keeps)
		return keeps ? -1 : 1;
	if (x->remainder != y->remainder)
		return x->remainder > y->remainder ? -1 : 1;
	return x->member < y->member ? -1 : 1;
}

static int by_member(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return x->member < y->member ? -1 : 1;
}

static uint64_t weights_sum(const uint32_t weights[], uint32_t members)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < members; i++)
		sum += weights[i];
	return sum;
}

static void shares_count(struct share *shares, uint32_t members,
			 const uint16_t owners[FLEET_SHARDS])
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (owners[i] < members)
			shares[owners[i]].has++;
}

/* Sets the quotas, whose sum is FLEET_SHARDS. */
static void shares_round(struct share *shares, const uint32_t weights[], uint32_t members)
{
	const uint64_t sum = weights_sum(weights, members);
	uint32_t left = FLEET_SHARDS;

	assert(sum);
	for (uint32_t i = 0; i < members; i++) {
		const uint64_t exact = (uint64_t)FLEET_SHARDS * weights[i];

		shares[i].member = i;
		shares[i].quota = (uint32_t)(exact / sum);
		shares[i].remainder = exact % sum;
		left -= shares[i].quota;
	}
	qsort(shares, members, sizeof(*shares), by_claim);
	for (uint32_t i = 0; left; i++)
		if (shares[i].remainder) {
			shares[i].quota++;
			left--;
		}
	qsort(shares, members, sizeof(*shares), by_member);
}

void placement_make(const uint32_t weights[], uint32_t members, uint16_t owners[FLEET_SHARDS])
{
	static_assert(FLEET_MEMBERS_MAX < PLACEMENT_NONE, "no member is none");
	struct share shares[FLEET_MEMBERS_MAX] = { 0 };
	uint32_t next = 0;

	shares_count(shares, members, owners);
	shares_round(shares, weights, members);
	for (uint32_t i = 0; i < members; i++)
		shares[i].has = 0;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		struct share *share = owners[i] < members ? &shares[owners[i]] : NULL;

		if (share && share->has < share->quota)
			share->has++;
		else
			owners[i] = PLACEMENT_NONE;
	}
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		if (owners[i] != PLACEMENT_NONE)
			continue;
		while (shares[next].has == shares[next].quota)
			next++;
		owners[i] = (uint16_t)next;
		shares[next].has++;
	}
}
