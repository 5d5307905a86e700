/* SPDX-License-Identifier: MIT */
/*
 * The maintenance thread: a loop that flushes, drops parts of the keys, gives memory to the index,
 * sweeps expired items and compacts slabs, each in portions, and sleeps until the next is due.
 */
#include "server/store/maintenance.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <urcu-qsbr.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "common/util/thread.h"
#include "server/store/access_time.h"
#include "server/store/curve.h"
#include "server/store/evict.h"
#include "server/store/growth.h"
#include "server/store/room.h"
#include "server/store/table_maintain.h"

/* The thread wakes at least this often. */
#define TICK_NS 1000000000ull

/* If finding a flush's version takes longer, it is repeated: FLOOR_MARGIN would not suffice. */
#define FLOOR_NS_MAX 250000u
#define FLOOR_TRIES_MAX 1000

/* Buckets swept in one slice, between two readings of the clock: some 50 us. */
#define SLICE_BUCKETS 64

/* A turn of the loop drops for about this long: MAINTENANCE-5. */
#define DROP_NS 2000000u

/* The index gets memory ahead of its growth: for 1/8 more buckets than it has. */
#define ROOM_AHEAD 8
/* Pause after items in the way of the index could not be moved: doubles from min to max. */
#define RETRY_NS_MIN 10000000ull
#define RETRY_NS_MAX 1000000000ull

/*
 * Slabs are compacted while less than 1/16 of the memory is free pages and more than 1/16 of the
 * item slabs is free blocks.
 */
#define COMPACT_FREE_SHARE 16
/* Slabs compacted in one turn of the loop, so that flushes and sweeps do not wait long. */
#define COMPACT_AT_ONCE 8

static_assert(FLUSHES_MAX * sizeof(struct flush) <= KEEP_FLUSHES_BYTES, "they are kept");

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether the chain holds an item that has expired or was pinned. Without its lock: a hint. */
static bool bucket_is_due(const struct store_thread *thread, uint64_t number)
{
	const struct table *table = thread->table;
	const struct bucket *home = index_bucket(table, number), *bucket;
	const struct item *item;
	unsigned int i;

	chain_for_each(table, bucket, home) {
		for (i = 0; i < BUCKET_SLOTS; i++) {
			uint64_t slot = slot_follow(&bucket->slots[i]);

			if (!slot)
				continue;
			item = slot_item(table, slot);
			if (is_expired(item_expires_load(item), thread->now_ns) ||
			    access_time_is_over(thread, item_access_load(item)))
				return true;
		}
	}
	return false;
}

/*
 * Ends a pass over the index. Buckets that a split has added since are swept with table.growing
 * held: then no split is under way that has moved items and is not in the index size yet. If
 * another thread holds it, the pass does not count for pins (PIN-3 in server/store/pins.h), nor
 * does a pass that relied on hints.
 */
static void sweep_end(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;
	uint64_t number = maintenance->sweep_next;

	maintenance->sweep_next = 0;
	stat_add(&maintenance->stats.sweeps, 1);
	if (atomic_exchange(&table->growing, 1))
		return;
	for (; number < index_buckets(table); number++)
		table_sweep_bucket(&maintenance->store_thread, number, 0);
	atomic_store(&table->growing, 0);
	if (maintenance->sweep_locks)
		pins_swept(table->pins, maintenance->sweep_began_ns / PIN_UNIT_NS);
}

/* Sweeps a slice, and sets when the next may begin, by sweep_share (MAINTENANCE-1). */
static void sweep_slice(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;
	uint64_t start = cpu_ns(), buckets = index_buckets(table), spent;
	unsigned int n;

	if (!maintenance->sweep_next) {
		maintenance->sweep_began_ns = maintenance->store_thread.now_ns;
		maintenance->sweep_locks = pins_want_sweep(table->pins);
	}
	for (n = 0; n < SLICE_BUCKETS && maintenance->sweep_next < buckets;
	     n++, maintenance->sweep_next++)
		if (maintenance->sweep_locks ||
		    bucket_is_due(&maintenance->store_thread, maintenance->sweep_next))
			table_sweep_bucket(&maintenance->store_thread, maintenance->sweep_next, 0);
	spent = cpu_ns() - start;
	stat_add(&maintenance->stats.sweep_cpu_us, (spent + 999) / 1000);
	maintenance->sweep_next_ns = clock_ns() + spent * (100 - maintenance->sweep_share) /
							  maintenance->sweep_share;
	if (maintenance->sweep_next < buckets)
		return;
	sweep_end(maintenance);
	/* Expiry times are whole seconds: another pass within one second would find little. */
	if (maintenance->sweep_next_ns < clock_ns() + TICK_NS / 2)
		maintenance->sweep_next_ns = clock_ns() + TICK_NS / 2;
}

/* Returns when the sweep continues; 0: no item has an expiry time, and pins need no sweep. */
static uint64_t sweep(struct maintenance *maintenance)
{
	if (!table_sum(maintenance->table, offsetof(struct store_thread, stats.expiring)) &&
	    !pins_want_sweep(maintenance->table->pins))
		return 0;
	if (clock_ns() >= maintenance->sweep_next_ns)
		sweep_slice(maintenance);
	return maintenance->sweep_next_ns;
}

/* Gives the index a step of memory: items in it are moved or, with eviction, evicted. */
static bool index_give_step(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;
	struct emptying emptying;

	if (index_extend(table))
		return true;
	if (!mem_evacuation_begin_index(&emptying.evacuation, table->memory,
					INDEX_STEP * BUCKET_BYTES))
		return false;
	emptying.make_room = table->eviction == EVICTION_NONE ? NULL : room_ready; /* EVICT-1 */
	evict_evacuate(&maintenance->store_thread, &emptying, table->eviction != EVICTION_NONE);
	if (!mem_evacuation_end_index(&emptying.evacuation))
		return false;
	atomic_fetch_add(&table->buckets_max, INDEX_STEP);
	stat_add(&maintenance->stats.index_steps, 1);
	return true;
}

/* Between parts of long work: lets grace periods end, reads the clock. No item or bucket in use. */
static void maintenance_quiesce(struct maintenance *maintenance)
{
	rcu_quiescent_state();
	store_thread_clock(&maintenance->store_thread);
}

static void do_index_give_memory(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;
	uint64_t buckets = index_buckets(table);

	while (atomic_load(&table->buckets_max) < buckets + INDEX_STEP + buckets / ROOM_AHEAD) {
		maintenance_quiesce(maintenance);
		if (!index_give_step(maintenance))
			break;
	}
	if (atomic_load(&table->buckets_max) > buckets) {
		maintenance->room_retry_ns = 0;
		atomic_store(&table->room_wanted, false);
		return;
	}
	maintenance->room_retry_ns = maintenance->room_retry_ns ? 2 * maintenance->room_retry_ns :
								  RETRY_NS_MIN;
	if (maintenance->room_retry_ns > RETRY_NS_MAX)
		maintenance->room_retry_ns = RETRY_NS_MAX;
	maintenance->room_next_ns = clock_ns() + maintenance->room_retry_ns;
}

/* Returns when to try again; 0: there is enough room. */
static uint64_t index_give_memory(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;

	if (!atomic_load(&table->room_wanted))
		return 0;
	if (clock_ns() < maintenance->room_next_ns)
		return maintenance->room_next_ns;
	/* A thread that splits holds it, too, while it reads and raises buckets_max. */
	if (atomic_exchange(&table->growing, 1))
		return clock_ns() + RETRY_NS_MIN;
	do_index_give_memory(maintenance);
	atomic_store(&table->growing, 0);
	return atomic_load(&table->room_wanted) ? maintenance->room_next_ns : 0;
}

/*
 * Compacts slabs if they are sparse and something was allocated since the last time. True: there is
 * more to do.
 */
static bool compact(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;
	uint64_t allocated = table_sum(table, offsetof(struct store_thread, cache.allocated_bytes));
	struct memory_stats stats;
	unsigned int i;

	if (allocated == maintenance->compact_allocated)
		return false;
	memory_stats(table->memory, &stats);
	if (stats.free > memory_bytes(table->memory) / COMPACT_FREE_SHARE ||
	    stats.item_slabs_free < stats.item_slabs / COMPACT_FREE_SHARE) {
		maintenance->compact_allocated = allocated;
		return false;
	}
	for (i = 0; i < COMPACT_AT_ONCE && evict_compact(&maintenance->store_thread); i++)
		stat_add(&maintenance->stats.compactions, 1);
	if (i == COMPACT_AT_ONCE)
		return true;
	maintenance->compact_allocated = allocated;
	return false;
}

static bool is_owners(const struct flush *flush, const char *owner)
{
	return flush->ticket && flush->later && !strcmp(flush->owner, owner);
}

/*
 * MAINTENANCE-4: a place for a new flush, or the flush without a delay that has not begun. NULL:
 * there is no place.
 */
static struct flush *do_flush_place(struct maintenance *maintenance, bool later, const char *owner)
{
	unsigned int count = 0, owners = 0;
	struct flush *place = NULL;

	for (unsigned int i = 0; i < FLUSHES_MAX; i++) {
		struct flush *flush = &maintenance->waiting[i];

		if (!flush->ticket)
			place = place ? place : flush;
		else if (!later && !flush->later && !flush->begun)
			return flush;
		count += flush->ticket && flush->later;
		owners += is_owners(flush, owner);
	}
	if (later && (count == WIRE_FLUSHES_LATER_MAX || owners == WIRE_FLUSHES_OWNER_MAX))
		return NULL;
	return place;
}

/* Stores a flush that has changed for the next process; the ticket says that it is whole. */
static void flush_keep(struct maintenance *maintenance, const struct flush *flush)
{
	struct keep_head *head = maintenance->table->region->keep.head;
	struct flush *kept;

	if (!maintenance->kept)
		return;
	kept = &maintenance->kept[flush - maintenance->waiting];
	head->ticket = maintenance->ticket;
	__atomic_store_n(&kept->ticket, 0, __ATOMIC_RELEASE);
	memcpy((uint8_t *)kept + sizeof(kept->ticket),
	       (const uint8_t *)flush + sizeof(kept->ticket), sizeof(*kept) - sizeof(kept->ticket));
	__atomic_store_n(&kept->ticket, flush->ticket, __ATOMIC_RELEASE);
}

uint64_t maintenance_flush(struct maintenance *maintenance, uint64_t now_ns, uint32_t delay_s,
			   const char *owner)
{
	uint64_t ticket = 0;
	struct flush *flush;

	pthread_mutex_lock(&maintenance->lock);
	flush = do_flush_place(maintenance, delay_s, owner);
	if (flush && !flush->ticket) {
		*flush = (struct flush){
			.ticket = ++maintenance->ticket,
			.at_ns = now_ns + delay_s * 1000000000ull,
			.later = delay_s,
		};
		snprintf(flush->owner, sizeof(flush->owner), "%s", owner);
		flush_keep(maintenance, flush);
	}
	if (flush)
		ticket = flush->ticket;
	pthread_mutex_unlock(&maintenance->lock);
	table_wake_maintenance(maintenance->table);
	return ticket;
}

unsigned int maintenance_cancel(struct maintenance *maintenance, uint64_t ticket, const char *owner)
{
	unsigned int count = 0;

	pthread_mutex_lock(&maintenance->lock);
	for (unsigned int i = 0; i < FLUSHES_MAX; i++) {
		struct flush *flush = &maintenance->waiting[i];

		if (!flush->ticket || !flush->later || flush->begun ||
		    (ticket && flush->ticket != ticket) || (owner && !is_owners(flush, owner)))
			continue;
		flush->ticket = 0;
		flush_keep(maintenance, flush);
		count++;
	}
	pthread_mutex_unlock(&maintenance->lock);
	return count;
}

unsigned int maintenance_waiting(struct maintenance *maintenance,
				 struct flush flushes[WIRE_FLUSHES_LATER_MAX])
{
	unsigned int count = 0;

	pthread_mutex_lock(&maintenance->lock);
	for (unsigned int i = 0; i < FLUSHES_MAX; i++)
		if (maintenance->waiting[i].ticket && maintenance->waiting[i].later)
			flushes[count++] = maintenance->waiting[i];
	pthread_mutex_unlock(&maintenance->lock);
	return count;
}

bool maintenance_flushed(struct maintenance *maintenance, uint64_t ticket)
{
	bool done;
	unsigned int i;

	pthread_mutex_lock(&maintenance->lock);
	done = ticket && ticket <= maintenance->ticket;
	for (i = 0; i < FLUSHES_MAX; i++)
		done = done && maintenance->waiting[i].ticket != ticket;
	pthread_mutex_unlock(&maintenance->lock);
	return done;
}

/* Whoever recovers the store after a kill removes what this flush would have. */
static void keep_flushing(const struct table *table, uint64_t clock)
{
	if (table->region->keep.head)
		atomic_store(&table->region->keep.head->flushing, clock);
}

/*
 * Returns a version that separates the items stored before this call, which have at most that one,
 * from those stored after it returns. A thread that has read the floor makes no version at or below
 * it, and after a grace period all threads have read it. An item that a thread stores before it has
 * read the floor counts as older than the flush, which is under way, and so must have a version at
 * or below the floor. It has: a change reads the floor first, and makes one version, so once the
 * floor is stored each thread makes at most one more version without it. And all threads together
 * make fewer than FLOOR_MARGIN versions in FLOOR_NS_MAX, the time from reading the counters to
 * storing the floor: if it takes this thread longer, it begins again. So it does if another thread
 * has raised the floor meanwhile, for a copy.
 *
 * The floor alone does not say that an item must be removed, since a copy keeps its version, which
 * may be far below: table.flushing does, while the flush is under way. A change must not heed one
 * of the two without the other: with the floor alone it would give an old item a version that
 * survives the flush, with `flushing` alone it would remove the item, and store one that the flush
 * removes. So `flushing` is stored first and read last, and whoever finds it set takes it for the
 * floor as well (do_lookup() in attempt.c): a thread that has read this floor, or a higher one,
 * finds it set, as each raise is a read-modify-write. Nor does a late view of it matter: it is read
 * under the lock of the bucket, which orders it after what was stored there once the flush had
 * ended.
 */
static uint64_t flush_version(struct table *table)
{
	unsigned int tries = 0;
	uint64_t start, floor, clock;
	bool raised;

	do {
		start = clock_ns();
		floor = atomic_load(&table->version_floor);
		clock = table_clock_max(table) + FLOOR_MARGIN;
		atomic_store(&table->flushing, clock);
		keep_flushing(table, clock);
		raised = atomic_compare_exchange_strong(&table->version_floor, &floor, clock);
	} while (!raised || (clock_ns() - start > FLOOR_NS_MAX && ++tries < FLOOR_TRIES_MAX));
	atomic_fetch_add(&table->flushes, 1);
	synchronize_rcu();
	return clock << THREAD_ID_BITS | ((1u << THREAD_ID_BITS) - 1);
}

/*
 * Removes all items with at most the version that separates. A bucket that is split meanwhile moves
 * items to a new last bucket, which the loop comes to later. The last buckets are swept with
 * table.growing held: then no split is under way that has moved items and is not in the index size
 * yet.
 */
static void flush_all(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;
	uint64_t version = flush_version(table), number = 0;

	for (; number < index_buckets(table); number++) {
		if (number % SLICE_BUCKETS == 0)
			maintenance_quiesce(maintenance);
		table_sweep_bucket(&maintenance->store_thread, number, version);
	}
	/* The thread that holds table.growing may be waiting for a grace period. */
	while (atomic_exchange(&table->growing, 1))
		rcu_quiescent_state();
	for (; number < index_buckets(table); number++)
		table_sweep_bucket(&maintenance->store_thread, number, version);
	atomic_store(&table->growing, 0);
	atomic_store(&table->flushing, 0);
	keep_flushing(table, 0);
	if (table->curve)
		curve_clear(table->curve);
}

/* Marks due flushes as begun, if @begin. Returns how many; *@next: when the next is due. */
static unsigned int flushes_begin(struct maintenance *maintenance, bool begin, uint64_t *next)
{
	uint64_t now = maintenance->store_thread.now_ns;
	unsigned int count = 0;

	pthread_mutex_lock(&maintenance->lock);
	for (unsigned int i = 0; i < FLUSHES_MAX; i++) {
		struct flush *flush = &maintenance->waiting[i];

		if (!flush->ticket)
			continue;
		if (flush->at_ns <= now) {
			flush->begun = begin;
			flush_keep(maintenance, flush);
			count++;
		} else if (!*next || flush->at_ns < *next) {
			*next = flush->at_ns;
		}
	}
	pthread_mutex_unlock(&maintenance->lock);
	return count;
}

static void flushes_end(struct maintenance *maintenance)
{
	pthread_mutex_lock(&maintenance->lock);
	for (unsigned int i = 0; i < FLUSHES_MAX; i++)
		if (maintenance->waiting[i].begun) {
			maintenance->waiting[i] = (struct flush){ 0 };
			flush_keep(maintenance, &maintenance->waiting[i]);
		}
	pthread_mutex_unlock(&maintenance->lock);
}

/*
 * Does all flushes that are due as one, at least FLUSH_NS_MIN after the last. Returns the
 * clock_ns() at which the next is due; 0: none waits.
 */
static uint64_t flush_due(struct maintenance *maintenance)
{
	uint64_t next = 0, now = maintenance->store_thread.now_ns, local = clock_ns();
	bool begin = local >= maintenance->flush_next_ns;
	unsigned int n = flushes_begin(maintenance, begin, &next);

	if (n && !begin)
		return maintenance->flush_next_ns;
	if (n) {
		maintenance->flush_next_ns = local + FLUSH_NS_MIN;
		flush_all(maintenance);
		stat_add(&maintenance->stats.flushes, n);
		flushes_end(maintenance);
	}
	return next ? local + (next - now) : 0;
}

static void parts_add(uint64_t *to, const uint64_t *parts)
{
	for (unsigned int i = 0; i < KEY_PARTS_WORDS; i++)
		to[i] |= parts[i];
}

void maintenance_drop(struct maintenance *maintenance, const uint64_t parts[KEY_PARTS_WORDS])
{
	pthread_mutex_lock(&maintenance->lock);
	parts_add(maintenance->drop_parts, parts);
	maintenance->drop_wanted = true;
	pthread_mutex_unlock(&maintenance->lock);
	table_wake_maintenance(maintenance->table);
}

bool maintenance_drops(struct maintenance *maintenance, uint64_t parts[KEY_PARTS_WORDS])
{
	bool drops;

	pthread_mutex_lock(&maintenance->lock);
	drops = maintenance->drop_wanted || maintenance->drop_runs;
	if (parts) {
		memcpy(parts, maintenance->drop_parts, sizeof(maintenance->drop_parts));
		if (maintenance->drop_runs)
			parts_add(parts, maintenance->drop_now);
	}
	pthread_mutex_unlock(&maintenance->lock);
	return drops;
}

/* Begins a drop of all that is wanted, unless one runs. False: there is none. */
static bool drop_begin(struct maintenance *maintenance)
{
	bool runs;

	pthread_mutex_lock(&maintenance->lock);
	if (maintenance->drop_wanted && !maintenance->drop_runs) {
		memcpy(maintenance->drop_now, maintenance->drop_parts,
		       sizeof(maintenance->drop_now));
		memset(maintenance->drop_parts, 0, sizeof(maintenance->drop_parts));
		maintenance->drop_wanted = false;
		maintenance->drop_runs = true;
		maintenance->drop_next = 0;
	}
	runs = maintenance->drop_runs;
	pthread_mutex_unlock(&maintenance->lock);
	return runs;
}

/*
 * Drops from the next buckets until @until_ns. A bucket that is split meanwhile moves items to a
 * new last bucket, which comes later. True: all buckets are done.
 */
static bool drop_slices(struct maintenance *maintenance, uint64_t until_ns)
{
	struct table *table = maintenance->table;

	while (maintenance->drop_next < index_buckets(table)) {
		table_drop_bucket(&maintenance->store_thread, maintenance->drop_next,
				  maintenance->drop_now);
		if (++maintenance->drop_next % SLICE_BUCKETS)
			continue;
		maintenance_quiesce(maintenance);
		if (clock_ns() >= until_ns)
			return false;
	}
	return true;
}

/*
 * Ends a pass: as in flush_all(), the last buckets are swept with table.growing held. False:
 * another thread holds it.
 */
static bool drop_end(struct maintenance *maintenance)
{
	struct table *table = maintenance->table;

	if (atomic_exchange(&table->growing, 1))
		return false;
	for (; maintenance->drop_next < index_buckets(table); maintenance->drop_next++)
		table_drop_bucket(&maintenance->store_thread, maintenance->drop_next,
				  maintenance->drop_now);
	atomic_store(&table->growing, 0);
	pthread_mutex_lock(&maintenance->lock);
	maintenance->drop_runs = false;
	pthread_mutex_unlock(&maintenance->lock);
	return true;
}

/* Returns when to go on; 0: no drop was asked for. */
static uint64_t drop(struct maintenance *maintenance)
{
	if (!drop_begin(maintenance))
		return 0;
	if (!drop_slices(maintenance, clock_ns() + DROP_NS))
		return 1; /* at once */
	/* A split takes some microseconds. */
	if (!drop_end(maintenance))
		return clock_ns() + RETRY_NS_MIN;
	return 1;
}

/* Makes *@when no later than @limit, unless that is 0. */
static void wake_by(uint64_t *when, uint64_t limit)
{
	if (limit && limit < *when)
		*when = limit;
}

/* One turn of the loop: does what is due and returns the clock_ns() of the next turn. */
static uint64_t maintenance_turn(struct maintenance *maintenance)
{
	uint64_t when = clock_ns() + TICK_NS;

	store_thread_clock(&maintenance->store_thread);
	access_time_advance_pins(&maintenance->store_thread);
	wake_by(&when, index_give_memory(maintenance));
	wake_by(&when, flush_due(maintenance));
	wake_by(&when, drop(maintenance));
	wake_by(&when, sweep(maintenance));
	wake_by(&when, extents_run(&maintenance->extents, &maintenance->store_thread));
	if (compact(maintenance))
		when = 1; /* at once */
	store_thread_idle(&maintenance->store_thread);
	return when;
}

static void maintenance_wait(struct maintenance *maintenance, uint64_t when)
{
	struct pollfd fd = { maintenance->event_fd, POLLIN, 0 };
	uint64_t now = clock_ns(), ns = when > now ? when - now : 0, count;
	struct timespec timeout = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};

	rcu_thread_offline();
	if (ppoll(&fd, 1, &timeout, NULL) < 0 && errno != EINTR)
		log_error("maintenance: can't wait for work: ppoll: %m");
	rcu_thread_online();
	if (fd.revents && read(maintenance->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_error("maintenance: can't read its eventfd: %m");
}

static void *maintenance_run(void *arg)
{
	struct maintenance *maintenance = arg;

	rcu_register_thread();
	while (!atomic_load_explicit(&maintenance->stop, memory_order_acquire)) {
		maintenance_wait(maintenance, maintenance_turn(maintenance));
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return NULL;
}

/* Of flushes that a killed server had begun, those without a version yet begin again. */
static void flushes_adopt(struct maintenance *maintenance, struct keep *keep)
{
	maintenance->kept = keep->flushes;
	maintenance->ticket = keep->head->ticket;
	for (unsigned int i = 0; i < FLUSHES_MAX; i++) {
		struct flush *flush = &maintenance->waiting[i];

		*flush = maintenance->kept[i];
		if (!flush->ticket || (flush->begun && keep->flushed))
			*flush = (struct flush){ 0 };
		flush->begun = false;
		flush_keep(maintenance, flush);
	}
}

int maintenance_init(struct maintenance *maintenance, struct table *table, uint8_t id,
		     uint32_t sweep_share, const struct maintenance *from)
{
	struct keep *keep = &table->region->keep;
	int err;

	memset(maintenance, 0, sizeof(*maintenance));
	maintenance->table = table;
	if (keep->head)
		flushes_adopt(maintenance, keep);
	if (from) {
		memcpy(maintenance->waiting, from->waiting, sizeof(from->waiting));
		maintenance->ticket = from->ticket;
		for (unsigned int i = 0; i < FLUSHES_MAX; i++)
			flush_keep(maintenance, &maintenance->waiting[i]);
	}
	maintenance->sweep_share = sweep_share;
	pthread_mutex_init(&maintenance->lock, NULL);
	maintenance->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (maintenance->event_fd < 0) {
		err = -errno;
		log_error("maintenance: can't create an eventfd: %m; raise the limit of open "
			  "files (ulimit -n)");
		maintenance->table = NULL;
		return err;
	}
	err = store_thread_init(&maintenance->store_thread, table, id);
	if (err) {
		close(maintenance->event_fd);
		maintenance->table = NULL;
		return err;
	}
	table->wake_fd = maintenance->event_fd;
	return 0;
}

int maintenance_start(struct maintenance *maintenance)
{
	int err;

	atomic_store(&maintenance->stop, false);
	err = thread_start(&maintenance->thread, "maintenance", maintenance_run, maintenance);
	if (err)
		log_error("maintenance: can't start its thread: %s; raise the limit of processes "
			  "(ulimit -u)",
			  strerror(-err));
	maintenance->started = !err;
	return err;
}

void maintenance_stop(struct maintenance *maintenance)
{
	if (!maintenance->started)
		return;
	atomic_store_explicit(&maintenance->stop, true, memory_order_release);
	table_wake_maintenance(maintenance->table);
	pthread_join(maintenance->thread, NULL);
	maintenance->started = false;
}

void maintenance_release(struct maintenance *maintenance)
{
	if (!maintenance->table)
		return;
	maintenance->table->wake_fd = -1;
	extents_release(&maintenance->extents);
	store_thread_release(&maintenance->store_thread);
	close(maintenance->event_fd);
	pthread_mutex_destroy(&maintenance->lock);
	maintenance->table = NULL;
}
