/* SPDX-License-Identifier: MIT */
/*
 * Resizing: copies the items of a store that is no longer used to a new store of another size.
 * Region, index and item memory are made for one size, so a store can't change its own.
 *
 * Keys, values, flags, versions, expiry times, access times, pins and priorities stay as they are.
 * New versions are above all that the old store has made, and waiting flushes still wait
 * (store_start()). So do notes of stale items (keep_note_stale()). Items that have expired, or
 * expire within the second, are left out. With eviction, a store that is too small for all items
 * keeps those that eviction keeps; without, resizing fails.
 */
#ifndef KVD_SERVER_STORE_RESIZE_H
#define KVD_SERVER_STORE_RESIZE_H

#include "server/store/update.h"

/*
 * Copies the items of table @from to the empty table of @threads, which are all its @count threads.
 * No other thread uses the tables, maintenance threads included. May take seconds for each GiB;
 * *@stop, if it becomes true, ends it. Returns 0; -ENOSPC: not all fit; -E2BIG: a value is
 * longer than the new store takes; -ECANCELED: it was stopped.
 */
int resize_fill(struct store_thread *const *threads, unsigned int count, const struct table *from,
		const _Atomic bool *stop);

#endif /* KVD_SERVER_STORE_RESIZE_H */
