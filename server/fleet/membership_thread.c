/* SPDX-License-Identifier: MIT */
/* Executes the calls of the membership, and applies what follows. */
#include "server/fleet/membership_thread.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/splitmix.h"
#include "server/fleet/fleet_thread.h"
#include "server/fleet/kept_membership.h"

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull
/* A call may take this part of a lease; one endpoint of several, that one. */
#define CALL_SHARE 2
#define TRY_SHARE 8
/*
 * How often the thread looks whether the workers had a turn, in a lease; and before its first word,
 * and while something is dropped.
 */
#define LOOKS 20
#define LOOK_NS (20 * NS_PER_MS)
/* Before memory for a view is asked for again. */
#define MEMORY_WAIT_US 10000

static uint64_t thread_now_ns(const struct membership_thread *thread)
{
	return table_clock_ns(thread->clock);
}

/* What follows from the length of a lease: how long etcd is waited for. */
static void lease_set(struct membership_thread *thread, uint64_t lease_ns)
{
	thread->options.lease_ns = lease_ns;
	thread->registry.timeout_ms = (unsigned int)(lease_ns / CALL_SHARE / NS_PER_MS);
	thread->registry.etcd->try_ms = (unsigned int)(lease_ns / TRY_SHARE / NS_PER_MS);
}

static int etcd_make(struct etcd **etcd, const struct etcd_options *options)
{
	char why[ETCD_WHY_MAX];
	int err = etcd_open(etcd, options, why);

	if (err)
		log_error("fleet.etcd: %s", why);
	return err;
}

/* A view of a copy of @from, which serves nothing. NULL: no memory. */
static struct fleet_view *view_of(const struct membership_thread *thread,
				  const struct fleet_map *from)
{
	struct fleet_view *view;
	struct fleet_map *map;

	if (fleet_map_make(&map, from->head, from->bytes))
		return NULL;
	view = fleet_view_make(map, thread->options.id);
	if (!view)
		fleet_map_free(map);
	return view;
}

/* The view of the first map. */
static int fleet_fill(struct fleet *fleet, const struct membership_thread *thread)
{
	struct fleet_view *view = view_of(thread, thread->first.map);

	if (!view)
		return -ENOMEM;
	memcpy(fleet->id, thread->options.id, sizeof(fleet->id));
	fleet->hash_seed = view->map->head->hash_seed;
	fleet->end_ns = 0;
	fleet->view = view;
	return 0;
}

static int first_read(struct membership_thread *thread)
{
	struct registry_call call = { .kind = REGISTRY_TXN, .reads[true] = REGISTRY_READ_MAP };
	struct registry *registry = &thread->registry;

	memcpy(call.id, thread->options.id, sizeof(call.id));
	registry_execute(registry, &call, &thread->first);
	if (thread->first.outcome != ETCD_SUCCEEDED) {
		log_error("fleet: can't read the map of the fleet %s: %s", registry->name,
			  etcd_why(registry->etcd));
		return thread->first.err ? thread->first.err : -EPROTO;
	}
	if (thread->first.map && thread->first.map->head->lease_ns) {
		lease_set(thread, thread->first.map->head->lease_ns);
		return 0;
	}
	if (thread->first.map)
		thread->first.map_error = "a map without a lease";
	if (thread->first.map_error)
		log_error("fleet: the map of the fleet %s in etcd can't be used: %s",
			  registry->name, thread->first.map_error);
	else
		log_error("fleet: etcd has no fleet %s: make it, once, with kvd --fleet-init",
			  registry->name);
	return -ENOENT;
}

/* A client or a member wants something, or the mover has come to something. */
static void thread_poke(void *arg)
{
	struct membership_thread *thread = arg;

	pthread_mutex_lock(&thread->lock);
	thread->poked = true;
	pthread_cond_signal(&thread->wake);
	pthread_mutex_unlock(&thread->lock);
}

/* What workers use as soon as they run: before the thread does. */
static int locks_init(struct membership_thread *thread)
{
	int err = -pthread_mutex_init(&thread->lock, NULL);

	if (err)
		return err;
	err = fleet_thread_cond_init(&thread->wake);
	if (!err) {
		err = -pthread_mutex_init(&thread->inbox.lock, NULL);
		if (err)
			pthread_cond_destroy(&thread->wake);
	}
	if (err) {
		pthread_mutex_destroy(&thread->lock);
		return err;
	}
	thread->inbox.wake = thread_poke;
	thread->inbox.thread = thread;
	thread->fleet->inbox = &thread->inbox;
	return 0;
}

int membership_thread_open(struct membership_thread *thread, const struct etcd_options *etcd,
			   const char *name, const struct membership_options *options,
			   struct fleet *fleet)
{
	int err;

	thread->options = *options;
	thread->fleet = fleet;
	err = locks_init(thread);
	if (err)
		return err;
	strncpy(thread->registry.name, name, FLEET_NAME_MAX);
	err = etcd_make(&thread->registry.etcd, etcd);
	if (!err) {
		/* So that the members of etcd share the load, of which few serve many. */
		etcd_prefer(thread->registry.etcd, XXH3_64bits(options->id, FLEET_NAME_MAX));
		/* Until the map is read, which says how long it is. */
		lease_set(thread, options->lease_ns);
		err = first_read(thread);
	}
	if (!err)
		err = fleet_fill(fleet, thread);
	if (err == -ENOMEM)
		log_error("fleet: no memory for its map");
	if (err)
		membership_thread_close(thread);
	return err;
}

static struct fleet_view *view_try(const struct membership_thread *thread,
				   const struct membership_changes *changes)
{
	struct fleet_view *view = view_of(thread, changes->map);

	if (!view)
		return NULL;
	memcpy(view->served, changes->served->bits, sizeof(view->served));
	if (changes->frozen) {
		memcpy(view->frozen, changes->frozen->bits, sizeof(view->frozen));
		view->freezes = !shard_set_empty(changes->frozen);
	}
	for (uint32_t i = 0; i < changes->accept_count; i++)
		view->accepts[i] = changes->accepts[i];
	view->accept_count = changes->accept_count;
	view->own = changes->own;
	view->takes = changes->takes;
	return view;
}

/* Whether the view serves a shard that the last one neither served nor had frozen. */
static bool view_gains(const struct fleet_view *last, const struct fleet_view *view)
{
	uint64_t gains = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		gains |= view->served[i] & ~(last->served[i] | last->frozen[i]);
	return gains;
}

/* Nothing may be done before the view is published, so it waits for memory. */
static void view_publish(struct membership_thread *thread, const struct membership_changes *changes)
{
	struct fleet_view *view = view_try(thread, changes);

	while (!view) {
		log_ratelimited(LOG_ERROR, 1, "fleet: no memory for its map");
		usleep(MEMORY_WAIT_US);
		view = view_try(thread, changes);
	}
	/* Before a client gets a version: FLEET-10. */
	if (view_gains(thread->fleet->view, view))
		fleet_stores_raise(thread->stores, splitmix_mix(view->map->head->epoch) ^
							   thread->options.incarnation);
	fleet_publish(thread->fleet, view);
}

/* The workers' end is never after that which clients see. */
static void word_publish(struct membership_thread *thread, const struct fleet_word *word)
{
	if (!word->end_ns)
		atomic_store_explicit(&thread->fleet->end_ns, 0, memory_order_relaxed);
	fleet_stores_word(thread->stores, word);
	atomic_store_explicit(&thread->fleet->end_ns, word->end_ns, memory_order_relaxed);
	thread->has_served |= word->end_ns != 0;
}

/* MEMBERSHIP-10 */
static void thread_keep(struct membership_thread *thread)
{
	const struct fleet_map *map;
	struct membership_kept kept;

	if (!thread->file)
		return;
	map = membership_keep(thread->member, &kept);
	if (memcmp(&kept, &thread->kept, sizeof(kept)) != 0 &&
	    !kept_membership_write(thread->file, thread->keep, &kept, map))
		thread->kept = kept;
}

static void thread_apply(struct membership_thread *thread)
{
	struct membership_changes changes;
	struct membership_move move;

	membership_changes(thread->member, &changes);
	thread_keep(thread);
	if (changes.map)
		view_publish(thread, &changes);
	if (changes.drop) {
		fleet_stores_drop(thread->stores, changes.drop->bits);
		thread->drops = true;
	}
	if (changes.has_word)
		word_publish(thread, &changes.word);
	/* A frozen shard is so only now that the view is published. */
	membership_move(thread->member, &move);
	mover_order(&thread->mover, &move);
}

static void thread_call(struct membership_thread *thread, const struct registry_call *call)
{
	/* Before the call: sleep from now on counts against the word that it extends. */
	uint64_t sent_ns = thread_now_ns(thread);
	struct registry_result result;

	registry_execute(&thread->registry, call, &result);
	membership_done(thread->member, &result, etcd_why(thread->registry.etcd), sent_ns,
			thread_now_ns(thread));
	registry_result_release(&result);
	thread_apply(thread);
}

/* What the mover has come to. */
static void report_take(struct membership_thread *thread)
{
	struct mover_report report;

	if (!mover_report(&thread->mover, &report))
		return;
	switch (report.news) {
	case MOVER_ASKED:
		membership_asked(thread->member, report.id);
		break;
	case MOVER_COPIED:
		membership_copied(thread->member, report.id);
		break;
	case MOVER_CONFIRMED:
		membership_confirmed(thread->member, report.id, report.own);
		break;
	case MOVER_FAILED:
		membership_move_failed(thread->member, report.id, report.why);
		break;
	case MOVER_NONE:
		break;
	}
	thread_apply(thread);
}

static void wants_take(struct membership_thread *thread)
{
	struct fleet_wants wants;

	fleet_wants_take(thread->fleet, &wants);
	if (!wants.look && !wants.accept_epoch && !wants.change)
		return;
	membership_want(thread->member, &wants);
	thread_apply(thread);
}

/* What the workers and the stores have done meanwhile. */
static void thread_look(struct membership_thread *thread)
{
	uint64_t now_ns = thread_now_ns(thread);

	wants_take(thread);
	report_take(thread);
	if (thread->turned(thread->workers)) {
		membership_alive(thread->member);
		thread->turned_ns = now_ns;
		thread->hangs = false;
	} else if (!thread->hangs && now_ns - thread->turned_ns > thread->options.lease_ns) {
		thread->hangs = true;
		log_warn("fleet: a worker has not finished a turn for %" PRIu64
			 " ms: this member serves no key until it has",
			 (uint64_t)((now_ns - thread->turned_ns) / NS_PER_MS));
	}
	if (!thread->drops || !fleet_stores_dropped(thread->stores))
		return;
	thread->drops = false;
	membership_dropped(thread->member);
	thread_apply(thread);
}

/* True: the thread must stop, and was told so just now. */
static bool thread_sleep(struct membership_thread *thread, uint64_t until_ns, bool stopping)
{
	uint64_t now_ns = thread_now_ns(thread), most_ns = thread->options.lease_ns / LOOKS;
	uint64_t sleep_ns = until_ns > now_ns ? until_ns - now_ns : 0, at_ns;
	struct timespec at;
	bool stops;

	if ((thread->drops || !thread->has_served) && most_ns > LOOK_NS)
		most_ns = LOOK_NS;
	at_ns = clock_ns() + (sleep_ns < most_ns ? sleep_ns : most_ns);
	at = (struct timespec){ .tv_sec = (time_t)(at_ns / NS_PER_S),
				.tv_nsec = (long)(at_ns % NS_PER_S) };
	pthread_mutex_lock(&thread->lock);
	membership_status(thread->member, &thread->status);
	if (sleep_ns && !thread->poked && (!thread->stops || stopping))
		pthread_cond_timedwait(&thread->wake, &thread->lock, &at);
	stops = thread->stops;
	thread->poked = false;
	pthread_mutex_unlock(&thread->lock);
	return stops && !stopping;
}

static void *thread_run(void *arg)
{
	struct membership_thread *thread = arg;
	struct registry_call call;
	bool stopping = false;
	uint64_t until_ns;

	/* Not an RCU reader: fleet_publish() waits for grace periods. */
	thread->turned_ns = thread_now_ns(thread);
	thread_apply(thread);
	for (;;) {
		enum membership_next next;

		until_ns = 0;
		thread_look(thread);
		next = membership_next(thread->member, thread_now_ns(thread), (uint64_t)time(NULL),
				       &call, &until_ns);
		thread_apply(thread);
		if (next == MEMBERSHIP_ENDED)
			break;
		if (next == MEMBERSHIP_CALL) {
			thread_call(thread, &call);
			until_ns = 0;
		}
		if (!thread_sleep(thread, until_ns, stopping))
			continue;
		stopping = true;
		etcd_resume(thread->registry.etcd);
		membership_stop(thread->member);
		thread_apply(thread);
	}
	return NULL;
}

/* Both threads. */
static int threads_start(struct membership_thread *thread)
{
	struct mover *mover = &thread->mover;
	int err;

	mover->stores = thread->stores;
	mover->lease_ns = thread->options.lease_ns;
	mover->wake = thread_poke;
	mover->fleet_thread = thread;
	err = mover_start(mover);
	if (err)
		return err;
	err = fleet_thread_start(&thread->thread, "fleet", thread_run, thread);
	if (err)
		mover_stop(mover);
	return err;
}

int membership_thread_start(struct membership_thread *thread)
{
	struct membership_past past = { 0 };
	struct membership_kept kept;
	int err;

	thread->options.keeps = thread->file;
	if (thread->file)
		kept_membership_read(thread->file, thread->keep, &kept, &past);
	thread->member = membership_create(&thread->options, &thread->first,
					   thread->file ? &past : NULL, thread_now_ns(thread));
	if (!thread->member) {
		fleet_map_free(past.map);
		log_error("fleet: no memory for the membership");
		return -ENOMEM;
	}
	membership_status(thread->member, &thread->status);
	err = threads_start(thread);
	thread->started = !err;
	return err;
}

void membership_thread_stop(struct membership_thread *thread)
{
	if (!thread->started)
		return;
	pthread_mutex_lock(&thread->lock);
	thread->stops = true;
	etcd_interrupt(thread->registry.etcd);
	pthread_cond_signal(&thread->wake);
	pthread_mutex_unlock(&thread->lock);
	pthread_join(thread->thread, NULL);
	mover_stop(&thread->mover);
	thread->started = false;
}

void membership_thread_close(struct membership_thread *thread)
{
	membership_destroy(thread->member);
	thread->member = NULL;
	registry_result_release(&thread->first);
	etcd_close(thread->registry.etcd);
	thread->registry.etcd = NULL;
	if (!thread->inbox.wake)
		return;
	pthread_mutex_destroy(&thread->inbox.lock);
	pthread_cond_destroy(&thread->wake);
	pthread_mutex_destroy(&thread->lock);
	thread->inbox.wake = NULL;
	thread->fleet->inbox = NULL;
}

void membership_thread_status(struct membership_thread *thread, struct membership_status *status,
			      uint64_t *now_ns)
{
	*now_ns = 0;
	*status = (struct membership_status){ 0 };
	if (!thread->started)
		return;
	*now_ns = thread_now_ns(thread);
	pthread_mutex_lock(&thread->lock);
	*status = thread->status;
	pthread_mutex_unlock(&thread->lock);
}
