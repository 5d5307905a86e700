/* SPDX-License-Identifier: MIT */
/*
 * Items that move to another server of a fleet while clients change them: which have to be copied,
 * and again since they were changed. moving_clear() of server/store/table_maintain.h is for that
 * other server.
 *
 *   MOVING-1. Keys have 2^20 segments, by the low bits of their hash: a segment is a range of a
 *	 scan (server/store/scan.h), however many buckets the index has. A thread that changes or
 *	 removes an item of the parts that move marks its segment, under the lock of its bucket,
 *	 after the change, and also if it is marked already. So what a scan of a segment finds after
 *	 its mark was taken is all of it, or the segment is marked again. Moves inside the memory
 *	 and notes of uses change nothing.
 *   MOVING-2. A reader of the table that only copies needs a struct store_thread of its own, which
 *	 store_reader_init() makes: it changes nothing, and the table does not know it.
 *
 * A store in which nothing moves reads one pointer for each change.
 */
#ifndef KVD_SERVER_STORE_MOVING_H
#define KVD_SERVER_STORE_MOVING_H

#include "server/store/index.h"

#define KEY_SEGMENT_BITS 20u
#define KEY_SEGMENTS (1u << KEY_SEGMENT_BITS)

struct moving {
	uint64_t parts[KEY_PARTS_WORDS]; /* that move; constant */
	_Atomic uint64_t marks[KEY_SEGMENTS / 64];
};

/* Makes a reader of @table for one thread, which is an RCU reader (MOVING-2). Needs no release. */
void store_reader_init(struct store_thread *thread, struct table *table);

/*
 * From a grace period after it on, changes in @moving's parts are marked; @moving stays until a
 * grace period after moving_end(). One at a time for a table. Neither waits.
 */
void moving_begin(struct table *table, struct moving *moving);
void moving_end(struct table *table);

static inline uint32_t segment_of(uint64_t hash)
{
	return (uint32_t)(hash_order(hash) >> (64 - KEY_SEGMENT_BITS));
}

/* Mark the segment of a hash, or of the item's key, if it is of @moving's parts. */
void moving_mark(struct moving *moving, uint64_t hash);
void moving_mark_item(struct moving *moving, const struct table *table, const struct item *item);

/* An item was changed or removed, whose bucket is locked: by its hash, or by its key. */
static inline void do_moving_note(const struct table *table, uint64_t hash)
{
	struct moving *moving = atomic_load_explicit(&table->moving, memory_order_acquire);

	if (__builtin_expect(moving != NULL, 0))
		moving_mark(moving, hash);
}

static inline void do_moving_note_item(const struct table *table, const struct item *item)
{
	struct moving *moving = atomic_load_explicit(&table->moving, memory_order_acquire);

	if (__builtin_expect(moving != NULL, 0))
		moving_mark_item(moving, table, item);
}

/*
 * *@flushes: of @table, to be compared later: while it is the same, no flush has removed anything.
 * False: one does so now. Any thread.
 */
static inline bool table_no_flush(const struct table *table, uint64_t *flushes)
{
	*flushes = atomic_load(&table->flushes);
	return !atomic_load(&table->flushing);
}

/* How many segments are marked. Any thread. */
uint32_t moving_marked(const struct moving *moving);
/*
 * Takes the mark off the first marked segment that is *@segment or later, and sets *@segment to it.
 * False: there is none.
 */
bool moving_take(struct moving *moving, uint32_t *segment);

/* The cursors of a scan at which a segment begins and ends; 0: the end of the scan. */
static inline uint64_t segment_begin(uint32_t segment)
{
	return (uint64_t)segment << (64 - KEY_SEGMENT_BITS);
}

static inline uint64_t segment_end(uint32_t segment)
{
	return (uint64_t)(segment + 1) << (64 - KEY_SEGMENT_BITS);
}

/* All changes that begin from now on make versions above @counter. Any thread. */
void table_raise_versions(struct table *table, uint64_t counter);

#endif /* KVD_SERVER_STORE_MOVING_H */
