/* SPDX-License-Identifier: MIT */
/* What kvctl top shows of a fleet: its members together, and a line for each of them. */
#ifndef KVD_CLIENT_KVCTL_TOP_FLEET_H
#define KVD_CLIENT_KVCTL_TOP_FLEET_H

#include "client/kvctl/members.h"
#include "client/kvctl/top_lines.h"

struct top_fleet_sample {
	bool is_taken;
	uint64_t at_ns;
	char (*stats)[STATS_BYTES]; /* of each member; "": it is away */
	uint64_t *ping_ns;
};

/* For @count members. False: no memory. */
bool top_fleet_sample_init(struct top_fleet_sample *sample, uint32_t count);
void top_fleet_sample_release(struct top_fleet_sample *sample);
/* Asks the members. */
void top_fleet_sample_take(struct top_fleet_sample *sample, struct members *members,
			   const struct arguments *arguments);

/* Makes the lines for the time between @before and @now. */
void top_fleet_view_make(struct top_view *view, const struct members *members,
			 const struct top_fleet_sample *before, const struct top_fleet_sample *now);

#endif /* KVD_CLIENT_KVCTL_TOP_FLEET_H */
