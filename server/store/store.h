/* SPDX-License-Identifier: MIT */
/*
 * The store: the interface of the storage engine, for the server, benchmarks and tests. The engine
 * knows no RDMA, no connection and no configuration file.
 *
 *	struct store store;
 *	struct store_thread thread;	one for each thread that works on the store
 *
 *	store_create(&store, &options);
 *	store_thread_init(&thread, &store.table, 0);
 *	store_start(&store, NULL);
 *	... table_put(&thread, table_hash(&store.table, key, key_len), &change); ...
 *	store_stop(&store);
 *	store_thread_release(&thread);
 *	store_destroy(&store);
 *
 * The operations and where they are declared:
 *
 *	table_hash, table_prefetch_bucket, table_prefetch_item	table.h, index.h: first of all
 *	table_put, table_arith, table_touch, table_delete	update.h: change a key
 *	table_reserve, table_commit, table_abandon		update.h: a value that arrives later
 *	lookup_get, lookup_get_part				lookup.h: read a key
 *	large_append, large_commit		large.h: PUTs of large items, in steps
 *	table_scan						scan.h: read all keys
 *	table_access						table_maintain.h: a reported GET
 *	maintenance_flush, maintenance_flushed, maintenance_cancel
 *								maintenance.h: remove all items
 *	maintenance_drop, maintenance_drops			maintenance.h: remove some
 *	moving_begin, moving_take, moving_clear			moving.h: items that move away
 *	curve_stats						curve.h: what more memory would hit
 *	host_sleep_init			host_sleep.h: for stores whose clock counts it
 *	room_begin, room_step					room.h: memory for any, in steps
 *	resize_fill						resize.h: a store of another size
 *	region_extend, store_open_extents			a larger region
 *	store_close_extents, store_extents_state, region_cut	a smaller one
 */
#ifndef KVD_SERVER_STORE_STORE_H
#define KVD_SERVER_STORE_STORE_H

#include <sys/queue.h>

#include "server/store/access_time.h"
#include "server/store/curve.h"
#include "server/store/evicted.h"
#include "server/store/host_sleep.h"
#include "server/store/index.h"
#include "server/store/large.h"
#include "server/store/lookup.h"
#include "server/store/maintenance.h"
#include "server/store/moving.h"
#include "server/store/resize.h"
#include "server/store/room.h"
#include "server/store/scan.h"
#include "server/store/store_options.h"
#include "server/store/table_maintain.h"
#include "server/store/update.h"
#include "server/store/version_clock.h"

struct store {
	struct region region;  /* what clients read */
	struct memory *memory; /* the part of the region that holds items */
	struct pins *pins;
	struct table table; /* maps keys to items */
	struct maintenance maintenance;
	uint32_t sweep_share;
	TAILQ_ENTRY(store) entry;	  /* in a list of the store's owner */
	char tenant[WIRE_TENANT_MAX + 1]; /* likewise the owner's */
};

/*
 * Checks, without any effect, whether this host has what a store with these options needs: memory,
 * required huge pages, NUMA nodes. Returns 0 or, after logging, a negative errno.
 */
int store_check(const struct store_options *options);

/*
 * Maps the region, allocates its memory if @options say so, and creates an empty store in it.
 * Returns 0, -ECANCELED or, after logging, another negative errno, and *@store holds nothing then:
 * see region_create() and memory_create(). Any thread.
 */
int store_create(struct store *store, const struct store_options *options);
/* After store_stop() and store_thread_release() of all threads. A zeroed store is fine, too. */
void store_destroy(struct store *store);

/*
 * Starts the maintenance thread. The store works without one, but then expired items stay until
 * their key is changed or they are evicted, nothing is flushed, and the index grows only into free
 * memory. Call it after store_thread_init() of all other threads, before they begin. @from: the
 * store that this one replaces, whose flushes it takes over; its maintenance thread has been
 * stopped. NULL: none. Returns 0 or a negative errno.
 */
int store_start(struct store *store, const struct store *from);
/* Stops the maintenance thread, if started, after all other threads have ended their work. */
void store_stop(struct store *store);

/*
 * Gives the pages of extents that region_extend() has mapped to the heap, up to @count: from now on
 * items are stored there, and region.bytes grows. One thread at a time; none of the threads that
 * use the store waits for it.
 */
void store_open_extents(struct store *store, unsigned int count);
/*
 * Asks the maintenance thread, which must run, to empty all extents from @count on, at least 1 and
 * fewer than there are (EXTENT-2). Returns 0; -EBUSY if that is under way already; -ENOSPC if the
 * index would take more than half of the rest, or with eviction off what is stored can't fit it.
 * The functions for extents are called by one thread at a time, store_open_extents() not while
 * extents are being closed; none waits.
 */
int store_close_extents(struct store *store, unsigned int count);
/* Opens the extents again, unless they are closed by then: EXTENTS_IDLE. */
void store_close_cancel(struct store *store);
/* How far that is. Of EXTENTS_FAILED, writes the reason to @why. Any thread. */
enum extents_state store_extents_state(const struct store *store, char *why, size_t size);

/* Items in the store. Any thread. */
uint64_t store_items(const struct store *store);
/*
 * Raises new versions to those of a store that starts now, with this @random (CLOCK-1). They are so
 * from a grace period on. Any thread.
 */
void store_renew_versions(struct store *store, uint64_t random);
/* Sets table.clock_base to that of another store. Before threads start. */
void store_set_clock(struct store *store, uint64_t clock_base);
/* The server's clock, in nanoseconds since 1970. Any thread. */
uint64_t store_clock_ns(const struct store *store);
/*
 * Writes the clock and the number of items to the superblock, for clients. Returns as
 * evicted_tick(). One thread, once a second.
 */
bool store_tick(struct store *store, uint32_t *youngest_s);

/* Writes the word of a fleet's member to the superblock: see region_publish_word(). */
void store_publish_word(struct store *store, const struct fleet_word *word);
/* The word that was written last. False: none, or it is being written: try again. Any thread. */
bool store_word(const struct store *store, struct fleet_word *word);

#endif /* KVD_SERVER_STORE_STORE_H */
