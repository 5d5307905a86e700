/* SPDX-License-Identifier: MIT */
/*
 * What of a membership goes over to the next process (MEMBERSHIP-10), in the file FILE.fleet beside
 * the region of `default` (memory.file). It is replaced as a whole, and names the store that it
 * belongs to: one that was made anew has no past.
 */
#ifndef KVD_SERVER_FLEET_KEPT_MEMBERSHIP_H
#define KVD_SERVER_FLEET_KEPT_MEMBERSHIP_H

#include "server/fleet/membership.h"
#include "server/store/store.h"

/*
 * Replaces the file. @file: memory.file; @keep: of the region of `default`. Blocks for the time
 * that its file system, which is in memory, takes. If that fails, which is logged, there is no
 * file: the next process drops all items. Returns 0 or a negative errno.
 */
int kept_membership_write(const char *file, const struct keep *keep,
			  const struct membership_kept *kept, const struct fleet_map *map);

/*
 * Reads the file if it belongs to the store: *@kept and @past, whose map is the caller's; else
 * past->map is NULL. What is wrong with a file is logged, if the store was kept.
 */
void kept_membership_read(const char *file, const struct keep *keep, struct membership_kept *kept,
			  struct membership_past *past);

#endif /* KVD_SERVER_FLEET_KEPT_MEMBERSHIP_H */
