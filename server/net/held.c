/* SPDX-License-Identifier: MIT */
/* Adds up what is held of a worker's pollers and parts of tenants. */
#include "server/net/held.h"

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

static void budget_add(const struct budget *budget, uint64_t *bytes, uint64_t *waits)
{
	for (unsigned int i = 0; i < BUDGET_CLASSES; i++) {
		*bytes += budget->held[i];
		*waits += budget->waiting_count[i];
	}
}

static void part_add(struct held_stats *held, const struct tenant_part *part)
{
	budget_add(&part->pull_budget, &held->pull_bytes, &held->pull_waits);
	budget_add(&part->build_budget, &held->build_bytes, &held->build_waits);
}

void held_show(struct worker *worker)
{
	struct held_stats held = {
		.pulls = worker->pulls_count,
	};
	struct tenant_part *part = NULL;

	for (unsigned int i = 0; i < worker->poller_count; i++)
		if (worker->attached[i])
			poller_add(&held, &worker->pollers[i]);
	while ((part = worker_part_next(worker, part)))
		part_add(&held, part);
#define X(name, help) stat_set(&worker->held.name, held.name);
	HELD_STATS(X)
#undef X
}
