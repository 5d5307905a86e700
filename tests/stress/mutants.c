/* SPDX-License-Identifier: MIT */
/*
 * The mutants' code: functions of common/barrier.h and of the table that break a rule while a
 * mutant is active, and pause to give others time to observe it.
 */
#include "tests/stress/mutants.h"

#include <string.h>
#include <time.h>

#include "client/libkvd/geometry.h"
#include "common/barrier.h"

/* A mutant pauses in one of this many cases, for PAUSE_NS. */
#define ONE_PAUSE_IN 4
#define PAUSE_NS 300000
#define ONE_FOLLOW_PAUSE_IN 500
/* Freed items that a thread keeps valid at the same time. */
#define LATE_FREES_MAX 512

enum mutant mutant_active;
const struct table *mutant_table;

/* A removed item that stays valid until it is freed, which is late. */
struct late_free {
	struct item *item;
	struct mem_cache *cache; /* that frees it; NULL until mutant_mem_free() is called for it */
	size_t bytes;
};

/* What the calling thread does now, and what it has postponed. */
static _Thread_local struct {
	struct item *kept; /* the replaced item, to be invalidated late */
	bool rewriting;	   /* a valid item, in place */
	uint64_t *slot;	   /* to be stored late, with the lock of home held */
	uint64_t slot_value;
	struct bucket *home;
	struct late_free late_frees[LATE_FREES_MAX];
	unsigned int late_free_next;
	struct bucket *fresh;  /* the new bucket of a split */
	struct bucket *moving; /* home of the chain that is being moved */
	bool shortening;
	struct bucket *low; /* a split bucket whose new level will be stored late */
	uint8_t low_level;
	uint64_t random;
} mine;

const char *mutant_text(unsigned int number)
{
	static const char *const texts[] = {
#define X(name, text) text,
		MUTANT_MAP(X)
#undef X
	};

	return number < MUTANTS ? texts[number] : "";
}

static bool one_in(unsigned int odds)
{
	mine.random = mine.random * 6364136223846793005u + 1442695040888963407u;
	return (mine.random >> 33) % odds == 0;
}

static void pause_now(void)
{
	const struct timespec pause = { 0, PAUSE_NS };

	nanosleep(&pause, NULL);
}

static void pause_maybe(void)
{
	if (one_in(ONE_PAUSE_IN))
		pause_now();
}

static bool is(const char *in, const char *function)
{
	return !strcmp(in, function);
}

static void free_late(struct late_free *late)
{
	if (!late->cache)
		return;
	item_invalidate(late->item);
	mem_free(late->cache, late->item, late->bytes);
	*late = (struct late_free){ .item = NULL };
}

void mutant_item_invalidate(struct item *item, const char *in)
{
	if ((mutant_active == MUTANT_OLD_STAYS || mutant_active == MUTANT_SUM_FIRST) &&
	    is(in, "do_point")) {
		mine.kept = item;
		return;
	}
	if (mutant_active == MUTANT_REWRITE_VALID && is(in, "do_replace_in_place")) {
		mine.rewriting = true;
		return;
	}
	if (((mutant_active == MUTANT_FREE_VALID && (is(in, "do_remove") || is(in, "do_point"))) ||
	     (mutant_active == MUTANT_MOVE_VALID && is(in, "do_move"))) &&
	    item_bytes(item) < LIMBO_ITEM_BYTES) {
		free_late(&mine.late_frees[++mine.late_free_next % LATE_FREES_MAX]);
		mine.late_frees[mine.late_free_next % LATE_FREES_MAX].item = item;
		return;
	}
	item_invalidate(item);
}

/* Comes soon after the item was to be invalidated; postpones the free as well. */
void mutant_mem_free(struct mem_cache *cache, void *p, size_t bytes)
{
	struct late_free *late = &mine.late_frees[mine.late_free_next % LATE_FREES_MAX];

	if (!p || p != late->item) {
		mem_free(cache, p, bytes);
		return;
	}
	late->cache = cache;
	late->bytes = bytes;
}

static void invalidate_kept(void)
{
	if (!mine.kept)
		return;
	/* No pause for fillers: there are many, and only their writers would notice. */
	if (*item_key(mine.kept) != 'f')
		pause_now();
	item_invalidate(mine.kept);
	mine.kept = NULL;
}

void mutant_item_publish(struct item *item, uint64_t sum, const char *in)
{
	(void)in;
	item_publish(item, sum);
	mine.rewriting = false;
	invalidate_kept();
}

/* Copies the first half and, after a pause, the second. */
void *mutant_memmove(void *to, const void *from, size_t bytes)
{
	size_t half = mine.rewriting ? bytes / 2 : 0;

	if (half) {
		memmove(to, from, half);
		pause_maybe();
	}
	return memmove((char *)to + half, (const char *)from + half, bytes - half);
}

static void publish_early(uint64_t slot)
{
	struct item *item = slot_item(mutant_table, slot);

	item_publish(item, item_sum(item, &mutant_table->region->sum_key,
				    mutant_table->region->geometry.incarnation, slot_offset(slot)));
	pause_maybe();
}

void mutant_slot_store(uint64_t *slot, uint64_t value, const char *in)
{
	if (mutant_active == MUTANT_ACK_EARLY && is(in, "do_point") && !*slot) {
		mine.slot = slot;
		mine.slot_value = value;
		return;
	}
	if (mutant_active == MUTANT_SUM_FIRST && is(in, "do_point"))
		publish_early(value);
	slot_store(slot, value);
	/* Rarely does a reader meet a chain that is shortened: it is for longer, then. */
	if (mutant_active == MUTANT_EPOCH_STAYS && mine.shortening)
		pause_maybe();
	if (mutant_active == MUTANT_SUM_FIRST)
		invalidate_kept();
}

static void acknowledge(void)
{
	uintptr_t bucket = (uintptr_t)mine.slot & ~(uintptr_t)(BUCKET_BYTES - 1);

	if (!mine.slot)
		return;
	slot_store(mine.slot, mine.slot_value);
	do_chain_seal(mutant_table, mine.home, (struct bucket *)bucket);
	bucket_unlock(mine.home);
	mine.slot = NULL;
}

void mutant_settle(void)
{
	unsigned int i;

	for (i = 0; i < LATE_FREES_MAX; i++)
		free_late(&mine.late_frees[i]);
	acknowledge();
}

void mutant_bucket_lock(struct bucket *bucket)
{
	acknowledge();
	bucket_lock(bucket);
}

void mutant_bucket_unlock(struct bucket *bucket, const char *in)
{
	if (mine.slot && is(in, "attempt_once")) {
		mine.home = bucket;
		return;
	}
	if (mine.low == bucket && is(in, "split")) {
		pause_now();
		bucket_level_store(bucket, mine.low_level);
		do_chain_seal(mutant_table, bucket, bucket);
		mine.low = NULL;
	}
	bucket_unlock(bucket);
}

void mutant_level_store(struct bucket *bucket, uint8_t level, const char *in)
{
	bool splits = is(in, "do_chain_write") && bucket == mine.moving &&
		      bucket->level + 1 == level;

	if (mutant_active == MUTANT_EPOCH_IGNORED && splits)
		pause_maybe();
	if (mutant_active == MUTANT_LEVEL_LATE && splits && !bucket->overflow) {
		mine.low = bucket;
		mine.low_level = level;
		return;
	}
	bucket_level_store(bucket, level);
}

/* Removes from the home bucket what the split moves, before the new bucket has it; then pauses. */
static void split_early(struct bucket *home)
{
	unsigned int i;

	mine.fresh->epoch += 2;
	do_chain_seal(mutant_table, mine.fresh, mine.fresh);
	for (i = 0; i < BUCKET_SLOTS; i++) {
		const struct item *item = slot_item(mutant_table, home->slots[i]);

		if (home->slots[i] &&
		    table_hash(mutant_table, item_key(item), item_key_len(item)) >> home->level & 1)
			slot_store(&home->slots[i], 0);
	}
	bucket_level_store(home, (uint8_t)(home->level + 1));
	home->epoch += 2;
	do_chain_seal(mutant_table, home, home);
	pause_now();
	chain_move_begin(mine.fresh);
	mine.fresh = NULL;
}

void mutant_chain_move_begin(struct bucket *home, const char *in)
{
	mine.moving = home;
	mine.shortening = is(in, "do_chain_shorten");
	if (mutant_active == MUTANT_EPOCH_STAYS && mine.shortening)
		return;
	if (mutant_active == MUTANT_SPLIT_CLEARS && is(in, "split")) {
		if (!mine.fresh) {
			mine.fresh = home;
			return;
		}
		split_early(home);
	}
	chain_move_begin(home);
}

void mutant_chain_move_end(struct bucket *home)
{
	struct bucket *bucket = home;

	if (mutant_active != MUTANT_EPOCH_STAYS || !mine.shortening) {
		chain_move_end(home);
		return;
	}
	while ((bucket = bucket_next(mutant_table, bucket))) {
		bucket->epoch = home->epoch;
		do_chain_seal(mutant_table, home, bucket);
	}
	mine.shortening = false;
}

uint64_t mutant_slot_follow(const uint64_t *slot)
{
	if (mutant_active == MUTANT_EPOCH_IGNORED && one_in(ONE_FOLLOW_PAUSE_IN))
		pause_now();
	return slot_follow(slot);
}

uint16_t mutant_epoch_first(const struct bucket *home)
{
	uint16_t epoch = chain_epoch_first(home);

	return mutant_active == MUTANT_EPOCH_IGNORED ? epoch & (uint16_t)~1u : epoch;
}

uint16_t mutant_epoch_again(const struct bucket *home, uint16_t epoch)
{
	return mutant_active == MUTANT_EPOCH_IGNORED ? epoch : chain_epoch_again(home);
}

bool mutant_item_is_for(const struct item *item, const struct kvd_get_request *request)
{
	return mutant_active == MUTANT_KEY_IGNORED || item_is_for(item, request);
}

static bool is_home(uint64_t offset, uint32_t bytes, uint64_t *number)
{
	*number = (offset - sizeof(struct superblock)) / BUCKET_BYTES;
	return bytes == BUCKET_BYTES && offset >= sizeof(struct superblock) &&
	       *number < index_buckets(mutant_table);
}

/* Pauses between the READs of a home bucket and of the chain's next one. */
void mutant_before_read(struct loopback *loopback, uint64_t offset, uint32_t bytes)
{
	uint64_t number;

	(void)loopback;
	if (mutant_active == MUTANT_EPOCH_STAYS && bytes == BUCKET_BYTES &&
	    !is_home(offset, bytes, &number))
		pause_maybe();
}

/* Gives the bucket the level that the client expects, so that it does not see the split. */
void mutant_after_read(struct loopback *loopback, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	const struct geometry *g = &loopback->kvd.geometry;
	struct bucket *bucket = (struct bucket *)to;
	uint64_t number;
	uint8_t level;

	if (!is_home(offset, bytes, &number) ||
	    bucket->sum !=
		    bucket_sum(bucket, &loopback->kvd.sum_key, g->incarnation, offset, offset))
		return;
	level = bucket_level(g, number);
	if (bucket->level <= level)
		return;
	bucket->level = level;
	bucket->sum = bucket_sum(bucket, &loopback->kvd.sum_key, g->incarnation, offset, offset);
}
