/* SPDX-License-Identifier: MIT */
/* What connections hold of a budget, or wait for, and where they wait: server/worker/budget.h. */
#ifndef KVD_SERVER_WORKER_BUDGET_GATE_H
#define KVD_SERVER_WORKER_BUDGET_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct client;

/* In the order in which a hold passes them. */
enum budget_stage { BUDGET_LATE, BUDGET_OWN, BUDGET_ALL, BUDGET_STAGES };

struct budget_gate {
	uint64_t passed; /* bytes of the holds that have passed it */
	TAILQ_HEAD(budget_waiting, budget_hold) waiting;
};

/* A principal's gates in a tenant: server/control/accounts.h. */
struct budget_gates {
	struct budget_gate pulls, builds;
};

/* Under the budget's lock; without it the connection's worker may read `bytes` and `wanted`. */
struct budget_hold {
	struct client *client; /* woken when it has its turn */
	struct budget_gate *own;
	bool late;		 /* BUDGET-4 */
	bool again;		 /* it held some and asks for more: the next at each gate */
	uint64_t bytes;		 /* that it holds; 0: none */
	uint64_t wanted;	 /* that it waits for; 0: it does not wait */
	enum budget_stage stage; /* of the gate at which it waits */
	TAILQ_ENTRY(budget_hold) entry;
};

static inline void budget_gate_init(struct budget_gate *gate)
{
	gate->passed = 0;
	TAILQ_INIT(&gate->waiting);
}

static inline void budget_gates_init(struct budget_gates *gates)
{
	budget_gate_init(&gates->pulls);
	budget_gate_init(&gates->builds);
}

#endif /* KVD_SERVER_WORKER_BUDGET_GATE_H */
