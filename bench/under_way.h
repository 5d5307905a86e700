/* SPDX-License-Identifier: MIT */
/*
 * Keeps several operations of a client thread under way together: kvbench -D. As soon as one has
 * ended, another is submitted in its place. The latency of each is the time from its submission
 * until the thread has it back, which includes time spent queued after other operations.
 *
 * A read-modify-write stays in its place: a GET, and when that has ended a PUT of the same key.
 */
#ifndef KVD_BENCH_UNDER_WAY_H
#define KVD_BENCH_UNDER_WAY_H

#include <stdint.h>

#include "bench/client.h"

/* As client_run(), where load->target.depth is above 1. Returns when nothing is under way. */
void under_way_run(struct client *client, uint64_t quota, uint64_t deadline_ns);

#endif /* KVD_BENCH_UNDER_WAY_H */
