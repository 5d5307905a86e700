/* SPDX-License-Identifier: MIT */
/*
 * Resizing: a new store of another size gets the items of one that nobody uses any more. Region,
 * index and item memory are made for a size; so a store does not change its own.
 *
 * Keys, values, flags, versions, expiry times, access times, pins and priorities stay as they are.
 * Versions go on above all that the old store has made, and flushes that wait go on waiting
 * (store_start()). What has expired is left out, and so is what expires within the second.
 * With eviction, a store that is too small for all items keeps those that eviction keeps; without,
 * resizing fails.
 */
#ifndef KVD_SERVER_STORE_RESIZE_H
#define KVD_SERVER_STORE_RESIZE_H

#include "server/store/update.h"

/*
 * Copies the items of table @from to that of @threads, which is empty: they are all its @count
 * threads. No thread works on either, the maintenance threads included. May take seconds for each
 * GiB; *@stop, if it becomes true, ends it. Returns 0; -ENOSPC: not all fit; -E2BIG: a value is
 * longer than the new store takes; -ECANCELED: it was stopped.
 */
int resize_fill(struct store_thread *const *threads, unsigned int count, const struct table *from,
		const _Atomic bool *stop);

#endif /* KVD_SERVER_STORE_RESIZE_H */
