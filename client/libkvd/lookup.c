/* SPDX-License-Identifier: MIT */
/*
 * The rules of a lookup: which data that a GET has READ counts as a hit, as a miss, or as neither.
 *
 *   GET-1. An item is a hit only if its sum, which covers the incarnation and the item's offset, is
 *	 right, its value sum, if it has one, is the value's, and its key is the one looked up, byte
 *	 for byte. Then it was valid at some instant of the READ, and by the server's rule TABLE-1
 *	 (server/store/table.h) it was the key's only valid copy. (Guarantees A, B) An item that
 *	 expires is a hit only if client/libkvd/clock.h allows it.
 *   GET-2. A lookup ends in a miss only if every bucket of the chain verified (its sum covers its
 *	 own offset and its home bucket's), the home bucket is the key's by its own level, all
 *	 buckets have its level and epoch, and none had a slot with the key's tag. If a tag matched
 *	 but the item was another key's, the memory may have been reused between the two READs: the
 *	 client asks the server. (Guarantee C)
 *   GET-3. If something does not verify, the client READs again from the home bucket on, after a
 *	 pause that doubles; after get_tries READs it asks the server. (Guarantee G)
 *   GET-4. The geometry that the client knows is only where a lookup starts. A bucket of level l
 *	 holds the keys whose hash's low l bits are the bucket's number. If the key is not one of
 *	 them, let bit i be the lowest in which its hash and that number differ. The split that took
 *	 the bucket to level i + 1 <= l moved the key to the bucket of the hash's low i + 1 bits,
 *	 which therefore exists and has at least level i + 1. (The bucket of the hash's low l bits
 *	 need not exist yet: the bucket to which the key was moved is split at other times.) i rises
 *	 with each such step, so the steps end.
 *   GET-5. That a key exists is known from an item's header, value sum and key alone: the sum of a
 *	 longer item covers no more (common/layout.h). Where it is right, these bytes are those that
 *	 it was made of, whenever each was READ, since it covers the version, which is unique. It is
 *	 in memory only while the item is valid, and was there when it was READ. So at that instant
 *	 the item was the key's only valid one, and had that value length, version, flags and expiry
 *	 time, which is judged as a hit's. The value was stored before (TABLE-1). A miss is that of
 *	 GET-2.
 *
 * Why GET-2 is enough while the server moves slots (splits, chains that get shorter:
 * server/store/index.h, INDEX-3). From the first slot that moves to the last, the home bucket does
 * not verify, and a rewritten bucket of the chain gets the next even epoch at once. So buckets of
 * one epoch held, from the first one's READ to the last one's, every slot that was there at the
 * first and was not deleted since. A key that was inserted since may be missed: then the miss was
 * true at the first READ. Epochs have 16 bits; a chain's epoch rises by less than 2^16 a second
 * (INDEX-4), so it does not wrap around within CHAIN_NS_MAX.
 */
#include "client/libkvd/lookup.h"

#include "client/libkvd/geometry.h"
#include "client/libkvd/pieces.h"
#include "client/libkvd/word.h"
#include "common/barrier.h"
#include "common/slot_match.h"
#include "common/util/clock.h"

/* Overflow buckets that are followed. The server makes fewer: CHAIN_MAX, server/store/index.h. */
#define HOPS_MAX 64
/*
 * Items of other keys with the key's tag that are READ one after another. Of a chain's keys one in
 * 65,536 has it, so more are an attack: then the server does the GET.
 */
#define OTHERS_MAX 4
/* Splits that are followed; there are fewer levels. */
#define MOVES_MAX 64
/* No level is higher: there are at most 2^32 buckets, and some are being split. */
#define LEVEL_MAX 33
/* Longest time from the READ of a home bucket to that of the chain's last bucket: see above. */
#define CHAIN_NS_MAX 1000000000u

/* Starts at the first bucket of the chain. */
static void chain_start(struct lookup *l)
{
	l->step = STEP_BUCKET;
	l->bucket_offset = l->home;
	l->hops = 0;
	l->cached = false;
	l->others = 0;
	l->whole_key = false;
}

/* Starts at the chain's place by the current geometry. */
void lookup_restart(const struct kvd *handle, struct lookup *l)
{
	l->number = geometry_home(&handle->geometry, l->hash);
	l->home = geometry_bucket_offset(&handle->geometry, l->number);
	l->level_min = 0;
	chain_start(l);
	if (handle->conn.by_request)
		l->step = STEP_RPC;
}

static void retry(struct kvd *handle, struct lookup *l)
{
	handle->stats.retries++;
	l->backoff = true;
	lookup_restart(handle, l);
	if (++l->tries >= handle->options.get_tries)
		l->step = STEP_RPC;
}

void lookup_closed(struct kvd *handle, struct lookup *l)
{
	word_look(handle);
	lookup_restart(handle, l);
	l->step = STEP_RPC;
}

void lookup_again(struct kvd *handle, struct lookup *l)
{
	unsigned int tries = l->tries + 1;

	lookup_start(handle, l);
	l->tries = tries;
	if (tries >= handle->options.get_tries)
		l->step = STEP_RPC;
}

/* Where the word is not fresh, or not the one by which the lookup started. */
static bool judge_late(struct kvd *handle, struct lookup *l)
{
	if (l->judgement != handle->member.judgement) {
		lookup_again(handle, l);
		return false;
	}
	if (word_has_ended(handle)) {
		l->step = STEP_WORD;
		return false;
	}
	handle->member.home->fleet_ops->word_read(handle);
	return true;
}

/*
 * MEMBER-1: whether what was READ counts. All of the lookup's READs have completed. False: the
 * step says what is next.
 */
static ALWAYS_INLINE bool judge(struct kvd *handle, struct lookup *l)
{
	const struct member *member = &handle->member;

	if (!member->shards)
		return true;
	return (l->judgement == member->judgement &&
		(!member->fresh_ns || clock_boot_ns() < member->fresh_ns)) ||
	       judge_late(handle, l);
}

/* What was READ proves that the key does not exist. */
static void absent(struct kvd *handle, struct lookup *l)
{
	if (!judge(handle, l))
		return;
	if (l->part != PART_NONE && access_miss(&handle->access, l->hash))
		access_add(&handle->access, l->hash, 0, clock_ns());
	lookup_finish(l, KVD_NOT_FOUND);
}

/* After the last slot of a bucket: goes to the next bucket of the chain, or ends the lookup. */
static void chain_next(struct kvd *handle, struct lookup *l)
{
	if (l->overflow && l->hops < HOPS_MAX) {
		l->step = STEP_BUCKET;
		l->bucket_offset = (uint64_t)l->overflow * BUCKET_BYTES;
		l->hops++;
	} else if (l->overflow || l->others) {
		l->step = STEP_RPC;
	} else if (l->hops && clock_raw_ns() - l->chain_ns > CHAIN_NS_MAX) {
		retry(handle, l);
	} else {
		absent(handle, l);
	}
}

/* The slot did not lead to the key: goes to the next slot, or along the chain. */
static void slot_next(struct kvd *handle, struct lookup *l)
{
	l->whole_key = false;
	if (++l->slot < l->slot_count)
		l->step = STEP_ITEM;
	else if (l->cached)
		lookup_restart(handle, l);
	else
		chain_next(handle, l);
}

static bool bucket_verifies(const struct kvd *handle, const struct lookup *l,
			    const struct bucket *bucket)
{
	if (bucket_sum(bucket, &handle->sum_key, handle->geometry.incarnation, l->bucket_offset,
		       l->home) != bucket->sum ||
	    bucket->epoch & 1)
		return false;
	if (l->hops)
		return bucket->level == l->level && bucket->epoch == l->epoch;
	return bucket->level >= l->level_min && bucket->level <= LEVEL_MAX &&
	       bucket->level >= bucket_level(&handle->geometry, l->number);
}

static uint64_t number_at(uint64_t hash, uint8_t level)
{
	return hash & ((1ull << level) - 1);
}

void lookup_bucket(struct kvd *handle, struct lookup *l)
{
	const struct bucket *bucket = (const struct bucket *)l->buffer;
	unsigned int matches;
	uint64_t slot;

	if (!bucket_verifies(handle, l, bucket)) {
		retry(handle, l);
		return;
	}
	bcache_store(&handle->cache, l->number, bucket, hash_tag(l->hash));
	if (!l->hops && number_at(l->hash, bucket->level) != l->number) {
		l->level = (uint8_t)(__builtin_ctzll(l->hash ^ l->number) + 1);
		l->step = STEP_MOVED;
		return;
	}
	l->level = bucket->level;
	l->epoch = bucket->epoch;
	l->overflow = bucket->overflow;
	l->slot = 0;
	l->slot_count = 0;
	matches = slots_match(bucket->slots, hash_tag(l->hash));
	for (; matches; matches &= matches - 1) {
		slot = bucket->slots[__builtin_ctz(matches)];
		if (slot)
			l->slots[l->slot_count++] = slot;
	}
	if (l->slot_count)
		l->step = STEP_ITEM;
	else
		chain_next(handle, l);
}

/*
 * Goes to the bucket to which the key was moved: by the geometry, or by GET-4 if that does not
 * include the split yet.
 */
void lookup_moved(struct kvd *handle, struct lookup *l)
{
	uint64_t number = geometry_home(&handle->geometry, l->hash);

	if (++l->moves > MOVES_MAX) {
		l->step = STEP_RPC;
	} else if (bucket_level(&handle->geometry, number) >= l->level) {
		lookup_restart(handle, l);
	} else {
		l->number = number_at(l->hash, l->level);
		l->level_min = l->level;
		if (bucket_offset(handle, l->number, &l->home))
			chain_start(l);
		else
			l->step = STEP_RPC;
	}
}

/* The flight that a lookup is part of. */
static const struct flight *flight_of(const struct lookup *lookup)
{
	return (const struct flight *)(const void *)((const char *)lookup -
						     offsetof(struct flight, lookup));
}

enum kvd_status value_deliver(struct kvd *handle, const struct lookup *l, const void *value)
{
	const struct kvd_get_request *request = l->request;
	const struct kvd_op *op = l->pieces ? flight_of(l)->op : NULL;
	uint64_t size = op ? pieces_bytes(op) : request->value_size;

	if (request->item.value_len > size)
		return handle_fail(handle, KVD_ERR_BUFFER,
				   "a value of %zu bytes: the buffer has %llu",
				   request->item.value_len, (unsigned long long)size);
	if (value)
		pieces_scatter(op, value, request->item.value_len);
	return KVD_OK;
}

static void hit_report(struct kvd *handle, uint64_t hash)
{
	uint32_t hits = access_is_sampled(&handle->access, hash) ? 1 :
								   access_choose(&handle->access);

	if (hits)
		access_add(&handle->access, hash, hits, clock_ns());
}

/* Copies the range of @value; NULL: it is in its place. */
static void range_copy(const struct lookup *l, const void *value)
{
	const struct kvd_get_request *request = l->request;
	const struct value_range range = range_of(l, request->item.value_len);

	if (value && range.end > range.at)
		memcpy(request->value, (const uint8_t *)value + range.at, range.end - range.at);
}

/* Not inlined: that would cost GETs of whole values. */
static __attribute__((noinline)) void deliver_part(struct kvd *handle, struct lookup *l,
						   const struct item *item, const void *value)
{
	l->request->item = item_info(item);
	if (l->part == PART_RANGE)
		range_copy(l, value);
	lookup_finish(l, KVD_OK);
	if (l->part == PART_RANGE && access_hit(&handle->access, item->access, l->hash))
		hit_report(handle, l->hash);
}

/* Inlined for items without an expiry time: most. */
static ALWAYS_INLINE void do_deliver(struct kvd *handle, struct lookup *l, const struct item *item,
				     const void *value)
{
	struct kvd_item about = item_info(item);

	if (!judge(handle, l))
		return;
	if (l->cached)
		handle->stats.cache_hits++;
	else if (l->slot_count > 1)
		/* The cache keeps one of a bucket's slots with a tag: now this one. */
		bcache_learn(&handle->cache, l->hash, l->slots[l->slot]);
	if (l->part != PART_WHOLE) {
		deliver_part(handle, l, item, value);
		return;
	}
	lookup_finish(l, lookup_deliver(handle, l, value, &about));
	if (access_hit(&handle->access, item->access, l->hash))
		hit_report(handle, l->hash);
}

static void deliver_item(struct kvd *handle, struct lookup *l, const struct item *item,
			 const void *value)
{
	do_deliver(handle, l, item, value);
}

/* An item with an expiry time is a hit only if client/libkvd/clock.h allows it. */
static void check_expiry(struct kvd *handle, struct lookup *l, const struct item *item,
			 const void *value)
{
	uint64_t now = clock_raw_ns();

	handle_clock_check(handle);
	if (l->clock_refreshed)
		shared_clock_put(handle->server, &handle->clock);
	else if (server_clock_width(&handle->clock, now) > CLOCK_WIDTH_NS_MAX &&
		 !shared_clock_get(handle->server, &handle->clock, now)) {
		l->clock_refreshed = true;
		l->step = STEP_CLOCK;
		return;
	}
	switch (server_clock_judge(&handle->clock, item->expires, l->since_ns, now)) {
	case EXPIRY_VALID:
		deliver_item(handle, l, item, value);
		break;
	case EXPIRY_EXPIRED:
		handle->stats.expired++;
		absent(handle, l);
		break;
	case EXPIRY_REREAD:
		l->since_ns = now;
		clock_load_barrier();
		l->step = ++l->tries < handle->options.get_tries ? STEP_ITEM : STEP_RPC;
		break;
	case EXPIRY_UNKNOWN:
		l->step = STEP_RPC;
		break;
	}
}

void lookup_stale(struct kvd *handle, struct lookup *l)
{
	bcache_drop(&handle->cache, l->hash, l->slots[l->slot]);
	if (l->cached) {
		handle->stats.cache_stale++;
		lookup_restart(handle, l);
	} else {
		retry(handle, l);
	}
}

/*
 * The item's key is longer than the one that is looked up, so not all of it was READ. If its slot
 * is from a bucket, the item may be valid, and another key's of the same tag: only all of its key
 * shows that.
 */
static bool key_is_longer(const struct lookup *l, const struct item *item)
{
	return l->part == PART_NONE && !l->cached && !l->whole_key && item_is_plausible(item) &&
	       item_is_long(item) && item_key_len(item) > l->request->key_len;
}

void lookup_other_key(struct kvd *handle, struct lookup *l)
{
	if (++l->others > OTHERS_MAX)
		l->step = STEP_RPC;
	else
		slot_next(handle, l);
}

void lookup_item(struct kvd *handle, struct lookup *l, const struct item *item, uint64_t bytes)
{
	uint64_t offset = slot_offset(l->slots[l->slot]);
	uint64_t incarnation = handle->geometry.incarnation;
	const struct sum_key *key = &handle->sum_key;

	if (l->part == PART_NONE ? !item_head_verifies(item, bytes, key, incarnation, offset) :
				   !item_verifies(item, bytes, key, incarnation, offset)) {
		if (key_is_longer(l, item))
			l->whole_key = true;
		else
			lookup_stale(handle, l);
	} else if (!item_is_for(item, l->request)) {
		lookup_other_key(handle, l);
	} else if (item->expires) {
		check_expiry(handle, l, item, item_value(item));
	} else {
		do_deliver(handle, l, item, item_value(item));
	}
}

void lookup_found(struct kvd *handle, struct lookup *l, const struct item *item)
{
	if (item->expires)
		check_expiry(handle, l, item, NULL);
	else
		deliver_item(handle, l, item, NULL);
}
