/* SPDX-License-Identifier: MIT */
/*
 * Marks of items that meta commands make, for all workers of a tenant: an item is stale (md I, ms
 * I), or a client has won the right to store it anew. An item has no bits for that, so marks are
 * kept beside the items, by their versions, which are unique.
 *
 *   MARK-1. An item that is replaced has another version, and so no mark.
 *   MARK-2. There are MARKS_MAX at most. To make place for one the oldest is taken away, and if its
 *	 item is stale, that is deleted, too: no client takes a stale item for a fresh one.
 *   MARK-3. A worker that gives an item the version that it then marks says so before
 *	 (marks_begin()). A reader that found the item asks after that: it sees the mark, or that it
 *	 has to look again.
 *   MARK-4. Marks do not go along when a shard moves to another member of a fleet.
 *   MARK-5. Nor do they outlive the process, where items do (memory.file): the next one removes
 *	 items that were stale (keep_note_stale()).
 *
 * Functions take a lock, but for marks_any() and marks_pending(); no lock is held for long.
 */
#ifndef KVD_SERVER_MEMCACHED_MARKS_H
#define KVD_SERVER_MEMCACHED_MARKS_H

#include "server/worker/tenant.h"

#define MARKS_MAX 65536u

enum mark { MARK_STALE = 1, MARK_WON = 2 };

struct mark_item {
	const uint8_t *key;
	uint32_t key_len;
	uint64_t hash;
	uint64_t version;
};

/* The marks of a tenant, made with the first one; NULL: there is none yet, or no memory. */
struct marks *marks_of(struct tenant *tenant, bool make);
void marks_destroy(struct marks *marks);

/* The marks of the item, enum mark. */
unsigned int marks_get(struct marks *marks, uint64_t version);
/*
 * Adds @bits to the marks of the item, and returns those it had. The oldest mark may have to go: if
 * its item is stale that is *@victim, and the caller deletes it; its key is of malloc(), NULL:
 * none.
 * *@made: false if there is no memory, and nothing was marked.
 */
unsigned int marks_add(struct marks *marks, const struct mark_item *item, unsigned int bits,
		       struct mark_item *victim, bool *made);

/* MARK-3: from here to marks_end() @worker, its number, marks the key of this hash. */
void marks_begin(struct marks *marks, unsigned int worker, uint64_t hash);
void marks_end(struct marks *marks, unsigned int worker);
/* Whether another worker is marking the key now. */
bool marks_pending(const struct marks *marks, uint64_t hash);

#endif /* KVD_SERVER_MEMCACHED_MARKS_H */
