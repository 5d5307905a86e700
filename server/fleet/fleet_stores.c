/* SPDX-License-Identifier: MIT */
/* Keeps the list of the stores, and does the same in all of them. */
#include "server/fleet/fleet_stores.h"

#include <stdio.h>
#include <string.h>

#include <urcu-qsbr.h>

/* A part of the keys is a shard: bit n of a fleet's set is bit n of a store's. */
static_assert(KEY_PARTS == FLEET_SHARDS && KEY_PART_SHIFT == FLEET_SHARD_SHIFT, "one hash");

void fleet_stores_init(struct fleet_stores *stores)
{
	memset(stores, 0, sizeof(*stores));
	pthread_mutex_init(&stores->lock, NULL);
	TAILQ_INIT(&stores->list);
}

void fleet_stores_release(struct fleet_stores *stores)
{
	pthread_mutex_destroy(&stores->lock);
}

static void do_add(struct fleet_stores *stores, struct store *store)
{
	stores->changes++;
	store_publish_word(store, &stores->word);
	TAILQ_INSERT_TAIL(&stores->list, store, entry);
}

static void do_remove(struct fleet_stores *stores, struct store *store)
{
	struct store *each;

	TAILQ_FOREACH(each, &stores->list, entry)
		if (each == store)
			break;
	if (!each)
		return;
	stores->changes++;
	moving_end(&store->table);
	TAILQ_REMOVE(&stores->list, each, entry);
}

void fleet_stores_add(struct fleet_stores *stores, struct store *store, const char *tenant)
{
	snprintf(store->tenant, sizeof(store->tenant), "%s", tenant);
	pthread_mutex_lock(&stores->lock);
	do_add(stores, store);
	pthread_mutex_unlock(&stores->lock);
}

void fleet_stores_replace(struct fleet_stores *stores, struct store *old, struct store *store)
{
	uint64_t parts[KEY_PARTS_WORDS];

	memcpy(store->tenant, old->tenant, sizeof(store->tenant));
	pthread_mutex_lock(&stores->lock);
	if (maintenance_drops(&old->maintenance, parts))
		maintenance_drop(&store->maintenance, parts);
	/* What was raised since @store was filled: STORES-4. */
	table_raise_versions(&store->table, table_clock_max(&old->table));
	do_remove(stores, old);
	do_add(stores, store);
	pthread_mutex_unlock(&stores->lock);
}

void fleet_stores_remove(struct fleet_stores *stores, struct store *store)
{
	pthread_mutex_lock(&stores->lock);
	do_remove(stores, store);
	pthread_mutex_unlock(&stores->lock);
}

uint64_t fleet_stores_lock(struct fleet_stores *stores, unsigned int *count)
{
	struct store *store;

	pthread_mutex_lock(&stores->lock);
	*count = 0;
	TAILQ_FOREACH(store, &stores->list, entry)
		(*count)++;
	return stores->changes;
}

bool fleet_stores_hold(struct fleet_stores *stores, uint64_t changes)
{
	pthread_mutex_lock(&stores->lock);
	if (stores->changes == changes)
		return true;
	pthread_mutex_unlock(&stores->lock);
	return false;
}

void fleet_stores_let_go(struct fleet_stores *stores)
{
	pthread_mutex_unlock(&stores->lock);
}

void fleet_stores_raise(struct fleet_stores *stores, uint64_t random)
{
	struct store *store;

	pthread_mutex_lock(&stores->lock);
	TAILQ_FOREACH(store, &stores->list, entry)
		store_renew_versions(store, random);
	pthread_mutex_unlock(&stores->lock);
	synchronize_rcu();
}

void fleet_stores_word(struct fleet_stores *stores, const struct fleet_word *word)
{
	struct store *store;

	pthread_mutex_lock(&stores->lock);
	stores->word = *word;
	TAILQ_FOREACH(store, &stores->list, entry)
		store_publish_word(store, word);
	pthread_mutex_unlock(&stores->lock);
}

void fleet_stores_drop(struct fleet_stores *stores, const uint64_t shards[FLEET_SHARDS / 64])
{
	struct store *store;

	pthread_mutex_lock(&stores->lock);
	TAILQ_FOREACH(store, &stores->list, entry)
		maintenance_drop(&store->maintenance, shards);
	pthread_mutex_unlock(&stores->lock);
}

bool fleet_stores_dropped(struct fleet_stores *stores)
{
	struct store *store;
	bool drops = false;

	pthread_mutex_lock(&stores->lock);
	TAILQ_FOREACH(store, &stores->list, entry)
		drops = drops || maintenance_drops(&store->maintenance, NULL);
	pthread_mutex_unlock(&stores->lock);
	return !drops;
}
