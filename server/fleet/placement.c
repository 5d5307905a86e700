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

/* Sets the quotas, whose sum is @total. */
static void shares_round(struct share *shares, const uint32_t weights[], uint32_t members,
			 uint32_t total)
{
	const uint64_t sum = weights_sum(weights, members);
	uint32_t left = total;

	assert(sum);
	for (uint32_t i = 0; i < members; i++) {
		const uint64_t exact = (uint64_t)total * weights[i];

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

/* Gives each shard without an owner to a member that has less than its quota. */
static void shares_give(struct share *shares, uint16_t owners[FLEET_SHARDS])
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		if (owners[i] != PLACEMENT_NONE)
			continue;
		while (shares[next].has >= shares[next].quota)
			next++;
		owners[i] = (uint16_t)next;
		shares[next].has++;
	}
}

void placement_make(const uint32_t weights[], uint32_t members, uint16_t owners[FLEET_SHARDS])
{
	static_assert(FLEET_MEMBERS_MAX < PLACEMENT_NONE, "no member is none");
	struct share shares[FLEET_MEMBERS_MAX] = { 0 };

	shares_count(shares, members, owners);
	shares_round(shares, weights, members, FLEET_SHARDS);
	for (uint32_t i = 0; i < members; i++)
		shares[i].has = 0;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		struct share *share = owners[i] < members ? &shares[owners[i]] : NULL;

		if (share && share->has < share->quota)
			share->has++;
		else
			owners[i] = PLACEMENT_NONE;
	}
	shares_give(shares, owners);
}

/*
 * Takes members that have more than their quota out of the sharing: sets their weights in @sharing
 * to 0, and takes what they have from *@total. Returns whether there was one.
 */
static bool shares_exclude(const struct share *shares, uint32_t sharing[], uint32_t members,
			   uint32_t *total)
{
	bool excluded = false;

	for (uint32_t i = 0; i < members; i++)
		if (sharing[i] && shares[i].has > shares[i].quota) {
			sharing[i] = 0;
			*total -= shares[i].has;
			excluded = true;
		}
	return excluded;
}

void placement_fill(const uint32_t weights[], uint32_t members, uint16_t owners[FLEET_SHARDS])
{
	struct share shares[FLEET_MEMBERS_MAX] = { 0 };
	uint32_t sharing[FLEET_MEMBERS_MAX], total = FLEET_SHARDS;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (owners[i] >= members)
			owners[i] = PLACEMENT_NONE;
	shares_count(shares, members, owners);
	for (uint32_t i = 0; i < members; i++) {
		sharing[i] = weights[i];
		total -= weights[i] ? 0 : shares[i].has;
	}
	/* With fewer to share, others may have too many: once for each member at most. */
	do
		shares_round(shares, sharing, members, total);
	while (shares_exclude(shares, sharing, members, &total));
	shares_give(shares, owners);
}
