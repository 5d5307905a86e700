/* SPDX-License-Identifier: MIT */
/*
 * Recovery of a store whose process was killed (keep.h).
 *
 *   RECOVER-1. An item is kept only if it verifies: header, key and value, by the sums of the
 *	 incarnation that was killed. What else a block has is no item.
 *   RECOVER-2. Of a key that was being changed, the old item is valid again if the new one is not
 *	 (KEEP-4). So no key has two items, and none that was acknowledged has none.
 *   RECOVER-3. The region gets a new incarnation, and each item that is kept the sum of it. So a
 *	 client that still maps the region of the old incarnation takes nothing for an item or a
 *	 bucket any more. It can't tell which items the new server has replaced.
 *   RECOVER-4. The index is made anew from the items, with as many buckets as they need.
 *   RECOVER-5. A kill during the recovery is followed by another one: until it is complete, sums of
 *	 both incarnations verify.
 *   RECOVER-6. The flush that was under way is finished: items that it would have removed are not
 *	 kept.
 */
#ifndef KVD_SERVER_STORE_RECOVER_H
#define KVD_SERVER_STORE_RECOVER_H

#include "server/store/table.h"

/*
 * Recovers what is in the region, with several threads, and logs how much that was. Before the
 * store's threads start. Returns 0, -ECANCELED or, after logging, another negative errno.
 */
int recover_run(struct table *table, const struct store_options *options);

#endif /* KVD_SERVER_STORE_RECOVER_H */
