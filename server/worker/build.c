/* SPDX-License-Identifier: MIT */
/* Takes the memory for values made from large items from the budget of the tenant. */
#include "server/worker/build.h"

#include "common/util/stat.h"

bool build_admit(struct conn *conn, struct budget_hold *hold, struct large *steps)
{
	struct worker *worker = conn->poller->worker;
	size_t wants = large_wants(steps);
	uint64_t bytes = wants ? mem_class_bytes(wants) : 0;
	bool waited = hold->wanted;
	bool admitted;

	if (bytes <= hold->bytes)
		return true;
	if (!hold->conn)
		*hold = (struct budget_hold){ .conn = conn, .own = &conn->gates->builds };
	admitted = budget_take(&conn->part->tenant->build_budget, hold, bytes);
	stat_add(&worker->stats.large_waited, !admitted && !waited);
	return admitted;
}

void build_end(struct conn *conn, struct budget_hold *hold)
{
	struct budget *budget = &conn->part->tenant->build_budget;

	budget_leave(budget, hold);
	budget_give(budget, hold, hold->bytes);
}
