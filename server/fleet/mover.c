/* SPDX-License-Identifier: MIT */
/* Copies items to the member that gets their shards. */
#include "server/fleet/mover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <urcu-qsbr.h>

#include "client/libkvd/copy.h"
#include "common/util/clock.h"
#include "common/util/heap.h"
#include "common/util/log.h"
#include "server/fleet/fleet_thread.h"

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull
/* Of a call, which may copy a value of 1 GiB, and of a connection. */
#define CALL_MS 10000
#define CONNECT_MS 2000
/* A target that does not take shards is asked for this long, with these pauses. */
#define ASK_NS (10 * NS_PER_S)
#define ASK_PAUSE_NS (5 * NS_PER_MS)
/* Copies outstanding at a time. */
#define DEPTH 256
/* Items are read from the store in pages; a value that is longer than a page by itself. */
#define READ_BYTES (256u << 10)
#define READ_LEFT_MIN (64u << 10)
/* How long a store is held at a time, by a scan that finds little. */
#define SCAN_NS (2 * NS_PER_MS)
/* Segments that are cleared and copied again at a time. */
#define PORTION_SEGMENTS 256u
/* What may be left to copy while the shards are frozen: segments, or as long as that takes. */
#define MARKED_FEW 256u
#define FREEZE_NS (100 * NS_PER_MS)
/* After these rounds twice as long, then twice that, up to this part of a lease. */
#define PATIENCE_ROUNDS 8
#define FREEZE_SHARE 4
/* How often marked segments are copied while the membership waits for the end of old words. */
#define ROUND_PAUSE_NS (20 * NS_PER_MS)

/* A store that is copied. */
struct copier {
	struct store *store;
	char tenant[WIRE_TENANT_MAX + 1];
	struct moving *moving;
	struct store_thread reader;
	struct kvd *handle;
	uint64_t cursor;
	uint32_t from;	    /* segments before it were copied again in this round */
	bool begun, copied; /* BEGIN was OK; the first pass is over */
};

/* The move under way; the thread's own. */
struct job {
	struct mover *mover;
	struct mover_order order; /* as taken last */
	struct copier *copiers;
	unsigned int count;
	uint64_t changes;  /* of the stores, when the move began */
	uint64_t until_ns; /* until when the target is asked; 0: it was not yet */
	/* Of the round: when it began, segments that were copied, the copier whose turn it is. */
	uint64_t round_ns, copied;
	unsigned int at, rounds; /* rounds: that are over */
	uint8_t *page;
	bool failed, marks, told; /* `told`: what the state wants was reported */
};

static void report_put(struct job *job, enum mover_news news, int64_t own, const char *why)
{
	struct mover *mover = job->mover;

	pthread_mutex_lock(&mover->lock);
	mover->report = (struct mover_report){ .news = news, .id = job->order.id, .own = own };
	snprintf(mover->report.why, sizeof(mover->report.why), "%s", why);
	pthread_mutex_unlock(&mover->lock);
	job->told = true;
	mover->wake(mover->fleet_thread);
}

/* Always false. */
__attribute__((format(printf, 2, 3))) static bool job_fail(struct job *job, const char *format, ...)
{
	char why[MOVER_WHY_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	job->failed = true;
	report_put(job, MOVER_FAILED, 0, why);
	return false;
}

static bool call_fail(struct job *job, const struct copier *copier)
{
	return job_fail(job, "%s: %s", job->order.target, kvd_error(copier->handle));
}

/* fleet_stores_hold(). False: the stores have changed, and the job has failed. */
static bool stores_hold(struct job *job)
{
	return fleet_stores_hold(job->mover->stores, job->changes) ||
	       job_fail(job, "a tenant was made, resized or dropped meanwhile");
}

/* Reads a store, until reading_end(). False: as stores_hold(). */
static bool reading_begin(struct job *job, struct copier *copier)
{
	if (!stores_hold(job))
		return false;
	rcu_thread_online();
	store_thread_clock(&copier->reader);
	return true;
}

static void reading_end(struct job *job)
{
	rcu_thread_offline();
	fleet_stores_let_go(job->mover->stores);
}

/* A store that has left the list marks nothing any more: fleet_stores_remove(). */
static void marks_end(struct job *job)
{
	struct fleet_stores *stores = job->mover->stores;
	struct store *store;
	unsigned int count;

	if (!job->marks)
		return;
	fleet_stores_lock(stores, &count);
	TAILQ_FOREACH(store, &stores->list, entry)
		moving_end(&store->table);
	fleet_stores_let_go(stores);
	synchronize_rcu();
	job->marks = false;
}

/* After marks_end(): no thread uses it any more. tests/tsan.supp names this function. */
static void moving_free(struct moving *moving)
{
	heap_free(moving);
}

static void job_end(struct job *job)
{
	marks_end(job);
	for (unsigned int i = 0; i < job->count; i++) {
		kvd_close(job->copiers[i].handle);
		moving_free(job->copiers[i].moving);
	}
	heap_free(job->copiers);
	job->copiers = NULL;
	job->count = 0;
	job->order = (struct mover_order){ 0 };
	job->failed = job->told = false;
	job->until_ns = 0;
	job->copied = 0;
	job->at = job->rounds = 0;
}

static void options_fill(struct kvd_options *options, const char *tenant)
{
	kvd_options_init(options);
	options->timeout_ms = CALL_MS;
	options->connect_timeout_ms = CONNECT_MS;
	options->cache_bytes = 0;
	options->spin_us = 0;
	options->depth = DEPTH;
	options->reconnect = 0;
	options->tenant = tenant;
}

/* Tries one URL of the target after another. */
static bool copier_connect(struct job *job, struct copier *copier)
{
	char urls[FLEET_URLS_MAX + 1], *rest = urls, *url;
	struct fleet_tls_paths paths;
	struct kvd_options options;

	options_fill(&options, copier->tenant);
	fleet_tls_get(job->mover->tls, &paths, &options);
	strcpy(urls, job->order.urls);
	while ((url = strsep(&rest, ",")))
		if (!kvd_open(&copier->handle, url, &options))
			return true;
	return job_fail(job, "%s: %s", job->order.target, kvd_error(NULL));
}

static bool copiers_make(struct job *job)
{
	struct fleet_stores *stores = job->mover->stores;
	struct store *store;

	job->changes = fleet_stores_lock(stores, &job->count);
	job->copiers = heap_calloc(job->count + 1, sizeof(*job->copiers));
	job->count = 0;
	TAILQ_FOREACH(store, &stores->list, entry) {
		struct copier *copier = job->copiers ? &job->copiers[job->count++] : NULL;

		if (!copier)
			break;
		copier->store = store;
		strcpy(copier->tenant, store->tenant);
		store_reader_init(&copier->reader, &store->table);
		copier->moving = heap_calloc(1, sizeof(*copier->moving));
	}
	fleet_stores_let_go(stores);
	for (unsigned int i = 0; i < job->count; i++)
		if (!job->copiers[i].moving)
			return job_fail(job, "out of memory");
	return job->copiers || job_fail(job, "out of memory");
}

/*
 * Whether the target answers OK to MOVE @mode, on each connection. False: not yet, and it is asked
 * again after a pause; or the job has failed.
 */
static bool target_agrees(struct job *job, struct copier *copier, enum wire_move mode)
{
	enum kvd_status status = copy_move(copier->handle, mode,
					   mode == WIRE_MOVE_BEGIN ? job->order.epoch : 0,
					   mode == WIRE_MOVE_BEGIN ? job->order.generation : 0,
					   NULL);
	uint64_t now_ns = clock_ns();

	if (!status)
		return true;
	if (status != KVD_ERR_BUSY)
		return call_fail(job, copier);
	if (!job->until_ns)
		job->until_ns = now_ns + ASK_NS;
	return now_ns < job->until_ns ? false :
					job_fail(job, "%s takes no shards now", job->order.target);
}

static bool job_ask(struct job *job)
{
	if (!job->copiers) {
		if (!copiers_make(job))
			return false;
		for (unsigned int i = 0; i < job->count; i++)
			if (!copier_connect(job, &job->copiers[i]))
				return false;
	}
	for (unsigned int i = 0; i < job->count; i++)
		if (!target_agrees(job, &job->copiers[i], WIRE_MOVE_ASK))
			return false;
	job->until_ns = 0;
	report_put(job, MOVER_ASKED, 0, "");
	return true;
}

/* The target has accepted the shards; from now on changes are marked. */
static bool marks_begin(struct job *job)
{
	if (!stores_hold(job))
		return false;
	for (unsigned int i = 0; i < job->count; i++) {
		struct copier *copier = &job->copiers[i];

		/* The shards that were closed need not be those that the target was asked for. */
		memcpy(copier->moving->parts, job->order.shards.bits, sizeof(job->order.shards));
		moving_begin(&copier->store->table, copier->moving);
	}
	fleet_stores_let_go(job->mover->stores);
	job->marks = true;
	synchronize_rcu();
	return true;
}

static bool job_begin(struct job *job)
{
	for (unsigned int i = 0; i < job->count; i++) {
		struct copier *copier = &job->copiers[i];

		if (!copier->begun)
			copier->begun = target_agrees(job, copier, WIRE_MOVE_BEGIN);
		if (!copier->begun)
			return false;
	}
	job->until_ns = 0;
	return job->marks || marks_begin(job);
}

/* The time that an item has left. False: it has expired. */
static bool ttl_of(const struct copier *copier, uint32_t expires, uint32_t *ttl)
{
	const uint64_t now_ns = copier->reader.now_ns, end_ns = expires * NS_PER_S;
	uint64_t left_s;

	*ttl = 0;
	if (!expires)
		return true;
	if (end_ns <= now_ns)
		return false;
	left_s = (end_ns - now_ns + NS_PER_S - 1) / NS_PER_S;
	*ttl = (uint32_t)(left_s < WIRE_TTL_MAX ? left_s : WIRE_TTL_MAX);
	return true;
}

static bool copies_settle(struct job *job, struct copier *copier)
{
	return !copy_settle(copier->handle) || call_fail(job, copier);
}

/* An item as a scan has found it. */
struct found {
	struct wire_entry entry;
	const uint8_t *key; /* the value follows it, if it was sent */
};

static bool item_send(struct job *job, struct copier *copier, const struct found *found,
		      const uint8_t *value)
{
	const struct wire_entry *entry = &found->entry;
	struct copy_item item = {
		.key = found->key,
		.key_len = entry->key_len,
		.value = value,
		.value_len = entry->value_len,
		.flags = entry->item_flags,
		.version = entry->version,
		.use = wire_use_pack((enum wire_use)entry->use, entry->uses, entry->age),
	};

	if (!ttl_of(copier, entry->expires, &item.ttl))
		return true;
	return !copy_put(copier->handle, &item) || call_fail(job, copier);
}

/*
 * Reads a value that did not fit a page. False: the job has failed, or the item has changed, and
 * its segment is marked.
 */
static bool value_read(struct job *job, struct copier *copier, const struct found *found,
		       uint8_t *value)
{
	const uint32_t key_len = found->entry.key_len, value_len = found->entry.value_len;
	enum wire_status status = WIRE_OK;
	uint64_t at = 0, hash;
	struct item_ref ref;
	uint32_t len;

	while (at < value_len && !status) {
		if (!reading_begin(job, copier))
			return false;
		hash = table_hash(copier->reader.table, found->key, key_len);
		status = lookup_get_part(&copier->reader, hash, found->key, key_len, at, value + at,
					 value_len - at < READ_BYTES ? value_len - at : READ_BYTES,
					 &ref, &len);
		reading_end(job);
		if (!status && (ref.front.item.version != found->entry.version || !len))
			return false;
		at += status ? 0 : len;
	}
	/* Nothing may mark it then. */
	if (status == WIRE_BUSY)
		return job_fail(job, "an item can't be read");
	return !status;
}

static bool large_send(struct job *job, struct copier *copier, const struct found *found)
{
	uint8_t *value = heap_alloc(found->entry.value_len);
	bool sent = true;

	if (!value)
		return job_fail(job, "no memory for a value of %" PRIu32 " bytes",
				found->entry.value_len);
	if (value_read(job, copier, found, value))
		sent = item_send(job, copier, found, value) && copies_settle(job, copier);
	heap_free(value);
	return sent && !job->failed;
}

/* Sends what a scan has found; it stays in the page until all copies are answered. */
static bool found_send(struct job *job, struct copier *copier, const struct scan *scan)
{
	struct found found;
	uint32_t at = 0;
	bool sent = true;

	while (sent && (found.key = scan_copy_next(scan, &at, &found.entry)))
		sent = found.entry.value_sent == found.entry.value_len ?
			       item_send(job, copier, &found, found.key + found.entry.key_len) :
			       large_send(job, copier, &found);
	return sent;
}

/*
 * Copies a part of a scan, whose items are in the page from @used on. *@scan goes on from there;
 * its cursor is 0 and *@over is true at the end.
 */
static bool part_copy(struct job *job, struct copier *copier, struct scan *scan, uint32_t used,
		      bool *over)
{
	const uint64_t from = scan->cursor;
	enum wire_status status;

	scan->buffer = job->page + used;
	scan->size = READ_BYTES - used;
	scan->until_ns = clock_ns() + SCAN_NS;
	if (!reading_begin(job, copier))
		return false;
	status = table_scan(&copier->reader, scan);
	reading_end(job);
	if (status && status != WIRE_BUSY)
		return job_fail(job, "the store can't be scanned");
	*over = !status && !scan->cursor;
	/* What it has found until then is found again. */
	if (status) {
		scan->cursor = from;
		scan->used = 0;
	}
	return found_send(job, copier, scan);
}

static struct scan scan_of(const struct copier *copier, uint64_t cursor, uint64_t end)
{
	return (struct scan){
		.values = true,
		.copies = true,
		.parts = copier->moving->parts,
		.cursor = cursor,
		.end = end,
	};
}

/* A page of the first pass. */
static bool page_copy(struct job *job, struct copier *copier)
{
	struct scan scan = scan_of(copier, copier->cursor, 0);

	if (!part_copy(job, copier, &scan, 0, &copier->copied) || !copies_settle(job, copier))
		return false;
	copier->cursor = scan.cursor;
	return true;
}

static bool segment_copy(struct job *job, struct copier *copier, uint32_t segment, uint32_t *used)
{
	struct scan scan = scan_of(copier, segment_begin(segment), segment_end(segment));
	bool over;

	do {
		if (*used > READ_BYTES - READ_LEFT_MIN) {
			if (!copies_settle(job, copier))
				return false;
			*used = 0;
		}
		if (!part_copy(job, copier, &scan, *used, &over))
			return false;
		*used += scan.used;
	} while (!over);
	return true;
}

/*
 * Copies some marked segments again, from copier->from on, which moves. *@count: how many; 0: none
 * was left.
 */
static bool portion_copy(struct job *job, struct copier *copier, uint32_t *count)
{
	uint32_t segments[PORTION_SEGMENTS], used = 0, n = 0;

	while (n < PORTION_SEGMENTS && moving_take(copier->moving, &copier->from))
		segments[n++] = copier->from;
	for (uint32_t i = 0; i < n; i++)
		if (copy_clear(copier->handle, segments[i]))
			return call_fail(job, copier);
	if (!copies_settle(job, copier))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!segment_copy(job, copier, segments[i], &used))
			return false;
	*count = n;
	job->copied += n;
	return copies_settle(job, copier);
}

static uint32_t marked(const struct job *job)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < job->count; i++)
		sum += moving_marked(job->copiers[i].moving);
	return sum;
}

/* MOVER-3. Whether what is marked can be copied soon, as fast as in the last round. */
static bool is_little(const struct job *job, uint64_t round_ns)
{
	const uint64_t left = marked(job), most_ns = job->mover->lease_ns / FREEZE_SHARE;
	const unsigned int more = job->rounds / PATIENCE_ROUNDS;
	uint64_t freeze_ns = more < 8 ? FREEZE_NS << more : most_ns;

	if (freeze_ns > most_ns)
		freeze_ns = most_ns;
	return left <= MARKED_FEW || left * round_ns / (job->copied + 1) <= freeze_ns;
}

/* A round is over: each mark that was there when it began was taken. The next one begins. */
static void round_end(struct job *job)
{
	const uint64_t now_ns = clock_ns();

	if (!job->told && is_little(job, now_ns - job->round_ns))
		report_put(job, MOVER_COPIED, 0, "");
	for (unsigned int i = 0; i < job->count; i++)
		job->copiers[i].from = 0;
	job->round_ns = now_ns;
	job->copied = 0;
	job->at = 0;
	job->rounds++;
}

/* One portion of a copy that clients may still change. */
static void job_copy(struct job *job)
{
	uint32_t count;

	if (!job_begin(job))
		return;
	for (unsigned int i = 0; i < job->count; i++)
		if (!job->copiers[i].copied) {
			page_copy(job, &job->copiers[i]);
			job->round_ns = clock_ns();
			return;
		}
	if (job->at < job->count && portion_copy(job, &job->copiers[job->at], &count) && !count)
		job->at++;
	if (job->at == job->count)
		round_end(job);
}

/* Whether the membership has given the move up meanwhile, or the thread has to stop. */
static bool is_over(const struct job *job)
{
	struct mover *mover = job->mover;
	bool over;

	pthread_mutex_lock(&mover->lock);
	over = mover->stops || mover->order.id != job->order.id ||
	       mover->order.state != job->order.state;
	pthread_mutex_unlock(&mover->lock);
	return over;
}

/*
 * MOVER-2. What was marked when the shards were frozen; what is marked later may be left out.
 * *@own: as END has it.
 */
static bool copier_finish(struct job *job, struct copier *copier, uint64_t *own)
{
	uint64_t clock;
	uint32_t count;

	copier->from = 0;
	do {
		if (is_over(job) || !portion_copy(job, copier, &count))
			return false;
	} while (count);
	if (!reading_begin(job, copier))
		return false;
	clock = table_clock_max(copier->reader.table);
	reading_end(job);
	return !copy_move(copier->handle, WIRE_MOVE_END, clock, 0, own) || call_fail(job, copier);
}

static void job_finish(struct job *job)
{
	uint64_t own = 0, first = 0;

	for (unsigned int i = 0; i < job->count; i++) {
		if (!copier_finish(job, &job->copiers[i], &own))
			return;
		first = i ? first : own;
		if (own != first) {
			job_fail(job, "%s registered again meanwhile", job->order.target);
			return;
		}
	}
	report_put(job, MOVER_CONFIRMED, (int64_t)own, "");
}

/* Does a portion of what the order says. Returns when to go on: UINT64_MAX: after another order. */
static uint64_t job_work(struct job *job)
{
	const uint64_t began_ns = clock_ns();

	if (job->failed)
		return UINT64_MAX;
	switch (job->order.state) {
	case MOVE_ASK:
		if (job->told || job_ask(job))
			return UINT64_MAX;
		return clock_ns() + ASK_PAUSE_NS;
	case MOVE_COPY:
		job_copy(job);
		if (job->until_ns)
			return clock_ns() + ASK_PAUSE_NS;
		if (job->told && !job->at)
			return clock_ns() + ROUND_PAUSE_NS;
		return job->rounds < PATIENCE_ROUNDS ? 2 * clock_ns() - began_ns : 0;
	case MOVE_FROZEN:
		if (!job->told)
			job_finish(job);
		return UINT64_MAX;
	default:
		return UINT64_MAX;
	}
}

/* A member that was given shards looks at etcd at once; if this fails, soon. */
static void job_hint(struct job *job)
{
	if (job->count && !job->failed)
		copy_move(job->copiers[0].handle, WIRE_MOVE_ASK, 0, 0, NULL);
}

static void order_take(struct job *job, const struct mover_order *order)
{
	if (job->order.id == order->id && order->state != MOVE_NONE) {
		job->told = job->told && job->order.state == order->state;
		job->order = *order;
		return;
	}
	if (job->order.id && job->order.state == MOVE_GIVE)
		job_hint(job);
	job_end(job);
	job->order = *order;
	/* Only a move that this thread has seen from its begin can go on. */
	if (order->state != MOVE_NONE && order->state != MOVE_ASK)
		job_fail(job, "the move was begun by another thread");
}

/* Waits for another order, or until @until_ns. False: the thread ends. */
static bool order_wait(struct job *job, uint64_t until_ns)
{
	struct mover *mover = job->mover;
	struct mover_order order;
	struct timespec at = { .tv_sec = (time_t)(until_ns / NS_PER_S),
			       .tv_nsec = (long)(until_ns % NS_PER_S) };
	bool stops, same;

	pthread_mutex_lock(&mover->lock);
	for (;;) {
		same = mover->order.id == job->order.id && mover->order.state == job->order.state;
		stops = mover->stops;
		if (stops || !same)
			break;
		if (until_ns == UINT64_MAX)
			pthread_cond_wait(&mover->changed, &mover->lock);
		else if (pthread_cond_timedwait(&mover->changed, &mover->lock, &at))
			break;
	}
	order = mover->order;
	pthread_mutex_unlock(&mover->lock);
	if (!same && !stops)
		order_take(job, &order);
	return !stops;
}

static void *mover_run(void *arg)
{
	struct job job = { .mover = arg };

	rcu_register_thread();
	rcu_thread_offline();
	job.page = heap_alloc(READ_BYTES);
	while (order_wait(&job, job.page ? job_work(&job) : UINT64_MAX))
		;
	job_end(&job);
	heap_free(job.page);
	rcu_unregister_thread();
	return NULL;
}

int mover_start(struct mover *mover)
{
	int err = -pthread_mutex_init(&mover->lock, NULL);

	if (err)
		return err;
	err = fleet_thread_cond_init(&mover->changed);
	if (!err) {
		err = fleet_thread_start(&mover->thread, "mover", mover_run, mover);
		if (err)
			pthread_cond_destroy(&mover->changed);
	}
	if (err)
		pthread_mutex_destroy(&mover->lock);
	mover->started = !err;
	return err;
}

void mover_stop(struct mover *mover)
{
	if (!mover->started)
		return;
	pthread_mutex_lock(&mover->lock);
	mover->stops = true;
	pthread_cond_signal(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
	pthread_join(mover->thread, NULL);
	pthread_cond_destroy(&mover->changed);
	pthread_mutex_destroy(&mover->lock);
	mover->started = false;
}

void mover_order(struct mover *mover, const struct membership_move *move)
{
	struct mover_order *order = &mover->order;

	pthread_mutex_lock(&mover->lock);
	if (move->id != order->id || move->state != order->state) {
		*order = (struct mover_order){
			.state = move->state,
			.id = move->id,
			.generation = move->generation,
			.epoch = move->epoch,
		};
		if (move->state != MOVE_NONE) {
			memcpy(order->target, move->target, FLEET_NAME_MAX);
			snprintf(order->urls, sizeof(order->urls), "%s", move->urls);
			order->shards = *move->shards;
		}
		pthread_cond_signal(&mover->changed);
	}
	pthread_mutex_unlock(&mover->lock);
}

bool mover_report(struct mover *mover, struct mover_report *report)
{
	pthread_mutex_lock(&mover->lock);
	*report = mover->report;
	mover->report.news = MOVER_NONE;
	pthread_mutex_unlock(&mover->lock);
	return report->news != MOVER_NONE;
}
