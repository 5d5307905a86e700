/* SPDX-License-Identifier: MIT */
/*
 * The stores of all tenants, for the fleet's thread: it publishes the member's word in each, and
 * has the items of shards that the server must not serve any more removed from all.
 *
 *   STORES-1. A store is added before a client can READ it, and has the newest word from then on:
 *	 all stores have the same one.
 *   STORES-2. A drop removes what the stores have of some shards, also from a store that replaces
 *	 one of them meanwhile. Before it the view without these shards was published
 *	 (fleet_publish()), and until it is done no other view serves them.
 *
 *   STORES-3. A thread that copies items holds the lock while it reads a store, for some ms at
 *	 most. It learns whether a store has joined, left or was replaced since it began
 *	 (`changes`). A store that leaves marks nothing any more.
 *   STORES-4. When a server gets shards from a member that can't tell its versions any more
 *	 (FLEET-10), its own rise to the time of day and random ticks, as those of a server that
 *	 starts (CLOCK-1 to CLOCK-3 in server/store/version_clock.h).
 *
 * All functions may be called by any thread.
 */
#ifndef KVD_SERVER_FLEET_FLEET_STORES_H
#define KVD_SERVER_FLEET_FLEET_STORES_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/fleet/map.h"
#include "server/store/store.h"

struct fleet_stores {
	pthread_mutex_t lock; /* guards all below; the stores' locks are taken inside */
	TAILQ_HEAD(store_list, store) list;
	uint64_t changes;	/* of the list */
	struct fleet_word word; /* the newest; its sum is the stores' */
};

/* No store; nothing that is READ from one that is added counts, until there is a word. */
void fleet_stores_init(struct fleet_stores *stores);
/* No store is left. Accepts a zeroed @stores, too. */
void fleet_stores_release(struct fleet_stores *stores);

/* @store is of the tenant of that name, and was started; no client can READ it yet. */
void fleet_stores_add(struct fleet_stores *stores, struct store *store, const char *tenant);
/*
 * As fleet_stores_add(), for a store with the items of @old, which leaves the list: what is being
 * dropped from @old, whose maintenance thread has stopped, is dropped from @store. No client can
 * READ either.
 */
void fleet_stores_replace(struct fleet_stores *stores, struct store *old, struct store *store);
/*
 * Locks the list. fleet_stores_lock() returns `changes` and sets *@count to the number of stores;
 * fleet_stores_hold(), if `changes` is another by now, returns false, and nothing is locked.
 */
uint64_t fleet_stores_lock(struct fleet_stores *stores, unsigned int *count);
bool fleet_stores_hold(struct fleet_stores *stores, uint64_t changes);
void fleet_stores_let_go(struct fleet_stores *stores);

/*
 * STORES-4. Waits for a grace period: the caller is no RCU reader. @random: differs for each call.
 */
void fleet_stores_raise(struct fleet_stores *stores, uint64_t random);

/* Before the store is stopped. Nothing happens if it was not added. */
void fleet_stores_remove(struct fleet_stores *stores, struct store *store);

/* Publishes @word, its generation, epoch and end, in all stores, before it returns. */
void fleet_stores_word(struct fleet_stores *stores, const struct fleet_word *word);

/* Begins to remove all items of @shards, a bit for each as in struct fleet_view: STORES-2. */
void fleet_stores_drop(struct fleet_stores *stores, const uint64_t shards[FLEET_SHARDS / 64]);
/* Whether all that was begun is done: no reader can see such an item. */
bool fleet_stores_dropped(struct fleet_stores *stores);

#endif /* KVD_SERVER_FLEET_FLEET_STORES_H */
