/* SPDX-License-Identifier: MIT */
/*
 * How a fleet's handle gets the map, and a newer one when members say that there is one.
 *
 *	IDLE -- wanted --> FETCH -- newer --> DRAIN --> IDLE, with the new map
 *	  ^		     |			^
 *	  |		     `---- none --> PAUSE
 *
 * What waits for a map goes on after each round, with a newer map or without: a member that refused
 * may have had an older map. Rounds without one have growing, random pauses between them.
 *
 * A member that gives a shard to another one refuses requests for it for some 10 to 200 ms before
 * there is another map, while it copies the last changes (FLEET-8). So rounds in which requests are
 * refused have short pauses.
 */
#ifndef KVD_CLIENT_LIBKVD_FLEET_REFRESH_H
#define KVD_CLIENT_LIBKVD_FLEET_REFRESH_H

#include "client/libkvd/fleet_links.h"

/* Wants a newer map, if there is one: a round begins, unless one is under way. */
void refresh_want(struct kvd *home);
/* A member has refused the flight: its shard is held until a round ends, which is soon. */
void refresh_refused(struct kvd *home, const struct flight *f);

/*
 * Takes the steps that are due. True: a round has ended, and what waits can go on.
 */
bool refresh_progress(struct kvd *home);

/* When refresh_progress() has work even if nothing arrives. UINT64_MAX: never. */
uint64_t refresh_next_ns(const struct fleet *fleet);

/* Starts to fetch the map from @member, which is connected or connecting. */
void fetch_begin(struct kvd *home, struct kvd *member);
/* Ends the fetch, if it is from @member. */
void fetch_lost(struct kvd *member);

#endif /* KVD_CLIENT_LIBKVD_FLEET_REFRESH_H */
