/* SPDX-License-Identifier: MIT */
/* Adds up what is held of a worker's pollers. */
#include "server/worker/held.h"

#include "common/util/stat.h"

static void poller_add(struct held_stats *held, const struct poller *poller)
{
	const struct window_pool *windows = &poller->windows;

	held->receives += poller->limits.srq_depth - poller->posted;
	held->response_buffers += poller->free_max - poller->free_count;
	held->spare_buffers += poller->spare_buffers_max - poller->spare_buffers;
	held->spare_sends += poller->spare_sends_max - poller->spare_sends;
	held->windows += windows->left_max - windows->left;
}

void held_show(struct worker *worker)
{
	struct held_stats held = {
		.pulls = worker->pulls_count,
	};

	for (unsigned int i = 0; i < worker->poller_count; i++)
		if (worker->attached[i])
			poller_add(&held, &worker->pollers[i]);
#define X(name, help) stat_set(&worker->held.name, held.name);
	HELD_STATS(X)
#undef X
}
